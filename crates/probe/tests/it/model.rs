//! A window that keeps everything in lists: the reference for the lock-free one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use evenkeel_probe::{Counts, Detector};

/// The smallest k with P[Bin(n, 1-q) >= k] <= a, by the plain recursion.
pub(crate) fn obvious_breach_count(n: u64, q: f64, a: f64) -> u64 {
    let n = usize::try_from(n).unwrap();
    let p = 1.0 - q;
    let mut row = vec![1.0];
    for _ in 0..n {
        let mut next = vec![0.0; row.len() + 1];
        for (i, x) in row.iter().enumerate() {
            next[i] += x * (1.0 - p);
            next[i + 1] += x * p;
        }
        row = next;
    }
    let mut tail = 0.0;
    for k in (0..=n).rev() {
        tail += row[k];
        if tail > a {
            return k as u64 + 1;
        }
    }
    0
}

/// The same, remembered: a window asks for few different ones.
fn remembered_breach_count(n: u64, q: f64, a: f64) -> u64 {
    thread_local! {
        static KNOWN: RefCell<HashMap<(u64, u64, u64), u64>> = RefCell::default();
    }
    let key = (n, q.to_bits(), a.to_bits());
    KNOWN.with_borrow_mut(|known| {
        *known
            .entry(key)
            .or_insert_with(|| obvious_breach_count(n, q, a))
    })
}

/// P[Bin(n, r) <= over].
pub(crate) fn obvious_lower_tail(n: u64, over: u64, r: f64) -> f64 {
    let mut row = vec![1.0];
    for _ in 0..n {
        let mut next = vec![0.0; row.len() + 1];
        for (i, x) in row.iter().enumerate() {
            next[i] += x * (1.0 - r);
            next[i + 1] += x * r;
        }
        row = next;
    }
    row.iter().take(usize::try_from(over).unwrap() + 1).sum()
}

/// The spike recursion in floating point.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cusum {
    pub(crate) s: f64,
    pub(crate) fired: bool,
}

impl Cusum {
    pub(crate) fn step(&mut self, over: bool) {
        let ln10 = 10.0_f64.ln();
        self.s = if over {
            (6.0 * ln10).min(self.s + ln10)
        } else {
            (self.s - 1.9_f64.ln()).max(0.0)
        };
        if self.s >= 11.5 {
            self.fired = true;
        } else if self.s <= 0.0 {
            self.fired = false;
        }
    }
}

/// Settings of a reference window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) min_samples: u64,
    pub(crate) confidence: f64,
    pub(crate) spike: bool,
}

/// What the reference says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Unknown,
    Healthy,
    Breached(Detector),
}

/// Observations since the last restart, each with the slice it was made in.
#[derive(Clone, Debug)]
pub(crate) struct ListWindow {
    slice: Duration,
    rules: Rules,
    at95: Vec<(u128, bool)>,
    at99: Vec<(u128, bool)>,
    cusum: Cusum,
    latest: Duration,
}

impl ListWindow {
    pub(crate) fn new(slice: Duration, rules: Rules) -> Self {
        Self {
            slice,
            rules,
            at95: Vec::new(),
            at99: Vec::new(),
            cusum: Cusum::default(),
            latest: Duration::ZERO,
        }
    }

    fn slice_of(&self, now: Duration) -> u128 {
        now.max(self.latest).as_nanos() / self.slice.as_nanos()
    }

    pub(crate) fn at95(&mut self, now: Duration, over: bool) {
        self.at95.push((self.slice_of(now), over));
        self.latest = self.latest.max(now);
        self.cusum.step(over);
    }

    pub(crate) fn at99(&mut self, now: Duration, over: bool) {
        self.at99.push((self.slice_of(now), over));
        self.latest = self.latest.max(now);
    }

    pub(crate) fn restart(&mut self) {
        self.at95.clear();
        self.at99.clear();
        self.cusum = Cusum::default();
    }

    /// Observations and exceedances of each limit, each in the latest 16 slices.
    pub(crate) fn counts(&self, now: Duration) -> Counts {
        let current = self.slice_of(now);
        let live = |list: &[(u128, bool)]| {
            let inside = list.iter().filter(|(slice, _)| slice + 16 > current);
            let over = inside.clone().filter(|(_, over)| *over).count();
            (inside.count() as u64, over as u64)
        };
        let (n95, over95) = live(&self.at95);
        let (n99, over99) = live(&self.at99);
        Counts {
            n95,
            over95,
            n99,
            over99,
        }
    }

    fn breaches(&self, n: u64, over: u64, q: f64) -> bool {
        if n < self.rules.min_samples {
            return false;
        }
        if self.rules.confidence == 0.0 {
            let percent = if q > 0.97 { 1 } else { 5 };
            return over * 100 > percent * n;
        }
        over >= 3 && over >= remembered_breach_count(n, q, 1.0 - self.rules.confidence)
    }

    pub(crate) fn verdict(&self, now: Duration) -> Said {
        let Counts {
            n95,
            over95,
            n99,
            over99,
        } = self.counts(now);
        let floor = self.rules.min_samples;
        if self.breaches(n95, over95, 0.95) {
            Said::Breached(Detector::P95)
        } else if self.breaches(n99, over99, 0.99) {
            Said::Breached(Detector::P99)
        } else if self.rules.spike && self.cusum.fired {
            Said::Breached(Detector::Spike)
        } else if n95 >= floor.max(20) && n99 >= floor.max(100) {
            Said::Healthy
        } else {
            Said::Unknown
        }
    }
}
