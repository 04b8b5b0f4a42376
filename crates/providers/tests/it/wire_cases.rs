//! Streams that broke other readers, byte for byte.

use evenkeel_core::{Accumulator, ChatResponse, Class, Delta, Failure, Finish, StreamEvent};
use evenkeel_providers::Server;
use evenkeel_providers::wire::openai::{StreamDecoder, decode_response};
use evenkeel_providers::wire::{EventDecoder, StreamLimits};
use serde_json::json;

fn decode(pieces: &[&str]) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new(Server::Compatible);
    let mut events: Vec<_> = pieces
        .iter()
        .flat_map(|piece| decoder.push(piece.as_bytes()))
        .collect();
    events.extend(decoder.finish());
    events
}

fn answer(pieces: &[&str]) -> Result<ChatResponse, Failure> {
    let mut whole = Accumulator::default();
    for event in decode(pieces) {
        whole.push(&event?);
    }
    whole.finish()
}

fn delta(delta: &serde_json::Value) -> String {
    let chunk = json!({"id": "s1", "created": 1_700_000_000, "model": "m-a",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    format!("data: {chunk}\n\n")
}

fn calls(pieces: &[serde_json::Value]) -> String {
    pieces
        .iter()
        .map(|piece| delta(&json!({"tool_calls": [piece]})))
        .collect()
}

fn end(reason: &str) -> String {
    format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    )
}

/// C004
#[test]
fn an_event_that_cannot_be_read_is_skipped_and_told() {
    let events = decode(&[
        &delta(&json!({"role": "assistant", "content": "a"})),
        "data: {\"id\":\"s1\",\"choices\":[{\"index\":0,\"delta\":{\"conte\n\n",
        "data: 7\n\n",
        &delta(&json!({"content": "b"})),
        &end("stop"),
    ]);
    let skipped = events
        .iter()
        .filter(|e| matches!(e, Ok(StreamEvent::Skipped)));
    assert_eq!(skipped.count(), 2);
    assert!(matches!(events.last(), Some(Ok(StreamEvent::End))));
}

/// C010
#[test]
fn an_error_event_is_read_nested_and_flat() {
    for event in [
        r#"data: {"type":"error","sequence_number":2,"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Input is larger than the context window.","param":"input"}}"#,
        r#"data: {"type":"error","code":"context_length_exceeded","message":"Input is larger than the context window."}"#,
        "event: error\ndata: {\"code\":\"context_length_exceeded\",\"message\":\"Input is larger than the context window.\"}",
    ] {
        let failure = answer(&[event, "\n\n"]).unwrap_err();
        assert_eq!(failure.class, Class::ContextWindow);
        assert_eq!(failure.code.as_deref(), Some("context_length_exceeded"));
        assert_eq!(failure.message, "Input is larger than the context window.");
    }
}

/// C013, C163
#[test]
fn objects_without_choices_are_signs_of_life() {
    let events = decode(&[
        &delta(&json!({"role": "assistant", "content": "Hi"})),
        "data: {\"type\":\"ping\"}\n\n: keep-alive\n\nevent: ping\ndata: {}\n\n",
        "data: {\"choices\":null}\n\ndata: null\n\n",
        "data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2}}\n\n",
        &delta(&json!({"content": "!"})),
        &end("stop"),
    ]);
    let alive = events
        .iter()
        .filter(|e| matches!(e, Ok(StreamEvent::KeepAlive)));
    assert_eq!(alive.count(), 5);
    let content = events.iter().flatten().filter(|e| e.is_content());
    assert_eq!(content.count(), 2);
    let mut whole = Accumulator::default();
    events.iter().flatten().for_each(|e| whole.push(e));
    let whole = whole.finish().unwrap();
    assert_eq!(whole.plain_text(), "Hi!");
    assert_eq!(whole.usage.map(|u| (u.input, u.output)), Some((1, 1)));
}

/// C044 and traps 17 and 18.
#[test]
fn pieces_of_tool_calls_are_put_together_by_index_id_and_name() {
    type Case<'a> = (
        &'a str,
        Vec<serde_json::Value>,
        &'a [(&'a str, &'a str, &'a str)],
    );
    let cases: Vec<Case<'_>> = vec![
        (
            "arguments before the name",
            vec![
                json!({"index": 0, "id": "c1", "type": "function", "function": {"arguments": "{\"a\""}}),
                json!({"index": 0, "function": {"name": "f", "arguments": ":2}"}}),
            ],
            &[("c1", "f", "{\"a\":2}")],
        ),
        (
            "a new id on a used index",
            vec![
                json!({"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}),
                json!({"index": 0, "id": "c2", "function": {"name": "f", "arguments": "{\"b\":1"}}),
                json!({"index": 0, "id": "c2", "function": {"arguments": "}"}}),
            ],
            &[("c1", "f", "{}"), ("c2", "f", "{\"b\":1}")],
        ),
        (
            "the id and the name in every piece",
            vec![
                json!({"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{\"a\""}}),
                json!({"index": 0, "id": "c1", "function": {"name": "f", "arguments": ":1}"}}),
            ],
            &[("c1", "f", "{\"a\":1}")],
        ),
        (
            "the name in pieces, then grown",
            vec![
                json!({"index": 0, "id": "c1", "function": {"name": "get_"}}),
                json!({"index": 0, "function": {"name": "get_weather"}}),
                json!({"index": 0, "function": {"name": "_now", "arguments": ""}}),
                json!({"index": 0, "function": {"arguments": "{}"}}),
            ],
            &[("c1", "get_weather_now", "{}")],
        ),
        (
            "no index, no ids",
            vec![
                json!({"function": {"name": "f", "arguments": "{}"}}),
                json!({"function": {"name": "g", "arguments": {"deep": [1]}}}),
            ],
            &[
                ("call_s1_0", "f", "{}"),
                ("call_s1_1", "g", "{\"deep\":[1]}"),
            ],
        ),
        (
            "interleaved, the second without arguments",
            vec![
                json!({"index": 1, "id": "c2", "function": {"name": "g"}}),
                json!({"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{\"a\""}}),
                json!({"index": 0, "function": {"arguments": ":1}"}}),
            ],
            &[("c2", "g", "{}"), ("c1", "f", "{\"a\":1}")],
        ),
    ];
    for (what, pieces, expected) in cases {
        // A server that says `stop` although it called.
        let whole = answer(&[&calls(&pieces), &end("stop")]).unwrap();
        let got: Vec<_> = whole
            .tool_calls()
            .map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str()))
            .collect();
        assert_eq!(got, expected, "{what}");
        assert_eq!(whole.finish, Finish::ToolUse, "{what}");
        whole.verify().unwrap();
    }
}

