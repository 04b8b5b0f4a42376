//! A simulated answer: what it says, and how a caller checks it.

mod check;
mod content;
mod instance;
mod pattern;

pub use self::check::{WrongAnswer, check_answer};

use self::content::Content;
use crate::script::Act;
use crate::{Behaviour, Dialect};
use evenkeel_core::{
    Accumulator, ChatRequest, ChatResponse, Delta, Extra, Finish, ReasoningPart, StreamEvent, Usage,
};
use std::sync::Arc;

/// Whose answer it is.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) provider: Arc<str>,
    pub(crate) model: Arc<str>,
    pub(crate) dialect: Dialect,
    /// Which answer of its provider.
    pub(crate) number: u64,
    /// Unix time in seconds, 0 for none.
    pub(crate) created: u64,
}

/// One answer: which tokens it has and how it ends.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) label: Label,
    pub(crate) id: String,
    content: Content,
    /// Tokens of reasoning before the content.
    reasoning: u32,
    is_signed: bool,
    /// Tokens of the whole answer.
    pub(crate) tokens: u32,
    finish: Finish,
    /// Input tokens, estimated from the request.
    pub(crate) input: u32,
    cached: Option<u64>,
}

impl Answer {
    pub(crate) fn new(label: Label, behaviour: &Behaviour, request: &ChatRequest) -> Self {
        let content = Content::new(&label, behaviour, request);
        let wanted = content.tokens.saturating_add(behaviour.reasoning_tokens);
        let cap = request
            .max_output_tokens
            .map_or(u32::MAX, |cap| u32::try_from(cap).unwrap_or(u32::MAX));
        let input = request.estimated_input_tokens();
        let cached = u64::from(behaviour.cached_tokens).min(input);
        Self {
            id: label.dialect.answer_id(&label.provider, label.number),
            label,
            reasoning: behaviour.reasoning_tokens,
            is_signed: behaviour.signed,
            tokens: wanted.min(cap),
            finish: if wanted > cap {
                Finish::Length
            } else {
                content.finish
            },
            content,
            input: u32::try_from(input).unwrap_or(u32::MAX),
            cached: (cached > 0).then_some(cached),
        }
    }

    /// What token `index` brings.
    pub(crate) fn deltas(&self, index: u32) -> Vec<Delta> {
        match index.checked_sub(self.reasoning) {
            Some(index) => self.content.deltas(&self.label, index),
            None => vec![Delta::Reasoning(self.thought(index))],
        }
    }

    /// A token of reasoning; the last one is signed, where the dialect signs.
    fn thought(&self, index: u32) -> ReasoningPart {
        let is_last = index + 1 == self.reasoning;
        let signature = self.label.dialect.reasoning_signature();
        let signature = signature.filter(|_| is_last && self.is_signed);
        ReasoningPart {
            text: match index {
                0 => "r0".to_owned(),
                index => format!(" r{index}"),
            },
            dialect: signature.map_or("", |_| self.label.dialect.as_str()),
            signature: signature.map(str::to_owned),
        }
    }

    pub(crate) fn usage(&self, tokens: u32) -> Usage {
        let reasoning = (self.reasoning > 0).then(|| tokens.min(self.reasoning).into());
        Usage {
            input: self.input.into(),
            output: tokens.into(),
            cached: self.cached,
            cache_write: None,
            reasoning,
        }
    }

    /// The answer up to `tokens` tokens, in one piece.
    pub(crate) fn response(&self, tokens: u32) -> ChatResponse {
        let mut whole = Accumulator::default();
        let acts = std::iter::once(Act::Open)
            .chain((0..tokens).map(Act::Token))
            .chain([Act::Finish, Act::Usage, Act::Done]);
        for event in acts.flat_map(|act| self.events(&act, tokens)) {
            whole.push(&event);
        }
        whole.finish().expect("it has a finish and an end")
    }

    /// The neutral events of an act, `sent` tokens in; none where a sound
    /// answer has no such act.
    pub(crate) fn events(&self, act: &Act, sent: u32) -> Vec<StreamEvent> {
        let event = match act {
            Act::Open => StreamEvent::Start {
                id: self.id.clone(),
                model: String::from(&*self.label.model),
                created: self.label.created,
                extra: self.extra(),
            },
            Act::Token(index) => {
                let deltas = self.deltas(*index).into_iter();
                return deltas.map(StreamEvent::Delta).collect();
            }
            Act::KeepAlive => StreamEvent::KeepAlive,
            Act::Finish => StreamEvent::Finish(self.finish),
            Act::Filtered => StreamEvent::Finish(Finish::ContentFilter),
            Act::Usage => StreamEvent::Usage(self.usage(sent)),
            Act::Done => StreamEvent::End,
            _ => return Vec::new(),
        };
        vec![event]
    }

