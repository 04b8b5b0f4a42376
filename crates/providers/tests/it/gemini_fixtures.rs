//! Every fixture in Gemini's format decodes to what its index line says, and
//! every request is written back as it was.

use crate::fixtures::{self, Fixture};
use evenkeel_core::{Accumulator, ChatResponse, Class, Failure, Finish, Part, StreamEvent};
use evenkeel_providers::Server;
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::classify::{Reply, classify};
use evenkeel_providers::wire::gemini::{
    Options, StreamDecoder, Thinking, decode_answer, decode_models, decode_request, encode_request,
    path,
};
use serde_json::{Value, json};

fn of_kind<'a>(kinds: &'a [&str]) -> impl Iterator<Item = Fixture> + use<'a> {
    fixtures::all()
        .into_iter()
        .filter(move |f| f.provider == "gemini" && kinds.contains(&f.kind.as_str()))
}

/// The answer as far as it came, and the class it ended in.
#[derive(Debug)]
struct Outcome {
    parts: Vec<Part>,
    finish: Option<Finish>,
    usage: Option<evenkeel_core::Usage>,
    extra: evenkeel_core::Map<String, Value>,
    class: Option<Class>,
}

impl Outcome {
    fn of_answer(result: Result<ChatResponse, Failure>) -> Self {
        match result {
            Ok(answer) => Self {
                class: answer.verify().err().map(|failure| failure.class),
                parts: answer.parts,
                finish: Some(answer.finish),
                usage: answer.usage,
                extra: answer.extra.fields,
            },
            Err(failure) => Self {
                class: Some(failure.class),
                parts: Vec::new(),
                finish: None,
                usage: None,
                extra: evenkeel_core::Map::new(),
            },
        }
    }

    /// What was delivered before a failure counts too.
    fn of_events(events: &[Result<StreamEvent, Failure>]) -> Self {
        let mut whole = Accumulator::default();
        let mut failed = None;
        let mut usage = None;
        for event in events {
            match event {
                Ok(event) => {
                    whole.push(event);
                    if let StreamEvent::Usage(counted) = event {
                        usage = Some(*counted);
                    }
                }
                Err(failure) => failed = Some(failure.class),
            }
        }
        if failed.is_none() {
            return Self::of_answer(whole.finish());
        }
        whole.push(&StreamEvent::Finish(Finish::Unknown));
        whole.push(&StreamEvent::End);
        Self {
            parts: whole.finish().unwrap().parts,
            finish: None,
            usage,
            extra: evenkeel_core::Map::new(),
            class: failed,
        }
    }

    fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|p| match p {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    fn check(&self, fixture: &Fixture) {
        let expect = &fixture.line["expect"];
        let file = &fixture.file;
        if let Some(text) = expect["text"].as_str() {
            assert_eq!(self.text(), text, "{file}");
        }
        if let Some(json) = expect.get("json") {
            let said: Value = serde_json::from_str(&self.text()).unwrap();
            assert_eq!(said, *json, "{file}");
        }
        let reasoning = self.parts.iter().filter_map(|p| match p {
            Part::Reasoning(piece) => Some(piece),
            _ => None,
        });
        let said: String = reasoning.clone().map(|r| r.text.as_str()).collect();
        assert_eq!(said, expect["reasoning"].as_str().unwrap_or(""), "{file}");
        if let Some(signature) = expect["signature"].as_str() {
            let signatures: Vec<_> = reasoning.filter_map(|r| r.signature.as_deref()).collect();
            assert_eq!(signatures, [signature], "{file}");
        }
        self.check_calls(fixture);
        match expect["finish"].as_str() {
            // A finish that means failure is a failure here.
            None | Some("malformed") => assert_eq!(self.finish, None, "{file}"),
            Some(finish) => assert_eq!(self.finish.unwrap().as_str(), finish, "{file}"),
        }
        for (name, count) in expect["usage"].as_object().into_iter().flatten() {
            let usage = self.usage.unwrap();
            let counted = match name.as_str() {
                "input" => usage.input,
                "output" => usage.output,
                "cached" => usage.cached.unwrap_or(0),
                "reasoning" => usage.reasoning.unwrap_or(0),
                other => panic!("unknown count {other}"),
            };
            assert_eq!(Some(counted), count.as_u64(), "{file}: {name}");
        }
        if let Some(retirement) = expect["retirement"].as_str() {
            assert_eq!(self.extra["modelStatus"]["retirementTime"], retirement);
        }
        let class = self.class.map(Class::as_str);
        assert_eq!(class, fixture.class(), "{file}");
    }

    fn check_calls(&self, fixture: &Fixture) {
        let calls: Vec<_> = self
            .parts
            .iter()
            .filter_map(|p| match p {
                Part::ToolCall(call) => Some(call),
                _ => None,
            })
            .collect();
        let expected = fixture.line["expect"]["tool_calls"].as_array();
        let expected = expected.cloned().unwrap_or_default();
        assert_eq!(calls.len(), expected.len(), "{}", fixture.file);
        for (call, expected) in calls.iter().zip(&expected) {
            assert_eq!(expected["name"], call.name, "{}", fixture.file);
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            assert_eq!(expected["arguments"], arguments, "{}", fixture.file);
            match expected["id"].as_str() {
                Some(id) => assert_eq!(call.id, id, "{}", fixture.file),
                None => assert!(!call.id.is_empty(), "{}", fixture.file),
            }
        }
    }
}

fn decode(bytes: &[u8], read: usize) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new();
    let pieces = bytes.chunks(read);
    let mut events: Vec<_> = pieces.flat_map(|bytes| decoder.push(bytes)).collect();
    events.extend(decoder.finish());
    assert!(decoder.is_over());
    events
}

