//! `roster.toml`: one role's ranked models.

use std::time::Duration;

use evenkeel_core::ModelId;

use crate::measured::{Hashes, Measured};
use evenkeel_document::{Findings, Place, Scope, TableReader};

/// A roster as far as it can be read.
pub(crate) struct WrittenRoster<'a> {
    pub(crate) role: Place,
    pub(crate) primary: Option<(ModelId, Place)>,
    pub(crate) primary_score: Option<f64>,
    /// How the primary was measured.
    pub(crate) measured: Measured,
    /// In the order of their ranks.
    pub(crate) fallbacks: Vec<WrittenFallback<'a>>,
    /// Whether `fallbacks` is there, be it empty: a role may have none on purpose.
    pub(crate) says_fallbacks: bool,
    /// Whether every rung could be read, so that rules about neighbours make sense.
    pub(crate) complete: bool,
}

pub(crate) struct WrittenFallback<'a> {
    pub(crate) model: ModelId,
    rank: Option<u32>,
    pub(crate) quality_score: Option<f64>,
    pub(crate) capability_score: Option<f64>,
    pub(crate) median_latency: Option<Duration>,
    pub(crate) measured: Measured,
    /// Whether every key could be read, so that rules about values make sense.
    pub(crate) sound: bool,
    scope: Scope<'a>,
}

impl WrittenFallback<'_> {
    /// Where the fallback as a whole stands.
    pub(crate) fn entry(&self) -> &Place {
        &self.scope.place
    }

    /// Where `key` stands, or would.
    pub(crate) fn place(&self, key: &str) -> Place {
        let place = self.scope.locate(key);
        place.unwrap_or_else(|| self.entry().below(key, self.entry().line))
    }
}

/// Reads the roster keys of a role's table.
pub(crate) fn read_roster<'a>(table: &mut TableReader<'a, '_>) -> WrittenRoster<'a> {
    let role = table.scope().place.clone();
    let primary = read_model(table, "primary");
    let primary_score = table.number("primary_score");
    if let Some(score) = primary_score.filter(|score| *score <= 0.0) {
        let message = format!("is {score}, expected a score above 0");
        table
            .findings
            .error(&table.place("primary_score"), message, None);
    }
    let measured = read_measured(table, "primary_hashes");
    let scopes = table.listed_tables("fallbacks").unwrap_or_default();
    let says_fallbacks = table.has("fallbacks");
    let written = scopes.len();
    let mut fallbacks: Vec<WrittenFallback<'a>> = scopes
        .into_iter()
        .filter_map(|scope| read_fallback(scope, table.findings))
        .collect();
    let complete = primary.is_some() && fallbacks.len() == written;
    check_ranks(&fallbacks, table.findings);
    fallbacks.sort_by_key(|fallback| fallback.rank);
    WrittenRoster {
        role,
        primary,
        primary_score: primary_score.filter(|score| *score > 0.0),
        measured,
        fallbacks,
        says_fallbacks,
        complete,
    }
}

fn read_model(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<(ModelId, Place)> {
    if !table.has(key) {
        let message = format!("{key} is missing");
        let how = format!("write {key} = \"provider/model\"");
        let at = table.scope().place.clone();
        table.know(key);
        table.findings.error(&at, message, Some(how));
        return None;
    }
    let text = table.text(key)?;
    let place = table.place(key);
    match ModelId::new(text) {
        Ok(id) => Some((id, place)),
        Err(error) => {
            table.findings.error(&place, error.to_string(), None);
            None
        }
    }
}

fn read_fallback<'a>(scope: Scope<'a>, findings: &mut Findings) -> Option<WrittenFallback<'a>> {
    let before = findings.len();
    let mut table = TableReader::new(scope.clone(), findings);
    let model = read_model(&mut table, "model");
    let rank = table.count("rank");
    let quality_score = read_score(&mut table, "quality_score", f64::MAX);
    let capability_score = read_score(&mut table, "capability_score", 1.0);
    let median_latency = table.ms("median_latency_ms");
    let measured = Measured {
        schema_compliance: read_score(&mut table, "schema_compliance", 1.0),
        ..read_measured(&mut table, "hashes")
    };
    table.finish();
    let (model, _) = model?;
    Some(WrittenFallback {
        model,
        rank,
        quality_score,
        capability_score,
        median_latency,
        measured,
        sound: findings.len() == before,
        scope,
    })
}

fn read_score(table: &mut TableReader<'_, '_>, key: &'static str, most: f64) -> Option<f64> {
    let score = table.number(key)?;
    if (0.0..=most).contains(&score) {
        return Some(score);
    }
    let range = if most < f64::MAX {
        format!("0 to {most}")
    } else {
        "0 or more".to_owned()
    };
    let message = format!("is {score}, expected {range}");
    table.findings.error(&table.place(key), message, None);
    None
}

/// When and on what a rung was measured; `hashes` is the key of the latter.
fn read_measured(table: &mut TableReader<'_, '_>, hashes: &'static str) -> Measured {
    Measured {
        qualified_at: table.date("qualified_at", |text| text.parse().ok()),
        schema_compliance: None,
        hashes: table.within(hashes, read_hashes).flatten(),
    }
}

/// What the score was measured on, if all of it is said.
fn read_hashes(table: &mut TableReader<'_, '_>) -> Option<Hashes> {
    let [prompt, tools, dataset, snapshot] =
        ["prompt", "tools", "dataset", "snapshot"].map(|key| table.text(key).map(str::to_owned));
    let fingerprints = table.texts("fingerprints").unwrap_or_default();
    Some(Hashes {
        prompt: prompt?,
        tools: tools?,
        dataset: dataset?,
        snapshot: snapshot?,
        fingerprints: fingerprints
            .into_iter()
            .map(|f| f.text.to_owned())
            .collect(),
    })
}

/// Ranks order the fallbacks, so they must be there for all or for none, and differ.
fn check_ranks(fallbacks: &[WrittenFallback<'_>], findings: &mut Findings) {
    let ranked = fallbacks.iter().filter(|f| f.rank.is_some()).count();
    for (index, fallback) in fallbacks.iter().enumerate() {
        let at = fallback.place("rank");
        match fallback.rank {
            None if ranked > 0 => {
                let message = "rank is missing, but other fallbacks of the role have one";
                let how = "rank all of them, or none: then their order in the file counts";
                findings.error(fallback.entry(), message.to_owned(), Some(how.to_owned()));
            }
            Some(0) => {
                let message = "is 0, expected 1 or more: 0 is the primary".to_owned();
                findings.error(&at, message, None);
            }
            Some(rank) if fallbacks[..index].iter().any(|f| f.rank == Some(rank)) => {
                findings.error(
                    &at,
                    format!("rank {rank} is taken by another fallback"),
                    None,
                );
            }
            _ => {}
        }
    }
}
