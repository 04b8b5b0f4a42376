//! Every stream and answer fixture in `OpenAI`'s dialect decodes to what its
//! index line says, in reads of 1 byte, 7 bytes and whole.

use crate::fixtures::{self, Fixture};
use evenkeel_core::{Accumulator, ChatResponse, Class, Delta, Failure, Finish, Part, StreamEvent};
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::openai::{StreamDecoder, decode_response};
use serde_json::{Value, json};

fn decode(fixture: &Fixture, read: usize) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new(fixture.server());
    let mut events: Vec<_> = fixture
        .bytes
        .chunks(read.min(fixture.bytes.len()))
        .flat_map(|bytes| decoder.push(bytes))
        .collect();
    events.extend(decoder.finish());
    assert!(decoder.is_over(), "{}", fixture.file);
    events
}

/// What a stream or answer came to, in the words of the index.
#[derive(Default, Debug)]
pub(crate) struct Outcome {
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<(String, String, String)>,
    finish: Option<Finish>,
    usage: Option<evenkeel_core::Usage>,
    pub(crate) class: Option<Class>,
}

impl Outcome {
    pub(crate) fn of_events(events: &[Result<StreamEvent, Failure>]) -> Self {
        let mut outcome = Self::default();
        let mut whole = Accumulator::default();
        for event in events {
            match event {
                Ok(event) => {
                    whole.push(event);
                    outcome.add(event);
                }
                Err(failure) => outcome.class = Some(failure.class),
            }
        }
        if outcome.class.is_none() {
            outcome.class = whole
                .finish()
                .and_then(|answer| answer.verify())
                .err()
                .map(|failure| failure.class);
        }
        outcome
    }

    fn add(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Delta(Delta::Text(text)) => self.text.push_str(text),
            StreamEvent::Delta(Delta::Refusal(text)) => self.refusal.push_str(text),
            StreamEvent::Delta(Delta::Reasoning(part)) => self.reasoning.push_str(&part.text),
            StreamEvent::Delta(Delta::ToolCallStart { id, name, .. }) => {
                self.calls.push((id.clone(), name.clone(), String::new()));
            }
            StreamEvent::Delta(Delta::ToolCallArguments { index, fragment }) => {
                self.calls[*index].2.push_str(fragment);
            }
            StreamEvent::Finish(finish) => self.finish = Some(*finish),
            StreamEvent::Usage(usage) => self.usage = Some(*usage),
            _ => {}
        }
    }

    pub(crate) fn of_answer(result: &Result<ChatResponse, Failure>) -> Self {
        let mut outcome = Self::default();
        match result {
            Ok(answer) => {
                for part in &answer.parts {
                    match part {
                        Part::Text(text) => outcome.text.push_str(text),
                        Part::Refusal(text) => outcome.refusal.push_str(text),
                        Part::Reasoning(part) => outcome.reasoning.push_str(&part.text),
                        Part::ToolCall(call) => outcome.calls.push((
                            call.id.clone(),
                            call.name.clone(),
                            call.arguments.clone(),
                        )),
                        _ => {}
                    }
                }
                outcome.finish = Some(answer.finish);
                outcome.usage = answer.usage;
                outcome.class = answer.verify().err().map(|failure| failure.class);
            }
            Err(failure) => outcome.class = Some(failure.class),
        }
        outcome
    }
}

