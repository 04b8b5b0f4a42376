//! Requests: neutral form to JSON, as each server wants it.

use super::messages_write::{self, MessageStyle, add_unknown};
use super::{request_read, written_form};
use crate::wire::Server;
use evenkeel_core::{ChatRequest, Output, Tool, ToolChoice};
use serde_json::{Map, Value, json};

/// The field that caps the answer.
#[derive(Debug, Clone, Copy)]
enum Cap {
    /// `max_completion_tokens`: reasoning models refuse the older name.
    New,
    /// `max_tokens`: these servers ignore or refuse the newer name, and an
    /// ignored cap lets the answer run on unbounded.
    Old,
    /// As the caller wrote it; `max_tokens`, which every server has known
    /// longest, where the caller spoke another dialect.
    AsWritten,
}

/// What differs between servers.
#[derive(Debug, Clone, Copy)]
struct Style {
    message: MessageStyle,
    cap: Cap,
    stream_options: bool,
}

impl Style {
    /// Everything as the caller said it.
    const FAITHFUL: Self = Self {
        message: MessageStyle {
            developer: true,
            reasoning: Some("reasoning_content"),
        },
        cap: Cap::AsWritten,
        stream_options: true,
    };

    fn of(server: Server) -> Self {
        let developer = matches!(server, Server::OpenAi | Server::Azure | Server::OpenRouter);
        let reasoning = match server {
            // No place for it, and unknown fields are refused.
            Server::OpenAi
            | Server::Azure
            | Server::Mistral
            | Server::Gemini
            | Server::Anthropic => None,
            Server::OpenRouter | Server::Groq | Server::Ollama => Some("reasoning"),
            Server::DeepSeek | Server::Vllm | Server::LlamaCpp | Server::Compatible => {
                Some("reasoning_content")
            }
        };
        let cap = match server {
            Server::OpenAi | Server::Azure | Server::Groq => Cap::New,
            Server::OpenRouter | Server::DeepSeek | Server::Ollama | Server::Mistral => Cap::Old,
            Server::Vllm
            | Server::LlamaCpp
            | Server::Compatible
            | Server::Anthropic
            | Server::Gemini => Cap::AsWritten,
        };
        Self {
            message: MessageStyle {
                developer,
                reasoning,
            },
            cap,
            // Mistral refuses unknown fields and reports usage by itself.
            stream_options: server != Server::Mistral,
        }
    }
}

/// Writes a request as the caller said it. A stream always asks for usage.
///
/// [`decode_request`](super::decode_request) reads the same request back.
pub fn encode_request(request: &ChatRequest, model: &str, stream: bool) -> Value {
    encode(request, model, stream, Style::FAITHFUL)
}

/// Writes a request in the words of `server`: the role `developer` becomes
/// `system` where it is unknown, the cap on output tokens goes into the field
/// that the server obeys, and earlier reasoning goes where it is taken back.
///
/// The cap is `max_completion_tokens` at `OpenAI`, Azure and Groq;
/// `max_tokens` at `OpenRouter`, `DeepSeek`, Ollama and Mistral; elsewhere the
/// name the caller used.
pub fn encode_request_for(
    server: Server,
    request: &ChatRequest,
    model: &str,
    stream: bool,
) -> Value {
    encode(request, model, stream, Style::of(server))
}

fn encode(request: &ChatRequest, model: &str, stream: bool, style: Style) -> Value {
    let mut map = Map::new();
    map.insert("model".into(), model.into());
    let mut messages = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        messages_write::write(message, style.message, &mut messages);
    }
    map.insert("messages".into(), messages.into());
    if stream {
        map.insert("stream".into(), true.into());
        if style.stream_options {
            map.insert("stream_options".into(), stream_options(request));
        }
    }
    tools(request, &mut map);
    let raw_format = written_form(&request.extra, "response_format", |raw| {
        request_read::output_of(raw).is_ok_and(|output| output == request.output)
    });
    if let Some(format) = raw_format
        .cloned()
        .or_else(|| response_format(&request.output))
    {
        map.insert("response_format".into(), format);
    }
    sampling(request, &mut map);
    cap(request, style.cap, &mut map);
    if !request.stop.is_empty() {
        map.insert("stop".into(), request.stop.as_slice().into());
    }
    if !request.metadata.is_empty() {
        map.insert("metadata".into(), request.metadata.clone().into());
    }
    let forms = [
        "response_format",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
    ];
    add_unknown(&request.extra, &forms, &mut map);
    Value::Object(map)
}

