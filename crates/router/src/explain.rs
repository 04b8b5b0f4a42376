//! What the router would do now, in words.

use crate::role::Role;
use crate::rung::Measure;
use evenkeel_core::{ModelId, Refusal};
use evenkeel_probe::Verdict;
use std::fmt;
use std::time::{Duration, Instant};

/// The state of a role: where a request would go and why not elsewhere.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The role.
    pub role: String,
    /// The rung its traffic stands on.
    pub active: usize,
    /// How often its traffic has been moved.
    pub epoch: u64,
    /// Its rungs, best first.
    pub rungs: Vec<RungState>,
}

/// One rung as of now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RungState {
    /// Its model.
    pub model: ModelId,
    /// Why it can't be asked; none where it can.
    pub refusal: Option<Refusal>,
    /// Whether it was left because it breached.
    pub benched: bool,
    /// Share of sessions it takes as a canary, 0..1.
    pub canary_share: f64,
    /// Whether its window is in breach.
    pub breached: bool,
    /// State of the model's breaker.
    pub breaker: &'static str,
    /// p50, p95 and p99 of the last window, where there are samples: of total
    /// time and of the first token.
    pub latency: [[Option<Duration>; 3]; 2],
    /// Observations in the window: of total time and of the first token.
    pub samples: [u64; 2],
}

impl Explanation {
    pub(crate) fn of(role: &Role, now: Instant) -> Self {
        let word = role.word.load();
        let today = role.around.today();
        let rungs = role.rungs.iter().enumerate().map(|(index, rung)| {
            let reports = Measure::BOTH.map(|m| rung.window(m).report(now));
            RungState {
                model: rung.model.id.clone(),
                refusal: role.refusal(index, now, today),
                benched: rung.recovery.benched(),
                canary_share: rung.recovery.share(),
                breached: Measure::BOTH
                    .iter()
                    .any(|m| matches!(rung.window(*m).verdict(now), Verdict::Breached(_))),
                breaker: rung.model.breaker.state(now).as_str(),
                latency: [0, 1].map(|i| [reports[i].p50, reports[i].p95, reports[i].p99]),
                samples: [reports[0].samples, reports[1].samples],
            }
        });
        Self {
            role: role.name.to_string(),
            active: word.rung,
            epoch: word.epoch,
            rungs: rungs.collect(),
        }
    }

    /// The rung a new request goes to: the active one, else the best that can
    /// be asked, else a benched one.
    pub fn goes_to(&self) -> Option<usize> {
        let usable = |i: &usize| self.rungs[*i].refusal.is_none();
        let all = || 0..self.rungs.len();
        Some(self.active)
            .filter(usable)
            .or_else(|| all().find(|i| usable(i) && !self.rungs[*i].benched))
            .or_else(|| all().find(usable))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goes = self.goes_to();
        match goes {
            Some(rung) => writeln!(
                f,
                "{}: a request goes to rung {rung}, {}",
                self.role, self.rungs[rung].model
            )?,
            None => writeln!(f, "{}: no rung can be asked now", self.role)?,
        }
        for (index, rung) in self.rungs.iter().enumerate() {
            write!(f, "  {index} {}: ", rung.model)?;
            match rung.refusal {
                Some(refusal) => {
                    write!(f, "refused, {}", refusal.as_str())?;
                    if let Some(left) = refusal.retry_in() {
                        write!(f, " for {:.1} s", left.as_secs_f64())?;
                    }
                }
                None if goes == Some(index) => f.write_str("takes the request")?,
                None if rung.benched => {
                    f.write_str("benched: it was too slow, and is being probed")?;
                }
                None => f.write_str("ready, ranked lower")?,
            }
            if rung.canary_share > 0.0 {
                write!(f, "; takes {:.0}% of sessions", rung.canary_share * 100.0)?;
            }
            writeln!(f, "; breaker {}", rung.breaker)?;
        }
        Ok(())
    }
}
