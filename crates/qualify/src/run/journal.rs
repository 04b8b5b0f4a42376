//! The journal of a run: what became of every question, one line each.
//!
//! Lines are only ever added. A run that is broken off leaves at most one line that
//! is not whole, its last; whoever goes on cuts it off and asks that question again.

use super::error::RunError;
use super::journal_line::Entry;
use crate::outcome::Outcome;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// No line is longer: an outcome holds a part of an answer only.
const LONGEST_LINE: u64 = 1024 * 1024;

/// A journal that lines are added to.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Lines put together for the next write.
    batch: Vec<u8>,
}

impl Journal {
    /// A new, empty journal in the place of what is at `path`.
    ///
    /// # Errors
    /// [`RunError::Write`] where it cannot be made.
    pub(crate) fn create(path: &Path) -> Result<Self, RunError> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|file| file.set_len(0).map(|()| file));
        Ok(Self {
            file: file.map_err(|source| RunError::write(path, source))?,
            path: path.to_owned(),
            batch: Vec::new(),
        })
    }

    /// Goes on with the journal at `path`: every whole line of it is handed to
    /// `heard`, and a last line that is not whole is cut off.
    ///
    /// # Errors
    /// [`RunError::Journal`] with the first line that is none of this version's, or
    /// where the file cannot be read or written to.
    pub(crate) fn resume(path: &Path, heard: impl FnMut(Entry)) -> Result<Self, RunError> {
        let file = OpenOptions::new().read(true).append(true).open(path);
        let mut file = file.map_err(|source| RunError::read(path, source))?;
        let whole = read_lines(&mut file, path, heard)?;
        let cut = file
            .set_len(whole)
            .and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(|source| RunError::write(path, source))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            batch: Vec::new(),
        })
    }

    /// Adds lines, in one write.
    ///
    /// # Errors
    /// [`RunError::Write`]; what was written before stays.
    pub(crate) fn add<'e>(
        &mut self,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> Result<(), RunError> {
        self.batch.clear();
        for entry in entries {
            entry.write(&mut self.batch);
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.batch);
        written.map_err(|source| self.failed(source))
    }

    /// Sees to it that all lines outlast the machine.
    ///
    /// # Errors
    /// [`RunError::Write`] where the disk refuses.
    pub(crate) fn finish(&self) -> Result<(), RunError> {
        self.file.sync_data().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> RunError {
        RunError::write(&self.path, source)
    }
}

/// Tells the outcomes of the journal at `path`, in the order they were heard in. What
/// nothing was learnt from may be there more than once.
///
/// # Errors
/// [`RunError::Journal`] with the first line that is none of this version's, or where
/// the file cannot be read.
pub(crate) fn read_journal(path: &Path, mut heard: impl FnMut(Outcome)) -> Result<(), RunError> {
    let mut file = File::open(path).map_err(|source| RunError::read(path, source))?;
    read_lines(&mut file, path, |entry| heard(entry.outcome)).map(drop)
}

/// Reads every whole line; how many bytes they are.
fn read_lines(file: &mut File, path: &Path, mut heard: impl FnMut(Entry)) -> Result<u64, RunError> {
    let mut lines = BufReader::with_capacity(64 * 1024, file);
    let (mut whole, mut number, mut line) = (0, 0, Vec::new());
    loop {
        line.clear();
        let read = (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line);
        let read = read.map_err(|source| RunError::read(path, source))?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if line.last() != Some(&b'\n') {
            if read < LONGEST_LINE {
                return Ok(whole);
            }
            return Err(RunError::journal(
                path,
                number + 1,
                "is too long".to_owned(),
            ));
        }
        number += 1;
        line.pop();
        let entry = Entry::read(&line);
        heard(entry.map_err(|what| RunError::journal(path, number, what))?);
        whole += read;
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal_line::tests::entries;
    use super::*;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use std::fs;

    fn some(count: usize) -> Vec<Entry> {
        let mut runner = TestRunner::deterministic();
        let list = prop::collection::vec(entries(), count);
        list.new_tree(&mut runner).unwrap().current()
    }

    fn read(path: &Path) -> Result<Vec<Entry>, RunError> {
        let mut heard = Vec::new();
        Journal::resume(path, |entry| heard.push(entry))?;
        Ok(heard)
    }

    #[test]
    fn lines_outlast_the_process_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let all = some(5);
        let mut journal = Journal::create(&path).unwrap();
        journal.add(&all[..2]).unwrap();
        journal.add(&all[2..4]).unwrap();
        drop(journal);
        let mut heard = Vec::new();
        let mut journal = Journal::resume(&path, |entry| heard.push(entry)).unwrap();
        assert_eq!(heard, all[..4]);
        journal.add(&all[4..]).unwrap();
        journal.finish().unwrap();
        assert_eq!(read(&path).unwrap(), all);
        Journal::create(&path).unwrap();
        assert_eq!(read(&path).unwrap(), [], "begun anew");
    }

    /// As kill -9 or a full disk may leave it, at every byte.
    #[test]
    fn a_torn_last_line_is_cut_off_and_gone_on_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let all = some(3);
        Journal::create(&path).unwrap().add(&all[..2]).unwrap();
        let text = fs::read(&path).unwrap();
        let first = text.iter().position(|b| *b == b'\n').unwrap() + 1;
        for end in first..text.len() {
            fs::write(&path, &text[..end]).unwrap();
            let mut heard = Vec::new();
            let mut journal = Journal::resume(&path, |entry| heard.push(entry)).unwrap();
            assert_eq!(heard, all[..1], "cut at {end}");
            journal.add(&all[2..]).unwrap();
            let both = [all[0].clone(), all[2].clone()];
            assert_eq!(read(&path).unwrap(), both, "cut at {end}");
        }
    }

    #[test]
    fn a_line_that_is_none_is_named_and_nothing_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        Journal::create(&path).unwrap().add(&some(1)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}{{}}\n{text}")).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("journal.jsonl:2: "), "{error}");
        let missing = read(&folder.path().join("none")).unwrap_err();
        assert!(missing.to_string().contains("none"), "{missing}");
    }

    /// A device that is always full stands for a disk that is.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_with_the_file_it_failed_at() {
        let path = Path::new("/dev/full");
        let file = OpenOptions::new().append(true).open(path).unwrap();
        let mut journal = Journal {
            path: path.to_owned(),
            file,
            batch: Vec::new(),
        };
        let error = journal.add(&some(1)).unwrap_err().to_string();
        assert!(error.contains("/dev/full"), "{error}");
    }
}
