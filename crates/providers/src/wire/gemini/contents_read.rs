//! The conversation: JSON to neutral form.

use super::ids::{Ids, is_made_up};
use super::names::camel_keys;
use super::parts_write::Style;
use super::{extra, parts_read};
use crate::wire::RequestError;
use crate::wire::adapted::Adapted;
use crate::wire::fields::Fields;
use crate::wire::tool_names::ToolNames;
use evenkeel_core::{Message, Part, Role};
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};

/// Reads `systemInstruction` and `contents`.
pub(super) fn messages(
    system: Option<Value>,
    contents: Vec<Value>,
) -> Result<Vec<Message>, RequestError> {
    if contents.is_empty() {
        return Err(RequestError::new(
            "empty_array",
            "contents",
            "`contents` must hold at least one content".into(),
        ));
    }
    let mut reader = Reader::default();
    let mut messages = Vec::with_capacity(contents.len() + 1);
    if let Some(system) = system {
        let path = "systemInstruction";
        let mut content = Content::of(system, path)?;
        // A role says nothing here; some clients give one.
        let role = content
            .role
            .take()
            .map(|role| ("role".to_owned(), role.into()));
        content.rest.extend(role);
        messages.extend(reader.message(Role::System, content.parts, content.rest, path)?);
    }
    for (i, content) in contents.into_iter().enumerate() {
        reader.content(content, &format!("contents[{i}]"), &mut messages)?;
    }
    Ok(messages)
}

/// One content, in one spelling.
struct Content {
    role: Option<String>,
    parts: Vec<Map<String, Value>>,
    rest: Map<String, Value>,
}

impl Content {
    fn of(value: Value, path: &str) -> Result<Self, RequestError> {
        let map = match value {
            Value::Object(map) => camel_keys(map),
            other => return Err(RequestError::wrong_type(path.into(), "an object", &other)),
        };
        let mut fields = Fields::new(map, path);
        let role = fields.string("role")?;
        let path = fields.path("parts");
        // Google's parser takes a single part for a list of one.
        let parts = match fields.take("parts") {
            None => Vec::new(),
            Some(Value::Array(parts)) => parts,
            Some(part) => vec![part],
        };
        let parts = parts.into_iter().enumerate().map(|(i, part)| match part {
            Value::Object(part) => Ok(parts_read::normal(part)),
            other => Err(RequestError::wrong_type(
                format!("{path}[{i}]"),
                "an object",
                &other,
            )),
        });
        Ok(Self {
            role,
            parts: parts.collect::<Result<_, _>>()?,
            rest: fields.rest(),
        })
    }
}

/// Reads contents one after the other.
#[derive(Default)]
struct Reader {
    ids: Ids,
    open: OpenCalls,
}

/// The calls of the last model turn that no result has answered yet.
#[derive(Default)]
struct OpenCalls {
    ids: Vec<Option<String>>,
    by_id: HashMap<String, usize>,
    by_name: HashMap<String, VecDeque<usize>>,
}

impl OpenCalls {
    fn add(&mut self, id: &str, name: &str) {
        let at = self.ids.len();
        self.by_id.insert(id.to_owned(), at);
        self.by_name
            .entry(name.to_owned())
            .or_default()
            .push_back(at);
        self.ids.push(Some(id.to_owned()));
    }

    fn close(&mut self, id: &str) {
        if let Some(at) = self.by_id.get(id) {
            self.ids[*at] = None;
        }
    }

    /// Closes the first open call of that name.
    fn close_first_of(&mut self, name: &str) -> Option<String> {
        let waiting = self.by_name.get_mut(name)?;
        std::iter::from_fn(|| waiting.pop_front()).find_map(|at| self.ids[at].take())
    }
}

