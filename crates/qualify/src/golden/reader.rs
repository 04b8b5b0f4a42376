//! From a line to an item.

use super::entries::Entries;
use super::item::{Item, WeightedScorer};
use super::keys::{kind, meant};
use super::{Keys, brief, request};
use crate::scorers::{Expected, Scorer};
use evenkeel_core::ToolChoice;
use evenkeel_schema_adapter::Adapter;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// Most scorers of one item.
const MOST_SCORERS: usize = 32;

/// Short forms of a single scorer, by the names of `check`.
const CHECKS: [(&str, &str); 3] = [
    ("fields", "fields"),
    ("number", "number"),
    ("tool_call", "tool_call"),
];

/// What the items of a dataset share.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// Compiled schemas.
    adapter: Adapter,
    /// Where the dataset lies: external commands are looked for and run there.
    folder: PathBuf,
}

impl Surroundings {
    pub(super) fn new(folder: PathBuf) -> Self {
        let adapter = Adapter::new();
        Self { adapter, folder }
    }
}

/// A line that is none.
pub(super) struct Unread {
    pub(super) id: Option<String>,
    pub(super) faults: Vec<String>,
}

/// Reads lines.
pub(super) struct ItemReader<'s> {
    surroundings: &'s Surroundings,
}

impl<'s> ItemReader<'s> {
    pub(super) fn new(surroundings: &'s Surroundings) -> Self {
        Self { surroundings }
    }

    /// Reads one line.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) fn read(&self, line: &[u8], number: usize, index: usize) -> Result<Item, Unread> {
        let mut faults = Vec::new();
        let entries = Entries::read(line).map_err(|what| Unread {
            id: None,
            faults: vec![what],
        })?;
        for key in &entries.repeated {
            faults.push(format!("has the key `{}` twice", brief(key)));
        }
        let mut keys = Keys::new(entries.map, "", &mut faults);
        let id = id(&mut keys);
        let role = keys.text("role").map(Arc::from);
        let tags = tags(&mut keys);
        let expected = keys.value("expected");
        let question = request::read(&mut keys, &self.surroundings.adapter);
        let written = written_scorers(&mut keys);
        keys.finish();
        let expected_of = Expected {
            value: expected.as_ref(),
            tools: question.as_ref().map(|q| q.request.tools.as_slice()),
            schema: question.as_ref().and_then(|q| q.form.schema()),
            folder: &self.surroundings.folder,
            adapter: &self.surroundings.adapter,
        };
        let scorers: Vec<WeightedScorer> = written
            .into_iter()
            .filter_map(|(map, place)| weighted(map, &place, &expected_of, &mut faults))
            .collect();
        let (true, Some(id), Some(mut question)) = (faults.is_empty(), id.clone(), question) else {
            return Err(Unread { id, faults });
        };
        if !question.chooses && scorers.iter().any(|s| s.scorer.wants_a_call()) {
            question.request.tool_choice = Some(ToolChoice::Required);
            question.form.must_call();
        }
        Ok(Item {
            line: number,
            index,
            id: id.into(),
            role,
            request: question.request,
            expected,
            scorers,
            tags,
            form: question.form,
        })
    }
}

fn id(keys: &mut Keys<'_>) -> Option<String> {
    if !keys.has("id") {
        keys.fault("has no `id`");
    }
    keys.text("id")
}

/// Each tag once, in the order written.
fn tags(keys: &mut Keys<'_>) -> Arc<[String]> {
    let mut tags: Vec<String> = Vec::new();
    for tag in keys.texts("tags").unwrap_or_default() {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags.into()
}

/// The scorers as they are written, each with its place in the line.
fn written_scorers(keys: &mut Keys<'_>) -> Vec<(Map<String, Value>, String)> {
    if keys.has("check") && keys.has("scorers") {
        keys.fault("has `check` and `scorers`: `check` is short for a single scorer");
    }
    let names = CHECKS.map(|(name, kind)| (name, kind));
    let has_neither = !keys.has("check") && !keys.has("scorers");
    if let Some(kind) = keys.word("check", &names) {
        keys.value("scorers");
        let map = Map::from_iter([("kind".to_owned(), Value::from(kind))]);
        return vec![(map, String::new())];
    }
    let list = keys.array("scorers");
    match &list {
        None if has_neither => {
            keys.fault("says nothing of how to score it: `check` or `scorers` is needed");
        }
        Some(list) if list.is_empty() => keys.fault_of("scorers", "must not be empty"),
        Some(list) if list.len() > MOST_SCORERS => {
            keys.fault_of("scorers", &format!("has more than {MOST_SCORERS} scorers"));
            return Vec::new();
        }
        _ => {}
    }
    let mut written = Vec::new();
    for (i, value) in list.unwrap_or_default().into_iter().enumerate() {
        let place = format!("scorers[{i}]");
        match value {
            Value::Object(map) => written.push((map, place)),
            other => keys.fault(format!("`{place}` must be an object, got {}", kind(&other))),
        }
    }
    written
}

fn weighted(
    map: Map<String, Value>,
    place: &str,
    expected: &Expected<'_>,
    faults: &mut Vec<String>,
) -> Option<WeightedScorer> {
    let mut keys = Keys::new(map, place, faults);
    let has_weight = keys.has("weight");
    let weight = keys.number("weight", "a finite number above 0", |weight| weight > 0.0);
    let weight = if has_weight { weight } else { Some(1.0) };
    if !keys.has("kind") {
        keys.fault(format!(
            "has no `kind`; known are {}",
            Scorer::KINDS.join(", ")
        ));
        return None;
    }
    let kind = keys.text("kind")?;
    if !Scorer::KINDS.contains(&kind.as_str()) {
        let meant = meant(&kind, &Scorer::KINDS);
        keys.fault_of("kind", &format!("is `{}`{meant}", brief(&kind)));
        return None;
    }
    let scorer = Scorer::read(&kind, &mut keys, expected);
    keys.finish();
    Some(WeightedScorer {
        weight: weight?,
        scorer: scorer?,
    })
}
