//! Requests: neutral form to JSON.

use super::messages_write::{self, Conversation};
use super::pairing::Turn;
use super::reasoning::{self, Settled};
use super::request_read::{is_provider_tool, no_parameters};
use super::{DEFAULT_MAX_TOKENS, DIALECT, Options, Support, Version, add_unknown, kept};
use crate::wire::Encoded;
use crate::wire::adapted::{Adapted, done, what};
use crate::wire::tool_names::{NameRule, ToolNames};
use evenkeel_core::{ChatRequest, Output, Tool, ToolChoice};
use serde_json::{Map, Value, json};

/// What a tool may be called. The first models to take tools allow 64
/// characters, later ones 128.
const NAMES: NameRule = NameRule {
    max_chars: 64,
    also: "",
    letter_first: false,
};

/// Writes a request for `model` as `options` describe it.
///
/// [`decode_request`](super::decode_request) reads the same request back,
/// except for what `adapted` tells.
pub fn encode_request(
    request: &ChatRequest,
    model: &str,
    stream: bool,
    options: &Options,
) -> Encoded {
    let mut adapted = Adapted::default();
    let names = ToolNames::of(request, NAMES);
    if !names.is_empty() {
        adapted.note(what::TOOL_NAMES, done::RENAMED);
    }
    let Conversation { system, mut turns } =
        messages_write::write(&request.messages, &names, options, &mut adapted);
    let cap = cap(request, options, &mut adapted);
    let mut settled = reasoning::settle(request, options, cap, &mut adapted);
    if settled.has_budget() && messages_write::began_without_reasoning(&turns) {
        adapted.note(
            "reasoning",
            "left out, since the calls being answered were made without it",
        );
        settled.thinking = None;
    }
    let no_prefill = options.prefill == Support::No || settled.is_on();
    messages_write::prefill(&mut turns, no_prefill, &mut adapted);
    let mut map = Map::new();
    map.insert("model".into(), model.into());
    map.insert("max_tokens".into(), cap.into());
    if let Some(system) = system {
        map.insert("system".into(), system);
    }
    let turns = turns.into_iter().map(Turn::into_message);
    map.insert("messages".into(), turns.collect());
    if stream {
        map.insert("stream".into(), true.into());
    }
    tools(request, &names, &settled, &mut map, &mut adapted);
    output_config(request, &settled, &mut map, &mut adapted);
    sampling(request, options, &settled, &mut map, &mut adapted);
    stop(request, &mut map, &mut adapted);
    metadata(request, &mut map, &mut adapted);
    if let Some(thinking) = settled.thinking {
        map.insert("thinking".into(), thinking.into());
    }
    let forms = ["thinking", "output_config", "metadata"];
    add_unknown(&request.extra, &forms, &mut map);
    adapted.foreign_fields(&request.extra, DIALECT);
    Encoded {
        body: Value::Object(map),
        adapted: adapted.into_lines(),
        tool_names: names.into_own_by_wire(),
    }
}

fn cap(request: &ChatRequest, options: &Options, adapted: &mut Adapted) -> u64 {
    match (request.max_output_tokens, options.max_output_tokens) {
        (Some(cap), Some(limit)) if cap > limit => {
            adapted.clamped("max_tokens");
            limit
        }
        (Some(cap), _) => cap,
        (None, Some(limit)) => limit,
        (None, None) => reasoning::room_for(request, DEFAULT_MAX_TOKENS),
    }
}

fn tools(
    request: &ChatRequest,
    names: &ToolNames,
    settled: &Settled,
    map: &mut Map<String, Value>,
    adapted: &mut Adapted,
) {
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .filter_map(|t| tool(t, names, adapted))
        .collect();
    let mut choice = tool_choice(request, names, settled, adapted);
    if tools.is_empty() {
        // The API refuses calls in the history without tools.
        tools = tools_of_history(request, names);
        if !tools.is_empty() {
            adapted.note(
                "tools",
                "those of the history are named, to none may be called",
            );
            choice = Some(json!({"type": "none"}));
        } else if choice
            .take()
            .is_some_and(|c| c["type"] != "none" && c["type"] != "auto")
        {
            adapted.note(what::TOOL_CHOICE, done::WITHOUT_TOOLS);
        }
    }
    if !tools.is_empty() {
        map.insert("tools".into(), tools.into());
    }
    if let Some(choice) = choice {
        map.insert("tool_choice".into(), choice);
    }
}

fn tool(tool: &Tool, names: &ToolNames, adapted: &mut Adapted) -> Option<Value> {
    if is_provider_tool(&tool.extra) {
        if tool.extra.dialect != DIALECT {
            adapted.foreign(what::SERVER_TOOL);
            return None;
        }
        return Some(Value::Object(tool.extra.fields.clone()));
    }
    if tool.extra.dialect != DIALECT && !tool.extra.fields.is_empty() {
        adapted.foreign(what::EXTRA);
    }
    let mut map = Map::new();
    map.insert("name".into(), names.wire(&tool.name).into());
    if let Some(description) = &tool.description {
        map.insert("description".into(), description.as_str().into());
    }
    let mut schema = tool.parameters.clone().unwrap_or_else(no_parameters);
    if let Value::Object(schema) = &mut schema
        && !schema.contains_key("type")
    {
        // Required, and arguments are an object in any case.
        schema.insert("type".into(), "object".into());
    }
    map.insert("input_schema".into(), schema);
    if let Some(strict) = tool.strict {
        map.insert("strict".into(), strict.into());
    }
    add_unknown(&tool.extra, &[], &mut map);
    Some(Value::Object(map))
}