#[test]
fn a_call_without_a_name_is_malformed() {
    let pieces = [json!({"index": 0, "id": "c1", "function": {"arguments": "{}"}})];
    let failure = answer(&[&calls(&pieces), &end("tool_calls")]).unwrap_err();
    assert_eq!(failure.class, Class::Malformed);
}

/// C104
#[test]
fn a_call_cut_in_its_arguments_is_no_answer() {
    let pieces =
        [json!({"index": 0, "id": "c1", "function": {"name": "rm", "arguments": "{\"path\":"}})];
    assert_eq!(
        answer(&[&calls(&pieces)]).unwrap_err().class,
        Class::Transient
    );
}

/// C068
#[test]
fn a_choice_without_a_delta_and_an_empty_model_change_nothing() {
    let whole = answer(&[
        "data: {\"id\":\"\",\"object\":\"\",\"created\":0,\"model\":\"\",\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n",
        &delta(&json!({"role": "assistant", "content": "ok"})),
        "data: {\"id\":\"\",\"model\":\"\",\"choices\":[{\"index\":0,\"finish_reason\":null,\"content_filter_results\":{}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1,\"total_tokens\":5}}\n\ndata: [DONE]\n\n",
    ])
    .unwrap();
    assert_eq!(
        (whole.plain_text().as_str(), whole.model.as_str()),
        ("ok", "m-a")
    );
    assert_eq!(whole.usage.map(|u| (u.input, u.output)), Some((4, 1)));
    assert!(whole.extra.fields.contains_key("prompt_filter_results"));
}

