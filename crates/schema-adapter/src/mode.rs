//! How a model is asked for JSON, and what it can be asked.

use crate::dialect::Dialect;

/// How a model is asked for JSON that obeys a schema, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// The provider takes the schema and enforces its part of it.
    Native,
    /// A tool whose arguments are the answer, and which has to be called.
    ForcedTool,
    /// The provider enforces JSON; the schema is in the prompt.
    JsonObject,
    /// The schema is in the prompt, and nothing is enforced.
    Prompt,
}

impl Mode {
    /// Every mode, strongest first.
    pub const ALL: [Self; 4] = [
        Self::Native,
        Self::ForcedTool,
        Self::JsonObject,
        Self::Prompt,
    ];

    /// The name used in reports and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::ForcedTool => "forced_tool",
            Self::JsonObject => "json_object",
            Self::Prompt => "prompt",
        }
    }
}

/// What a model is declared to support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent declaration of the model registry"
)]
pub struct ModelSupport {
    /// Which subset of JSON Schema its provider takes, for answers and for tools.
    pub dialect: Dialect,
    /// [`Mode::Native`].
    pub json_schema: bool,
    /// [`Mode::JsonObject`].
    pub json_object: bool,
    /// Tools, and a choice that forces one: [`Mode::ForcedTool`].
    pub forced_tool: bool,
    /// [`Mode::Prompt`]; false for models that do not follow a schema they are only told.
    pub prompt: bool,
    /// Only the core that every provider enforces is sent; every bound is told in words. For the one
    /// attempt after a provider has refused a schema of ours.
    pub core_only: bool,
}

impl ModelSupport {
    /// What models usually support where `dialect` is spoken.
    pub const fn of(dialect: Dialect) -> Self {
        let enforced = !matches!(dialect, Dialect::None);
        Self {
            dialect,
            json_schema: enforced,
            // Anthropic has no JSON mode without a schema.
            json_object: enforced && !matches!(dialect, Dialect::Anthropic),
            // Ollama takes tools but no choice.
            forced_tool: enforced && !matches!(dialect, Dialect::Ollama),
            prompt: true,
            core_only: false,
        }
    }

    /// A model of which only text can be expected.
    pub const PROMPT_ONLY: Self = Self::of(Dialect::None);

    /// The same with [`ModelSupport::core_only`].
    #[must_use]
    pub const fn core(mut self) -> Self {
        self.core_only = true;
        self
    }

    /// Without [`Mode::Native`].
    #[must_use]
    pub const fn without_native(mut self) -> Self {
        self.json_schema = false;
        self
    }

    pub(crate) const fn has(self, mode: Mode) -> bool {
        match mode {
            Mode::Native => self.json_schema,
            Mode::ForcedTool => self.forced_tool,
            Mode::JsonObject => self.json_object,
            Mode::Prompt => self.prompt,
        }
    }
}
