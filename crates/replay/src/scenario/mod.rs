//! What a scenario file says.

mod band;
mod drill;
mod expect;
mod fault;
mod latency;
mod pattern;
mod service;
mod traffic;
mod upstream;

pub use self::band::Band;
pub use self::drill::Drill;
pub use self::expect::{EventExpectation, Expectations, PhaseExpectation, TrailExpectation};
pub use self::pattern::StepPattern;
pub(crate) use self::pattern::written as pattern_written;
pub use self::service::Service;
pub(crate) use self::service::playing;
pub use self::traffic::{Output, Traffic};
pub use self::upstream::{Change, ModelPlan};

use evenkeel_document::{Findings, Problem, Problems, SourceFile, TableReader, parse_all};
use evenkeel_roster::{Config, load_beside};
use jiff::civil::Date;
use std::time::Duration;

/// Top-level keys of a scenario; every other one is a table of the configuration.
const OWN_KEYS: [&str; 10] = [
    "name",
    "why",
    "seed",
    "today",
    "upstream",
    "traffic",
    "drill",
    "service",
    "settle_ms",
    "expect",
];

/// One scenario: a configuration, models that fare as it says, traffic, and what
/// must come of it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// `name`: what happens, in one line.
    pub name: String,
    /// `why`: what it shows, and why its bands are as wide as they are.
    pub why: String,
    /// `seed` of every latency, fault and jitter; 1 where it is not said.
    pub seed: u64,
    /// `today`: the calendar day on which it begins; 2026-01-01 where it is not said.
    pub today: Date,
    /// Roles, models and providers, as in the files of a configuration.
    pub config: Config,
    /// `upstream`: how each model fares.
    pub upstream: Vec<ModelPlan>,
    /// `traffic`: who asks, in the order of the file.
    pub traffic: Vec<Traffic>,
    /// `drill`: models that an operator takes away.
    pub drills: Vec<Drill>,
    /// `service`: what the services do that judge answers.
    pub services: Vec<Service>,
    /// `settle_ms`: how long the world goes on after the last request has ended.
    pub settle: Duration,
    /// `expect`: what must come of it.
    pub expect: Expectations,
}

impl Scenario {
    /// Reads a scenario file: the tables of a configuration, all inline, and beside
    /// them its own.
    ///
    /// # Errors
    /// Everything that is wrong with it, by file, line and key.
    pub fn parse(file: &SourceFile) -> Result<Self, Problems> {
        let mut findings = Findings::default();
        let files = std::slice::from_ref(file);
        let no_env = |_: &str| None;
        let documents = parse_all(files, &no_env, &mut findings);
        let Some(document) = documents.list.first() else {
            return Err(Problems(findings.into_sorted()));
        };
        // Not finished: what it does not know is the configuration's to complain of.
        let mut table = TableReader::new(document.scope(), &mut findings);
        let mut draft = Draft::read(&mut table);
        let today = draft.today;
        let loaded = match load_beside(files, &OWN_KEYS, &no_env, today) {
            Ok(loaded) => loaded,
            Err(problems) => return Err(merged(problems.0, findings)),
        };
        drill::check_models(&draft.drills, &loaded.config, &mut table);
        service::check_roles(&draft.services, &loaded.config, &mut table);
        upstream::check_models(&draft.upstream, &loaded.config, &mut table);
        traffic::check_roles(&mut draft.traffic, &loaded.config, &mut table);
        if findings.has_errors() {
            return Err(Problems(findings.into_sorted()));
        }
        Ok(Self {
            name: draft.name,
            why: draft.why,
            seed: draft.seed,
            today,
            config: loaded.config,
            upstream: draft.upstream,
            traffic: draft.traffic,
            drills: draft.drills,
            services: draft.services,
            settle: draft.settle,
            expect: draft.expect,
        })
    }
}

/// The problems of both readings, in the order of their lines.
fn merged(mut problems: Vec<Problem>, findings: Findings) -> Problems {
    problems.extend(findings.into_sorted());
    problems.sort_by(|a, b| (a.line, &a.key, &a.message).cmp(&(b.line, &b.key, &b.message)));
    problems.dedup();
    Problems(problems)
}

/// A scenario without its configuration.
struct Draft {
    name: String,
    why: String,
    seed: u64,
    today: Date,
    upstream: Vec<ModelPlan>,
    traffic: Vec<Traffic>,
    drills: Vec<Drill>,
    services: Vec<Service>,
    settle: Duration,
    expect: Expectations,
}

impl Draft {
    fn read(table: &mut TableReader<'_, '_>) -> Self {
        let name = required(table, "name");
        let why = required(table, "why");
        let seed = table.large_count("seed").unwrap_or(1);
        let today = table.date("today", |text| text.parse().ok());
        Self {
            name,
            why,
            seed,
            today: today.unwrap_or_else(|| jiff::civil::date(2026, 1, 1)),
            upstream: upstream::read(table),
            traffic: traffic::read(table),
            drills: drill::read(table),
            services: service::read(table),
            settle: table.ms("settle_ms").unwrap_or_default(),
            expect: expect::read(table),
        }
    }
}

/// A text that must be there and say something.
fn required(table: &mut TableReader<'_, '_>, key: &'static str) -> String {
    let text = table.text(key).unwrap_or_default().trim().to_owned();
    if text.is_empty() {
        let at = table.place(key);
        let message = "is missing: one line for whoever reads the report".to_owned();
        table.findings.error(&at, message, None);
    }
    text
}
