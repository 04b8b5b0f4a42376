//! What goes wrong, another thing every second.

use evenkeel_chaos::{Behaviour, Fault, Latency, Upstream};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, interval};

/// Primary and fallbacks, each a server of its own.
pub(super) const UPSTREAMS: [&str; 3] = ["north", "south", "east"];

/// Tokens of a whole answer.
pub(super) const TOKENS: u32 = 30;

/// Two seconds for an answer: its first token soon, then one every 60 ms.
pub(super) fn healthy() -> Behaviour {
    Behaviour::healthy(Latency::lognormal_millis(150, 400))
        .with_tokens(TOKENS)
        .with_inter_token(Duration::from_millis(60))
}

/// Every way to fail that there is, with the share of calls that it hits.
fn faults() -> Vec<Behaviour> {
    let faulty = |fault, share| healthy().with_fault(fault).with_error_rate(share);
    let error = |after| Fault::ErrorInStream {
        after,
        code: Some("server_error".to_owned()),
        message: "it broke".to_owned(),
    };
    let every = Duration::from_millis(200);
    vec![
        faulty(Fault::status(500), 0.5),
        faulty(Fault::CutAfter(5), 0.5),
        Behaviour {
            first_token: Latency::millis(5_000),
            ..healthy()
        },
        faulty(Fault::rate_limited(Duration::from_secs(1)), 0.5),
        healthy(),
        faulty(Fault::StallAfter(4), 0.3),
        faulty(Fault::Hang, 0.3),
        faulty(Fault::Refuse, 1.0),
        healthy(),
        faulty(Fault::status(503), 1.0),
        faulty(Fault::ResetAfter(10), 0.5),
        faulty(Fault::Reset, 0.5),
        faulty(error(3), 0.5),
        healthy(),
        faulty(Fault::EndAfter(8), 0.5),
        faulty(Fault::FalseDoneAfter(8), 0.5),
        faulty(Fault::TruncatedJson, 0.5),
        faulty(Fault::Empty, 0.3),
        faulty(Fault::NoChoices, 0.3),
        faulty(Fault::KeepAlivesOnly { every }, 0.3),
        healthy(),
        faulty(Fault::GzipBomb, 0.05),
        faulty(Fault::Html { status: 502 }, 0.5),
        faulty(Fault::ErrorIn200, 0.5),
        faulty(Fault::Close, 0.5),
    ]
}

/// Turns every upstream to its next fault once a second until `until`. They are at
/// different places of the list, and the last is sound three seconds in four.
pub(super) async fn turn(upstreams: &BTreeMap<&str, Upstream>, until: Instant) {
    let faults = faults();
    let mut seconds = interval(Duration::from_secs(1));
    let mut second = 0;
    while Instant::now() < until {
        seconds.tick().await;
        for (place, name) in UPSTREAMS.iter().enumerate() {
            let sound = place + 1 == UPSTREAMS.len() && second % 4 != 0;
            let behaviour = if sound {
                healthy()
            } else {
                faults[(second + place * 7) % faults.len()].clone()
            };
            upstreams[name].set(behaviour);
        }
        second += 1;
    }
    for upstream in upstreams.values() {
        upstream.set(healthy());
    }
}
