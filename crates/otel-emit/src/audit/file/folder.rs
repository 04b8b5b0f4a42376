//! The folder of a log: its files by name, and who writes it.

use super::error::AuditError;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// What every file of a log is called, with the number of its first record between,
/// so that names sort as records do.
const BEFORE: &str = "audit-";
const AFTER: &str = ".jsonl";
/// Held by the process that writes.
const LOCK: &str = "audit.lock";

/// The file whose first record has that number.
pub(super) fn file_of(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{BEFORE}{first:012}{AFTER}"))
}

/// The number in a file's name; none for a file that is not a log's.
fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
    let is_number = digits.len() >= 12 && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// The files of the log in `folder`, in the order they were written.
///
/// # Errors
/// The folder cannot be read.
pub fn audit_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        if let Some(first) = entry.file_name().to_str().and_then(first_of) {
            files.push((first, entry.path()));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Makes the folder, for its owner alone.
pub(super) fn make(folder: &Path) -> Result<(), AuditError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(folder)
        .map_err(AuditError::io("make", folder))
}

/// Takes the folder for as long as the file is held; the system lets go of it when the
/// process ends, however it ends.
pub(super) fn lock(folder: &Path) -> Result<File, AuditError> {
    let path = folder.join(LOCK);
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    owner_only(&mut options);
    let file = options.open(&path).map_err(AuditError::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AuditError::InUse {
            folder: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(AuditError::io("lock", path)(source)),
    }
}

/// A file that is made so is its owner's alone.
pub(super) fn owner_only(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}

/// Asks the disk to have the folder's list of files.
pub(super) fn sync(folder: &Path) -> Result<(), AuditError> {
    #[cfg(unix)]
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(AuditError::io("sync", folder))?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_by_number_and_others_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for first in [7, 0, 1_000_000_000_000, 999_999_999_999] {
            std::fs::write(file_of(folder.path(), first), "").unwrap();
        }
        for other in ["audit.lock", "audit-7.jsonl", "audit-00000000000x.jsonl"] {
            std::fs::write(folder.path().join(other), "").unwrap();
        }
        let names = audit_files(folder.path()).unwrap();
        let names: Vec<_> = names.iter().map(|p| p.file_name().unwrap()).collect();
        assert_eq!(
            names,
            [
                "audit-000000000000.jsonl",
                "audit-000000000007.jsonl",
                "audit-999999999999.jsonl",
                "audit-1000000000000.jsonl",
            ]
        );
    }

    #[test]
    fn a_folder_is_one_writer_s() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        assert!(matches!(lock(folder.path()), Err(AuditError::InUse { .. })));
        drop(held);
        lock(folder.path()).unwrap();
    }
}
