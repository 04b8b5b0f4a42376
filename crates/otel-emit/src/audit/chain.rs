//! The order of records, and the hashes that hold it.

use super::hash::Hash;
use super::id::Text64;
use super::kind::RecordKind;
use super::record::Record;

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
