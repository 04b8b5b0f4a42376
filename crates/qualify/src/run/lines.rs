//! A line now and then, where there is no terminal.

use super::progress::{Halt, Progress};
use super::score::SoFar;
use crate::outcome::Outcome;
use evenkeel_core::ModelId;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::time::Duration;
use tokio::time::Instant;

/// Time between two lines about how far everybody is.
const EVERY: Duration = Duration::from_secs(10);

/// Writes a line now and then: for a log that nobody watches.
pub struct Lines<W> {
    to: W,
    by_model: BTreeMap<ModelId, Line>,
    last: Instant,
}

struct Line {
    total: usize,
    so_far: SoFar,
}

impl<W> fmt::Debug for Lines<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl<W: Write + Send> Lines<W> {
    /// Lines to `to`. A line that cannot be written is left out.
    pub fn to(to: W) -> Self {
        Self {
            to,
            by_model: BTreeMap::new(),
            last: Instant::now(),
        }
    }

    fn say(&mut self, candidate: &ModelId, what: impl fmt::Display) {
        let _ = writeln!(self.to, "{candidate}: {what}");
    }

    fn say_all(&mut self) {
        for (candidate, line) in &self.by_model {
            let Line { total, so_far } = line;
            let done = so_far.heard();
            if done > 0 && done < *total {
                let _ = writeln!(self.to, "{candidate}: {done} of {total}, {so_far}");
            }
        }
    }
}

impl<W: Write + Send> Progress for Lines<W> {
    fn begins(&mut self, candidate: &ModelId, total: usize, before: SoFar) {
        let done = before.heard();
        if done > 0 {
            let goes_on = format_args!("goes on at {done} of {total}, {before}");
            self.say(candidate, goes_on);
        }
        let line = Line {
            total,
            so_far: before,
        };
        self.by_model.insert(candidate.clone(), line);
    }

    fn heard(&mut self, outcome: &Outcome) {
        if let Some(line) = self.by_model.get_mut(&outcome.candidate) {
            line.so_far.add(outcome);
        }
        if self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            self.say_all();
        }
    }

    fn waits(&mut self, candidate: &ModelId, wait: Duration) {
        let seconds = wait.as_secs_f64();
        self.say(
            candidate,
            format_args!("waits {seconds:.1} s for its rate limit"),
        );
    }

    fn halted(&mut self, candidate: &ModelId, halt: Halt) {
        self.say(candidate, halt);
    }

    fn ends(&mut self, candidate: &ModelId) {
        let Some(line) = self.by_model.get(candidate) else {
            return;
        };
        let Line { total, so_far } = line;
        let said = format!("{} of {total}, {so_far}", so_far.heard());
        self.say(candidate, format_args!("asked {said}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::OutcomeKind;
    use evenkeel_core::Class;
    use std::sync::Arc;

    fn outcome(candidate: &ModelId, kind: OutcomeKind) -> Outcome {
        Outcome {
            candidate: candidate.clone(),
            index: 0,
            item: Arc::from("i"),
            tags: Arc::from([]),
            repeat: 0,
            kind,
            is_valid: None,
            total: Duration::ZERO,
            first_token: None,
            usage: None,
            cost_usd: None,
            judges_agree: None,
            snapshot: None,
            fingerprint: None,
            answer: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_is_told_now_and_then_and_at_the_end() {
        let mut written = Vec::new();
        let mut lines = Lines::to(&mut written);
        let model = ModelId::new("a/b").unwrap();
        let mut before = SoFar::default();
        for _ in 0..3 {
            before.add(&outcome(&model, OutcomeKind::Answered(1.0)));
        }
        lines.begins(&model, 200, before);
        for second in 0..25 {
            tokio::time::advance(Duration::from_secs(1)).await;
            let kind = match second % 5 {
                0 => OutcomeKind::Failed(Class::Timeout),
                _ => OutcomeKind::Answered(0.5),
            };
            lines.heard(&outcome(&model, kind));
        }
        lines.heard(&outcome(
            &model,
            OutcomeKind::Unmeasured(Class::RateLimited),
        ));
        lines.waits(&model, Duration::from_secs(30));
        let halt = Halt::Limited {
            in_a_row: 3,
            class: Class::RateLimited,
        };
        lines.halted(&model, halt);
        lines.ends(&model);
        let expected = "\
a/b: goes on at 3 of 200, score 1.000
a/b: 13 of 200, score 0.538, 2 failed
a/b: 23 of 200, score 0.478, 4 failed
a/b: waits 30.0 s for its rate limit
a/b: 3 questions in a row were never taken (rate_limited): not asked further
a/b: asked 29 of 200, score 0.464, 5 failed, 1 unmeasured
";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
