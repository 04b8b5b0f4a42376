//! Traps on the way to Anthropic: what the API refuses is repaired, what it
//! has no place for is told.

use evenkeel_core::{
    ChatRequest, Effort, Extra, Image, Map, Message, Part, Reasoning, ReasoningPart, Role, Tool,
    ToolCall, ToolResult, Value,
};
use evenkeel_providers::wire::Encoded;
use evenkeel_providers::wire::anthropic::{Options, Support, decode_request, encode_request};
use serde_json::json;

pub(crate) fn encode(request: &ChatRequest) -> Encoded {
    encode_for(request, &Options::default())
}

pub(crate) fn encode_for(request: &ChatRequest, options: &Options) -> Encoded {
    encode_request(request, "m-a", false, options)
}

pub(crate) fn messages(messages: Vec<Message>) -> ChatRequest {
    ChatRequest {
        messages,
        ..ChatRequest::default()
    }
}

pub(crate) fn message(role: Role, parts: Vec<Part>) -> Message {
    Message {
        role,
        parts,
        name: None,
        extra: Extra::default(),
    }
}

pub(crate) fn say(role: Role, text: &str) -> Message {
    Message::text(role, text)
}

pub(crate) fn call(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: "look".into(),
        arguments: arguments.into(),
        extra: Extra::default(),
    })
}

pub(crate) fn result(id: &str, text: &str) -> Message {
    message(
        Role::Tool,
        vec![Part::ToolResult(ToolResult {
            call_id: id.into(),
            parts: vec![Part::Text(text.into())],
            is_error: false,
        })],
    )
}

pub(crate) fn signed(text: &str, dialect: &'static str) -> Part {
    Part::Reasoning(ReasoningPart {
        text: text.into(),
        signature: Some("SIG-A".into()),
        dialect,
    })
}

pub(crate) fn tool(name: &str) -> Tool {
    Tool {
        name: name.into(),
        description: None,
        parameters: None,
        strict: None,
        extra: Extra::default(),
    }
}

pub(crate) fn reasoning(effort: Option<Effort>, budget_tokens: Option<u64>) -> ChatRequest {
    ChatRequest {
        reasoning: Some(Reasoning {
            effort,
            budget_tokens,
        }),
        ..ChatRequest::user("Hi")
    }
}

pub(crate) fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

pub(crate) fn other(dialect: &'static str, value: Value) -> Part {
    Part::Other(Extra {
        dialect,
        fields: fields(value),
    })
}

pub(crate) fn client(body: &Value) -> ChatRequest {
    decode_request(body.to_string().as_bytes()).unwrap().request
}

/// Traps 1 and 2.
#[test]
fn leading_instructions_become_the_system_prompt_joined_by_blank_lines() {
    let encoded = encode(&messages(vec![
        say(Role::System, "Be brief."),
        say(Role::Developer, "Be kind."),
        say(Role::User, "Hi"),
    ]));
    assert_eq!(encoded.body["system"], "Be brief.\n\nBe kind.");
    assert_eq!(
        encoded.body["messages"],
        json!([{"role": "user", "content": "Hi"}])
    );
    assert!(encoded.adapted.is_empty());
}

/// Trap 2.
#[test]
fn instructions_in_mid_conversation_stay_where_the_model_takes_them() {
    let request = messages(vec![
        say(Role::User, "a"),
        say(Role::System, "Now in French."),
        say(Role::User, "b"),
    ]);
    let moved = encode(&request);
    assert_eq!(moved.body["system"], "Now in French.");
    assert_eq!(
        moved.adapted,
        ["system message in mid-conversation: moved to the system prompt"]
    );
    assert_eq!(moved.body["messages"].as_array().unwrap().len(), 1);
    let options = Options {
        system_turns: Support::Yes,
        ..Options::default()
    };
    let kept = encode_for(&request, &options);
    assert_eq!(
        kept.body["messages"][1],
        json!({"role": "system", "content": "Now in French."})
    );
    assert_eq!(kept.body.get("system"), None);
    assert!(kept.adapted.is_empty());
}

/// Trap 2: a caller who writes this format knows what it takes.
#[test]
fn instructions_written_in_this_format_stay_where_they_were() {
    let body = json!({"model": "m-a", "max_tokens": 9, "messages": [
        {"role": "user", "content": "a"}, {"role": "system", "content": "s"},
        {"role": "user", "content": "b"}]});
    assert_eq!(encode(&client(&body)).body, body);
}

/// Trap 5, C130.
#[test]
fn empty_texts_are_dropped_and_turns_still_alternate() {
    let encoded = encode(&messages(vec![
        say(Role::User, "a"),
        say(Role::Assistant, ""),
        say(Role::User, "b"),
        say(Role::Assistant, "   "),
        message(
            Role::User,
            vec![Part::Text("c".into()), Part::Text("\n".into())],
        ),
    ]));
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        encoded.body["messages"],
        json!([{"role": "user", "content": [text("a"), text("b"), text("c")]}])
    );
}

