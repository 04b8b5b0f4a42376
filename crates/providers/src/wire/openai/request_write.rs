//! Requests: neutral form to JSON, as each server wants it.

use super::messages_write::{self, add_unknown};
use super::style::{Cap, EffortField, Options, Style, UserField};
use super::unwanted::STREAM_OPTIONS;
use super::{prepare, request_read, written_form};
use crate::wire::Encoded;
use crate::wire::adapted::{Adapted, done, what};
use crate::wire::effort;
use crate::wire::tool_names::ToolNames;
use evenkeel_core::{ChatRequest, Output, Reasoning, Tool, ToolChoice};
use serde_json::{Map, Value, json};

/// Fields that `extra` may hold as written forms: what they say is said by the
/// neutral request.
const FORMS: [&str; 10] = [
    "response_format",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "reasoning",
    "reasoning_effort",
    "user",
    "safety_identifier",
    "top_k",
    "tool_choice",
];

/// Writes a request. A stream always asks for usage.
///
/// For a server ([`Options::server`]) it is written in that server's words: the
/// role `developer` becomes `system` where it is unknown, the cap on output
/// tokens goes into the field that the server obeys, earlier reasoning goes
/// where it is taken back, and what the server has no place for is left out
/// and told. For none it is written as the caller said it;
/// [`decode_request`](super::decode_request) reads the same request back.
///
/// The cap is `max_completion_tokens` at `OpenAI`, Azure and Groq;
/// `max_tokens` at `OpenRouter`, `DeepSeek` and Ollama; elsewhere the name the
/// caller used.
pub fn encode_request(
    request: &ChatRequest,
    model: &str,
    stream: bool,
    options: &Options,
) -> Encoded {
    encode(request, model, stream, &Style::of(*options))
}

pub(in crate::wire) fn encode(
    request: &ChatRequest,
    model: &str,
    stream: bool,
    style: &Style,
) -> Encoded {
    let names = match style.tool_names {
        Some(rule) => ToolNames::of(request, rule),
        None => ToolNames::default(),
    };
    let mut writer = RequestWriter {
        request,
        style,
        names: &names,
        adapted: Adapted::default(),
        map: Map::new(),
    };
    writer.write(model, stream);
    let RequestWriter {
        mut adapted, map, ..
    } = writer;
    if !names.is_empty() {
        adapted.note(what::TOOL_NAMES, done::RENAMED);
    }
    Encoded {
        body: Value::Object(map),
        adapted: adapted.into_lines(),
        tool_names: names.into_own_by_wire(),
    }
}

struct RequestWriter<'a> {
    request: &'a ChatRequest,
    style: &'a Style,
    names: &'a ToolNames,
    adapted: Adapted,
    map: Map<String, Value>,
}

