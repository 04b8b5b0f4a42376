//! Rules about one role: its rungs against its policy.

use jiff::civil::Date;
use std::time::Duration;

use super::waivers::Waivers;
use crate::assemble::Draft;
use crate::config::{RoleConfig, RungConfig};
use crate::policy::{RolePolicy, Signal};
use crate::queue::OnExhausted;
use crate::written::{WrittenFallback, WrittenPolicy, WrittenRoster};
use evenkeel_document::{Findings, Place};

/// One role's rungs, as written and as read.
pub(super) struct RoleCheck<'c, 'w> {
    pub(super) role: &'c RoleConfig,
    pub(super) roster: &'c WrittenRoster<'w>,
    pub(super) written: &'c WrittenPolicy<'w>,
    pub(super) findings: &'c mut Findings,
}

impl RoleCheck<'_, '_> {
    /// Checks all rules; what a switch lets pass is noted in `waived`.
    pub(super) fn run(&mut self, draft: &Draft, today: Date, waived: &mut Waivers) {
        self.check_distinct();
        self.check_providers(waived);
        self.check_qualified(waived);
        self.check_capability();
        self.check_latency();
        self.check_compliance();
        self.check_units();
        self.check_clocks();
        self.check_usable(draft, today);
        self.check_tasks(waived);
        self.check_kept(draft);
        self.check_shadow(draft);
    }

    fn policy(&self) -> &RolePolicy {
        &self.role.policy
    }

    /// The fallbacks that could be read, each with its rung.
    fn fallbacks(&self) -> impl Iterator<Item = (&WrittenFallback<'_>, &RungConfig)> {
        let primary = usize::from(self.roster.primary.is_some());
        self.roster
            .fallbacks
            .iter()
            .zip(self.role.rungs.iter().skip(primary))
            .filter(|(fallback, _)| fallback.sound)
    }

    pub(super) fn setting(&self, key: &str) -> Place {
        self.written
            .locate(key)
            .unwrap_or_else(|| self.roster.role.clone())
    }

    fn check_distinct(&mut self) {
        for (index, rung) in self.role.rungs.iter().enumerate() {
            if self.role.rungs[..index]
                .iter()
                .any(|r| r.model == rung.model)
            {
                let fallback = self
                    .roster
                    .fallbacks
                    .iter()
                    .rfind(|f| f.model == rung.model);
                let at = fallback.map_or_else(|| self.roster.role.clone(), |f| f.place("model"));
                let message = format!("`{}` is in this roster twice", rung.model);
                let how = "keep the better rank".to_owned();
                self.findings.error(&at, message, Some(how));
            }
        }
    }

    fn check_providers(&mut self, waived: &mut Waivers) {
        if !self.roster.complete {
            return;
        }
        if self.roster.fallbacks.is_empty() && !self.roster.says_fallbacks {
            let message = "no fallback: nothing to move to when the primary is slow".to_owned();
            let how = "add one, or write fallbacks = [] if that is meant".to_owned();
            self.findings.warning(&self.roster.role, message, Some(how));
        }
        let [primary, first, ..] = self.role.rungs.as_slice() else {
            return;
        };
        let provider = primary.model.provider();
        if first.model.provider() != provider {
            return;
        }
        if self.policy().allow_same_provider {
            waived.add(
                "allow_same_provider",
                self.setting("allow_same_provider"),
                self.role.name.clone(),
            );
            return;
        }
        let message = format!(
            "first fallback `{}` stands at the primary's provider, `{provider}`",
            first.model
        );
        let how =
            "put a rung of another provider first, or say allow_same_provider = true".to_owned();
        let at = self.roster.fallbacks[0].place("model");
        self.findings.error(&at, message, Some(how));
    }

