//! A bar for each candidate, on a terminal.

use super::progress::{Halt, Progress};
use super::score::SoFar;
use crate::outcome::Outcome;
use evenkeel_core::ModelId;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shows a bar for each candidate on standard error: how far it is, how long the rest
/// will take, and its score so far.
#[derive(Debug)]
pub struct Bars {
    all: MultiProgress,
    by_model: BTreeMap<ModelId, (ProgressBar, SoFar)>,
}

impl Bars {
    /// Without a bar yet.
    pub fn on_stderr() -> Self {
        Self::over(ProgressDrawTarget::stderr())
    }

    fn over(target: ProgressDrawTarget) -> Self {
        Self {
            all: MultiProgress::with_draw_target(target),
            by_model: BTreeMap::new(),
        }
    }

    fn say(&self, candidate: &ModelId, what: String) {
        if let Some((bar, _)) = self.by_model.get(candidate) {
            bar.set_message(what);
        }
    }
}

fn style() -> ProgressStyle {
    let line = "{prefix:24!} {bar:24} {pos:>6}/{len} {eta:>5}  {msg}";
    let style = ProgressStyle::with_template(line).expect("a template of ours parses");
    style.progress_chars("=> ")
}

impl Progress for Bars {
    fn begins(&mut self, candidate: &ModelId, total: usize, before: SoFar) {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let bar = self.all.add(ProgressBar::new(count(total)));
        bar.set_style(style());
        bar.set_prefix(candidate.to_string());
        // What was done before took none of this run's time.
        bar.set_position(count(before.heard()));
        bar.reset_eta();
        if before.heard() > 0 {
            bar.set_message(before.to_string());
        }
        bar.tick();
        self.by_model.insert(candidate.clone(), (bar, before));
    }

    fn heard(&mut self, outcome: &Outcome) {
        if let Some((bar, so_far)) = self.by_model.get_mut(&outcome.candidate) {
            so_far.add(outcome);
            bar.set_message(so_far.to_string());
            bar.inc(1);
        }
    }

    fn waits(&mut self, candidate: &ModelId, wait: Duration) {
        let seconds = wait.as_secs_f64();
        self.say(
            candidate,
            format!("waits {seconds:.1} s for its rate limit"),
        );
    }

    fn halted(&mut self, candidate: &ModelId, halt: Halt) {
        self.say(candidate, halt.to_string());
        if let Some((bar, _)) = self.by_model.get(candidate) {
            bar.abandon();
        }
    }

    fn ends(&mut self, candidate: &ModelId) {
        if let Some((bar, _)) = self.by_model.get(candidate) {
            bar.abandon();
        }
    }
}
