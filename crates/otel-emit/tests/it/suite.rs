//! The scenario suite, told to all that observe: the words they use are those of the contract,
//! and each uses the same.

use crate::audit::fixture;
use crate::audit::world::Memory;
use evenkeel_core::{Event, Observer as _, SystemClock};
use evenkeel_document::SourceFile;
use evenkeel_otel_emit::audit::AuditLog;
use evenkeel_otel_emit::metrics::{Build, Catalogue, Exposition, Metrics};
use evenkeel_otel_emit::spans::Spans;
use evenkeel_replay::{Scenario, replay};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Array, KeyValue, Value as Attribute};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

type Words = BTreeSet<String>;

/// The contract's closed sets, by the schema of records.
struct Sets(Value);

impl Sets {
    fn read() -> Self {
        Self(serde_json::from_str(&fixture("audit-record.schema.json")).unwrap())
    }

    /// The words of a definition, with those it refers to.
    fn of(&self, pointer: &str) -> Words {
        let mut words = Words::new();
        self.add(self.0.pointer(pointer).unwrap(), &mut words);
        assert!(!words.is_empty(), "{pointer}");
        words
    }

    fn add(&self, part: &Value, words: &mut Words) {
        let texts = part["enum"].as_array().into_iter().flatten();
        words.extend(texts.map(|word| word.as_str().unwrap().to_owned()));
        for one in part["anyOf"].as_array().into_iter().flatten() {
            self.add(one, words);
        }
        if let Some(to) = part["$ref"].as_str() {
            self.add(self.0.pointer(to.trim_start_matches('#')).unwrap(), words);
        }
    }

    /// Of each attribute of spans and their events, and each label, that has one.
    fn by_name(&self) -> BTreeMap<&'static str, Words> {
        let set = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Words>();
        let [class, refused, moved, hedged] =
            ["class", "refused", "moved", "hedged"].map(|d| self.of(&format!("/$defs/{d}")));
        let states = self.of("/$defs/bstate");
        let mut fallback: Words = class.union(&refused).cloned().collect();
        fallback.remove("cancelled");
        let attempt = "/properties/attempts/items/properties/outcome";
        let mut error: Words = class.clone();
        error.insert("roster_exhausted".to_owned());
        let label_reason = fallback.union(&moved).cloned().collect();
        let mut error_type = class;
        error_type.insert(String::new());
        let outcomes = self.of("/properties/outcome");
        BTreeMap::from([
            ("evenkeel.reason", self.of("/$defs/reason")),
            ("reason", fallback),
            (
                "substitution.reason",
                moved.union(&hedged).cloned().collect(),
            ),
            (
                "restoration.reason",
                set(&["recovered", "manual", "eol", "drill"]),
            ),
            ("error.type", error),
            ("evenkeel.route", self.of("/properties/route")),
            ("evenkeel.outcome", outcomes.clone()),
            ("evenkeel.attempt.outcome", self.of(attempt)),
            ("evenkeel.breaker.state", states.clone()),
            ("breaker.from", states.clone()),
            ("breaker.to", states.clone()),
            (
                "breach.detector",
                self.of("/properties/latency/properties/detector"),
            ),
            ("breach.percentile", set(&["p95", "p99"])),
            (
                "breach.measure",
                self.of("/properties/latency/properties/measure"),
            ),
            ("substitution.scope", set(&["request", "role"])),
            ("degradation.level", set(&["minor", "major", "failed"])),
            ("label reason", label_reason),
            ("label error_type", error_type),
            ("label route", self.of("/properties/route")),
            (
                "label outcome",
                self.of(attempt).union(&outcomes).cloned().collect(),
            ),
            ("label from", states.clone()),
            ("label to", states),
            (
                "label detector",
                self.of("/properties/latency/properties/detector"),
            ),
            (
                "label result",
                set(&["won", "lost", "refused", "ok", "slow", "error"]),
            ),
            ("label kind", self.of("/properties/kind")),
        ])
    }
}

