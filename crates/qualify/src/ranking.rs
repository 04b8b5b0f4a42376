//! A role's candidates, judged and put in order.

use crate::{
    CandidateMeasures, Check, CheckName, GateLimits, Judged, LatencyKind, ModelFacts, Unit,
    Verdict, judge, judge_primary,
};
use evenkeel_core::ModelId;
use evenkeel_roster::RankingPolicy;

/// Where a candidate that passed stands among those that did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// From 1.
    pub rank: usize,
    /// The weighted mean of the three parts below.
    pub score: f64,
    /// The score relative to the primary's; above 1 where it is better.
    pub quality: f64,
    /// The share of the latency threshold that the median leaves, 0..1.
    pub latency: f64,
    /// The share of valid answers; none where the dataset asks for no schema and no
    /// tools, and its weight is then left out.
    pub compliance: Option<f64>,
}

/// What the whole job says of a role.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleVerdict {
    /// The primary.
    pub primary: Judged,
    /// The candidates: those that passed in the order of their ranks, then the others
    /// in the order that they were measured in.
    pub candidates: Vec<Judged>,
    /// The conditions that no candidate meets alone.
    pub checks: Vec<Check>,
}

impl RoleVerdict {
    /// Judges `measures`, of which the first are the primary's, and ranks those that
    /// pass. None of nothing measured.
    ///
    /// The first fallback is the best one at another provider than the primary's,
    /// unless the role allows the same; the others follow by their ranking score. Equal
    /// ones follow by quality, by median latency, and by name.
    pub fn of(
        measures: Vec<CandidateMeasures>,
        facts: impl Fn(&ModelId) -> ModelFacts,
        limits: &GateLimits,
        weights: &RankingPolicy,
    ) -> Option<Self> {
        let mut measures = measures.into_iter();
        let primary = measures.next()?;
        let own = facts(&primary.candidate);
        let primary = judge_primary(primary, own);
        let mut candidates: Vec<Judged> = measures
            .map(|measures| {
                let facts = facts(&measures.candidate);
                judge(measures, facts, &primary, limits)
            })
            .collect();
        for candidate in &mut candidates {
            candidate.rank = standing(candidate, limits, weights);
        }
        order(&mut candidates, &primary, limits);
        let checks = vec![
            fallbacks(&candidates),
            diversity(&candidates, &primary, limits),
        ];
        Some(Self {
            primary,
            candidates,
            checks,
        })
    }

    /// The gravest of all checks: of the role, the primary and every candidate.
    pub fn verdict(&self) -> Verdict {
        let candidates = self.candidates.iter().map(Judged::verdict);
        let own = [Check::gravest(&self.checks), self.primary.verdict()];
        candidates.chain(own).max().unwrap_or(Verdict::Pass)
    }

    /// The candidates that passed, the first fallback first: what a roster may hold.
    pub fn qualified(&self) -> impl Iterator<Item = &Judged> {
        self.candidates
            .iter()
            .filter(|judged| judged.rank.is_some())
    }

    /// 0 where every check holds, with or without warnings; 1 where one fails or there
    /// is not enough data.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.verdict().is_pass())
    }
}

/// The parts and the score of a candidate that passed; its rank is not known yet.
fn standing(judged: &Judged, limits: &GateLimits, weights: &RankingPolicy) -> Option<Rank> {
    if !judged.verdict().is_pass() {
        return None;
    }
    let measures = &judged.measures;
    let quality = measures.ratio?.estimate;
    let latency = left_of(limits, measures)?;
    let compliance = measures.compliance.map(|found| found.estimate);
    let of_compliance = compliance.map_or(0.0, |_| weights.compliance);
    let sum = weights.quality * quality
        + weights.latency * latency
        + of_compliance * compliance.unwrap_or(0.0);
    let all = weights.quality + weights.latency + of_compliance;
    // Compliance alone may weigh, and then not be asked for.
    let score = if all > 0.0 { sum / all } else { 0.0 };
    Some(Rank {
        rank: 0,
        score,
        quality,
        latency,
        compliance,
    })
}

/// The share of the latency threshold that the median leaves.
fn left_of(limits: &GateLimits, measures: &CandidateMeasures) -> Option<f64> {
    let found = match limits.latency_kind {
        LatencyKind::Total => measures.latency.total,
        LatencyKind::FirstToken => measures.latency.first_token,
    };
    let used = found?.p50.as_secs_f64() / limits.latency.as_secs_f64();
    Some((1.0 - used).clamp(0.0, 1.0))
}

/// Puts the candidates in order and numbers those that passed.
fn order(candidates: &mut [Judged], primary: &Judged, limits: &GateLimits) {
    let key = |judged: &Judged| {
        judged
            .rank
            .map(|rank| (rank.score, rank.quality, rank.latency))
    };
    candidates.sort_by(|a, b| match (key(a), key(b)) {
        (Some((a1, a2, a3)), Some((b1, b2, b3))) => b1
            .total_cmp(&a1)
            .then(b2.total_cmp(&a2))
            .then(b3.total_cmp(&a3))
            .then_with(|| a.measures.candidate.cmp(&b.measures.candidate)),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    let is_first = |judged: &Judged| judged.rank.is_some() && is_elsewhere(judged, primary);
    let first = candidates.iter().position(is_first);
    if let (Some(first), false) = (first, limits.allow_same_provider) {
        candidates[..=first].rotate_right(1);
    }
    for (place, judged) in candidates.iter_mut().enumerate() {
        if let Some(rank) = &mut judged.rank {
            rank.rank = place + 1;
        }
    }
}

fn is_elsewhere(judged: &Judged, primary: &Judged) -> bool {
    judged.measures.candidate.provider() != primary.measures.candidate.provider()
}

/// Whether one of `candidates` passed, or else may.
fn best<'j>(candidates: impl Iterator<Item = &'j Judged>) -> Verdict {
    let verdicts = candidates.map(Judged::verdict);
    verdicts.min().unwrap_or(Verdict::Fail)
}

fn fallbacks(candidates: &[Judged]) -> Check {
    let check = Check::new(CheckName::Fallbacks, Unit::None);
    let of = candidates.len();
    let passed = candidates.iter().filter(|judged| judged.rank.is_some());
    match best(candidates.iter()) {
        Verdict::Pass | Verdict::Warning => {
            check.pass(format!("{} of {of} candidates qualify", passed.count()))
        }
        Verdict::NotEnoughData => check.not_enough(format!("none of {of} qualifies yet")),
        Verdict::Fail if of == 0 => check.fail("there is no candidate".to_owned()),
        Verdict::Fail => check.fail(format!("none of {of} candidates qualifies")),
    }
}

fn diversity(candidates: &[Judged], primary: &Judged, limits: &GateLimits) -> Check {
    let check = Check::new(CheckName::ProviderDiversity, Unit::None);
    let home = primary.measures.candidate.provider();
    let elsewhere = candidates
        .iter()
        .filter(|judged| is_elsewhere(judged, primary));
    if limits.allow_same_provider {
        return check.pass("the role allows the primary's provider too".to_owned());
    }
    match best(elsewhere) {
        Verdict::Pass | Verdict::Warning => {
            check.pass(format!("the first fallback does not stand at `{home}`"))
        }
        Verdict::NotEnoughData => check.not_enough(format!(
            "no fallback at another provider than `{home}` qualifies yet"
        )),
        Verdict::Fail => check.fail(format!(
            "no fallback at another provider than `{home}` qualifies"
        )),
    }
}