impl RequestWriter<'_> {
    fn write(&mut self, model: &str, stream: bool) {
        if !self.style.model_in_path {
            self.put("model", model);
        }
        let messages = prepare::messages(self.request, self.style, self.names, &mut self.adapted);
        let messages = messages_write::write(&messages, self.style, &mut self.adapted);
        self.put("messages", messages);
        if stream {
            self.put("stream", true);
            if self.style.stream_options {
                self.put(STREAM_OPTIONS, self.stream_options());
            }
        }
        self.tools();
        self.output();
        self.sampling();
        self.cap();
        self.stop();
        self.reasoning();
        self.metadata();
        self.user();
        self.rest();
    }

    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.map.insert(name.to_owned(), value.into());
    }

    /// A field's written form, if it still says what `still_true` wants.
    fn form(&self, name: &str, still_true: impl FnOnce(&Value) -> bool) -> Option<Value> {
        written_form(&self.request.extra, self.style.dialect, name, still_true).cloned()
    }

    fn stream_options(&self) -> Value {
        let mut options = match self.form("stream_options", Value::is_object) {
            Some(Value::Object(options)) => options,
            _ => Map::new(),
        };
        options.insert("include_usage".into(), true.into());
        Value::Object(options)
    }

    fn tools(&mut self) {
        let tools = &self.request.tools;
        let choice = self.request.tool_choice.as_ref();
        // Where no choice can be made, no tools are the way to have none called.
        let unasked = choice == Some(&ToolChoice::None) && !self.style.tool_choice;
        let written: Vec<Value> = tools
            .iter()
            .filter(|_| !unasked)
            .filter_map(|tool| self.tool(tool))
            .collect();
        let has_tools = !written.is_empty() || self.style.faithful;
        if unasked && !tools.is_empty() {
            self.adapted
                .note(what::TOOL_CHOICE, done::WITHOUT_TOOLS_INSTEAD);
        }
        if !written.is_empty() {
            self.put("tools", written);
        }
        match choice {
            None => {}
            Some(_) if unasked => {}
            Some(_) if !self.style.tool_choice => self.adapted.left_out(what::TOOL_CHOICE),
            Some(ToolChoice::None) if !has_tools => {}
            Some(_) if !has_tools => self.adapted.note(what::TOOL_CHOICE, done::WITHOUT_TOOLS),
            Some(choice) => {
                let choice = self.tool_choice(choice);
                self.put("tool_choice", choice);
            }
        }
        match self.request.parallel_tool_calls {
            None => {}
            Some(_) if !self.style.parallel => self.adapted.left_out(what::PARALLEL),
            Some(_) if !has_tools => self.adapted.note(what::PARALLEL, done::WITHOUT_TOOLS),
            Some(parallel) => self.put("parallel_tool_calls", parallel),
        }
        // A form that no neutral choice stands for, such as a list of allowed tools.
        match self.form("tool_choice", Value::is_object) {
            Some(form) if choice.is_none() && self.style.tool_choice && has_tools => {
                self.put("tool_choice", form);
            }
            Some(_) if choice.is_none() => self.adapted.left_out(what::TOOL_CHOICE),
            _ => {}
        }
    }

    fn tool_choice(&self, choice: &ToolChoice) -> Value {
        match choice {
            ToolChoice::Auto => "auto".into(),
            ToolChoice::None => "none".into(),
            ToolChoice::Required => self.style.required.into(),
            ToolChoice::Named(name) => {
                json!({"type": "function", "function": {"name": self.names.wire(name)}})
            }
        }
    }

    fn tool(&mut self, tool: &Tool) -> Option<Value> {
        let own = tool.extra.dialect == self.style.dialect;
        let by_provider = tool.extra.fields.get("type").is_some_and(Value::is_string);
        if by_provider && own {
            return Some(Value::Object(tool.extra.fields.clone()));
        }
        if by_provider {
            self.adapted.foreign(what::SERVER_TOOL);
            return None;
        }
        if !own && !tool.extra.fields.is_empty() {
            self.adapted.foreign(what::EXTRA);
        }
        let mut function = Map::new();
        function.insert("name".into(), self.names.wire(&tool.name).into());
        if let Some(description) = &tool.description {
            function.insert("description".into(), description.as_str().into());
        }
        match &tool.parameters {
            Some(parameters) => {
                function.insert("parameters".into(), parameters.clone());
            }
            None if self.style.needs_parameters => {
                let empty = json!({"type": "object", "properties": {}});
                function.insert("parameters".into(), empty);
            }
            None => {}
        }
        if let Some(strict) = tool.strict {
            function.insert("strict".into(), strict.into());
        }
        let inner = written_form(
            &tool.extra,
            self.style.dialect,
            "function",
            Value::is_object,
        );
        for (name, value) in inner.and_then(Value::as_object).into_iter().flatten() {
            function
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
        let mut map = Map::new();
        map.insert("type".into(), "function".into());
        map.insert("function".into(), function.into());
        add_unknown(&tool.extra, self.style.dialect, &["function"], &mut map);
        Some(Value::Object(map))
    }

    fn output(&mut self) {
        let form = self.form("response_format", |raw| {
            request_read::output_of(raw).is_ok_and(|output| output == self.request.output)
        });
        if let Some(format) = form.or_else(|| response_format(&self.request.output)) {
            self.put("response_format", format);
        }
    }

    fn sampling(&mut self) {
        let sampling = &self.request.sampling;
        let temperature = sampling.temperature.map(|t| self.temperature(t));
        for (name, value, known) in [
            ("temperature", temperature, true),
            ("top_p", sampling.top_p, true),
            (
                "presence_penalty",
                sampling.presence_penalty,
                self.style.penalties,
            ),
            (
                "frequency_penalty",
                sampling.frequency_penalty,
                self.style.penalties,
            ),
        ] {
            match value {
                None => {}
                Some(_) if !known => self.adapted.left_out(name),
                Some(_) if self.style.fixed_sampling => self.adapted.refused(name),
                Some(value) => self.put(name, value),
            }
        }
        match sampling.top_k {
            None => {}
            Some(_) if !self.style.top_k => self.adapted.left_out("top_k"),
            Some(_) if self.style.fixed_sampling => self.adapted.refused("top_k"),
            Some(top_k) => self.put("top_k", top_k),
        }
        if let Some(seed) = sampling.seed {
            self.put(self.style.seed, seed);
        }
        // A `top_k` that is no count, such as vLLM's -1.
        match self.form("top_k", |_| sampling.top_k.is_none()) {
            Some(form) if self.style.top_k => self.put("top_k", form),
            Some(_) => self.adapted.left_out("top_k"),
            None => {}
        }
    }

    fn temperature(&mut self, asked: f64) -> f64 {
        match self.style.max_temperature {
            Some(most) if asked > most && !self.style.fixed_sampling => {
                self.adapted.note("temperature", done::LOWERED);
                most
            }
            _ => asked,
        }
    }

    fn cap(&mut self) {
        let Some(tokens) = self.request.max_output_tokens else {
            return;
        };
        let own = self.request.extra.dialect == self.style.dialect;
        let wrote_old = self.request.extra.fields.contains_key("max_tokens");
        let new = match self.style.cap {
            Cap::New => true,
            Cap::Old => false,
            Cap::AsWritten => own && !wrote_old,
        };
        self.put(self.style.unwanted.cap(new), tokens);
    }

    fn stop(&mut self) {
        let stop = &self.request.stop;
        if stop.len() > self.style.max_stop {
            self.adapted.note(what::STOP, done::TOO_MANY);
        }
        if !stop.is_empty() {
            self.put("stop", &stop[..stop.len().min(self.style.max_stop)]);
        }
    }

    fn reasoning(&mut self) {
        if self.style.effort == EffortField::AsWritten {
            for (name, value) in self.reasoning_as_written() {
                self.put(name, value);
            }
            return;
        }
        let asked = self.request.reasoning;
        let level = self.form("reasoning_effort", |_| true);
        let object = self.form("reasoning", |raw| {
            request_read::reasoning_of(level.as_ref(), Some(raw)) == asked
        });
        match (self.style.effort, asked) {
            (EffortField::Object, _) if object.is_some() => {
                self.map
                    .extend(object.map(|object| ("reasoning".to_owned(), object)));
            }
            (EffortField::Object, Some(asked)) => self.put("reasoning", reasoning_object(asked)),
            (EffortField::Level, Some(asked)) => {
                if asked.budget_tokens.is_some() {
                    self.adapted.note(what::REASONING, done::AS_LEVEL);
                }
                if let Some(level) = effort::level(asked) {
                    self.put("reasoning_effort", level.as_str());
                }
            }
            // A level of another name: the server may know it.
            (EffortField::Level, None) if level.is_some() => {
                self.map
                    .extend(level.map(|level| ("reasoning_effort".to_owned(), level)));
            }
            (_, None) if level.is_none() && object.is_none() => {}
            _ => self.adapted.left_out(what::REASONING),
        }
    }

    /// The fields that say how much to reason, as the caller wrote them where
    /// they still say the same.
    fn reasoning_as_written(&self) -> Vec<(&'static str, Value)> {
        let asked = self.request.reasoning;
        let forms = ["reasoning", "reasoning_effort"].map(|name| (name, self.form(name, |_| true)));
        let written = |name: &str| {
            let form = forms.iter().find(|(n, _)| *n == name);
            form.and_then(|(_, value)| value.clone())
        };
        let says = request_read::reasoning_of(
            written("reasoning_effort").as_ref(),
            written("reasoning").as_ref(),
        );
        let has_form = forms.iter().any(|(_, value)| value.is_some());
        if has_form && says == asked {
            let forms = forms.into_iter();
            return forms
                .filter_map(|(name, value)| Some((name, value?)))
                .collect();
        }
        asked.map(reasoning_field).into_iter().collect()
    }

    fn metadata(&mut self) {
        if self.request.metadata.is_empty() {
            return;
        }
        if self.style.metadata {
            self.put("metadata", self.request.metadata.clone());
        } else {
            self.adapted.left_out("metadata");
        }
    }

    fn user(&mut self) {
        let Some(user) = &self.request.user else {
            return;
        };
        match self.style.user {
            UserField::Nowhere => self.adapted.left_out(what::USER),
            UserField::Named(name) => self.put(name, user.as_str()),
            UserField::Metadata => {
                let metadata = self
                    .map
                    .entry("metadata")
                    .or_insert_with(|| Map::new().into());
                if let Some(metadata) = metadata.as_object_mut() {
                    metadata.insert("user_id".into(), user.as_str().into());
                }
            }
            UserField::AsWritten => {
                let same = |raw: &Value| raw.as_str() == Some(user);
                let newer = self.form("safety_identifier", same);
                let older = match &newer {
                    Some(_) => self.form("user", |_| true),
                    None => self.form("user", same),
                };
                let newer = newer.or_else(|| older.is_none().then(|| user.as_str().into()));
                for (name, value) in [("safety_identifier", newer), ("user", older)] {
                    if let Some(value) = value {
                        self.put(name, value);
                    }
                }
            }
        }
    }

    /// Fields without a neutral place: kept within the dialect.
    fn rest(&mut self) {
        let extra = &self.request.extra;
        if extra.dialect != self.style.dialect {
            if !extra.fields.is_empty() {
                self.adapted.foreign(what::EXTRA);
            }
            return;
        }
        for (name, value) in &extra.fields {
            if FORMS.contains(&name.as_str()) || self.map.contains_key(name) {
                continue;
            }
            match self.style.unknown.iter().find(|unknown| *unknown == name) {
                Some(unknown) => self.adapted.left_out(unknown),
                None => {
                    self.map.insert(name.clone(), value.clone());
                }
            }
        }
    }
}

/// The field that says how much to reason, where the caller wrote none.
pub(super) fn reasoning_field(asked: Reasoning) -> (&'static str, Value) {
    match asked {
        Reasoning {
            effort: Some(level),
            budget_tokens: None,
        } => ("reasoning_effort", level.as_str().into()),
        asked => ("reasoning", reasoning_object(asked)),
    }
}

fn reasoning_object(asked: Reasoning) -> Value {
    let mut map = Map::new();
    if let Some(level) = asked.effort {
        map.insert("effort".into(), level.as_str().into());
    }
    if let Some(tokens) = asked.budget_tokens {
        map.insert("max_tokens".into(), tokens.into());
    }
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
