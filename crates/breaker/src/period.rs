//! How long something lasts that grows with each repetition.

use std::time::Duration;

/// `base × growth^(nth − 1)`, at most `cap`; `nth` counts from 1.
pub(crate) fn grown(base: Duration, growth: f64, cap: Duration, nth: u32) -> Duration {
    let exponent = i32::try_from(nth.saturating_sub(1)).unwrap_or(i32::MAX);
    // Finite, so that nothing grows to nothing.
    scaled(base, growth.powi(exponent).min(f64::MAX)).min(cap)
}

/// `span` spread evenly over ± `jitter` of itself by `unit` (0 to 1); never zero.
pub(crate) fn spread(span: Duration, jitter: f64, unit: f64) -> Duration {
    scaled(span, 1.0 + jitter * (2.0 * unit - 1.0)).max(Duration::from_nanos(1))
}

/// `span × factor`, at most [`Duration::MAX`].
pub(crate) fn scaled(span: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(span.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// A number in `0.0..1.0` that depends on `seed` and `index` alone.
///
/// `SplitMix64` (Steele, Lea, Flood 2014), so that what an opening will last can be told before it begins.
pub(crate) const fn unit(seed: u64, index: u64) -> f64 {
    /// 2^-53: a double holds 53 bits exactly.
    const STEP: f64 = f64::EPSILON / 2.0;
    let mut z = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let high = (z >> 11) as f64;
    high * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jitter_of_zero_to_one_spreads_evenly_around_the_span() {
        let second = Duration::from_secs(1);
        let at = |unit| spread(second, 0.1, unit).as_secs_f64();
        for (unit, expected) in [(0.0, 0.9), (0.25, 0.95), (0.5, 1.0), (1.0, 1.1)] {
            assert!((at(unit) - expected).abs() < 1e-9, "{unit}: {}", at(unit));
        }
    }

    /// The first outputs of the published `SplitMix64` for the seed 1234567.
    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let published = [
            6_457_827_717_110_365_317_u64,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        for (index, whole) in (1..).zip(published) {
            // The upper 53 bits of each, as a share of 2^53.
            let number = unit(1_234_567, index) * 2.0_f64.powi(53);
            assert_eq!(format!("{number}"), (whole >> 11).to_string());
        }
    }
}
