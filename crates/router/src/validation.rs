//! Runs a role's validators on a whole answer, each in its own time, and none
//! so that it could take the call or the process down.

use evenkeel_core::{Judged, Validator, ValidatorError, Verdict};
use evenkeel_roster::HttpValidatorConfig;
use futures_util::FutureExt;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Validators that may hold a thread at a time, of all roles of a router. One
/// that never returns keeps its place for good.
const BLOCKING_AT_A_TIME: usize = 32;

/// Longest message of a validator that is passed on, in characters.
const LONGEST_MESSAGE: usize = 300;
/// Longest hint that is told to a model, in characters.
const LONGEST_HINT: usize = 4_000;

/// A role's validators.
#[derive(Debug, Clone, Default)]
pub(crate) struct Validation {
    validators: Arc<[Named]>,
    /// How long each may take.
    limit: Duration,
    blocking: Blocking,
}

/// The places for validators that may hold a thread.
#[derive(Debug, Clone)]
pub(crate) struct Blocking(Arc<Semaphore>);

impl Default for Blocking {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BLOCKING_AT_A_TIME)))
    }
}

type MakeHttp =
    dyn Fn(&HttpValidatorConfig) -> Result<Arc<dyn Validator>, ValidatorError> + Send + Sync;

/// Makes the validators of kind `http`, where somebody gave what makes them.
#[derive(Clone, Default)]
pub(crate) struct HttpValidators(Option<Arc<MakeHttp>>);

impl HttpValidators {
    pub(crate) fn new(
        make: impl Fn(&HttpValidatorConfig) -> Result<Arc<dyn Validator>, ValidatorError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Some(Arc::new(make)))
    }

    /// The validator of a service; none where nothing makes them.
    pub(crate) fn make(
        &self,
        config: &HttpValidatorConfig,
    ) -> Option<Result<Arc<dyn Validator>, ValidatorError>> {
        self.0.as_ref().map(|make| make(config))
    }

    /// These, or those `before` where nothing was given.
    pub(crate) fn or(self, before: &Self) -> Self {
        Self(self.0.or_else(|| before.0.clone()))
    }
}

impl fmt::Debug for HttpValidators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpValidators")
            .field(&self.0.is_some())
            .finish()
    }
}

#[derive(Debug)]
struct Named {
    name: Arc<str>,
    validator: Arc<dyn Validator>,
}

/// What the validators made of an answer.
#[derive(Debug)]
pub(crate) enum Judgement {
    Valid,
    Invalid {
        validator: Arc<str>,
        message: String,
        hint: Option<String>,
    },
    /// There is no verdict.
    None {
        validator: Arc<str>,
        why: NoVerdict,
    },
}

/// Why a validator gave no verdict.
#[derive(Debug)]
pub(crate) enum NoVerdict {
    Panicked,
    Late(Duration),
    Failed(ValidatorError),
}

impl NoVerdict {
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Panicked => "panic",
            Self::Late(_) => "timeout",
            Self::Failed(_) => "error",
        }
    }

    /// In words, for the caller.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Panicked => "panicked".to_owned(),
            Self::Late(limit) => format!("gave no verdict within {} ms", limit.as_millis()),
            Self::Failed(error) => one_line(&error.to_string()),
        }
    }
}

impl Validation {
    pub(crate) fn new(
        validators: impl IntoIterator<Item = Arc<dyn Validator>>,
        limit: Duration,
        blocking: Blocking,
    ) -> Self {
        let named = |validator: Arc<dyn Validator>| Named {
            name: Arc::from(validator.name()),
            validator,
        };
        Self {
            validators: validators.into_iter().map(named).collect(),
            limit,
            blocking,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.validators.is_empty()
    }

    /// Judges an answer, validator by validator, up to the first that does not
    /// find it valid.
    pub(crate) async fn judge(self, answer: Judged) -> Judgement {
        for Named { name, validator } in &*self.validators {
            let validator = validator.clone();
            match self.verdict(validator, answer.clone()).await {
                Ok(Verdict::Valid) => {}
                Ok(Verdict::Invalid { message, hint }) => {
                    return Judgement::Invalid {
                        validator: name.clone(),
                        message: one_line(&message),
                        hint: hint.map(|hint| cut(&hint, LONGEST_HINT)),
                    };
                }
                Err(why) => {
                    let validator = name.clone();
                    return Judgement::None { validator, why };
                }
            }
        }
        Judgement::Valid
    }

    async fn verdict(
        &self,
        validator: Arc<dyn Validator>,
        answer: Judged,
    ) -> Result<Verdict, NoVerdict> {
        let asked = || validator.blocks(&answer);
        let blocks = catch_unwind(AssertUnwindSafe(asked)).map_err(|_| NoVerdict::Panicked)?;
        let verdict = async {
            if blocks {
                self.verdict_elsewhere(validator.clone(), answer.clone())
                    .await
            } else {
                let judged = AssertUnwindSafe(async { validator.validate(&answer).await });
                judged
                    .catch_unwind()
                    .await
                    .map_err(|_| NoVerdict::Panicked)?
                    .map_err(NoVerdict::Failed)
            }
        };
        timeout(self.limit, verdict)
            .await
            .unwrap_or(Err(NoVerdict::Late(self.limit)))
    }

    /// Off the runtime's threads. Given up, it goes on there and keeps its place.
    async fn verdict_elsewhere(
        &self,
        validator: Arc<dyn Validator>,
        answer: Judged,
    ) -> Result<Verdict, NoVerdict> {
        let place = self.blocking.0.clone().acquire_owned().await;
        let place = place.expect("nobody closes it");
        let runtime = Handle::current();
        let judged = tokio::task::spawn_blocking(move || {
            let _place = place;
            runtime.block_on(validator.validate(&answer))
        });
        let judged = judged.await.map_err(|_| NoVerdict::Panicked)?;
        judged.map_err(NoVerdict::Failed)
    }
}

fn one_line(text: &str) -> String {
    cut(text.lines().next().unwrap_or_default(), LONGEST_MESSAGE)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
