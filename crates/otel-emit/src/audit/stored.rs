//! A record as it is read back.

use super::hash::Hash;
use serde_json::{Map, Value};
use std::io;

/// One line of a log that is a record.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its number.
    pub seq: u64,
    /// What it says of the hash before it.
    pub prev: Option<Hash>,
    /// What it says its own is.
    pub hash: Option<Hash>,
    /// What its own is.
    pub computed: Hash,
    /// All of its members but `hash`.
    pub members: Map<String, Value>,
}

/// Why a line is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It is the beginning of one: its writer was killed, or the disk was full.
    Torn,
    /// It is a record as a later version writes them.
    Later,
    /// It is something else.
    Garbled,
}

/// The form of records that is read, and written.
const VERSION: u64 = 1;

/// Whether these are the members of a record that a later version wrote.
fn is_later(members: &Map<String, Value>) -> bool {
    let version = members.get("v").and_then(Value::as_u64);
    version.is_some_and(|version| version > VERSION)
}

/// Whether writing these members gives the line. What parsing passes over, a hash of what
/// was parsed does not hold: a member that is there twice, white space, another way to write
/// a sign or a number.
fn writes(members: &Map<String, Value>, line: &[u8]) -> bool {
    let mut rest = Rest(line);
    serde_json::to_writer(&mut rest, members).is_ok() && rest.0.is_empty()
}

/// Takes only the bytes that come next.
struct Rest<'a>(&'a [u8]);

impl io::Write for Rest<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self
            .0
            .strip_prefix(bytes)
            .ok_or(io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stored {
    /// Reads a line, without its newline.
    pub(super) fn read(line: &[u8]) -> Result<Self, Unreadable> {
        // White space around a record would be nobody's.
        let is_whole = line.first() == Some(&b'{') && line.last() == Some(&b'}');
        let parsed: Result<Map<String, Value>, _> = serde_json::from_slice(line);
        match parsed {
            Ok(members) if is_later(&members) => Err(Unreadable::Later),
            Ok(members) if is_whole && writes(&members, line) => {
                Self::of(members).ok_or(Unreadable::Garbled)
            }
            Err(error) if error.is_eof() => Err(Unreadable::Torn),
            _ => Err(Unreadable::Garbled),
        }
    }

    fn of(mut members: Map<String, Value>) -> Option<Self> {
        if members.get("v")?.as_u64()? != VERSION {
            return None;
        }
        let seq = members.get("seq")?.as_u64()?;
        let hash = match members.shift_remove("hash") {
            Some(hash) => Some(hash.as_str()?.parse().ok()?),
            None => None,
        };
        let prev = match members.get("prev") {
            Some(prev) => Some(prev.as_str()?.parse().ok()?),
            None => None,
        };
        let canonical = serde_json_canonicalizer::to_vec(&members).ok()?;
        Some(Self {
            seq,
            prev,
            hash,
            computed: Hash::of(&canonical),
            members,
        })
    }

    /// Whether it is what was written, as far as it can say so of itself.
    pub(super) fn is_sound(&self) -> bool {
        self.hash.is_none_or(|hash| hash == self.computed)
    }

    /// What the record after it has as `prev`.
    pub(super) fn link(&self) -> Hash {
        self.hash.unwrap_or(self.computed)
    }

    /// A text member.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.members.get(key)?.as_str()
    }

    /// A text member of a member.
    pub fn text_in(&self, of: &str, key: &str) -> Option<&str> {
        self.members.get(of)?.get(key)?.as_str()
    }

    /// Its time.
    pub fn time(&self) -> Option<jiff::Timestamp> {
        self.text("time")?.parse().ok()
    }
}
