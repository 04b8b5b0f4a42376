//! Streams that go on after they broke, and those that do not.

use crate::tape::{Cue, Deck, Read, begin, broken, cut, deck, end, read, text, texts, whole};
use crate::world::{ROLE, deadline, ms};
use evenkeel_core::{
    CallContext, ChatRequest, Class, Delta, EventKind, Extra, Failure, Finish, Message, Meta, Part,
    Phase, Reasoning, ReasoningPart, Role, Route, StreamEvent, Tool, TrailStep, Usage,
};
use evenkeel_roster::{Commit, ModelConfig, OnStreamBreak, RolePolicy};
use futures_util::StreamExt;
use proptest::prelude::*;
use tokio::time::Instant;

const TEXT: &str = "Ebb — and  flow,\n\nслово 🙂 end of it.";

fn any(_: &mut RolePolicy) {}

fn nothing_known(_: usize, _: &mut ModelConfig) {}

/// Every fallback goes on from a prefill.
fn prefills(rung: usize, model: &mut ModelConfig) {
    model.prefill = Some(rung > 0);
}

fn joints(read: &Read) -> Vec<Meta> {
    let joints = read.events.iter().filter_map(|event| match event {
        StreamEvent::Resumed(meta) => Some((**meta).clone()),
        _ => None,
    });
    joints.collect()
}

/// Asserts that the reader had all of `TEXT`, once, with one joint.
fn assert_went_on(read: &Read) {
    assert!(read.failure.is_none(), "{:?}", read.failure);
    assert_eq!(read.text(), TEXT);
    assert!(read.ended());
    assert_eq!(joints(read).len(), 1);
    let starts = read.events.iter();
    let starts = starts.filter(|e| matches!(e, StreamEvent::Start { .. }));
    assert_eq!(starts.count(), 1, "the stream keeps its name");
}

fn pieces(text: &str, splits: &[usize]) -> Vec<String> {
    let mut splits: Vec<usize> = splits.iter().map(|s| s % (text.len() + 1)).collect();
    splits.retain(|at| text.is_char_boundary(*at));
    splits.extend([0, text.len()]);
    splits.sort_unstable();
    splits.dedup();
    let pairs = splits.windows(2);
    pairs
        .map(|pair| text[pair[0]..pair[1]].to_owned())
        .collect()
}

fn strs(pieces: &[String]) -> Vec<&str> {
    pieces.iter().map(String::as_str).collect()
}

/// Streams `TEXT` up to `at` and breaks; the fallback says `next` in these pieces.
async fn cut_at(
    at: usize,
    splits: &[usize],
    next: &str,
    model: impl Fn(usize, &mut ModelConfig),
) -> (Deck, Read) {
    let first = pieces(&TEXT[..at], splits);
    let next = pieces(next, splits);
    let deck = deck(
        vec![
            vec![broken(&strs(&first), ms(10))],
            vec![whole(&strs(&next), ms(10))],
        ],
        any,
        model,
    );
    let read = deck.read().await;
    (deck, read)
}

fn places() -> impl Iterator<Item = usize> {
    (1..=TEXT.len()).filter(|at| TEXT.is_char_boundary(*at))
}

