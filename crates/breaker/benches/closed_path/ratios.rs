//! What the default costs beside the fastest peer and the floor of the same run.

use std::{collections::BTreeMap, time::Duration};

pub(crate) const ONE: &str = "one thread";
pub(crate) const TWO: &str = "two threads, one breaker";
pub(crate) const KEYED: &str = "64 breakers in turn";

pub(crate) const FLOOR: &str = "floor: std mutex";
pub(crate) const DEFAULT: &str = "evenkeel, in a row and 60 s window";

/// Nanoseconds a call, of each sample.
#[derive(Default)]
pub(crate) struct Figures(BTreeMap<(&'static str, &'static str), Vec<f64>>);

impl Figures {
    /// Keeps what so many calls took, and passes it on.
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 calls")]
    pub(crate) fn keep(
        &mut self,
        group: &'static str,
        name: &'static str,
        calls: u64,
        took: Duration,
    ) -> Duration {
        let each = took.as_secs_f64() * 1e9 / calls as f64;
        self.0.entry((group, name)).or_default().push(each);
        took
    }

    /// Says how many times faster than the fastest peer the default is; nothing of groups that were left out.
    #[expect(clippy::print_stdout, reason = "a bench tells what it found")]
    pub(crate) fn tell(&mut self) {
        for (group, goal) in [(ONE, 3.0), (TWO, 7.0), (KEYED, 3.0)] {
            let own = self.median(group, DEFAULT);
            let floor = self.median(group, FLOOR);
            let (Some(own), Some(floor), Some((peer, best))) =
                (own, floor, self.fastest_peer(group))
            else {
                continue;
            };
            println!(
                "{group}: {DEFAULT}: {own:.1} ns, {:.1} times as fast as the fastest peer ({peer}, {best:.1} ns; \
                 goal {goal}), {:.2} of a lock and unlock of a std mutex ({floor:.1} ns)",
                best / own,
                own / floor,
            );
        }
    }

    fn fastest_peer(&mut self, group: &'static str) -> Option<(&'static str, f64)> {
        let peers: Vec<_> = self
            .0
            .keys()
            .filter(|(of, name)| *of == group && !name.starts_with("evenkeel") && *name != FLOOR)
            .copied()
            .collect();
        peers
            .into_iter()
            .filter_map(|(group, name)| Some((name, self.median(group, name)?)))
            .min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    fn median(&mut self, group: &'static str, name: &'static str) -> Option<f64> {
        let samples = self.0.get_mut(&(group, name))?;
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied()
    }
}
