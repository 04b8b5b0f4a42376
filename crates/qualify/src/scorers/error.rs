//! Why an answer has no score.

use super::JudgeError;
use std::io;
use std::time::Duration;

/// A scorer that could not do its work. It says nothing of the model: the
/// question is not measured, never scored 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScoringError {
    /// The item has a judge, and there is nobody to ask.
    #[error("the item is scored by a judge, and none was given")]
    NoJudge,
    /// The judge did not answer.
    #[error("the judge `{role}` did not answer: {source}")]
    Judge {
        /// The role that was asked.
        role: String,
        /// Why.
        source: JudgeError,
    },
    /// The judge answered, but gave no grades.
    #[error("the judge `{role}` gave no grades from 0 to 10: `{said}`")]
    NoVerdict {
        /// The role that was asked.
        role: String,
        /// The beginning of what it said.
        said: String,
    },
    /// The item runs an external command, which was not allowed.
    #[error("the item is scored by an external command, and none may run")]
    NoCommands,
    /// The command could not be started, written to or read from.
    #[error("the command `{command}` could not be run: {source}")]
    CommandIo {
        /// Its first word.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The command took too long and was ended, with all that it started.
    #[error("the command `{command}` was ended after {} ms", after.as_millis())]
    CommandTimeout {
        /// Its first word.
        command: String,
        /// The time that it had.
        after: Duration,
    },
    /// The command wrote more than is read.
    #[error("the command `{command}` wrote more than {limit} bytes")]
    CommandOutput {
        /// Its first word.
        command: String,
        /// The most that is read.
        limit: usize,
    },
    /// The command said that it failed.
    #[error("the command `{command}` ended with {status}: {stderr}")]
    CommandFailed {
        /// Its first word.
        command: String,
        /// How it ended, in the system's words.
        status: String,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// What a scorer gave is no score.
    #[error("the scorer `{scorer}` gave {seen}, expected a number from 0 to 1")]
    NoScore {
        /// The scorer's kind, or the command's first word.
        scorer: String,
        /// What it gave.
        seen: String,
    },
}