/// C130. Left out, an answer would stand last, which is a begun one.
#[test]
fn an_empty_last_message_of_the_user_keeps_its_turn() {
    let encoded = encode(&messages(vec![
        say(Role::User, "a"),
        say(Role::Assistant, "b"),
        say(Role::User, " \n"),
    ]));
    assert_eq!(
        encoded.body["messages"],
        json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
            {"role": "user", "content": "(empty message)"}])
    );
    assert_eq!(
        encoded.adapted,
        ["empty message of the user: refused by this provider, sent as a placeholder"]
    );
    let alone = encode(&messages(vec![say(Role::User, "")]));
    assert_eq!(
        alone.body["messages"],
        json!([{"role": "user", "content": "(empty message)"}])
    );
    let unneeded = encode(&messages(vec![say(Role::User, "a"), say(Role::User, "")]));
    assert_eq!(
        unneeded.body["messages"].as_array().map(Vec::len),
        Some(1),
        "{unneeded:?}"
    );
    assert_eq!(unneeded.adapted, Vec::<String>::new());
}

/// Trap 5, for a history that an Anthropic client wrote.
#[test]
fn empty_texts_of_a_client_are_dropped_too() {
    let body = json!({"model": "m-a", "max_tokens": 9, "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "text", "text": ""},
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": "r"}]});
    let encoded = encode(&client(&body));
    assert_eq!(
        encoded.body["messages"][1]["content"],
        json!([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}])
    );
}

/// Trap 6.
#[test]
fn white_space_after_a_prefill_is_removed() {
    let request = messages(vec![say(Role::User, "a"), say(Role::Assistant, "{ \n")]);
    let encoded = encode(&request);
    assert_eq!(encoded.body["messages"][1]["content"], "{");
    assert_eq!(
        encoded.adapted,
        ["begun answer at the end: white space after it was removed"]
    );
}

/// Trap 6.
#[test]
fn a_model_without_prefill_is_asked_to_continue() {
    let request = messages(vec![say(Role::User, "a"), say(Role::Assistant, "{")]);
    let options = Options {
        prefill: Support::No,
        ..Options::default()
    };
    let encoded = encode_for(&request, &options);
    let roles: Vec<_> = encoded.body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(
        encoded.adapted,
        ["begun answer at the end: refused by this model, asked to continue instead"]
    );
}

/// A paused turn goes back as it was, also where prefill is refused.
#[test]
fn a_paused_turn_is_no_prefill() {
    let body = json!({"model": "m-a", "max_tokens": 9, "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Searching"},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}]}]});
    let options = Options {
        prefill: Support::No,
        ..Options::default()
    };
    let encoded = encode_for(&client(&body), &options);
    assert_eq!(encoded.body["messages"], body["messages"]);
}

/// The first turn must be the user's.
#[test]
fn a_conversation_that_begins_with_the_model_gets_a_user_turn() {
    let encoded = encode(&messages(vec![
        say(Role::Assistant, "Welcome!"),
        say(Role::User, "Hi"),
    ]));
    assert_eq!(encoded.body["messages"][0]["role"], "user");
    assert_eq!(encoded.body["messages"][1]["content"], "Welcome!");
    assert_eq!(encoded.adapted.len(), 1);
    let only_system = encode(&messages(vec![say(Role::System, "s")]));
    assert_eq!(only_system.body["messages"].as_array().unwrap().len(), 1);
}

/// Trap 8.
#[test]
fn names_of_speakers_are_told_as_lost() {
    let mut named = say(Role::User, "Hi");
    named.name = Some("ada".into());
    assert_eq!(
        encode(&messages(vec![named])).adapted,
        ["messages.name: not known to this provider, left out"]
    );
}

/// Images of both kinds, documents, and what cannot be said.
#[test]
fn images_and_documents_go_as_their_data_says() {
    let image = |url: &str| {
        Part::Image(Image {
            url: url.into(),
            detail: Some("high".into()),
        })
    };
    let file = other(
        "openai",
        json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}}),
    );
    let encoded = encode(&messages(vec![message(
        Role::User,
        vec![
            image("data:image/png;base64,iVBO"),
            image("https://h/i.png"),
            image("data:application/pdf;base64,JVBE"),
            file,
            image("data:image/svg+xml,<svg/>"),
            other("openai", json!({"type": "input_audio", "input_audio": {}})),
        ],
    )]));
    let base64 = |media_type: &str, data: &str| json!({"type": "base64", "media_type": media_type, "data": data});
    assert_eq!(
        encoded.body["messages"][0]["content"],
        json!([
            {"type": "image", "source": base64("image/png", "iVBO")},
            {"type": "image", "source": {"type": "url", "url": "https://h/i.png"}},
            {"type": "document", "source": base64("application/pdf", "JVBE")},
            {"type": "document", "source": base64("application/pdf", "JVBE"), "title": "a.pdf"},
        ])
    );
    assert_eq!(
        encoded.adapted,
        [
            "image detail: not known to this provider, left out",
            "image: its data is not in base64, left out",
            "part without a neutral form: of another wire format, left out",
        ]
    );
}
