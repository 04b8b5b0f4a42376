//! Which models end their life, who uses them, and what takes over.

use evenkeel_core::{ModelId, Value};
use evenkeel_roster::{
    Config, EolKind, EolState, ModelConfig, RegisteredModel, RoleConfig, Severity,
};
use jiff::civil::Date;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;

/// What a provider says of one of its models, as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderWord {
    /// It is served.
    Served {
        /// Its last day; none where the provider names none.
        last_day: Option<Date>,
        /// Whether the provider calls it outdated.
        is_deprecated: bool,
    },
    /// It is served no more, or never was.
    Gone,
    /// The provider could not be asked, or tells nothing of its models; why.
    Silent(String),
}

/// What is known of the end of one model's life.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelLife {
    /// The model.
    pub model: ModelId,
    /// Where it stands in its life by the registry.
    pub state: EolState,
    /// Its last day by the registry; none where none is known.
    pub eol_date: Option<Date>,
    /// What that date means.
    pub eol_kind: EolKind,
    /// Whether the registry has it.
    pub is_registered: bool,
    /// What is to take its place, and how that stands in its own life; none where the
    /// registry has no such model.
    pub replacement: Option<(ModelId, Option<EolState>)>,
    /// How far the move is, as the registry says it.
    pub migration_status: Option<String>,
    /// The roles whose rosters name it, or that shadow it.
    pub agents_using: Vec<String>,
    /// What its provider says, where it was asked.
    pub provider: Option<ProviderWord>,
    /// What someone should look at, and how urgent it is.
    pub findings: Vec<(Severity, String)>,
}

/// What is known of the end of life of every model that a roster or the registry names.
#[derive(Debug, Clone, PartialEq)]
pub struct EolReport {
    /// The day it is judged by.
    pub as_of: Date,
    /// The models, by name.
    pub models: Vec<ModelLife>,
}

impl EolReport {
    /// What the files say, as of `today`.
    pub fn of(config: &Config, today: Date) -> Self {
        let mut models: BTreeMap<&ModelId, &ModelConfig> = BTreeMap::new();
        models.extend(config.models.iter());
        for (id, registered) in &config.registry {
            models.entry(id).or_insert(&registered.model);
        }
        let models = models.into_values();
        Self {
            as_of: today,
            models: models.map(|m| ModelLife::of(m, config, today)).collect(),
        }
    }

    /// Adds what providers say, and compares it with the files.
    pub fn compare(&mut self, words: impl IntoIterator<Item = (ModelId, ProviderWord)>) {
        for (model, word) in words {
            let life = self.models.iter_mut().find(|life| life.model == model);
            if let Some(life) = life {
                life.hear(word, self.as_of);
            }
        }
    }

    /// The most urgent finding; `None`: nothing to look at.
    pub fn severity(&self) -> Option<Severity> {
        let findings = self.models.iter().flat_map(|life| &life.findings);
        // An error comes before a warning in the order of severities.
        findings.map(|(severity, _)| *severity).min()
    }

