//! What the closed path must not do.

use evenkeel_breaker::{Breaker, BreakerConfig, HedgeBudget, RateRule, RateWindow, RetryBudget};

use crate::trace::{ms, origin};

#[test]
fn the_closed_path_allocates_nothing_after_a_threads_first_call() {
    let now = origin();
    for window in [RateWindow::Time(ms(160)), RateWindow::Calls(20)] {
        let rate = Some(RateRule {
            window,
            ..RateRule::default()
        });
        let config = BreakerConfig {
            rate,
            ..BreakerConfig::default()
        };
        let breaker = Breaker::new(config, 0, now).unwrap();
        let retries = RetryBudget::new(0.2, 10, ms(100), now).unwrap();
        let hedges = HedgeBudget::new(0.05, 10).unwrap();
        breaker.admit(now).unwrap().success(now);
        let used = allocation_counter::measure(|| {
            for call in 0..1000 {
                let now = now + ms(call);
                retries.deposit(now);
                hedges.deposit();
                let permit = breaker.admit(now).unwrap();
                if call % 5 == 0 {
                    permit.failure(now, None);
                } else {
                    permit.success(now);
                }
            }
        });
        assert_eq!(used.count_total, 0);
        assert_eq!(breaker.generation(), 0);
    }
}
