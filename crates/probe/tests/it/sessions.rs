//! Where sessions fall (invariant 64).

use evenkeel_probe::session_point;
use proptest::prelude::*;

#[test]
fn points_are_the_same_in_every_version() {
    // Computed apart, from the published definitions of FNV-1a and fmix64.
    let expected = [
        ("", 0, 0.483_689_565_016_678_04),
        ("user-42", 7, 0.377_780_243_233_185_93),
        ("wärme", u64::MAX, 0.016_074_970_709_834_435),
    ];
    for (session, epoch, point) in expected {
        assert!(
            (session_point(session, epoch) - point).abs() < 1e-15,
            "{session} {epoch}"
        );
    }
}

#[test]
fn shares_are_met_within_chance() {
    for epoch in [0, 1, 77] {
        for share in [0.1, 0.5] {
            let sessions = (0..20_000).map(|i| format!("session-{i}"));
            let below = sessions.filter(|s| session_point(s, epoch) < share).count();
            let expected = 20_000.0 * share;
            // Five standard deviations.
            let slack = 5.0 * (expected * (1.0 - share)).sqrt();
            let below = f64::from(u32::try_from(below).unwrap());
            assert!((below - expected).abs() < slack, "{below} of {expected}");
        }
    }
}

proptest! {
    /// Invariant 64: below a smaller share is below a larger one, so rising shares move a session once.
    #[test]
    fn inv64_a_session_moves_at_most_once_as_shares_rise(session in ".{0,40}", epoch in any::<u64>()) {
        let point = session_point(&session, epoch);
        prop_assert!((0.0..1.0).contains(&point));
        let sides = [0.0, 0.1, 0.5, 1.0].map(|share| point < share);
        prop_assert!(!sides[0] && sides[3] && sides.is_sorted());
        prop_assert_eq!(point.to_bits(), session_point(&session, epoch).to_bits());
    }
}
