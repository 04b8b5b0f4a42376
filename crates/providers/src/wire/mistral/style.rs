//! What Mistral takes.

use crate::wire::openai::style::{Cap, EffortField, History, NOTHING, Style, TOOL_NAME, UserField};

/// Highest temperature; above it the API answers 422.
const MAX_TEMPERATURE: f64 = 1.5;

/// Mistral's words for what `OpenAI`'s format says.
pub(in crate::wire) const STYLE: Style = Style {
    dialect: super::DIALECT,
    faithful: false,
    developer: false,
    names: false,
    history: History::Chunks,
    cap: Cap::Old,
    effort: EffortField::Level,
    user: UserField::Metadata,
    stream_options: false,
    top_k: true,
    penalties: true,
    fixed_sampling: false,
    max_temperature: Some(MAX_TEMPERATURE),
    seed: "random_seed",
    tool_choice: true,
    required: "any",
    parallel: true,
    metadata: true,
    needs_parameters: true,
    max_stop: usize::MAX,
    refusal: false,
    images_in_results: true,
    call_signatures: false,
    image_objects: false,
    tool_names: Some(TOOL_NAME),
    max_call_id: usize::MAX,
    model_in_path: false,
    unknown: &[],
    unwanted: NOTHING,
};
