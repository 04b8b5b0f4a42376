//! Is a log what was written?

use super::hash::Hash;
use super::lines::{Line, Lines};
use super::stored::{Stored, Unreadable};
use std::fmt;
use std::io::{self, BufRead};
use std::str::FromStr;
use std::sync::Arc;

/// Faults that are told one by one; of more only the number.
const MOST_TOLD: usize = 100;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named.
    pub file: Arc<str>,
    /// From 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it was seen.
    pub place: Place,
    /// What it is.
    pub kind: FaultKind,
}

/// What is not as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A record's hash is not that of what it says.
    Changed {
        /// Its number.
        seq: u64,
    },
    /// A line is no record, nor the beginning of one.
    Garbled,
    /// A line is the beginning of a record, and the record after it is not the one that
    /// would follow. Where nothing comes before, the file before may say more.
    Cut,
    /// Records are not there.
    Missing {
        /// The first of them.
        from: u64,
        /// The last.
        to: u64,
    },
    /// A record stands after one that came later.
    OutOfOrder {
        /// Its number.
        seq: u64,
    },
    /// A record is there twice.
    Duplicate {
        /// Its number.
        seq: u64,
    },
    /// The hash before it, as a record has it, is not that of the record before it: one
    /// of the two, or all before it, are others than were written.
    Unlinked {
        /// Its number.
        seq: u64,
    },
    /// A line is a record as a later version of evenkeel writes them.
    LaterVersion,
    /// Records carry no hashes, and those before them do or there are none before them.
    Unchained {
        /// The number of the first.
        seq: u64,
    },
    /// The log does not hold the record that a checkpoint names.
    NotReached {
        /// Its number.
        seq: u64,
    },
    /// The record that a checkpoint names has another hash.
    OtherThanPublished {
        /// Its number.
        seq: u64,
    },
}

impl FaultKind {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed { .. } => "changed",
            Self::Garbled => "garbled",
            Self::Cut => "cut",
            Self::Missing { .. } => "missing",
            Self::OutOfOrder { .. } => "out_of_order",
            Self::Duplicate { .. } => "duplicate",
            Self::Unlinked { .. } => "unlinked",
            Self::LaterVersion => "later_version",
            Self::Unchained { .. } => "unchained",
            Self::NotReached { .. } => "not_reached",
            Self::OtherThanPublished { .. } => "other_than_published",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { seq } => {
                write!(
                    f,
                    "record {seq} was changed: its hash is not that of what it says"
                )
            }
            Self::Garbled => f.write_str("the line is no record"),
            Self::Cut => f.write_str(
                "the line is only the beginning of a record, and what comes after does not \
                 follow what came before",
            ),
            Self::Missing { from, to } if from == to => write!(f, "record {from} is missing"),
            Self::Missing { from, to } => write!(f, "records {from} to {to} are missing"),
            Self::OutOfOrder { seq } => {
                write!(
                    f,
                    "record {seq} stands after records that were written later"
                )
            }
            Self::Duplicate { seq } => write!(f, "record {seq} is there twice"),
            Self::Unlinked { seq } => write!(
                f,
                "record {seq} does not follow the record before it: `prev` is not its hash"
            ),
            Self::LaterVersion => f.write_str(
                "the line was written by a later version of evenkeel: this one cannot read it",
            ),
            Self::Unchained { seq } => write!(
                f,
                "from record {seq} on there are no hashes: whether anything was changed cannot be told"
            ),
            Self::NotReached { seq } => write!(
                f,
                "record {seq} of the checkpoint is not there: the log was cut short, or begins later"
            ),
            Self::OtherThanPublished { seq } => {
                write!(f, "record {seq} has another hash than the checkpoint says")
            }
        }
    }
}

/// What a log was once said to hold: a record's number and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The number.
    pub seq: u64,
    /// The hash.
    pub hash: Hash,
}

/// A text that is no checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a checkpoint: expected SEQ:HASH as the log line `audit_checkpoint` has them")]
pub struct InvalidCheckpoint;

impl FromStr for Checkpoint {
    type Err = InvalidCheckpoint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (seq, hash) = text.split_once(':').ok_or(InvalidCheckpoint)?;
        Ok(Self {
            seq: seq.parse().map_err(|_| InvalidCheckpoint)?,
            hash: hash.parse().map_err(|_| InvalidCheckpoint)?,
        })
    }
}