/// What was said, by where.
#[derive(Default)]
struct Said(BTreeMap<String, Words>);

impl Said {
    fn add(&mut self, place: impl Into<String>, word: impl Into<String>) {
        self.0.entry(place.into()).or_default().insert(word.into());
    }

    fn at(&self, place: &str) -> Words {
        self.0.get(place).cloned().unwrap_or_default()
    }

    fn spans(&mut self, spans: &[SpanData]) {
        for span in spans {
            let is_attempt = span.name.starts_with("chat ");
            for kv in &span.attributes {
                self.attribute(if is_attempt { "attempt" } else { "span" }, kv);
            }
            for event in &span.events.events {
                for kv in &event.attributes {
                    self.attribute(&event.name, kv);
                }
            }
        }
    }

    fn attribute(&mut self, place: &str, kv: &KeyValue) {
        match &kv.value {
            Attribute::String(word) => self.add(format!("{place} {}", kv.key), word.as_str()),
            Attribute::Array(Array::String(words)) if kv.key.as_str() == "exhausted.refused" => {
                for word in words {
                    let reason = word.as_str().rsplit(':').next().unwrap();
                    self.add(format!("{place} reason"), reason);
                }
            }
            _ => {}
        }
    }

    /// Labels of series that have counted something.
    fn metrics(&mut self, text: &str) {
        let counted = |line: &&str| !line.starts_with('#') && !line.ends_with(" 0");
        for line in text.lines().filter(counted) {
            let Some((name, rest)) = line.split_once('{') else {
                continue;
            };
            let labels = rest.rsplit_once("\"}").unwrap().0;
            for pair in labels.split("\",") {
                let (label, word) = pair.split_once("=\"").unwrap();
                self.add(format!("{name} label {label}"), word);
            }
        }
    }

    fn records(&mut self, records: &[Value]) {
        for record in records {
            let kind = record["kind"].as_str().unwrap();
            for (pointer, member) in [
                ("/reason", "reason"),
                ("/route", "route"),
                ("/outcome", "outcome"),
                ("/latency/detector", "detector"),
                ("/breaker/to", "to"),
            ] {
                if let Some(word) = record.pointer(pointer).and_then(Value::as_str) {
                    self.add(format!("record {kind} {member}"), word);
                }
            }
            for attempt in record["attempts"].as_array().into_iter().flatten() {
                self.add(
                    "record attempt outcome",
                    attempt["outcome"].as_str().unwrap(),
                );
                if let Some(class) = attempt["error_type"].as_str() {
                    self.add("record attempt error_type", class);
                }
            }
        }
    }
}

/// Plays a scenario to spans, metrics and the audit log.
fn play(scenario: &Scenario, said: &mut Said) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let spans = Spans::new(provider.tracer("evenkeel"), Arc::new(SystemClock));
    let exposition = Exposition::new().unwrap();
    let build = Build {
        version: "1",
        revision: "r",
    };
    let metrics = Metrics::new(&exposition.meter(), Catalogue::default(), build);
    let memory = Arc::new(Memory::default());
    let log = AuditLog::new(memory.clone(), None);
    let at = tokio::time::Instant::now().into_std();
    for told in replay(scenario).unwrap().events {
        let event = Event {
            at,
            call: told.call,
            kind: told.kind,
        };
        spans.on(&event);
        metrics.on(&event);
        log.on(&event);
    }
    said.spans(&exporter.get_finished_spans().unwrap());
    said.metrics(&exposition.text().unwrap());
    // Each of them is held against the schema.
    said.records(&memory.records());
}

fn suite() -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/scenarios");
    let entries = std::fs::read_dir(folder).unwrap();
    let scenarios = entries.map(|entry| {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        Scenario::parse(&SourceFile::new(path.display().to_string(), text)).unwrap()
    });
    scenarios.collect()
}