/// C090
#[test]
fn reasoning_without_an_answer_is_an_empty_answer() {
    let body = json!({"id": "x", "model": "m-r", "choices": [{"index": 0, "message": {
        "role": "assistant", "content": "", "reasoning_content": "The capital is Lima."},
        "finish_reason": "stop"}]});
    let whole = decode_response(body.to_string().as_bytes(), Server::Compatible).unwrap();
    assert_eq!(whole.verify().unwrap_err().class, Class::Semantic);
}

/// C154
#[test]
fn reasoning_is_read_under_either_name_and_is_progress() {
    for name in ["reasoning", "reasoning_content"] {
        let events = decode(&[
            &delta(&json!({"role": "assistant", "content": "", name: "Count"})),
            &delta(&json!({"content": "", name: " up"})),
            &delta(&json!({"content": "1 2 3"})),
            &end("stop"),
        ]);
        let first = events.iter().flatten().find(|e| e.is_content()).unwrap();
        assert!(matches!(first, StreamEvent::Delta(Delta::Reasoning(r)) if r.text == "Count"));
        let mut whole = Accumulator::default();
        events.iter().flatten().for_each(|e| whole.push(e));
        assert_eq!(whole.finish().unwrap().plain_text(), "1 2 3");
    }
}

/// C223
#[test]
fn a_long_line_is_read_and_a_longer_one_refused() {
    let text = "x".repeat(2_097_152);
    let whole = answer(&[&delta(&json!({"content": text})), &end("stop")]).unwrap();
    assert_eq!(whole.plain_text().len(), 2_097_152);
    let limits = StreamLimits {
        max_event_bytes: 1_000_000,
        max_answer_bytes: 1_000_000,
    };
    let mut decoder = StreamDecoder::with_limits(Server::Compatible, limits);
    let events = decoder.push(delta(&json!({"content": text})).as_bytes());
    let failure = events.last().unwrap().as_ref().unwrap_err();
    assert_eq!(failure.class, Class::Malformed);
    assert!(decoder.is_over() && decoder.push(b"data: x\n\n").is_empty());
}

#[test]
fn the_sum_of_a_streams_content_is_bounded() {
    let limits = StreamLimits {
        max_event_bytes: 10_000,
        max_answer_bytes: 10_000,
    };
    let mut decoder = StreamDecoder::with_limits(Server::Compatible, limits);
    let pieces = [
        delta(&json!({"content": "x".repeat(900)})),
        calls(&[json!({"index": 0, "function": {"arguments": "x".repeat(900)}})]),
        calls(&[
            json!({"index": 1, "id": "c", "function": {"name": "f", "arguments": "x".repeat(900)}}),
        ]),
    ];
    for piece in pieces {
        let mut decoder = StreamDecoder::with_limits(Server::Compatible, limits);
        let ended = (0..20).any(|_| decoder.push(piece.as_bytes()).iter().any(Result::is_err));
        assert!(ended, "{piece}");
    }
    // Padding and comments are no content.
    let padding = format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": {"content": "x"}}], "obfuscation": "y".repeat(900)})
    );
    assert!((0..200).all(|_| decoder.push(padding.as_bytes()).iter().all(Result::is_ok)));
}

#[test]
fn nothing_follows_an_error_or_the_end() {
    let mut decoder = StreamDecoder::new(Server::Compatible);
    let events = decoder.push(
        b"data: {\"error\":\"x\"}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
    );
    assert_eq!(events.len(), 1);
    assert!(decoder.finish().is_empty());
}

#[test]
fn an_unknown_finish_is_never_a_stop() {
    let whole = answer(&[&delta(&json!({"content": "a"})), &end("harbour_closed")]).unwrap();
    assert_eq!(whole.finish, Finish::Unknown);
    let body =
        json!({"choices": [{"message": {"content": "a"}, "finish_reason": "harbour_closed"}]});
    let whole = decode_response(body.to_string().as_bytes(), Server::Compatible).unwrap();
    assert_eq!(whole.finish, Finish::Unknown);
    let written = evenkeel_providers::wire::openai::encode_response(&whole, "m");
    assert_eq!(written["choices"][0]["finish_reason"], "harbour_closed");
}