/// Where what was read begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the very first record of the log.
    Beginning,
    /// With a later one: whether those before it are what was written is not known.
    Later {
        /// Its number.
        seq: u64,
        /// What it says of the hash before it.
        prev: Option<Hash>,
    },
}

/// What was found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Verdict {
    /// Files that were read.
    pub files: u64,
    /// Records in them.
    pub records: u64,
    /// Of these, those without hashes.
    pub unchained: u64,
    /// Records that were lost when the log could not be written, as it says itself.
    pub lost: u64,
    /// Where they begin; none where there is no record.
    pub start: Option<Start>,
    /// The last of them, to be published or kept.
    pub last: Option<Checkpoint>,
    /// Beginnings of records: the writer was killed, or the disk was full, and what was
    /// written next follows what was written before.
    pub torn: Vec<Place>,
    /// The first hundred faults, in the order they were met.
    pub faults: Vec<Fault>,
    /// All of them.
    pub fault_count: u64,
}

impl Verdict {
    /// Whether the log is what was written.
    pub fn is_sound(&self) -> bool {
        self.fault_count == 0
    }
}

/// Reads the files of one log in their order and says what is wrong with them. Its memory
/// does not grow with the log.
#[derive(Debug, Default)]
pub struct Verifier {
    verdict: Verdict,
    checkpoint: Option<Checkpoint>,
    is_checkpoint_met: bool,
    /// Whether records may carry no hashes.
    allows_unchained: bool,
    /// The last record that was in order.
    before: Option<Before>,
    /// A line that begins a record, until it is known what comes after.
    torn: Option<(Place, bool)>,
    last_place: Option<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Before {
    seq: u64,
    link: Hash,
    is_hashed: bool,
}

impl Verifier {
    /// One that has read nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that also asks for a record that is known.
    pub fn with_checkpoint(checkpoint: Checkpoint) -> Self {
        Self {
            checkpoint: Some(checkpoint),
            ..Self::default()
        }
    }

    /// The same of a log that is written without hashes (`chain = false`), or was for a
    /// while: that records carry none is no fault then, and only their numbers are checked.
    #[must_use]
    pub fn allowing_unchained(self) -> Self {
        Self {
            allows_unchained: true,
            ..self
        }
    }

    /// Reads the next file.
    ///
    /// # Errors
    /// The file cannot be read on.
    pub fn read(&mut self, name: &str, from: impl BufRead) -> io::Result<()> {
        let file: Arc<str> = Arc::from(name);
        let mut lines = Lines::new(from);
        self.verdict.files += 1;
        while let Some(line) = lines.next()? {
            let place = Place {
                file: file.clone(),
                line: line.number,
            };
            self.line(&line, place);
        }
        Ok(())
    }

    /// What was found.
    pub fn finish(mut self) -> Verdict {
        if let Some((place, is_ended)) = self.torn.take() {
            // Whoever closes a torn line writes a record behind it.
            if is_ended {
                self.fault(place, FaultKind::Cut);
            } else {
                self.verdict.torn.push(place);
            }
        }
        let place = self.last_place.take();
        if let Some(checkpoint) = self.checkpoint.filter(|_| !self.is_checkpoint_met) {
            let file = || Place {
                file: Arc::from(""),
                line: 0,
            };
            let kind = FaultKind::NotReached {
                seq: checkpoint.seq,
            };
            self.fault(place.unwrap_or_else(file), kind);
        }
        self.verdict.last = self.before.map(|before| Checkpoint {
            seq: before.seq,
            hash: before.link,
        });
        self.verdict
    }

    fn line(&mut self, line: &Line<'_>, place: Place) {
        self.last_place = Some(place.clone());
        if !line.is_whole {
            return self.fault(place, FaultKind::Garbled);
        }
        match Stored::read(line.text) {
            Ok(record) => self.record(&record, &place),
            Err(Unreadable::Garbled) => self.fault(place, FaultKind::Garbled),
            Err(Unreadable::Later) => self.fault(place, FaultKind::LaterVersion),
            Err(Unreadable::Torn) => {
                if let Some((earlier, _)) = self.torn.replace((place, line.is_ended)) {
                    // Torn twice with nothing between: the second start was killed as well.
                    self.verdict.torn.push(earlier);
                }
            }
        }
    }

