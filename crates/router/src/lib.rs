#![doc = include_str!("../README.md")]

mod amount;
mod answer;
mod attempt;
mod build;
mod call;
mod demand;
mod drive;
mod error;
mod explain;
mod feedback;
mod health;
mod keep;
mod mean;
mod pace;
mod prober;
mod recent;
mod role;
mod router;
mod rung;
mod state;
mod surroundings;
mod tailor;
mod tickets;
mod withheld;
mod workflows;

pub use crate::answer::{Answer, AnswerStream};
pub use crate::build::{BuildError, RouterBuilder};
pub use crate::error::{CallError, CallErrorKind, RungEnd, RungEndKind};
pub use crate::feedback::{Feedback, FeedbackError, Judged, ModelQuality};
pub use crate::router::Router;
pub use crate::state::{
    BreakerState, CooldownState, HoldState, ModelState, ProviderState, RecoveryState, RoleState,
    RouterState, RungState, WindowState,
};
pub use crate::workflows::{DegradedRole, Workflow, WorkflowError};
