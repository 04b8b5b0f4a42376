//! What series are labelled with. Every label that names something comes from the
//! catalogue or from a closed set in code, never from a caller, and each has a limit.

use super::catalogue::{Catalogue, RoleEntry};
use crate::value::cut;
use evenkeel_core::ModelId;
use opentelemetry::{KeyValue, StringValue};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub(super) const ROLE: &str = "role";
pub(super) const MODEL: &str = "model";
pub(super) const PROVIDER: &str = "provider";
pub(super) const PRIMARY: &str = "primary";
pub(super) const FALLBACK: &str = "fallback";
pub(super) const TASK_TYPE: &str = "task_type";
pub(super) const WORKFLOW: &str = "workflow";
pub(super) const ROUTE: &str = "route";
pub(super) const OUTCOME: &str = "outcome";
pub(super) const ERROR_TYPE: &str = "error_type";
pub(super) const REASON: &str = "reason";
pub(super) const RESULT: &str = "result";
pub(super) const TYPE: &str = "type";
pub(super) const KIND: &str = "kind";
pub(super) const STATE: &str = "state";
pub(super) const FROM: &str = "from";
pub(super) const TO: &str = "to";
pub(super) const DETECTOR: &str = "detector";
pub(super) const MEASURE: &str = "measure";
pub(super) const PERCENTILE: &str = "percentile";
pub(super) const SOURCE: &str = "source";
pub(super) const LEVEL: &str = "level";
pub(super) const VERDICT: &str = "verdict";
pub(super) const RESUMED: &str = "resumed";
pub(super) const SIGNAL: &str = "signal";
pub(super) const VERSION: &str = "version";
pub(super) const REVISION: &str = "revision";

/// Stands for what is not in the catalogue, or over a limit.
const OTHER: &str = "_other";
/// The same of models.
pub(super) const UNKNOWN: &str = "_unknown";

/// Most different names of each kind in the life of a process, those in place of the
/// rest not counted.
const ROLES: usize = 64;
const MODELS: usize = 64;
const PROVIDERS: usize = 16;
const TASK_TYPES: usize = 32;
const WORKFLOWS: usize = 64;

/// Longest name of a model as an answer reports it, bytes.
const LONGEST_REPORTED: usize = 128;

/// An attribute with a text.
pub(super) fn label(key: &'static str, value: impl Into<StringValue>) -> KeyValue {
    KeyValue::new(key, value.into())
}

/// The names that have been given a label since the process began. A name keeps its
/// place over a reload, since its series stay; so the limits hold for all
/// configurations together.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    roles: HashSet<Arc<str>>,
    models: HashSet<Arc<str>>,
    providers: HashSet<Arc<str>>,
    task_types: HashSet<Arc<str>>,
    workflows: HashSet<Arc<str>>,
}

/// `name`, if it has a place among `most` or there is one left.
fn place(taken: &mut HashSet<Arc<str>>, most: usize, name: &Arc<str>) -> Option<StringValue> {
    if !taken.contains(name) {
        if taken.len() >= most {
            return None;
        }
        taken.insert(name.clone());
    }
    Some(StringValue::from(name.clone()))
}

/// The labels of a catalogue, made once so that recording a value copies pointers.
#[derive(Debug, Default)]
pub(super) struct Labels {
    roles: HashMap<Arc<str>, RoleLabels>,
    models: HashMap<ModelId, ModelLabels>,
    providers: HashMap<Arc<str>, StringValue>,
    task_types: HashMap<Arc<str>, StringValue>,
    workflows: Vec<Arc<str>>,
}

#[derive(Debug)]
struct RoleLabels {
    name: StringValue,
    /// The id of its primary.
    primary: StringValue,
    /// The ids of the primaries of tasks with rosters of their own.
    task_primaries: HashMap<Arc<str>, StringValue>,
}

/// A model's labels.
#[derive(Debug, Clone)]
pub(super) struct ModelLabels {
    /// `provider/model`: the label where no provider stands beside it.
    pub(super) id: StringValue,
    /// The name at its provider: the label where one does.
    pub(super) name: StringValue,
    /// Its provider.
    pub(super) provider: StringValue,
}

