//! What holds for any conversation, window and counter.

use std::collections::BTreeSet;

use evenkeel_core::{ChatRequest, Image, Message, Part, Role};
use evenkeel_prompts::{Calibration, Estimate, Fitted, ModelCounter, TokenCounter, Window, fit};
use proptest::prelude::*;

use crate::chat::{ByCharacter, ByMessage, calls, conversation, result, say, tool};

/// One step of a turn.
#[derive(Debug, Clone)]
enum Step {
    Text(usize),
    /// So many parallel calls, whose results come in turned order, in messages of
    /// their own or in one of the user.
    Tools(usize, usize, bool),
    Reminder,
}

#[derive(Debug, Clone)]
struct Turn {
    length: usize,
    has_image: bool,
    steps: Vec<Step>,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_usize..300).prop_map(Step::Text),
        4 => (1_usize..4, 0_usize..200, any::<bool>()).prop_map(|(n, l, own)| Step::Tools(n, l, own)),
        1 => Just(Step::Reminder),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let steps = prop::collection::vec(step(), 0..6);
    (1_usize..200, prop::bool::weighted(0.1), steps).prop_map(|(length, has_image, steps)| Turn {
        length,
        has_image,
        steps,
    })
}

/// A conversation whose messages are all different.
fn chat() -> impl Strategy<Value = ChatRequest> {
    let turns = prop::collection::vec(turn(), 1..8);
    (0_usize..3, any::<bool>(), turns, any::<bool>()).prop_map(
        |(systems, greets, turns, reuses)| {
            let mut building = Building {
                reuses,
                ..Building::default()
            };
            for _ in 0..systems {
                building.say(Role::System, 40);
            }
            if greets {
                building.say(Role::Assistant, 20);
            }
            for turn in &turns {
                building.turn(turn);
            }
            conversation(building.messages)
        },
    )
}

#[derive(Default)]
struct Building {
    messages: Vec<Message>,
    serial: usize,
    /// Whether ids of calls are used again in later messages.
    reuses: bool,
}

impl Building {
    fn text(&mut self, length: usize) -> String {
        self.serial += 1;
        format!("{} {}", self.serial, "x".repeat(length))
    }

    fn say(&mut self, role: Role, length: usize) {
        let text = self.text(length);
        self.messages.push(say(role, &text));
    }

    fn turn(&mut self, turn: &Turn) {
        self.say(Role::User, turn.length);
        if turn.has_image
            && let Some(last) = self.messages.last_mut()
        {
            last.parts.push(Part::Image(Image {
                url: "https://a.test/i.png".to_owned(),
                detail: None,
            }));
        }
        for step in &turn.steps {
            match *step {
                Step::Text(length) => self.say(Role::Assistant, length),
                Step::Reminder => self.say(Role::System, 10),
                Step::Tools(count, length, own) => self.tools(count, length, own),
            }
        }
    }

    fn tools(&mut self, count: usize, length: usize, own: bool) {
        let arguments = self.text(length / 4);
        let base = if self.reuses { 0 } else { self.serial * 10 };
        let ids: Vec<String> = (0..count).map(|n| format!("call_{}", base + n)).collect();
        let named: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.messages.push(calls(&named, &arguments));
        let texts: Vec<String> = ids.iter().map(|_| self.text(length)).collect();
        let results = named.iter().zip(&texts).rev();
        if own {
            self.messages
                .extend(results.map(|(id, text)| tool(id, text)));
        } else {
            self.messages.push(Message {
                parts: results.map(|(id, text)| result(id, text)).collect(),
                ..say(Role::User, "")
            });
        }
    }
}

fn counter() -> impl Strategy<Value = usize> {
    0_usize..4
}

/// One of four counters; the last is calibrated.
fn with_counter<T>(which: usize, run: impl FnOnce(&dyn TokenCounter) -> T) -> T {
    let separated = ByCharacter {
        per_token: 3,
        separator: 2,
    };
    match which {
        0 => run(&ByMessage),
        1 => run(&separated),
        2 => run(&Estimate),
        _ => {
            let model = ModelCounter::with(Box::new(Estimate));
            model.observe(&ChatRequest::user("x ".repeat(1_000)), 1_234);
            run(&model.counting())
        }
    }
}

fn window(room: u64) -> Window {
    Window {
        context_tokens: room + 100,
        reserve_output: 100,
    }
}

fn has_results(message: &Message) -> bool {
    message
        .parts
        .iter()
        .any(|part| matches!(part, Part::ToolResult(_)))
}

fn is_system(message: &Message) -> bool {
    message.role == Role::System
}

/// What must be kept, told from the outside: indices of messages.
fn protected(messages: &[Message]) -> BTreeSet<usize> {
    let mut kept: BTreeSet<usize> = (0..messages.len())
        .filter(|at| is_system(&messages[*at]))
        .collect();
    let speaks = |m: &Message| m.role == Role::User && !has_results(m);
    let latest = messages.iter().rposition(speaks).unwrap();
    kept.insert(latest);
    let is_call = |m: &Message| m.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let last_call = messages[latest..].iter().rposition(is_call);
    match last_call {
        Some(at) => kept.extend(latest + at..messages.len()),
        None => {
            kept.insert(messages.len() - 1);
        }
    }
    kept
}

/// Where each message of `left` stands in `all`; the marker has no place.
fn places(left: &[Message], all: &[Message]) -> Vec<Option<usize>> {
    left.iter()
        .map(|m| all.iter().position(|other| other == m))
        .collect()
}

