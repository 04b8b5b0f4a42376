//! Changes of state as tracing events (feature `tracing`).

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Instant,
};

use evenkeel_breaker::{Breaker, BreakerConfig};

use crate::trace::{ms, origin};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What tracing's own formatter makes of the events that `run` emits, by line.
fn events(run: impl FnOnce()) -> Vec<String> {
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    // With a single dispatcher whichever thread first comes by an event decides for all whether
    // anybody hears it.
    let _another = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    tracing::subscriber::with_default(subscriber, run);
    let bytes = sink.0.lock().expect("not poisoned").clone();
    let text = String::from_utf8(bytes).expect("the formatter writes text");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn breaker(now: Instant) -> Breaker {
    let config = BreakerConfig {
        failure_threshold: 1,
        success_threshold: 1,
        open: ms(1_500),
        jitter: 0.0,
        ..BreakerConfig::default()
    };
    Breaker::new(config, 0, now).expect("valid settings")
}

#[test]
fn every_change_is_one_event_with_its_cause_and_its_breaker() {
    let seen = events(|| {
        let now = origin();
        let breaker = breaker(now).with_tracing("search");
        breaker.admit(now).unwrap().failure(now, None);
        assert!(breaker.admit(now).is_err(), "a refusal is no event");
        let later = now + ms(1_500);
        breaker.admit(later).unwrap().success(later);
        breaker.force_open(later);
        breaker.disable(later);
    });
    let fields = r#"breaker="search" from="closed" to="open" cause="consecutive_failures" generation=1 retry_in_ms=1500"#;
    assert_eq!(
        seen[0],
        format!(
            "WARN evenkeel_breaker: breaker closed to open: 1 failures in a row, retry in 1.5s {fields}"
        )
    );
    let rest: Vec<_> = seen[1..]
        .iter()
        .map(|line| {
            let (level, _) = line.split_once(' ').unwrap();
            let (_, fields) = line.split_once("breaker=").unwrap();
            format!("{level} {fields}")
        })
        .collect();
    let expected = [
        r#"INFO "search" from="open" to="half_open" cause="open_elapsed" generation=2"#,
        r#"INFO "search" from="half_open" to="closed" cause="trials_succeeded" generation=3"#,
        r#"WARN "search" from="closed" to="forced_open" cause="forced_open" generation=4"#,
        r#"INFO "search" from="forced_open" to="disabled" cause="disabled" generation=5"#,
    ];
    assert_eq!(rest, expected);
}

#[test]
fn a_breaker_that_nobody_asked_to_trace_is_silent() {
    let seen = events(|| {
        let now = origin();
        breaker(now).admit(now).unwrap().failure(now, None);
    });
    assert_eq!(seen, [""; 0]);
}