impl Labels {
    pub(super) fn new(catalogue: &Catalogue, places: &Places) -> Self {
        let mut taken = places.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut labels = Self::default();
        for provider in &catalogue.providers {
            if let Some(label) = place(&mut taken.providers, PROVIDERS, provider) {
                labels.providers.insert(provider.clone(), label);
            }
        }
        for role in &catalogue.roles {
            for task in &role.task_types {
                if let Some(label) = place(&mut taken.task_types, TASK_TYPES, task) {
                    labels.task_types.insert(task.clone(), label);
                }
            }
        }
        for workflow in &catalogue.workflows {
            if place(&mut taken.workflows, WORKFLOWS, workflow).is_some() {
                labels.workflows.push(workflow.clone());
            }
        }
        // The longest name that fits is the one that is meant.
        labels.workflows.sort_by_key(|name| usize::MAX - name.len());
        for entry in &catalogue.roles {
            if let Some(label) = place(&mut taken.roles, ROLES, &entry.name) {
                labels
                    .roles
                    .insert(entry.name.clone(), RoleLabels::new(label));
            }
        }
        for model in &catalogue.models {
            let id: Arc<str> = Arc::from(model.id.as_str());
            if let Some(id) = place(&mut taken.models, MODELS, &id) {
                let model_labels = ModelLabels {
                    id,
                    name: Arc::<str>::from(model.id.model()).into(),
                    provider: labels.provider(model.id.provider()),
                };
                labels.models.insert(model.id.clone(), model_labels);
            }
        }
        for entry in &catalogue.roles {
            labels.name_primaries(entry);
        }
        labels
    }

    fn name_primaries(&mut self, entry: &RoleEntry) {
        let mut own = StringValue::from(UNKNOWN);
        let mut of_tasks = HashMap::new();
        for roster in &entry.rosters {
            let first = roster.rungs.first();
            let primary = first.map_or(UNKNOWN.into(), |rung| self.id(&rung.model));
            match &roster.task {
                Some(task) => {
                    of_tasks.insert(task.clone(), primary);
                }
                None => own = primary,
            }
        }
        if let Some(role) = self.roles.get_mut(&entry.name) {
            role.primary = own;
            role.task_primaries = of_tasks;
        }
    }

    pub(super) fn role(&self, name: &str) -> StringValue {
        let known = self.roles.get(name);
        known.map_or(OTHER.into(), |role| role.name.clone())
    }

    /// The id of the primary of a role, or of one of its tasks that has its own.
    pub(super) fn primary(&self, role: &str, task: Option<&str>) -> StringValue {
        let Some(role) = self.roles.get(role) else {
            return UNKNOWN.into();
        };
        let own = task.and_then(|task| role.task_primaries.get(task));
        own.unwrap_or(&role.primary).clone()
    }

    pub(super) fn provider(&self, name: &str) -> StringValue {
        self.providers.get(name).cloned().unwrap_or(OTHER.into())
    }

    pub(super) fn model(&self, id: &ModelId) -> ModelLabels {
        let known = self.models.get(id);
        known.cloned().unwrap_or_else(|| ModelLabels {
            id: UNKNOWN.into(),
            name: UNKNOWN.into(),
            provider: self.provider(id.provider()),
        })
    }

    /// Whether a model is in the catalogue, and has a place.
    pub(super) fn knows(&self, id: &ModelId) -> bool {
        self.models.contains_key(id)
    }

    /// A model's id.
    pub(super) fn id(&self, id: &ModelId) -> StringValue {
        let known = self.models.get(id);
        known.map_or(UNKNOWN.into(), |model| model.id.clone())
    }

    /// Empty where the request named none.
    pub(super) fn task_type(&self, name: Option<&str>) -> StringValue {
        match name {
            None => "".into(),
            Some(name) => self.task_types.get(name).cloned().unwrap_or(OTHER.into()),
        }
    }

    /// The workflow that a run of that id is one of.
    pub(super) fn workflow(&self, run: &str) -> StringValue {
        let is_of = |name: &Arc<str>| {
            run.strip_prefix(&**name).is_some_and(|rest| {
                let rest = rest.as_bytes();
                rest.is_empty() || (rest.len() > 1 && b"-_.:/#".contains(&rest[0]))
            })
        };
        let known = self.workflows.iter().find(|name| is_of(name));
        known.map_or(OTHER.into(), |name| name.clone().into())
    }
}

impl RoleLabels {
    fn new(name: StringValue) -> Self {
        Self {
            name,
            primary: UNKNOWN.into(),
            task_primaries: HashMap::new(),
        }
    }
}

/// Names that only an upstream knows: those of snapshots of models, as answers report
/// them. The first 64 have labels, of at most 128 bytes.
#[derive(Debug, Default)]
pub(super) struct ReportedModels(RwLock<HashSet<Arc<str>>>);

impl ReportedModels {
    pub(super) fn label(&self, name: &str) -> StringValue {
        let name = cut(name, LONGEST_REPORTED);
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = known.get(name) {
            return name.clone().into();
        }
        let is_full = known.len() >= MODELS;
        drop(known);
        if is_full {
            return UNKNOWN.into();
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        place(&mut known, MODELS, &Arc::from(name)).unwrap_or(UNKNOWN.into())
    }
}
