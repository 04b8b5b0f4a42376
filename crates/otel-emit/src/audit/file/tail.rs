//! Where a log that is found stands.

use super::error::AuditError;
use super::folder::audit_files;
use crate::audit::hash::Hash;
use crate::audit::lines::Lines;
use crate::audit::stored::{Stored, Unreadable};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The last record stands in so much of a file, as a rule.
const END: u64 = 64 * 1024;

/// The last record of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

/// The newest file, to be gone on with.
#[derive(Debug)]
pub(super) struct Newest {
    pub(super) path: PathBuf,
    /// When its first record was written; none where it has none.
    pub(super) began: Option<SystemTime>,
    /// Whether its last line has no newline: the writer was killed while it wrote.
    pub(super) is_torn: bool,
}

/// Something at the end of a log that nobody who writes it leaves there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Odd {
    path: PathBuf,
    line: u64,
    what: &'static str,
}

impl Odd {
    /// Tells of it: the log is gone on with behind it, and verifying it will tell of it too.
    pub(super) fn tell(&self) {
        tracing::warn!(
            event = "audit_end_damaged",
            file = %self.path.display(),
            line = self.line,
            what = self.what,
            "the audit log does not end as it was written; it goes on after its last record"
        );
    }
}

/// Where a log was found to stand.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) newest: Option<Newest>,
    /// None where there is no record.
    pub(super) tail: Option<Tail>,
    pub(super) odd: Option<Odd>,
}

/// Looks for the end of the log in `folder`.
///
/// # Errors
/// What the system says, and [`AuditError::LaterVersion`]: nobody knows how to go on there.
pub(super) fn find(folder: &Path) -> Result<Found, AuditError> {
    let files = audit_files(folder).map_err(AuditError::io("read", folder))?;
    let Some(path) = files.last() else {
        return Ok(Found::default());
    };
    let mut found = Found {
        newest: Some(newest(path).map_err(AuditError::io("read", path))?),
        ..Found::default()
    };
    for path in files.iter().rev() {
        let end = End::of(path).map_err(AuditError::io("read", path))?;
        let path = path.clone();
        match end.odd {
            Some((line, Oddity::Later)) => return Err(AuditError::LaterVersion { path, line }),
            Some((line, Oddity::Damage(what))) => {
                found.odd.get_or_insert(Odd { path, line, what });
            }
            None => {}
        }
        if end.last.is_some() {
            found.tail = end.last;
            break;
        }
    }
    Ok(found)
}

fn newest(path: &Path) -> std::io::Result<Newest> {
    let mut file = File::open(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    file.seek(SeekFrom::Start(0))?;
    let first = first_record(file.take(length))?;
    Ok(Newest {
        path: path.to_owned(),
        began: first.and_then(|record| SystemTime::try_from(record.time()?).ok()),
        is_torn: last != *b"\n",
    })
}

/// What a line is that stands where a record should.
#[derive(Debug, Clone, Copy)]
enum Oddity {
    /// A record of a later version.
    Later,
    /// Something that nobody wrote.
    Damage(&'static str),
}

/// What a file ends with.
#[derive(Debug, Default)]
struct End {
    /// Its last record.
    last: Option<Tail>,
    /// What is odd about it or stands behind it, and in which line.
    odd: Option<(u64, Oddity)>,
}

impl End {
    fn of(path: &Path) -> std::io::Result<Self> {
        let mut file = File::open(path)?;
        let length = file.seek(SeekFrom::End(0))?;
        let from = length.saturating_sub(END);
        file.seek(SeekFrom::Start(from))?;
        let mut end = Self::default();
        end.read((&file).take(length), from > 0)?;
        if end.last.is_none() && from > 0 {
            file.seek(SeekFrom::Start(0))?;
            end = Self::default();
            end.read((&file).take(length), false)?;
        } else if let Some((line, _)) = &mut end.odd {
            file.seek(SeekFrom::Start(0))?;
            *line += newlines((&file).take(from))?;
        }
        Ok(end)
    }

    /// A line that is the beginning of a record, because its writer was killed, is not odd;
    /// nor is one whose own beginning is cut off.
    fn read(&mut self, from: impl Read, is_cut: bool) -> std::io::Result<()> {
        let mut lines = Lines::new(BufReader::new(from));
        while let Some(line) = lines.next()? {
            if is_cut && line.number == 1 {
                continue;
            }
            match Stored::read(line.text) {
                Ok(record) => {
                    let changed = Oddity::Damage("its hash is not that of what it says");
                    self.odd = (!record.is_sound()).then_some((line.number, changed));
                    self.last = Some(Tail {
                        seq: record.seq,
                        hash: record.link(),
                    });
                }
                Err(Unreadable::Later) => self.odd = Some((line.number, Oddity::Later)),
                Err(Unreadable::Torn) if line.is_whole => {}
                Err(Unreadable::Torn | Unreadable::Garbled) => {
                    let garbled = Oddity::Damage("the line is no record");
                    self.odd.get_or_insert((line.number, garbled));
                }
            }
        }
        Ok(())
    }
}

fn newlines(from: impl Read) -> std::io::Result<u64> {
    let mut from = BufReader::new(from);
    let mut count = 0;
    loop {
        let piece = from.fill_buf()?;
        if piece.is_empty() {
            return Ok(count);
        }
        count += memchr::memchr_iter(b'\n', piece).count() as u64;
        let length = piece.len();
        from.consume(length);
    }
}

/// The first record of what follows.
fn first_record(from: impl Read) -> std::io::Result<Option<Stored>> {
    let mut lines = Lines::new(BufReader::new(from));
    while let Some(line) = lines.next()? {
        if let Ok(record) = Stored::read(line.text) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}