/// The last word of a place is the name of what has a closed set.
fn name_of(place: &str) -> &str {
    match place.split_once(" label ") {
        Some((family, _)) => &place[family.len() + 1..],
        None => place.rsplit(' ').next().unwrap(),
    }
}

/// Where the same is told by spans, metrics and records.
const SAME: [(&str, &[&str]); 9] = [
    (
        "why a call fell back",
        &[
            "model_fallback reason",
            "evenkeel_fallbacks_total label reason",
            "record fallback reason",
        ],
    ),
    (
        "why a role moved",
        &[
            "evenkeel_substitutions_total label reason",
            "record substitution reason",
        ],
    ),
    (
        "why it came back",
        &[
            "model_restoration restoration.reason",
            "record restoration reason",
        ],
    ),
    (
        "which detector",
        &[
            "latency_breach breach.detector",
            "evenkeel_latency_breaches_total label detector",
            "record latency_breach detector",
        ],
    ),
    (
        "which state",
        &[
            "breaker_transition breaker.to",
            "evenkeel_breaker_transitions_total label to",
            "record breaker to",
        ],
    ),
    (
        "which route",
        &["span evenkeel.route", "record answer route"],
    ),
    (
        "which end",
        &[
            "span evenkeel.outcome",
            "evenkeel_requests_total label outcome",
            "record answer outcome",
        ],
    ),
    (
        "how an attempt ended",
        &[
            "attempt evenkeel.attempt.outcome",
            "evenkeel_attempts_total label outcome",
            "record attempt outcome",
        ],
    ),
    (
        "what an attempt failed with",
        &["attempt error.type", "record attempt error_type"],
    ),
];

/// What the suite causes of the contract's section 5, by where a record says it.
const CAUSED: [(&str, &[&str]); 6] = [
    (
        "record substitution reason",
        &[
            "latency_p95_breach",
            "latency_p99_breach",
            "latency_spike",
            "eol",
            "drill",
        ],
    ),
    ("record restoration reason", &["recovered"]),
    (
        "record hedge reason",
        &["patience_exceeded", "projected_deadline_miss"],
    ),
    ("record answer reason", &["roster_exhausted"]),
    (
        "record attempt error_type",
        &[
            "transient",
            "rate_limited",
            "quota_exhausted",
            "overloaded",
            "unreachable",
            "timeout",
            "context_window",
            "content_filter",
            "auth",
            "model_gone",
            "bad_request",
            "malformed",
            "semantic",
        ],
    ),
    (
        "record fallback reason",
        &[
            "breaker_open",
            "cooldown",
            "hold",
            "at_capacity",
            "below_capability",
            "drill",
            "manual",
            "timeout",
            "auth",
        ],
    ),
];

// Conformance 15.
#[test]
fn every_scenario_is_told_in_the_contract_s_words_by_all_alike() {
    let mut said = Said::default();
    for scenario in suite() {
        play(&scenario, &mut said);
    }
    let sets = Sets::read().by_name();
    for (place, words) in &said.0 {
        if place.starts_with("record ") {
            continue;
        }
        if let Some(set) = sets.get(name_of(place)) {
            let strange: Vec<_> = words.difference(set).collect();
            assert!(strange.is_empty(), "{place}: {strange:?}");
        }
    }
    // Spans, metrics and records of the same thing have the same words for it.
    for (what, places) in SAME {
        let first = said.at(places[0]);
        assert!(!first.is_empty(), "{what} was never told");
        for place in &places[1..] {
            assert_eq!(said.at(place), first, "{what}: {place}, {}", places[0]);
        }
    }
    for (place, words) in CAUSED {
        let met = said.at(place);
        let missing: Vec<_> = words.iter().filter(|w| !met.contains(**w)).collect();
        assert!(missing.is_empty(), "{place} lacks {missing:?}: {met:?}");
    }
}
