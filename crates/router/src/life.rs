//! What answers say of how long their model lives.

use crate::rung::locked;
use evenkeel_core::Extra;
use evenkeel_roster::ModelConfig;
use jiff::civil::Date;
use std::sync::Mutex;

/// The field in which Gemini tells of it; nobody else does in an answer.
const STATUS: &str = "modelStatus";

/// Stages of a model that its provider means to end.
const ENDING: [&str; 3] = ["LEGACY", "DEPRECATED", "RETIRED"];

/// Words that are remembered, and told of: whoever names another day with every answer
/// must not grow memory.
const MOST: usize = 16;

/// What answers of a model have said of its life that the model registry does not.
#[derive(Debug, Default)]
pub(crate) struct LifeWatch(Mutex<Vec<LifeWord>>);

/// What an answer says of its model's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LifeWord {
    /// In the provider's words, e.g. `LEGACY`; cut where it is no word.
    pub(crate) stage: Option<String>,
    /// Its last day.
    pub(crate) last_day: Option<Date>,
}

impl LifeWatch {
    /// What an answer says of the life of `registered`, where the registry has another
    /// last day, or none and it is called outdated; told once. An answer that says
    /// nothing of it costs a look into its fields.
    pub(crate) fn see(&self, extra: &Extra, registered: &ModelConfig) -> Option<LifeWord> {
        let word = LifeWord::read(extra)?;
        let is_news = match word.last_day {
            Some(day) => registered.eol_date != Some(day),
            None => word.is_ending() && registered.eol_date.is_none(),
        };
        if !is_news {
            return None;
        }
        let mut told = locked(&self.0);
        if told.len() == MOST || told.contains(&word) {
            return None;
        }
        told.push(word.clone());
        Some(word)
    }
}

impl LifeWord {
    /// Longest name of a stage that is told, in characters.
    const LONGEST: usize = 40;

    fn read(extra: &Extra) -> Option<Self> {
        let status = extra.fields.get(STATUS)?.as_object()?;
        let text = |key: &str| status.get(key)?.as_str();
        Some(Self {
            stage: text("modelStage").map(|stage| stage.chars().take(Self::LONGEST).collect()),
            last_day: text("retirementTime").and_then(|time| time.get(..10)?.parse().ok()),
        })
    }

    fn is_ending(&self) -> bool {
        let stage = self.stage.as_deref();
        stage.is_some_and(|stage| ENDING.contains(&stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{ModelId, Value};
    use jiff::civil::date;
    use serde_json::json;

    fn told(status: Value) -> Extra {
        let mut extra = Extra::default();
        extra.fields.insert(STATUS.to_owned(), status);
        extra
    }

    fn registered(eol_date: Option<Date>) -> ModelConfig {
        ModelConfig {
            eol_date,
            ..ModelConfig::new(ModelId::new("g/m").unwrap())
        }
    }

    #[test]
    fn what_the_registry_does_not_say_is_told_once() {
        let legacy =
            told(json!({"modelStage": "LEGACY", "retirementTime": "2027-02-01T00:00:00Z"}));
        let day = date(2027, 2, 1);
        let watch = LifeWatch::default();
        let word = watch.see(&legacy, &registered(None)).unwrap();
        assert_eq!(
            (word.stage.as_deref(), word.last_day),
            (Some("LEGACY"), Some(day))
        );
        assert_eq!(watch.see(&legacy, &registered(None)), None, "told already");
        let other = Some(date(2027, 3, 1));
        let fresh = LifeWatch::default;
        assert!(fresh().see(&legacy, &registered(other)).is_some());
        assert_eq!(fresh().see(&legacy, &registered(Some(day))), None, "known");
    }

    #[test]
    fn a_stage_without_a_day_is_news_where_no_day_is_known() {
        let see = |stage: &str, eol_date| {
            let extra = told(json!({ "modelStage": stage }));
            LifeWatch::default()
                .see(&extra, &registered(eol_date))
                .is_some()
        };
        assert!(see("DEPRECATED", None) && see("RETIRED", None));
        assert!(!see("DEPRECATED", Some(date(2027, 2, 1))));
        assert!(!see("STABLE", None) && !see("PREVIEW", None));
    }

    #[test]
    fn what_is_no_status_says_nothing_and_new_words_do_not_grow_memory() {
        let watch = LifeWatch::default();
        let registered = registered(None);
        for status in [
            json!(null),
            json!("LEGACY"),
            json!({}),
            json!({"retirementTime": 7}),
            json!({"retirementTime": "soon", "modelStage": "STABLE"}),
            json!({"retirementTime": "20270201é"}),
        ] {
            assert_eq!(watch.see(&told(status), &registered), None);
        }
        assert_eq!(watch.see(&Extra::default(), &registered), None);
        let seen = (0..1_000_i64).filter(|n| {
            let day = date(2027, 1, 1).saturating_add(jiff::Span::new().days(*n));
            let status = told(json!({ "retirementTime": day.to_string() }));
            watch.see(&status, &registered).is_some()
        });
        assert_eq!(seen.count(), MOST);
    }
}
