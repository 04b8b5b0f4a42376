//! One set of instruments for `/metrics` and OTLP alike: an observer that counts what
//! happens, and gauges of how things are.

mod catalogue;
mod counts;
#[cfg(feature = "prometheus")]
mod exposition;
mod gauges;
mod instruments;
mod labels;
mod record;
mod shadow;
mod snapshot;
mod zero;

pub use self::catalogue::{
    Catalogue, LimitEntry, Measure, ModelEntry, Percentile, Quality, RoleEntry, RosterEntry,
    RungEntry,
};
pub use self::counts::{Losses, Signal};
#[cfg(feature = "prometheus")]
pub use self::exposition::{CONTENT_TYPE, Collected, Exposition, ExpositionError};
pub use self::gauges::BREAKER_STATES;
pub use self::instruments::{MANY, MANY_SERIES};
pub use self::snapshot::{
    ModelNow, PercentilesNow, ProviderNow, QualityNow, RoleNow, RungNow, Snapshot, TicketsNow,
};

use self::gauges::Shown;
use self::instruments::Instruments;
use self::labels::{Labels, Places, ReportedModels, label};
use self::shadow::Shadows;
use opentelemetry::metrics::Meter;
use std::sync::Arc;

/// Counts and measures what a router does. One for each meter: made twice, gauges would
/// be observed twice.
///
/// Every label that names a role, a model, a provider, a kind of task or a workflow comes
/// from the [`Catalogue`]; whatever else a caller or an upstream says is `_other`, or
/// `_unknown` of models. So is what goes over the limits: 64 roles, 64 models, 16
/// providers, 32 kinds of task, 64 workflows and 64 models as answers name them, for the
/// life of the process.
///
/// The label `model` is the name at the provider where `provider` stands beside it;
/// alone, it is the whole id, as are `primary` and `fallback`: two providers may serve
/// models of one name. `primary` is the first model of the role's roster, or of its
/// task's, whichever model was left.
#[derive(Debug)]
pub struct Metrics {
    instruments: Instruments,
    shown: Arc<Shown>,
    places: Places,
    reported: ReportedModels,
    shadows: Shadows,
}

/// Which program runs (`evenkeel_build_info`).
#[derive(Debug, Clone, Copy)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The revision of its source, or `unknown`.
    pub revision: &'static str,
}

impl Metrics {
    /// Makes the instruments of `meter`, and the series that `catalogue` knows of.
    pub fn new(meter: &Meter, catalogue: Catalogue, build: Build) -> Self {
        let metrics = Self {
            instruments: Instruments::new(meter),
            shown: Arc::new(Shown::default()),
            places: Places::default(),
            reported: ReportedModels::default(),
            shadows: Shadows::default(),
        };
        metrics.replace(catalogue);
        let build = vec![
            label(labels::VERSION, build.version),
            label(labels::REVISION, build.revision),
        ];
        gauges::register(meter, &metrics.shown, build);
        metrics
    }

    /// Goes by another configuration from now on. Counters of what it has no more stay as
    /// they are; its gauges are gone.
    pub fn replace(&self, catalogue: Catalogue) {
        let labels = Labels::new(&catalogue, &self.places);
        self.begin(&catalogue, &labels);
        self.shown.labels.store(Arc::new(labels));
        self.shown.catalogue.store(Arc::new(catalogue));
    }

    /// Lets gauges show `snapshot` from now on. To be called before metrics are read:
    /// gauges show how things were then.
    pub fn show(&self, snapshot: Snapshot) {
        self.shown.snapshot.store(Arc::new(snapshot));
    }

    /// What counts telemetry that was dropped.
    pub fn losses(&self) -> Losses {
        Losses(self.instruments.telemetry_dropped.clone())
    }
}