    /// Which stop text was met, where the dialect says it.
    fn extra(&self) -> Extra {
        let met = self.content.stop_text.as_deref();
        let met = met.filter(|_| self.finish == Finish::StopSequence);
        met.and_then(|text| self.label.dialect.stop_text(text))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Message, Output, Part, Role, Tool, ToolChoice, Value};
    use serde_json::json;

    fn reply(behaviour: &Behaviour, request: &ChatRequest) -> ChatResponse {
        let label = Label {
            provider: Arc::from("acme"),
            model: Arc::from("big"),
            dialect: Dialect::OpenAi,
            number: 1,
            created: 0,
        };
        let answer = Answer::new(label, behaviour, request);
        answer.response(answer.tokens)
    }

    fn text(behaviour: &Behaviour, prompt: &str) -> String {
        reply(behaviour, &ChatRequest::user(prompt)).plain_text()
    }

    fn three() -> Behaviour {
        Behaviour::default().with_tokens(3)
    }

    fn tool(name: &str) -> Tool {
        Tool {
            name: name.into(),
            description: None,
            parameters: Some(json!({"type": "object", "required": ["city"],
                "properties": {"city": {"type": "string"}}})),
            strict: None,
            extra: Extra::default(),
        }
    }

    fn with_tools(choice: Option<ToolChoice>) -> ChatRequest {
        ChatRequest {
            tools: vec![tool("a"), tool("b")],
            tool_choice: choice,
            ..ChatRequest::user("n4")
        }
    }

    fn calls(behaviour: &Behaviour, request: &ChatRequest) -> Vec<String> {
        let answer = reply(behaviour, request);
        let calls = answer.tool_calls();
        calls
            .map(|call| format!("{}{}", call.name, call.arguments))
            .collect()
    }

    #[test]
    fn an_answer_says_who_gave_it_and_to_which_request() {
        let said = text(&three(), "please answer n42");
        assert_eq!(said, "[[acme/big]] n42 t0 t1 t2");
        assert_eq!(check_answer(&said, 42, 3), Ok("acme/big"));
    }

    #[test]
    fn a_request_without_a_number_has_the_number_0() {
        for prompt in [
            "hello",
            "n1 is not the last word",
            "n",
            "nine",
            "n-1",
            "n99999999999999999999",
        ] {
            let said = text(&Behaviour::default().with_tokens(1), prompt);
            assert_eq!(said, "[[acme/big]] n0 t0", "{prompt}");
        }
    }

    #[test]
    fn a_given_text_is_kept_to_the_letter() {
        for given in [
            "line one\nline \"two\"\\ \u{2028} 🙂",
            "  led by blanks",
            "ends in blanks \n",
            "one",
        ] {
            assert_eq!(text(&Behaviour::default().with_text(given), "n1"), given);
        }
    }

    /// Case C231: a cap cuts and says so.
    #[test]
    fn an_output_cap_cuts_the_answer_and_says_length() {
        let five = Behaviour::default().with_text("one two three four five");
        let capped = |cap| {
            let mut request = ChatRequest::user("n1");
            request.max_output_tokens = Some(cap);
            reply(&five, &request)
        };
        let cut = capped(3);
        assert_eq!(
            (cut.plain_text().as_str(), cut.finish),
            ("one two three", Finish::Length)
        );
        assert_eq!(cut.usage.unwrap().output, 3);
        assert_eq!(capped(5).finish, Finish::Stop);
    }

    #[test]
    fn reasoning_comes_first_and_counts_against_the_cap() {
        let mut request = ChatRequest::user("n1");
        let thinking = three().with_reasoning(2).with_cached_tokens(1_000);
        let answer = reply(&thinking, &request);
        let Part::Reasoning(thought) = &answer.parts[0] else {
            panic!("{answer:?}");
        };
        assert_eq!(
            (thought.text.as_str(), &thought.signature),
            ("r0 r1", &None)
        );
        assert_eq!(answer.plain_text(), "[[acme/big]] n1 t0 t1 t2");
        let usage = answer.usage.unwrap();
        assert_eq!((usage.output, usage.reasoning), (5, Some(2)));
        assert_eq!(usage.cached, Some(usage.input), "no more than there is");
        request.max_output_tokens = Some(1);
        let cut = reply(&thinking, &request);
        assert_eq!(
            (cut.plain_text().as_str(), cut.finish),
            ("", Finish::Length)
        );
        assert_eq!(cut.usage.unwrap().reasoning, Some(1));
    }

