//! What a role's prompt does to a request.

use std::borrow::Cow;

use evenkeel_core::{ChatRequest, Message, ModelId, Role};
use evenkeel_prompts::{Mode, Placed, SourceFile};

use crate::registry::load_files;

/// Roles and texts.
type Said = &'static [(Role, &'static str)];

/// A conversation as roles and texts.
fn request(messages: &[(Role, &str)]) -> ChatRequest {
    ChatRequest {
        messages: messages
            .iter()
            .map(|(role, text)| Message::text(*role, *text))
            .collect(),
        ..ChatRequest::default()
    }
}

/// Puts the prompt `ours` into `request`.
fn placed<'a>(policy: &str, request: &'a ChatRequest) -> Placed<'a> {
    let manifest = format!(
        "[intake_agent]\nsystem_prompt = \"{policy}\"\nsystem_prompt_variants = {{ default = \"ours\" }}\n"
    );
    let set = load_files(&[SourceFile::new("prompts.toml", manifest)], &[]).unwrap();
    let model = ModelId::new("openai/gpt-5").unwrap();
    let prompt = set
        .for_rung("intake_agent", &model, Mode::Full, &[].into())
        .unwrap();
    prompt.put_into(request)
}

fn shown(request: &ChatRequest) -> Vec<(Role, String)> {
    request
        .messages
        .iter()
        .map(|m| (m.role, m.plain_text()))
        .collect()
}

#[test]
fn each_policy_does_to_the_callers_prompt_what_it_says() {
    use Role::{Developer, System, User};
    let own: Said = &[(System, "a"), (System, "b"), (User, "hi"), (System, "mid")];
    let developer: Said = &[(Developer, "a"), (User, "hi")];
    let absent: Said = &[(User, "hi"), (System, "mid")];
    let replaced = Some("system prompt: replaced by the role's own");
    let rows: [(&str, Said, Said, Option<&str>); 9] = [
        (
            "replace",
            own,
            &[(System, "ours"), (User, "hi"), (System, "mid")],
            replaced,
        ),
        (
            "replace",
            developer,
            &[(Developer, "ours"), (User, "hi")],
            replaced,
        ),
        (
            "replace",
            absent,
            &[(System, "ours"), (User, "hi"), (System, "mid")],
            None,
        ),
        (
            "prepend",
            own,
            &[
                (System, "ours"),
                (System, "a"),
                (System, "b"),
                (User, "hi"),
                (System, "mid"),
            ],
            None,
        ),
        (
            "prepend",
            developer,
            &[(Developer, "ours"), (Developer, "a"), (User, "hi")],
            None,
        ),
        (
            "prepend",
            absent,
            &[(System, "ours"), (User, "hi"), (System, "mid")],
            None,
        ),
        ("if_absent", own, own, None),
        ("if_absent", developer, developer, None),
        (
            "if_absent",
            absent,
            &[(System, "ours"), (User, "hi"), (System, "mid")],
            None,
        ),
    ];
    for (policy, before, after, adapted) in rows {
        let request = request(before);
        let placed = placed(policy, &request);
        let expected: Vec<(Role, String)> =
            after.iter().map(|(r, t)| (*r, (*t).to_owned())).collect();
        assert_eq!(shown(&placed.request), expected, "{policy} {before:?}");
        assert_eq!(placed.adapted.as_deref(), adapted, "{policy} {before:?}");
    }
}

#[test]
fn a_caller_that_sends_this_very_prompt_gets_it_once() {
    use Role::{System, User};
    for (policy, before) in [
        ("replace", vec![(System, "ours"), (User, "hi")]),
        ("prepend", vec![(System, "ours"), (User, "hi")]),
        (
            "prepend",
            vec![(System, "state"), (System, "ours"), (User, "hi")],
        ),
    ] {
        let request = request(&before);
        let placed = placed(policy, &request);
        assert!(
            matches!(placed.request, Cow::Borrowed(_)),
            "{policy} {before:?}"
        );
    }
    let request = request(&[(System, "ours"), (System, "more"), (User, "hi")]);
    assert_eq!(placed("replace", &request).request.messages.len(), 2);
}

#[test]
fn an_empty_request_takes_a_prompt() {
    let request = request(&[]);
    let placed = placed("prepend", &request);
    assert_eq!(shown(&placed.request), [(Role::System, "ours".to_owned())]);
}
