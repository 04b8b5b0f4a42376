//! Collectors that are there, and collectors that misbehave: real sockets, real threads.

use crate::world::PARENT;
use evenkeel_core::{
    CallId, Clock, Event, EventKind, ModelId, Observer, Route, SystemClock, Trail,
};
use evenkeel_otel_emit::metrics::{Build, Catalogue, Exposition, Metrics};
use evenkeel_otel_emit::otlp::{Collector, OtlpSettings, Service, Traces};
use evenkeel_otel_emit::spans::Spans;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter as _;
use prost::Message as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How a collector takes what it is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Takes,
    Answers(&'static str),
    Hangs,
}

/// A collector on loopback: its address, and the body of each request.
async fn receiver(manner: Manner) -> (String, UnboundedReceiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (bodies, received) = unbounded_channel();
    #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let bodies = bodies.clone();
            tokio::spawn(async move {
                while let Some((path, body)) = request(&mut stream).await {
                    let _ = bodies.send((path, body));
                    let answer = match manner {
                        Manner::Takes => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                        Manner::Answers(answer) => answer,
                        Manner::Hangs => std::future::pending().await,
                    };
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, received)
}

/// The path and the body of the next request on a connection.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let head = loop {
        let mut piece = [0; 4_096];
        let n = stream.read(&mut piece).await.ok().filter(|n| *n > 0)?;
        read.extend_from_slice(&piece[..n]);
        if let Some(end) = read.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8(read[..head].to_vec()).unwrap();
    let path = text.split(' ').nth(1)?.to_owned();
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>())
    });
    let mut body = read.split_off(head);
    let missing = length?.unwrap().saturating_sub(body.len());
    let mut rest = vec![0; missing];
    stream.read_exact(&mut rest).await.ok()?;
    body.extend(rest);
    Some((path, body))
}

struct Sending {
    spans: Arc<Spans<evenkeel_otel_emit::otlp::SdkTracer>>,
    traces: Traces,
    exposition: Exposition,
}

fn settings(endpoint: &str) -> OtlpSettings {
    let mut settings = OtlpSettings::new(endpoint, Service::new("planner", "1.2.3", "i-1"));
    settings.timeout = Duration::from_millis(500);
    settings.every = Duration::from_millis(100);
    settings
}

impl Sending {
    fn to(endpoint: &str, queue: usize) -> Self {
        let mut settings = settings(endpoint);
        settings.queue = queue;
        Self::by(settings)
    }

    fn by(settings: OtlpSettings) -> Self {
        let collector = Collector::new(settings, Handle::current()).unwrap();
        let exposition = Exposition::new().unwrap();
        let build = Build {
            version: "1.2.3",
            revision: "r",
        };
        let metrics = Metrics::new(&exposition.meter(), Catalogue::default(), build);
        let traces = collector.traces(&metrics.losses()).unwrap();
        let spans = Arc::new(Spans::new(traces.tracer(), Arc::new(SystemClock)));
        Self {
            spans,
            traces,
            exposition,
        }
    }

    /// One call without attempts, from its beginning to its end.
    fn call(&self) {
        let id = CallId::next();
        let model = ModelId::new("p0/m").unwrap();
        let at = tokio::time::Instant::now().into_std();
        let event = |kind| Event {
            at,
            call: Some(id),
            kind,
        };
        self.spans.on(&event(EventKind::CallStarted {
            role: "planner".into(),
            task: None,
            request_id: None,
            workflow: None,
            session: None,
            caller: None,
            primary: model.clone(),
            deadline: Duration::from_secs(1),
            streams: false,
            policy: None,
            trace: Some(evenkeel_core::TraceContext {
                traceparent: format!("00-{}-{PARENT}-01", crate::world::TRACE).into(),
                tracestate: "".into(),
            }),
        }));
        self.spans.on(&event(EventKind::CallEnded {
            role: "planner".into(),
            task: None,
            request_id: None,
            workflow: None,
            caller: None,
            primary: model,
            policy: None,
            outcome: "ok",
            meta: None,
            route: Route::None,
            reason: None,
            class: None,
            error: None,
            prompt_variant: None,
            reported: evenkeel_core::Reported::default(),
            depth: 0,
            duration: Duration::ZERO,
            trail: Arc::new(Trail::default()),
            content: None,
            trace: None,
        }));
    }

    /// Spans that were dropped, as `/metrics` counts them.
    fn dropped(&self) -> f64 {
        let text = self.exposition.text().unwrap();
        let line = "evenkeel_telemetry_dropped_total{signal=\"span\"} ";
        let count = text.lines().find_map(|l| l.strip_prefix(line));
        count.map_or(0.0, |count| count.parse().unwrap())
    }

