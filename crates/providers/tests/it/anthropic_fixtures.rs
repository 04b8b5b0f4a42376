//! Every fixture of Anthropic's format decodes to what its index line says,
//! and every request is written as it was.

use crate::fixtures::{self, Fixture};
use evenkeel_core::{Accumulator, ChatResponse, Failure, Finish, Part, StreamEvent, Value};
use evenkeel_providers::Server;
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::anthropic::{
    Options, StreamDecoder, Thinking, decode_answer, decode_models, decode_request, encode_request,
    encode_response,
};
use evenkeel_providers::wire::classify::{Reply, classify};
use serde_json::json;

fn of_kind(kinds: &[&str]) -> Vec<Fixture> {
    fixtures::all()
        .into_iter()
        .filter(|f| f.provider == "anthropic" && kinds.contains(&f.kind.as_str()))
        .collect()
}

fn decode(fixture: &Fixture, read: usize) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new();
    let mut events: Vec<_> = fixture
        .bytes
        .chunks(read.min(fixture.bytes.len()))
        .flat_map(|bytes| decoder.push(bytes))
        .collect();
    events.extend(decoder.finish());
    assert!(decoder.is_over(), "{}", fixture.file);
    events
}

/// What the events came to, whole or not, and the failure that ended them.
fn outcome(events: &[Result<StreamEvent, Failure>]) -> (ChatResponse, Option<Failure>) {
    let mut whole = Accumulator::default();
    let mut failure = None;
    let mut finished = false;
    for event in events {
        match event {
            Ok(event) => {
                finished |= matches!(event, StreamEvent::Finish(_));
                whole.push(event);
            }
            Err(e) => failure = Some(e.clone()),
        }
    }
    if failure.is_some() {
        // Only to look at what there was.
        whole.push(&StreamEvent::End);
        if !finished {
            whole.push(&StreamEvent::Finish(Finish::Unknown));
        }
    }
    let answer = whole.finish().unwrap();
    let failure = failure.or_else(|| answer.verify().err());
    (answer, failure)
}

fn check(fixture: &Fixture, answer: &ChatResponse, failure: Option<&Failure>) {
    let file = &fixture.file;
    let expect = &fixture.line["expect"];
    if let Some(text) = expect["text"].as_str() {
        assert_eq!(answer.plain_text(), text, "{file}");
    }
    if let Some(json) = expect.get("json") {
        let text: Value = serde_json::from_str(&answer.plain_text()).unwrap();
        assert_eq!(&text, json, "{file}");
    }
    let reasoning: Vec<_> = answer
        .parts
        .iter()
        .filter_map(|p| match p {
            Part::Reasoning(part) => Some(part),
            _ => None,
        })
        .collect();
    if let Some(text) = expect["reasoning"].as_str() {
        assert_eq!(reasoning[0].text, text, "{file}");
    }
    if let Some(signature) = expect["signature"].as_str() {
        assert_eq!(reasoning[0].signature.as_deref(), Some(signature), "{file}");
        assert_eq!(reasoning[0].dialect, "anthropic");
    }
    for (i, data) in expect["opaque"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let Part::Other(extra) = &answer.parts[i] else {
            panic!("{file}: {:?}", answer.parts)
        };
        assert_eq!(extra.fields["type"], "redacted_thinking");
        assert_eq!(&extra.fields["data"], data, "{file}");
    }
    if let Some(calls) = expect["tool_calls"].as_array() {
        let read: Vec<_> = answer.tool_calls().collect();
        assert_eq!(calls.len(), read.len(), "{file}");
        for (expected, call) in calls.iter().zip(read) {
            assert_eq!(expected["id"], call.id.as_str(), "{file}");
            assert_eq!(expected["name"], call.name.as_str(), "{file}");
            if let Some(raw) = expected["arguments_raw"].as_str() {
                assert_eq!(raw, call.arguments, "{file}");
            } else {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                assert_eq!(expected["arguments"], arguments, "{file}");
            }
        }
    }
    if let Some(matched) = expect.get("stop_sequence") {
        assert_eq!(&answer.extra.fields["stop_sequence"], matched, "{file}");
    }
    if let Some(category) = expect.get("category") {
        assert_eq!(&answer.extra.fields["stop_details"]["category"], category);
    }
    check_usage(file, &expect["usage"], answer);
    let finish = expect["finish"].as_str();
    if finish.is_some() {
        assert_eq!(Some(answer.finish.as_str()), finish, "{file}");
    }
    // A refusal is the model's own answer, and one that filled the window is
    // cut and not wrong: both are told by their finish.
    let told_by_finish = matches!(finish, Some("refusal" | "context_window"));
    let class = fixture.class().filter(|_| !told_by_finish);
    assert_eq!(failure.map(|f| f.class.as_str()), class, "{file}");
}

fn check_usage(file: &str, expected: &Value, answer: &ChatResponse) {
    let Some(expected) = expected.as_object() else {
        return;
    };
    let usage = answer.usage.unwrap();
    for (name, count) in expected {
        let counted = match name.as_str() {
            "input" => Some(usage.input),
            "output" => Some(usage.output),
            "cached" => usage.cached,
            "cache_write" => usage.cache_write,
            "reasoning" => usage.reasoning,
            other => panic!("unknown count {other}"),
        };
        assert_eq!(counted, count.as_u64(), "{file}: {name}");
    }
}

