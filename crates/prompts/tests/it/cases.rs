//! Cases that people met in products like this one.

use evenkeel_core::{ChatRequest, Class, Extra, Failure, Message, Role, Tool, Value};
use evenkeel_prompts::{TooLong, Window, fit};

use crate::chat::{ByCharacter, ByMessage, calls, conversation, say, tool};

fn window(context_tokens: u64) -> Window {
    Window {
        context_tokens,
        reserve_output: 0,
    }
}

fn fitted(
    request: &ChatRequest,
    room: u64,
    counter: &dyn evenkeel_prompts::TokenCounter,
) -> Result<Vec<Message>, TooLong> {
    let fitted = fit(request, &window(room), counter)?;
    Ok(fitted.request.unwrap_or_else(|| request.clone()).messages)
}

/// C137: parallel calls go with all of their results.
#[test]
fn a_cut_never_begins_with_a_tool_result() {
    let history = conversation(vec![
        say(Role::User, "q"),
        calls(&["a", "b", "c"], "{}"),
        tool("a", "1"),
        tool("b", "2"),
        tool("c", "3"),
        say(Role::User, "and now?"),
    ]);
    let last = &history.messages[5..];
    for room in [1, 2, 3, 4, 5] {
        let left = fitted(&history, room, &ByMessage).unwrap();
        assert_eq!(&left[left.len() - 1..], last, "{room}");
        assert!(
            left.iter().all(|m| m.role == Role::User),
            "{room}: {left:?}"
        );
    }
    assert_eq!(fitted(&history, 1, &ByMessage).unwrap(), last);
    assert_eq!(
        fitted(&history, 2, &ByMessage).unwrap()[0].plain_text(),
        "[5 earlier messages of this conversation were cut to fit the context window.]"
    );
    assert_eq!(
        fitted(&history, 3, &ByMessage).unwrap()[1].plain_text(),
        "[4 earlier messages of this conversation were cut to fit the context window.]"
    );
    assert!(fitted(&history, 0, &ByMessage).is_err());
}

/// C136: a call without a result stays as it is, beside the result of its neighbour.
#[test]
fn an_unanswered_call_is_not_separated_from_its_answered_neighbour() {
    let history = conversation(vec![
        say(Role::User, "old"),
        say(Role::Assistant, "old"),
        say(Role::User, "q"),
        calls(&["a", "b"], "{}"),
        tool("b", "B"),
        say(Role::User, "never mind"),
    ]);
    for room in 1..6 {
        let left = fitted(&history, room, &ByMessage).unwrap();
        let has_call = left.contains(&history.messages[3]);
        assert_eq!(has_call, left.contains(&history.messages[4]), "{room}");
    }
}

/// C195: calls, results, schemas and the system prompt count.
#[test]
fn everything_that_is_sent_is_counted() {
    let mut history = conversation(vec![
        say(Role::System, "You are terse. You are terse. You are terse."),
        say(Role::User, "first"),
        calls(&["c1"], &format!("{{\"q\":\"{}\"}}", "a".repeat(100))),
        tool("c1", &"b".repeat(200)),
        say(Role::User, "last"),
    ]);
    history.tools = vec![Tool {
        name: "f".to_owned(),
        description: Some("40 characters of description, more or less".to_owned()),
        parameters: Some(Value::String(
            "{\"type\":\"object\",\"properties\":{\"q\":{}}}".to_owned(),
        )),
        strict: None,
        extra: Extra::default(),
    }];
    let counter = ByCharacter {
        per_token: 4,
        separator: 0,
    };
    let left = fitted(&history, 100, &counter).unwrap();
    let said: Vec<String> = left.iter().map(Message::plain_text).collect();
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said[0], history.messages[0].plain_text());
    assert_eq!(said[1], "first");
    assert!(said[2].starts_with("[2 earlier messages"));
    assert_eq!(said[3], "last");
}

