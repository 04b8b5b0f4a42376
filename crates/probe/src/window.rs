//! The latency window of one role, rung and measure.

use std::time::{Duration, Instant};

use crate::config::{WindowConfig, check_limits};
use crate::error::ConfigError;
use crate::evidence::Evidence;
use crate::observation::{Counted, Observation};
use crate::report::{P95_FLOOR, P99_FLOOR, Report};
use crate::reporting::Reporting;
use crate::ring::Limit;
use crate::run::Latency;
use crate::slices::{Slices, nanos};
use crate::verdict::{Breach, Counts, Detector, Edge, Verdict};

/// A rolling window over the latencies of attempts, with breach detectors.
///
/// All methods take `&self` and may be called from any number of threads. Time is an argument; it never
/// runs backwards inside the window: an earlier instant than the latest recorded is taken as that one, and
/// one before the window was made as its making. A jump ahead empties the window.
///
/// Recording an observation costs three uncontended compare-and-swaps and, off the decision path, a short
/// mutex around a histogram; nothing is allocated after [`new`](Self::new). Verdicts take no lock.
#[derive(Debug)]
pub struct LatencyWindow {
    evidence: Evidence,
    config: WindowConfig,
    slices: Slices,
    reporting: Reporting,
}

impl LatencyWindow {
    /// An empty window whose slices are counted from `now`.
    pub fn new(config: WindowConfig, now: Instant) -> Self {
        let slices = Slices::new(config.window, now);
        Self {
            evidence: Evidence::new(config.p95, config.p99),
            reporting: Reporting::new(slices.live()),
            slices,
            config,
        }
    }

    /// Begins an observation: an attempt that starts at `now`. It will be judged by the limits in force
    /// now, and counts as evidence only until the next [`restart`](Self::restart).
    pub fn begin(&self, now: Instant) -> Observation {
        self.reporting.refresh(self.slices.at(now));
        self.observation(now)
    }

    /// The next instant at which [`overdue`](Self::overdue) counts something: when the attempt's age
    /// reaches T95, then T99. None when both are counted, or so far off that no instant says it.
    pub fn next_due(&self, obs: &Observation) -> Option<Instant> {
        match obs.counted {
            Counted::Nowhere => obs.began.checked_add(obs.p95),
            Counted::AtP95 => obs.began.checked_add(obs.p99),
            Counted::AtBoth => None,
        }
    }

    /// Counts the attempt as an exceedance of each limit its age has reached at `now`, once each: an
    /// attempt that is still open then can only end above it.
    pub fn overdue(&self, obs: &mut Observation, now: Instant) {
        let (age, slice) = (obs.age(now), self.slices.at(now));
        if obs.counted == Counted::Nowhere && age >= obs.p95 {
            self.count(obs, Limit::P95, slice, true);
            let began = self.slices.since_origin(obs.began);
            let generation = obs.generation;
            obs.run_entry = self
                .reporting
                .run(|run| run.add(generation, true, Latency::OpenSince(began)));
        }
        if obs.counted == Counted::AtP95 && age >= obs.p99 {
            self.count(obs, Limit::P99, slice, true);
        }
    }

    /// The attempt answered at `now`. Counts what [`overdue`](Self::overdue) has not: an observation for
    /// each limit, an exceedance where the latency is above it; and records the latency for reports.
    ///
    /// After a [`restart`](Self::restart) since the attempt began it is no evidence, but still reported.
    pub fn finish(&self, mut obs: Observation, now: Instant) {
        let (latency, slice) = (obs.age(now), self.slices.at(now));
        let over95 = latency > obs.p95;
        let is_new = obs.counted == Counted::Nowhere;
        if is_new {
            self.count(&mut obs, Limit::P95, slice, over95);
        }
        if obs.counted == Counted::AtP95 {
            let over99 = latency > obs.p99;
            self.count(&mut obs, Limit::P99, slice, over99);
        }
        self.record_ended(&obs, latency, slice, is_new.then_some(over95));
    }

    /// The attempt was cancelled, or failed, at `now`. What passed a limit stays an exceedance of it, and
    /// its age is reported as a latency; an attempt younger than T95 is no observation at all. Between T95
    /// and T99 it is none for T99.
    pub fn cancel(&self, mut obs: Observation, now: Instant) {
        self.overdue(&mut obs, now);
        if obs.counted != Counted::Nowhere {
            self.record_ended(&obs, obs.age(now), self.slices.at(now), None);
        }
    }

    /// Records an attempt of `latency` that ended at `now`: `begin` and `finish` in one, for users who only
    /// know the outcome.
    pub fn record(&self, latency: Duration, now: Instant) {
        let obs = self.observation(now.checked_sub(latency).unwrap_or(now));
        self.finish(obs, now);
    }

