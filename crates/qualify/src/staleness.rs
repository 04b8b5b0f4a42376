//! Whether a roster still says what was measured, without asking any model.

use crate::golden::{Golden, GoldenError};
use crate::hashes::prompt_hash;
use evenkeel::Settings;
use evenkeel_core::ModelId;
use evenkeel_roster::{Hashes, RoleConfig, RungConfig};
use jiff::civil::Date;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::PathBuf;

/// A rung whose score is not known to hold any more, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The role.
    pub role: String,
    /// Its place in the roster, 0 = primary.
    pub rung: usize,
    /// The model.
    pub model: ModelId,
    /// What is not as it was measured.
    pub change: Change,
}

/// What is not as it was when a rung was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The role gives the model another prompt.
    Prompt,
    /// The golden dataset offers other tools or schemas.
    Tools,
    /// The golden dataset is another one.
    Dataset,
    /// The measurement is older than `requalify_after_days`.
    Age {
        /// The day of the measurement.
        qualified_at: Date,
        /// Days since.
        days: i32,
        /// `requalify_after_days`.
        most: u32,
    },
    /// The day of the measurement is still to come: its age cannot be judged.
    Future {
        /// The day of the measurement.
        qualified_at: Date,
    },
    /// The provider serves another build.
    Snapshot {
        /// What was measured.
        measured: String,
        /// What is served.
        served: String,
        /// Who says so.
        by: SnapshotKnownBy,
    },
}

/// From where it is known which build a provider serves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotKnownBy {
    /// `snapshot` of the model registry.
    Registry,
    /// A later measurement of the same model.
    Measurement {
        /// For which role.
        role: String,
        /// When.
        on: Date,
    },
}

impl Change {
    /// The name used in files.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Tools => "tools",
            Self::Dataset => "dataset",
            Self::Age { .. } | Self::Future { .. } => "age",
            Self::Snapshot { .. } => "snapshot",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prompt => f.write_str("its prompt is another one than was measured"),
            Self::Tools => {
                f.write_str("tools or schemas of the golden dataset are others than were measured")
            }
            Self::Dataset => f.write_str("the golden dataset is another one than was measured on"),
            Self::Age {
                qualified_at,
                days,
                most,
            } => write!(
                f,
                "it was measured on {qualified_at}, {days} days ago; requalify_after_days = {most}"
            ),
            Self::Future { qualified_at } => write!(
                f,
                "it was measured on {qualified_at}, which is still to come"
            ),
            Self::Snapshot {
                measured,
                served,
                by,
            } => match by {
                SnapshotKnownBy::Registry => write!(
                    f,
                    "`{measured}` was measured, and the model registry says that `{served}` is served"
                ),
                SnapshotKnownBy::Measurement { role, on } => write!(
                    f,
                    "`{measured}` was measured, and for role `{role}` it was `{served}` on {on}"
                ),
            },
        }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            role,
            model,
            change,
            ..
        } = self;
        write!(f, "role `{role}`: `{model}` is stale: {change}")
    }
}

/// A rung of which no file says what its score was measured on, or when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified {
    /// The role.
    pub role: String,
    /// Its place in the roster, 0 = primary.
    pub rung: usize,
    /// The model.
    pub model: ModelId,
    /// Whether it is only the day (`qualified_at`) that is not said: nobody can tell how
    /// old its score is.
    pub is_undated: bool,
    /// Whether it has a score at all.
    pub has_score: bool,
    /// Whether its role lets pass what was never measured (`allow_unqualified`).
    pub is_allowed: bool,
}

impl Unverified {
    /// Whether it was never measured, in a role that asks for it.
    pub const fn is_missing(&self) -> bool {
        !self.has_score && !self.is_allowed && !self.is_undated
    }
}

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, model, .. } = self;
        let what = if self.is_undated {
            "is unverified: the roster does not say when its score was measured (qualified_at)"
        } else if self.has_score {
            "is unverified: the roster does not say what its score was measured on"
        } else if self.is_allowed {
            "was never measured, which the role allows (allow_unqualified)"
        } else {
            "was never measured"
        };
        write!(f, "role `{role}`: `{model}` {what}")
    }
}

