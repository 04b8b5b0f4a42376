//! What a run was made of: whoever has it, and the files it names, can make it again.

use super::RunError;
use super::plan::Plan;
use crate::hashes::prompt_hash;
use crate::outcome::Outcome;
use evenkeel::Settings;
use evenkeel_core::ModelId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// The form of the manifest and of the journal beside it.
const FORMAT: u32 = 1;

/// Snapshots and fingerprints of a model that are kept: a provider that names each
/// answer anew must not grow the file.
const MOST_SEEN: usize = 32;

/// What a run was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u32,
    /// Whether everything has been asked that there was to ask.
    is_finished: bool,
    /// When the run began, RFC 3339.
    pub begun: String,
    /// SHA-256 of the configuration's files, prompts included.
    pub config_sha256: String,
    /// Where the dataset lay.
    pub dataset_path: String,
    /// What decides about what is measured: with other values it is another run.
    made_of: Map<String, Value>,
    /// Who answered, by what they say of themselves.
    seen: BTreeMap<String, Seen>,
}

/// What a model said it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Names of the snapshots that answered.
    pub snapshots: BTreeSet<String>,
    /// `system_fingerprint`s that came with answers.
    pub fingerprints: BTreeSet<String>,
}

impl Manifest {
    /// The manifest of a run that begins at `begun`.
    pub(crate) fn of(plan: &Plan, settings: &Settings, begun: jiff::Timestamp) -> Self {
        Self {
            format: FORMAT,
            is_finished: false,
            begun: begun.to_string(),
            config_sha256: settings.hash().to_owned(),
            dataset_path: plan.golden.path().display().to_string(),
            made_of: made_of(plan, settings),
            seen: BTreeMap::new(),
        }
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// Where it cannot be read, or is none of this version's.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let text = fs::read(path).map_err(|source| RunError::read(path, source))?;
        let wrong = |what: String| RunError::Manifest {
            path: path.to_owned(),
            what,
        };
        let value: Value = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
        match value.get("format").and_then(Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(other) => return Err(wrong(format!("format is {other}, expected {FORMAT}"))),
            None => return Err(wrong("format is missing".to_owned())),
        }
        serde_json::from_value(value).map_err(|e| wrong(e.to_string()))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), RunError> {
        let mut text = serde_json::to_vec_pretty(self).expect("its keys are text");
        text.push(b'\n');
        replace(path, &text).map_err(|source| RunError::write(path, source))
    }

    /// Whether everything has been asked that there was to ask.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Who answered, by model.
    pub fn seen(&self) -> &BTreeMap<String, Seen> {
        &self.seen
    }

    /// What decides about what is measured, by key.
    pub fn made_of(&self) -> &Map<String, Value> {
        &self.made_of
    }

    /// Notes who says it answered.
    pub(crate) fn note(&mut self, outcome: &Outcome) {
        if outcome.snapshot.is_none() && outcome.fingerprint.is_none() {
            return;
        }
        let model = outcome.candidate.as_str();
        if !self.seen.contains_key(model) {
            self.seen.insert(model.to_owned(), Seen::default());
        }
        let Some(seen) = self.seen.get_mut(model) else {
            return;
        };
        for (known, said) in [
            (&mut seen.snapshots, &outcome.snapshot),
            (&mut seen.fingerprints, &outcome.fingerprint),
        ] {
            if let Some(said) = said.as_deref()
                && known.len() < MOST_SEEN
                && !known.contains(said)
            {
                known.insert(said.to_owned());
            }
        }
    }

    /// What makes `other` another run, each with both values; empty for the same.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let keys: BTreeSet<&String> = self.made_of.keys().chain(other.made_of.keys()).collect();
        let shown = |manifest: &Self, key: &String| {
            let value = manifest.made_of.get(key);
            value.map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
        let differing = keys.into_iter().filter_map(|key| {
            let (was, is) = (shown(self, key), shown(other, key));
            (was != is).then(|| format!("{key} was {was}, is {is}"))
        });
        differing.collect()
    }
}

fn made_of(plan: &Plan, settings: &Settings) -> Map<String, Value> {
    let options = &plan.options;
    let mut made_of = Map::new();
    let mut put = |key: &str, value: Value| {
        made_of.insert(key.to_owned(), value);
    };
    put("evenkeel", json!(env!("CARGO_PKG_VERSION")));
    put("role", json!(plan.role));
    put("primary", json!(plan.primary.as_str()));
    put("dataset_sha256", json!(plan.golden.sha256()));
    put("items", json!(plan.items));
    put("tools_sha256", json!(plan.golden.tools_hash()));
    put("load", options.load.written());
    put("streamed", json!(options.is_streamed));
    put("repeat", json!(options.repeat));
    put("seed", json!(options.seed));
    put("patience_ms", json!(millis(options.patience)));
    if let Some(role) = settings.config().roles.get(&plan.role) {
        let clocks = role.policy.clocks;
        for (key, clock) in [
            ("connect_ms", clocks.connect),
            ("first_token_ms", clocks.first_token),
            ("stall_ms", clocks.stall),
            ("deadline_ms", clocks.deadline),
        ] {
            put(key, json!(millis(clock)));
        }
        put("validators", json!(role.policy.validators.len()));
        for model in plan.models() {
            let prompt = prompt_hash(settings.prompts(), &plan.role, &role.policy, model);
            put(
                &format!("model {model}"),
                described(settings, model, &prompt),
            );
        }
    }
    made_of
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What is known of a model that decides about its answers and their cost.
fn described(settings: &Settings, model: &ModelId, prompt: &str) -> Value {
    let config = settings.config();
    let provider = config.providers.get(model.provider());
    let entry = config.models.get(model);
    json!({
        "prompt_sha256": prompt,
        "dialect": provider.map(|provider| provider.dialect.as_str()),
        "server": provider.and_then(|provider| provider.server),
        "input_usd_per_mtok": entry.and_then(|entry| entry.input_usd_per_mtok),
        "output_usd_per_mtok": entry.and_then(|entry| entry.output_usd_per_mtok),
        "max_concurrency": entry.map(|entry| entry.max_concurrency),
    })
}

/// Puts `text` in the place of the file, so that a reader sees the old or the new one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = File::create(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}