    fn check_qualified(&mut self, waived: &mut Waivers) {
        let budget = self.policy().quality_budget;
        let allowed = self.policy().allow_unqualified;
        let mut faults = Vec::new();
        let mut unverified = Vec::new();
        let mut unmeasured = Vec::new();
        for (fallback, rung) in self.fallbacks() {
            match rung.quality_score {
                None if allowed => unmeasured.push(rung.model.to_string()),
                None => {
                    let message =
                        format!("`{}` has no quality_score: it is not qualified", rung.model);
                    let how = "measure it, or say allow_unqualified = true in the role's policy";
                    faults.push((fallback.entry().clone(), message, Some(how.to_owned())));
                }
                Some(ratio) => {
                    let at = fallback.place("quality_score");
                    faults.extend(quality_fault(ratio, budget, fallback, self.roster, at));
                    if fallback.measured.hashes.is_none() {
                        unverified.push(format!("`{}`", rung.model));
                    }
                }
            }
        }
        if !unmeasured.is_empty() {
            let covered = format!("{} ({})", self.role.name, unmeasured.join(", "));
            waived.add(
                "allow_unqualified",
                self.setting("allow_unqualified"),
                covered,
            );
        }
        for (at, message, how) in faults {
            self.findings.error(&at, message, how);
        }
        if !unverified.is_empty() {
            let message = format!(
                "unverified: {} without hashes of prompt, tools, dataset and snapshot, so nobody can tell what was measured",
                unverified.join(", ")
            );
            self.findings.warning(&self.roster.role, message, None);
        }
    }

    fn check_capability(&mut self) {
        let least = self.policy().min_capability_score;
        let below: Vec<_> = self
            .fallbacks()
            .filter(|(_, rung)| rung.capability_score < least)
            .map(|(fallback, rung)| {
                let message = format!(
                    "`{}` has capability {}, below min_capability_score = {least}: it would never be used",
                    rung.model, rung.capability_score
                );
                (fallback.entry().clone(), message)
            })
            .collect();
        for (at, message) in below {
            let how = "take it out, state its capability_score, or lower the limit".to_owned();
            self.findings.error(&at, message, Some(how));
        }
    }

    fn check_latency(&mut self) {
        let policy = self.policy();
        let (limit, key) = match policy.signal {
            Signal::FirstToken => (policy.first_token_p95, "first_token_p95_ms"),
            Signal::Auto | Signal::Total => (policy.p95, "p95_threshold_ms"),
        };
        let slow: Vec<_> = self
            .fallbacks()
            .filter_map(|(fallback, rung)| {
                let median = rung.median_latency.filter(|median| *median >= limit)?;
                let message = format!(
                    "is {} ms, not below {key} = {} ms: the role would move to a rung in breach",
                    median.as_millis(),
                    limit.as_millis()
                );
                Some((fallback.place("median_latency_ms"), message))
            })
            .collect();
        for (at, message) in slow {
            self.findings.error(&at, message, None);
        }
    }

    /// A role whose questions ask for a schema or a tool needs answers that keep to it.
    fn check_compliance(&mut self) {
        let least = self.policy().min_schema_compliance;
        let below: Vec<_> = self
            .fallbacks()
            .filter_map(|(fallback, rung)| {
                let share = rung.measured.schema_compliance;
                let share = share.filter(|share| *share < least)?;
                let message = format!("is {share}, below min_schema_compliance = {least}");
                Some((fallback.place("schema_compliance"), message))
            })
            .collect();
        for (at, message) in below {
            let how = "take the rung out, or lower the limit for this role".to_owned();
            self.findings.error(&at, message, Some(how));
        }
    }

    /// A threshold that no model on a network meets is one in seconds, most likely.
    fn check_units(&mut self) {
        /// Less than a connection takes.
        const LEAST: Duration = Duration::from_millis(10);
        let policy = self.policy();
        for (key, limit) in [
            ("p95_threshold_ms", policy.p95),
            ("first_token_p95_ms", policy.first_token_p95),
        ] {
            if limit < LEAST {
                let ms = limit.as_millis();
                let message = format!("is {ms} ms: every call would be too slow");
                let (at, message) = self.written.explain(&[key], message, &self.roster.role);
                let how = format!("write {} if that is {ms} s", ms * 1_000);
                self.findings.warning(&at, message, Some(how));
            }
        }
    }

    fn check_clocks(&mut self) {
        let policy = self.policy();
        let clocks = policy.clocks;
        let checks = [
            (
                "deadline_ms",
                clocks.deadline,
                "p95_threshold_ms",
                policy.p95,
            ),
            (
                "first_token_ms",
                clocks.first_token,
                "first_token_p95_ms",
                policy.first_token_p95,
            ),
        ];
        for (clock, ends, limit, patience) in checks {
            if ends <= patience {
                let message = format!(
                    "is {} ms, not above {limit} = {} ms: it runs out before a hedge can start",
                    ends.as_millis(),
                    patience.as_millis()
                );
                let keys = [clock, limit, "p95_threshold_ms"];
                let (at, message) = self.written.explain(&keys, message, &self.roster.role);
                self.findings.warning(&at, message, None);
            }
        }
    }

