//! Validation against the caller's own schema.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::error::{AnswerError, AnswerFault, SchemaError, SchemaFault};
use crate::nullable::spelled_out;
use crate::survey::{Draft, Survey, survey};

/// Steps of backtracking one pattern may take on one string.
const BACKTRACKS: usize = 100_000;
/// Size of a compiled pattern, in bytes.
const PATTERN_SIZE: usize = 1 << 20;

/// A compiled schema. It is never changed, and can be shared between threads.
///
/// Formats are asserted, whatever the draft says of them: who writes one wants it. References are
/// followed within the schema only, never over the network or into a file. `nullable: true`, which
/// `OpenAPI` 3.0 has in place of a type, lets null in.
#[derive(Debug)]
pub struct Checker {
    validator: Validator,
    survey: Survey,
    /// The schema in JSON Schema's own words, where it has others.
    plain: Option<Value>,
}

impl Checker {
    /// Compiles `schema`. Without a `$schema` that is known it is read as draft 2020-12, or as
    /// draft 7 where it uses words that only older drafts have.
    ///
    /// # Errors
    /// [`SchemaError`], with the place, for a schema that is none, that is too large to be looked
    /// at (50,000 values, 127 levels, 10,000 values in a list, 128 references in a row), or that
    /// refers to another document.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let survey = survey(schema)?;
        let plain = spelled_out(schema);
        let validator = jsonschema::options()
            .with_draft(match survey.draft {
                Draft::Draft4 => jsonschema::Draft::Draft4,
                Draft::Draft6 => jsonschema::Draft::Draft6,
                Draft::Draft7 => jsonschema::Draft::Draft7,
                Draft::Draft2019 => jsonschema::Draft::Draft201909,
                Draft::Draft2020 => jsonschema::Draft::Draft202012,
            })
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true)
            .with_pattern_options(
                PatternOptions::fancy_regex()
                    .backtrack_limit(BACKTRACKS)
                    .size_limit(PATTERN_SIZE),
            )
            .build(plain.as_ref().unwrap_or(schema))
            .map_err(|e| {
                let fault = match e.kind() {
                    ValidationErrorKind::Referencing(
                        jsonschema::ReferencingError::Unretrievable { .. },
                    ) => SchemaFault::RemoteReference,
                    _ => SchemaFault::Invalid(e.masked().to_string()),
                };
                SchemaError::new(e.instance_path().as_str(), fault)
            })?;
        Ok(Self {
            validator,
            survey,
            plain,
        })
    }

    /// `schema`, the one that this checks by, in JSON Schema's own words.
    pub(crate) fn plain<'a>(&'a self, schema: &'a Value) -> &'a Value {
        self.plain.as_ref().unwrap_or(schema)
    }

    pub(crate) fn survey(&self) -> Survey {
        self.survey
    }

    /// Whether `value` obeys the schema.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Checks a value.
    ///
    /// # Errors
    /// [`AnswerError`] with path and expectation of the first fault, and how many more there are.
    pub fn check(&self, value: &Value) -> Result<(), AnswerError> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let mut errors = self.validator.iter_errors(value);
        let Some(first) = errors.next() else {
            return Ok(());
        };
        let more = errors.take(MOST_COUNTED).count();
        let pointer = first.instance_path().as_str();
        let place = if pointer.is_empty() {
            "the answer"
        } else {
            pointer
        };
        let rest = match more {
            0 => String::new(),
            MOST_COUNTED => format!(" (and more than {MOST_COUNTED} further faults)"),
            n => format!(" (and {n} more)"),
        };
        let said = first.masked_with("the value").to_string();
        let message = format!("at {place}: {said}{rest}");
        Err(AnswerError::new(AnswerFault::Invalid, message, "").at(pointer))
    }
}

/// Faults beyond the first that are counted.
const MOST_COUNTED: usize = 20;
