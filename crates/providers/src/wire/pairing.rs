//! Calls and their results, paired as the formats with a message per result
//! have them: every call answered right behind its message, once, and nothing
//! answered that was not called.

use super::adapted::{Adapted, done, what};
use evenkeel_core::{Extra, Message, Part, Role, ToolResult};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

/// The result of a call that has none.
pub(crate) const NO_RESULT: &str = "no result was given for this call";

/// `messages` with every call and result paired; as they came where they are.
///
/// A call without a result gets an error that says so, a result without its
/// call becomes the user's text, calls of one turn that share an id get one
/// each, and results that came late are put behind their calls.
pub(crate) fn paired<'a>(messages: &'a [Message], adapted: &mut Adapted) -> Cow<'a, [Message]> {
    if is_paired(messages) {
        return Cow::Borrowed(messages);
    }
    let mut out = Vec::with_capacity(messages.len() + 1);
    let mut rest = messages;
    while !rest.is_empty() {
        let answers = leading(rest, |role| role == Role::Assistant);
        let replies = leading(&rest[answers..], |role| role != Role::Assistant);
        let (turn, after) = rest.split_at(answers + replies);
        if is_paired(turn) {
            out.extend_from_slice(turn);
        } else {
            let (answers, replies) = turn.split_at(answers);
            Turn::new(answers, replies, adapted).write(&mut out);
        }
        rest = after;
    }
    Cow::Owned(out)
}

fn leading(messages: &[Message], is: impl Fn(Role) -> bool) -> usize {
    messages.iter().take_while(|m| is(m.role)).count()
}

fn calls(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call.id.as_str()),
        _ => None,
    })
}

fn results(message: &Message) -> impl Iterator<Item = &ToolResult> {
    message.parts.iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    })
}

fn is_paired(messages: &[Message]) -> bool {
    let mut waiting: HashSet<&str> = HashSet::new();
    for message in messages {
        let mut answered = results(message).peekable();
        if !waiting.is_empty() && answered.peek().is_none() {
            return false;
        }
        if !answered.all(|result| waiting.remove(result.call_id.as_str())) {
            return false;
        }
        let only_results = results(message).count() == message.parts.len();
        if !waiting.is_empty() && !only_results {
            return false;
        }
        if !calls(message).all(|id| waiting.insert(id)) {
            return false;
        }
    }
    waiting.is_empty()
}

/// What the model said at one time, and what was said until it spoke again.
struct Turn<'a, 'n> {
    answers: &'a [Message],
    replies: &'a [Message],
    /// The results among the replies, in their order.
    results: Vec<&'a ToolResult>,
    /// The result of each call, by its place in `results`.
    found: VecDeque<Option<usize>>,
    /// The id each call goes by.
    ids: VecDeque<String>,
    adapted: &'n mut Adapted,
}

impl<'a, 'n> Turn<'a, 'n> {
    fn new(answers: &'a [Message], replies: &'a [Message], adapted: &'n mut Adapted) -> Self {
        let called: Vec<&str> = answers.iter().flat_map(calls).collect();
        let results: Vec<&ToolResult> = replies.iter().flat_map(results).collect();
        let ids = distinct(&called);
        if ids.iter().ne(&called) {
            adapted.note(what::CALL_IDS, done::RENAMED);
        }
        Self {
            answers,
            replies,
            found: matched(&called, &results).into(),
            results,
            ids: ids.into(),
            adapted,
        }
    }

    fn write(mut self, out: &mut Vec<Message>) {
        let mut is_left = vec![true; self.results.len()];
        for place in self.found.iter().flatten() {
            is_left[*place] = false;
        }
        for message in self.answers {
            self.answer(message, out);
        }
        let mut is_left = is_left.into_iter();
        for message in self.replies {
            self.reply(message, &mut is_left, out);
        }
    }

    /// A message of the model, and behind it the results of its calls.
    fn answer(&mut self, message: &Message, out: &mut Vec<Message>) {
        let mut message = message.clone();
        let mut answered = Vec::new();
        for part in &mut message.parts {
            match part {
                Part::ToolCall(call) => {
                    call.id = self.ids.pop_front().unwrap_or_default();
                    let found = self.found.pop_front().flatten();
                    answered.push(self.result(found, &call.id));
                }
                // The model answers no calls.
                Part::ToolResult(result) => {
                    self.adapted.note(what::RESULT_ALONE, done::AS_TEXT);
                    *part = Part::Text(as_text(result));
                }
                _ => {}
            }
        }
        out.push(message);
        out.extend(answered);
    }

    fn result(&mut self, found: Option<usize>, call_id: &str) -> Message {
        let mut result = if let Some(place) = found {
            self.results[place].clone()
        } else {
            self.adapted.note(what::CALL_ALONE, done::ERROR_INSTEAD);
            ToolResult {
                call_id: String::new(),
                parts: vec![Part::Text(NO_RESULT.to_owned())],
                is_error: true,
            }
        };
        call_id.clone_into(&mut result.call_id);
        said(Role::Tool, vec![Part::ToolResult(result)])
    }