    #[test]
    fn a_demanded_call_is_made_with_arguments_that_fit() {
        let plain = three();
        let city = "{\"city\":\"text\"}";
        let a = vec![format!("a{city}")];
        assert_eq!(calls(&plain, &with_tools(Some(ToolChoice::Required))), a);
        let named = with_tools(Some(ToolChoice::Named("b".into())));
        assert_eq!(calls(&plain, &named), [format!("b{city}")]);
        assert_eq!(reply(&plain, &named).finish, Finish::ToolUse);
        for choice in [None, Some(ToolChoice::Auto), Some(ToolChoice::None)] {
            assert!(calls(&plain, &with_tools(choice)).is_empty());
        }
        let told = three().with_calls(3);
        let all = [format!("a{city}"), format!("b{city}"), format!("a{city}")];
        assert_eq!(calls(&told, &with_tools(None)), all);
        assert!(calls(&told, &with_tools(Some(ToolChoice::None))).is_empty());
        let mut single = with_tools(None);
        single.parallel_tool_calls = Some(false);
        assert_eq!(calls(&told, &single), a);
        let mut answered = with_tools(None);
        answered.messages.push(Message::text(Role::Tool, "4 C"));
        assert!(calls(&told, &answered).is_empty(), "the loop ends");
        let mut ids: Vec<String> = reply(&told, &with_tools(None))
            .tool_calls()
            .map(|call| call.id.clone())
            .collect();
        ids.dedup();
        assert_eq!(ids.len(), 3);
    }

    #[test]
    fn a_cut_call_says_length() {
        let mut request = with_tools(Some(ToolChoice::Required));
        request.max_output_tokens = Some(3);
        let cut = reply(&three(), &request);
        assert_eq!(cut.finish, Finish::Length);
        assert_eq!(cut.tool_calls().next().unwrap().arguments, "{\"city\":");
    }

    #[test]
    fn a_demanded_schema_is_obeyed_and_a_given_text_stands() {
        let mut request = ChatRequest::user("n1");
        request.output = Output::JsonSchema {
            name: "w".into(),
            schema: json!({"type": "object", "required": ["n"],
                           "properties": {"n": {"type": "integer", "minimum": 7}}}),
            strict: true,
            description: None,
        };
        let said: Value = serde_json::from_str(&reply(&three(), &request).plain_text()).unwrap();
        assert_eq!(said, json!({"n": 7}));
        assert_eq!(reply(&three().with_text("no"), &request).plain_text(), "no");
        request.output = Output::JsonObject;
        assert_eq!(reply(&three(), &request).plain_text(), "{}");
    }

    #[test]
    fn the_first_stop_text_ends_the_answer() {
        let mut request = ChatRequest::user("n1");
        request.stop = vec!["t2".into(), "t1".into(), String::new()];
        let answer = reply(&three(), &request);
        assert_eq!(answer.plain_text(), "[[acme/big]] n1 t0 ");
        assert_eq!(answer.finish, Finish::StopSequence);
        request.stop = vec!["elsewhere".into()];
        assert_eq!(reply(&three(), &request).finish, Finish::Stop);
    }

    #[test]
    fn a_prefill_is_continued_where_told() {
        let begun = |text: &str| {
            let mut request = ChatRequest::user("n1");
            request.messages.push(Message::text(Role::Assistant, text));
            request
        };
        let willing = three().with_continuation();
        let half = "[[other/small]] n1 t0 t1";
        let rest = reply(&willing, &begun(half)).plain_text();
        assert_eq!(rest, " t2");
        assert_eq!(
            check_answer(&format!("{half}{rest}"), 1, 3),
            Ok("other/small")
        );
        let anew = "[[acme/big]] n1 t0 t1 t2";
        assert_eq!(reply(&three(), &begun(half)).plain_text(), anew, "not told");
        assert_eq!(reply(&willing, &begun("Sure:")).plain_text(), anew);
        let told = willing.with_text("one two three");
        assert_eq!(reply(&told, &begun("one two")).plain_text(), " three");
    }
}
