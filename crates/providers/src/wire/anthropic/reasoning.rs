//! How much the model is to reason: `thinking` and `output_config.effort`.

use super::{Options, Thinking, kept};
use crate::wire::RequestError;
use crate::wire::adapted::Adapted;
use crate::wire::fields::Fields;
use evenkeel_core::{ChatRequest, Effort, Reasoning};
use serde_json::{Map, Value, json};

/// Least `budget_tokens` that the API takes.
const MIN_BUDGET: u64 = 1024;

/// Reads `thinking` and the level beside it. What the neutral form does not
/// hold (`adaptive`, how it is displayed) stays in the field.
pub(super) fn read(
    fields: &mut Fields,
    effort: Option<String>,
) -> Result<Option<Reasoning>, RequestError> {
    let effort = match effort {
        None => None,
        Some(name) => Some(Effort::named(&name).ok_or_else(|| {
            let message = format!(
                "`output_config.effort` must be low, medium, high, xhigh or max, got `{name}`"
            );
            RequestError::invalid("output_config.effort", message)
        })?),
    };
    let mut budget_tokens = None;
    if let Some(raw) = fields.object("thinking")? {
        let mut thinking = Fields::new(raw, "thinking");
        let kind = thinking.required_string("type")?;
        match kind.as_str() {
            "enabled" => {
                let budget = thinking.count("budget_tokens")?;
                let missing = || RequestError::missing("thinking.budget_tokens".into());
                budget_tokens = Some(budget.ok_or_else(missing)?);
            }
            "disabled" => budget_tokens = Some(0),
            _ => thinking.keep("type", kind.into()),
        }
        let rest = thinking.rest();
        if !rest.is_empty() {
            fields.keep("thinking", rest.into());
        }
    }
    let asked = effort.is_some() || budget_tokens.is_some();
    Ok(asked.then_some(Reasoning {
        effort,
        budget_tokens,
    }))
}

/// What a request says of reasoning, in this format's words.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) thinking: Option<Map<String, Value>>,
    pub(super) effort: Option<&'static str>,
}

impl Settled {
    /// Whether the model reasons, as far as the request says.
    pub(super) fn is_on(&self) -> bool {
        self.kind().is_some_and(|kind| kind != "disabled")
    }

    /// Whether it reasons with a budget, which has stricter rules.
    pub(super) fn has_budget(&self) -> bool {
        self.kind() == Some("enabled")
    }

    fn kind(&self) -> Option<&str> {
        self.thinking.as_ref()?.get("type")?.as_str()
    }
}

/// What the caller asks for.
enum Asked<'a> {
    Nothing,
    Off,
    Budget(u64),
    Level(Effort),
    /// `thinking` in this format's own words.
    Own(&'a Map<String, Value>),
}

impl<'a> Asked<'a> {
    fn of(request: &'a ChatRequest) -> Self {
        let own = kept(&request.extra, "thinking").and_then(Value::as_object);
        let own = own.filter(|thinking| thinking.contains_key("type"));
        let is_own = request.extra.dialect == super::DIALECT;
        let asked = request.reasoning.unwrap_or_default();
        match (asked.budget_tokens, asked.effort) {
            (Some(0), _) | (None, Some(Effort::None)) => Self::Off,
            (Some(budget), _) => Self::Budget(budget),
            // In this format a level alone does not turn thinking on.
            (None, Some(level)) if !is_own => Self::Level(level),
            _ => own.map_or(Self::Nothing, Self::Own),
        }
    }
}

/// The cap that leaves room for the budget that the caller asks for, where the
/// caller names no cap.
pub(super) fn room_for(request: &ChatRequest, cap: u64) -> u64 {
    match Asked::of(request) {
        Asked::Budget(budget) => cap.max(budget.saturating_add(cap)),
        _ => cap,
    }
}

