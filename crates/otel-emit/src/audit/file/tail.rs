//! Where a log that is found stands.

use super::error::AuditError;
use super::folder::audit_files;
use crate::audit::hash::Hash;
use crate::audit::lines::Lines;
use crate::audit::stored::Stored;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
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

/// Looks for the end of the log in `folder`.
pub(super) fn find(folder: &Path) -> Result<(Option<Newest>, Option<Tail>), AuditError> {
    let files = audit_files(folder).map_err(AuditError::io("read", folder))?;
    let Some(path) = files.last() else {
        return Ok((None, None));
    };
    let newest = newest(path).map_err(AuditError::io("read", path))?;
    for path in files.iter().rev() {
        let tail = last_record(path).map_err(AuditError::io("read", path))?;
        if tail.is_some() {
            return Ok((Some(newest), tail));
        }
    }
    Ok((Some(newest), None))
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
    let first = records(file.take(length), false)?;
    Ok(Newest {
        path: path.to_owned(),
        began: first.and_then(|record| SystemTime::try_from(record.time()?).ok()),
        is_torn: last != *b"\n",
    })
}

/// The last record of a file; none where it has none.
fn last_record(path: &Path) -> std::io::Result<Option<Tail>> {
    let mut file = File::open(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    // A line that the window cuts is no record, and what it would be stands before.
    for from in [length.saturating_sub(END), 0] {
        file.seek(SeekFrom::Start(from))?;
        let last = records((&file).take(length), true)?;
        if let Some(last) = last {
            return Ok(Some(Tail {
                seq: last.seq,
                hash: last.link(),
            }));
        }
    }
    Ok(None)
}

/// The first record of what follows, or the last.
fn records(from: impl Read, last: bool) -> std::io::Result<Option<Stored>> {
    let mut lines = Lines::new(BufReader::new(from));
    let mut found = None;
    while let Some(line) = lines.next()? {
        if let Ok(record) = Stored::read(line.text) {
            found = Some(record);
            if !last {
                break;
            }
        }
    }
    Ok(found)
}
