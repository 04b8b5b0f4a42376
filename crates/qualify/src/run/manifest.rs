//! What a run was made of: whoever has it, and the files it names, can make it again.

use super::RunError;
use super::made_of::made_of;
use super::plan::Plan;
use crate::outcome::Outcome;
use evenkeel::Settings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

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

/// Puts `text` in the place of the file, so that a reader sees the old or the new one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = File::create(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}