    /// Ends it within two seconds a step; the problems that it tells.
    async fn end(self) -> (Vec<String>, f64) {
        let Self {
            traces,
            exposition,
            spans,
        } = self;
        let limit = Duration::from_secs(2);
        let began = SystemClock.now();
        let (problems, sending) =
            tokio::task::spawn_blocking(move || (traces.shutdown(limit), traces))
                .await
                .unwrap();
        assert!(SystemClock.now().duration_since(began).unwrap() < 4 * limit);
        let left = Self {
            spans,
            traces: sending,
            exposition,
        };
        (problems, left.dropped())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_spans_with_their_resource_and_scope() {
    let (endpoint, mut received) = receiver(Manner::Takes).await;
    let sending = Sending::to(&endpoint, 1_000);
    sending.call();
    let (path, body) = received.recv().await.unwrap();
    assert_eq!(path, "/v1/traces");
    let sent = ExportTraceServiceRequest::decode(&*body).unwrap();
    let of = &sent.resource_spans[0];
    let resource: Vec<String> = of
        .resource
        .as_ref()
        .unwrap()
        .attributes
        .iter()
        .map(|kv| {
            let Some(Value::StringValue(text)) = kv.value.as_ref().and_then(|v| v.value.clone())
            else {
                panic!("a text");
            };
            format!("{}={text}", kv.key)
        })
        .collect();
    for expected in [
        "service.name=planner",
        "service.version=1.2.3",
        "service.instance.id=i-1",
    ] {
        assert!(resource.iter().any(|kv| kv == expected), "{resource:?}");
    }
    let scope = of.scope_spans[0].scope.as_ref().unwrap();
    assert_eq!(scope.name, "evenkeel");
    assert_eq!(scope.version, env!("CARGO_PKG_VERSION"));
    let schema = "https://opentelemetry.io/schemas/1.41.1";
    assert_eq!(of.scope_spans[0].schema_url, schema);
    let span = &of.scope_spans[0].spans[0];
    assert_eq!(span.name, "evenkeel.request");
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(String::new(), |text, b| format!("{text}{b:02x}"))
    };
    assert_eq!(hex(&span.trace_id), crate::world::TRACE);
    assert_eq!(hex(&span.parent_span_id), PARENT);
    let (problems, dropped) = sending.end().await;
    assert_eq!((problems, dropped), (vec![], 0.0));
}

// Conformance 11.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_misbehaves_holds_nobody_up_and_what_is_lost_is_counted() {
    const REFUSED: &str = "HTTP/1.1 413 Payload Too Large\r\ncontent-length: 0\r\n\r\n";
    const BROKEN: &str = "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n";
    const GARBAGE: &str = "\u{1}\u{2} this is no HTTP \r\n\r\n";
    let manners = [
        Manner::Answers(REFUSED),
        Manner::Answers(BROKEN),
        Manner::Answers(GARBAGE),
        Manner::Hangs,
    ];
    for manner in manners {
        let (endpoint, _received) = receiver(manner).await;
        lost_at(&endpoint, &format!("{manner:?}")).await;
    }
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    lost_at(&endpoint, "gone").await;
}

async fn lost_at(endpoint: &str, what: &str) {
    const CALLS: u32 = 3_000;
    let sending = Sending::to(endpoint, 500);
    let mut took: Vec<Duration> = (0..CALLS)
        .map(|_| {
            let began: Instant = tokio::time::Instant::now().into_std();
            sending.call();
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    // An exchange with this collector takes its whole clock, 500 ms; a call microseconds,
    // or a turn of the machine's other threads.
    let p99 = took[took.len() * 99 / 100];
    assert!(p99 < Duration::from_millis(20), "{what}: p99 {p99:?}");
    let (problems, dropped) = sending.end().await;
    assert!(!problems.is_empty(), "{what}: nothing was told");
    assert!(
        (f64::from(CALLS) - dropped).abs() < 0.5,
        "{what}: {dropped} dropped"
    );
}

/// A collector on loopback whose certificate only `fixtures/tls/ca.pem` vouches for; what
/// it tells of is the path of each request.
async fn private_receiver() -> (String, UnboundedReceiver<String>) {
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate = include_bytes!("../../../../fixtures/tls/server.pem");
    let key = include_bytes!("../../../../fixtures/tls/server.key");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate).unwrap()],
            PrivateKeyDer::from_pem_slice(key).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (paths, received) = unbounded_channel();
    #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust us hangs up here.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            while let Some((path, _)) = request(&mut stream).await {
                let _ = paths.send(path);
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                if stream.write_all(answer).await.is_err() {
                    break;
                }
            }
        }
    });
    (format!("https://localhost:{port}"), received)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_behind_a_private_authority_is_trusted_where_the_settings_say_so() {
    let (endpoint, mut received) = private_receiver().await;
    let mut trusting = settings(&endpoint);
    trusting.timeout = Duration::from_secs(10);
    trusting.root_certificates = Some(include_bytes!("../../../../fixtures/tls/ca.pem").to_vec());
    let sending = Sending::by(trusting);
    sending.call();
    assert_eq!(received.recv().await.as_deref(), Some("/v1/traces"));
    let (problems, dropped) = sending.end().await;
    assert_eq!((problems, dropped), (vec![], 0.0));

    let sending = Sending::to(&endpoint, 1_000);
    sending.call();
    let (problems, dropped) = sending.end().await;
    assert!(!problems.is_empty(), "nothing was told");
    assert!((dropped - 1.0).abs() < 0.5, "{dropped}");
    assert!(received.try_recv().is_err(), "nothing was sent");
}

