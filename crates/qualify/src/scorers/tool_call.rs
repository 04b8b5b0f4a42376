//! `tool_call`: the right tool with the right arguments.

use super::form::arguments;
use super::grade::share;
use super::reference::{alike, missing};
use super::{Answered, Expected, Grade};
use crate::golden::Keys;
use evenkeel_core::{Tool, ToolCall};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Most calls that one item expects.
const MOST: usize = 64;

/// Calls of tools. Where one is expected, the answer's first call counts; where a
/// list is, the share of all expected and made that match.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    expected: Vec<Call>,
    is_list: bool,
    ordered: bool,
}

/// An expected call.
#[derive(Debug, Clone)]
struct Call {
    name: String,
    arguments: Vec<Argument>,
}

#[derive(Debug, Clone)]
struct Argument {
    name: String,
    accepted: Vec<Value>,
    is_optional: bool,
}

impl Calls {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        const NEEDED: &str = "a call `{\"name\": …, \"arguments\": {…}}` or a list of calls";
        let ordered = keys.flag("ordered");
        let exact = keys.flag("exact");
        let optional = keys.texts("optional").unwrap_or_default();
        if !optional.is_empty() && !exact {
            keys.fault_of("optional", "needs `exact`: else an accepted `\"\"` says it");
        }
        if expected.tools.is_some_and(<[Tool]>::is_empty) {
            keys.fault("the scorer needs the item's `tools`");
        }
        let (written, is_list) = match expected.value {
            Some(call @ Value::Object(_)) => (std::slice::from_ref(call), false),
            Some(Value::Array(calls)) if calls.len() <= MOST => (calls.as_slice(), true),
            _ => {
                missing(keys, expected, NEEDED);
                return None;
            }
        };
        let reading = Reading {
            exact,
            optional: &optional.iter().map(String::as_str).collect(),
            tools: expected.tools,
        };
        let mut calls = Vec::with_capacity(written.len());
        for call in written {
            match reading.call(call) {
                Ok(call) => calls.push(call),
                Err(what) => keys.fault(format!("`expected`: {what}")),
            }
        }
        (calls.len() == written.len()).then_some(Self {
            expected: calls,
            is_list,
            ordered,
        })
    }

    /// Expects what another answer called, in any order.
    pub(crate) fn of<'c>(calls: impl Iterator<Item = &'c ToolCall>) -> Self {
        let expected = calls.take(MOST).map(|call| {
            let given = match arguments(call) {
                Some(Value::Object(given)) => given,
                _ => Map::new(),
            };
            let arguments = given.into_iter().map(|(name, value)| Argument {
                name,
                accepted: vec![value],
                is_optional: false,
            });
            Call {
                name: call.name.clone(),
                arguments: arguments.collect(),
            }
        });
        Self {
            expected: expected.collect(),
            is_list: true,
            ordered: false,
        }
    }

    /// Whether a call is expected at all.
    pub(super) fn wants_a_call(&self) -> bool {
        !self.expected.is_empty()
    }

    pub(crate) fn grade(&self, answer: &Answered<'_>) -> Grade {
        let made: Vec<&ToolCall> = answer.response.tool_calls().collect();
        match self.expected.as_slice() {
            [only] if !self.is_list => match made.first() {
                None => Grade::wrong("no call"),
                Some(call) => match only.fault(call) {
                    None => Grade::right(true),
                    Some(fault) => Grade::wrong(fault),
                },
            },
            expected => {
                let matched = if self.ordered {
                    longest_in_order(expected, &made)
                } else {
                    most_matched(expected, &made)
                };
                let whole = expected.len().max(made.len());
                let note = format!(
                    "{matched} of {} expected calls, {} made",
                    expected.len(),
                    made.len()
                );
                Grade::of(share(matched, whole)).with(note)
            }
        }
    }
}

/// How expected calls are written.
struct Reading<'a> {
    exact: bool,
    optional: &'a HashSet<&'a str>,
    tools: Option<&'a [Tool]>,
}

