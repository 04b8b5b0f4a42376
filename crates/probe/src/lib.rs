#![doc = include_str!("../README.md")]

mod binomial;
mod config;
mod error;
mod evidence;
mod histogram;
mod merge;
mod observation;
#[cfg(all(test, evenkeel_loom))]
mod proofs;
mod quantile;
mod recovery;
mod recovery_config;
mod report;
mod reporting;
mod ring;
mod role_word;
mod run;
mod session;
mod slices;
mod spike;
mod sync;
mod table;
mod tally;
mod verdict;
mod window;
#[cfg(feature = "serde")]
mod written;

pub use crate::binomial::{breach_count, clears};
pub use crate::config::WindowConfig;
pub use crate::error::ConfigError;
pub use crate::merge::MergedWindows;
pub use crate::observation::Observation;
pub use crate::recovery::{Recovery, RecoveryStage, RecoveryStep};
pub use crate::recovery_config::RecoveryConfig;
pub use crate::report::Report;
pub use crate::role_word::{RoleWord, Word};
pub use crate::session::session_point;
pub use crate::verdict::{Breach, Counts, Detector, Edge, Verdict};
pub use crate::window::LatencyWindow;
