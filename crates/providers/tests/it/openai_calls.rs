//! Tool calls as servers of `OpenAI`'s dialect really stream them.

use evenkeel_core::{Accumulator, ChatResponse, StreamEvent};
use evenkeel_providers::Server;
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::openai::{StreamDecoder, decode_response};
use serde_json::{Value, json};
use std::slice::from_ref;

/// An answer whose chunks hold these deltas, the last with its finish.
fn streamed(id: &str, deltas: &[Value], last: (Value, &str)) -> ChatResponse {
    let mut decoder = StreamDecoder::new(Server::Compatible);
    let mut whole = Accumulator::default();
    let plain = deltas.iter().map(|delta| (delta.clone(), Value::Null));
    for (delta, reason) in plain.chain([(last.0, json!(last.1))]) {
        let chunk = json!({"id": id, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        for event in decoder.push(format!("data: {chunk}\n\n").as_bytes()) {
            whole.push(&event.unwrap());
        }
    }
    let end = decoder.finish();
    assert!(matches!(end.last(), Some(Ok(StreamEvent::End))));
    for event in end {
        whole.push(&event.unwrap());
    }
    whole.finish().unwrap()
}

fn calls(entries: &[Value]) -> Value {
    json!({"tool_calls": entries})
}

fn said(answer: &ChatResponse) -> Vec<(&str, &str, &str)> {
    let calls = answer.tool_calls();
    calls
        .map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str()))
        .collect()
}

fn entry(place: Value, name: &str, arguments: &str) -> Value {
    let mut entry = place;
    entry["function"] = json!({"name": name, "arguments": arguments});
    entry
}

/// Each case: what it is, the deltas, what the last chunk holds, the calls.
type Case = (
    &'static str,
    Vec<Value>,
    Value,
    Vec<(&'static str, &'static str, &'static str)>,
);

fn check(cases: Vec<Case>) {
    for (what, deltas, last, expected) in cases {
        let answer = streamed("s1", &deltas, (last, "tool_calls"));
        assert_eq!(said(&answer), expected, "{what}");
    }
}

const ONE: &str = r#"{"a":1}"#;
const TWO: &str = r#"{"a":2}"#;

#[test]
fn parallel_calls_of_one_tool_stay_apart_without_ids() {
    let two = vec![("call_s1_0", "f", ONE), ("call_s1_1", "f", TWO)];
    let places = [
        ("neither index nor id", json!({})),
        ("index 0 and an empty id", json!({"index": 0, "id": ""})),
        ("index 0 alone", json!({"index": 0})),
        ("null and null", json!({"index": null, "id": null})),
    ];
    for (what, place) in places {
        let (one, other) = (
            entry(place.clone(), "f", ONE),
            entry(place.clone(), "f", TWO),
        );
        let (apart, together) = (
            vec![calls(from_ref(&one)), calls(from_ref(&other))],
            vec![calls(&[one.clone(), other.clone()])],
        );
        let mut in_pieces = vec![calls(from_ref(&one))];
        for (name, piece) in [("f", ""), ("", "{\"a\""), ("", ":2}")] {
            in_pieces.push(calls(&[entry(place.clone(), name, piece)]));
        }
        let mut begun = vec![calls(&[one])];
        for (name, piece) in [("f", "{\"a\""), ("f", ":2}")] {
            begun.push(calls(&[entry(place.clone(), name, piece)]));
        }
        check(vec![
            (what, apart, json!({}), two.clone()),
            (what, together, json!({}), two.clone()),
            (what, in_pieces, json!({}), two.clone()),
            (what, begun, json!({}), two.clone()),
            (
                what,
                vec![calls(&[entry(place, "f", ONE)])],
                calls(&[other]),
                two.clone(),
            ),
        ]);
    }
}

#[test]
fn a_call_that_is_said_again_is_one_call() {
    let (by_id, by_index) = (json!({"id": "x"}), json!({"index": 0}));
    let both = json!({"index": 0, "id": "x"});
    let spaced = r#"{ "a": 1 }"#;
    let one = |id| vec![(id, "f", ONE)];
    check(vec![
        (
            "index and id",
            vec![calls(&[entry(both.clone(), "f", ONE)])],
            calls(&[entry(both.clone(), "f", ONE)]),
            one("x"),
        ),
        (
            "by its id, written otherwise",
            vec![calls(&[entry(by_id.clone(), "f", ONE)])],
            calls(&[entry(by_id, "f", spaced)]),
            one("x"),
        ),
        (
            "by its index, without the id",
            vec![calls(&[entry(both.clone(), "f", ONE)])],
            calls(&[entry(by_index.clone(), "f", ONE)]),
            one("x"),
        ),
        (
            "by its index, with an id now",
            vec![calls(&[entry(by_index.clone(), "f", ONE)])],
            calls(&[entry(both.clone(), "f", ONE)]),
            one("call_s1_0"),
        ),
        (
            "without place, summed up in the last chunk",
            vec![
                calls(&[entry(json!({}), "f", ONE)]),
                calls(&[entry(json!({}), "g", TWO)]),
            ],
            calls(&[entry(json!({}), "f", ONE), entry(json!({}), "g", TWO)]),
            vec![("call_s1_0", "f", ONE), ("call_s1_1", "g", TWO)],
        ),
        (
            "streamed first, its arguments alone repeated",
            vec![
                calls(&[entry(both.clone(), "f", "{\"a\"")]),
                calls(&[entry(by_index.clone(), "", ":1}")]),
            ],
            calls(&[entry(by_index.clone(), "", ONE)]),
            one("x"),
        ),
        (
            "only its name",
            vec![calls(&[entry(both, "f", ONE)])],
            calls(&[entry(by_index, "f", "")]),
            one("x"),
        ),
    ]);
}

#[test]
fn the_same_call_twice_is_two_calls_where_only_the_entries_tell() {
    let twice = calls(&[entry(json!({}), "f", ONE), entry(json!({}), "f", ONE)]);
    let once = calls(&[entry(json!({}), "f", ONE)]);
    let no_arguments = calls(&[entry(json!({}), "f", ""), entry(json!({}), "g", "")]);
    let two = vec![("call_s1_0", "f", ONE), ("call_s1_1", "f", ONE)];
    check(vec![
        ("in one delta", vec![twice], json!({}), two.clone()),
        ("in two", vec![once.clone(), once], json!({}), two),
        (
            "at one index, without arguments",
            vec![calls(&[
                entry(json!({"index": 0}), "f", ""),
                entry(json!({"index": 0}), "g", ""),
            ])],
            json!({}),
            vec![("call_s1_0", "f", "{}"), ("call_s1_1", "g", "{}")],
        ),
        (
            "without arguments",
            vec![no_arguments],
            json!({}),
            vec![("call_s1_0", "f", "{}"), ("call_s1_1", "g", "{}")],
        ),
    ]);
}

#[test]
fn real_arguments_replace_an_empty_object() {
    let first = json!({"index": 0, "id": "x"});
    let place = json!({"index": 0});
    let held = |pieces: &[(&str, &str)]| {
        let mut deltas = vec![calls(&[entry(first.clone(), "f", "{}")])];
        deltas.extend(pieces.iter().map(|(id, piece)| {
            let mut place = place.clone();
            if !id.is_empty() {
                place["id"] = json!(id);
            }
            calls(&[entry(place, if id.is_empty() { "" } else { "f" }, piece)])
        }));
        deltas
    };
    check(vec![
        (
            "whole",
            held(&[("", ONE)]),
            json!({}),
            vec![("x", "f", ONE)],
        ),
        (
            "in pieces",
            held(&[("", "{\"a\""), ("", ":1}")]),
            json!({}),
            vec![("x", "f", ONE)],
        ),
        (
            "named",
            held(&[("x", ONE)]),
            json!({}),
            vec![("x", "f", ONE)],
        ),
        ("never", held(&[]), json!({}), vec![("x", "f", "{}")]),
        (
            "again",
            held(&[("x", "{}")]),
            json!({}),
            vec![("x", "f", "{}")],
        ),
    ]);
}

#[test]
fn two_calls_of_one_answer_never_share_an_id() {
    let place = |index: u64| json!({"index": index, "id": "x"});
    let alone = json!({"id": "x"});
    let expected = vec![("x", "f", ONE), ("call_s1_1", "f", TWO)];
    check(vec![
        (
            "each at its index",
            vec![
                calls(&[entry(place(0), "f", ONE)]),
                calls(&[entry(place(1), "f", TWO)]),
            ],
            json!({}),
            expected.clone(),
        ),
        (
            "no index",
            vec![
                calls(&[entry(alone.clone(), "f", ONE)]),
                calls(&[entry(alone, "f", TWO)]),
            ],
            json!({}),
            expected,
        ),
    ]);
    let answer = whole("r1", &[("x", json!(ONE)), ("x", json!(TWO))]);
    assert_eq!(said(&answer), [("x", "f", ONE), ("call_r1_1", "f", TWO)]);
}

/// A whole answer with these calls of `f`.
fn whole(id: &str, calls: &[(&str, Value)]) -> ChatResponse {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, arguments)| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}))
        .collect();
    let body = json!({"id": id, "choices": [{"index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": null, "tool_calls": calls}}]});
    decode_response(body.to_string().as_bytes(), Server::Compatible).unwrap()
}