/// Settles what is sent to a model as `options` describe it.
pub(super) fn settle(
    request: &ChatRequest,
    options: &Options,
    cap: u64,
    adapted: &mut Adapted,
) -> Settled {
    let asked = Asked::of(request);
    let level = request.reasoning.and_then(|r| r.effort);
    let own = request.extra.dialect == super::DIALECT;
    if options.thinking == Thinking::No {
        if !matches!(asked, Asked::Nothing | Asked::Off) || (own && level.is_some()) {
            adapted.left_out("reasoning");
        }
        return Settled::default();
    }
    let mut settled = Settled {
        thinking: thinking(&asked, level, options, cap, adapted),
        effort: None,
    };
    let steers = match options.thinking {
        Thinking::Budget => false,
        Thinking::Adaptive => !matches!(asked, Asked::Off),
        Thinking::Unknown | Thinking::No => own,
    };
    let level = level.filter(|level| *level != Effort::None);
    if steers {
        settled.effort = level.map(|level| level_name(level, adapted));
    } else if own && level.is_some() && !matches!(asked, Asked::Own(_)) {
        adapted.left_out("output_config.effort");
    }
    if let (Some(thinking), Some(Value::Object(more))) =
        (&mut settled.thinking, kept(&request.extra, "thinking"))
        && settled_type(thinking) != Some("disabled")
    {
        for (name, value) in more.iter().filter(|(name, _)| *name != "type") {
            thinking
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
    }
    settled
}

fn settled_type(thinking: &Map<String, Value>) -> Option<&str> {
    thinking.get("type")?.as_str()
}

fn thinking(
    asked: &Asked<'_>,
    level: Option<Effort>,
    options: &Options,
    cap: u64,
    adapted: &mut Adapted,
) -> Option<Map<String, Value>> {
    let adaptive = options.thinking == Thinking::Adaptive;
    match asked {
        Asked::Nothing => None,
        Asked::Off => Some(of_type("disabled")),
        Asked::Budget(_) if adaptive => {
            adapted.note("reasoning budget", "this model sets its own, left out");
            Some(of_type("adaptive"))
        }
        Asked::Level(_) if adaptive => Some(of_type("adaptive")),
        Asked::Budget(budget) => {
            let fitting = (*budget).clamp(MIN_BUDGET, cap.saturating_sub(1).max(MIN_BUDGET));
            if fitting != *budget && cap > MIN_BUDGET {
                adapted.clamped("reasoning budget");
            }
            with_budget(fitting, cap, adapted)
        }
        Asked::Level(level) => with_budget(share(*level, cap), cap, adapted),
        Asked::Own(own) if options.thinking == Thinking::Budget => {
            if settled_type(own) != Some("adaptive") {
                adapted.clamped("thinking.type");
            }
            let level = level.unwrap_or(Effort::Medium);
            with_budget(share(level, cap), cap, adapted)
        }
        Asked::Own(own) => Some((*own).clone()),
    }
}

fn of_type(kind: &str) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("type".into(), kind.into());
    map
}

fn with_budget(budget: u64, cap: u64, adapted: &mut Adapted) -> Option<Map<String, Value>> {
    if cap <= MIN_BUDGET {
        adapted.note(
            "reasoning",
            "the cap on output tokens leaves no room, left out",
        );
        return None;
    }
    let mut map = of_type("enabled");
    map.insert("budget_tokens".into(), json!(budget));
    Some(map)
}

/// The share of the cap that a level may reason for, as `OpenRouter` documents
/// its translation of levels to Anthropic's budgets.
fn share(level: Effort, cap: u64) -> u64 {
    let percent = match level {
        Effort::None | Effort::Minimal => 10,
        Effort::Low => 20,
        Effort::Medium => 50,
        Effort::High => 80,
        Effort::XHigh | Effort::Max => 95,
    };
    let budget = cap / 100 * percent + cap % 100 * percent / 100;
    budget.clamp(MIN_BUDGET, cap.saturating_sub(1).max(MIN_BUDGET))
}

/// The level's name; the format knows none below `low`.
fn level_name(level: Effort, adapted: &mut Adapted) -> &'static str {
    if level < Effort::Low {
        adapted.clamped("reasoning effort");
        return Effort::Low.as_str();
    }
    level.as_str()
}