/// 200, and `partial_success { rejected: 1 }`.
const IN_PART: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\u{a}\u{2}\u{8}\u{1}";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_collector_takes_in_part_is_lost_in_part() {
    let (endpoint, mut received) = receiver(Manner::Answers(IN_PART)).await;
    let sending = Sending::to(&endpoint, 1_000);
    sending.call();
    received.recv().await.unwrap();
    let (problems, dropped) = sending.end().await;
    assert_eq!(problems, ["1 spans were lost since the start"]);
    assert!((dropped - 1.0).abs() < 0.5, "{dropped}");

    // Metrics have no count of their own: their push fails.
    let collector = Collector::new(settings(&endpoint), Handle::current()).unwrap();
    let exporter = collector.metrics().unwrap();
    let pushed = exporter.export(&ResourceMetrics::default()).await;
    let error = pushed.unwrap_err().to_string();
    assert!(error.contains("refused 1 data points"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_bounded_by_its_memory() {
    let (endpoint, _received) = receiver(Manner::Takes).await;
    let mut bounded = settings(&endpoint);
    bounded.every = Duration::from_secs(60);
    bounded.queue_bytes = 64 * 1_024;
    let sending = Sending::by(bounded);
    for _ in 0..500 {
        sending.call();
    }
    // A span is some hundred bytes at least, and fewer than a batch wait.
    let dropped = sending.dropped();
    assert!((300.0..500.0).contains(&dropped), "{dropped}");
    let (_, at_the_end) = sending.end().await;
    assert!((at_the_end - dropped).abs() < 0.5, "what waited was sent");
}

/// One that is busy, and says when to come again.
const BUSY: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";

// On one thread: whoever holds it up holds everybody up.
#[tokio::test]
async fn while_metrics_wait_for_a_busy_collector_other_tasks_of_the_thread_go_on() {
    let (endpoint, mut received) = receiver(Manner::Answers(BUSY)).await;
    let mut patient = settings(&endpoint);
    patient.timeout = Duration::from_secs(3);
    let collector = Collector::new(patient, Handle::current()).unwrap();
    let exporter = collector.metrics().unwrap();
    let metrics = ResourceMetrics::default();
    let mut pushed = std::pin::pin!(exporter.export(&metrics));
    let now = tokio::time::Instant::now;
    let (mut ticked, mut longest) = (now(), Duration::ZERO);
    let result = loop {
        let result = tokio::select! {
            result = &mut pushed => Some(result),
            () = tokio::time::sleep(Duration::from_millis(10)) => None,
        };
        longest = longest.max(ticked.elapsed());
        ticked = now();
        if let Some(result) = result {
            break result;
        }
    };
    result.unwrap_err();
    assert!(received.try_recv().is_ok() && received.try_recv().is_ok());
    // It waits a second at least between two tries.
    assert!(longest < Duration::from_millis(800), "{longest:?}");
}

/// What a proxy or a portal answers that stands where a collector was meant to.
const A_PAGE: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\n\r\n<html>hi</html>";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_collector_takes_nothing_whatever_its_status() {
    let (endpoint, mut received) = receiver(Manner::Answers(A_PAGE)).await;
    let sending = Sending::to(&endpoint, 1_000);
    sending.call();
    received.recv().await.unwrap();
    let (problems, dropped) = sending.end().await;
    assert_eq!(problems, ["1 spans were lost since the start"]);
    assert!((dropped - 1.0).abs() < 0.5, "{dropped}");
    assert!(pushed(&endpoint).await.contains("a web page"));
}

/// Why metrics are not taken there.
async fn pushed(endpoint: &str) -> String {
    let collector = Collector::new(settings(endpoint), Handle::current()).unwrap();
    let exporter = collector.metrics().unwrap();
    let pushed = exporter.export(&ResourceMetrics::default()).await;
    pushed.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn why_a_collector_cannot_be_asked_is_told() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let (hanging, _kept) = receiver(Manner::Hangs).await;
    let (private, _paths) = private_receiver().await;
    for (endpoint, cause) in [
        (refusing.as_str(), "connection refused"),
        (&hanging, "no answer within 500ms"),
        (&private, "TLS: unknown issuer"),
        ("http://collector.invalid:4318", "unknown host"),
    ] {
        let told = pushed(endpoint).await;
        assert!(told.contains(cause), "{told}");
        assert!(!told.contains("http"), "no address: {told}");
    }
}