/// A golden dataset that a policy names and that cannot be compared with anything.
#[derive(Debug)]
pub struct UnreadableDataset {
    /// The roles that name it.
    pub roles: Vec<String>,
    /// Where it should be.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: GoldenError,
}

impl fmt::Display for UnreadableDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles = self.roles.join("`, `");
        write!(f, "role `{roles}`: {}", self.error)
    }
}

/// What a roster says that is not known to hold any more.
#[derive(Debug, Default)]
pub struct Staleness {
    /// The rungs, in the order of roles and ranks.
    pub stale: Vec<Stale>,
    /// Datasets that could not be read.
    pub unreadable: Vec<UnreadableDataset>,
    /// Rungs of which nobody can tell, in the order of roles and ranks.
    pub unverified: Vec<Unverified>,
}

/// The golden dataset of every role, as its policy names it: what
/// [`Staleness::with_datasets`] compares with.
pub fn golden_datasets(settings: &Settings) -> BTreeMap<String, Option<PathBuf>> {
    let roles = settings.config().roles.values();
    roles
        .map(|role| {
            let named = role.policy.golden_dataset.as_ref();
            let path = named.map(|path| settings.folder().join(path));
            (role.name.clone(), path)
        })
        .collect()
}

impl Staleness {
    /// Compares the roster with prompts, the age of each measurement as of `today`, and
    /// what is known of the builds that providers serve. Reads no file.
    ///
    /// Fallbacks whose measurement is not told (`hashes`) are not stale but unverified, and
    /// said to be so when the configuration is read. So are rungs whose day is not told.
    pub fn of(settings: &Settings, today: Date) -> Self {
        Self::of_roles(settings, today, &|_| true)
    }

    fn of_roles(settings: &Settings, today: Date, is_asked: &dyn Fn(&str) -> bool) -> Self {
        let mut found = Self::default();
        let latest = latest_snapshots(settings);
        for_each_measured(settings, |place, hashes| {
            let role = &place.role.policy;
            if !is_asked(&place.role.name) {
                return;
            }
            let now = prompt_hash(settings.prompts(), &place.role.name, role, place.model());
            if now != hashes.prompt {
                found.stale.push(place.stale(Change::Prompt));
            }
            found.stale.extend(place.age(today));
            found
                .stale
                .extend(place.snapshot(settings, hashes, &latest));
        });
        let roles = settings.config().roles.values();
        for role in roles.filter(|role| is_asked(&role.name)) {
            found.unverified.extend(unverified(role));
        }
        found
    }

    /// As [`of`](Self::of), and compares with the golden datasets that the roles' policies
    /// name, each of which is read through once. Blocks while it reads.
    pub fn with_datasets(settings: &Settings, today: Date) -> Self {
        Self::against(settings, today, &golden_datasets(settings))
    }

    /// As [`with_datasets`](Self::with_datasets), of the roles in `datasets` alone, each
    /// with the dataset that stands there.
    pub fn against(
        settings: &Settings,
        today: Date,
        datasets: &BTreeMap<String, Option<PathBuf>>,
    ) -> Self {
        let mut found = Self::of_roles(settings, today, &|role| datasets.contains_key(role));
        let mut read: BTreeMap<&PathBuf, Option<Golden>> = BTreeMap::new();
        for (role, path) in datasets {
            let Some(path) = path else { continue };
            let known = found.unreadable.iter_mut().find(|u| u.path == *path);
            if let Some(known) = known {
                known.roles.push(role.clone());
            } else if let Entry::Vacant(place) = read.entry(path) {
                let opened = Golden::open(path).map_err(|error| {
                    found.unreadable.push(UnreadableDataset {
                        roles: vec![role.clone()],
                        path: path.clone(),
                        error,
                    });
                });
                place.insert(opened.ok());
            }
        }
        for_each_measured(settings, |place, hashes| {
            let path = datasets.get(&place.role.name).and_then(Option::as_ref);
            let golden = path.and_then(|path| read.get(path)?.as_ref());
            let Some(golden) = golden else { return };
            if hashes.dataset != golden.sha256() {
                found.stale.push(place.stale(Change::Dataset));
            }
            if hashes.tools != golden.tools_hash() {
                found.stale.push(place.stale(Change::Tools));
            }
        });
        found
            .stale
            .sort_by(|a, b| (&a.role, a.rung).cmp(&(&b.role, b.rung)));
        found
    }

