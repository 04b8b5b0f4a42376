//! When a stream commits: windows, and tool calls held until they parse.

use crate::tape::{Cue, broken, cut, deck, end, read, text, texts, whole};
use crate::world::ms;
use evenkeel_core::{
    ChatRequest, Class, Delta, EventKind, Extra, Failure, Finish, Output, Phase, StreamEvent, Tool,
    Value,
};
use evenkeel_roster::{Commit, CommitWindow, RolePolicy, StreamValidation};
use futures_util::StreamExt;
use serde_json::json;
use tokio::time::Instant;

const TEN: [&str; 10] = ["a ", "b ", "c ", "d ", "e ", "f ", "g ", "h ", "i ", "j "];

fn window(tokens: u32, time: u64) -> impl FnOnce(&mut RolePolicy) {
    move |policy| {
        policy.commit = Commit::Window;
        policy.commit_window = CommitWindow {
            tokens,
            time: ms(time),
        };
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_ends_with_its_tokens_or_its_time_whichever_is_sooner() {
    // The fourth of ten tokens, 100 ms apart, comes after 400 ms; the first after 100.
    for (tokens, time, commits) in [(4, 60_000, 400), (100, 250, 350), (1, 60_000, 100)] {
        let deck = deck(
            vec![vec![whole(&TEN, ms(100))]],
            window(tokens, time),
            |_, _| {},
        );
        let began = Instant::now();
        let stream = deck.stream(ChatRequest::user("hi")).await.unwrap();
        assert_eq!(began.elapsed(), ms(commits), "{tokens} tokens, {time} ms");
        let read = read(stream).await;
        assert!(read.ended());
        assert_eq!(read.text(), TEN.concat());
        assert_eq!(began.elapsed(), ms(1_000));
    }
}

#[tokio::test(start_paused = true)]
async fn long_pieces_fill_a_window_by_their_text() {
    let pieces = ["sixteen bytes...", "sixteen bytes...", "."];
    let deck = deck(
        vec![vec![whole(&pieces, ms(100))]],
        window(8, 60_000),
        |_, _| {},
    );
    let began = Instant::now();
    deck.stream(ChatRequest::user("hi")).await.unwrap();
    assert_eq!(began.elapsed(), ms(200), "32 bytes are eight tokens");
}

#[tokio::test(start_paused = true)]
async fn an_answer_shorter_than_its_window_goes_out_when_it_is_whole() {
    let deck = deck(
        vec![vec![whole(&["a", "b"], ms(100))]],
        window(20, 500),
        |_, _| {},
    );
    let began = Instant::now();
    let stream = deck.stream(ChatRequest::user("hi")).await.unwrap();
    assert_eq!(began.elapsed(), ms(200));
    assert_eq!(read(stream).await.text(), "ab");
}

// C001
#[tokio::test(start_paused = true)]
async fn every_fault_within_the_window_is_invisible() {
    let faults = [
        cut(),
        Cue::Hang,
        Cue::Break(Failure::timeout(Phase::Upstream, "slow")),
        Cue::Break(Failure::new(Class::Malformed, "no JSON")),
    ];
    for fault in faults {
        let mut bad = texts(&TEN[..3], ms(10));
        bad.push(fault.clone());
        let deck = deck(
            vec![vec![bad], vec![whole(&["fine"], ms(10))]],
            |policy| {
                window(4, 10_000)(policy);
                policy.clocks.stall = ms(2_000);
            },
            |_, _| {},
        );
        let read = deck.read().await;
        assert_eq!(read.text(), "fine", "{fault:?}");
        assert!(read.ended(), "{fault:?}");
    }
}

/// DESIGN's race: under `window` the n-th token wins, until then all run.
#[tokio::test(start_paused = true)]
async fn the_first_attempt_to_fill_its_window_wins_the_race() {
    let mut slow = vec![Cue::Wait(ms(1_050))];
    slow.extend(whole(&TEN, ms(100)));
    let quick = whole(&TEN, ms(20));
    let deck = deck(vec![vec![slow], vec![quick]], window(5, 60_000), |_, _| {});
    let began = Instant::now();
    let stream = deck.stream(ChatRequest::user("hi")).await.unwrap();
    // Patience ends at 1 s, the hedge's fifth token comes 100 ms later, the primary's
    // first 50 ms after that.
    assert_eq!(began.elapsed(), ms(1_100));
    assert_eq!(stream.meta().rung, 1);
    assert_eq!(read(stream).await.trail, ["0 first lost", "1 hedge won"]);
}

fn with_tools() -> ChatRequest {
    let mut request = ChatRequest::user("call it");
    request.tools.push(Tool {
        name: "look".to_owned(),
        description: None,
        parameters: Some(json!({"type": "object", "properties": {"q": {"type": "string"}}})),
        strict: None,
        extra: Extra::default(),
    });
    request
}

fn call(fragments: &[&str]) -> Vec<Cue> {
    let start = Delta::ToolCallStart {
        index: 0,
        id: "c".to_owned(),
        name: "look".to_owned(),
    };
    let fragments = fragments.iter().map(|fragment| Delta::ToolCallArguments {
        index: 0,
        fragment: (*fragment).to_owned(),
    });
    std::iter::once(start)
        .chain(fragments)
        .flat_map(|delta| [Cue::Wait(ms(100)), Cue::Event(StreamEvent::Delta(delta))])
        .collect()
}

fn calling(before: &[&str], fragments: &[&str]) -> Vec<Cue> {
    let mut tape = texts(before, ms(100));
    tape.extend(call(fragments));
    tape.extend(end(Finish::ToolUse, 10, 5));
    tape
}

fn arguments(events: &[StreamEvent]) -> String {
    let pieces = events.iter().filter_map(|event| match event {
        StreamEvent::Delta(Delta::ToolCallArguments { fragment, .. }) => Some(fragment.as_str()),
        _ => None,
    });
    pieces.collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_first_commits_when_its_arguments_parse() {
    let tape = calling(&[], &["{\"q\":", " \"tide\"", "}"]);
    let deck = deck(vec![vec![tape]], |_| {}, |_, _| {});
    let began = Instant::now();
    let stream = deck.stream(with_tools()).await.unwrap();
    assert_eq!(began.elapsed(), ms(400));
    let read = read(stream).await;
    assert_eq!(arguments(&read.events), "{\"q\": \"tide\"}");
    assert!(read.ended());
}

#[tokio::test(start_paused = true)]
async fn text_before_a_call_passes_and_the_call_follows_when_it_parses() {
    let tape = calling(&["Let me see."], &["{\"q\":", "\"x\"}"]);
    let deck = deck(vec![vec![tape]], |_| {}, |_, _| {});
    let began = Instant::now();
    let mut stream = deck.stream(with_tools()).await.unwrap();
    assert_eq!(began.elapsed(), ms(100));
    let mut starts = Vec::new();
    while let Some(event) = stream.next().await {
        if let StreamEvent::Delta(Delta::ToolCallStart { .. }) = event.unwrap() {
            starts.push(began.elapsed());
        }
    }
    assert_eq!(starts, [ms(400)]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_parse_before_the_commit_is_invisible() {
    for bad in [calling(&[], &["{\"q\": }"]), calling(&[], &["{\"q\""])] {
        let good = calling(&[], &["{\"q\": \"good\"}"]);
        let deck = deck(vec![vec![bad], vec![good]], |_| {}, |_, _| {});
        let read = read(deck.stream(with_tools()).await.unwrap()).await;
        assert_eq!(arguments(&read.events), "{\"q\": \"good\"}");
        assert_eq!(read.trail, ["0 first malformed", "1 failover won"]);
        assert_eq!(deck.seen(0), deck.seen(1), "each was asked the same, once");
    }
}

/// With tools a broken stream is not resumed: the end is an error and never a clean one.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_parse_after_the_commit_is_an_error_and_counts() {
    let bad = calling(&["Let me see."], &["{\"q\": ", "]}"]);
    let good = calling(&["Let me see."], &["{}"]);
    let deck = deck(vec![vec![bad], vec![good]], |_| {}, |_, _| {});
    for _ in 0..5 {
        let read = read(deck.stream(with_tools()).await.unwrap()).await;
        assert_eq!(read.failure.as_ref().unwrap().class, Class::Malformed);
        assert!(!read.ended());
        assert_eq!(read.text(), "Let me see.");
        assert_eq!(arguments(&read.events), "", "nothing of the call went out");
        assert_eq!(read.trail, ["0 first malformed"]);
    }
    // Five of them open the model's breaker.
    let opened = |k: &EventKind| matches!(k, EventKind::BreakerTransition { to: "open", .. });
    assert_eq!(deck.memory.count(opened), 1);
    let stream = deck.stream(with_tools()).await.unwrap();
    assert_eq!(stream.meta().rung, 1);
}

#[tokio::test(start_paused = true)]
async fn calls_pass_at_once_where_the_role_says_so() {
    let tape = calling(&[], &["{\"q\": }"]);
    let pass = |policy: &mut RolePolicy| policy.stream_validation = StreamValidation::Pass;
    let deck = deck(vec![vec![tape]], pass, |_, _| {});
    let began = Instant::now();
    let stream = deck.stream(with_tools()).await.unwrap();
    assert_eq!(began.elapsed(), ms(100));
    let read = read(stream).await;
    assert!(read.ended());
    assert_eq!(arguments(&read.events), "{\"q\": }");
}

fn json_request(schema: Value) -> ChatRequest {
    let mut request = ChatRequest::user("as JSON");
    request.output = Output::JsonSchema {
        name: "s".to_owned(),
        schema,
        strict: true,
        description: None,
    };
    request
}

#[tokio::test(start_paused = true)]
async fn json_is_held_until_it_is_valid_or_passes_where_it_needs_no_turning_back() {
    let strict = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false});
    let optional = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "additionalProperties": false});
    let json = ["{\"a\":", " \"x\"", "}"];
    for (validation, schema, commits) in [
        (StreamValidation::Hold, strict.clone(), 300),
        (StreamValidation::Pass, strict, 100),
        (StreamValidation::Pass, optional, 300),
    ] {
        let policy = |policy: &mut RolePolicy| policy.stream_validation = validation;
        let deck = deck(vec![vec![whole(&json, ms(100))]], policy, |_, _| {});
        let began = Instant::now();
        let stream = deck.stream(json_request(schema)).await.unwrap();
        assert_eq!(began.elapsed(), ms(commits), "{validation:?}");
        let read = read(stream).await;
        let told: Value = serde_json::from_str(&read.text()).unwrap();
        assert_eq!(told, json!({"a": "x"}));
    }
}

/// Text after a call whose arguments are not whole yet keeps its place behind it.
#[tokio::test(start_paused = true)]
async fn order_is_kept_behind_a_held_call() {
    let mut tape = texts(&["one"], ms(10));
    tape.extend(call(&[]));
    tape.push(text("two"));
    tape.extend(end(Finish::ToolUse, 10, 5));
    let deck = deck(vec![vec![tape]], |_| {}, |_, _| {});
    let read = read(deck.stream(with_tools()).await.unwrap()).await;
    let order: Vec<&str> = read
        .events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Delta(Delta::Text(text)) => Some(text.as_str()),
            StreamEvent::Delta(Delta::ToolCallStart { name, .. }) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["one", "look", "two"]);
}

/// A broken stream loses what its window held, and nothing of it is mixed into the
/// answer of the next rung.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_broken_window_is_delivered() {
    let bad = broken(&TEN[..3], ms(10));
    let deck = deck(
        vec![vec![bad], vec![whole(&TEN, ms(10))]],
        window(4, 10_000),
        |_, _| {},
    );
    let read = deck.read().await;
    assert_eq!(read.text(), TEN.concat());
    assert_eq!(read.trail, ["0 first transient", "1 failover won"]);
}
