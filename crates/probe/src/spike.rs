//! The spike detector: a one-sided cumulative sum over exceedances of T95 (Page 1954).

use crate::sync::{AtomicU64, Ordering};

/// Units of the score: 10^-12, so that a million steps are off by less than 10^-6.
const UNITS: u64 = 1_000_000_000_000;
/// ln 10 = ln(p1 / p0), p0 = 0.05, p1 = 0.5: the weight of an exceedance.
const UP: u64 = 2_302_585_092_994;
/// ln 1.9 = ln((1 - p0) / (1 - p1)): the weight of an observation under the limit.
const DOWN: u64 = 641_853_886_172;
/// Alarm at 11.5: five exceedances in a row, whatever came before; an endpoint exactly on its limit raises
/// it once in about 570,000 calls (computed as a Markov chain).
const ALARM: u64 = 115 * UNITS / 10;
/// Six exceedances' worth: how long a quiet spell must be to end the alarm has a bound.
const CAP: u64 = 6 * UP;

/// The score and whether its alarm is raised: from reaching 11.5 until back at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Score {
    value: u64,
    raised: bool,
}

impl Score {
    /// Nothing remembered, no alarm.
    pub(crate) const ZERO: Self = Self {
        value: 0,
        raised: false,
    };

    /// The score after one more observation.
    pub(crate) fn step(self, over: bool) -> Self {
        let value = if over {
            (self.value + UP).min(CAP)
        } else {
            self.value.saturating_sub(DOWN)
        };
        Self {
            value,
            raised: value >= ALARM || (self.raised && value > 0),
        }
    }

    /// No exceedance is remembered.
    pub(crate) const fn is_zero(self) -> bool {
        self.value == 0
    }

    #[cfg(test)]
    pub(crate) const fn raised(self) -> bool {
        self.raised
    }
}

/// A [`Score`] in one word with the generation of its evidence: generation 8, raised 1, value 55 bits.
#[derive(Debug)]
pub(crate) struct Spike(AtomicU64);

const RAISED: u64 = 1 << 55;

impl Spike {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// One more observation of `generation`; nothing if the score is already a later one's.
    pub(crate) fn step(&self, generation: u64, over: bool) {
        let own = low_bits(generation);
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let (held, score) = unpack(seen);
            let score = match held.wrapping_sub(own).cast_signed() {
                0 => score,
                1.. => return,
                _ => Score::ZERO,
            };
            let next = pack(own, score.step(over));
            if next == seen {
                return;
            }
            match self
                .0
                .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }

    /// Whether the alarm of `generation` is raised.
    pub(crate) fn raised(&self, generation: u64) -> bool {
        let (held, score) = unpack(self.0.load(Ordering::Acquire));
        held == low_bits(generation) && score.raised
    }

    /// Starts at 0 for `generation`, unless a later one has begun.
    pub(crate) fn restart(&self, generation: u64) {
        let own = low_bits(generation);
        let mut seen = self.0.load(Ordering::Acquire);
        while own.wrapping_sub(unpack(seen).0).cast_signed() > 0 {
            let next = pack(own, Score::ZERO);
            match self
                .0
                .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the word keeps the low bits on purpose"
)]
const fn low_bits(generation: u64) -> u8 {
    generation as u8
}

const fn pack(generation: u8, score: Score) -> u64 {
    (generation as u64) << 56 | if score.raised { RAISED } else { 0 } | score.value
}

const fn unpack(bits: u64) -> (u8, Score) {
    let score = Score {
        value: bits & (RAISED - 1),
        raised: bits & RAISED != 0,
    };
    (low_bits(bits >> 56), score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_in_a_row_raise_it_from_any_score_and_four_from_zero_never_do() {
        for start in (0..=CAP).step_by(usize::try_from(CAP / 1_000).unwrap()) {
            let from = Score {
                value: start,
                raised: false,
            };
            let five = (0..5).fold(from, |score, _| score.step(true));
            assert!(five.raised());
        }
        let four = (0..4).fold(Score::ZERO, |score, _| score.step(true));
        assert!(!four.raised());
    }

    #[test]
    fn the_alarm_ends_at_zero_after_at_most_22_observations_under() {
        let mut score = (0..100).fold(Score::ZERO, |score, _| score.step(true));
        assert_eq!(score.value, CAP);
        for _ in 0..21 {
            score = score.step(false);
            assert!(score.raised() && !score.is_zero());
        }
        score = score.step(false);
        assert!(score.is_zero() && !score.raised());
    }

    #[test]
    fn evidence_of_an_earlier_generation_changes_nothing() {
        let spike = Spike::new();
        for _ in 0..5 {
            spike.step(2, true);
        }
        assert!(spike.raised(2) && !spike.raised(1));
        spike.step(1, false);
        spike.restart(1);
        assert!(spike.raised(2));
        // Its own beginning, told late, takes nothing of it away.
        spike.restart(2);
        assert!(spike.raised(2));
    }

    #[test]
    fn a_later_generation_starts_at_nothing() {
        let spike = Spike::new();
        for _ in 0..5 {
            spike.step(1, true);
        }
        spike.restart(2);
        // What comes late for the generation before is dropped.
        spike.step(1, true);
        assert!(!spike.raised(1) && !spike.raised(2));
        for _ in 0..4 {
            spike.step(2, true);
        }
        assert!(!spike.raised(2));
        spike.step(2, true);
        assert!(spike.raised(2));
    }

    #[test]
    fn the_word_holds_the_cap() {
        let score = Score {
            value: CAP,
            raised: true,
        };
        assert_eq!(unpack(pack(255, score)), (255, score));
    }
}
