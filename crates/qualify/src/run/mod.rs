//! The run: questions to candidates on the path of production, at a stated load,
//! written down as they are answered.

mod alone;
mod asker;
mod bars;
mod budget;
mod done;
mod engine;
mod error;
mod folder;
mod journal;
mod journal_line;
mod judges;
mod lines;
mod load;
mod made_of;
mod manifest;
mod pause;
mod plan;
mod progress;
mod respondent;
mod score;

pub use bars::Bars;
pub use engine::{Ended, Run, Stop};
pub use error::RunError;
pub use folder::{LockedFolder, RunFolder};
pub(crate) use journal::read_journal;
pub(crate) use judges::{Judges, Meter};
pub use lines::Lines;
pub use load::{Load, OPEN_AT_MOST};
pub use manifest::{Manifest, Seen};
pub use plan::{Plan, RunOptions};
pub use progress::{Halt, Progress, Silent};
pub use respondent::HttpValidators;
pub(crate) use respondent::Way;
pub use score::SoFar;

#[cfg(test)]
mod tests;
