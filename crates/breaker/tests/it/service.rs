//! The breaker in a tower stack (feature `tower`), on tokio's paused clock.

use std::{
    future::pending,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use evenkeel_breaker::{
    Breaker, BreakerConfig, RateRule, RateWindow, Refused, SlowRule, State,
    tower::{BreakerLayer, BreakerService, Verdict},
};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn, timeout::error::Elapsed};

use crate::trace::ms;

/// What the upstream of these tests is asked to do.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Answer,
    Fail,
    /// Says to come again in seven seconds.
    Busy,
    /// A fault of the caller's.
    Refuse,
    Take(Duration),
    Hang,
    Panic,
}

type Outcome = Result<u16, BoxError>;

async fn upstream(ask: Ask) -> Outcome {
    match ask {
        Ask::Answer => Ok(200),
        Ask::Fail => Err("connection reset".into()),
        Ask::Busy => Ok(503),
        Ask::Refuse => Ok(400),
        Ask::Take(time) => {
            sleep(time).await;
            Ok(200)
        }
        Ask::Hang => pending().await,
        Ask::Panic => panic!("as asked"),
    }
}

fn judge(outcome: &Outcome) -> Verdict {
    match outcome {
        Ok(503) => Verdict::Failure {
            retry_after: Some(ms(7_000)),
        },
        Ok(400) => Verdict::Ignored,
        Ok(_) => Verdict::Success,
        Err(_) => Verdict::Failure { retry_after: None },
    }
}

fn clock() -> Instant {
    tokio::time::Instant::now().into_std()
}

type Layer = BreakerLayer<fn() -> Instant, fn(&Outcome) -> Verdict>;

/// Opens on two failures in a row for a second; one trial at a time, one success closes.
fn breaker(change: impl FnOnce(&mut BreakerConfig)) -> (Arc<Breaker>, Layer) {
    let mut config = BreakerConfig {
        failure_threshold: 2,
        success_threshold: 1,
        open: ms(1_000),
        growth: 1.0,
        open_cap: ms(10_000),
        jitter: 0.0,
        rate: None,
        ..BreakerConfig::default()
    };
    change(&mut config);
    let breaker = Arc::new(Breaker::new(config, 0, clock()).expect("valid settings"));
    let layer = BreakerLayer::new(
        Arc::clone(&breaker),
        clock as fn() -> Instant,
        judge as fn(&Outcome) -> Verdict,
    );
    (breaker, layer)
}

fn refusal(outcome: Outcome) -> Refused {
    let error = outcome.expect_err("refused");
    *error.downcast::<Refused>().expect("by the breaker")
}

async fn half_open(breaker: &Breaker) {
    breaker.trip(clock());
    sleep(ms(1_000)).await;
}

