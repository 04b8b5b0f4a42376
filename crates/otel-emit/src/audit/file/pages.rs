//! The files that are written: which one, how long, and when to begin another.

use super::FileSinkConfig;
use super::error::AuditError;
use super::folder::{self, audit_files, file_of};
use super::tail::{self, Odd, Tail};
use std::fs::{File, Metadata, OpenOptions};
use std::io::Write as _;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The files of a log, for the process that writes them.
#[derive(Debug)]
pub(super) struct Pages {
    folder: PathBuf,
    rotate_bytes: u64,
    rotate_after: Duration,
    keep_files: Option<NonZeroU32>,
    /// Held while anything is written.
    lock: Option<File>,
    page: Option<Page>,
}

/// The file that is written.
#[derive(Debug)]
struct Page {
    path: PathBuf,
    file: File,
    /// What the file was known by when it was opened.
    identity: Metadata,
    bytes: u64,
    /// When its first record was written.
    began: Option<SystemTime>,
    /// Whether a line without its end stands last: a newline goes before the next.
    is_torn: bool,
    /// Whether the disk may not have all of it.
    is_dirty: bool,
}

impl Pages {
    pub(super) fn new(config: &FileSinkConfig) -> Self {
        Self {
            folder: config.folder.clone(),
            rotate_bytes: config.rotate_bytes.get(),
            rotate_after: config.rotate_after,
            keep_files: config.keep_files,
            lock: None,
            page: None,
        }
    }

    /// Takes the folder, made where it is missing, and finds the end of its log, and what is
    /// odd about it.
    pub(super) fn open(&mut self) -> Result<(Option<Tail>, Option<Odd>), AuditError> {
        self.page = None;
        // One that was held may be that of a folder which is no more.
        self.lock = None;
        folder::make(&self.folder)?;
        self.lock = Some(folder::lock(&self.folder)?);
        let found = tail::find(&self.folder)?;
        if let Some(newest) = found.newest {
            let page = Page::open(newest.path, false)?;
            self.page = Some(Page {
                began: newest.began,
                is_torn: newest.is_torn,
                ..page
            });
        }
        Ok((found.tail, found.odd))
    }

    /// Forgets the files that are open, after a failure: what they hold is to be looked
    /// at anew.
    pub(super) fn leave(&mut self) {
        self.page = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock.is_some() && self.page.is_some()
    }

    /// Whether a line of so many bytes belongs into the file at `now`. The first of a
    /// file does, whatever its length.
    pub(super) fn takes(&self, length: usize, now: SystemTime) -> bool {
        let Some(page) = &self.page else {
            return false;
        };
        let age = page.began.and_then(|began| now.duration_since(began).ok());
        let is_old = age.is_some_and(|age| age >= self.rotate_after);
        page.bytes == 0 || !is_old && length <= self.room()
    }

    /// How many bytes the file may still take.
    pub(super) fn room(&self) -> usize {
        let used = self.page.as_ref().map_or(0, |page| page.bytes);
        usize::try_from(self.rotate_bytes.saturating_sub(used)).unwrap_or(usize::MAX)
    }

    /// Begins a file for the record of that number. The one before has been synced
    /// where it was to be.
    pub(super) fn turn(&mut self, first: u64) -> Result<(), AuditError> {
        let path = file_of(&self.folder, first);
        if self.page.as_ref().is_some_and(|page| page.path == path) {
            // All that it holds is the beginning of this very record.
            return Ok(());
        }
        let page = Page::open(path, true)?;
        folder::sync(&self.folder)?;
        self.page = Some(page);
        self.drop_oldest()
    }

    /// Adds lines to the file, the first of which is of `now`.
    pub(super) fn write(&mut self, lines: &[u8], now: SystemTime) -> Result<(), AuditError> {
        let Some(page) = &mut self.page else {
            return Err(AuditError::Gone {
                path: self.folder.clone(),
            });
        };
        page.write(lines)?;
        page.began.get_or_insert(now);
        Ok(())
    }

    /// Asks the disk to have what was written.
    pub(super) fn sync(&mut self) -> Result<(), AuditError> {
        let Some(page) = self.page.as_mut().filter(|page| page.is_dirty) else {
            return Ok(());
        };
        page.file
            .sync_data()
            .map_err(AuditError::io("sync", &page.path))?;
        page.is_dirty = false;
        Ok(())
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.page.as_ref().is_some_and(|page| page.is_dirty)
    }

    /// The file that is written.
    pub(super) fn path(&self) -> &Path {
        self.page.as_ref().map_or(&self.folder, |page| &page.path)
    }

    fn drop_oldest(&self) -> Result<(), AuditError> {
        let Some(keep) = self.keep_files else {
            return Ok(());
        };
        let files = audit_files(&self.folder).map_err(AuditError::io("read", &self.folder))?;
        let surplus = files.len().saturating_sub(keep.get() as usize);
        for old in &files[..surplus] {
            std::fs::remove_file(old).map_err(AuditError::io("remove", old))?;
            tracing::info!(event = "audit_file_removed", file = %old.display());
        }
        Ok(())
    }
}

impl Page {
    fn open(path: PathBuf, create: bool) -> Result<Self, AuditError> {
        let mut options = OpenOptions::new();
        options.append(true).create(create);
        folder::owner_only(&mut options);
        let opened = options.open(&path);
        let file = opened.map_err(AuditError::io("open", &path))?;
        let identity = file.metadata().map_err(AuditError::io("read", &path))?;
        Ok(Self {
            bytes: identity.len(),
            identity,
            path,
            file,
            began: None,
            is_torn: false,
            is_dirty: false,
        })
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), AuditError> {
        // A file that was moved or deleted takes writes as before, for nobody to find.
        let is_there = std::fs::metadata(&self.path).is_ok_and(|m| is_same(&m, &self.identity));
        if !is_there {
            return Err(AuditError::Gone {
                path: self.path.clone(),
            });
        }
        self.is_dirty = true;
        let mut write = |bytes: &[u8]| {
            let written = self.file.write_all(bytes);
            written.map_err(AuditError::io("write", &self.path))
        };
        if self.is_torn {
            write(b"\n")?;
            self.is_torn = false;
            self.bytes += 1;
        }
        write(lines)?;
        self.bytes += lines.len() as u64;
        Ok(())
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    one.is_file() == other.is_file()
}
