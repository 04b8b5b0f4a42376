//! The seam for judging whether an answer is of use.

use crate::{BoxError, ChatRequest, ChatResponse, ModelId};
use std::fmt;
use std::sync::Arc;

/// An answer that is to be judged, with what it answers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Judged {
    /// The role that was asked.
    pub role: Arc<str>,
    /// The model that answered.
    pub model: ModelId,
    /// The caller's request, as the caller put it.
    pub request: Arc<ChatRequest>,
    /// The whole answer, in the caller's terms.
    pub response: Arc<ChatResponse>,
    /// The caller's name for the request, where it has one.
    pub request_id: Option<Arc<str>>,
}

impl Judged {
    /// An answer of `model` to a request of `role`.
    pub fn new(
        role: Arc<str>,
        model: ModelId,
        request: Arc<ChatRequest>,
        response: Arc<ChatResponse>,
    ) -> Self {
        Self {
            role,
            model,
            request,
            response,
            request_id: None,
        }
    }

    /// With the caller's name for the request.
    #[must_use]
    pub fn with_request_id(mut self, id: Option<Arc<str>>) -> Self {
        self.request_id = id;
        self
    }
}

/// What a validator says of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The answer may go to the caller.
    Valid,
    /// It may not.
    Invalid {
        /// What is wrong, in one line for the caller; it should not quote the answer.
        message: String,
        /// What to tell the model in one repair attempt; none where asking the same
        /// model again would not mend it: then the next rung is asked at once.
        hint: Option<String>,
    },
}

impl Verdict {
    /// Not valid, and worth a repair attempt.
    pub fn repairable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// Not valid, and another model's to answer.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid {
            message: message.into(),
            hint: None,
        }
    }
}

/// A validator that could not judge.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ValidatorError {
    message: String,
    #[source]
    source: Option<BoxError>,
}

impl ValidatorError {
    /// Why there is no verdict, in one line.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }

    /// With the error below as source.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }
}

/// Judges whole answers beyond what their wire format and schema say.
///
/// Its verdict is one on the answer and never on the health of the model: an
/// invalid one counts on a count of role and model, no verdict on nothing. Each
/// validator has a time of its own (`validator_timeout_ms`); a panic ends in the
/// router.
#[async_trait::async_trait]
pub trait Validator: Send + Sync + fmt::Debug {
    /// Its name, in events and errors. Asked once.
    fn name(&self) -> &str;

    /// Whether judging this answer may hold its thread for more than a moment
    /// (a millisecond). It is then done off the runtime's threads, on few at a time.
    fn blocks(&self, answer: &Judged) -> bool {
        let _ = answer;
        false
    }

    /// Judges the answer. Dropping the future gives the verdict up.
    ///
    /// # Errors
    /// [`ValidatorError`] where there is no verdict; what that leads to is the
    /// role's `on_validator_error`.
    async fn validate(&self, answer: &Judged) -> Result<Verdict, ValidatorError>;
}

/// A validator made of a closure; see [`validator_fn`].
pub struct FnValidator<F> {
    name: String,
    judge: F,
}

/// A validator that judges by calling `judge`, which may take its time: it runs
/// off the runtime's threads.
pub fn validator_fn<F>(name: impl Into<String>, judge: F) -> FnValidator<F>
where
    F: Fn(&Judged) -> Verdict + Send + Sync,
{
    let name = name.into();
    FnValidator { name, judge }
}

impl<F> fmt::Debug for FnValidator<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FnValidator").field(&self.name).finish()
    }
}

#[async_trait::async_trait]
impl<F: Fn(&Judged) -> Verdict + Send + Sync> Validator for FnValidator<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn blocks(&self, _: &Judged) -> bool {
        true
    }

    async fn validate(&self, answer: &Judged) -> Result<Verdict, ValidatorError> {
        Ok((self.judge)(answer))
    }
}
