#![doc = include_str!("../README.md")]

mod calibration;
mod counter;
mod file;
mod fit;
mod hash;
mod load;
mod placement;
mod set;
mod template;
#[cfg(feature = "tiktoken")]
mod tiktoken;
mod variant;
mod window;
mod written;

pub use crate::calibration::{Calibration, Counting, ModelCounter};
pub use crate::counter::{Estimate, TokenCounter};
pub use crate::file::{MOST_PROMPT_BYTES, Unreadable};
pub use crate::fit::{FitReport, Fitted, TooLong, fit};
pub use crate::hash::ContentHash;
pub use crate::load::{Sources, load};
pub use crate::placement::{Placed, SystemPrompt};
pub use crate::set::{Mode, PromptSet, Rendered};
#[cfg(feature = "tiktoken")]
pub use crate::tiktoken::Tiktoken;
pub use crate::window::Window;
pub use evenkeel_document::{Problem, Problems, SourceFile};