    /// Whether everything that could be compared is as it was measured.
    pub fn is_fresh(&self) -> bool {
        self.stale.is_empty() && self.unreadable.is_empty()
    }
}

/// A rung of a role.
#[derive(Clone, Copy)]
struct Place<'c> {
    role: &'c RoleConfig,
    index: usize,
    rung: &'c RungConfig,
}

/// Builds that were served last: per model the day, the role and the snapshot.
type Latest<'c> = BTreeMap<&'c ModelId, (Date, &'c str, &'c str)>;

fn for_each_measured<'c>(settings: &'c Settings, mut each: impl FnMut(Place<'c>, &'c Hashes)) {
    for role in settings.config().roles.values() {
        for (index, rung) in role.rungs.iter().enumerate() {
            if let Some(hashes) = &rung.measured.hashes {
                each(Place { role, index, rung }, hashes);
            }
        }
    }
}

/// Of the primary nothing has to be known, it is what the others are measured against; but
/// what is said of it has to have a day.
fn unverified(role: &RoleConfig) -> impl Iterator<Item = Unverified> {
    let is_undated = |rung: &RungConfig| {
        let measured = &rung.measured;
        measured.hashes.is_some() && measured.qualified_at.is_none()
    };
    let rungs = role.rungs.iter().enumerate();
    let unknown = rungs.filter(move |(index, rung)| {
        (*index > 0 && rung.measured.hashes.is_none()) || is_undated(rung)
    });
    unknown.map(move |(index, rung)| Unverified {
        role: role.name.clone(),
        rung: index,
        model: rung.model.clone(),
        is_undated: is_undated(rung),
        has_score: rung.quality_score.is_some(),
        is_allowed: role.policy.allow_unqualified,
    })
}

fn latest_snapshots(settings: &Settings) -> Latest<'_> {
    let mut latest = Latest::new();
    for_each_measured(settings, |place, hashes| {
        let Some(day) = place.rung.measured.qualified_at else {
            return;
        };
        if hashes.snapshot.is_empty() {
            return;
        }
        let found = (day, place.role.name.as_str(), hashes.snapshot.as_str());
        let known = latest.entry(place.model()).or_insert(found);
        if known.0 < day {
            *known = found;
        }
    });
    latest
}

impl<'c> Place<'c> {
    fn model(&self) -> &'c ModelId {
        &self.rung.model
    }

    fn stale(&self, change: Change) -> Stale {
        Stale {
            role: self.role.name.clone(),
            rung: self.index,
            model: self.rung.model.clone(),
            change,
        }
    }

    fn age(&self, today: Date) -> Option<Stale> {
        let qualified_at = self.rung.measured.qualified_at?;
        let most = self.role.policy.requalify_after_days;
        let days = (today - qualified_at).get_days();
        if days < 0 {
            return Some(self.stale(Change::Future { qualified_at }));
        }
        let is_old = u32::try_from(days).is_ok_and(|days| days > most);
        is_old.then(|| {
            self.stale(Change::Age {
                qualified_at,
                days,
                most,
            })
        })
    }

    fn snapshot(&self, settings: &Settings, hashes: &Hashes, latest: &Latest<'_>) -> Option<Stale> {
        let measured = &hashes.snapshot;
        if measured.is_empty() {
            return None;
        }
        let other = |served: &str, by| {
            (served != measured).then(|| {
                self.stale(Change::Snapshot {
                    measured: measured.clone(),
                    served: served.to_owned(),
                    by,
                })
            })
        };
        let registered = settings.config().models.get(self.model());
        if let Some(served) = registered.and_then(|model| model.snapshot.as_deref()) {
            return other(served, SnapshotKnownBy::Registry);
        }
        let (on, role, served) = *latest.get(self.model())?;
        let own = self.rung.measured.qualified_at;
        if own.is_none_or(|own| own >= on) {
            return None;
        }
        let role = role.to_owned();
        other(served, SnapshotKnownBy::Measurement { role, on })
    }
}
