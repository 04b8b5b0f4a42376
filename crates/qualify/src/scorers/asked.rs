//! A question, as scorers see it beside its answer.

use crate::golden::Item;
use evenkeel_core::{ChatRequest, Value};

/// What was asked, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) id: &'a str,
    pub(crate) role: Option<&'a str>,
    pub(crate) tags: &'a [String],
    pub(crate) request: &'a ChatRequest,
    pub(crate) expected: Option<&'a Value>,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(item: &'a Item) -> Self {
        Self {
            id: &item.id,
            role: item.role.as_deref(),
            tags: &item.tags,
            request: &item.request,
            expected: item.expected.as_ref(),
        }
    }
}
