//! Long conversations.

use evenkeel_core::{ChatRequest, Extra, Message, ModelId, Role, Tool};
use evenkeel_prompts::{ModelCounter, TokenCounter, Window, fit};

use crate::chat::{calls, conversation, say, tool};

/// An agent's conversation: each turn a question, two tool calls at once, an answer.
fn agent(turns: usize) -> ChatRequest {
    let mut messages = vec![say(
        Role::System,
        "You keep the harbour's logs. Answer from the tools alone.",
    )];
    for n in 0..turns {
        let ids = [format!("a{n}"), format!("b{n}")];
        messages.push(say(
            Role::User,
            &format!("What did vessel {n} declare, and what did we count?"),
        ));
        messages.push(calls(&[&ids[0], &ids[1]], &format!("{{\"vessel\": {n}}}")));
        let log = format!("vessel {n}: declared cargo of timber, salt and wool, captain unknown. ");
        messages.push(tool(&ids[0], &log.repeat(6)));
        messages.push(tool(&ids[1], &log.repeat(14)));
        messages.push(say(
            Role::Assistant,
            &format!("Vessel {n} declared less than we counted. {log}"),
        ));
    }
    messages.push(say(Role::User, "Which vessel declared least?"));
    let mut chat = conversation(messages);
    chat.tools = vec![Tool {
        name: "f".to_owned(),
        description: Some("Looks a vessel up in a log.".to_owned()),
        parameters: None,
        strict: None,
        extra: Extra::default(),
    }];
    chat
}

/// Two hundred turns with tools move from a window of 128k to one of 8k.
#[test]
fn a_conversation_of_two_hundred_turns_moves_to_a_small_window() {
    let chat = agent(200);
    let model = ModelId::new("openai/gpt-4o").unwrap();
    let counter = ModelCounter::new(&model);
    let counting = counter.counting();
    let large = fit(&chat, &Window::of(128_000, None, &chat), &counting).unwrap();
    assert!(large.report.tokens_before > 60_000, "{large:?}");

    let window = Window::of(8_192, None, &chat);
    let fitted = fit(&chat, &window, &counting).unwrap();
    let sent = fitted.request.unwrap();
    assert!(counting.request(&sent) <= 8_192 - 2_048);
    // One turn more would not have fitted: the rest is used.
    assert!(
        counting.request(&sent) > 8_192 - 2_048 - 1_000,
        "{:?}",
        fitted.report
    );
    assert_eq!(sent.messages[0], chat.messages[0]);
    assert_eq!(sent.messages[1], chat.messages[1]);
    assert_eq!(sent.messages.last(), chat.messages.last());
    assert_eq!(
        sent.messages.len(),
        chat.messages.len() - fitted.report.messages_cut + 1
    );
    // Whole turns were cut, in one piece behind the first.
    let cut = fitted.report.messages_cut;
    assert_eq!(cut % 5, 0);
    assert!(
        sent.messages[6]
            .plain_text()
            .starts_with(&format!("[{cut} earlier messages"))
    );
    assert_eq!(sent.messages[7..], chat.messages[6 + cut..]);
}

/// One user message and nothing but tools after it: an agent that works on its own.
#[test]
fn a_single_turn_of_many_calls_keeps_its_task_and_its_latest_results() {
    let mut chat = agent(1);
    chat.messages.pop();
    for n in 0..5_000 {
        let id = format!("call_{n}");
        chat.messages.push(calls(&[&id], "{}"));
        chat.messages.push(tool(&id, "Nothing of note."));
    }
    let counter = ModelCounter::new(&ModelId::new("acme/small").unwrap());
    let fitted = fit(&chat, &Window::of(8_192, None, &chat), &counter.counting()).unwrap();
    let sent = fitted.request.unwrap().messages;
    assert_eq!(sent[..2], chat.messages[..2]);
    assert!(
        sent[2]
            .plain_text()
            .ends_with("cut to fit the context window.]")
    );
    let groups: Vec<&[Message]> = sent[3..].chunks(2).collect();
    assert!(groups.len() > 100);
    for pair in groups {
        assert_eq!([pair[0].role, pair[1].role], [Role::Assistant, Role::Tool]);
    }
    assert_eq!(sent.last(), chat.messages.last());
}