#[test]
fn answers_without_an_id_do_not_share_the_ids_of_their_calls() {
    let ids = |text: &str| {
        let entries = calls(&[entry(json!({"index": 0, "id": ""}), "f", ONE)]);
        let streamed = streamed(
            "",
            &[json!({"content": text}), entries],
            (json!({}), "stop"),
        );
        let written = whole("", &[("", json!({"a": text}))]);
        let id = |answer: &ChatResponse| said(answer)[0].0.to_owned();
        (id(&streamed), id(&written))
    };
    let (first, second) = (ids("one"), ids("two"));
    assert!(
        first.0 != second.0 && first.1 != second.1,
        "{first:?} {second:?}"
    );
    assert_eq!(first, ids("one"));
    assert!(first.0.len() <= 40 && first.0.starts_with("call_"));
}

#[test]
fn a_call_without_arguments_has_an_empty_object_unless_it_was_cut() {
    let first = calls(&[json!({"index": 0, "id": "x", "function": {"name": "f"}})]);
    let nothing = [json!(""), json!(null), json!(" ")];
    for arguments in nothing {
        let answer = whole("r1", &[("x", arguments.clone())]);
        assert_eq!(said(&answer), [("x", "f", "{}")]);
        let entry = json!({"index": 0, "function": {"arguments": arguments}});
        let deltas = [first.clone(), calls(&[entry])];
        let answer = streamed("s1", &deltas, (json!({}), "tool_calls"));
        assert_eq!(said(&answer)[0].2.trim(), "{}");
    }
    let cut = streamed("s1", &[first], (json!({}), "length"));
    assert_eq!(said(&cut), [("x", "f", "")]);
}
