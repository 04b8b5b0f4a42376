//! A breaker, a retry budget and a backoff around a call that fails for a while.
//!
//! `cargo run -p evenkeel-breaker --example around_a_call`: no network, no waiting: time is simulated.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{
    error::Error,
    time::{Duration, Instant},
};

use evenkeel_breaker::{Backoff, Breaker, BreakerConfig, RetryBudget};

/// Stands for a request: the service is down from second 5 to second 25.
fn call(second: u64) -> Result<&'static str, &'static str> {
    if (5..25).contains(&second) {
        Err("connection refused")
    } else {
        Ok("hello")
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where this program reads the clock"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let config = BreakerConfig {
        open: Duration::from_secs(4),
        ..BreakerConfig::default()
    };
    let breaker = Breaker::new(config, 1, start)?
        .with_listener(|change| println!("         breaker: {change}"));
    let retries = RetryBudget::new(0.2, 2, Duration::from_secs(10), start)?;
    let backoff = Backoff::default();

    for second in 0..45 {
        let now = start + Duration::from_secs(second);
        let permit = match breaker.admit(now) {
            Ok(permit) => permit,
            Err(refused) => {
                println!("{second:>4} s   not called: {refused}");
                continue;
            }
        };
        retries.deposit(now);
        match call(second) {
            Ok(answer) => {
                permit.success(now);
                println!("{second:>4} s   {answer}");
            }
            Err(cause) => {
                permit.failure(now, None);
                let plan = if retries.try_withdraw(now) {
                    format!("would retry in {:?}", backoff.delay(1, 0.5))
                } else {
                    "retry budget is spent".into()
                };
                println!("{second:>4} s   {cause}, {plan}");
            }
        }
    }
    Ok(())
}
