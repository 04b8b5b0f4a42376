//! The table of dialects: sources are the providers' SDKs and servers as published in November 2026
//! (`anthropic` `_transform.py`, `openai` `_pydantic.py`, the field docs of `google-genai`, vLLM's
//! `backend_xgrammar.py`, llama.cpp's `grammars/README.md`) and refusals reported by their users.

use crate::dialect::Rule::{Enforced as Y, Hint as I, Removed as N, Unknown as U};
use crate::dialect::{Dialect, EnumValues, Keyword, Limits, NullForm, Recursion, Rule, Rules};

/// One row a keyword, one column a dialect in the order of [`Dialect::ALL`].
#[rustfmt::skip]
const KEYWORDS: [(Keyword, [Rule; 9]); 33] = [
    //                              openai anthr gemini g.api mistr vllm llama ollama none
    (Keyword::Enum,                 [Y,    Y,    Y,     Y,    Y,    Y,   Y,    Y,     I]),
    (Keyword::Const,                [Y,    Y,    N,     N,    U,    Y,   Y,    Y,     I]),
    (Keyword::AdditionalProperties, [Y,    Y,    Y,     N,    Y,    Y,   Y,    Y,     I]),
    (Keyword::PrefixItems,          [N,    N,    Y,     Y,    U,    U,   N,    N,     I]),
    (Keyword::MinItems,             [Y,    Y,    Y,     Y,    U,    Y,   Y,    Y,     I]),
    (Keyword::MaxItems,             [Y,    N,    Y,     Y,    U,    Y,   Y,    Y,     I]),
    (Keyword::UniqueItems,          [N,    N,    N,     N,    U,    N,   N,    N,     I]),
    (Keyword::Contains,             [N,    N,    N,     N,    U,    N,   N,    N,     I]),
    (Keyword::MinLength,            [N,    N,    N,     Y,    U,    Y,   Y,    Y,     I]),
    (Keyword::MaxLength,            [N,    N,    N,     Y,    U,    Y,   Y,    Y,     I]),
    (Keyword::Pattern,              [Y,    N,    N,     Y,    U,    Y,   Y,    Y,     I]),
    (Keyword::Format,               [Y,    Y,    Y,     Y,    U,    Y,   Y,    Y,     I]),
    (Keyword::Minimum,              [Y,    N,    Y,     Y,    U,    Y,   Y,    Y,     I]),
    (Keyword::Maximum,              [Y,    N,    Y,     Y,    U,    Y,   Y,    Y,     I]),
    (Keyword::ExclusiveMinimum,     [Y,    N,    N,     N,    U,    Y,   Y,    Y,     I]),
    (Keyword::ExclusiveMaximum,     [Y,    N,    N,     N,    U,    Y,   Y,    Y,     I]),
    (Keyword::MultipleOf,           [Y,    N,    N,     N,    U,    N,   U,    U,     I]),
    (Keyword::MinProperties,        [N,    N,    N,     N,    U,    N,   N,    N,     I]),
    (Keyword::MaxProperties,        [N,    N,    N,     N,    U,    N,   N,    N,     I]),
    (Keyword::PatternProperties,    [N,    N,    N,     N,    U,    U,   N,    N,     I]),
    (Keyword::PropertyNames,        [N,    N,    N,     N,    U,    U,   N,    N,     I]),
    (Keyword::AnyOf,                [Y,    Y,    Y,     Y,    Y,    Y,   Y,    Y,     I]),
    (Keyword::OneOf,                [N,    N,    N,     N,    U,    U,   N,    N,     I]),
    (Keyword::AllOf,                [N,    N,    N,     N,    U,    U,   N,    N,     I]),
    (Keyword::Not,                  [N,    N,    N,     N,    U,    U,   N,    N,     I]),
    (Keyword::If,                   [N,    N,    N,     N,    U,    U,   N,    N,     I]),
    (Keyword::Dependent,            [N,    N,    N,     N,    U,    U,   N,    N,     I]),
    (Keyword::Unevaluated,          [N,    N,    N,     N,    U,    U,   N,    N,     I]),
    (Keyword::Ref,                  [Y,    Y,    Y,     N,    U,    Y,   N,    N,     I]),
    (Keyword::Default,              [N,    N,    I,     I,    U,    I,   I,    I,     I]),
    (Keyword::Examples,             [N,    N,    I,     N,    U,    I,   I,    I,     I]),
    (Keyword::Title,                [Y,    Y,    Y,     Y,    Y,    I,   I,    I,     I]),
    (Keyword::Description,          [Y,    Y,    Y,     Y,    Y,    I,   I,    I,     I]),
];

/// What `dialect` does with `keyword`.
pub(crate) fn rule(dialect: Dialect, keyword: Keyword) -> Rule {
    KEYWORDS[keyword as usize].1[dialect as usize]
}

