//! Names of tools, where a format allows fewer than the caller used.

use evenkeel_core::{ChatRequest, Part, ToolChoice};
use std::collections::{BTreeMap, HashSet};

/// What a format allows a tool to be called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameRule {
    /// Most characters.
    pub(crate) max_chars: usize,
    /// What may stand beside ASCII letters, digits, `_` and `-`.
    pub(crate) also: &'static str,
    /// Whether it must begin with a letter or `_`.
    pub(crate) letter_first: bool,
}

/// The names of one request that the format does not allow, and what stands
/// for each.
#[derive(Debug, Default)]
pub(crate) struct ToolNames {
    wire_by_own: BTreeMap<String, String>,
}

impl ToolNames {
    /// Renames what `rule` forbids, each to a name that no other tool has. The
    /// same name is always renamed to the same one, so that a provider's prompt
    /// cache stays warm from turn to turn.
    pub(crate) fn of(request: &ChatRequest, rule: NameRule) -> Self {
        let used = names(request);
        let mut taken: HashSet<String> = used.iter().map(|name| (*name).to_owned()).collect();
        let mut wire_by_own = BTreeMap::new();
        for own in used.into_iter().filter(|own| !rule.allows(own)) {
            if wire_by_own.contains_key(own) {
                continue;
            }
            let free = (0..super::call_ids::ATTEMPTS)
                .map(|n| rule.renamed(own, n))
                .find(|wire| !taken.contains(wire));
            if let Some(wire) = free {
                taken.insert(wire.clone());
                wire_by_own.insert(own.to_owned(), wire);
            }
        }
        Self { wire_by_own }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wire_by_own.is_empty()
    }

    /// The name that goes over the wire.
    pub(crate) fn wire<'a>(&'a self, own: &'a str) -> &'a str {
        self.wire_by_own.get(own).map_or(own, String::as_str)
    }

    /// The way back, as [`Encoded::tool_names`](crate::wire::Encoded) has it.
    pub(crate) fn into_own_by_wire(self) -> BTreeMap<String, String> {
        let pairs = self.wire_by_own.into_iter();
        pairs.map(|(own, wire)| (wire, own)).collect()
    }
}

/// Every name a request calls a tool by.
fn names(request: &ChatRequest) -> Vec<&str> {
    let declared = request.tools.iter().map(|tool| tool.name.as_str());
    let called = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.name.as_str()),
            _ => None,
        });
    let chosen = match &request.tool_choice {
        Some(ToolChoice::Named(name)) => Some(name.as_str()),
        _ => None,
    };
    declared.chain(called).chain(chosen).collect()
}

/// Characters of the mark that keeps renamed tools apart, with its `_`.
const MARK_CHARS: usize = 9;

impl NameRule {
    fn allows_char(self, c: char) -> bool {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-') || self.also.contains(c)
    }

    fn allows(self, name: &str) -> bool {
        let starts_well =
            !self.letter_first || name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        !name.is_empty()
            && starts_well
            && name.chars().count() <= self.max_chars
            && name.chars().all(|c| self.allows_char(c))
    }

    fn renamed(self, own: &str, attempt: u32) -> String {
        let clean = |c| if self.allows_char(c) { c } else { '_' };
        let mut name = String::new();
        if self.letter_first && !own.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            name.push('_');
        }
        let room = self.max_chars.saturating_sub(MARK_CHARS + name.len());
        name.extend(own.chars().map(clean).take(room));
        let mark = super::call_ids::hash(own, attempt) & u64::from(u32::MAX);
        format!("{name}_{mark:08x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Extra, Tool};

    const RULE: NameRule = NameRule {
        max_chars: 64,
        also: "",
        letter_first: false,
    };

    fn tool(name: &str) -> Tool {
        Tool {
            name: name.into(),
            description: None,
            parameters: None,
            strict: None,
            extra: Extra::default(),
        }
    }

    /// Trap 27.
    #[test]
    fn a_name_with_dots_or_too_long_goes_under_another_and_comes_back() {
        let long = "x".repeat(80);
        let request = ChatRequest {
            tools: vec![tool("crm.find"), tool("crm_find"), tool(&long)],
            tool_choice: Some(ToolChoice::Named("crm:find".into())),
            ..ChatRequest::user("Hi")
        };
        let names = ToolNames::of(&request, RULE);
        let wires: Vec<String> = ["crm.find", "crm_find", "crm:find", &long]
            .map(|own| names.wire(own).to_owned())
            .into();
        assert_eq!(wires[1], "crm_find");
        assert!(wires.iter().all(|wire| RULE.allows(wire)), "{wires:?}");
        assert_ne!(wires[0], wires[2]);
        let back = names.into_own_by_wire();
        assert_eq!(back[&wires[0]], "crm.find");
        assert_eq!(back[&wires[3]], long);
        assert_eq!(back.len(), 3);
    }

    #[test]
    fn a_name_that_must_begin_with_a_letter_does() {
        let rule = NameRule {
            max_chars: 128,
            also: ".:",
            letter_first: true,
        };
        let request = ChatRequest {
            tools: vec![tool("7.wonders"), tool("a.b:c")],
            ..ChatRequest::user("Hi")
        };
        let names = ToolNames::of(&request, rule);
        assert!(names.wire("7.wonders").starts_with("_7.wonders_"));
        assert_eq!(names.wire("a.b:c"), "a.b:c");
    }
}