/// Compares an outcome with what the index says.
pub(crate) fn check(fixture: &Fixture, outcome: &Outcome) {
    let expect = &fixture.line["expect"];
    let file = &fixture.file;
    for (name, said) in [
        ("text", &outcome.text),
        ("reasoning", &outcome.reasoning),
        ("refusal", &outcome.refusal),
    ] {
        if let Some(expected) = expect[name].as_str() {
            assert_eq!(said, expected, "{file}: {name}");
        }
    }
    if let Some(calls) = expect["tool_calls"].as_array() {
        assert_eq!(calls.len(), outcome.calls.len(), "{file}");
        for (expected, (id, name, arguments)) in calls.iter().zip(&outcome.calls) {
            assert_eq!(
                (&expected["id"], &expected["name"]),
                (&json!(id), &json!(name))
            );
            match expected["arguments_raw"].as_str() {
                Some(raw) => assert_eq!(raw, arguments, "{file}"),
                None => assert_eq!(
                    expected["arguments"],
                    serde_json::from_str::<Value>(arguments).unwrap(),
                    "{file}"
                ),
            }
        }
    }
    match expect["finish"].as_str() {
        // A finish that means failure is a failure here.
        None | Some("error") => assert_eq!(outcome.finish, None, "{file}"),
        Some(expected) => assert_eq!(outcome.finish.unwrap().as_str(), expected, "{file}"),
    }
    check_usage(file, &expect["usage"], outcome);
}

fn check_usage(file: &str, expected: &Value, outcome: &Outcome) {
    let Some(expected) = expected.as_object() else {
        return;
    };
    let usage = outcome.usage.unwrap();
    for (name, count) in expected {
        let counted = match name.as_str() {
            "input" => Some(usage.input),
            "output" => Some(usage.output),
            "cached" => Some(usage.cached.unwrap_or(0)),
            "reasoning" => Some(usage.reasoning.unwrap_or(0)),
            other => panic!("unknown count {other}"),
        };
        assert_eq!(counted, count.as_u64(), "{file}: {name}");
    }
}

/// The class a fixture must end in. A refusal is the model's own answer and
/// decodes as one ([`Finish::Refusal`] marks it); what a schema says is not
/// known to the wire format.
pub(crate) fn expected_class(fixture: &Fixture) -> Option<&str> {
    let by_schema = ["json_schema_truncated.json", "json_wrong_schema.json"];
    let refusal = fixture.line["expect"]["finish"] == "refusal";
    let other_judge = refusal || by_schema.iter().any(|f| fixture.file.ends_with(f));
    fixture.class().filter(|_| !other_judge)
}

#[test]
fn every_stream_fixture_decodes_as_its_index_line_says() {
    let mut seen = 0;
    for fixture in fixtures::all() {
        let is_stream = fixture.kind == "stream" || fixture.kind == "stream_error";
        if !fixture.speaks_openai() || !is_stream {
            continue;
        }
        seen += 1;
        let whole = decode(&fixture, usize::MAX);
        let mut outcome = Outcome::of_events(&whole);
        if fixture.file.ends_with("n2_choices.sse") {
            // One answer is read of several.
            assert_eq!(
                (outcome.text.as_str(), outcome.finish),
                ("A", Some(Finish::Stop))
            );
            continue;
        }
        if fixture.line["expect"]["finish"] == "error" {
            assert_eq!(outcome.finish.take(), None, "{}", fixture.file);
        }
        check(&fixture, &outcome);
        assert_eq!(
            outcome.class.map(Class::as_str),
            expected_class(&fixture),
            "{}",
            fixture.file
        );
        for read in [1, 7] {
            let split = decode(&fixture, read);
            assert_eq!(
                format!("{whole:?}"),
                format!("{split:?}"),
                "{} by {read}",
                fixture.file
            );
        }
    }
    assert_eq!(seen, 45);
}

#[test]
fn every_answer_fixture_decodes_as_its_index_line_says() {
    let mut seen = 0;
    for fixture in fixtures::all() {
        if !fixture.speaks_openai() || fixture.kind != "response" {
            continue;
        }
        if fixture.line["status"] != 200 || fixture.file.contains("native") {
            continue;
        }
        seen += 1;
        let result = decode_response(&fixture.bytes, fixture.server());
        let outcome = Outcome::of_answer(&result);
        check(&fixture, &outcome);
        assert_eq!(
            outcome.class.map(Class::as_str),
            expected_class(&fixture),
            "{}",
            fixture.file
        );
    }
    assert_eq!(seen, 13);
}