    /// What the evidence says at `now`. Lock-free, allocates nothing, and costs the same whatever the window
    /// holds (above 1,024 exceedances in it, up to a few microseconds when they are close to the rule's
    /// edge).
    ///
    /// *Breached* if n observations of a limit are at least `min_samples` and the exceedances among them at
    /// least max(3, [`breach_count`](crate::breach_count)`(n, q, 1 - confidence)`), for p95 or p99, or if
    /// the spike detector has fired. Else *healthy* from 20 observations at T95 and 100 at T99 (and
    /// `min_samples`) on, and *unknown* below.
    ///
    /// The spike detector sums over observations of T95: S = min(6 ln 10, S + ln 10) on an exceedance,
    /// S = max(0, S - ln 1.9) on another. It fires at 11.5 and stays until S is 0 or evidence starts anew;
    /// S does not decay with time.
    pub fn verdict(&self, now: Instant) -> Verdict {
        self.verdict_of(self.evidence.generation(), now)
    }

    /// The verdict, and the edge if this call is the one that crosses it. However many callers judge, each
    /// breach episode has exactly one [`Edge::Breached`] and one [`Edge::Cleared`], in turn.
    pub fn judge(&self, now: Instant) -> (Verdict, Option<Edge>) {
        loop {
            let episode = self.evidence.episode();
            let verdict = self.verdict_of(episode.generation(), now);
            let edge = match verdict {
                Verdict::Breached(breach) if !episode.is_breach() => Edge::Breached(breach),
                Verdict::Unknown | Verdict::Healthy if episode.is_breach() => Edge::Cleared,
                _ => return (verdict, None),
            };
            if self.evidence.turn(episode) {
                return (verdict, Some(edge));
            }
        }
    }

    /// Evidence starts anew: counts, exceedances and the spike score restart at zero, and an attempt begun
    /// before never counts again. A breach ends with it (the next [`judge`](Self::judge) says so). What is
    /// reported goes on.
    ///
    /// `now` only brings the published figures up to date.
    pub fn restart(&self, now: Instant) {
        self.evidence.restart();
        self.reporting.refresh(self.slices.at(now));
    }

    /// The evidence inside the window at `now`, since the last restart.
    ///
    /// An attempt is an observation of T95 from the time it passed it or ended, and of T99 likewise. One
    /// that passed T95 so long ago that this has left the window, and T99 lately, is shown at both, so that
    /// `n99 <= n95`; the detectors count each at its own time.
    pub fn counts(&self, now: Instant) -> Counts {
        let counts = self.raw_counts(self.evidence.generation(), now);
        Counts {
            n95: counts.n95.max(counts.n99),
            over95: counts.over95.max(counts.over99),
            ..counts
        }
    }

    /// The median of the reported samples as last published: at most once a slice, and when it first became
    /// known. None below 5 samples. An idle window keeps its last figure; see
    /// [`median_at`](Self::median_at).
    pub fn median(&self) -> Option<Duration> {
        self.reporting.median()
    }

    /// The p95 of the reported samples as last published. None below 20 samples. An idle window keeps its
    /// last figure; see [`p95_at`](Self::p95_at).
    pub fn p95(&self) -> Option<Duration> {
        self.reporting.p95()
    }

    /// [`median`](Self::median), or None if that was published a window or longer ago.
    pub fn median_at(&self, now: Instant) -> Option<Duration> {
        self.median().filter(|_| self.is_current(now))
    }

    /// [`p95`](Self::p95), or None if that was published a window or longer ago.
    pub fn p95_at(&self, now: Instant) -> Option<Duration> {
        self.p95().filter(|_| self.is_current(now))
    }

    /// Percentiles over the reported samples. Takes the mutex that recording takes, for some microseconds.
    pub fn report(&self, now: Instant) -> Report {
        self.reporting.report(self.slices.at(now))
    }

    /// The same with what a breach may rest on although it has not ended: attempts still open that have passed
    /// T95 since the current run of exceedances began, at most the latest 64 of them, each a sample of its age
    /// at `now`. To be told beside a breach. Takes the mutex that recording takes, and allocates.
    pub fn report_with_open(&self, now: Instant) -> Report {
        let since_origin = self.slices.since_origin(now);
        let generation = self.evidence.generation();
        let slice = self.slices.at(now);
        self.reporting
            .report_with_open(slice, generation, since_origin)
    }