    /// The report for machines: `as_of`, `status` (`ok`, `warning`, `error`) and
    /// `models`, each with `model`, `state` (`current`, `ending`, `overdue`, `past`,
    /// `unknown`), `status`, `eol_date`, `eol_kind`, `days_left`, `replacement`,
    /// `migration_status`, `agents_using`, `provider` and `findings`. What is not known
    /// is null.
    pub fn to_json(&self) -> Value {
        let models = self.models.iter().map(|life| life.to_json(self.as_of));
        json!({
            "as_of": self.as_of.to_string(),
            "status": status(self.severity()),
            "models": models.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for EolReport {
    /// A line for each finding, the most urgent of a model first, and one that counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = [0, 0];
        for (severity, text) in self.models.iter().flat_map(|life| &life.findings) {
            counts[usize::from(*severity == Severity::Warning)] += 1;
            writeln!(f, "{severity}: {text}")?;
        }
        let [errors, warnings] = counts;
        write!(
            f,
            "{} models as of {}: {errors} at their end, {warnings} to look at",
            self.models.len(),
            self.as_of
        )
    }
}

fn status(severity: Option<Severity>) -> &'static str {
    match severity {
        None => "ok",
        Some(Severity::Warning) => "warning",
        Some(Severity::Error) => "error",
    }
}

impl ModelLife {
    /// What the files say of `model`.
    pub fn of(model: &ModelConfig, config: &Config, today: Date) -> Self {
        let registered = config.registry.get(&model.id);
        let mut life = Self {
            model: model.id.clone(),
            state: model.eol_state(today),
            eol_date: model.eol_date,
            eol_kind: model.eol_kind,
            is_registered: registered.is_some(),
            replacement: replacement(model, config, today),
            migration_status: registered.and_then(|r| r.migration_status.clone()),
            agents_using: agents_using(&model.id, config),
            provider: None,
            findings: Vec::new(),
        };
        life.judge();
        life.judge_users(registered);
        life
    }

    fn is_used(&self) -> bool {
        !self.agents_using.is_empty()
    }

    fn judge(&mut self) {
        // A model that nobody uses may end whenever it likes.
        if !self.is_used() {
            return;
        }
        let id = &self.model;
        let date = self.eol_date.map_or_else(String::new, |d| d.to_string());
        let (severity, what) = match self.state {
            EolState::Current => return,
            EolState::Ending { days: 0 } => (
                Severity::Warning,
                format!("`{id}` ends its life today, {date}"),
            ),
            EolState::Ending { days } => (
                Severity::Warning,
                format!("`{id}` ends its life on {date}, in {days} days"),
            ),
            EolState::Overdue => (
                Severity::Warning,
                format!("`{id}` may go any day: it was promised until {date}"),
            ),
            EolState::Past => (
                Severity::Error,
                format!("`{id}` is past its end of life, {date}"),
            ),
        };
        let told = format!("{what}; {}", self.way_out());
        self.findings.push((severity, told));
    }

    /// Who is concerned, and what is to be done.
    fn way_out(&self) -> String {
        let users = if self.is_used() {
            format!("used by {}", self.agents_using.join(", "))
        } else {
            "no role uses it".to_owned()
        };
        let replacement = match &self.replacement {
            None => "no replacement is named".to_owned(),
            Some((model, None)) => {
                format!("its replacement `{model}` is not in the model registry")
            }
            Some((model, Some(EolState::Past))) => {
                format!("its replacement `{model}` is past its own end of life")
            }
            Some((model, Some(EolState::Ending { days }))) => {
                format!("its replacement is `{model}`, which ends itself in {days} days")
            }
            Some((model, Some(_))) => format!("its replacement is `{model}`"),
        };
        let status = self.migration_status.as_deref();
        let migration = status.map_or_else(String::new, |s| format!("; migration: {s}"));
        format!("{users}; {replacement}{migration}")
    }

    /// Whether the registry knows who uses it.
    fn judge_users(&mut self, registered: Option<&RegisteredModel>) {
        let Some(registered) = registered else {
            let id = &self.model;
            let text = format!("`{id}` is not in the model registry: its end of life is unknown");
            self.findings.push((Severity::Warning, text));
            return;
        };
        let Some(said) = &registered.agents_using else {
            return;
        };
        let only = |of: &[String], not: &[String]| -> Vec<String> {
            of.iter()
                .filter(|role| !not.contains(role))
                .cloned()
                .collect()
        };
        let missing = only(&self.agents_using, said);
        let extra = only(said, &self.agents_using);
        for (roles, what) in [
            (missing, "does not name"),
            (extra, "names, and no roster does,"),
        ] {
            if !roles.is_empty() {
                let text = format!("`{}`: agents_using {what} {}", self.model, roles.join(", "));
                self.findings.push((Severity::Warning, text));
            }
        }
    }

    /// Adds what its provider says, and compares it with the registry.
    pub fn hear(&mut self, word: ProviderWord, today: Date) {
        let id = &self.model;
        let finding = match &word {
            ProviderWord::Silent(why) if self.is_used() => Some((
                Severity::Warning,
                format!("`{id}`: its provider says nothing of it: {why}"),
            )),
            ProviderWord::Gone => {
                let text = format!(
                    "`{id}` is gone: its provider serves it no more; {}",
                    self.way_out()
                );
                Some((self.severity_of_end(), text))
            }
            ProviderWord::Served {
                last_day: Some(day),
                ..
            } => self.hear_day(*day, today),
            ProviderWord::Served {
                last_day: None,
                is_deprecated: true,
            } if self.eol_date.is_none() => {
                let text = format!(
                    "`{id}`: its provider calls it deprecated and names no day; {}",
                    self.way_out()
                );
                Some((Severity::Warning, text))
            }
            ProviderWord::Silent(_) | ProviderWord::Served { .. } => None,
        };
        self.findings.extend(finding);
        self.provider = Some(word);
    }

    /// A used model that is at its end is an error, any other one is to be looked at.
    fn severity_of_end(&self) -> Severity {
        if self.is_used() {
            Severity::Error
        } else {
            Severity::Warning
        }
    }

    /// What its provider calls its last day, where the registry does not say the same.
    fn hear_day(&self, day: Date, today: Date) -> Option<(Severity, String)> {
        let left = (day - today).get_days();
        let is_over = left < 0;
        // The registry's own day is told already, unless it is only the earliest.
        let is_told = !is_over || self.state == EolState::Past;
        let says = match self.eol_date {
            Some(own) if own == day && is_told => return None,
            Some(own) if own == day => "the model registry calls that the earliest".to_owned(),
            Some(own) => format!("the model registry says {own}"),
            None => "the model registry has no eol_date".to_owned(),
        };
        let (severity, what) = match left {
            ..0 => (
                self.severity_of_end(),
                format!(
                    "that its last day was {day} ({} days ago), and serves it still",
                    -left
                ),
            ),
            0 => (Severity::Warning, format!("that it ends today, {day}")),
            _ => (
                Severity::Warning,
                format!("that it ends on {day} (in {left} days)"),
            ),
        };
        let text = format!(
            "`{}`: its provider says {what}; {says}; {}",
            self.model,
            self.way_out()
        );
        Some((severity, text))
    }

    /// The model's part of [`EolReport::to_json`].
    pub fn to_json(&self, today: Date) -> Value {
        let worst = self.findings.iter().map(|(severity, _)| *severity).min();
        let days = self.eol_date.map(|day| (day - today).get_days());
        let replacement = self
            .replacement
            .as_ref()
            .map(|(model, state)| json!({ "model": model.as_str(), "state": state.map(word) }));
        let provider = self.provider.as_ref().map(|said| match said {
            ProviderWord::Served {
                last_day,
                is_deprecated,
            } => json!({
                "served": true,
                "eol_date": last_day.map(|day| day.to_string()),
                "deprecated": is_deprecated,
            }),
            ProviderWord::Gone => json!({ "served": false }),
            ProviderWord::Silent(why) => json!({ "served": null, "why": why }),
        });
        let findings = self
            .findings
            .iter()
            .map(|(severity, text)| json!({ "severity": severity.to_string(), "message": text }));
        json!({
            "model": self.model.as_str(),
            "state": if self.eol_date.is_some() { word(self.state) } else { "unknown" },
            "status": status(worst),
            "eol_date": self.eol_date.map(|day| day.to_string()),
            "eol_kind": match self.eol_kind {
                EolKind::Fixed => "fixed",
                EolKind::Earliest => "earliest",
            },
            "days_left": days,
            "replacement": replacement,
            "migration_status": self.migration_status,
            "agents_using": self.agents_using,
            "provider": provider,
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}

const fn word(state: EolState) -> &'static str {
    match state {
        EolState::Current => "current",
        EolState::Ending { .. } => "ending",
        EolState::Overdue => "overdue",
        EolState::Past => "past",
    }
}

/// The model that is to take `model`'s place: of the same provider, unless the name is
/// that of a registered model as a whole.
fn replacement(
    model: &ModelConfig,
    config: &Config,
    today: Date,
) -> Option<(ModelId, Option<EolState>)> {
    let name = model.replacement.as_deref()?;
    let beside = ModelId::new(&format!("{}/{name}", model.id.provider()));
    let whole = ModelId::new(name);
    let known = |id: &ModelId| config.registry.get(id);
    let state = |found: &RegisteredModel| Some(found.model.eol_state(today));
    for id in [&beside, &whole].into_iter().flatten() {
        if let Some(found) = known(id) {
            return Some((id.clone(), state(found)));
        }
    }
    let provider = name.split_once('/').map(|(provider, _)| provider);
    let is_whole = provider.is_some_and(|name| config.providers.contains_key(name));
    let id = if is_whole { whole } else { beside };
    Some((id.ok()?, None))
}

/// The roles whose rosters name the model, or that shadow it.
fn agents_using(model: &ModelId, config: &Config) -> Vec<String> {
    let uses = |role: &&RoleConfig| {
        role.rungs.iter().any(|rung| rung.model == *model)
            || role.policy.shadow.model.as_ref() == Some(model)
    };
    let roles = config.roles.values().filter(uses);
    roles.map(|role| role.name.clone()).collect()
}
