//! What an answer says, fitted to its request.

use super::check::{parse_nonce, tokens_of};
use super::{Label, instance};
use crate::Behaviour;
use evenkeel_core::{
    ChatRequest, Delta, Finish, Message, Output, Part, Role, Tool, ToolChoice, Value,
};

/// Most tokens of an answer, more than any model gives out: an answer without
/// a sensible length is not to fill the memory.
const MAX_TOKENS: u32 = 1_000_000;
/// Most calls of one answer.
const MAX_CALLS: u32 = 10_000;
/// Characters of JSON that make a token.
const JSON_TOKEN: usize = 4;

/// What an answer says behind its reasoning, in tokens.
#[derive(Debug, Clone)]
pub(super) struct Content {
    body: Body,
    pub(super) tokens: u32,
    /// Why it ends where nothing cuts it.
    pub(super) finish: Finish,
    /// The stop text that was met.
    pub(super) stop_text: Option<String>,
}

#[derive(Debug, Clone)]
enum Body {
    /// `[[who]] n42 t0 t1 …`, without the first `from` tokens.
    Numbered { nonce: u64, from: u32 },
    /// A text in pieces.
    Pieces(Vec<Box<str>>),
    /// Tool calls, each of them begun by one token.
    Calls(Vec<Vec<Delta>>),
}

impl Content {
    pub(super) fn new(label: &Label, behaviour: &Behaviour, request: &ChatRequest) -> Self {
        let tools = called(behaviour, request);
        if !tools.is_empty() {
            let calls = tools.iter().enumerate();
            let calls: Vec<_> = calls
                .flat_map(|(index, tool)| call(label, behaviour, index, tool))
                .collect();
            return Self::of(calls.len(), Body::Calls(calls), Finish::ToolUse);
        }
        let text = Self::text(behaviour, request);
        match text.met_stop(label, &request.stop) {
            Some(cut) => cut,
            None => text,
        }
    }

    /// The text, where no tool is called and no stop text met.
    fn text(behaviour: &Behaviour, request: &ChatRequest) -> Self {
        let prefill = prefill(behaviour, request);
        let json = match &request.output {
            Output::JsonSchema { schema, .. } => Some(instance::minimal(schema).to_string()),
            Output::JsonObject => Some("{}".to_owned()),
            Output::Text => None,
        };
        let pieces = if let Some(text) = &behaviour.text {
            words(text.strip_prefix(prefill.as_str()).unwrap_or(text))
        } else if let Some(json) = json {
            fragments(json.strip_prefix(prefill.as_str()).unwrap_or(&json))
        } else {
            let nonce = nonce(request);
            let from = tokens_of(&prefill, nonce).unwrap_or(0);
            let left = behaviour.tokens.saturating_sub(from) as usize;
            return Self::of(left, Body::Numbered { nonce, from }, Finish::Stop);
        };
        Self::of(pieces.len(), Body::Pieces(pieces), Finish::Stop)
    }

    fn of(tokens: usize, body: Body, finish: Finish) -> Self {
        Self {
            body,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX).min(MAX_TOKENS),
            finish,
            stop_text: None,
        }
    }

    /// The text up to the first of `stops` in it; none where none is in it.
    fn met_stop(&self, label: &Label, stops: &[String]) -> Option<Self> {
        let stops = stops.iter().filter(|stop| !stop.is_empty());
        let mut stops = stops.peekable();
        stops.peek()?;
        let said: String = (0..self.tokens).map(|at| self.text_at(label, at)).collect();
        let (at, stop) = stops
            .filter_map(|stop| Some((said.find(stop.as_str())?, stop)))
            .min_by_key(|(at, _)| *at)?;
        let pieces = words(&said[..at]);
        let mut cut = Self::of(pieces.len(), Body::Pieces(pieces), Finish::StopSequence);
        cut.stop_text = Some(stop.clone());
        Some(cut)
    }

    /// What token `index` brings. Beyond the end a text begins anew and a call
    /// goes on in blanks: an endless answer asks for that.
    pub(super) fn deltas(&self, label: &Label, index: u32) -> Vec<Delta> {
        match &self.body {
            Body::Calls(tokens) => tokens.get(index as usize).cloned().unwrap_or_else(|| {
                let begun = |token: &&Vec<Delta>| matches!(token[0], Delta::ToolCallStart { .. });
                vec![Delta::ToolCallArguments {
                    index: tokens.iter().filter(begun).count().saturating_sub(1),
                    fragment: " ".to_owned(),
                }]
            }),
            _ => vec![Delta::Text(self.text_at(label, index))],
        }
    }

    fn text_at(&self, label: &Label, index: u32) -> String {
        match &self.body {
            Body::Numbered { nonce, from } => match from.saturating_add(index) {
                0 => format!("[[{}/{}]] n{nonce} t0", label.provider, label.model),
                token => format!(" t{token}"),
            },
            Body::Pieces(pieces) => {
                let at = index as usize % pieces.len().max(1);
                pieces
                    .get(at)
                    .map_or_else(String::new, |p| String::from(&**p))
            }
            Body::Calls(_) => String::new(),
        }
    }
}