#[tokio::test(start_paused = true)]
async fn failures_open_it_refusals_reach_no_upstream_and_a_trial_closes_it() {
    let (breaker, layer) = breaker(|_| {});
    let calls = AtomicU32::new(0);
    let mut service = ServiceBuilder::new().layer(layer).service_fn(|ask| {
        calls.fetch_add(1, Ordering::Relaxed);
        upstream(ask)
    });
    let mut call = async |ask| service.ready().await.unwrap().call(ask).await;
    assert_eq!(call(Ask::Answer).await.unwrap(), 200);
    for _ in 0..2 {
        let error = call(Ask::Fail).await.unwrap_err();
        assert_eq!(error.to_string(), "connection reset");
    }
    sleep(ms(400)).await;
    let refused = refusal(call(Ask::Answer).await);
    assert_eq!((refused.state, refused.retry_in), (State::Open, ms(600)));
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    sleep(refused.retry_in).await;
    assert_eq!(call(Ask::Answer).await.unwrap(), 200);
    assert_eq!(breaker.state(clock()), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_closure_says_what_counts_and_for_how_long_to_stay_away() {
    let (breaker, layer) = breaker(|config| config.failure_threshold = 1);
    let service = ServiceBuilder::new().layer(layer).service_fn(upstream);
    let call = |ask| service.clone().oneshot(ask);
    assert_eq!(call(Ask::Refuse).await.unwrap(), 400);
    assert_eq!(breaker.generation(), 0, "ignored");
    assert_eq!(call(Ask::Busy).await.unwrap(), 503, "handed on");
    assert_eq!(refusal(call(Ask::Answer).await).retry_in, ms(7_000));
}

#[tokio::test(start_paused = true)]
async fn a_success_is_slow_by_the_time_from_call_to_response() {
    let (breaker, layer) = breaker(|config| {
        config.rate = Some(RateRule {
            min_calls: 2,
            window: RateWindow::Calls(2),
            slow: Some(SlowRule {
                longer_than: ms(50),
                rate: 1.0,
            }),
            ..RateRule::default()
        });
    });
    let service = ServiceBuilder::new().layer(layer).service_fn(upstream);
    for time in [50, 51] {
        let call = service.clone().oneshot(Ask::Take(ms(time)));
        assert_eq!(call.await.unwrap(), 200);
    }
    assert_eq!(breaker.snapshot(clock()).window_slow, 1);
    service.oneshot(Ask::Take(ms(51))).await.unwrap();
    assert_eq!(breaker.state(clock()), State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_gives_its_trial_back_and_counts_as_nothing() {
    let (breaker, layer) = breaker(|_| {});
    let mut service = ServiceBuilder::new().layer(layer).service_fn(upstream);
    half_open(&breaker).await;
    let trial = service.ready().await.unwrap().call(Ask::Hang);
    let refused = refusal(service.clone().oneshot(Ask::Answer).await);
    assert_eq!(refused.state, State::HalfOpen);
    assert_eq!(breaker.snapshot(clock()).trials_out, 1);
    drop(trial);
    let timed_out = tokio::time::timeout(ms(5), service.clone().oneshot(Ask::Hang));
    assert!(timed_out.await.is_err(), "dropped while it was polled");
    let snapshot = breaker.snapshot(clock());
    assert_eq!((snapshot.trials_out, snapshot.trials_succeeded), (0, 0));
    assert_eq!(service.oneshot(Ask::Answer).await.unwrap(), 200);
    assert_eq!(breaker.state(clock()), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_panic_inside_gives_the_trial_back() {
    let (breaker, layer) = breaker(|_| {});
    let mut service = ServiceBuilder::new().layer(layer).service_fn(upstream);
    half_open(&breaker).await;
    {
        let mut trial = Box::pin(service.ready().await.unwrap().call(Ask::Panic));
        let mut context = Context::from_waker(Waker::noop());
        let poll = AssertUnwindSafe(|| trial.as_mut().poll(&mut context).is_ready());
        assert!(std::panic::catch_unwind(poll).is_err());
        assert_eq!(breaker.snapshot(clock()).trials_out, 1);
    }
    assert_eq!(breaker.snapshot(clock()).trials_out, 0);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_ready_and_never_called_holds_no_trial() {
    let (breaker, layer) = breaker(|_| {});
    let service = ServiceBuilder::new().layer(layer).service_fn(upstream);
    half_open(&breaker).await;
    let mut idle = service.clone();
    idle.ready().await.unwrap();
    assert_eq!(service.oneshot(Ask::Answer).await.unwrap(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_inner_services_backpressure_is_passed_on() {
    let (_, layer) = breaker(|_| {});
    let service = ServiceBuilder::new()
        .layer(layer)
        .concurrency_limit(1)
        .service_fn(upstream);
    let (mut first, mut second) = (service.clone(), service);
    let running = first.ready().await.unwrap().call(Ask::Take(ms(10)));
    let started = clock();
    let waiting = async {
        second.ready().await.unwrap();
        assert_eq!(clock() - started, ms(10), "woken by the call that ended");
        second.call(Ask::Answer).await
    };
    let (one, two) = tokio::join!(running, waiting);
    assert_eq!((one.unwrap(), two.unwrap()), (200, 200));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_wait_for_an_inner_service_that_is_not_ready() {
    let (breaker, layer) = breaker(|_| {});
    let mut service = ServiceBuilder::new()
        .layer(layer)
        .concurrency_limit(0)
        .service_fn(upstream);
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_pending());
    breaker.trip(clock());
    assert!(service.poll_ready(&mut context).is_ready());
    // The inner service would panic if it were called: it was never ready.
    sleep(ms(1_000)).await;
    assert_eq!(refusal(service.call(Ask::Answer).await).state, State::Open);
    assert!(service.poll_ready(&mut context).is_pending(), "asked anew");
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_between_ready_and_call_refuses_and_the_service_stays_usable() {
    let (breaker, layer) = breaker(|_| {});
    let mut service = ServiceBuilder::new()
        .layer(layer)
        .concurrency_limit(1)
        .service_fn(upstream);
    service.ready().await.unwrap();
    breaker.trip(clock());
    assert_eq!(refusal(service.call(Ask::Answer).await).state, State::Open);
    breaker.reset(clock());
    for _ in 0..2 {
        let answer = service.ready().await.unwrap().call(Ask::Answer).await;
        assert_eq!(answer.unwrap(), 200);
    }
}

/// Never ready: its connection is gone.
struct Gone;

impl Service<Ask> for Gone {
    type Response = u16;
    type Error = BoxError;
    type Future = std::future::Ready<Outcome>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Err("connection gone".into()))
    }

    fn call(&mut self, _: Ask) -> Self::Future {
        unreachable!("never ready")
    }
}

#[tokio::test(start_paused = true)]
async fn an_inner_service_that_fails_to_become_ready_counts_as_a_failed_call() {
    let (breaker, layer) = breaker(|_| {});
    for _ in 0..2 {
        let service: BreakerService<Gone, _, _> = ServiceBuilder::new().layer(&layer).service(Gone);
        let error = service.oneshot(Ask::Answer).await.unwrap_err();
        assert_eq!(error.to_string(), "connection gone");
    }
    assert_eq!(breaker.state(clock()), State::Open);
    let service = ServiceBuilder::new().layer(&layer).service(Gone);
    assert_eq!(
        refusal(service.oneshot(Ask::Answer).await).state,
        State::Open
    );
}

#[tokio::test(start_paused = true)]
async fn a_timeout_inside_counts_and_a_buffer_outside_sees_refusals() {
    let (breaker, layer) = breaker(|_| {});
    let service = ServiceBuilder::new()
        .buffer(8)
        .layer(layer)
        .timeout(ms(300))
        .service_fn(upstream);
    for _ in 0..2 {
        let error = service.clone().oneshot(Ask::Hang).await.unwrap_err();
        assert!(error.is::<Elapsed>(), "{error}");
    }
    assert_eq!(breaker.state(clock()), State::Open);
    let refused = refusal(service.oneshot(Ask::Answer).await);
    assert_eq!(refused.retry_in, ms(1_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_callers_at_once_as_many_reach_the_upstream_as_there_are_trials() {
    const TRIALS: u32 = 3;
    let (breaker, layer) = breaker(|config| {
        config.success_threshold = TRIALS;
        config.open = Duration::from_nanos(1);
    });
    let inside = Arc::new(AtomicU32::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let service = {
        let (inside, gate) = (Arc::clone(&inside), Arc::clone(&gate));
        ServiceBuilder::new()
            .layer(layer)
            .service(service_fn(move |ask| {
                inside.fetch_add(1, Ordering::SeqCst);
                let gate = Arc::clone(&gate);
                async move {
                    let _pass = gate.acquire().await?;
                    upstream(ask).await
                }
            }))
    };
    breaker.trip(clock());
    let mut callers = JoinSet::new();
    for _ in 0..64 {
        callers.spawn(service.clone().oneshot(Ask::Answer));
    }
    for _ in 0..64 - TRIALS {
        let refused = refusal(callers.join_next().await.unwrap().unwrap());
        assert_eq!(refused.state, State::HalfOpen);
    }
    assert_eq!(inside.load(Ordering::SeqCst), TRIALS);
    gate.add_permits(1);
    while let Some(outcome) = callers.join_next().await {
        assert_eq!(outcome.unwrap().unwrap(), 200);
    }
    assert_eq!(breaker.state(clock()), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_layers_services_share_their_breaker() {
    let (breaker, layer) = breaker(|_| {});
    let has_failed = AtomicBool::new(false);
    let failing = ServiceBuilder::new().layer(&layer).service_fn(|ask| {
        has_failed.store(true, Ordering::Relaxed);
        upstream(ask)
    });
    let other = ServiceBuilder::new().layer(&layer).service_fn(upstream);
    for _ in 0..2 {
        let call = pin!(failing.clone().oneshot(Ask::Fail));
        assert!(call.await.is_err());
    }
    assert!(has_failed.load(Ordering::Relaxed));
    assert!(Arc::ptr_eq(other.breaker(), &breaker));
    assert_eq!(refusal(other.oneshot(Ask::Answer).await).state, State::Open);
}