    /// Changes the limits from now on, losing nothing: each observation in the window keeps the answer it
    /// got by the limits of its own attempt's beginning and leaves with its slice, so the verdict is wholly
    /// by the new limits one window later (or at once after a [`restart`](Self::restart)). Open attempts
    /// keep the limits they began with. Reported samples and the spike score stay.
    ///
    /// # Errors
    /// If `p95` is zero or `p99` is below it; nothing is changed then.
    pub fn set_thresholds(&self, p95: Duration, p99: Duration) -> Result<(), ConfigError> {
        check_limits(p95, p99)?;
        self.evidence.set_limits(p95, p99);
        Ok(())
    }

    /// The limits T95 and T99 in force, to at most 584 years.
    pub fn thresholds(&self) -> (Duration, Duration) {
        self.evidence.limits()
    }

    /// The p95 over the attempts since the current run of exceedances began: since the spike score last
    /// left 0, at most the latest 64. Attempts still open count with their age. None if no run is on.
    pub fn p95_since_run(&self, now: Instant) -> Option<Duration> {
        let generation = self.evidence.generation();
        let since_origin = self.slices.since_origin(now);
        self.reporting
            .run(|run| run.p95(generation, since_origin))
            .map(Duration::from_nanos)
    }

    pub(crate) const fn reporting(&self) -> (&Reporting, &Slices) {
        (&self.reporting, &self.slices)
    }

    fn is_current(&self, now: Instant) -> bool {
        self.reporting
            .is_current(self.slices.at(now), self.slices.live())
    }

    fn observation(&self, began: Instant) -> Observation {
        let (p95, p99) = self.evidence.limits();
        Observation {
            began,
            generation: self.evidence.generation(),
            p95,
            p99,
            counted: Counted::Nowhere,
            run_entry: None,
        }
    }

    fn count(&self, obs: &mut Observation, limit: Limit, slice: u64, over: bool) {
        self.evidence.count(limit, obs.generation, slice, over);
        obs.counted = match limit {
            Limit::P95 => Counted::AtP95,
            Limit::P99 => Counted::AtBoth,
        };
    }

    /// Reports the age at the end, and tells the run: `new` is whether it was over, if the run has not seen
    /// the attempt yet.
    fn record_ended(&self, obs: &Observation, latency: Duration, slice: u64, new: Option<bool>) {
        let latency = nanos(latency);
        self.reporting
            .record(slice, latency, |run| match (new, obs.run_entry) {
                (Some(over), _) => {
                    run.add(obs.generation, over, Latency::Ended(latency));
                }
                (None, Some(entry)) => run.settle(entry, latency),
                (None, None) => {}
            });
    }

    fn raw_counts(&self, generation: u64, now: Instant) -> Counts {
        let slice = self.slices.at(now);
        self.evidence.counts(generation, slice, self.slices.live())
    }

    fn verdict_of(&self, generation: u64, now: Instant) -> Verdict {
        let counts = self.raw_counts(generation, now);
        self.verdict_on(counts, self.evidence.has_spike(generation))
    }

    /// This window's rule on any counts.
    pub(crate) fn verdict_on(&self, counts: Counts, spike: bool) -> Verdict {
        self.config.verdict(counts, spike, self.thresholds())
    }

    pub(crate) fn has_spike(&self) -> bool {
        self.evidence.has_spike(self.evidence.generation())
    }
}

impl WindowConfig {
    /// The verdict on `counts`, with `spike` saying whether the spike score's alarm is raised.
    pub(crate) fn verdict(
        &self,
        counts: Counts,
        spike: bool,
        (p95, p99): (Duration, Duration),
    ) -> Verdict {
        let floor = u64::from(self.min_samples);
        let breach = |detector, limit, samples, exceedances| {
            Verdict::Breached(Breach {
                detector,
                limit,
                samples,
                exceedances,
            })
        };
        let Counts {
            n95,
            over95,
            n99,
            over99,
        } = counts;
        if n95 >= floor && self.rule.p95(n95, over95) {
            breach(Detector::P95, p95, n95, over95)
        } else if n99 >= floor && self.rule.p99(n99, over99) {
            breach(Detector::P99, p99, n99, over99)
        } else if self.spike_detector && spike {
            breach(Detector::Spike, p95, n95, over95)
        } else if n95 >= floor.max(P95_FLOOR) && n99 >= floor.max(P99_FLOOR) {
            Verdict::Healthy
        } else {
            Verdict::Unknown
        }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn inv34_the_decision_part_is_at_most_512_bytes() {
        let bytes = size_of::<Evidence>() + size_of::<WindowConfig>() + size_of::<Slices>();
        assert!(bytes <= 512, "{bytes}");
    }
}
