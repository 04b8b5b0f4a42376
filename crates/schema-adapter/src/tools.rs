//! The caller's own tools: names and schemas that the provider takes, and the way back.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_core::{ChatRequest, Extra, Tool, ToolCall};
use serde_json::Value;

use crate::adapter::Adapter;
use crate::checker::Checker;
use crate::dialect::{Dialect, Rules};
use crate::error::{AnswerError, AnswerFault};
use crate::loss::{Loss, notes};
use crate::mode::ModelSupport;
use crate::node::Tree;
use crate::read::{Repair, read};
use crate::undo::without_absences;

/// Parameters of a tool as they are sent.
pub(crate) struct Parameters {
    pub(crate) schema: Value,
    pub(crate) strict: bool,
    pub(crate) losses: Vec<Loss>,
    pub(crate) tree: Option<Arc<Tree>>,
}

/// The tool that carries an answer.
pub(crate) fn answer_tool(name: &str, description: String, parameters: &Parameters) -> Tool {
    Tool {
        name: name.to_owned(),
        description: Some(description),
        parameters: Some(parameters.schema.clone()),
        strict: parameters.strict.then_some(true),
        extra: Extra::default(),
    }
}

/// Checks the arguments of a tool's calls against the tool's own schema.
#[derive(Debug, Clone)]
pub struct ToolCheck {
    /// None where the tool's schema does not compile: then there is nothing to check by.
    checker: Option<Arc<Checker>>,
    tree: Option<Arc<Tree>>,
}

impl ToolCheck {
    /// For a tool whose schema goes out as it is.
    pub fn new(adapter: &Adapter, tool: &Tool) -> Self {
        let checker = tool.parameters.as_ref();
        Self {
            checker: checker.and_then(|schema| adapter.checker(schema).ok()),
            tree: None,
        }
    }

    /// Reads a call's arguments and turns them back: nulls that stand for absence go, trailing
    /// commas go, everything else has to obey the tool's schema. The text of arguments that need
    /// no change stays as it is.
    ///
    /// # Errors
    /// [`AnswerError`]: no JSON ([`AnswerFault::BrokenArguments`]), cut by a limit
    /// ([`AnswerFault::Cut`], where `cut` says so), or against the schema.
    pub fn read(&self, call: &mut ToolCall, cut: bool) -> Result<Vec<Repair>, AnswerError> {
        if call.arguments.trim().is_empty() {
            // No arguments; they are checked as the empty object they stand for.
            return self
                .check(&Value::Object(serde_json::Map::new()), call)
                .map(|()| Vec::new());
        }
        let reading = arguments(&call.name, &call.arguments, cut)?;
        let mut value = reading.value;
        let changed = self
            .tree
            .as_ref()
            .is_some_and(|tree| without_absences(tree, &mut value));
        self.check(&value, call)?;
        if changed || reading.verbatim.is_none() {
            call.arguments = value.to_string();
        } else if let Some(text) = reading.verbatim
            && !reading.repairs.is_empty()
        {
            call.arguments = text;
        }
        Ok(reading.repairs)
    }

    fn check(&self, value: &Value, call: &ToolCall) -> Result<(), AnswerError> {
        let Some(checker) = &self.checker else {
            return Ok(());
        };
        checker.check(value).map_err(|mut error| {
            error.message = format!(
                "arguments of the call to `{}`: {}",
                call.name, error.message
            );
            error.text.clone_from(&call.arguments);
            error
        })
    }
}

/// Arguments as a model wrote them. Only commas too many are repaired: arguments are a channel of
/// their own, so prose in it is a fault.
pub(crate) fn arguments(
    name: &str,
    text: &str,
    cut: bool,
) -> Result<crate::read::Reading, AnswerError> {
    let broken = |message: String| {
        let message = format!("arguments of the call to `{name}` are not JSON: {message}");
        AnswerError::new(AnswerFault::BrokenArguments, message, text)
    };
    match read(text, crate::kind::Kinds::NONE, cut) {
        Ok(reading)
            if reading
                .repairs
                .iter()
                .all(|r| matches!(r, Repair::TrailingCommas | Repair::DuplicateNames)) =>
        {
            Ok(reading)
        }
        Ok(_) => Err(broken("expected nothing but one value".to_owned())),
        Err(error) if error.fault == AnswerFault::Cut => Err(error),
        Err(error) => Err(broken(error.message)),
    }
}

/// How the caller's tools go out, and how their calls come back.
#[derive(Debug, Clone)]
pub(crate) struct ToolPlan {
    tools: Vec<Tool>,
    /// The check of each tool's calls, by its name.
    checks: HashMap<String, ToolCheck>,
    pub(crate) notes: Vec<String>,
    changed: bool,
    /// Whether calls have to be turned back.
    turns: bool,
}

impl ToolPlan {
    /// None where the request has no tools.
    pub(crate) fn new(adapter: &Adapter, tools: &[Tool], support: ModelSupport) -> Option<Self> {
        if tools.is_empty() {
            return None;
        }
        let mut plan = Self {
            tools: Vec::with_capacity(tools.len()),
            checks: HashMap::new(),
            notes: Vec::new(),
            changed: false,
            turns: false,
        };
        for tool in tools {
            let (wire, check) = plan.tool(adapter, tool, support);
            plan.changed |= wire != *tool;
            plan.turns |= check.tree.is_some() || wire.strict != tool.strict;
            plan.tools.push(wire);
            plan.checks.insert(tool.name.clone(), check);
        }
        Some(plan)
    }

