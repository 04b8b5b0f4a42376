//! What a roster entry says of a model.

/// Cap on output tokens where neither the caller nor the roster names one: the
/// output limit of the oldest models still served (Claude 3, 2024), so that
/// every model takes it.
pub const DEFAULT_MAX_TOKENS: u64 = 4096;

/// The version of the format, as the header `anthropic-version` names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// `2023-06-01`.
    #[default]
    V2023,
    /// `2026-10-21`: refuses temperature, `top_p` and `top_k` at any value.
    V2026,
}

impl Version {
    /// Every version.
    pub const ALL: [Self; 2] = [Self::V2023, Self::V2026];

    /// The header's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2023 => "2023-06-01",
            Self::V2026 => "2026-10-21",
        }
    }

    /// The version of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.as_str() == name)
    }
}

/// Whether a model takes something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Support {
    /// Nobody said: it is sent, and a refusal is the provider's to tell.
    #[default]
    Unknown,
    /// It does.
    Yes,
    /// It does not: it is left out.
    No,
}

/// How a model is told to reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Thinking {
    /// Nobody said: a level becomes a budget, which most models know.
    #[default]
    Unknown,
    /// It does not reason.
    No,
    /// With a budget in tokens.
    Budget,
    /// By itself (`adaptive`), steered by a level.
    Adaptive,
}

/// What a roster entry says of a model and how to speak to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The version of the format that the request is sent under.
    pub version: Version,
    /// The model's limit on output tokens. It is the cap where the caller names
    /// none (the format requires one; [`DEFAULT_MAX_TOKENS`] without a limit),
    /// and larger caps are lowered to it.
    pub max_output_tokens: Option<u64>,
    /// Whether it takes temperature, `top_p` and `top_k`. Under
    /// [`Version::V2026`] no model does. Where it is not known, temperature
    /// is sent without `top_p`, since newer models refuse the two together.
    pub sampling: Support,
    /// Whether it continues an answer whose beginning the caller wrote.
    pub prefill: Support,
    /// How it is told to reason.
    pub thinking: Thinking,
    /// Whether it takes system messages in mid-conversation. Where nobody
    /// said, those written in this format stay and others move to the system
    /// prompt.
    pub system_turns: Support,
    /// Leave all signed reasoning of the history out, because another model of
    /// this provider signed it: a model refuses signatures that are not its own.
    pub drop_reasoning: bool,
}