/// What every entry below starts from: a plain subset that shows its schema to the model.
const PLAIN: Rules = Rules {
    formats: &[],
    all_required: false,
    closed_only: false,
    empty_objects: true,
    any_value: false,
    null: NullForm::TypeArray,
    enum_values: EnumValues::Primitives,
    capital_types: false,
    recursion: Recursion::Refused,
    object_root: true,
    property_ordering: false,
    shown: true,
    strict_tools: false,
    loose_tools: false,
    integer_bounds_only: false,
    min_items_at_most_one: false,
    anchored_patterns: false,
    length_or_pattern: false,
    tool_name_length: 64,
    tool_name_marks: "_-",
    tool_name_begins_with_letter: false,
    limits: Limits {
        properties: None,
        depth: None,
        characters: None,
        enum_values: None,
        long_enum: None,
        optional: None,
        unions: None,
        repetitions: None,
    },
};

const OPENAI: Rules = Rules {
    formats: &[
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
    ],
    all_required: true,
    closed_only: true,
    recursion: Recursion::Accepted,
    strict_tools: true,
    loose_tools: true,
    limits: Limits {
        properties: Some(5_000),
        depth: Some(10),
        characters: Some(120_000),
        enum_values: Some(1_000),
        long_enum: Some((250, 15_000)),
        ..PLAIN.limits
    },
    ..PLAIN
};

const ANTHROPIC: Rules = Rules {
    formats: &[
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    ],
    closed_only: true,
    null: NullForm::AnyOf,
    object_root: false,
    strict_tools: true,
    loose_tools: true,
    min_items_at_most_one: true,
    limits: Limits {
        optional: Some(24),
        unions: Some(16),
        ..PLAIN.limits
    },
    ..PLAIN
};

const GEMINI: Rules = Rules {
    formats: &["date-time", "date", "time"],
    empty_objects: false,
    enum_values: EnumValues::StringsAndNumbers,
    recursion: Recursion::ThroughOptional,
    property_ordering: true,
    tool_name_marks: "_-.",
    tool_name_begins_with_letter: true,
    ..PLAIN
};

const GEMINI_OPENAPI: Rules = Rules {
    formats: &["date-time"],
    null: NullForm::Flag,
    enum_values: EnumValues::Strings,
    capital_types: true,
    recursion: Recursion::Refused,
    ..GEMINI
};

/// The core that every provider enforces.
const MISTRAL: Rules = Rules {
    closed_only: true,
    null: NullForm::AnyOf,
    loose_tools: true,
    ..PLAIN
};

const VLLM: Rules = Rules {
    formats: &[
        "email",
        "date",
        "time",
        "date-time",
        "duration",
        "ipv4",
        "ipv6",
        "hostname",
        "uuid",
        "uri",
        "uri-reference",
        "uri-template",
        "json-pointer",
        "relative-json-pointer",
    ],
    any_value: true,
    recursion: Recursion::Accepted,
    object_root: false,
    shown: false,
    length_or_pattern: true,
    ..PLAIN
};

const LLAMA_CPP: Rules = Rules {
    formats: &["date", "time", "date-time", "uuid"],
    any_value: true,
    object_root: false,
    shown: false,
    integer_bounds_only: true,
    anchored_patterns: true,
    limits: Limits {
        // `maxLength` 4000 was answered with "failed to parse grammar", and large
        // repetitions are slow; far below both.
        repetitions: Some(1_000),
        ..PLAIN.limits
    },
    ..PLAIN
};

const NONE: Rules = Rules {
    any_value: true,
    object_root: false,
    shown: false,
    recursion: Recursion::Accepted,
    ..PLAIN
};

/// The rules of `dialect`.
pub(crate) const fn rules(dialect: Dialect) -> &'static Rules {
    match dialect {
        Dialect::OpenAiStrict => &OPENAI,
        Dialect::Anthropic => &ANTHROPIC,
        Dialect::Gemini => &GEMINI,
        Dialect::GeminiOpenApi => &GEMINI_OPENAPI,
        Dialect::Mistral => &MISTRAL,
        Dialect::Vllm => &VLLM,
        Dialect::LlamaCpp | Dialect::Ollama => &LLAMA_CPP,
        Dialect::None => &NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_stand_where_their_numbers_say() {
        for (row, (keyword, _)) in KEYWORDS.iter().enumerate() {
            assert_eq!(*keyword as usize, row);
            assert_eq!(Keyword::ALL[row], *keyword);
        }
        for (column, dialect) in Dialect::ALL.iter().enumerate() {
            assert_eq!(*dialect as usize, column);
            assert_eq!(Dialect::named(dialect.as_str()), Some(*dialect));
        }
    }
}
