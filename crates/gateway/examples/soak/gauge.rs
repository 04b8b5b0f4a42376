//! What the process holds: memory, tasks, descriptors. Read from `/proc`, so on Linux.

use anyhow::Context;
use cap::Cap;
use std::alloc::System;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The allocator of the process, and how much of what it gave is in use.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// Time between two readings.
const EVERY: Duration = Duration::from_secs(1);

/// One reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauge {
    /// Resident memory, bytes: with the pages that the allocator keeps for later.
    pub(super) rss: u64,
    /// Memory that was asked for and not given back, bytes: what something still holds.
    pub(super) heap: u64,
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
            heap: HEAP.allocated() as u64,
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
    /// The middle of the readings within half a minute of `at`. Not the largest:
    /// an answer that unpacks to millions of blanks takes what its limit allows
    /// for a moment, and is no growth.
    pub(super) fn around(&self, at: Duration) -> Gauge {
        self.middle(|time| time.abs_diff(at) <= Duration::from_secs(30))
    }

    /// The middle of the last minute's readings.
    pub(super) fn last(&self) -> Gauge {
        let end = self.0.last().map_or(Duration::ZERO, |(time, _)| *time);
        self.middle(|time| time + Duration::from_secs(60) >= end)
    }

    /// The medians of every whole minute.
    pub(super) fn by_minute(&self) -> Vec<Gauge> {
        let end = self.0.last().map_or(0, |(time, _)| time.as_secs() / 60);
        let minute = |n| self.middle(|time| time.as_secs() / 60 == n);
        (0..end).map(minute).collect()
    }

    /// The most memory of any reading, bytes.
    pub(super) fn most_rss(&self) -> u64 {
        let readings = self.0.iter().map(|(_, gauge)| gauge.rss);
        readings.max().unwrap_or_default()
    }

    /// The median of each number over the chosen readings.
    fn middle(&self, of: impl Fn(Duration) -> bool) -> Gauge {
        let chosen: Vec<Gauge> = self
            .0
            .iter()
            .filter(|(time, _)| of(*time))
            .map(|(_, gauge)| *gauge)
            .collect();
        Gauge {
            rss: median(chosen.iter().map(|gauge| gauge.rss)),
            heap: median(chosen.iter().map(|gauge| gauge.heap)),
            tasks: median(chosen.iter().map(|gauge| gauge.tasks)),
            descriptors: median(chosen.iter().map(|gauge| gauge.descriptors)),
        }
    }
}

/// The upper median; 0 of nothing.
fn median<T: Ord + Copy + Default>(numbers: impl Iterator<Item = T>) -> T {
    let mut numbers: Vec<T> = numbers.collect();
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}
