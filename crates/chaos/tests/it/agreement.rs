//! The same behaviour in process and on a socket, seen through the product's
//! own client: what a test learns over `Simulated` holds for real servers.

use crate::{call, ms};
use evenkeel_chaos::{Behaviour, Dialect, Fault, Simulated, Upstream, UpstreamConfig};
use evenkeel_core::{
    Accumulator, ChatResponse, Class, Failure, Finish, KeySource, MissingKey, Provider, Scope,
};
use evenkeel_providers::{Client, ClientConfig};
use futures_util::StreamExt;
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
struct NoKey;

impl KeySource for NoKey {
    fn key(&self) -> Result<Option<SecretString>, MissingKey> {
        Ok(None)
    }
}

/// What a caller learns of an answer, apart from ids, times and wording.
#[derive(Debug, PartialEq)]
enum Outcome {
    Answered {
        text: String,
        finish: Finish,
        output: Option<u64>,
        useful: bool,
    },
    Failed {
        class: Class,
        scope: Scope,
        status: Option<u16>,
        code: Option<String>,
        retry_after: Option<Duration>,
    },
}

impl From<Result<ChatResponse, Failure>> for Outcome {
    fn from(result: Result<ChatResponse, Failure>) -> Self {
        match result {
            Ok(answer) => Self::Answered {
                text: answer.plain_text(),
                finish: answer.finish,
                output: answer.usage.map(|u| u.output),
                useful: answer.verify().is_ok(),
            },
            Err(failure) => Self::Failed {
                class: failure.class,
                scope: failure.scope,
                status: failure.status,
                code: failure.code,
                retry_after: failure.retry_after,
            },
        }
    }
}

async fn whole(provider: &dyn Provider) -> Outcome {
    provider.complete(call("n5")).await.into()
}

/// Content events before the end, and the outcome.
async fn streamed(provider: &dyn Provider) -> (usize, Outcome) {
    let mut stream = match provider.stream(call("n5")).await {
        Ok(stream) => stream,
        Err(failure) => return (0, Err(failure).into()),
    };
    let (mut content, mut answer) = (0, Accumulator::default());
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => {
                content += usize::from(event.is_content());
                answer.push(&event);
            }
            Err(failure) => return (content, Err(failure).into()),
        }
    }
    (content, answer.finish().into())
}

fn error_in_stream(code: Option<&str>, after: u32) -> Fault {
    Fault::ErrorInStream {
        after,
        code: code.map(str::to_owned),
        message: "no more of this".into(),
    }
}

fn raw(status: u16, body: &[u8]) -> Fault {
    Fault::Raw {
        status,
        content_type: "application/json".into(),
        body: body.to_vec(),
    }
}

fn faults() -> Vec<Fault> {
    let mut faults: Vec<Fault> = [400, 401, 402, 403, 404, 408, 409, 410, 413, 422, 429]
        .into_iter()
        .chain([500, 501, 502, 503, 504, 529])
        .map(Fault::status)
        .collect();
    faults.extend([
        Fault::rate_limited(ms(1_500)),
        Fault::rate_limited(Duration::from_secs(3_600)),
        Fault::context_window(),
        Fault::quota_exhausted(),
        Fault::Refuse,
        Fault::Reset,
        Fault::Close,
        Fault::CutAfter(0),
        Fault::CutAfter(2),
        Fault::ResetAfter(2),
        Fault::EndAfter(2),
        Fault::FalseDoneAfter(2),
        Fault::NoDone,
        Fault::FilteredAfter(2),
        error_in_stream(None, 0),
        error_in_stream(None, 2),
        error_in_stream(Some("overloaded"), 2),
        error_in_stream(Some("rate_limit_exceeded"), 2),
        error_in_stream(Some("content_filter"), 2),
        error_in_stream(Some("context_length_exceeded"), 0),
        Fault::Html { status: 200 },
        Fault::Html { status: 502 },
        Fault::Html { status: 504 },
        Fault::ErrorIn200,
        Fault::NoChoices,
        Fault::Empty,
        Fault::TruncatedJson,
        Fault::GzipBomb,
        raw(200, b"\"ok\""),
        raw(200, b"{\xc3\x28}"),
        raw(200, b""),
        raw(503, b"busy"),
    ]);
    faults
}

/// The product's client of the dialect.
fn client(upstream: &Upstream, dialect: Dialect) -> Client {
    let config = ClientConfig {
        dialect: evenkeel_providers::Dialect::named(dialect.as_str()).expect("the names agree"),
        base_url: upstream.base_url_of(dialect),
        key: Arc::new(NoKey),
        propagate: false,
    };
    Client::new(config).expect("a loopback address is one")
}

/// What differs between the two, fault by fault.
async fn differences(dialect: Dialect) -> Vec<String> {
    let healthy = Behaviour::default().with_tokens(4);
    let simulated = Simulated::new("p", 1)
        .with_dialect(dialect)
        .model("m", healthy.clone());
    let config = UpstreamConfig::named("p")
        .with_dialect(dialect)
        .with_behaviour(healthy.clone());
    let upstream = Upstream::start(config).await.expect("a free port");
    let client = client(&upstream, dialect);
    let behaviours = faults()
        .into_iter()
        .map(|fault| healthy.clone().with_fault(fault));
    let mut differences = Vec::new();
    for behaviour in std::iter::once(healthy.clone()).chain(behaviours) {
        simulated.set("m", behaviour.clone());
        upstream.set(behaviour.clone());
        // One turn for the port to close or open.
        tokio::task::yield_now().await;
        let what = format!("{dialect:?}, {:?}", behaviour.fault);
        let (here, there) = (whole(&simulated).await, whole(&client).await);
        if here != there {
            differences.push(format!("{what}: {here:?}, {there:?}"));
        }
        let (here, there) = (streamed(&simulated).await, streamed(&client).await);
        if here != there {
            differences.push(format!("{what}, streamed: {here:?}, {there:?}"));
        }
    }
    differences
}

#[tokio::test]
async fn a_caller_cannot_tell_the_two_apart() {
    let mut all = Vec::new();
    for dialect in Dialect::ALL {
        all.extend(differences(dialect).await);
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[tokio::test]
async fn what_is_left_of_a_quota_is_told_where_the_dialect_has_a_place() {
    let minute = Duration::from_secs(60);
    for dialect in Dialect::ALL {
        let behaviour = Behaviour::default().with_quota(2, minute);
        let config = UpstreamConfig::named("m")
            .with_dialect(dialect)
            .with_behaviour(behaviour.clone());
        let upstream = Upstream::start(config).await.unwrap();
        let client = client(&upstream, dialect);
        let mut left = Vec::new();
        for _ in 0..3 {
            let limits = match client.complete(call("n1")).await {
                Ok(response) => response.rate_limits,
                Err(failure) => {
                    assert_eq!(failure.class, Class::RateLimited, "{dialect:?}");
                    failure.rate_limits
                }
            };
            left.push(limits.and_then(|limits| limits.requests.remaining));
        }
        let simulated = Simulated::new("p", 1)
            .with_dialect(dialect)
            .model("m", behaviour);
        let limits = simulated.complete(call("n1")).await.unwrap().rate_limits;
        let here = limits.and_then(|limits| limits.requests.remaining);
        assert_eq!(here, left[0], "{dialect:?}");
        let expected = match dialect {
            Dialect::Gemini => [None; 3],
            _ => [Some(1), Some(0), Some(0)],
        };
        assert_eq!(left, expected, "{dialect:?}");
        upstream.stop().await;
    }
}
