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
}

impl Staleness {
    /// Compares the roster with prompts, the age of each measurement as of `today`, and
    /// what is known of the builds that providers serve. Reads no file.
    ///
    /// Rungs whose measurement is not told (`hashes`) are passed over: they are not
    /// stale, they are unverified, and said to be so when the configuration is read.
    pub fn of(settings: &Settings, today: Date) -> Self {
        let mut stale = Vec::new();
        let latest = latest_snapshots(settings);
        for_each_measured(settings, |place, hashes| {
            let role = &place.role.policy;
            let now = prompt_hash(settings.prompts(), &place.role.name, role, place.model());
            if now != hashes.prompt {
                stale.push(place.stale(Change::Prompt));
            }
            stale.extend(place.age(today));
            stale.extend(place.snapshot(settings, hashes, &latest));
        });
        Self {
            stale,
            unreadable: Vec::new(),
        }
    }

    /// As [`of`](Self::of), and compares with the golden datasets that the roles' policies
    /// name, each of which is read through once. Blocks while it reads.
    pub fn with_datasets(settings: &Settings, today: Date) -> Self {
        let mut found = Self::of(settings, today);
        let mut datasets: BTreeMap<PathBuf, Option<Golden>> = BTreeMap::new();
        for role in settings.config().roles.values() {
            let Some(path) = &role.policy.golden_dataset else {
                continue;
            };
            let path = settings.folder().join(path);
            let known = found.unreadable.iter_mut().find(|u| u.path == path);
            if let Some(known) = known {
                known.roles.push(role.name.clone());
            } else if let Entry::Vacant(place) = datasets.entry(path) {
                let read = Golden::open(place.key()).map_err(|error| {
                    found.unreadable.push(UnreadableDataset {
                        roles: vec![role.name.clone()],
                        path: place.key().clone(),
                        error,
                    });
                });
                place.insert(read.ok());
            }
        }
        for_each_measured(settings, |place, hashes| {
            let named = place.role.policy.golden_dataset.as_ref();
            let path = named.map(|path| settings.folder().join(path));
            let golden = path.and_then(|path| datasets.get(&path)?.as_ref());
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