    /// Whether tools go out with another schema, so that their calls have to be turned back.
    pub(crate) fn turns_calls(&self) -> bool {
        self.turns
    }

    fn note(&mut self, line: &str) {
        if !self.notes.iter().any(|n| n == line) {
            self.notes.push(line.to_owned());
        }
    }

    fn tool(&mut self, adapter: &Adapter, tool: &Tool, support: ModelSupport) -> (Tool, ToolCheck) {
        let mut wire = tool.clone();
        if let Some(Value::Object(schema)) = &mut wire.parameters {
            // Arguments are an object whatever it says of null, and providers take no other type.
            schema.shift_remove("nullable");
        }
        let mut check = ToolCheck::new(adapter, &wire);
        let Some(schema) = wire.parameters.clone() else {
            return (wire, check);
        };
        let Some(checker) = check.checker.clone() else {
            self.note("tool schema: cannot be compiled, arguments not checked");
            return (wire, check);
        };
        wire.parameters = Some(checker.plain(&schema).clone());
        let rules = support.dialect.rules();
        let strict = tool.strict == Some(true);
        let as_it_is = support.dialect == Dialect::None
            || (rules.loose_tools && !(strict && rules.strict_tools))
            || schema
                .get("properties")
                .and_then(Value::as_object)
                .is_none_or(serde_json::Map::is_empty);
        if as_it_is {
            return (wire, check);
        }
        match adapter.rewritten(&schema, &checker, support.dialect, support.core_only) {
            Ok(rewritten) if !rewritten.tree.wrapped => {
                wire.parameters = Some(rewritten.schema.clone());
                check.tree = Some(Arc::clone(&rewritten.tree));
                for line in notes(&rewritten.losses) {
                    self.note(&format!("tool schema: {line}"));
                }
            }
            _ => {
                if strict {
                    wire.strict = None;
                }
                self.note("tool schema: beyond what the provider enforces, sent as it is, checked on return");
            }
        }
        (wire, check)
    }

    /// Puts the tools into `request`.
    pub(crate) fn apply(&self, request: &mut ChatRequest) {
        if self.changed {
            request.tools.clone_from(&self.tools);
        }
    }

    /// Turns a call back and checks it.
    pub(crate) fn read(&self, call: &mut ToolCall, cut: bool) -> Result<Vec<Repair>, AnswerError> {
        let Some(check) = self.checks.get(&call.name) else {
            let message = format!("a call to `{}`, which is none of the tools", call.name);
            return Err(AnswerError::new(
                AnswerFault::UnknownTool,
                message,
                &call.arguments,
            ));
        };
        check.read(call, cut)
    }
}

/// A name for a schema or for the tool that carries an answer, as the provider takes it. One that it takes already stays; any other gets the hash of the
/// whole name behind it, so that it is the same in every request and names that differ stay apart.
pub(crate) fn wire_name(name: &str, rules: &Rules) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || rules.tool_name_marks.contains(c);
    let begins = |name: &str| {
        !rules.tool_name_begins_with_letter
            || name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    };
    if !name.is_empty()
        && name.len() <= rules.tool_name_length
        && name.chars().all(plain)
        && begins(name)
    {
        return name.to_owned();
    }
    let mut wire: String = name
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    if !begins(&wire) {
        wire.insert(0, '_');
    }
    with_mark(wire, name, rules)
}

/// `name` with the hash of `of` at its end, within the length.
fn with_mark(mut name: String, of: &str, rules: &Rules) -> String {
    let mark = format!("_{:08x}", fnv(of));
    name.truncate(rules.tool_name_length - mark.len());
    name + &mark
}

/// FNV-1a, 32 bits: stable between releases and machines, which the standard hasher is not.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Case C094.
    #[test]
    fn names_become_what_the_provider_takes_and_stay_apart() {
        let long = "a".repeat(62);
        let names = [
            "7zip.extract".to_owned(),
            "mcp/server/do thing".to_owned(),
            format!("{long}_1"),
            format!("{long}_2"),
            "ok_name".to_owned(),
        ];
        for dialect in Dialect::ALL {
            let rules = dialect.rules();
            let wire: Vec<String> = names.iter().map(|n| wire_name(n, rules)).collect();
            for name in &wire {
                assert!(name.len() <= 64, "{name}");
                assert!(
                    name.chars()
                        .all(|c| c.is_ascii_alphanumeric() || rules.tool_name_marks.contains(c)),
                    "{name}"
                );
            }
            let apart: HashSet<&String> = wire.iter().collect();
            assert_eq!(apart.len(), names.len(), "{wire:?}");
            assert_eq!(wire[4], "ok_name");
        }
        let gemini = wire_name("7zip.extract", Dialect::Gemini.rules());
        assert!(gemini.starts_with("_7zip.extract_"), "{gemini}");
    }
}
