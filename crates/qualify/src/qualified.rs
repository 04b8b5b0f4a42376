//! What of a finished job goes into a roster.

use crate::gate::Judged;
use crate::hashes::prompt_hash;
use crate::job::Finished;
use crate::roster_file::{QualifiedFallback, QualifiedRole};
use evenkeel::Settings;
use evenkeel_core::ModelId;
use evenkeel_roster::Hashes;

impl Finished {
    /// What goes into a roster. None where there is nothing to compare with, and of a
    /// run that was stopped: what was not asked is neither qualified nor refused.
    pub fn qualified(&self, settings: &Settings) -> Option<QualifiedRole> {
        if self.ended.stopped.is_some() {
            return None;
        }
        let primary = &self.verdict.primary.measures;
        let score = primary.quality.filter(|score| score.estimate > 0.0)?;
        let fallback = |judged: &Judged| {
            let measures = &judged.measures;
            Some(QualifiedFallback {
                model: measures.candidate.clone(),
                quality_score: measures.quality?.estimate,
                median_latency: measures.latency.of(self.limits.latency_kind)?.p50,
                schema_compliance: measures.compliance.map(|share| share.estimate),
                hashes: self.hashes(settings, &measures.candidate),
            })
        };
        Some(QualifiedRole {
            primary: primary.candidate.clone(),
            primary_score: score.estimate,
            primary_hashes: self.hashes(settings, &primary.candidate),
            qualified_at: self.today,
            allow_same_provider: self.limits.allow_same_provider,
            fallbacks: self.verdict.qualified().filter_map(fallback).collect(),
            refused: self
                .verdict
                .candidates
                .iter()
                .filter(|judged| judged.rank.is_none())
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
        // Of several the last: names of snapshots end in their dates.
        let snapshot = seen.and_then(|seen| seen.snapshots.last());
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
