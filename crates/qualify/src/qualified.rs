//! What of a finished job goes into a roster.

use crate::gate::{Judged, Verdict};
use crate::hashes::prompt_hash;
use crate::job::Finished;
use crate::roster_file::{QualifiedFallback, QualifiedRole};
use evenkeel::Settings;
use evenkeel_core::ModelId;
use evenkeel_roster::Hashes;
use std::collections::BTreeSet;

impl Finished {
    /// What goes into a roster. None where there is nothing to compare with, and of a
    /// run that was stopped: what was not asked is neither qualified nor refused. Nor is
    /// a candidate of which there is not enough data to tell: it is in neither list, so
    /// that its entry stays, if it has one.
    ///
    /// Scores are in the unit of the primary's: a candidate's is the ratio that was
    /// judged, over the items of both, times the primary's.
    pub fn qualified(&self, settings: &Settings) -> Option<QualifiedRole> {
        if self.ended.stopped.is_some() || !self.verdict.primary.is_measure() {
            return None;
        }
        let primary = &self.verdict.primary.measures;
        let score = primary.quality?.estimate;
        let fallback = |judged: &Judged| {
            let measures = &judged.measures;
            Some(QualifiedFallback {
                model: measures.candidate.clone(),
                quality_score: measures.ratio?.estimate * score,
                median_latency: measures.latency.of(self.limits.latency_kind)?.p50,
                schema_compliance: measures.compliance.map(|share| share.estimate),
                hashes: self.hashes(settings, &measures.candidate),
            })
        };
        let is_refused = |judged: &&Judged| judged.verdict() == Verdict::Fail;
        let refused = self.verdict.candidates.iter().filter(is_refused);
        Some(QualifiedRole {
            primary: primary.candidate.clone(),
            primary_score: score,
            primary_hashes: self.hashes(settings, &primary.candidate),
            qualified_at: self.today,
            allow_same_provider: self.limits.allow_same_provider,
            fallbacks: self.verdict.qualified().filter_map(fallback).collect(),
            refused: refused
                .map(|judged| judged.measures.candidate.clone())
                .collect(),
        })
    }

    /// What `model` was measured on.
    fn hashes(&self, settings: &Settings, model: &ModelId) -> Hashes {
        let role = settings.config().roles.get(&self.role);
        let prompt = role.map(|role| {
            let prompts = settings.prompts();
            prompt_hash(prompts, &self.role, &role.policy, model)
        });
        let seen = self.ended.manifest.seen().get(model.as_str());
        let snapshot = seen.and_then(|seen| the_one(&seen.snapshots));
        let fingerprints = seen.map(|seen| seen.fingerprints.iter().cloned().collect());
        Hashes {
            prompt: prompt.unwrap_or_default(),
            tools: self.golden.tools_hash().to_owned(),
            dataset: self.golden.sha256().to_owned(),
            snapshot: snapshot.cloned().unwrap_or_default(),
            fingerprints: fingerprints.unwrap_or_default(),
        }
    }
}

/// The model that was measured, as its answers named it. Where they named several none is
/// the one: a provider moves from one to the next, or serves several, and each of them is
/// expected.
fn the_one(snapshots: &BTreeSet<String>) -> Option<&String> {
    snapshots.first().filter(|_| snapshots.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::the_one;
    use std::collections::BTreeSet;

    #[test]
    fn of_several_snapshots_none_is_the_one_that_was_measured() {
        let named = |names: &[&str]| {
            let all: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
            the_one(&all).cloned()
        };
        assert_eq!(
            named(&["big-2026-01-01"]).as_deref(),
            Some("big-2026-01-01")
        );
        assert_eq!(named(&["big-2026-01-01", "big-2026-01-02"]), None);
        assert_eq!(named(&[]), None);
    }
}
