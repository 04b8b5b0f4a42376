//! What copies of calls say of a candidate, without looking at what it answers: whether
//! its answers can be used at all, and how quick they are.

use evenkeel_core::{ModelId, ShadowAnswer, ShadowPair};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Fewest pairs that a verdict rests on.
const LEAST_PAIRS: f64 = 30.0;
/// From so many on older pairs count half, so that a candidate that changed is judged
/// by what it is now.
const MOST_PAIRS: f64 = 1_000.0;
/// Most useless answers, as a share of pairs, at which a candidate is as good as the model
/// that answers now.
const MOST_USELESS: f64 = 0.05;
/// The 97.5th percentile of the normal distribution: intervals hold in 95 of 100 cases.
const Z: f64 = 1.96;

/// How a candidate stands to the model that answers now, after a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShadowVerdict {
    /// Its answers can be used, and more often than not are there earlier.
    Better,
    /// Its answers can be used.
    Equivalent,
    /// More than 5% of its answers cannot be used.
    Worse,
    /// There are too few pairs to say.
    NotEnoughData,
}

impl ShadowVerdict {
    pub(super) const ALL: [Self; 4] = [
        Self::Better,
        Self::Equivalent,
        Self::Worse,
        Self::NotEnoughData,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Equivalent => "equivalent",
            Self::Worse => "worse",
            Self::NotEnoughData => "not_enough_data",
        }
    }
}

/// What the pairs of a role and a candidate came to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    pairs: f64,
    /// The candidate failed, or broke the schema.
    useless: f64,
    /// Both answered; and of those, the candidate was quicker.
    both: f64,
    quicker: f64,
}

/// The candidates, by role.
#[derive(Debug, Default)]
pub(super) struct Shadows(Mutex<HashMap<(Arc<str>, ModelId), Tally>>);

impl Shadows {
    /// Takes a pair in, and says how the candidate stands then. There are as many roles
    /// and candidates as configurations have named.
    pub(super) fn score(&self, pair: &ShadowPair) -> ShadowVerdict {
        let key = (pair.role.clone(), pair.shadow.model.clone());
        let mut tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.entry(key).or_default();
        tally.take(pair);
        tally.verdict()
    }
}

fn is_useless(answer: &ShadowAnswer) -> bool {
    answer.failure.is_some() || answer.is_valid == Some(false)
}

impl Tally {
    fn take(&mut self, pair: &ShadowPair) {
        if self.pairs >= MOST_PAIRS {
            for count in [
                &mut self.pairs,
                &mut self.useless,
                &mut self.both,
                &mut self.quicker,
            ] {
                *count /= 2.0;
            }
        }
        self.pairs += 1.0;
        if is_useless(&pair.shadow) {
            self.useless += 1.0;
        } else {
            self.both += 1.0;
            if pair.shadow.latency < pair.live.latency {
                self.quicker += 1.0;
            }
        }
    }

    fn verdict(&self) -> ShadowVerdict {
        if self.pairs < LEAST_PAIRS {
            return ShadowVerdict::NotEnoughData;
        }
        let (least, most) = interval(self.useless, self.pairs);
        if least > MOST_USELESS {
            return ShadowVerdict::Worse;
        }
        if most > MOST_USELESS {
            return ShadowVerdict::NotEnoughData;
        }
        let (quicker, _) = interval(self.quicker, self.both);
        if quicker > 0.5 {
            ShadowVerdict::Better
        } else {
            ShadowVerdict::Equivalent
        }
    }
}

/// Between which shares the true one lies, with 95% confidence (Wilson 1927).
fn interval(hits: f64, of: f64) -> (f64, f64) {
    let share = hits / of;
    let z2 = Z * Z / of;
    let middle = share + z2 / 2.0;
    let half = Z * ((share * (1.0 - share) + z2 / 4.0) / of).sqrt();
    ((middle - half) / (1.0 + z2), (middle + half) / (1.0 + z2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Class;
    use std::time::Duration;

    fn answer(model: &str, ms: u64) -> ShadowAnswer {
        ShadowAnswer {
            model: ModelId::new(model).unwrap(),
            latency: Duration::from_millis(ms),
            first_token: None,
            usage: None,
            cost: None,
            finish: None,
            text_bytes: 3,
            tool_calls: 0,
            is_valid: None,
            failure: None,
            content: None,
        }
    }

    fn pair(shadow: ShadowAnswer) -> ShadowPair {
        ShadowPair {
            role: "writer".into(),
            live: answer("a/live", 500),
            shadow,
            request: None,
        }
    }

    fn after(pairs: impl IntoIterator<Item = ShadowAnswer>) -> ShadowVerdict {
        let shadows = Shadows::default();
        let mut stands = ShadowVerdict::NotEnoughData;
        for shadow in pairs {
            stands = shadows.score(&pair(shadow));
        }
        stands
    }

    fn failed() -> ShadowAnswer {
        ShadowAnswer {
            failure: Some(Class::Timeout),
            ..answer("b/new", 900)
        }
    }

    fn invalid() -> ShadowAnswer {
        ShadowAnswer {
            is_valid: Some(false),
            ..answer("b/new", 100)
        }
    }

    #[test]
    fn a_few_pairs_say_nothing() {
        let few = (0..29).map(|_| answer("b/new", 100));
        assert_eq!(after(few), ShadowVerdict::NotEnoughData);
    }

    #[test]
    fn a_candidate_that_is_usable_and_quicker_is_better() {
        let quick = (0..100).map(|_| answer("b/new", 100));
        assert_eq!(after(quick), ShadowVerdict::Better);
        let as_quick = (0..100).map(|n| answer("b/new", if n % 2 == 0 { 100 } else { 900 }));
        assert_eq!(after(as_quick), ShadowVerdict::Equivalent);
    }

    #[test]
    fn one_that_fails_or_breaks_the_schema_too_often_is_worse() {
        for useless in [failed, invalid] {
            let some = |n| {
                if n % 5 == 0 {
                    useless()
                } else {
                    answer("b/new", 100)
                }
            };
            assert_eq!(after((0..100).map(some)), ShadowVerdict::Worse);
        }
    }

    #[test]
    fn a_share_near_the_limit_is_left_open() {
        let some = |n| {
            if n % 20 == 0 {
                failed()
            } else {
                answer("b/new", 100)
            }
        };
        assert_eq!(after((0..100).map(some)), ShadowVerdict::NotEnoughData);
    }

    #[test]
    fn what_was_long_ago_weighs_less() {
        let bad = (0..1_000).map(|_| failed());
        let good = (0..40_000).map(|_| answer("b/new", 100));
        assert_eq!(after(bad.chain(good)), ShadowVerdict::Better);
    }
}