impl Reading<'_> {
    fn call(&self, written: &Value) -> Result<Call, String> {
        let Value::Object(map) = written else {
            return Err("a call must be an object with `name` and `arguments`".into());
        };
        let known = |key: &String| key == "name" || key == "arguments";
        if let Some(key) = map.keys().find(|key| !known(key)) {
            let key = crate::golden::brief(key);
            return Err(format!(
                "unknown key `{key}` in a call; known are name, arguments"
            ));
        }
        let Some(Value::String(name)) = map.get("name") else {
            return Err("a call needs a `name`, a string".into());
        };
        if let Some(tools) = self.tools
            && !tools.is_empty()
            && !tools.iter().any(|tool| tool.name == *name)
        {
            return Err(format!("`{name}` is none of the item's tools"));
        }
        let arguments = match map.get("arguments") {
            None => &Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(format!("the arguments of `{name}` must be an object")),
        };
        let arguments: Result<Vec<Argument>, String> = arguments
            .iter()
            .map(|(name, value)| self.argument(name, value))
            .collect();
        Ok(Call {
            name: name.clone(),
            arguments: arguments?,
        })
    }

    fn argument(&self, name: &str, value: &Value) -> Result<Argument, String> {
        let (accepted, is_optional) = match value {
            _ if self.exact => (vec![value.clone()], self.optional.contains(name)),
            Value::Array(accepted) if !accepted.is_empty() => {
                (accepted.clone(), accepted.iter().any(|v| *v == ""))
            }
            _ => {
                let what = "must be a list of accepted values; with `exact` it is the value itself";
                return Err(format!("argument `{name}` {what}"));
            }
        };
        Ok(Argument {
            name: name.to_owned(),
            accepted,
            is_optional,
        })
    }
}

impl Call {
    /// Why `call` is not this one.
    fn fault(&self, call: &ToolCall) -> Option<String> {
        if call.name != self.name {
            return Some(format!("called `{}`", crate::golden::brief(&call.name)));
        }
        let Some(Value::Object(given)) = arguments(call) else {
            return Some("the arguments are no JSON object".into());
        };
        let is_known = |name: &String| self.arguments.iter().any(|a| a.name == *name);
        if let Some(name) = given.keys().find(|name| !is_known(name)) {
            return Some(format!(
                "argument `{}` is not expected",
                crate::golden::brief(name)
            ));
        }
        self.arguments.iter().find_map(|argument| {
            let name = &argument.name;
            match given.get(name) {
                None if argument.is_optional => None,
                None => Some(format!("argument `{name}` is missing")),
                Some(value) if argument.accepted.iter().any(|a| alike(a, value)) => None,
                Some(_) => Some(format!("argument `{name}` has another value")),
            }
        })
    }
}

/// Most expected calls that are made in their order, others between them or not:
/// the longest common subsequence.
fn longest_in_order(expected: &[Call], made: &[&ToolCall]) -> usize {
    let mut row = vec![0; expected.len() + 1];
    for call in made {
        let mut corner = 0;
        for (i, wanted) in expected.iter().enumerate() {
            let above = row[i + 1];
            row[i + 1] = if wanted.fault(call).is_none() {
                corner + 1
            } else {
                above.max(row[i])
            };
            corner = above;
        }
    }
    row[expected.len()]
}

/// Most expected calls that can each have a made call of their own: a greatest
/// matching, found along augmenting paths (Berge 1957).
fn most_matched(expected: &[Call], made: &[&ToolCall]) -> usize {
    let takes: Vec<Vec<usize>> = made
        .iter()
        .map(|call| {
            let fits = |i: &usize| expected[*i].fault(call).is_none();
            (0..expected.len()).filter(fits).collect()
        })
        .collect();
    let mut taken_by: Vec<Option<usize>> = vec![None; expected.len()];
    (0..made.len())
        .filter(|call| {
            assign(
                *call,
                &takes,
                &mut taken_by,
                &mut vec![false; expected.len()],
            )
        })
        .count()
}

/// Finds a place for `call`, moving others where they have another. No deeper than
/// there are expected calls.
fn assign(
    call: usize,
    takes: &[Vec<usize>],
    taken_by: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    takes[call].iter().any(|&wanted| {
        if std::mem::replace(&mut seen[wanted], true) {
            return false;
        }
        let is_free = match taken_by[wanted] {
            None => true,
            Some(other) => assign(other, takes, taken_by, seen),
        };
        if is_free {
            taken_by[wanted] = Some(call);
        }
        is_free
    })
}