/// C196: neither an underflow nor an endless loop.
#[test]
fn a_fixed_part_that_exceeds_the_window_is_a_typed_error() {
    let history = conversation(vec![
        say(
            Role::System,
            "This system prompt alone is far longer than the limit of ten tokens.",
        ),
        say(Role::User, "hi"),
    ]);
    let counter = ByCharacter {
        per_token: 4,
        separator: 0,
    };
    let window = Window {
        context_tokens: 10,
        reserve_output: 40,
    };
    let error = fit(&history, &window, &counter).unwrap_err();
    assert_eq!(
        error,
        TooLong {
            protected_tokens: 18,
            window
        }
    );
    let failure = Failure::from(error);
    assert_eq!(failure.class, Class::ContextWindow);
    assert_eq!(
        failure.message,
        "the part that must be kept (system prompt, tools, latest user message, latest tool results) \
         takes 18 tokens; the context window of 10 has room for 0 beside the answer's 40"
    );
}

/// C197: what separates messages counts.
#[test]
fn separators_are_counted() {
    let history = conversation(vec![say(Role::User, "a"), say(Role::User, "b")]);
    let counter = ByCharacter {
        per_token: 1,
        separator: 1,
    };
    let left = fitted(&history, 2, &counter).unwrap();
    assert_eq!(left, history.messages[1..]);
}

#[test]
fn the_answer_has_its_room_and_asks_for_no_more() {
    let mut history = conversation(vec![
        say(Role::User, "one"),
        say(Role::Assistant, "two"),
        say(Role::User, "three"),
    ]);
    history.max_output_tokens = Some(32_000);
    let window = Window {
        context_tokens: 10,
        reserve_output: 8,
    };
    let fitted = fit(&history, &window, &ByMessage).unwrap();
    let request = fitted.request.unwrap();
    assert_eq!(request.max_output_tokens, Some(8));
    assert_eq!(request.messages.len(), 2);
    assert_eq!(
        fitted.report.adapted(),
        [
            "messages: 2 cut to fit the context window, 2 of 3 tokens left",
            "max_output_tokens: lowered to 8 to fit the context window",
        ]
    );
    assert_eq!(history.max_output_tokens, Some(32_000));
    let roomy = Window {
        context_tokens: 100,
        reserve_output: 8,
    };
    let same = fit(&history, &roomy, &ByMessage).unwrap();
    assert_eq!(same.report.messages_cut, 0);
    assert_eq!(same.request.unwrap().messages, history.messages);
}

#[test]
fn whole_turns_go_before_parts_of_the_first_and_the_last() {
    let text = |role, text: &str| say(role, text);
    let history = conversation(vec![
        text(Role::System, "s"),
        text(Role::Assistant, "greeting"),
        text(Role::User, "task"),
        calls(&["a"], "{}"),
        tool("a", "A"),
        text(Role::Assistant, "answer"),
        text(Role::User, "second"),
        text(Role::Assistant, "answer"),
        text(Role::System, "reminder"),
        text(Role::User, "latest"),
        calls(&["b"], "{}"),
        tool("b", "B"),
        calls(&["c", "d"], "{}"),
        tool("d", "D"),
        tool("c", "C"),
    ]);
    let left = |room: u64| -> String {
        let left = fitted(&history, room, &ByMessage).unwrap();
        let sign = |m: &Message| match (m.role, history.messages.iter().position(|h| h == m)) {
            (_, Some(at)) => format!("{at:x}"),
            (Role::User, None) => "*".to_owned(),
            (_, None) => "?".to_owned(),
        };
        left.iter().map(sign).collect()
    };
    // The answers of 5 and 7 are alike: both are shown as 5.
    assert_eq!(left(15), "01234565589abcde".replace("55", "5"));
    assert_eq!(left(14), "0*234589abcde");
    assert_eq!(left(13), "0*234589abcde");
    assert_eq!(left(12), "0*2589abcde");
    assert_eq!(left(11), "0*2589abcde");
    assert_eq!(left(10), "0*289abcde");
    assert_eq!(left(9), "0*289cde");
    assert_eq!(left(7), "0*89cde");
    assert_eq!(left(6), "089cde");
    assert!(fitted(&history, 5, &ByMessage).is_err());
}
