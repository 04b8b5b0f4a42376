//! Which fallbacks a roster has after a job, and what each says of its score.

use super::{QualifiedFallback, QualifiedRole, RosterFileError};
use evenkeel_core::ModelId;
use std::path::Path;

/// A fallback as the roster had it.
pub(super) struct Old {
    pub(super) model: ModelId,
    pub(super) quality_score: Option<f64>,
    /// The hash of the dataset that the score is from.
    pub(super) dataset: Option<String>,
}

/// A role as a roster has it.
#[derive(Default)]
pub(super) struct OldRole {
    pub(super) primary: Option<ModelId>,
    pub(super) primary_score: Option<f64>,
    pub(super) fallbacks: Vec<Old>,
}

impl OldRole {
    /// What it says otherwise than `merged` and `found` do; `None` where it says the same.
    pub(super) fn differs(&self, merged: &Merged<'_>, found: &QualifiedRole) -> Option<String> {
        if self.primary.as_ref() != Some(&found.primary) {
            return Some(format!("primary: {:?}", self.primary));
        }
        let models: Vec<&ModelId> = self.fallbacks.iter().map(|f| &f.model).collect();
        let meant: Vec<&ModelId> = merged.entries.iter().map(|e| &e.model).collect();
        (models != meant).then(|| format!("fallbacks: {models:?}"))
    }
}

/// Why a roster has a fallback no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Left {
    /// It was measured and did not pass.
    Refused,
    /// It is the primary now.
    IsPrimary,
    /// It was measured against another primary and on another dataset: nothing can be
    /// said of it beside this one.
    OtherPrimary,
}

/// A fallback as the roster has it from now on.
pub(super) struct Entry<'f> {
    pub(super) model: ModelId,
    /// Its place among the old ones.
    pub(super) from: Option<usize>,
    /// What was found; `None` where it was not measured.
    pub(super) measured: Option<&'f QualifiedFallback>,
    /// Its score over the new primary's; `None`: it has no score.
    pub(super) ratio: Option<f64>,
    /// Whether the ratio is what the roster says of it already.
    pub(super) says_so: bool,
}

/// The fallbacks of a role after a job, best first, and those that are gone.
pub(super) struct Merged<'f> {
    pub(super) entries: Vec<Entry<'f>>,
    pub(super) left: Vec<(ModelId, Left)>,
}

/// Puts what was found in the place of what the roster had. The first of them stands at
/// another provider than the primary, where the role asks for that.
pub(super) fn merge<'f>(
    path: &Path,
    old: &OldRole,
    found: &'f QualifiedRole,
) -> Result<Merged<'f>, RosterFileError> {
    let place = |model: &ModelId| old.fallbacks.iter().position(|o| o.model == *model);
    let mut entries: Vec<Entry<'f>> = found
        .fallbacks
        .iter()
        .map(|measured| Entry {
            model: measured.model.clone(),
            from: place(&measured.model),
            measured: Some(measured),
            ratio: Some(measured.quality_score / found.primary_score),
            says_so: false,
        })
        .collect();
    let mut left = Vec::new();
    for (index, fallback) in old.fallbacks.iter().enumerate() {
        let model = fallback.model.clone();
        if found.fallbacks.iter().any(|f| f.model == model) {
            continue;
        }
        if let Some(why) = why_left(old, fallback, found) {
            left.push((model, why));
            continue;
        }
        let (ratio, says_so) = ratio_of_kept(old, fallback, found);
        entries.push(Entry {
            model,
            from: Some(index),
            measured: None,
            ratio,
            says_so,
        });
    }
    if !found.allow_same_provider {
        put_other_provider_first(path, &mut entries, found)?;
    }
    Ok(Merged { entries, left })
}

/// The best one at another provider comes first: one outage does not take both.
fn put_other_provider_first(
    path: &Path,
    entries: &mut [Entry<'_>],
    found: &QualifiedRole,
) -> Result<(), RosterFileError> {
    let provider = found.primary.provider();
    let Some(first) = entries.first() else {
        return Ok(());
    };
    let other = entries.iter().position(|e| e.model.provider() != provider);
    let other = other.ok_or_else(|| RosterFileError::SameProvider {
        path: path.to_owned(),
        first: first.model.clone(),
    })?;
    entries[..=other].rotate_right(1);
    Ok(())
}

fn is_same_dataset(fallback: &Old, found: &QualifiedRole) -> bool {
    fallback.dataset.as_ref() == Some(&found.primary_hashes.dataset)
}

fn why_left(old: &OldRole, fallback: &Old, found: &QualifiedRole) -> Option<Left> {
    if found.refused.contains(&fallback.model) {
        return Some(Left::Refused);
    }
    if fallback.model == found.primary {
        return Some(Left::IsPrimary);
    }
    let other = old.primary.as_ref().is_some_and(|p| *p != found.primary);
    let is_comparable = is_same_dataset(fallback, found) && old.primary_score.is_some();
    (other && !is_comparable).then_some(Left::OtherPrimary)
}

/// The ratio of a fallback that was not measured, and whether the roster's own numbers
/// say so beside the new primary's. A score on the same dataset stands; of any other
/// one, it is the ratio that was measured.
fn ratio_of_kept(old: &OldRole, fallback: &Old, found: &QualifiedRole) -> (Option<f64>, bool) {
    match (fallback.quality_score, old.primary_score) {
        (None, _) => (None, true),
        (Some(score), Some(_)) if is_same_dataset(fallback, found) => {
            (Some(score / found.primary_score), true)
        }
        (Some(score), Some(primary)) => (Some(score / primary), false),
        (Some(ratio), None) => (Some(ratio), false),
    }
}