#[test]
fn every_stream_decodes_as_its_index_line_says() {
    let fixtures = of_kind(&["stream", "stream_error"]);
    assert_eq!(fixtures.len(), 19);
    for fixture in fixtures {
        let whole = decode(&fixture, usize::MAX);
        let (answer, failure) = outcome(&whole);
        check(&fixture, &answer, failure.as_ref());
        for read in [1, 7] {
            let split = decode(&fixture, read);
            assert_eq!(
                format!("{whole:?}"),
                format!("{split:?}"),
                "{}",
                fixture.file
            );
        }
    }
}

#[test]
fn every_answer_decodes_as_its_index_line_says_and_is_written_as_it_was() {
    let fixtures = of_kind(&["response"]);
    assert_eq!(fixtures.len(), 6);
    for fixture in fixtures {
        let reply = Reply::in_answer(Server::Anthropic, &fixture.bytes);
        let answer = decode_answer(&reply).unwrap();
        check(&fixture, &answer, answer.verify().err().as_ref());
        let mut written: Value = serde_json::from_slice(&fixture.bytes).unwrap();
        for block in written["content"].as_array_mut().unwrap() {
            // Null says that there are none, as does nothing.
            let block = block.as_object_mut().unwrap();
            block.retain(|_, value| !value.is_null());
        }
        assert_eq!(
            encode_response(&answer, &answer.model),
            written,
            "{}",
            fixture.file
        );
    }
}

#[test]
fn every_request_decodes_and_is_written_as_it_was() {
    let fixtures = of_kind(&["request"]);
    assert_eq!(fixtures.len(), 7);
    for fixture in fixtures {
        let written: Value = serde_json::from_slice(&fixture.bytes).unwrap();
        let read = decode_request(&fixture.bytes).unwrap();
        assert!(read.include_usage);
        let encoded = encode_request(&read.request, &read.model, read.stream, &Options::default());
        assert_eq!(encoded.body, written, "{}", fixture.file);
        assert_eq!(encoded.adapted, Vec::<String>::new(), "{}", fixture.file);
    }
}

#[test]
fn the_thinking_fixture_asks_an_adaptive_model_in_its_own_words() {
    let fixtures = of_kind(&["request"]);
    let fixture = fixtures.iter().find(|f| f.file.ends_with("thinking.json"));
    let read = decode_request(&fixture.unwrap().bytes).unwrap();
    assert_eq!(read.request.reasoning.unwrap().budget_tokens, Some(2048));
    let options = Options {
        thinking: Thinking::Adaptive,
        ..Options::default()
    };
    let encoded = encode_request(&read.request, "m", false, &options);
    assert_eq!(encoded.body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(
        encoded.adapted,
        ["reasoning budget: this model sets its own, left out"]
    );
}

#[test]
fn every_error_gets_its_class_in_a_reply_and_in_a_stream() {
    let fixtures = of_kind(&["error"]);
    assert_eq!(fixtures.len(), 29);
    for fixture in fixtures {
        let status = u16::try_from(fixture.line["status"].as_u64().unwrap()).unwrap();
        let headers = fixture.headers();
        let reply = Reply::new(Server::Anthropic, status, &fixture.bytes).with_headers(&headers);
        let failure = classify(&reply);
        assert_eq!(
            Some(failure.class.as_str()),
            fixture.class(),
            "{}",
            fixture.file
        );
        // In a stream the status is lost: the type must tell, where it can.
        let body: Value = serde_json::from_slice(&fixture.bytes).unwrap();
        let data = format!("event: error\ndata: {body}\n\n");
        let events = StreamDecoder::new().push(data.as_bytes());
        let Some(Err(in_stream)) = events.first() else {
            panic!("{events:?}")
        };
        let told_by_status_alone = ["409_conflict.json"];
        if !told_by_status_alone
            .iter()
            .any(|f| fixture.file.ends_with(f))
        {
            assert_eq!(in_stream.class, failure.class, "{}", fixture.file);
        }
        let whole = decode_answer(&Reply::in_answer(Server::Anthropic, &fixture.bytes));
        assert_eq!(whole.unwrap_err().class, in_stream.class);
    }
}

#[test]
fn the_list_of_models_tells_when_each_is_retired() {
    let fixtures = of_kind(&["models"]);
    assert_eq!(fixtures.len(), 1);
    let fixture = &fixtures[0];
    let cards = decode_models(&Reply::in_answer(Server::Anthropic, &fixture.bytes)).unwrap();
    for (id, retires_at) in fixture.line["expect"]["eol"].as_object().unwrap() {
        let card = cards.iter().find(|card| card.id == *id).unwrap();
        assert_eq!(card.retires_at.as_deref(), retires_at.as_str());
        assert_eq!(card.lifecycle.as_deref(), Some("deprecated"));
        assert_eq!(card.max_output_tokens, Some(64_000));
        assert_eq!(card.max_input_tokens, Some(200_000));
    }
    let error = br#"{"type":"error","error":{"type":"authentication_error","message":"no"}}"#;
    for (body, class) in [
        (&error[..], "auth"),
        (b"{}", "malformed"),
        (b"<html>", "malformed"),
    ] {
        let failure = decode_models(&Reply::in_answer(Server::Anthropic, body)).unwrap_err();
        assert_eq!(failure.class.as_str(), class);
    }
}
