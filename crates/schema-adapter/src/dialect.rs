//! What each provider's structured output takes, as data.

use crate::table;

/// A subset of JSON Schema, as one provider or server takes it for structured output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// OpenAI's strict structured outputs and strict tools.
    OpenAiStrict,
    /// Anthropic's output format and strict tools.
    Anthropic,
    /// Gemini's `responseJsonSchema` and `parametersJsonSchema`.
    Gemini,
    /// Gemini's older `responseSchema`, a subset of the schema object of `OpenAPI`.
    GeminiOpenApi,
    /// Mistral's `json_schema` response format. Its subset is not documented, so it gets the core
    /// that every provider enforces.
    Mistral,
    /// vLLM with the xgrammar backend.
    Vllm,
    /// The llama.cpp server's grammars.
    LlamaCpp,
    /// Ollama, which uses llama.cpp's grammars.
    Ollama,
    /// No enforcement at all: the schema is text in the prompt.
    None,
}

impl Dialect {
    /// Every dialect, in the order of the table's columns.
    pub const ALL: [Self; 9] = [
        Self::OpenAiStrict,
        Self::Anthropic,
        Self::Gemini,
        Self::GeminiOpenApi,
        Self::Mistral,
        Self::Vllm,
        Self::LlamaCpp,
        Self::Ollama,
        Self::None,
    ];

    /// The name used in configuration and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiStrict => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::GeminiOpenApi => "gemini_openapi",
            Self::Mistral => "mistral",
            Self::Vllm => "vllm",
            Self::LlamaCpp => "llamacpp",
            Self::Ollama => "ollama",
            Self::None => "none",
        }
    }

    /// The dialect of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.as_str() == name)
    }

    /// What this dialect does with `keyword`.
    pub fn rule(self, keyword: Keyword) -> Rule {
        table::rule(self, keyword)
    }

    /// Everything else about it.
    pub const fn rules(self) -> &'static Rules {
        table::rules(self)
    }
}

/// What a dialect does with a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Answers obey it.
    Enforced,
    /// Accepted without effect on what can be generated.
    Hint,
    /// Refused, or dropped without a word: it must not be sent.
    Removed,
    /// Not documented; treated as [`Rule::Removed`].
    Unknown,
}

/// Keywords of JSON Schema whose treatment differs between dialects.
///
/// `type`, `properties`, `required` and `items` are understood by all of them; how is in [`Rules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the keyword of its name")]
pub enum Keyword {
    Enum,
    Const,
    AdditionalProperties,
    PrefixItems,
    MinItems,
    MaxItems,
    UniqueItems,
    Contains,
    MinLength,
    MaxLength,
    Pattern,
    Format,
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
    MultipleOf,
    MinProperties,
    MaxProperties,
    PatternProperties,
    PropertyNames,
    AnyOf,
    OneOf,
    AllOf,
    Not,
    /// `if`, `then`, `else`.
    If,
    /// `dependentRequired`, `dependentSchemas`, `dependencies`.
    Dependent,
    /// `unevaluatedProperties`, `unevaluatedItems`.
    Unevaluated,
    /// `$ref`.
    Ref,
    Default,
    Examples,
    Title,
    Description,
}

impl Keyword {
    /// Every keyword, in the order of the table's rows.
    pub const ALL: [Self; 33] = [
        Self::Enum,
        Self::Const,
        Self::AdditionalProperties,
        Self::PrefixItems,
        Self::MinItems,
        Self::MaxItems,
        Self::UniqueItems,
        Self::Contains,
        Self::MinLength,
        Self::MaxLength,
        Self::Pattern,
        Self::Format,
        Self::Minimum,
        Self::Maximum,
        Self::ExclusiveMinimum,
        Self::ExclusiveMaximum,
        Self::MultipleOf,
        Self::MinProperties,
        Self::MaxProperties,
        Self::PatternProperties,
        Self::PropertyNames,
        Self::AnyOf,
        Self::OneOf,
        Self::AllOf,
        Self::Not,
        Self::If,
        Self::Dependent,
        Self::Unevaluated,
        Self::Ref,
        Self::Default,
        Self::Examples,
        Self::Title,
        Self::Description,
    ];