    /// What a message says beside the results that were put behind their calls.
    fn reply(
        &mut self,
        message: &Message,
        is_left: &mut impl Iterator<Item = bool>,
        out: &mut Vec<Message>,
    ) {
        if results(message).next().is_none() {
            out.push(message.clone());
            return;
        }
        let mut parts = Vec::new();
        for part in &message.parts {
            match part {
                Part::ToolResult(result) => {
                    if is_left.next() == Some(true) {
                        self.adapted.note(what::RESULT_ALONE, done::AS_TEXT);
                        parts.push(Part::Text(as_text(result)));
                        let others = result.parts.iter();
                        parts.extend(others.filter(|p| !matches!(p, Part::Text(_))).cloned());
                    }
                }
                other => parts.push(other.clone()),
            }
        }
        if !parts.is_empty() {
            out.push(said(Role::User, parts));
        }
    }
}

/// The ids of one turn's calls, each once: the first keeps its own.
fn distinct(called: &[&str]) -> Vec<String> {
    let mut taken: HashSet<String> = called.iter().map(|id| (*id).to_owned()).collect();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut distinct = |id| {
        let times = seen.entry(id).or_default();
        *times += 1;
        if *times == 1 {
            return id.to_owned();
        }
        loop {
            let other = format!("{id}_{times}");
            if taken.insert(other.clone()) {
                return other;
            }
            *times += 1;
        }
    };
    called.iter().map(|id| distinct(id)).collect()
}

/// The place of each call's result: the first of its id, else the first that
/// names no call.
pub(crate) fn matched(called: &[&str], results: &[&ToolResult]) -> Vec<Option<usize>> {
    let mut by_id: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (place, result) in results.iter().enumerate() {
        by_id.entry(&result.call_id).or_default().push_back(place);
    }
    let mut take = |id: &str| by_id.get_mut(id)?.pop_front();
    let own: Vec<Option<usize>> = called.iter().map(|id| take(id)).collect();
    own.into_iter()
        .map(|own| own.or_else(|| take("")))
        .collect()
}

fn as_text(result: &ToolResult) -> String {
    let lead = if result.is_error { "error: " } else { "" };
    let texts = result.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    format!("Tool result: {lead}{}", texts.collect::<String>())
}

fn said(role: Role, parts: Vec<Part>) -> Message {
    Message {
        role,
        parts,
        name: None,
        extra: Extra::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::ToolCall;

    /// `u` a user's text, `a:x,y` an answer that calls, `t:x` results.
    fn history(written: &str) -> Vec<Message> {
        let message = |word: &str| {
            let (kind, ids) = word.split_once(':').unwrap_or((word, ""));
            let ids = ids.split(',').filter(|_| word.contains(':'));
            let call = |id: &str| {
                Part::ToolCall(ToolCall {
                    id: id.to_owned(),
                    name: "f".to_owned(),
                    arguments: "{}".to_owned(),
                    extra: Extra::default(),
                })
            };
            let result = |id: &str| {
                Part::ToolResult(ToolResult {
                    call_id: id.to_owned(),
                    parts: vec![Part::Text(format!("of {id}"))],
                    is_error: false,
                })
            };
            match kind {
                "a" => said(Role::Assistant, ids.map(call).collect()),
                "t" => said(Role::Tool, ids.map(result).collect()),
                _ => Message::text(Role::User, kind),
            }
        };
        written.split(' ').map(message).collect()
    }

    /// The same in words; `!` stands for an error put in.
    fn shown(messages: &[Message]) -> String {
        let word = |message: &Message| {
            let ids = |ids: Vec<&str>| ids.join(",");
            let answered: Vec<&str> = results(message)
                .map(|r| if r.is_error { "!" } else { r.call_id.as_str() })
                .collect();
            match message.role {
                Role::Assistant => format!("a:{}", ids(calls(message).collect())),
                Role::Tool => format!("t:{}", ids(answered)),
                _ => message.plain_text().replace(' ', "_"),
            }
        };
        messages.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    /// C136 and the pairing of section 13.
    #[test]
    fn every_call_is_answered_once_behind_its_message() {
        for (written, expected, notes) in [
            ("u a:x,y t:y u", "u a:x,y t:! t:y u", 1),
            ("u a:x", "u a:x t:!", 1),
            ("u a:x u t:x", "u a:x t:x u", 0),
            ("u t:z u", "u Tool_result:_of_z u", 1),
            ("t:z a:x t:x", "Tool_result:_of_z a:x t:x", 1),
            ("u a:x t:x t:x u", "u a:x t:x Tool_result:_of_x u", 1),
            ("u a:x,x t:x t:x", "u a:x,x_2 t:x t:x_2", 1),
            ("u a:x,x,x_2 t:x,x,x_2", "u a:x,x_3,x_2 t:x t:x_3 t:x_2", 1),
            ("u a:x a:y t:x t:y", "u a:x t:x a:y t:y", 0),
            ("u a:x,y t:,", "u a:x,y t:x t:y", 0),
        ] {
            let messages = history(written);
            let mut adapted = Adapted::default();
            let paired = paired(&messages, &mut adapted);
            assert_eq!(shown(&paired), expected, "{written}");
            assert!(is_paired(&paired), "{written}");
            let lines = adapted.into_lines();
            assert_eq!(lines.len(), notes, "{written}: {lines:?}");
        }
    }

    #[test]
    fn what_is_paired_stays_as_it_came() {
        for written in [
            "u",
            "u a:x t:x",
            "u a:x,y t:y t:x u a:x t:x",
            "a:x,y t:x,y u a: t:",
        ] {
            let messages = history(written);
            let mut adapted = Adapted::default();
            let paired = paired(&messages, &mut adapted);
            assert!(matches!(paired, Cow::Borrowed(_)), "{written}");
            assert!(adapted.into_lines().is_empty());
        }
    }
}