    fn record(&mut self, record: &Stored, place: &Place) {
        self.verdict.records += 1;
        self.verdict.unchained += u64::from(record.hash.is_none());
        self.verdict.lost += lost(record);
        self.meet_checkpoint(record, place);
        if !record.is_sound() {
            self.fault(place.clone(), FaultKind::Changed { seq: record.seq });
        }
        self.check_hashed(record, place);
        let follows = match self.before {
            None => self.first(record, place),
            Some(before) => self.next(before, record, place),
        };
        if let Some((torn, _)) = self.torn.take() {
            if follows {
                self.verdict.torn.push(torn);
            } else {
                self.fault(torn, FaultKind::Cut);
            }
        }
        let is_late = self.before.is_some_and(|before| record.seq <= before.seq);
        if !is_late {
            self.before = Some(Before {
                seq: record.seq,
                link: record.link(),
                is_hashed: record.hash.is_some(),
            });
        }
    }

    /// Of records without hashes that stand together the first is told of.
    fn check_hashed(&mut self, record: &Stored, place: &Place) {
        let is_first = self.before.is_none_or(|before| before.is_hashed);
        if record.hash.is_none() && is_first && !self.allows_unchained {
            self.fault(place.clone(), FaultKind::Unchained { seq: record.seq });
        }
    }

    /// The first record. Says whether a torn line may stand before it.
    fn first(&mut self, record: &Stored, place: &Place) -> bool {
        if record.seq > 0 {
            let (seq, prev) = (record.seq, record.prev);
            self.verdict.start = Some(Start::Later { seq, prev });
            if record.hash.is_some() && prev.is_none() {
                self.fault(place.clone(), FaultKind::Unlinked { seq });
            }
            return false;
        }
        self.verdict.start = Some(Start::Beginning);
        if !is_linked(record, Hash::ZERO) {
            self.fault(place.clone(), FaultKind::Unlinked { seq: 0 });
        }
        true
    }

    /// A later one. Says whether it follows.
    fn next(&mut self, before: Before, record: &Stored, place: &Place) -> bool {
        let seq = record.seq;
        if seq <= before.seq {
            let is_same = seq == before.seq && record.link() == before.link;
            let kind = if is_same {
                FaultKind::Duplicate { seq }
            } else {
                FaultKind::OutOfOrder { seq }
            };
            self.late(place, kind, seq);
            return false;
        }
        if seq > before.seq + 1 {
            let (from, to) = (before.seq + 1, seq - 1);
            self.fault(place.clone(), FaultKind::Missing { from, to });
            return false;
        }
        let follows = is_linked(record, before.link);
        if !follows {
            self.fault(place.clone(), FaultKind::Unlinked { seq });
        }
        follows
    }

    /// A record that comes late was not missing.
    fn late(&mut self, place: &Place, kind: FaultKind, seq: u64) {
        let missing = FaultKind::Missing { from: seq, to: seq };
        let told = self.verdict.faults.iter_mut();
        match told.rev().find(|fault| fault.kind == missing) {
            Some(fault) => {
                *fault = Fault {
                    place: place.clone(),
                    kind,
                }
            }
            None => self.fault(place.clone(), kind),
        }
    }

    fn meet_checkpoint(&mut self, record: &Stored, place: &Place) {
        let Some(checkpoint) = self.checkpoint.filter(|c| c.seq == record.seq) else {
            return;
        };
        self.is_checkpoint_met = true;
        if record.link() != checkpoint.hash {
            let kind = FaultKind::OtherThanPublished { seq: record.seq };
            self.fault(place.clone(), kind);
        }
    }

    fn fault(&mut self, place: Place, kind: FaultKind) {
        self.verdict.fault_count += 1;
        if self.verdict.faults.len() < MOST_TOLD {
            self.verdict.faults.push(Fault { place, kind });
        }
    }
}

/// Whether a record says that it stands behind that hash. One that is hashed has to say
/// behind which.
fn is_linked(record: &Stored, before: Hash) -> bool {
    match record.prev {
        Some(prev) => prev == before,
        None => record.hash.is_none(),
    }
}

/// Records that a record says were lost.
fn lost(record: &Stored) -> u64 {
    let gap = record.members.get("gap");
    gap.and_then(|gap| gap.get("records")?.as_u64())
        .unwrap_or(0)
}
