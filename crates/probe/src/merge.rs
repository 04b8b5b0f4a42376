//! Several windows read as one: for a service whose workers each have their own.

use std::time::Instant;

use crate::histogram::Histogram;
use crate::report::Report;
use crate::verdict::{Counts, Verdict};
use crate::window::LatencyWindow;

/// Windows of several workers, read as one. Reading changes none of them.
///
/// Give each worker its own window where one is contended (they share cache lines), and judge the sum.
///
/// ```
/// # use std::time::{Duration, Instant};
/// # use evenkeel_probe::{LatencyWindow, MergedWindows, WindowConfig};
/// # fn demo(t0: Instant) -> Result<(), evenkeel_probe::ConfigError> {
/// let limit = Duration::from_millis(200);
/// let config = WindowConfig::new(limit, 2 * limit, Duration::from_secs(10))?;
/// let workers = [(); 2].map(|()| LatencyWindow::new(config.clone(), t0));
/// for worker in &workers {
///     (0..3).for_each(|_| worker.record(2 * limit, t0));
///     assert!(!worker.verdict(t0).is_breached());
/// }
/// let merged = MergedWindows::new(&workers);
/// assert!(merged.verdict(t0).is_breached());
/// assert_eq!(merged.report(t0).samples, 6);
/// # Ok(()) }
/// # #[expect(clippy::disallowed_methods)] demo(Instant::now()).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MergedWindows<'a> {
    windows: &'a [LatencyWindow],
}

impl<'a> MergedWindows<'a> {
    /// The windows as one. They are meant to have one config; verdicts go by the first one's rule and
    /// limits.
    pub const fn new(windows: &'a [LatencyWindow]) -> Self {
        Self { windows }
    }

    /// The sums of all windows' counts.
    pub fn counts(&self, now: Instant) -> Counts {
        let mut sum = Counts::default();
        for window in self.windows {
            let counts = window.counts(now);
            sum.n95 += counts.n95;
            sum.over95 += counts.over95;
            sum.n99 += counts.n99;
            sum.over99 += counts.over99;
        }
        sum
    }

    /// The verdict on the sums. A spike breach holds if one window's own detector has fired: five calls in
    /// a row at one worker. Without windows it is unknown.
    pub fn verdict(&self, now: Instant) -> Verdict {
        self.windows.first().map_or(Verdict::Unknown, |first| {
            let spike = self.windows.iter().any(LatencyWindow::has_spike);
            first.verdict_on(self.counts(now), spike)
        })
    }

    /// Percentiles over all windows' samples, as exact as those of one window. Allocates 28 KiB while it
    /// adds them up.
    pub fn report(&self, now: Instant) -> Report {
        let mut sum = Histogram::new();
        let largest = self.windows.iter().map(|window| {
            let (reporting, slices) = window.reporting();
            reporting.add_to(slices.at(now), &mut sum)
        });
        let max = largest.max().unwrap_or(0);
        Report::of::<u64>(&[&sum], max)
    }
}
