//! `schema`: JSON that obeys a schema.

use super::{Answered, Expected, Grade};
use crate::golden::Keys;
use evenkeel_schema_adapter::Checker;
use std::sync::Arc;

/// The answer is one JSON value, and obeys the scorer's `schema`, else the item's.
#[derive(Debug, Clone)]
pub(super) struct Obeys {
    checker: Arc<Checker>,
}

impl Obeys {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        let own = keys.value("schema").filter(|schema| !schema.is_null());
        if let Some(own) = own {
            return match expected.adapter.checker(&own) {
                Ok(checker) => Some(Self { checker }),
                Err(error) => {
                    keys.fault(error.to_string());
                    None
                }
            };
        }
        if expected.schema.is_none() && expected.tools.is_some() {
            keys.fault("the scorer needs a `schema`, its own or the item's");
        }
        let checker = expected.schema?.clone();
        Some(Self { checker })
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        let Some(json) = answer.json() else {
            return Grade::wrong("the answer is not JSON");
        };
        match self.checker.check(json) {
            Ok(()) => Grade::right(true),
            Err(error) => Grade::wrong(error.message),
        }
    }
}
