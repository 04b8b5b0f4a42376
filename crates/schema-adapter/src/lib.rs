#![doc = include_str!("../README.md")]

mod adapted;
mod adapter;
mod build;
mod cache;
mod checker;
mod dialect;
mod emit;
mod error;
mod kind;
mod loss;
mod merge;
mod mode;
mod node;
mod nullable;
mod pointer;
mod prompt;
mod read;
mod survey;
mod table;
mod tools;
#[cfg(feature = "typed")]
mod typed;
mod undo;

pub use crate::adapted::{Adapted, Answer, Return};
pub use crate::adapter::{Adapter, Rewritten};
pub use crate::checker::Checker;
pub use crate::dialect::{Dialect, EnumValues, Keyword, Limits, NullForm, Recursion, Rule, Rules};
pub use crate::error::{
    AdaptError, AnswerError, AnswerFault, Reason, Refusal, SchemaError, SchemaFault,
};
pub use crate::loss::{Loss, Treatment};
pub use crate::mode::{Mode, ModelSupport};
pub use crate::read::Repair;
pub use crate::tools::ToolCheck;
#[cfg(feature = "typed")]
pub use crate::typed::TypedOutput;