impl Reader {
    fn content(
        &mut self,
        value: Value,
        path: &str,
        out: &mut Vec<Message>,
    ) -> Result<(), RequestError> {
        let content = Content::of(value, path)?;
        match content.role.as_deref() {
            Some("model") => {
                self.open = OpenCalls::default();
                out.extend(self.message(Role::Assistant, content.parts, content.rest, path)?);
            }
            None | Some("user" | "function") => {
                let mut rest = content.rest;
                for run in runs(content.parts) {
                    let answers = run[0].contains_key("functionResponse");
                    let role = if answers { Role::Tool } else { Role::User };
                    out.extend(self.message(role, run, std::mem::take(&mut rest), path)?);
                }
            }
            Some(other) => {
                let message = format!("`{path}.role` must be user or model, got `{other}`");
                return Err(RequestError::invalid(format!("{path}.role"), message));
            }
        }
        Ok(())
    }

    /// A message of these parts; their written form is kept where the neutral
    /// parts say less.
    fn message(
        &mut self,
        role: Role,
        raw: Vec<Map<String, Value>>,
        mut rest: Map<String, Value>,
        path: &str,
    ) -> Result<Option<Message>, RequestError> {
        if raw.is_empty() && rest.is_empty() && role != Role::Assistant {
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(raw.len());
        let mut is_plain = true;
        for (i, part) in raw.iter().enumerate() {
            let first = parts.len();
            parts_read::read(
                part,
                &format!("{path}.parts[{i}]"),
                &mut self.ids,
                &mut parts,
            )?;
            is_plain &= says_the_same(&parts[first..], part);
            parts[first..]
                .iter_mut()
                .for_each(|part| self.pair(part, &raw[i]));
        }
        if !is_plain {
            let raw: Vec<Value> = raw.into_iter().map(Value::Object).collect();
            rest.insert("parts".into(), raw.into());
        }
        Ok(Some(Message {
            role,
            parts,
            name: None,
            extra: extra(rest),
        }))
    }

    /// Finds the call that a result without an id answers: the first open one
    /// of its name.
    fn pair(&mut self, part: &mut Part, raw: &Map<String, Value>) {
        match part {
            Part::ToolCall(call) => self.open.add(&call.id, &call.name),
            Part::ToolResult(result) if result.call_id.is_empty() => {
                let name = raw["functionResponse"]["name"].as_str().unwrap_or_default();
                result.call_id = self.open.close_first_of(name).unwrap_or_default();
            }
            Part::ToolResult(result) => self.open.close(&result.call_id),
            _ => {}
        }
    }
}

/// The parts in runs of function responses and of everything else.
fn runs(parts: Vec<Map<String, Value>>) -> Vec<Vec<Map<String, Value>>> {
    let mut runs: Vec<Vec<Map<String, Value>>> = Vec::new();
    for part in parts {
        let answers = part.contains_key("functionResponse");
        match runs.last_mut() {
            Some(run) if run[0].contains_key("functionResponse") == answers => run.push(part),
            _ => runs.push(vec![part]),
        }
    }
    runs
}

/// Whether the neutral parts, written, are the part they were read from.
pub(super) fn says_the_same(parts: &[Part], raw: &Map<String, Value>) -> bool {
    let names = ToolNames::default();
    let style = Style::plain(&names);
    let mut adapted = Adapted::default();
    let written = match parts {
        [Part::ToolResult(result)] => {
            let name = raw["functionResponse"]["name"].as_str().unwrap_or_default();
            vec![style.result(result, name, &mut Vec::new(), &mut adapted)]
        }
        parts => style.parts(parts, &mut adapted),
    };
    matches!(&written[..], [Value::Object(written)] if written == raw)
}

/// The parts that `raw`, the kept form of a message's parts, says, each with
/// its made-up id taken out; none where it cannot be read.
pub(super) fn of_written_form(raw: &[Value]) -> Option<Vec<Part>> {
    let mut ids = Ids::default();
    let mut parts = Vec::with_capacity(raw.len());
    for part in raw {
        parts_read::read(part.as_object()?, "", &mut ids, &mut parts).ok()?;
    }
    for part in &mut parts {
        if let Part::ToolCall(call) = part
            && is_made_up(&call.id)
        {
            call.id.clear();
        }
    }
    Some(parts)
}