#[test]
fn every_stream_fixture_decodes_as_its_index_line_says_in_any_split() {
    let mut seen = 0;
    for fixture in of_kind(&["stream", "stream_error"]) {
        seen += 1;
        let whole = decode(&fixture.bytes, fixture.bytes.len());
        Outcome::of_events(&whole).check(&fixture);
        for read in 1..fixture.bytes.len() {
            let split = decode(&fixture.bytes, read);
            assert_eq!(
                format!("{whole:?}"),
                format!("{split:?}"),
                "{} by {read}",
                fixture.file
            );
        }
        for cut in 1..fixture.bytes.len() {
            let (head, tail) = fixture.bytes.split_at(cut);
            let mut decoder = StreamDecoder::new();
            let mut events = decoder.push(head);
            events.extend(decoder.push(tail));
            events.extend(decoder.finish());
            assert_eq!(
                format!("{whole:?}"),
                format!("{events:?}"),
                "{} at {cut}",
                fixture.file
            );
        }
    }
    assert_eq!(seen, 12);
}

#[test]
fn every_answer_fixture_decodes_as_its_index_line_says() {
    let mut seen = 0;
    for fixture in of_kind(&["response"]) {
        seen += 1;
        let reply = Reply::new(Server::Gemini, 200, &fixture.bytes);
        Outcome::of_answer(decode_answer(&reply)).check(&fixture);
    }
    assert_eq!(seen, 7);
}

#[test]
fn every_error_fixture_gets_its_class_and_wait() {
    let mut seen = 0;
    for fixture in of_kind(&["error"]) {
        seen += 1;
        let status = u16::try_from(fixture.line["status"].as_u64().unwrap()).unwrap();
        let headers = fixture.headers();
        let reply = Reply::new(Server::Gemini, status, &fixture.bytes).with_headers(&headers);
        let failure = classify(&reply);
        assert_eq!(
            Some(failure.class.as_str()),
            fixture.class(),
            "{}",
            fixture.file
        );
        if let Some(wait) = fixture.line["retry_after_ms"].as_u64() {
            let told = failure.retry_after.unwrap().as_millis();
            assert!(told.abs_diff(wait.into()) <= 1, "{}: {told}", fixture.file);
        }
    }
    assert_eq!(seen, 18);
}

#[test]
fn every_request_fixture_is_written_back_as_it_was_at_its_path() {
    let mut seen = 0;
    let options = Options {
        thinking: Some(Thinking::Budget),
        ..Options::default()
    };
    for fixture in of_kind(&["request"]) {
        seen += 1;
        let line = fixture.line["path"].as_str().unwrap();
        let stream = line.contains("streamGenerateContent");
        let below = line.strip_prefix("POST /v1beta").unwrap();
        assert_eq!(path("fixture-flash", stream), below);
        let read = decode_request("fixture-flash", stream, &fixture.bytes).unwrap();
        let written = encode_request(&read.request, "fixture-flash", &options);
        let body: Value = serde_json::from_slice(&fixture.bytes).unwrap();
        assert_eq!(written.body, body, "{}", fixture.file);
        assert!(written.adapted.is_empty(), "{:?}", written.adapted);
        assert!(written.tool_names.is_empty());
    }
    assert_eq!(seen, 7);
}

#[test]
fn the_list_of_models_gives_their_limits() {
    let mut seen = 0;
    for fixture in of_kind(&["models"]) {
        seen += 1;
        let reply = Reply::new(Server::Gemini, 200, &fixture.bytes);
        let models = decode_models(&reply).unwrap();
        let limits: evenkeel_core::Map<String, Value> = models
            .into_iter()
            .map(|m| (m.model, json!([m.input_tokens, m.output_tokens])))
            .collect();
        assert_eq!(Value::from(limits), fixture.line["expect"]["limits"]);
    }
    assert_eq!(seen, 1);
    for body in [&b"[]"[..], b"{", b"{\"models\":7}"] {
        let reply = Reply::new(Server::Gemini, 200, body);
        assert_eq!(decode_models(&reply).unwrap_err().class, Class::Malformed);
    }
}
