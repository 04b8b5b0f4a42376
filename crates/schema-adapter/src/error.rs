//! What can be wrong with a schema, a model's support, or an answer.

use evenkeel_core::{Class, Failure};

use crate::mode::Mode;

/// Longest message about an answer, in characters: short enough to be put to the model as a hint.
const LONGEST_MESSAGE: usize = 240;

/// A schema that cannot be used, at every model alike: the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schema at {place}: {fault}", place = place(.pointer))]
pub struct SchemaError {
    /// JSON pointer into the schema; empty for its root.
    pub pointer: String,
    /// What is wrong there.
    pub fault: SchemaFault,
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() {
        "its root"
    } else {
        pointer
    }
}

impl SchemaError {
    pub(crate) fn new(pointer: impl Into<String>, fault: SchemaFault) -> Self {
        Self {
            pointer: pointer.into(),
            fault,
        }
    }
}

impl From<SchemaError> for Failure {
    /// A bad request of the caller: no other model would take the schema.
    fn from(error: SchemaError) -> Self {
        let mut failure = Self::new(Class::BadRequest, error.to_string());
        failure.code = Some("invalid_schema".to_owned());
        failure.same_model_may_help = false;
        failure
    }
}

/// What is wrong with a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaFault {
    /// Neither an object nor a boolean.
    #[error("expected an object or a boolean, found {found}")]
    NotASchema {
        /// The JSON type found.
        found: &'static str,
    },
    /// More of something than is looked at.
    #[error("more than {limit} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The most that is accepted.
        limit: usize,
    },
    /// `$ref` to another document, which is never fetched.
    #[error("`$ref` to another document is not followed; put it in `$defs`")]
    RemoteReference,
    /// `$ref` to nothing.
    #[error("`$ref` leads nowhere in this schema")]
    DanglingReference,
    /// References that lead to each other and to nothing else.
    #[error("`$ref` leads back to itself without a schema between")]
    EndlessReference,
    /// What the validator says of it.
    #[error("{0}")]
    Invalid(String),
}

/// Why a mode was not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The model is not declared to have it.
    #[error("not declared for this model")]
    NotDeclared,
    /// The request has tools of its own, which a forced call would shut out.
    #[error("the request has tools of its own")]
    OwnTools,
    /// Providers refuse a forced call from a model that reasons.
    #[error("a call cannot be forced while the model reasons")]
    Reasoning,
    /// The schema refers to itself.
    #[error("recursive at {pointer}, which {dialect} does not take")]
    Recursive {
        /// Where, in the caller's schema.
        pointer: String,
        /// The dialect's name.
        dialect: &'static str,
    },
    /// Something that the dialect has no words for and that cannot be left to validation.
    #[error("{what} at {pointer}, which {dialect} does not take")]
    Inexpressible {
        /// What it is.
        what: &'static str,
        /// Where, in the caller's schema.
        pointer: String,
        /// The dialect's name.
        dialect: &'static str,
    },
    /// Beyond a limit of the dialect.
    #[error("{found} {what}, {dialect} takes {limit}")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many are taken.
        limit: usize,
        /// The dialect's name.
        dialect: &'static str,
    },
}

/// No mode of this model can carry the demand; another model may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no way to ask this model for the schema: {}", list(.reasons))]
pub struct Refusal {
    /// Each mode that was looked at, with why it was not used.
    pub reasons: Vec<(Mode, Reason)>,
}

fn list(reasons: &[(Mode, Reason)]) -> String {
    let lines: Vec<String> = reasons
        .iter()
        .map(|(mode, reason)| format!("{}: {reason}", mode.as_str()))
        .collect();
    lines.join("; ")
}

impl From<Refusal> for Failure {
    /// A bad request with [`Failure::capability_gap`]: another model may have what this one lacks.
    fn from(refusal: Refusal) -> Self {
        let mut failure = Self::new(Class::BadRequest, refusal.to_string());
        failure.code = Some("schema_unsupported".to_owned());
        failure.capability_gap = true;
        failure.same_model_may_help = false;
        failure
    }
}

/// Why a demand could not be adapted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdaptError {
    /// The schema cannot be used anywhere.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// This model cannot be asked for it.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<AdaptError> for Failure {
    fn from(error: AdaptError) -> Self {
        match error {
            AdaptError::Schema(e) => e.into(),
            AdaptError::Refused(e) => e.into(),
        }
    }
}

/// What is wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerFault {
    /// Cut by the token limit or the context window: never repaired.
    Cut,
    /// No JSON in it.
    NoJson,
    /// Several JSON values, or one that cannot be told from its surroundings.
    Ambiguous,
    /// JSON that does not parse.
    Broken,
    /// JSON that does not obey the schema.
    Invalid,
    /// Arguments of a tool call that are no JSON.
    BrokenArguments,
    /// A call to a tool that the request does not have.
    UnknownTool,
}

/// An answer that is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AnswerError {
    /// What kind of fault it is.
    pub fault: AnswerFault,
    /// JSON pointer into the answer, where the fault has a place in it.
    pub pointer: Option<String>,
    /// Path and expectation in one short line; holds none of the answer's values.
    pub message: String,
    /// The text that the model wrote, whole.
    pub text: String,
}

impl AnswerError {
    pub(crate) fn new(fault: AnswerFault, message: impl Into<String>, text: &str) -> Self {
        Self {
            fault,
            pointer: None,
            message: short(message.into()),
            text: text.to_owned(),
        }
    }

    pub(crate) fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }

    /// The class this failure has: [`Class::Malformed`] for what was cut and for arguments that do
    /// not parse, [`Class::Semantic`] for every other.
    pub const fn class(&self) -> Class {
        match self.fault {
            AnswerFault::Cut | AnswerFault::BrokenArguments => Class::Malformed,
            AnswerFault::NoJson
            | AnswerFault::Ambiguous
            | AnswerFault::Broken
            | AnswerFault::Invalid
            | AnswerFault::UnknownTool => Class::Semantic,
        }
    }

    /// What to tell the model in one repair attempt; none where asking again in the same way
    /// would be cut in the same way.
    pub fn hint(&self) -> Option<String> {
        let again = match self.fault {
            AnswerFault::Cut => return None,
            AnswerFault::BrokenArguments | AnswerFault::UnknownTool => "Call the tool again",
            _ => "Answer again with the corrected JSON value and nothing else",
        };
        Some(format!(
            "Your last answer was not valid: {}. {again}.",
            self.message
        ))
    }
}

impl From<AnswerError> for Failure {
    fn from(error: AnswerError) -> Self {
        Self::new(error.class(), error.message.clone()).with_source(error)
    }
}

fn short(message: String) -> String {
    if message.chars().count() <= LONGEST_MESSAGE {
        return message;
    }
    let mut cut: String = message.chars().take(LONGEST_MESSAGE - 1).collect();
    cut.push('…');
    cut
}
