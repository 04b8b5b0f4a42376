//! Prompt files: where they may lie and what they must hold.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Longest prompt file, 1 MiB: some 300,000 tokens, more than all but a few context
/// windows hold.
pub const MOST_PROMPT_BYTES: u64 = 1024 * 1024;

/// Why a prompt file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// There is no such file.
    #[error("does not exist")]
    Missing,
    /// The path leads out of the config folder, e.g. by a symbolic link.
    #[error("leads out of the config folder")]
    Outside,
    /// It is longer than [`MOST_PROMPT_BYTES`].
    #[error("holds {bytes} bytes, expected at most {MOST_PROMPT_BYTES}")]
    TooLong {
        /// Its length.
        bytes: u64,
    },
    /// The system refuses, in the system's words.
    #[error("cannot be read: {0}")]
    Other(String),
}

/// A prompt file that can be used.
#[derive(Debug)]
pub(crate) struct PromptFile {
    pub(crate) bytes: Vec<u8>,
    /// The text that is sent: without byte order mark and without the last line end.
    pub(crate) text: String,
}

/// Why a prompt file cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unusable {
    /// Line in the file where one is at fault, else 0.
    pub(crate) line: usize,
    /// What is wrong, as a clause whose subject is the file.
    pub(crate) message: String,
    pub(crate) suggestion: &'static str,
}

/// Reads prompt files through the caller's loader, each once.
pub(crate) struct Shelf<'a> {
    read: &'a dyn Fn(&str) -> Result<Vec<u8>, Unreadable>,
    read_so_far: BTreeMap<String, Result<Rc<PromptFile>, Unusable>>,
}

impl<'a> Shelf<'a> {
    pub(crate) fn new(read: &'a dyn Fn(&str) -> Result<Vec<u8>, Unreadable>) -> Self {
        Self {
            read,
            read_so_far: BTreeMap::new(),
        }
    }

    /// The file at `path`, which is relative to the config folder.
    pub(crate) fn file(&mut self, path: &str) -> Result<Rc<PromptFile>, Unusable> {
        if let Some(known) = self.read_so_far.get(path) {
            return known.clone();
        }
        let file = self.fresh(path).map(Rc::new);
        self.read_so_far.insert(path.to_owned(), file.clone());
        file
    }

    fn fresh(&self, path: &str) -> Result<PromptFile, Unusable> {
        check_path(path)?;
        let bytes = (self.read)(path).map_err(|why| unreadable(&why))?;
        let length = bytes.len() as u64;
        if length > MOST_PROMPT_BYTES {
            return Err(unreadable(&Unreadable::TooLong { bytes: length }));
        }
        let text = text_of(&bytes)?;
        Ok(PromptFile { bytes, text })
    }
}

/// A path stays in the folder by its own words; where links lead is for the loader to see.
fn check_path(path: &str) -> Result<(), Unusable> {
    const INSIDE: &str =
        "write a path inside the config folder, relative to it, e.g. `prompts/planner.txt`";
    let refuse = |why: &str| {
        Err(Unusable {
            line: 0,
            message: why.to_owned(),
            suggestion: INSIDE,
        })
    };
    if path.is_empty() {
        return refuse("names no file");
    }
    if path.starts_with('/') || path.as_bytes().get(1) == Some(&b':') {
        return refuse("is an absolute path");
    }
    if path.contains(['\\', '\0']) {
        return refuse("holds a sign that no path may hold here");
    }
    if path.split('/').any(|part| part == "..") {
        return refuse("leads out of the config folder");
    }
    Ok(())
}

fn unreadable(why: &Unreadable) -> Unusable {
    Unusable {
        line: 0,
        message: why.to_string(),
        suggestion: match why {
            Unreadable::Missing => {
                "write the file, or correct the path: it counts from the config folder"
            }
            Unreadable::Outside => "put the file itself into the config folder",
            Unreadable::TooLong { .. } => "keep what the model looks up out of its prompt",
            Unreadable::Other(_) => "make it a file that evenkeel may read",
        },
    }
}

fn text_of(bytes: &[u8]) -> Result<String, Unusable> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Unusable {
            line: bytes[..at].split(|byte| *byte == b'\n').count(),
            message: format!("is not UTF-8: byte {at} is {:#04x}", bytes[at]),
            suggestion: "save it as UTF-8",
        }
    })?;
    if text.contains('\0') {
        let before = text.split('\0').next().unwrap_or_default();
        return Err(Unusable {
            line: before.matches('\n').count() + 1,
            message: "holds a zero character".to_owned(),
            suggestion: "save it as UTF-8 text",
        });
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(Unusable {
            line: 0,
            message: "is empty".to_owned(),
            suggestion: "write the prompt, or take the variant out",
        });
    }
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
