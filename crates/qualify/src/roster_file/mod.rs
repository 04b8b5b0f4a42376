//! What was measured, written into the roster that the router obeys.
//!
//! Only the role that was measured is touched, and of it only what was measured.
//! The file is replaced as a whole or not at all.

mod error;
mod merge;
mod replace;
mod toml;
mod yaml;

pub use self::error::RosterFileError;
pub use self::merge::Left;

use self::merge::{Merged, OldRole};
use evenkeel_core::ModelId;
use evenkeel_roster::Hashes;
use jiff::civil::Date;
use std::path::Path;
use std::time::Duration;

/// What a job has found of one role.
#[derive(Debug, Clone, PartialEq)]
pub struct QualifiedRole {
    /// What the others were measured against.
    pub primary: ModelId,
    /// Its mean score on the golden dataset, above 0.
    pub primary_score: f64,
    /// What it was measured on.
    pub primary_hashes: Hashes,
    /// The day of the measurement.
    pub qualified_at: Date,
    /// Whether the first fallback may stand at the primary's provider.
    pub allow_same_provider: bool,
    /// The candidates that passed every gate, best first.
    pub fallbacks: Vec<QualifiedFallback>,
    /// The candidates that were measured and did not: they leave the roster, or do not
    /// enter it.
    pub refused: Vec<ModelId>,
}

/// A candidate that passed every gate.
#[derive(Debug, Clone, PartialEq)]
pub struct QualifiedFallback {
    /// The model.
    pub model: ModelId,
    /// Its mean score, in the unit of `primary_score`.
    pub quality_score: f64,
    /// Its median latency under the load of the job: of the whole answer, or to the first
    /// token in a role that watches that alone.
    pub median_latency: Duration,
    /// Share of its answers that were valid for their schema or tools, 0 to 1; `None`
    /// where the dataset asks for neither.
    pub schema_compliance: Option<f64>,
    /// What it was measured on.
    pub hashes: Hashes,
}

/// What has become of a roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RosterWritten {
    /// Fallbacks that it has no more, and why.
    pub left: Vec<(ModelId, Left)>,
    /// Fallbacks that this job did not measure. They stay as they are, behind those
    /// that it did.
    pub kept: Vec<ModelId>,
    /// Whether the file is another one now.
    pub is_changed: bool,
}

/// Writes what was found of `role` into the roster at `path`, which need not be there.
///
/// A `.toml` file, a roster or a whole `evenkeel.toml`, keeps comments, order and
/// formatting of everything that was not measured. A `.yaml` or `.yml` file has the
/// keys of existing manifests and no others, so scores are ratios to the primary's and
/// what they were measured on is not said; it keeps everything outside of the role as
/// it is, comments within the role are lost.
///
/// A fallback that was not measured stays, behind those that were. Its score goes on to
/// mean the same: measured on the same dataset it is kept, else it is restated so that
/// its ratio to the primary's stays what it was.
///
/// The best fallback at another provider than the primary's comes first, unless the role
/// allows the same one.
///
/// # Errors
/// A file that cannot be read, is no roster or cannot be replaced, and a roster that would
/// be refused or not read back as meant; it is then as it was.
pub fn write_roster(
    path: &Path,
    role: &str,
    found: &QualifiedRole,
) -> Result<RosterWritten, RosterFileError> {
    let syntax = Syntax::of(path)?;
    let before = replace::read(path)?;
    let old = before.as_deref().unwrap_or_default();
    let (after, merged) = match syntax {
        Syntax::Toml => toml::written(path, old, role, found)?,
        Syntax::Yaml => yaml::written(path, old, role, found)?,
    };
    let unsound = |message| RosterFileError::Unsound {
        path: path.to_owned(),
        message,
    };
    let again = syntax.read(path, &after, role);
    let again = again.map_err(|error| unsound(error.to_string()))?;
    if let Some(difference) = again.differs(&merged, found) {
        return Err(unsound(difference));
    }
    let is_changed = before.as_deref() != Some(after.as_str());
    if is_changed {
        replace::replace(path, &after)?;
    }
    let Merged { left, entries } = merged;
    let kept = entries.into_iter().filter(|entry| entry.measured.is_none());
    Ok(RosterWritten {
        left,
        kept: kept.map(|entry| entry.model).collect(),
        is_changed,
    })
}

/// Whether [`write_roster`] could write what is found of `role` to `path`, as far as
/// that can be known before anything was measured. Changes nothing.
///
/// # Errors
/// As [`write_roster`].
pub fn check_roster_file(path: &Path, role: &str) -> Result<(), RosterFileError> {
    let syntax = Syntax::of(path)?;
    let old = replace::read(path)?.unwrap_or_default();
    syntax.read(path, &old, role)?;
    replace::check(path)
}

#[derive(Clone, Copy)]
enum Syntax {
    Toml,
    Yaml,
}

impl Syntax {
    fn of(path: &Path) -> Result<Self, RosterFileError> {
        let ending = path.extension().unwrap_or_default();
        if ending.eq_ignore_ascii_case("toml") {
            Ok(Self::Toml)
        } else if ["yaml", "yml"]
            .iter()
            .any(|y| ending.eq_ignore_ascii_case(y))
        {
            Ok(Self::Yaml)
        } else {
            Err(RosterFileError::Ending {
                path: path.to_owned(),
            })
        }
    }
}

impl Syntax {
    /// The role as a text has it, where it can be written anew.
    fn read(self, path: &Path, text: &str, role: &str) -> Result<OldRole, RosterFileError> {
        match self {
            Self::Toml => toml::read(path, text, role),
            Self::Yaml => yaml::read(path, text, role),
        }
    }
}

/// A score with six digits behind the point: more than any dataset tells apart.
fn rounded(score: f64) -> f64 {
    (score * 1e6).round() / 1e6
}

/// Whole milliseconds, rounded down: what was below a limit stays below it.
fn whole_ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