#[tokio::test(start_paused = true)]
async fn a_fresh_answer_goes_on_wherever_the_stream_broke() {
    for at in places() {
        let (_, read) = cut_at(at, &[3, 9, 20], TEXT, nothing_known).await;
        assert_went_on(&read);
        assert_eq!(
            read.trail,
            ["0 first transient", "1 resume won", "1 goes on for 0"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_takes_a_prefill_goes_on_from_the_text_wherever_it_broke() {
    for at in places() {
        let given = TEXT[..at].trim_end();
        let (deck, read) = cut_at(at, &[3, 9, 20], &TEXT[given.len()..], prefills).await;
        assert_went_on(&read);
        let asked = &deck.seen(1)[0];
        // Anthropic refuses white space at the end of a prefill.
        assert_eq!(
            asked.messages.last(),
            Some(&Message::text(Role::Assistant, given))
        );
        assert_eq!(asked.messages[..1], deck.seen(0)[0].messages[..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn pieces_and_places_do_not_matter(
        at in 1..=TEXT.len(),
        splits in prop::collection::vec(0..200usize, 0..12),
        prefill: bool,
        again: bool,
    ) {
        let at = (at..=TEXT.len()).find(|at| TEXT.is_char_boundary(*at)).unwrap();
        let given = TEXT[..at].trim_end().len();
        // Mistral says a prefill again, others do not.
        let next = if prefill && !again { &TEXT[given..] } else { TEXT };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let model = move |rung: usize, model: &mut ModelConfig| {
            model.prefill = Some(prefill && rung > 0);
        };
        let (_, read) = runtime.block_on(cut_at(at, &splits, next, model));
        assert_went_on(&read);
    }
}

#[tokio::test(start_paused = true)]
async fn the_joint_and_what_follows_name_who_goes_on() {
    let mut first = vec![begin("first")];
    first.extend(texts(&["One ", "two "], ms(100)));
    first.push(cut());
    let mut next = vec![begin("second"), Cue::Wait(ms(300))];
    next.extend(texts(&["three."], ms(0)));
    next.extend(end(Finish::Stop, 14, 1));
    let deck = deck(vec![vec![first], vec![next]], any, prefills);
    let began = Instant::now();
    let mut stream = deck.stream(ChatRequest::user("count")).await.unwrap();
    assert_eq!(stream.meta().model_id.as_str(), "p0/m");
    let mut kinds = Vec::new();
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            StreamEvent::Resumed(meta) => {
                assert_eq!(began.elapsed(), ms(500));
                assert_eq!(meta.model_id.as_str(), "p1/m");
                assert_eq!((meta.rung, meta.route), (1, Route::Fallback));
                assert!(meta.degraded);
                assert_eq!(meta.fallback_reason, Some("transient"));
                assert_eq!(meta.attempts, 2);
                assert_eq!(meta.latency_added, ms(0), "its first token was not late");
                kinds.push("joint");
            }
            StreamEvent::Start { id, .. } => {
                assert_eq!(id, "first");
                kinds.push("start");
            }
            StreamEvent::Delta(_) => kinds.push("text"),
            StreamEvent::Finish(_) => kinds.push("finish"),
            // 14 in and 1 out: the two tokens sent were output, and are no input.
            StreamEvent::Usage(usage) => {
                assert_eq!((usage.input, usage.output), (12, 3));
                kinds.push("usage");
            }
            StreamEvent::End => kinds.push("end"),
            _ => {}
        }
    }
    assert_eq!(
        kinds,
        [
            "start", "text", "text", "joint", "text", "finish", "usage", "end"
        ]
    );
    assert_eq!(stream.meta().model_id.as_str(), "p1/m");
    let told = deck.memory.all(|kind| match kind {
        EventKind::StreamInterrupted {
            from,
            class,
            sent_tokens,
            resumed,
            ..
        } => Some((
            *from,
            *class,
            *sent_tokens,
            resumed.as_ref().map(|(r, _)| *r),
        )),
        _ => None,
    });
    assert_eq!(told, [(0, Class::Transient, 2, Some(1))]);
    let ended = deck.memory.all(|kind| match kind {
        EventKind::CallEnded { outcome, meta, .. } => {
            Some((*outcome, meta.as_ref().map(|m| m.rung)))
        }
        _ => None,
    });
    assert_eq!(ended, [("ok", Some(1))]);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_answer_that_differs_ends_in_the_error_of_the_break_and_counts_on_nobody() {
    let deck = deck(
        vec![
            vec![broken(&["One ", "two"], ms(10))],
            vec![whole(&["Eins ", "zwei"], ms(10))],
        ],
        any,
        nothing_known,
    );
    let read = deck.read().await;
    let failure = read.failure.unwrap();
    assert_eq!(
        (failure.class, &*failure.message),
        (Class::Transient, "connection lost")
    );
    assert_eq!(read.trail, ["0 first transient", "1 resume semantic"]);
    // Ten more: the fallback's own breakers never open, whatever opens the primary's.
    for _ in 0..10 {
        deck.read_any().await;
    }
    let opened = deck.memory.all(|kind| match kind {
        EventKind::BreakerTransition {
            to: "open",
            model,
            role,
            ..
        } => Some((model.as_ref().unwrap().to_string(), role.is_some())),
        _ => None,
    });
    assert_eq!(opened, [("p0/m".to_owned(), false)]);
}

/// Once more than `resume_max_tokens` are sent, nobody answers afresh.
#[tokio::test(start_paused = true)]
async fn a_long_text_is_gone_on_with_by_a_prefill_only() {
    let words: Vec<String> = (0..70).map(|n| format!("w{n} ")).collect();
    let words = strs(&words);
    let text = words.concat();
    for (sent, prefill, goes_on) in [
        (63, false, true),
        (64, false, false),
        (64, true, true),
        (69, true, true),
    ] {
        let next: Vec<&str> = if prefill {
            words[sent..].to_vec()
        } else {
            words.clone()
        };
        let deck = deck(
            vec![
                vec![broken(&words[..sent], ms(1))],
                vec![whole(&next, ms(1))],
            ],
            any,
            move |rung, model| model.prefill = Some(prefill && rung == 1),
        );
        let read = deck.read().await;
        assert_eq!(read.ended(), goes_on, "{sent} tokens, prefill {prefill}");
        assert_eq!(deck.seen(1).len(), usize::from(goes_on));
        if goes_on {
            assert_eq!(read.text(), text);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn zero_fresh_tokens_is_zero() {
    let deck = deck(
        vec![
            vec![broken(&["One"], ms(10))],
            vec![whole(&["One", " two"], ms(10))],
        ],
        |policy| policy.resume_max_tokens = 0,
        nothing_known,
    );
    assert!(deck.read().await.failure.is_some());
    assert!(deck.seen(1).is_empty());
}

/// A stall is a time-out and a break transient; both count on the model, and neither
/// is tried again in place while another rung is left.
#[tokio::test(start_paused = true)]
async fn a_stall_goes_on_elsewhere_and_counts_as_a_timeout() {
    let mut stalls = texts(&["One "], ms(10));
    stalls.push(Cue::Hang);
    let deck = deck(
        vec![vec![stalls], vec![whole(&["One ", "two"], ms(10))]],
        |policy| policy.clocks.stall = ms(2_000),
        nothing_known,
    );
    let began = Instant::now();
    let read = deck.read().await;
    assert_eq!(read.text(), "One two");
    assert_eq!(began.elapsed(), ms(10 + 2_000 + 20));
    assert_eq!(
        read.trail,
        ["0 first timeout", "1 resume won", "1 goes on for 0"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_lone_rung_is_asked_once_more_after_a_stall_and_never_after_a_break() {
    let mut stalls = texts(&["One "], ms(10));
    stalls.push(Cue::Hang);
    let well = whole(&["One ", "two"], ms(10));
    let stall = |policy: &mut RolePolicy| policy.clocks.stall = ms(2_000);
    let deck = deck(
        vec![vec![stalls.clone(), well.clone()]],
        stall,
        nothing_known,
    );
    let read = deck.read().await;
    assert_eq!(read.text(), "One two");
    assert_eq!(
        read.trail,
        ["0 first timeout", "0 resume won", "0 goes on for 0"]
    );
    assert_eq!(joints(&read)[0].route, Route::Primary);

    // Once only: the second stall is the end.
    let twice = [&texts(&["One ", "two "], ms(10))[..], &[Cue::Hang]].concat();
    let deck = crate::tape::deck(
        vec![vec![stalls, twice, well.clone()]],
        stall,
        nothing_known,
    );
    let read = deck.read().await;
    assert_eq!(read.failure.unwrap().phase, Some(Phase::Stall));
    assert_eq!(deck.seen(0).len(), 2);

    let deck = crate::tape::deck(
        vec![vec![broken(&["One "], ms(10)), well]],
        stall,
        nothing_known,
    );
    assert_eq!(deck.read().await.failure.unwrap().class, Class::Transient);
    assert_eq!(deck.seen(0).len(), 1);
}

/// The same rung again draws on its provider's retry budget as any repeat does.
#[tokio::test(start_paused = true)]
async fn the_same_rung_again_draws_on_the_retry_budget() {
    let mut stalls = texts(&["One "], ms(10));
    stalls.push(Cue::Hang);
    let deck = deck(
        vec![vec![stalls]],
        |policy| policy.clocks.stall = ms(1_500),
        nothing_known,
    );
    // The reserve is ten and each call pays in a fifth: the breaker is out of the way,
    // since four stalls in a row are under its threshold of five.
    let mut again = 0;
    for _ in 0..2 {
        let read = deck.read_any().await;
        again += read.iter().filter(|step| step.contains("resume")).count();
    }
    assert_eq!(again, 2);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_twice_goes_on_twice_while_rungs_are_left() {
    let deck = deck(
        vec![
            vec![broken(&["One "], ms(10))],
            vec![broken(&["One ", "two "], ms(10))],
            vec![whole(&["One ", "two ", "three"], ms(10))],
        ],
        any,
        nothing_known,
    );
    let read = deck.read().await;
    assert_eq!(read.text(), "One two three");
    let who: Vec<usize> = joints(&read).iter().map(|meta| meta.rung).collect();
    assert_eq!(who, [1, 2]);
    assert_eq!(
        read.trail,
        [
            "0 first transient",
            "1 resume transient",
            "1 goes on for 0",
            "2 resume won",
            "2 goes on for 1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_resume_that_fails_ends_in_the_error_of_the_break() {
    let mut stalls = texts(&["One "], ms(10));
    stalls.push(Cue::Hang);
    let refused = Cue::Break(Failure::new(Class::BadRequest, "no prefill here"));
    for bad in [vec![cut()], vec![refused], texts(&["On"], ms(10))] {
        let third = whole(&["One ", "two"], ms(10));
        let deck = deck(
            vec![vec![stalls.clone()], vec![bad], vec![third]],
            |policy| policy.clocks.stall = ms(2_000),
            nothing_known,
        );
        let read = deck.read().await;
        assert_eq!(read.failure.unwrap().phase, Some(Phase::Stall));
        assert!(deck.seen(2).is_empty());
    }
}

type Case = (Vec<Cue>, ChatRequest, fn(&mut RolePolicy));

/// What went out is not text alone, or is over, or the role or request forbids it.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_gone_on_with_ends_in_an_error() {
    let part = |delta| Cue::Event(StreamEvent::Delta(delta));
    let refusal = part(Delta::Refusal("I will not".to_owned()));
    let piece = part(Delta::Part(Part::Refusal("x".to_owned())));
    let finish = Cue::Event(StreamEvent::Finish(Finish::Stop));
    let mut with_tools = ChatRequest::user("hello");
    with_tools.tools.push(Tool {
        name: "t".to_owned(),
        description: None,
        parameters: None,
        strict: None,
        extra: Extra::default(),
    });
    let mut stored = ChatRequest::user("hello");
    stored.extra.fields.insert("store".to_owned(), true.into());
    let plain = ChatRequest::user("hello");
    let fail = |policy: &mut RolePolicy| policy.on_stream_break = OnStreamBreak::Fail;
    let cases: Vec<Case> = vec![
        (vec![text("One"), refusal, cut()], plain.clone(), any),
        (vec![text("One"), piece, cut()], plain.clone(), any),
        (vec![text("One"), finish, cut()], plain.clone(), any),
        (vec![text("One"), cut()], with_tools, any),
        (vec![text("One"), cut()], stored, any),
        (vec![text("One"), cut()], plain, fail),
    ];
    for (first, request, policy) in cases {
        let deck = deck(
            vec![vec![first.clone()], vec![whole(&["One", " two"], ms(10))]],
            policy,
            nothing_known,
        );
        let read = read(deck.stream(request).await.unwrap()).await;
        assert_eq!(read.failure.unwrap().class, Class::Transient, "{first:?}");
        assert!(deck.seen(1).is_empty(), "{first:?}");
        let told = deck.memory.all(|kind| match kind {
            EventKind::StreamInterrupted { resumed, .. } => Some(resumed.is_some()),
            _ => None,
        });
        assert_eq!(told, [false]);
    }
}

/// Where only reasoning was sent the next rung's answer is the answer; its own
/// reasoning stays away from the first one's.
#[tokio::test(start_paused = true)]
async fn a_break_within_the_reasoning_leaves_the_answer_to_the_next_rung() {
    let thought = |text: &str| {
        Cue::Event(StreamEvent::Delta(Delta::Reasoning(ReasoningPart {
            text: text.to_owned(),
            ..ReasoningPart::default()
        })))
    };
    let first = vec![begin("a"), thought("hm"), cut()];
    let mut next = vec![begin("b"), thought("well")];
    next.extend(whole(&["One"], ms(10)));
    let deck = deck(vec![vec![first], vec![next]], any, prefills);
    let read = deck.read().await;
    assert_eq!(read.text(), "One");
    let thoughts = read.events.iter();
    let thoughts = thoughts.filter(|e| matches!(e, StreamEvent::Delta(Delta::Reasoning(_))));
    assert_eq!(thoughts.count(), 1);
    assert_eq!(joints(&read).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_reasoning_is_not_begun_for_the_model() {
    let deck = deck(
        vec![
            vec![broken(&["One "], ms(10))],
            vec![whole(&["One ", "two"], ms(10))],
        ],
        any,
        prefills,
    );
    let mut request = ChatRequest::user("hello");
    request.reasoning = Some(Reasoning {
        effort: None,
        budget_tokens: Some(1_024),
    });
    let read = read(deck.stream(request.clone()).await.unwrap()).await;
    assert_eq!(read.text(), "One two");
    assert_eq!(deck.seen(1)[0].messages, request.messages);
}

/// The deadline of the call is that of its resumes too.
#[tokio::test(start_paused = true)]
async fn a_resume_ends_with_the_deadline_of_the_call() {
    let slow = vec![Cue::Wait(ms(60_000))];
    let deck = deck(
        vec![vec![broken(&["One "], ms(10))], vec![slow]],
        any,
        nothing_known,
    );
    let began = Instant::now();
    let stream = deck.ask(deadline(ms(3_000))).await;
    let read = read(stream).await;
    assert_eq!(began.elapsed(), ms(3_000));
    assert_eq!(
        read.failure.unwrap().class,
        Class::Transient,
        "that of the break"
    );
    assert_eq!(read.trail, ["0 first transient", "1 resume timeout"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_cancels_the_attempt_that_is_to_go_on() {
    let slow = vec![Cue::Wait(ms(60_000))];
    let deck = deck(
        vec![vec![broken(&["One "], ms(10))], vec![slow]],
        any,
        nothing_known,
    );
    let mut stream = deck.ask(CallContext::default()).await;
    while deck.seen(1).is_empty() {
        tokio::select! {
            _ = stream.next() => {}
            () = tokio::time::sleep(ms(100)) => {}
        }
    }
    drop(stream);
    let ended = deck.memory.all(|kind| match kind {
        EventKind::AttemptEnded {
            attempt, outcome, ..
        } => Some((*attempt, *outcome)),
        _ => None,
    });
    assert_eq!(ended, [(0, "error"), (1, "cancelled")]);
}

/// A window is held back first; what it delivered is what a resume goes on from.
#[tokio::test(start_paused = true)]
async fn a_window_that_went_out_is_gone_on_with() {
    let deck = deck(
        vec![
            vec![broken(&["One ", "two ", "three "], ms(10))],
            vec![whole(&["One ", "two ", "three ", "four"], ms(10))],
        ],
        |policy| {
            policy.commit = Commit::Window;
            policy.commit_window.tokens = 2;
        },
        nothing_known,
    );
    assert_eq!(deck.read().await.text(), "One two three four");
}

/// The joint is in the trail, with what it was made of.
#[tokio::test(start_paused = true)]
async fn the_trail_says_how_a_stream_went_on() {
    let (deck, _) = cut_at(12, &[], TEXT, nothing_known).await;
    let trails = deck.memory.all(|kind| match kind {
        EventKind::CallEnded { trail, .. } => Some(trail.clone()),
        _ => None,
    });
    let joint = trails[0].steps.iter().find_map(|step| match step {
        TrailStep::Resumed {
            attempt,
            from,
            prefilled,
            sent_tokens,
            at,
            ..
        } => Some((*attempt, *from, *prefilled, *sent_tokens, *at)),
        _ => None,
    });
    assert_eq!(joint, Some((1, 0, false, 3, ms(20))));
}

// C166
#[tokio::test(start_paused = true)]
async fn every_attempt_tells_what_it_took_as_far_as_it_is_known() {
    let partial = |output| {
        Cue::Event(StreamEvent::Usage(Usage {
            input: 9,
            output,
            ..Usage::default()
        }))
    };
    // One that reported its input before it broke, and one that went on.
    let mut first = vec![begin("a"), partial(1)];
    first.extend(texts(&["One ", "two ", "three "], ms(10)));
    first.push(cut());
    let deck = deck(
        vec![
            vec![first],
            vec![whole(&["One ", "two ", "three ", "four"], ms(10))],
        ],
        any,
        nothing_known,
    );
    deck.read().await;
    let trail = deck.memory.all(|kind| match kind {
        EventKind::CallEnded { trail, .. } => Some(trail.clone()),
        _ => None,
    });
    let used: Vec<_> = trail[0]
        .attempts()
        .map(|a| {
            (
                a.usage.unwrap().input,
                a.usage.unwrap().output,
                a.usage_estimated,
            )
        })
        .collect();
    assert_eq!(used, [(9, 4, true), (10, 4, false)]);
    let spent = trail[0].spent();
    assert_eq!((spent.usage.input, spent.usage.output), (19, 8));
    assert!(spent.at_least);
}

/// Fallbacks that were told: the rung and why.
fn fallbacks(deck: &Deck) -> Vec<(usize, &'static str)> {
    deck.memory.all(|k| match k {
        EventKind::ModelFallback { rung, reason, .. } => Some((*rung, *reason)),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_goes_on_at_the_primary_has_not_fallen_back() {
    let tapes = vec![
        vec![whole(&["One ", "two."], ms(10))],
        vec![broken(&["One "], ms(10))],
    ];
    let deck = deck(tapes, any, nothing_known);
    deck.router.operator("eve").force(ROLE, Some(1)).unwrap();
    let read = deck.read().await;
    assert_eq!(read.text(), "One two.");
    assert_eq!(joints(&read)[0].route, Route::Primary);
    assert_eq!(fallbacks(&deck), []);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_left_the_primary_it_came_back_to_has_fallen_back_once() {
    let tapes = vec![
        vec![broken(&["One "], ms(10))],
        vec![vec![cut()]],
        vec![whole(&["One ", "two."], ms(10))],
    ];
    let deck = deck(tapes, any, nothing_known);
    deck.router.operator("eve").force(ROLE, Some(1)).unwrap();
    // Rung 2 is passed over at first: the primary is what rung 1 falls back to.
    let read = deck.read().await;
    assert_eq!(read.text(), "One two.", "{:?}", read.trail);
    let rungs: Vec<usize> = fallbacks(&deck).iter().map(|(rung, _)| *rung).collect();
    assert_eq!(rungs, [2], "{:?}", read.trail);
}
