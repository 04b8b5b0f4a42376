#![doc = include_str!("../README.md")]

mod amount;
mod answer;
mod attempt;
mod build;
mod call;
mod decomposition;
mod demand;
mod drift;
mod drill;
mod drive;
mod error;
mod explain;
mod feedback;
mod generation;
mod health;
mod joint;
mod keep;
mod life;
mod mean;
mod notice;
mod on_behalf;
mod operator;
mod pace;
mod pass;
mod pin;
mod prober;
mod recent;
mod role;
mod router;
mod rung;
mod shadow;
mod state;
mod surroundings;
mod tailor;
mod takeover;
mod throttle;
mod tickets;
mod validation;
mod withheld;
mod workflows;

pub use crate::answer::{Answer, AnswerStream};
pub use crate::build::{BuildError, RouterBuilder};
pub use crate::decomposition::Decomposition;
pub use crate::error::{CallError, CallErrorKind, RungEnd, RungEndKind};
pub use crate::feedback::{Feedback, FeedbackError, Judged, ModelQuality};
pub use crate::generation::Replaced;
pub use crate::operator::{BreakerAction, BreakerTarget, Operator, OperatorError, Released};
pub use crate::pass::PassTo;
pub use crate::router::Router;
pub use crate::state::{
    BreakerState, CooldownState, DriftState, DrillState, HoldState, ModelState, ProviderState,
    RecoveryState, RoleState, RouterState, RungState, WindowState,
};
pub use crate::workflows::{DegradedRole, Workflow, WorkflowError};
