//! Whether a model still answers from the build that its score was measured on.

use crate::rung::locked;
use evenkeel_core::{Extra, Snapshot};
use evenkeel_roster::Hashes;
use std::sync::{Arc, Mutex};

/// The field in which `OpenAI` and the servers that speak its dialect tell a build.
const FINGERPRINT: &str = "system_fingerprint";

/// Other builds that are remembered, and told of, for each rung: whoever names
/// another one with every answer must not grow memory.
const MOST: usize = 16;

/// The build that a rung was measured on, and those that have answered instead.
#[derive(Debug)]
pub(crate) struct DriftWatch {
    model: Arc<str>,
    fingerprints: Vec<Arc<str>>,
    others: Mutex<Vec<Snapshot>>,
}

impl DriftWatch {
    /// A watch over answers of a rung that was measured so; none where its answers
    /// named nothing then, so that there is nothing to compare.
    pub(crate) fn of(hashes: &Hashes) -> Option<Self> {
        let fingerprints = hashes.fingerprints.iter();
        let watch = Self {
            model: Arc::from(hashes.snapshot.as_str()),
            fingerprints: fingerprints.map(|text| Arc::from(text.as_str())).collect(),
            others: Mutex::default(),
        };
        (!watch.model.is_empty() || !watch.fingerprints.is_empty()).then_some(watch)
    }

    /// Whether it watches for the same build as `before`.
    pub(crate) fn expects_as(&self, before: &Self) -> bool {
        (&self.model, &self.fingerprints) == (&before.model, &before.fingerprints)
    }

    /// What an answer says of its build: the model where it names one, and the
    /// fingerprint where it has one. Some is a build that was not measured and was
    /// not seen before. Costs no allocation where it is the one that was measured.
    pub(crate) fn see(&self, model: &str, extra: &Extra) -> Option<Snapshot> {
        let is_other = !model.is_empty() && !self.model.is_empty() && *model != *self.model;
        let fingerprint = if self.fingerprints.is_empty() {
            None
        } else {
            extra.fields.get(FINGERPRINT).and_then(|told| told.as_str())
        };
        let is_unknown =
            fingerprint.is_some_and(|told| !self.fingerprints.iter().any(|own| **own == *told));
        if !is_other && !is_unknown {
            return None;
        }
        let named = if model.is_empty() { &self.model } else { model };
        let mut others = locked(&self.others);
        let is_known = others
            .iter()
            .any(|other| *other.model == *named && other.fingerprint.as_deref() == fingerprint);
        if is_known || others.len() == MOST {
            return None;
        }
        let seen = Snapshot {
            model: Arc::from(named),
            fingerprint: fingerprint.map(Arc::from),
        };
        others.push(seen.clone());
        Some(seen)
    }

    /// The build that was measured: its model, and where it has several
    /// fingerprints, all of them.
    pub(crate) fn expected(&self) -> Snapshot {
        let all = self.fingerprints.join(",");
        Snapshot {
            model: self.model.clone(),
            fingerprint: (!all.is_empty()).then(|| Arc::from(all)),
        }
    }

    /// The builds that have answered instead, in the order of their first answers.
    pub(crate) fn others(&self) -> Vec<Snapshot> {
        locked(&self.others).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn watch(snapshot: &str, fingerprints: &[&str]) -> Option<DriftWatch> {
        DriftWatch::of(&Hashes {
            prompt: String::new(),
            tools: String::new(),
            dataset: String::new(),
            snapshot: snapshot.to_owned(),
            fingerprints: fingerprints.iter().map(ToString::to_string).collect(),
        })
    }

    fn told(fingerprint: Option<&str>) -> Extra {
        let mut extra = Extra::default();
        if let Some(fingerprint) = fingerprint {
            extra
                .fields
                .insert(FINGERPRINT.to_owned(), json!(fingerprint));
        }
        extra
    }

    #[test]
    fn what_was_not_measured_is_told_once_and_what_is_not_said_never() {
        let watch = watch("big-1", &["a", "b"]).unwrap();
        let see = |model: &str, fingerprint: Option<&str>| {
            watch.see(model, &told(fingerprint)).map(|s| s.to_string())
        };
        for fingerprint in [None, Some("a"), Some("b")] {
            assert_eq!(see("big-1", fingerprint), None);
            assert_eq!(see("", fingerprint), None);
        }
        assert_eq!(see("big-2", Some("a")).as_deref(), Some("big-2 a"));
        assert_eq!(see("big-2", Some("a")), None);
        assert_eq!(see("big-1", Some("c")).as_deref(), Some("big-1 c"));
        assert_eq!(see("", Some("c")), None, "the same one");
        assert_eq!(watch.others().len(), 2);
        assert_eq!(watch.expected().to_string(), "big-1 a,b");
    }

    #[test]
    fn what_was_not_said_when_it_was_measured_is_not_compared() {
        assert!(watch("", &[]).is_none());
        let named = watch("big-1", &[]).unwrap();
        assert_eq!(named.see("big-1", &told(Some("x"))), None);
        let unnamed = watch("", &["a"]).unwrap();
        assert_eq!(unnamed.see("big-9", &told(Some("a"))), None);
    }

    #[test]
    fn a_new_name_with_every_answer_does_not_grow_memory() {
        let watch = watch("big-1", &[]).unwrap();
        let seen = (0..1_000)
            .filter(|n| watch.see(&format!("other-{n}"), &told(None)).is_some())
            .count();
        assert_eq!((seen, watch.others().len()), (MOST, MOST));
    }
}
