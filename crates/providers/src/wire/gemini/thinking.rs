//! How much a model may think, in its own words.

use super::options::Thinking;
use crate::wire::adapted::{Adapted, what};
use evenkeel_core::{Effort, Reasoning};
use serde_json::{Map, Value};

/// What is asked for under `thinkingBudget` to leave it to the model.
const AUTOMATIC: i64 = -1;

/// The budget of each level, in tokens. Google's guide "OpenAI compatibility",
/// 2026; what is above `high` is not there and counts as `high`, the most that
/// every model with a budget takes.
const BUDGETS: [(Effort, u64); 5] = [
    (Effort::None, 0),
    (Effort::Minimal, 1_024),
    (Effort::Low, 1_024),
    (Effort::Medium, 8_192),
    (Effort::High, 24_576),
];

/// The levels, as they are written.
const LEVELS: [(Effort, &str); 5] = [
    (Effort::Minimal, "MINIMAL"),
    (Effort::Low, "LOW"),
    (Effort::Medium, "MEDIUM"),
    (Effort::High, "HIGH"),
    (Effort::XHigh, "XHIGH"),
];

/// Reads a `thinkingConfig`. What the neutral form cannot say stays in it.
pub(super) fn read(config: &mut Map<String, Value>) -> Option<Reasoning> {
    let level = config
        .get("thinkingLevel")
        .and_then(Value::as_str)
        .and_then(|level| {
            LEVELS
                .iter()
                .find(|(_, name)| name.eq_ignore_ascii_case(level))
        })
        .map(|(effort, _)| *effort);
    let budget = config.get("thinkingBudget").and_then(Value::as_i64);
    let tokens = budget.and_then(|budget| u64::try_from(budget).ok());
    if level.is_some() {
        config.shift_remove("thinkingLevel");
    }
    if tokens.is_some() || budget == Some(AUTOMATIC) {
        config.shift_remove("thinkingBudget");
    }
    let asks = level.is_some() || tokens.is_some() || budget == Some(AUTOMATIC);
    if !asks {
        return None;
    }
    let shows = config.get("includeThoughts").and_then(Value::as_bool);
    let reasoning = Reasoning {
        effort: level,
        budget_tokens: tokens,
    };
    match shows.unwrap_or(false) {
        shows if shows == wants_thoughts(reasoning) => config.shift_remove("includeThoughts"),
        shows => config.insert("includeThoughts".into(), shows.into()),
    };
    Some(reasoning)
}

/// Adds what `reasoning` asks for to a `thinkingConfig`.
pub(super) fn write(
    reasoning: Reasoning,
    thinking: Thinking,
    config: &mut Map<String, Value>,
    adapted: &mut Adapted,
) {
    match thinking {
        Thinking::Unsupported => {
            adapted.left_out(what::REASONING);
            return;
        }
        Thinking::Level => level(reasoning, config, adapted),
        Thinking::Budget => budget(reasoning, config, adapted),
    }
    let shows = wants_thoughts(reasoning);
    if shows && !config.contains_key("includeThoughts") {
        config.insert("includeThoughts".into(), true.into());
    }
    if config.get("includeThoughts") == Some(&Value::Bool(false)) {
        // The default, said or not.
        config.shift_remove("includeThoughts");
    }
}

/// Whether thoughts are to be seen: wherever there are some.
fn wants_thoughts(reasoning: Reasoning) -> bool {
    reasoning.effort != Some(Effort::None) && reasoning.budget_tokens != Some(0)
}

fn level(reasoning: Reasoning, config: &mut Map<String, Value>, adapted: &mut Adapted) {
    let effort = match (reasoning.effort, reasoning.budget_tokens) {
        (Some(effort), budget) => {
            if budget.is_some() {
                adapted.note("reasoning budget", "left out beside the effort");
            }
            effort
        }
        (None, Some(0)) => Effort::None,
        (None, Some(tokens)) => {
            // Models with levels take a budget in place of one.
            config.insert("thinkingBudget".into(), tokens.into());
            return;
        }
        // Automatic is the default.
        (None, None) => return,
    };
    let nearest = match effort {
        Effort::None => Effort::Minimal,
        Effort::Max => Effort::XHigh,
        known => known,
    };
    if nearest != effort {
        adapted.clamped("reasoning effort");
    }
    if let Some((_, name)) = LEVELS.iter().find(|(level, _)| *level == nearest) {
        config.insert("thinkingLevel".into(), (*name).into());
    }
}

fn budget(reasoning: Reasoning, config: &mut Map<String, Value>, adapted: &mut Adapted) {
    let budget = match (reasoning.budget_tokens, reasoning.effort) {
        (Some(tokens), _) => tokens.into(),
        (None, Some(effort)) => {
            let nearest = effort.min(Effort::High);
            if nearest != effort {
                adapted.clamped("reasoning effort");
            }
            let known = BUDGETS.iter().find(|(level, _)| *level == nearest);
            known.map_or(AUTOMATIC.into(), |(_, tokens)| Value::from(*tokens))
        }
        (None, None) => AUTOMATIC.into(),
    };
    config.insert("thinkingBudget".into(), budget);
}