fn stream_options(request: &ChatRequest) -> Value {
    let mut options = match written_form(&request.extra, "stream_options", Value::is_object) {
        Some(Value::Object(options)) => options.clone(),
        _ => Map::new(),
    };
    options.insert("include_usage".into(), true.into());
    Value::Object(options)
}

fn tools(request: &ChatRequest, map: &mut Map<String, Value>) {
    if !request.tools.is_empty() {
        map.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    let choice = request.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) => json!({"type": "function", "function": {"name": name}}),
    });
    if let Some(choice) = choice {
        map.insert("tool_choice".into(), choice);
    }
    if let Some(parallel) = request.parallel_tool_calls {
        map.insert("parallel_tool_calls".into(), parallel.into());
    }
}

fn tool(tool: &Tool) -> Value {
    if written_form(&tool.extra, "type", Value::is_string).is_some() {
        return Value::Object(tool.extra.fields.clone());
    }
    let mut function = Map::new();
    function.insert("name".into(), tool.name.as_str().into());
    if let Some(description) = &tool.description {
        function.insert("description".into(), description.as_str().into());
    }
    if let Some(parameters) = &tool.parameters {
        function.insert("parameters".into(), parameters.clone());
    }
    if let Some(strict) = tool.strict {
        function.insert("strict".into(), strict.into());
    }
    if let Some(Value::Object(inner)) = written_form(&tool.extra, "function", Value::is_object) {
        for (name, value) in inner {
            function
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
    }
    let mut map = Map::new();
    map.insert("type".into(), "function".into());
    map.insert("function".into(), function.into());
    add_unknown(&tool.extra, &["function"], &mut map);
    Value::Object(map)
}

/// The `response_format` of an output shape; none for text.
pub(super) fn response_format(output: &Output) -> Option<Value> {
    match output {
        Output::Text => None,
        Output::JsonObject => Some(json!({"type": "json_object"})),
        Output::JsonSchema {
            name,
            schema,
            strict,
            description,
        } => {
            let mut inner = Map::new();
            inner.insert("name".into(), name.as_str().into());
            if let Some(description) = description {
                inner.insert("description".into(), description.as_str().into());
            }
            if *strict {
                inner.insert("strict".into(), true.into());
            }
            inner.insert("schema".into(), schema.clone());
            Some(json!({"type": "json_schema", "json_schema": inner}))
        }
    }
}

fn sampling(request: &ChatRequest, map: &mut Map<String, Value>) {
    let sampling = &request.sampling;
    for (name, value) in [
        ("temperature", sampling.temperature),
        ("top_p", sampling.top_p),
        ("presence_penalty", sampling.presence_penalty),
        ("frequency_penalty", sampling.frequency_penalty),
    ] {
        if let Some(value) = value {
            map.insert(name.into(), value.into());
        }
    }
    if let Some(seed) = sampling.seed {
        map.insert("seed".into(), seed.into());
    }
}

fn cap(request: &ChatRequest, cap: Cap, map: &mut Map<String, Value>) {
    let Some(tokens) = request.max_output_tokens else {
        return;
    };
    let own = request.extra.dialect == super::DIALECT;
    let wrote_old = request.extra.fields.contains_key("max_tokens");
    let name = match cap {
        Cap::New => "max_completion_tokens",
        Cap::AsWritten if own && !wrote_old => "max_completion_tokens",
        Cap::Old | Cap::AsWritten => "max_tokens",
    };
    map.insert(name.into(), tokens.into());
}
