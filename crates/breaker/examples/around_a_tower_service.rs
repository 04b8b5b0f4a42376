//! The breaker as a layer of a tower stack, around a service that hangs for a while.
//!
//! `cargo run -p evenkeel-breaker --example around_a_tower_service`: no network, no waiting: tokio's clock is
//! paused and jumps.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{future::pending, sync::Arc, time::Duration};

use evenkeel_breaker::{
    Breaker, BreakerConfig, Refused,
    tower::{BreakerLayer, Verdict},
};
use tokio::time::{Instant, sleep};
use tower::{BoxError, ServiceBuilder, ServiceExt};

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), BoxError> {
    let clock = || Instant::now().into_std();
    let start = Instant::now();
    let config = BreakerConfig {
        failure_threshold: 3,
        open: Duration::from_secs(4),
        ..BreakerConfig::default()
    };
    let breaker = Breaker::new(config, 1, clock())?
        .with_listener(|change| println!("         breaker: {change}"));
    let judge = |outcome: &Result<&'static str, BoxError>| match outcome {
        Ok(_) => Verdict::Success,
        Err(_) => Verdict::Failure { retry_after: None },
    };

    // The time-out lies inside the breaker, so that a call that hangs counts as a failure.
    let service = ServiceBuilder::new()
        .layer(BreakerLayer::new(Arc::new(breaker), clock, judge))
        .timeout(Duration::from_millis(500))
        .service_fn(async |begun: Instant| match (begun - start).as_secs() {
            5..15 => pending().await,
            _ => Ok::<_, BoxError>("hello"),
        });

    while start.elapsed() < Duration::from_secs(25) {
        let asked = Instant::now();
        let outcome = service.clone().oneshot(asked).await;
        let (at, took) = ((asked - start).as_secs(), asked.elapsed());
        match outcome {
            Ok(answer) => println!("{at:>4} s   {answer}"),
            Err(error) => match error.downcast_ref::<Refused>() {
                Some(refused) => println!("{at:>4} s   not called: {refused}"),
                None => println!("{at:>4} s   {error} after {took:?}"),
            },
        }
        sleep(Duration::from_secs(1).saturating_sub(took)).await;
    }
    Ok(())
}
