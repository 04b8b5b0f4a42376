//! What a call costs the one who makes it for being recorded, and what a record costs the
//! writer, beside the floor of a line of plain `serde_json` in the same run. The disk is not
//! waited for. `cargo bench -p evenkeel-otel-emit --bench audit`.

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_core::{
    AttemptKind, AttemptOutcome, AttemptRecord, CallId, ChatRequest, ChatResponse, Class, Event,
    EventKind, Exchange, Extra, Failure, Finish, Meta, ModelId, Observer as _, Part, PolicyStamp,
    Reported, Route, TraceContext, Trail, TrailStep, Usage,
};
use evenkeel_otel_emit::audit::{
    AuditLog, AuditSink, AuditStatus, Chain, ContentKey, FileSink, FileSinkConfig, Record,
    SyncPolicy,
};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CANNOT: &str = "a name of its own makes no fault";

fn attempt(index: usize, model: &ModelId, outcome: AttemptOutcome) -> TrailStep {
    TrailStep::Attempt(AttemptRecord {
        index,
        rung: index,
        model: model.clone(),
        kind: AttemptKind::First,
        started: Duration::from_millis(400),
        first_token: Some(Duration::from_millis(700)),
        ended: Some(Duration::from_millis(1_900)),
        outcome,
        rejected: false,
        usage: Some(Usage {
            input: 812,
            output: 144,
            ..Usage::default()
        }),
        usage_estimated: false,
        cost: None,
    })
}

