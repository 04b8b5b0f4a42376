//! Wilson's interval of a share.

use super::{Resampling, around};
use crate::Interval;

/// The share `hits / of` with Wilson's interval (1927); none of nothing.
///
/// `hits` may be a sum of scores in 0..1: the interval is then too wide rather
/// than too narrow. What lies outside of 0..=`of` is taken for the nearer end.
pub fn share_interval(hits: f64, of: usize, resampling: &Resampling) -> Option<Interval> {
    if of == 0 || hits.is_nan() {
        return None;
    }
    let n = count(of);
    let share = (hits / n).clamp(0.0, 1.0);
    let z2 = resampling.z().powi(2);
    let spread = (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    let centre = share + z2 / (2.0 * n);
    let shrink = 1.0 + z2 / n;
    let half = resampling.z() * spread;
    Some(around(
        share,
        (centre - half) / shrink,
        (centre + half) / shrink,
        0.0,
        1.0,
    ))
}

/// A number of items as a number to reckon with; exact below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "no dataset has 2^53 items, and then the error is one in 2^53"
)]
pub(crate) fn count(items: usize) -> f64 {
    items as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(hits: f64, of: usize) -> String {
        let found = share_interval(hits, of, &Resampling::new(1)).unwrap();
        format!(
            "{:.3} {:.3} {:.3}",
            found.lower, found.estimate, found.upper
        )
    }

    /// Newcombe 1998 (Stat. Med. 17:857), table I, method 3.
    #[test]
    fn the_published_examples_hold() {
        assert_eq!(shown(81.0, 263), "0.255 0.308 0.366");
        assert_eq!(shown(15.0, 148), "0.062 0.101 0.160");
        assert_eq!(shown(0.0, 20), "0.000 0.000 0.161");
        assert_eq!(shown(1.0, 29), "0.006 0.034 0.172");
        assert_eq!(shown(29.0, 29), "0.883 1.000 1.000");
    }

    #[test]
    fn nothing_has_no_share() {
        assert_eq!(share_interval(0.0, 0, &Resampling::new(1)), None);
        assert_eq!(share_interval(f64::NAN, 3, &Resampling::new(1)), None);
    }

    #[test]
    fn hits_outside_are_the_nearer_end() {
        assert_eq!(shown(-3.0, 20), shown(0.0, 20));
        assert_eq!(shown(30.0, 29), shown(29.0, 29));
    }
}