#[test]
fn an_error_inside_a_choice_is_an_error() {
    let choice = json!({"choices": [{"index": 0, "delta": {"content": ""}, "message": {"content": ""},
        "finish_reason": "error", "error": {"code": 429, "message": "slow down"}}]});
    let failure = answer(&[&format!("data: {choice}\n\n")]).unwrap_err();
    assert_eq!(failure.class, Class::RateLimited);
    let failure = decode_response(choice.to_string().as_bytes(), Server::OpenRouter).unwrap_err();
    assert_eq!(failure.class, Class::RateLimited);
}

#[test]
fn an_error_beside_text_keeps_both() {
    let chunk = json!({"id": "s1", "error": {"code": 429, "message": "slow down"},
        "choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": "error"}]});
    let events = decode(&[&format!("data: {chunk}\n\n")]);
    assert!(matches!(&events[1], Ok(StreamEvent::Delta(Delta::Text(t))) if t == "half"));
    assert_eq!(events[2].as_ref().unwrap_err().class, Class::RateLimited);
    assert_eq!(events.len(), 3);
}

#[test]
fn calls_without_end_are_refused() {
    let mut decoder = StreamDecoder::new(Server::Compatible);
    let failure = (0..2_000)
        .flat_map(|i| {
            let piece = json!({"index": i, "id": format!("c{i}"), "function": {"name": "f"}});
            decoder.push(calls(&[piece]).as_bytes())
        })
        .find_map(Result::err)
        .unwrap();
    assert_eq!(failure.class, Class::Malformed);
    assert!(failure.message.contains("1024 tool calls"), "{failure}");
}

#[test]
fn a_list_of_content_parts_is_read_and_written_back() {
    let body = json!({"id": "x", "choices": [{"message": {"role": "assistant",
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "moon"}]},
            {"type": "text", "text": "Ebb."}, {"type": "reference", "reference_ids": [1]}],
        "annotations": [{"type": "url_citation"}]}, "finish_reason": "stop",
        "logprobs": {"content": []}}], "service_tier": "default"});
    let whole = decode_response(body.to_string().as_bytes(), Server::Mistral).unwrap();
    assert_eq!(whole.plain_text(), "Ebb.");
    let written = evenkeel_providers::wire::openai::encode_response(&whole, "m");
    let choice = &written["choices"][0];
    assert_eq!(
        choice["message"]["content"],
        json!([{"type": "text", "text": "Ebb."}, {"type": "reference", "reference_ids": [1]}])
    );
    assert_eq!(choice["message"]["reasoning_content"], "moon");
    assert_eq!(
        choice["message"]["annotations"],
        json!([{"type": "url_citation"}])
    );
    assert_eq!(choice["logprobs"], json!({"content": []}));
    assert_eq!(written["service_tier"], "default");
}

/// A whole answer is finished by its reason, as a stream is.
#[test]
fn a_whole_answer_without_a_finish_reason_is_not_finished() {
    let body = |finish: serde_json::Value| {
        json!({"id": "s1", "created": 1_700_000_000, "model": "m-a", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": "half"}, "finish_reason": finish}]})
        .to_string()
    };
    let read = |finish| decode_response(body(finish).as_bytes(), Server::Compatible);
    assert_eq!(read(json!(null)).unwrap_err().class, Class::Transient);
    assert_eq!(read(json!("stop")).unwrap().finish, Finish::Stop);
    assert_eq!(read(json!("novel")).unwrap().finish, Finish::Unknown);
}

/// Case C097.
#[test]
fn a_character_cut_by_reads_is_one_character() {
    let head = "data: {\"id\":\"s1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\
                \"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
    let bytes = [
        head.as_bytes(),
        "\u{4f60}\u{597d}\u{1f642}".as_bytes(),
        b"\"},\"finish_reason\":null}]}\n\n",
        end("stop").as_bytes(),
    ]
    .concat();
    for read in 1..=bytes.len() {
        let mut decoder = StreamDecoder::new(Server::Compatible);
        let mut whole = Accumulator::default();
        let events = bytes.chunks(read).flat_map(|piece| decoder.push(piece));
        let events: Vec<_> = events.collect();
        for event in events.into_iter().chain(decoder.finish()) {
            whole.push(&event.unwrap());
        }
        assert_eq!(
            whole.finish().unwrap().plain_text(),
            "\u{4f60}\u{597d}\u{1f642}"
        );
    }
}
