//! How a call that got no answer ended.

use evenkeel_core::{
    Class, Failure, ModelId, Refusal, Route, TicketError, TicketId, TicketState, TraceContext,
    Trail,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What the caller is given where no rung could answer.
const ROSTER_EXHAUSTED: &str = "roster_exhausted";

/// A call that got no answer, and why.
#[derive(Debug, Clone)]
pub struct CallError {
    /// What kind of end it is.
    pub kind: CallErrorKind,
    /// When asking again may help, from now; none where that is unknown.
    pub retry_after: Option<Duration>,
    /// The way to the model that refused the request; none where nobody could answer.
    pub route: Route,
    /// Why, in one word; none where the primary refused the request as it stands.
    pub reason: Option<&'static str>,
    /// Everything that happened.
    pub trail: Arc<Trail>,
    /// The call's own trace context, where an observer traces.
    pub trace: Option<TraceContext>,
}

/// The ways a call can end without an answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// No such role.
    UnknownRole(String),
    /// The one rung that could be asked failed, or the failure is one that no
    /// other rung can mend.
    Failed(Failure),
    /// Every rung failed or was refused: the rung the call was meant for, then
    /// the others by rank.
    Exhausted(Vec<RungEnd>),
    /// The role refuses to build on degraded answers (`on_degraded_input = "refuse"`);
    /// nobody was asked.
    DegradedInput {
        /// The agents whose answers were degraded, oldest first.
        agents: Vec<String>,
        /// The least capability of those answers, share 0..1.
        min_capability_score: f64,
        /// `degraded_below`: least capability that the role takes.
        below: f64,
    },
    /// The call was kept and is asked again until something answers.
    Queued {
        /// Its ticket.
        ticket: TicketId,
        /// How the ticket stands: open, unless the caller's idempotency key
        /// gave one that has come to its end meanwhile.
        state: TicketState,
        /// Why there is no answer now.
        cause: Box<Self>,
    },
    /// The call should have been kept and could not be.
    NotKept {
        /// Why not.
        error: TicketError,
        /// Why there is no answer.
        cause: Box<Self>,
    },
}

/// How one rung ended for this call.
#[derive(Debug, Clone, PartialEq)]
pub struct RungEnd {
    /// The rung's model.
    pub model: ModelId,
    /// Its end.
    pub end: RungEndKind,
}

/// Failed or refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RungEndKind {
    /// Asked, and failed with this class.
    Failed(Class),
    /// Not asked, for this reason.
    Refused(Refusal),
}

impl RungEndKind {
    /// The class or refusal as errors name it; events and headers have fewer words
    /// ([`RungEndKind::told`]).
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Failed(class) => class.as_str(),
            Self::Refused(refusal) => refusal.as_str(),
        }
    }

    /// The class or refusal as it is told outside ([`Refusal::told`]).
    pub const fn told(&self) -> &'static str {
        match self {
            Self::Failed(class) => class.as_str(),
            Self::Refused(refusal) => refusal.told(),
        }
    }

    /// The class, where the rung was asked.
    pub(crate) const fn class(&self) -> Option<Class> {
        match self {
            Self::Failed(class) => Some(*class),
            Self::Refused(_) => None,
        }
    }

    /// The refusal, where the rung was not asked.
    pub(crate) const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Failed(_) => None,
            Self::Refused(refusal) => Some(*refusal),
        }
    }

    /// Whether the rung can do less than the call asks.
    pub(crate) const fn is_below(&self) -> bool {
        matches!(self, Self::Refused(Refusal::BelowCapability { .. }))
    }

    /// Whether the request did not fit the rung's context window.
    pub(crate) const fn is_overflow(&self) -> bool {
        matches!(
            self,
            Self::Failed(Class::ContextWindow) | Self::Refused(Refusal::ContextWindow { .. })
        )
    }
}

impl CallErrorKind {
    /// The class of the failure behind it, where there is one.
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::UnknownRole(_) | Self::DegradedInput { .. } => None,
            Self::Failed(failure) => Some(failure.class),
            Self::Exhausted(rungs) => rungs.iter().find_map(|r| match r.end {
                RungEndKind::Failed(class) => Some(class),
                RungEndKind::Refused(_) => None,
            }),
            Self::Queued { cause, .. } | Self::NotKept { cause, .. } => cause.class(),
        }
    }
}

impl CallErrorKind {
    /// What the caller is given, as one word: a class or `roster_exhausted`.
    pub const fn error_type(&self) -> &'static str {
        match self {
            Self::UnknownRole(_) | Self::DegradedInput { .. } => Class::BadRequest.as_str(),
            Self::Failed(failure) => failure.class.as_str(),
            Self::Exhausted(_) | Self::Queued { .. } | Self::NotKept { .. } => ROSTER_EXHAUSTED,
        }
    }
}

impl fmt::Display for CallErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRole(role) => write!(f, "no role is named `{role}`"),
            Self::Failed(failure) => failure.fmt(f),
            Self::Exhausted(rungs) => {
                f.write_str("no model of the roster could answer:")?;
                for (i, rung) in rungs.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma} {} ({})", rung.model, rung.end.as_str())?;
                }
                Ok(())
            }
            Self::DegradedInput {
                agents,
                min_capability_score,
                below,
            } => {
                write!(
                    f,
                    "the role takes no input of capability below {below:.2}, and this rests on \
                     degraded answers of capability {min_capability_score:.2}"
                )?;
                for (i, agent) in agents.iter().enumerate() {
                    let before = if i == 0 { " by" } else { "," };
                    write!(f, "{before} `{agent}`")?;
                }
                Ok(())
            }
            Self::Queued { ticket, cause, .. } => write!(f, "kept as ticket {ticket}: {cause}"),
            Self::NotKept { error, cause } => write!(f, "{cause}; not kept: {error}"),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            CallErrorKind::Failed(failure) => Some(failure),
            CallErrorKind::NotKept { error, .. } => Some(error),
            _ => None,
        }
    }
}
