//! Where providers' keys come from.

use evenkeel_core::{KeySource, MissingKey};
use secrecy::SecretString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A key that stands in the configuration, or none.
#[derive(Debug)]
pub(crate) struct FixedKey(pub(crate) Option<SecretString>);

impl KeySource for FixedKey {
    fn key(&self) -> Result<Option<SecretString>, MissingKey> {
        Ok(self.0.clone())
    }
}

/// A key in a file of its own, read again whenever the file has changed.
#[derive(Debug)]
pub(crate) struct FileKey {
    path: PathBuf,
    read: Mutex<Option<Read>>,
}

/// What was read, and the file's state then.
#[derive(Debug)]
struct Read {
    state: State,
    key: SecretString,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    modified: Option<SystemTime>,
    length: u64,
}

impl FileKey {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: Mutex::new(None),
        }
    }

    fn missing(&self, why: impl std::fmt::Display) -> MissingKey {
        MissingKey(format!("api_key_file {}: {why}", self.path.display()))
    }

    fn state(&self) -> io::Result<State> {
        let found = fs::metadata(&self.path)?;
        Ok(State {
            modified: found.modified().ok(),
            length: found.len(),
        })
    }
}

impl KeySource for FileKey {
    fn key(&self) -> Result<Option<SecretString>, MissingKey> {
        let state = self.state().map_err(|e| self.missing(e))?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = &*read
            && read.state == state
        {
            return Ok(Some(read.key.clone()));
        }
        let text = fs::read_to_string(&self.path).map_err(|e| self.missing(e))?;
        let key = text.trim();
        if key.is_empty() {
            return Err(self.missing("the file is empty"));
        }
        let key = SecretString::from(key);
        *read = Some(Read {
            state,
            key: key.clone(),
        });
        Ok(Some(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn shown(source: &FileKey) -> String {
        source.key().unwrap().unwrap().expose_secret().to_owned()
    }

    #[test]
    fn a_changed_file_gives_the_new_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "first\n").unwrap();
        let source = FileKey::new(path.clone());
        assert_eq!(shown(&source), "first");
        fs::write(&path, "second one\n").unwrap();
        assert_eq!(shown(&source), "second one");
    }

    #[test]
    fn a_missing_or_empty_file_is_no_key_and_says_which_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let source = FileKey::new(path.clone());
        assert!(source.key().unwrap_err().to_string().contains("key"));
        fs::write(&path, " \n").unwrap();
        let error = source.key().unwrap_err().to_string();
        assert!(error.ends_with("the file is empty"), "{error}");
    }
}
