//! The order of records, and the hashes that hold it.

use super::id::Text64;
use super::kind::RecordKind;
use super::record::Record;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;

/// A SHA-256, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

/// A text that is no SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256: expected 64 lower-case hexadecimal digits")]
pub struct InvalidHash;

impl Hash {
    /// What the very first record of a log has in place of the hash before it.
    pub const ZERO: Self = Self([0; 32]);

    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(InvalidHash),
        };
        let mut hash = [0; 32];
        if text.len() != 64 {
            return Err(InvalidHash);
        }
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(hash))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a log stands: what its next record is to carry.
#[derive(Debug, Clone)]
pub struct Chain {
    next: u64,
    last: Hash,
    is_hashed: bool,
    instance: Text64,
}

/// A record as its line of the log, with its place in it.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// The line, with the newline at its end.
    pub line: Vec<u8>,
    /// Its number.
    pub seq: u64,
    /// Its hash; of a log that is not hashed too.
    pub hash: Hash,
    /// What it tells of.
    pub kind: RecordKind,
}

impl Chain {
    /// The beginning of a log. `instance` names the process, as the resource
    /// attribute `service.instance.id` does; 64 characters of it are written.
    /// Where `is_hashed` is false records carry no hashes.
    pub fn new(instance: &str, is_hashed: bool) -> Self {
        Self {
            next: 0,
            last: Hash::ZERO,
            is_hashed,
            instance: Text64::new(instance),
        }
    }

    /// The same where the last record of the log has that number and hash.
    #[must_use]
    pub fn after(self, seq: u64, hash: Hash) -> Self {
        Self {
            next: seq.saturating_add(1),
            last: hash,
            ..self
        }
    }

    /// The number of the next record.
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    /// The hash of the last one.
    pub fn last_hash(&self) -> Hash {
        self.last
    }

    /// Gives a record the next place.
    ///
    /// # Errors
    /// A number in it that JSON has no word for; the place is not taken.
    pub fn seal(&mut self, mut record: Record) -> Result<Sealed, serde_json::Error> {
        record.seq = self.next;
        record.instance = self.instance.clone();
        record.prev = self.is_hashed.then_some(self.last);
        let hash = Hash::of(&serde_json_canonicalizer::to_vec(&record)?);
        record.hash = self.is_hashed.then_some(hash);
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        self.next = self.next.saturating_add(1);
        self.last = hash;
        Ok(Sealed {
            line,
            seq: record.seq,
            hash,
            kind: record.kind,
        })
    }
}