/// The events of a call that failed at its primary and was answered by a fallback.
fn call() -> [Event; 3] {
    let primary = ModelId::new("openai/gpt-4o").expect(CANNOT);
    let fallback = ModelId::new("anthropic/claude-haiku-4-5").expect(CANNOT);
    let failed = AttemptOutcome::Failed(Failure::new(Class::Overloaded, "busy"));
    let trail = Trail {
        steps: vec![
            attempt(0, &primary, failed),
            attempt(1, &fallback, AttemptOutcome::Won),
        ],
    };
    let role: Arc<str> = Arc::from("planner");
    let id: Option<Arc<str>> = Some(Arc::from("evk-0123456789abcdef-2a"));
    let policy = Some(Arc::new(PolicyStamp {
        version: Some(Arc::from("2026-11-29.1")),
        sha256: Arc::from("c851b0030165d7609f7921cedc50e45f3c277a46266c1bc05418910be16d2777"),
    }));
    let trace = Some(TraceContext {
        traceparent: Arc::from("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        tracestate: Arc::from(""),
    });
    let added = Duration::from_millis(412);
    let meta = Meta {
        role: role.to_string(),
        model_id: fallback.clone(),
        rung: 1,
        route: Route::Fallback,
        primary: primary.clone(),
        capability_score: 0.9,
        quality_ratio: 0.9,
        degraded: true,
        fallback_reason: Some("overloaded"),
        notice: None,
        attempts: 2,
        latency_added: added,
        adapted: Vec::new(),
        cost_usd: None,
        added_cost_usd: None,
        cost_is_estimate: false,
    };
    let kinds = [
        EventKind::CallStarted {
            role: role.clone(),
            task: None,
            request_id: id.clone(),
            workflow: None,
            session: None,
            caller: None,
            primary: primary.clone(),
            deadline: Duration::from_secs(120),
            streams: false,
            policy: policy.clone(),
            trace: trace.clone(),
        },
        EventKind::ModelFallback {
            role: role.clone(),
            task: None,
            request_id: id.clone(),
            primary: primary.clone(),
            fallback,
            rung: 1,
            reason: "overloaded",
            class: Some(Class::Overloaded),
            status: Some(503),
            latency_added: added,
        },
        EventKind::CallEnded {
            role,
            task: None,
            request_id: id,
            workflow: None,
            caller: None,
            primary,
            policy,
            outcome: "ok",
            meta: Some(meta),
            route: Route::Fallback,
            reason: Some("overloaded"),
            class: None,
            error: None,
            prompt_variant: None,
            reported: Reported::default(),
            depth: 1,
            duration: Duration::from_millis(1_900),
            trail: Arc::new(trail),
            content: None,
            trace,
        },
    ];
    let call = Some(CallId::next());
    kinds.map(|kind| Event {
        at: tokio::time::Instant::now().into_std(),
        call,
        kind,
    })
}

/// Keeps the last record, and lets all others go.
#[derive(Debug, Default)]
struct Last(Mutex<Option<Box<Record>>>);

impl AuditSink for Last {
    fn append(&self, record: Box<Record>) {
        if let Ok(mut last) = self.0.lock() {
            *last = Some(record);
        }
    }

    fn status(&self) -> AuditStatus {
        AuditStatus::default()
    }
}

/// An answer's record.
fn record() -> Record {
    let last = Arc::new(Last::default());
    AuditLog::new(last.clone(), None).on(&call()[2]);
    let record = last.0.lock().ok().and_then(|mut last| last.take());
    *record.expect("a call's end is recorded")
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds of one turn, of each sample of each measure.
#[derive(Default)]
struct Figures(BTreeMap<&'static str, Vec<f64>>);

impl Figures {
    /// Times `run`, which says how long so many turns took.
    fn measure(
        &mut self,
        criterion: &mut Criterion,
        name: &'static str,
        mut run: impl FnMut(u64) -> Duration,
    ) {
        criterion.bench_function(name, |bench| {
            bench.iter_custom(|turns| {
                let took = run(turns);
                #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
                let each = took.as_nanos() as f64 / turns as f64;
                self.0.entry(name).or_default().push(each);
                took
            });
        });
    }

    /// The median of a measure's samples, ns.
    fn median(&self, name: &str) -> f64 {
        let mut samples = self.0.get(name).cloned().unwrap_or_default();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
    }

    #[expect(clippy::print_stdout, reason = "it is what the run is for")]
    fn tell(&self) {
        for name in [TO_NOBODY, TO_FILE] {
            let share = self.median(name) / BUDGET_NS;
            println!("{name}: {share:.3} of the 20 us that an observed call may cost");
        }
        for (name, floor) in [(WRITER, PLAIN), (THROUGH, PLAIN)] {
            let times = self.median(name) / self.median(floor);
            println!("{name}: {times:.2} times {floor}");
        }
    }
}

const TO_NOBODY: &str = "audit/caller: a call of two records, let go";
const TO_FILE: &str = "audit/caller: a call of two records, to a file";
const PLAIN: &str = "audit/writer: a line of serde_json";
const WRITER: &str = "audit/writer: a record, chained";
const THROUGH: &str = "audit/through: a record, from its making to the file";
/// What a call may cost that is fully observed (20 µs).
const BUDGET_NS: f64 = 20_000.0;
/// Calls at a time: their records find room in the queue.
const AT_A_TIME: u64 = 1_000;

fn told(log: &AuditLog, events: &[Event; 3], turns: u64) -> Duration {
    let began = now();
    for _ in 0..turns {
        for event in black_box(events) {
            log.on(event);
        }
    }
    began.elapsed()
}

/// The caller's part.
fn caller(criterion: &mut Criterion, figures: &mut Figures) {
    let events = call();
    let log = AuditLog::new(Arc::new(Last::default()), None);
    figures.measure(criterion, TO_NOBODY, |turns| told(&log, &events, turns));
    let folder = tempfile::tempdir().expect("a folder for the log");
    let sink = Arc::new(FileSink::open(&unsynced(&folder)).expect("the log opens"));
    let log = AuditLog::new(sink.clone(), None);
    figures.measure(criterion, TO_FILE, |turns| {
        let mut took = Duration::ZERO;
        let mut left = turns;
        while left > 0 {
            let some = left.min(AT_A_TIME);
            took += told(&log, &events, some);
            left -= some;
            // What finds no room is lost and costs nothing: that is not to be measured.
            assert!(sink.flush(Duration::from_secs(60)));
        }
        took
    });
    assert_eq!(sink.status().lost, 0);
}

fn unsynced(folder: &tempfile::TempDir) -> FileSinkConfig {
    let mut config = FileSinkConfig::new(folder.path().to_owned(), "gw-1");
    config.sync = SyncPolicy::Never;
    config
}

/// The writer's part: a record becomes a line, and the line is written.
fn writer(criterion: &mut Criterion, figures: &mut Figures) {
    let record = record();
    let folder = tempfile::tempdir().expect("a folder for lines");
    let file = |name| File::create(folder.path().join(name)).expect("a file for lines");
    let mut out = BufWriter::new(file("plain"));
    figures.measure(criterion, PLAIN, |turns| {
        let began = now();
        for _ in 0..turns {
            serde_json::to_writer(&mut out, black_box(&record)).expect("a line is written");
            out.write_all(b"\n").expect("a line is written");
        }
        out.flush().expect("lines are written");
        began.elapsed()
    });
    let mut out = BufWriter::new(file("chained"));
    let mut chain = Chain::new("gw-1", true);
    figures.measure(criterion, WRITER, |turns| {
        let mut took = Duration::ZERO;
        for _ in 0..turns {
            let own = record.clone();
            let began = now();
            let sealed = chain.seal(black_box(own)).expect("a record can be written");
            out.write_all(&sealed.line).expect("a line is written");
            took += began.elapsed();
        }
        out.flush().expect("lines are written");
        took
    });
    let sink = FileSink::open(&unsynced(&folder)).expect("the log opens");
    figures.measure(criterion, THROUGH, |turns| {
        let began = now();
        for turn in 1..=turns {
            sink.append(Box::new(record.clone()));
            if turn % AT_A_TIME == 0 || turn == turns {
                assert!(sink.flush(Duration::from_secs(60)));
            }
        }
        began.elapsed()
    });
    assert_eq!(sink.status().lost, 0);
}

/// What the hash of what was said adds to a call's end.
fn content(criterion: &mut Criterion) {
    let key = ContentKey::new(&SecretString::from("0123456789abcdef0123456789abcdef"));
    for kib in [1, 16, 256] {
        let mut ended = call()[2].clone();
        if let EventKind::CallEnded { content, .. } = &mut ended.kind {
            *content = Some(exchange(kib));
        }
        let log = AuditLog::new(Arc::new(Last::default()), None).with_content_key(key.clone());
        let name = format!("audit/content: an answer's record with the hash of {kib} KiB");
        criterion.bench_function(&name, |bench| bench.iter(|| log.on(black_box(&ended))));
    }
}

/// An exchange of so many KiB, all but little of it asked.
fn exchange(kib: usize) -> Exchange {
    let answer = ChatResponse {
        id: String::new(),
        model: String::new(),
        created: 0,
        parts: vec![Part::Text("It is high tide at noon.".to_owned())],
        finish: Finish::Stop,
        usage: None,
        adapted: Vec::new(),
        rate_limits: None,
        extra: Extra::default(),
    };
    Exchange {
        request: Arc::new(ChatRequest::user("When is it? ".repeat(kib * 1_024 / 12))),
        answer: Some(Arc::new(answer)),
    }
}

fn recorded(criterion: &mut Criterion) {
    let mut figures = Figures::default();
    caller(criterion, &mut figures);
    writer(criterion, &mut figures);
    content(criterion);
    figures.tell();
}

criterion_group!(benches, recorded);
criterion_main!(benches);
