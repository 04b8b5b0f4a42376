//! What is wrong with a configuration, and where.

use std::fmt;

/// Whether a problem stops the configuration from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// The configuration is used; someone should look.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One thing that is wrong, and what to do about it. Never holds a key's value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// File name as it was given.
    pub file: String,
    /// Line in the file, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// Key path, e.g. `agent_roles.planner.hedge.budget`; empty where no key is meant.
    pub key: String,
    /// What was seen and what was expected.
    pub message: String,
    /// What to do, as a clause of its own.
    pub suggestion: Option<String>,
    /// Whether it stops the configuration.
    pub severity: Severity,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; {suggestion}"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a configuration, in the order of files and
/// lines; at least one of them is an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&report(&self.0))
    }
}

/// The problems as `evenkeel check` prints them: one a line, `error: ` or
/// `warning: ` first, and a line that counts them. Ends without a newline.
pub fn report(problems: &[Problem]) -> String {
    let errors = problems
        .iter()
        .filter(|p| p.severity == Severity::Error)
        .count();
    let counts = format!(
        "{}, {}",
        counted(errors, "error"),
        counted(problems.len() - errors, "warning")
    );
    let lines = problems.iter().map(|p| format!("{}: {p}", p.severity));
    lines.chain([counts]).collect::<Vec<_>>().join("\n")
}

fn counted(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}