    /// The keyword as it is written in a schema (the first, where it stands for several).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enum => "enum",
            Self::Const => "const",
            Self::AdditionalProperties => "additionalProperties",
            Self::PrefixItems => "prefixItems",
            Self::MinItems => "minItems",
            Self::MaxItems => "maxItems",
            Self::UniqueItems => "uniqueItems",
            Self::Contains => "contains",
            Self::MinLength => "minLength",
            Self::MaxLength => "maxLength",
            Self::Pattern => "pattern",
            Self::Format => "format",
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::ExclusiveMinimum => "exclusiveMinimum",
            Self::ExclusiveMaximum => "exclusiveMaximum",
            Self::MultipleOf => "multipleOf",
            Self::MinProperties => "minProperties",
            Self::MaxProperties => "maxProperties",
            Self::PatternProperties => "patternProperties",
            Self::PropertyNames => "propertyNames",
            Self::AnyOf => "anyOf",
            Self::OneOf => "oneOf",
            Self::AllOf => "allOf",
            Self::Not => "not",
            Self::If => "if",
            Self::Dependent => "dependentRequired",
            Self::Unevaluated => "unevaluatedProperties",
            Self::Ref => "$ref",
            Self::Default => "default",
            Self::Examples => "examples",
            Self::Title => "title",
            Self::Description => "description",
        }
    }

    /// The keyword that `text` is (or belongs to).
    pub fn named(text: &str) -> Option<Self> {
        Some(match text {
            "then" | "else" => Self::If,
            "dependentSchemas" | "dependencies" => Self::Dependent,
            "unevaluatedItems" => Self::Unevaluated,
            "minContains" | "maxContains" => Self::Contains,
            "example" => Self::Examples,
            _ => return Self::ALL.into_iter().find(|k| k.as_str() == text),
        })
    }
}

/// How a dialect says that a value may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullForm {
    /// `"type": ["string", "null"]`.
    TypeArray,
    /// `"anyOf": [{…}, {"type": "null"}]`.
    AnyOf,
    /// `"nullable": true`.
    Flag,
}

/// Which values an `enum` may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnumValues {
    /// Strings, numbers, booleans, null.
    Primitives,
    /// Strings and numbers.
    StringsAndNumbers,
    /// Strings.
    Strings,
}

/// How far a schema may refer to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursion {
    /// Not at all.
    Refused,
    /// Through properties that are not required.
    ThroughOptional,
    /// Anywhere.
    Accepted,
}

/// Most that one schema may hold; none means unstated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Properties over all objects.
    pub properties: Option<usize>,
    /// Levels of nested objects and arrays.
    pub depth: Option<usize>,
    /// Characters of property names, definition names and enum values together.
    pub characters: Option<usize>,
    /// Enum values over the whole schema.
    pub enum_values: Option<usize>,
    /// Characters of one enum's strings, once it has more values than the first number.
    pub long_enum: Option<(usize, usize)>,
    /// Properties that are not required.
    pub optional: Option<usize>,
    /// Values of more than one type.
    pub unions: Option<usize>,
    /// Largest `minLength`, `maxLength`, `minItems`, `maxItems` that is sent.
    pub repetitions: Option<u64>,
}

/// What a dialect takes beside the single keywords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a row of yes and no, as the table in the documentation"
)]
pub struct Rules {
    /// Formats of strings that are enforced.
    pub formats: &'static [&'static str],
    /// `required` must list every property.
    pub all_required: bool,
    /// `additionalProperties` must be false on every object.
    pub closed_only: bool,
    /// An object without properties may be asked for.
    pub empty_objects: bool,
    /// A schema without a type (any value) is taken.
    pub any_value: bool,
    /// How null is said.
    pub null: NullForm,
    /// What an enum may hold.
    pub enum_values: EnumValues,
    /// Type names are in capitals.
    pub capital_types: bool,
    /// Self-reference.
    pub recursion: Recursion,
    /// The root must be an object.
    pub object_root: bool,
    /// The order of properties is said in `propertyOrdering`.
    pub property_ordering: bool,
    /// The model sees the schema; if not, it has to be told in the prompt too.
    pub shown: bool,
    /// Tools have a `strict` flag that makes the dialect hold for their arguments.
    pub strict_tools: bool,
    /// Tools without `strict` take any JSON Schema, as guidance.
    pub loose_tools: bool,
    /// The bounds of numbers are enforced for integers only.
    pub integer_bounds_only: bool,
    /// `minItems` may be 0 or 1 only.
    pub min_items_at_most_one: bool,
    /// Patterns have to be anchored and plain.
    pub anchored_patterns: bool,
    /// Length bounds are refused beside `pattern` and `format`.
    pub length_or_pattern: bool,
    /// Longest tool name.
    pub tool_name_length: usize,
    /// Characters of names beside letters and digits.
    pub tool_name_marks: &'static str,
    /// Tool names begin with a letter or an underscore.
    pub tool_name_begins_with_letter: bool,
    /// Sizes.
    pub limits: Limits,
}
