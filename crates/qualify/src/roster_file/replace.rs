//! Reading and replacing a file so that it is whole at every moment.

use super::RosterFileError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Names that are tried for the new file before it takes the old one's.
const TRIES: u32 = 16;

/// What the file holds; `None` where it is not there.
pub(super) fn read(path: &Path) -> Result<Option<String>, RosterFileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RosterFileError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Puts `text` in the place of what the file holds: written beside it, on the disk
/// before it takes the name, with the permissions of the old one. A link stays one.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), RosterFileError> {
    let wrong = |source| RosterFileError::Write {
        path: path.to_owned(),
        source,
    };
    let target = target(path).map_err(wrong)?;
    let (new, mut file) = beside(&target).map_err(wrong)?;
    let written = fill(&mut file, &target, text).and_then(|()| fs::rename(&new, &target));
    if let Err(source) = written {
        // The error is what the caller has to know, not that of tidying up.
        let _ = fs::remove_file(&new);
        return Err(wrong(source));
    }
    sync_folder(&target);
    Ok(())
}

/// Whether a file can be made beside it: what replacing needs.
pub(super) fn check(path: &Path) -> Result<(), RosterFileError> {
    let made = target(path).and_then(|target| beside(&target));
    let made = made.and_then(|(new, _)| fs::remove_file(new));
    made.map_err(|source| RosterFileError::Write {
        path: path.to_owned(),
        source,
    })
}

/// The file itself, where the path is a link to it.
fn target(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        other => other,
    }
}

fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A new file in the same folder, which a rename needs.
fn beside(target: &Path) -> io::Result<(PathBuf, File)> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let process = std::process::id();
    for nth in 0..TRIES {
        let path = folder(target).join(format!(".{name}.{process}-{nth}.new"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn fill(file: &mut File, target: &Path, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    match fs::metadata(target) {
        Ok(old) => file.set_permissions(old.permissions())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.sync_all()
}

/// So that the new name outlives a power cut. Where a folder cannot be synced, the
/// file is whole all the same: the old one or the new one.
fn sync_folder(target: &Path) {
    if let Ok(folder) = File::open(folder(target)) {
        let _ = folder.sync_all();
    }
}