    /// Calls that are kept need a place, and an operator has to hear of them.
    fn check_kept(&mut self, draft: &Draft) {
        let escalates = match self.policy().on_exhausted {
            OnExhausted::Error => return,
            OnExhausted::Queue => false,
            OnExhausted::Escalate => true,
        };
        let at = self.setting("on_exhausted");
        if draft.config.server.state_dir.is_none() {
            let message = "keeps calls, and server.state_dir is not set".to_owned();
            let how = "write e.g. `state_dir = \"state\"` into [server]".to_owned();
            self.findings.error(&at, message, Some(how));
        }
        if escalates && draft.config.tickets.webhook.is_none() {
            let message =
                "escalates, and tickets.webhook_url is not set: operators see it only if they look"
                    .to_owned();
            let how = "set webhook_url and webhook_secret in [tickets]".to_owned();
            self.findings.warning(&at, message, Some(how));
        }
    }

    /// Shadows are worth their cost only if somebody sees what comes of them.
    fn check_shadow(&mut self, draft: &Draft) {
        let shadow = &self.policy().shadow;
        let Some(model) = shadow.model.as_ref().filter(|_| shadow.share > 0.0) else {
            return;
        };
        let at = self.setting("shadow.model");
        if self.role.rungs.first().is_some_and(|r| r.model == *model) {
            let message = format!(
                "`{model}` is the role's primary: only what a fallback answered is compared"
            );
            self.findings.warning(&at, message, None);
        }
        if draft.config.server.state_dir.is_none() {
            let message = "shadowed calls are told as events and written nowhere: server.state_dir is not set".to_owned();
            let how = "write e.g. `state_dir = \"state\"` into [server]".to_owned();
            self.findings.warning(&at, message, Some(how));
        }
    }

    /// A role needs a rung that can be asked today.
    fn check_usable(&mut self, draft: &Draft, today: Date) {
        let config = &draft.config;
        let past = |rung: &RungConfig| {
            let model = config.models.get(&rung.model);
            model.is_some_and(|model| model.is_past_eol(today))
        };
        let rungs = &self.role.rungs;
        if !self.roster.complete {
            return;
        }
        if rungs.iter().all(past) {
            let message = "every model of this roster is past its end of life".to_owned();
            self.findings.error(&self.roster.role, message, None);
        }
    }
}

/// What is wrong with a fallback's `ratio` to the primary's score.
fn quality_fault(
    ratio: f64,
    budget: f64,
    fallback: &WrittenFallback<'_>,
    roster: &WrittenRoster<'_>,
    at: Place,
) -> Option<(Place, String, Option<String>)> {
    /// No fallback is twice as good as its primary; a score in another unit looks like it.
    const MOST_PLAUSIBLE: f64 = 2.0;
    /// Scores are written with six digits behind the point.
    const ROUNDING: f64 = 1e-6;
    if roster.primary_score.is_none() && ratio > MOST_PLAUSIBLE {
        let message = format!("is {ratio}; without primary_score it is the ratio to the primary");
        let how = "write primary_score beside primary, in the same unit".to_owned();
        return Some((at, message, Some(how)));
    }
    if let (Some(primary), Some(score)) = (roster.primary_score, fallback.quality_score)
        && primary <= 1.0
        && score > 1.0
    {
        let message = format!("is {score}, and primary_score is {primary}: another unit");
        let how = "write both as shares, or both in per cent".to_owned();
        return Some((at, message, Some(how)));
    }
    if ratio + ROUNDING >= budget {
        return None;
    }
    let score = fallback.quality_score.unwrap_or(ratio);
    let message = match roster.primary_score {
        Some(primary) => format!(
            "{score} is {ratio:.3} of the primary's {primary}, below quality_budget = {budget}"
        ),
        None => format!("{score} of the primary's score is below quality_budget = {budget}"),
    };
    let how = "take the rung out, or lower the budget for this role".to_owned();
    Some((at, message, Some(how)))
}
