//! Reading configuration files.

use crate::SettingsError;
use evenkeel_prompts::{MOST_PROMPT_BYTES, Unreadable};
use evenkeel_roster::SourceFile;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Endings of configuration files.
const ENDINGS: [&str; 3] = ["toml", "yaml", "yml"];

/// Reads one file, or the configuration files of a folder in the order of
/// their names. Also gives the folder that paths in them count from.
pub(crate) fn read(path: &Path) -> Result<(Vec<SourceFile>, PathBuf), SettingsError> {
    let at = |path: &Path, source| SettingsError::Read {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(|e| at(path, e))?.is_dir() {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let file = read_file(path).map_err(|e| at(path, e))?;
        return Ok((vec![file], folder));
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(|e| at(path, e))? {
        let found = entry.map_err(|e| at(path, e))?.path();
        let is_ours = found
            .extension()
            .is_some_and(|ending| ENDINGS.iter().any(|ours| ending.eq_ignore_ascii_case(ours)));
        if is_ours && found.is_file() {
            paths.push(found);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(SettingsError::Empty {
            path: path.to_owned(),
        });
    }
    let files = paths
        .iter()
        .map(|found| read_file(found).map_err(|e| at(found, e)))
        .collect::<Result<_, _>>()?;
    Ok((files, path.to_owned()))
}

/// Reads one file; its name in messages is the path as it was given.
fn read_file(path: &Path) -> io::Result<SourceFile> {
    Ok(SourceFile::new(
        path.to_string_lossy(),
        fs::read_to_string(path)?,
    ))
}

/// Reads a prompt file of the config folder; a link may not lead out of it.
pub(crate) fn read_prompt(folder: &Path, path: &str) -> Result<Vec<u8>, Unreadable> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Unreadable::Missing,
        _ => Unreadable::Other(error.to_string()),
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let home = fs::canonicalize(folder).map_err(refused)?;
    let file = fs::canonicalize(home.join(path)).map_err(refused)?;
    if !file.starts_with(&home) {
        return Err(Unreadable::Outside);
    }
    let bytes = fs::metadata(&file).map_err(refused)?.len();
    if bytes > MOST_PROMPT_BYTES {
        return Err(Unreadable::TooLong { bytes });
    }
    fs::read(&file).map_err(refused)
}
