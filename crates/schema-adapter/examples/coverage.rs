//! What each dialect takes of 250 real schemas, and what is lost, as the table of `docs/SCHEMA.md`:
//!
//! `cargo run -p evenkeel-schema-adapter --example coverage`

use std::collections::BTreeMap;
use std::io::{self, Write};

use evenkeel_core::{ChatRequest, Output};
use evenkeel_schema_adapter::{
    AdaptError, Adapter, Dialect, Loss, Mode, ModelSupport, Reason, Refusal, Treatment,
};
use serde_json::Value;

const SCHEMAS: &str = include_str!("../../../fixtures/schema/jsonschemabench-mini.jsonl");

/// What became of all schemas in one dialect.
#[derive(Default)]
struct Tally {
    /// Taken with nothing lost but open objects closed.
    whole: usize,
    /// Taken, with some of it told in words or checked on return.
    checked: usize,
    /// Taken, but for less than the schema allows.
    narrowed: usize,
    refused: usize,
    reasons: BTreeMap<String, usize>,
    lost: BTreeMap<&'static str, usize>,
    modes: BTreeMap<Mode, usize>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schemas: Vec<Value> = SCHEMAS
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).map(|mut v| v["schema"].take()))
        .collect::<Result<_, _>>()?;
    let tallies: Vec<(Dialect, Tally)> = Dialect::ALL
        .into_iter()
        .filter(|dialect| *dialect != Dialect::None)
        .map(|dialect| (dialect, tally(&schemas, dialect)))
        .collect();
    write(&mut io::stdout().lock(), schemas.len(), &tallies)?;
    Ok(())
}

fn tally(schemas: &[Value], dialect: Dialect) -> Tally {
    let adapter = Adapter::new();
    let mut tally = Tally::default();
    for schema in schemas {
        match adapter.rewrite(schema, dialect, false) {
            Ok(rewritten) => tally.take(&rewritten.losses),
            Err(AdaptError::Refused(Refusal { reasons })) => {
                tally.refused += 1;
                for (_, reason) in &reasons {
                    *tally.reasons.entry(name_of(reason)).or_default() += 1;
                }
            }
            Err(AdaptError::Schema(error)) => {
                tally.refused += 1;
                *tally
                    .reasons
                    .entry(format!("no schema: {}", error.fault))
                    .or_default() += 1;
            }
        }
        let mut request = ChatRequest::user("");
        request.output = Output::JsonSchema {
            name: "answer".to_owned(),
            schema: schema.clone(),
            strict: true,
            description: None,
        };
        if let Ok(adapted) = adapter.adapt(&request, ModelSupport::of(dialect))
            && let Some(mode) = adapted.mode
        {
            *tally.modes.entry(mode).or_default() += 1;
        }
    }
    tally
}

impl Tally {
    fn take(&mut self, losses: &[Loss]) {
        let mut keywords: Vec<&'static str> = Vec::new();
        let mut narrowed = false;
        for loss in losses.iter().filter(|l| l.treatment != Treatment::Closed) {
            narrowed |= loss.treatment == Treatment::Narrowed;
            if !keywords.contains(&loss.keyword) {
                keywords.push(loss.keyword);
            }
        }
        match (keywords.is_empty(), narrowed) {
            (true, _) => self.whole += 1,
            (false, false) => self.checked += 1,
            (false, true) => self.narrowed += 1,
        }
        for keyword in keywords {
            *self.lost.entry(keyword).or_default() += 1;
        }
    }
}

/// A reason without its place.
fn name_of(reason: &Reason) -> String {
    match reason {
        Reason::Recursive { .. } => "recursive".to_owned(),
        Reason::Inexpressible { what, .. } => (*what).to_owned(),
        Reason::TooLarge { what, .. } => format!("too many {what}"),
        other => other.to_string(),
    }
}

fn write(out: &mut impl Write, all: usize, tallies: &[(Dialect, Tally)]) -> io::Result<()> {
    writeln!(
        out,
        "| dialect | whole | rest checked on return | narrower than the schema | taken | refused natively |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for (dialect, tally) in tallies {
        let taken = tally.whole + tally.checked + tally.narrowed;
        let percent = 100 * taken / all;
        writeln!(
            out,
            "| {} | {} | {} | {} | {taken} ({percent} %) | {} |",
            dialect.as_str(),
            tally.whole,
            tally.checked,
            tally.narrowed,
            tally.refused
        )?;
    }
    writeln!(
        out,
        "\n| dialect | mode used when the model has all that is usual for it |\n|---|---|"
    )?;
    for (dialect, tally) in tallies {
        let modes = tally
            .modes
            .iter()
            .map(|(mode, n)| format!("{} {n}", mode.as_str()));
        writeln!(
            out,
            "| {} | {} |",
            dialect.as_str(),
            modes.collect::<Vec<_>>().join(", ")
        )?;
    }
    writeln!(
        out,
        "\n| dialect | why refused (schemas) | what is not enforced (schemas that use it) |\n|---|---|---|"
    )?;
    for (dialect, tally) in tallies {
        let lost: BTreeMap<String, usize> = tally
            .lost
            .iter()
            .map(|(k, n)| (format!("`{k}`"), *n))
            .collect();
        writeln!(
            out,
            "| {} | {} | {} |",
            dialect.as_str(),
            list(&tally.reasons),
            list(&lost)
        )?;
    }
    Ok(())
}

/// Names with their counts, the most frequent first.
fn list(counts: &BTreeMap<String, usize>) -> String {
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let items = sorted.iter().map(|(name, n)| format!("{name} {n}"));
    items.collect::<Vec<_>>().join(", ")
}