/// The tools that the history calls, without what is not known of them.
fn tools_of_history(request: &ChatRequest, names: &ToolNames) -> Vec<Value> {
    let mut called: Vec<&str> = Vec::new();
    let parts = request.messages.iter().flat_map(|m| &m.parts);
    for part in parts {
        if let evenkeel_core::Part::ToolCall(call) = part {
            let name = names.wire(&call.name);
            if !called.contains(&name) {
                called.push(name);
            }
        }
    }
    let tool = |name| json!({"name": name, "input_schema": no_parameters()});
    called.into_iter().map(tool).collect()
}

fn tool_choice(
    request: &ChatRequest,
    names: &ToolNames,
    settled: &Settled,
    adapted: &mut Adapted,
) -> Option<Value> {
    let parallel = request.parallel_tool_calls;
    let mut map = Map::new();
    let kind = match (&request.tool_choice, parallel) {
        (None, None) => return None,
        (None | Some(ToolChoice::Auto), _) => "auto",
        (Some(ToolChoice::None), _) => return Some(json!({"type": "none"})),
        (Some(ToolChoice::Required | ToolChoice::Named(_)), _) if settled.is_on() => {
            adapted.note(
                what::TOOL_CHOICE,
                "cannot be forced beside reasoning, sent as auto",
            );
            "auto"
        }
        (Some(ToolChoice::Required), _) => "any",
        (Some(ToolChoice::Named(name)), _) => {
            map.insert("name".into(), names.wire(name).into());
            "tool"
        }
    };
    map.insert("type".into(), kind.into());
    if let Some(parallel) = parallel {
        map.insert("disable_parallel_tool_use".into(), (!parallel).into());
    }
    Some(map.into())
}

fn output_config(
    request: &ChatRequest,
    settled: &Settled,
    map: &mut Map<String, Value>,
    adapted: &mut Adapted,
) {
    let mut config = match kept(&request.extra, "output_config") {
        Some(Value::Object(more)) => more.clone(),
        _ => Map::new(),
    };
    match &request.output {
        Output::Text => {}
        // The format has a schema or nothing.
        Output::JsonObject => adapted.left_out("response_format json_object"),
        Output::JsonSchema {
            schema,
            description,
            ..
        } => {
            if description.is_some() {
                adapted.left_out(what::SCHEMA_DESCRIPTION);
            }
            let format = json!({"type": "json_schema", "schema": schema});
            config.insert("format".into(), format);
        }
    }
    if let Some(effort) = settled.effort {
        config.insert("effort".into(), effort.into());
    }
    if !config.is_empty() {
        map.insert("output_config".into(), config.into());
    }
}

fn sampling(
    request: &ChatRequest,
    options: &Options,
    settled: &Settled,
    map: &mut Map<String, Value>,
    adapted: &mut Adapted,
) {
    let sampling = &request.sampling;
    let refused = options.version == Version::V2026 || options.sampling == Support::No;
    // Beside reasoning only `top_p` from 0.95 up is taken.
    let fixed = settled.is_on();
    let temperature = sampling.temperature.map(|temperature| {
        let fitting = temperature.clamp(0.0, 1.0);
        if !(0.0..=1.0).contains(&temperature) && !refused && !fixed {
            adapted.clamped("temperature");
        }
        Value::from(fitting)
    });
    // Newer models refuse the two together, and its name does not tell which a model is.
    let one_of_two = !fixed && temperature.is_some() && options.sampling != Support::Yes;
    let top_p_fits = sampling.top_p.is_some_and(|p| (0.95..=1.0).contains(&p));
    for (name, value, fixed) in [
        ("temperature", temperature, fixed),
        (
            "top_p",
            sampling.top_p.map(Value::from),
            fixed && !top_p_fits,
        ),
        ("top_k", sampling.top_k.map(Value::from), fixed),
    ] {
        match value {
            Some(_) if refused => adapted.refused(name),
            Some(_) if fixed => adapted.note(name, "refused beside reasoning, left out"),
            Some(_) if name == "top_p" && one_of_two => {
                adapted.note(name, "newer models refuse it beside temperature, left out");
            }
            Some(value) => {
                map.insert(name.into(), value);
            }
            None => {}
        }
    }
    for (name, given) in [
        ("presence_penalty", sampling.presence_penalty.is_some()),
        ("frequency_penalty", sampling.frequency_penalty.is_some()),
        ("seed", sampling.seed.is_some()),
    ] {
        if given {
            adapted.left_out(name);
        }
    }
}

fn stop(request: &ChatRequest, map: &mut Map<String, Value>, adapted: &mut Adapted) {
    let visible = |text: &&String| !text.trim().is_empty();
    let stop: Vec<&str> = request
        .stop
        .iter()
        .filter(visible)
        .map(String::as_str)
        .collect();
    if stop.len() < request.stop.len() {
        adapted.note("stop", "white space alone is refused, left out");
    }
    if !stop.is_empty() {
        map.insert("stop_sequences".into(), stop.into());
    }
}

fn metadata(request: &ChatRequest, map: &mut Map<String, Value>, adapted: &mut Adapted) {
    let mut metadata = match kept(&request.extra, "metadata") {
        Some(Value::Object(more)) => more.clone(),
        _ => Map::new(),
    };
    if let Some(user) = &request.user {
        metadata.insert("user_id".into(), user.as_str().into());
    }
    if !metadata.is_empty() {
        map.insert("metadata".into(), metadata.into());
    }
    if !request.metadata.is_empty() {
        adapted.left_out("metadata");
    }
}
