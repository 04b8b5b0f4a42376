//! What the process holds: memory, tasks, descriptors. Read from `/proc`, so on Linux.

use anyhow::Context;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Time between two readings.
const EVERY: Duration = Duration::from_secs(5);

/// One reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauge {
    /// Resident memory, bytes.
    pub(super) rss: u64,
    /// Tasks of the runtime that have not ended.
    pub(super) tasks: usize,
    /// Open file descriptors, sockets among them.
    pub(super) descriptors: usize,
}

impl Gauge {
    /// As of now.
    ///
    /// # Errors
    /// Where there is no `/proc`.
    pub(super) fn read() -> anyhow::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")
            .context("memory is read from /proc, which is not there")?;
        let rss = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix("kB"))
            .and_then(|kib| kib.trim().parse::<u64>().ok())
            .context("no VmRSS in /proc/self/status")?;
        Ok(Self {
            rss: rss * 1024,
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks(),
            descriptors: std::fs::read_dir("/proc/self/fd")?.count(),
        })
    }
}

/// Readings, each with its time since the first.
#[derive(Debug, Default)]
pub(super) struct Series(Vec<(Duration, Gauge)>);

/// Reads until `until`.
pub(super) async fn watch(until: Instant) -> anyhow::Result<Series> {
    let began = Instant::now();
    let mut series = Series::default();
    let mut next = began;
    while next <= until {
        sleep_until(next).await;
        series.0.push((next - began, Gauge::read()?));
        next += EVERY;
    }
    Ok(series)
}

impl Series {
    /// The largest readings within ten seconds of `at`.
    pub(super) fn around(&self, at: Duration) -> Gauge {
        let near = |time: Duration| time.abs_diff(at) <= Duration::from_secs(10);
        self.largest(near)
    }

    /// The largest readings of the last twenty seconds.
    pub(super) fn last(&self) -> Gauge {
        let end = self.0.last().map_or(Duration::ZERO, |(time, _)| *time);
        self.largest(|time| time + Duration::from_secs(20) >= end)
    }

    /// The most memory of any reading, bytes.
    pub(super) fn most_rss(&self) -> u64 {
        self.largest(|_| true).rss
    }

    fn largest(&self, of: impl Fn(Duration) -> bool) -> Gauge {
        let chosen = self.0.iter().filter(|(time, _)| of(*time));
        chosen.fold(Gauge::default(), |most, (_, gauge)| Gauge {
            rss: most.rss.max(gauge.rss),
            tasks: most.tasks.max(gauge.tasks),
            descriptors: most.descriptors.max(gauge.descriptors),
        })
    }
}