/// Every call with the results that follow it up to the next call: all or nothing.
fn check_pairs(all: &[Message], kept: &BTreeSet<usize>) -> Result<(), TestCaseError> {
    let mut call = None;
    for (at, message) in all.iter().enumerate() {
        if has_results(message) {
            let call: usize = call.expect("a result follows its call");
            prop_assert_eq!(
                kept.contains(&call),
                kept.contains(&at),
                "{} and {}",
                call,
                at
            );
        } else if message.role == Role::Assistant {
            call = Some(at);
        }
    }
    Ok(())
}

fn check(
    request: &ChatRequest,
    room: u64,
    counter: &dyn TokenCounter,
    fitted: &Fitted,
) -> Result<(), TestCaseError> {
    let all = &request.messages;
    let sent = fitted.request.as_ref().unwrap_or(request);
    prop_assert!(counter.request(sent) <= room);
    prop_assert_eq!(counter.request(sent), fitted.report.tokens_after);
    prop_assert_eq!(counter.request(request), fitted.report.tokens_before);

    let found = places(&sent.messages, all);
    let kept: BTreeSet<usize> = found.iter().copied().flatten().collect();
    let in_order: Vec<usize> = found.iter().copied().flatten().collect();
    prop_assert!(in_order.is_sorted(), "{:?}", in_order);
    prop_assert_eq!(all.len() - kept.len(), fitted.report.messages_cut);
    prop_assert!(protected(all).is_subset(&kept));
    check_pairs(all, &kept)?;

    let markers: Vec<&Message> = (sent.messages.iter().zip(&found))
        .filter_map(|(message, place)| place.is_none().then_some(message))
        .collect();
    prop_assert!(markers.len() <= 1);
    if let Some(marker) = markers.first() {
        let said = marker_text(fitted.report.messages_cut);
        prop_assert_eq!(marker.plain_text(), said);
        let first = sent.messages.iter().find(|m| !is_system(m));
        prop_assert_eq!(first.map(|m| m.role), Some(Role::User));
    }
    let again = fit(sent, &window(room), counter).unwrap();
    prop_assert_eq!(again.request, None);
    Ok(())
}

proptest! {
    #[test]
    fn what_is_sent_is_whole_and_fits(chat in chat(), which in counter(), share in 0.0_f64..1.1) {
        with_counter(which, |counter| {
            let before = chat.clone();
            let room = part_of(counter.request(&chat), share);
            let kept = protected(&chat.messages);
            let protected: u64 = kept.iter().map(|at| counter.message(&chat.messages[*at])).sum();
            let protected = protected + counter.fixed(&chat);
            match fit(&chat, &window(room), counter) {
                Ok(fitted) => {
                    prop_assert!(protected <= room);
                    check(&chat, room, counter, &fitted)?;
                }
                Err(error) => {
                    prop_assert_eq!(error.protected_tokens, protected);
                    prop_assert!(protected > room);
                }
            }
            prop_assert_eq!(before, chat);
            Ok(())
        })?;
    }

    /// Whatever a larger room makes of it either is the same or would not have fitted here.
    #[test]
    fn no_more_is_cut_than_is_needed(chat in chat(), which in counter(), small in 0.0_f64..1.0, more in 0.0_f64..1.0) {
        with_counter(which, |counter| {
            let total = counter.request(&chat);
            let room = part_of(total, small);
            let larger = room + part_of(total.saturating_sub(room), more);
            let Ok(tight) = fit(&chat, &window(room), counter) else {
                return Ok(());
            };
            let loose = fit(&chat, &window(larger), counter).unwrap();
            prop_assert!(loose.report.messages_cut <= tight.report.messages_cut);
            if loose.report.messages_cut < tight.report.messages_cut {
                prop_assert!(loose.report.tokens_after > room);
            }
            Ok(())
        })?;
    }

    /// In a single turn the newest group that was cut would not have fitted.
    #[test]
    fn in_one_turn_no_group_more_is_cut_than_is_needed(
        steps in prop::collection::vec((1_usize..4, 1_usize..200), 2..20),
        share in 0.1_f64..1.0,
    ) {
        let steps = steps.into_iter().map(|(count, length)| Step::Tools(count, length, true));
        let mut building = Building::default();
        building.turn(&Turn { length: 10, has_image: false, steps: steps.collect() });
        let chat = conversation(building.messages);
        let room = part_of(Estimate.request(&chat), share);
        let Ok(fitted) = fit(&chat, &window(room), &Estimate) else {
            return Ok(());
        };
        let Some(sent) = fitted.request else {
            return Ok(());
        };
        let cut = fitted.report.messages_cut;
        let group = chat.messages[1..=cut].iter().rposition(|m| m.role == Role::Assistant).unwrap() + 1;
        let mut back = chat.messages[..1].to_vec();
        if group > 1 {
            back.push(say(Role::User, &marker_text(group - 1)));
        }
        back.extend_from_slice(&chat.messages[group..]);
        prop_assert!(Estimate.request(&conversation(back)) > room, "{}", sent.messages.len());
    }

    #[test]
    fn a_calibration_stays_within_its_bounds(reports in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50)) {
        let calibration = Calibration::new(750);
        for (counted, reported) in reports {
            calibration.observe(counted, reported);
            prop_assert!((750..=4_000).contains(&calibration.ratio()));
        }
    }
}

fn marker_text(cut: usize) -> String {
    let (messages, were) = if cut == 1 {
        ("message", "was")
    } else {
        ("messages", "were")
    };
    format!("[{cut} earlier {messages} of this conversation {were} cut to fit the context window.]")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the totals of these tests are small"
)]
fn part_of(total: u64, share: f64) -> u64 {
    (total as f64 * share) as u64
}
