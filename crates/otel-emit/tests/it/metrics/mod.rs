//! Metrics as Prometheus reads them.

mod cardinality;
pub(crate) mod events;
mod gauges;
mod names;
pub(crate) mod page;
mod push;
mod recorded;
mod zero;

use evenkeel_core::{Event, EventKind, ModelId, Observer};
use evenkeel_otel_emit::metrics::{
    Build, Catalogue, Exposition, LimitEntry, Measure, Metrics, ModelEntry, Percentile, Quality,
    RoleEntry, RosterEntry, RungEntry,
};
use page::Page;
use std::time::{Duration, Instant};

/// Metrics, and the page they are read on.
struct Meters {
    metrics: Metrics,
    exposition: Exposition,
}

impl Meters {
    fn of(catalogue: Catalogue) -> Self {
        let exposition = Exposition::new().unwrap();
        let build = Build {
            version: "1.2.3",
            revision: "abc",
        };
        Self {
            metrics: Metrics::new(&exposition.meter(), catalogue, build),
            exposition,
        }
    }

    fn tell(&self, kind: EventKind) {
        let event = Event {
            at: at(),
            call: None,
            kind,
        };
        self.metrics.on(&event);
    }

    fn page(&self) -> Page {
        Page::read(&self.exposition.text().unwrap())
    }
}

/// Some moment: metrics read durations alone.
fn at() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "an event carries a moment, which nothing reads"
    )]
    Instant::now()
}

fn id(text: &str) -> ModelId {
    ModelId::new(text).unwrap()
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A role with a primary and a fallback of one name at two providers, and a task of its own.
fn catalogue() -> Catalogue {
    let rung = |model: &str, quality| RungEntry {
        model: id(model),
        quality,
    };
    let quality = Quality {
        ratio: 0.93,
        delta: -0.07,
    };
    let limit = |percentile, measure, limit| LimitEntry {
        percentile,
        measure,
        limit,
    };
    let model = |text: &str, eol| ModelEntry {
        id: id(text),
        eol,
        is_priced: true,
    };
    Catalogue {
        roles: vec![RoleEntry {
            name: "planner".into(),
            task_types: vec!["review".into()],
            rosters: vec![
                RosterEntry {
                    task: None,
                    rungs: vec![rung("openai/gpt", None), rung("azure/gpt", Some(quality))],
                },
                RosterEntry {
                    task: Some("review".into()),
                    rungs: vec![rung("azure/gpt", None), rung("openai/gpt", None)],
                },
            ],
            limits: vec![
                limit(Percentile::P95, Measure::Total, s(5)),
                limit(Percentile::P99, Measure::FirstToken, s(8)),
            ],
            keeps_tickets: true,
            shadow: Some(id("new/one")),
        }],
        models: vec![
            model("openai/gpt", Some(1_800_000_000)),
            model("azure/gpt", None),
            model("new/one", None),
        ],
        providers: vec!["openai".into(), "azure".into(), "new".into()],
        workflows: vec!["research".into(), "research-deep".into()],
    }
}
