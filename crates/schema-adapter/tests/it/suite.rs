//! The groups of the JSON Schema Test Suite through every dialect: what a dialect takes keeps its
//! meaning, and what it cannot say is refused with a reason or noted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use evenkeel_schema_adapter::{AdaptError, Adapter, Dialect, ModelSupport, Reason, Treatment};
use serde_json::{Value, json};

use crate::asking::{demand, said};
use crate::forward::forward;

const SUITES: [(&str, &str); 2] = [
    (
        "draft7",
        include_str!("../../../../fixtures/schema/jsts-draft7.jsonl"),
    ),
    (
        "draft2020-12",
        include_str!("../../../../fixtures/schema/jsts-draft2020-12.jsonl"),
    ),
];

/// Natively or not at all.
fn native(dialect: Dialect) -> ModelSupport {
    ModelSupport {
        json_object: false,
        forced_tool: false,
        prompt: false,
        ..ModelSupport::of(dialect)
    }
}

#[derive(Default)]
struct Count {
    whole: usize,
    narrowed: usize,
    refused: BTreeMap<&'static str, usize>,
    unusable: usize,
}

/// Groups that `Checker` reads otherwise, as its documentation says: formats are notes to the suite and
/// demands here, and a `$schema` of one's own cannot switch validation off.
fn is_read_otherwise(group: &Value) -> bool {
    group["file"] == "format.json" || group["file"] == "vocabulary.json"
}

#[test]
fn groups_keep_their_meaning_or_are_refused_or_noted() {
    let mut report = String::new();
    for (draft, text) in SUITES {
        for dialect in Dialect::ALL.into_iter().filter(|d| *d != Dialect::None) {
            let adapter = Adapter::new();
            let mut count = Count::default();
            for line in text.lines() {
                let mut group: Value = serde_json::from_str(line).unwrap();
                if is_read_otherwise(&group) {
                    continue;
                }
                if draft == "draft7" && group["schema"].is_object() {
                    group["schema"]["$schema"] = json!("http://json-schema.org/draft-07/schema#");
                }
                take(&adapter, &group, dialect, &mut count);
            }
            let refused: usize = count.refused.values().sum();
            writeln!(
                report,
                "{draft} {}: whole {}, narrowed with a note {}, refused {refused} {:?}, schema not usable {}",
                dialect.as_str(), count.whole, count.narrowed, count.refused, count.unusable
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(report);
}

fn take(shared: &Adapter, group: &Value, dialect: Dialect, count: &mut Count) {
    let name = format!(
        "{} {}: {}",
        dialect.as_str(),
        group["file"],
        group["description"]
    );
    let adapted = match shared.adapt(&demand(group["schema"].clone()), native(dialect)) {
        Ok(adapted) => adapted,
        Err(AdaptError::Schema(_)) => {
            count.unusable += 1;
            return;
        }
        Err(AdaptError::Refused(refusal)) => {
            let kind = match &refusal.reasons[0].1 {
                Reason::Recursive { .. } => "recursive",
                Reason::Inexpressible { what, .. } => what,
                Reason::TooLarge { .. } => "too large",
                other => panic!("{name}: {other}"),
            };
            *count.refused.entry(kind).or_default() += 1;
            return;
        }
    };
    let schema = shared
        .rewrite(&group["schema"], dialect, false)
        .unwrap()
        .schema
        .clone();
    let wrapped = !group["schema"].is_boolean()
        && schema["properties"].get("value").is_some()
        && group["schema"].pointer("/properties/value").is_none();
    let mut narrowed = false;
    for test in group["tests"].as_array().unwrap() {
        let data = &test["data"];
        let asked = if wrapped {
            json!({"value": data})
        } else {
            data.clone()
        };
        if test["valid"] == false {
            for text in [data.to_string(), asked.to_string()] {
                assert!(adapted.back.read(said(&text)).is_err(), "{name}: {test}");
            }
            continue;
        }
        let Some(answer) = forward(&schema, &schema, &asked) else {
            narrowed = true;
            continue;
        };
        let read = adapted.back.read(said(&answer.to_string()));
        let value = read.unwrap_or_else(|e| panic!("{name}: {test}: {e}")).value;
        assert_eq!(value.as_ref(), Some(data), "{name}: {test} as {answer}");
    }
    if narrowed {
        let noted = adapted
            .losses
            .iter()
            .any(|l| matches!(l.treatment, Treatment::Narrowed | Treatment::Closed));
        assert!(noted, "{name}: narrower without a note: {schema}");
        count.narrowed += 1;
    } else {
        count.whole += 1;
    }
}