/// The tools that the answer calls, in order.
fn called<'a>(behaviour: &Behaviour, request: &'a ChatRequest) -> Vec<&'a Tool> {
    let has_results = request.messages.last().is_some_and(|message| {
        let parts = &message.parts;
        message.role == Role::Tool || parts.iter().any(|p| matches!(p, Part::ToolResult(_)))
    });
    let (choice, demanded) = match &request.tool_choice {
        Some(ToolChoice::None) => return Vec::new(),
        Some(ToolChoice::Required) => (None, true),
        Some(ToolChoice::Named(name)) => (Some(name), true),
        Some(ToolChoice::Auto) | None => (None, false),
    };
    let told = if has_results { 0 } else { behaviour.calls };
    let wanted = told.max(u32::from(demanded)).min(MAX_CALLS);
    let wanted = match request.parallel_tool_calls {
        Some(false) => wanted.min(1),
        _ => wanted,
    };
    let fits = |tool: &&Tool| choice.is_none_or(|name| tool.name == *name);
    let fitting: Vec<&Tool> = request.tools.iter().filter(fits).collect();
    fitting.into_iter().cycle().take(wanted as usize).collect()
}

/// The tokens of a call.
fn call(label: &Label, behaviour: &Behaviour, index: usize, tool: &Tool) -> Vec<Vec<Delta>> {
    let dialect = label.dialect;
    let mut begun = vec![Delta::ToolCallStart {
        index,
        id: dialect.call_id(&label.provider, label.number, index),
        name: tool.name.clone(),
    }];
    if index == 0
        && behaviour.signed
        && let Some(extra) = dialect.call_signature()
    {
        begun.push(Delta::ToolCallExtra { index, extra });
    }
    let arguments = tool.parameters.as_ref().map(instance::minimal);
    // Arguments are an object, whatever the schema says.
    let arguments = arguments.filter(Value::is_object);
    let arguments = arguments.map_or_else(|| "{}".to_owned(), |value| value.to_string());
    let pieces = fragments(&arguments).into_iter().map(|piece| {
        vec![Delta::ToolCallArguments {
            index,
            fragment: piece.into_string(),
        }]
    });
    std::iter::once(begun).chain(pieces).collect()
}

/// The assistant's message at the end of the request, which the answer
/// continues; empty where there is none or it is not to be continued.
fn prefill(behaviour: &Behaviour, request: &ChatRequest) -> String {
    let last = request.messages.last();
    last.filter(|m| behaviour.continues && m.role == Role::Assistant)
        .map(Message::plain_text)
        .unwrap_or_default()
}

/// The words of a text, each with the white space before it; the last also
/// has what follows it. Joined they are the text.
fn words(text: &str) -> Vec<Box<str>> {
    let mut pieces = Vec::new();
    let (mut start, mut in_word) = (0, false);
    for (at, c) in text.char_indices() {
        if c.is_whitespace() && in_word {
            pieces.push(Box::from(&text[start..at]));
            start = at;
        }
        in_word = !c.is_whitespace();
    }
    if start < text.len() {
        pieces.push(Box::from(&text[start..]));
    }
    pieces
}

/// JSON text in tokens.
fn fragments(json: &str) -> Vec<Box<str>> {
    let chars: Vec<char> = json.chars().collect();
    let pieces = chars.chunks(JSON_TOKEN);
    pieces
        .map(|piece| piece.iter().collect::<String>().into())
        .collect()
}

/// The request's own number: the last word of its last user message, if it
/// has the form `n123`, else 0.
fn nonce(request: &ChatRequest) -> u64 {
    let asked = request.messages.iter().rfind(|m| m.role == Role::User);
    asked
        .map(Message::plain_text)
        .and_then(|text| parse_nonce(text.split_whitespace().next_back()?))
        .unwrap_or(0)
}
