//! The scenario suite as log lines: their words are those of the contract.

use evenkeel_core::{Event, Observer as _};
use evenkeel_document::SourceFile;
use evenkeel_gateway::LogObserver;
use evenkeel_replay::{Scenario, replay};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Dispatch, Subscriber, subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

/// Fields of lines, each with what it said; by the line's event too.
type Said = BTreeMap<(String, String), BTreeSet<String>>;

/// Keeps what lines say.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Said>>);

impl<S: Subscriber> Layer<S> for Kept {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let name = fields.0.get("event").cloned().unwrap_or_default();
        let mut said = self.0.lock().unwrap();
        for (field, value) in fields.0 {
            let place = (name.clone(), field.to_owned());
            said.entry(place).or_default().insert(value);
        }
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

fn fixtures(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    fixtures.join(name)
}

fn said() -> Said {
    let kept = Kept::default();
    // With a single dispatcher whichever thread first comes by a line decides for all whether
    // anybody hears it; other tests' threads, which hear nothing, come by these lines too.
    let _another = Dispatch::new(subscriber::NoSubscriber::default());
    subscriber::with_default(Registry::default().with(kept.clone()), || {
        for entry in std::fs::read_dir(fixtures("scenarios")).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let file = SourceFile::new(path.display().to_string(), text);
            let log = LogObserver::new();
            let at = tokio::time::Instant::now().into_std();
            for told in replay(&Scenario::parse(&file).unwrap()).unwrap().events {
                log.on(&Event {
                    at,
                    call: told.call,
                    kind: told.kind,
                });
            }
        }
    });
    kept.0.lock().unwrap().clone()
}

/// The words of some definitions of the schema of records.
fn words(schema: &Value, definitions: &[&str]) -> BTreeSet<String> {
    let texts = definitions.iter().flat_map(|definition| {
        let own = &schema["$defs"][definition]["enum"];
        own.as_array().unwrap().iter()
    });
    texts.map(|w| w.as_str().unwrap().to_owned()).collect()
}

// Conformance 15, the lines' part.
#[test]
fn every_scenario_is_logged_in_words_of_the_contract() {
    let said = said();
    let text = std::fs::read_to_string(fixtures("telemetry/audit-record.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let of = |definitions: &[&str]| words(&schema, definitions);
    let refused = of(&["class", "refused"]);
    let states = of(&["bstate"]);
    let mut errors = of(&["class"]);
    errors.insert("roster_exhausted".to_owned());
    let own = |words: &[&str]| {
        words
            .iter()
            .map(|w| (*w).to_owned())
            .collect::<BTreeSet<_>>()
    };
    let sets = BTreeMap::from([
        ("reason", refused.clone()),
        ("substitution.reason", of(&["moved", "hedged"])),
        (
            "restoration.reason",
            own(&["recovered", "manual", "eol", "drill"]),
        ),
        ("substitution.scope", own(&["request", "role"])),
        ("breach.detector", own(&["p95", "p99", "spike"])),
        ("breach.measure", own(&["total", "first_token"])),
        ("breaker.from", states.clone()),
        ("breaker.to", states),
        ("degradation.level", own(&["minor", "major", "failed"])),
        (
            "evenkeel.route",
            own(&[
                "primary",
                "substitute",
                "hedge",
                "fallback",
                "degraded",
                "none",
            ]),
        ),
    ]);
    for ((event, field), met) in &said {
        let known = match (event.as_str(), field.as_str()) {
            (_, "error.type") => &errors,
            (_, field) => match sets.get(field) {
                Some(set) => set,
                None => continue,
            },
        };
        let strange: Vec<_> = met.difference(known).collect();
        assert!(strange.is_empty(), "{event}: {field} = {strange:?}");
    }
    let exhausted = &said[&(
        "roster_exhausted".to_owned(),
        "exhausted.refused".to_owned(),
    )];
    for list in exhausted.iter().flat_map(|list| list.split(',')) {
        let reason = list.rsplit(':').next().unwrap();
        assert!(reason.is_empty() || refused.contains(reason), "{list}");
    }
    for event in [
        "model_substitution",
        "model_restoration",
        "latency_breach",
        "model_fallback_activated",
        "breaker_transition",
        "quality_rejected",
        "roster_exhausted",
    ] {
        let place = (event.to_owned(), "event".to_owned());
        assert!(said.contains_key(&place), "{event} was not logged");
    }
    let fallbacks = &said[&("model_fallback_activated".to_owned(), "reason".to_owned())];
    for reason in ["cooldown", "below_capability", "manual", "breaker_open"] {
        assert!(fallbacks.contains(reason), "{reason}: {fallbacks:?}");
    }
}
