//! One request as its traffic describes it.

use crate::record::request_id;
use crate::scenario::{Output, Traffic};
use evenkeel_core::{
    Baggage, CallContext, ChatRequest, DegradationContext, Image, Message, Output as ChatOutput,
    Part, Role, Tool,
};
use serde_json::json;
use std::sync::Arc;

/// The request of that number. Its answer, where it is a numbered text, names the
/// number again, so that a caller can tell its own.
pub(crate) fn request(traffic: &Traffic, nth: usize) -> ChatRequest {
    let mut messages = Vec::new();
    let turns = traffic.turns;
    for turn in 0..turns {
        let words = padding(traffic.input_tokens / (turns + 1));
        messages.push(Message::text(Role::User, format!("turn {turn}{words}")));
        messages.push(Message::text(Role::Assistant, format!("answer {turn}")));
    }
    let words = padding(traffic.input_tokens / (turns + 1));
    let mut last = Message::text(Role::User, format!("say something{words}, n{nth}"));
    if traffic.images {
        last.parts.push(Part::Image(Image {
            url: "data:image/png;base64,iVBORw0KGgo=".to_owned(),
            detail: None,
        }));
    }
    messages.push(last);
    let mut request = ChatRequest {
        messages,
        output: output(traffic.output),
        max_output_tokens: traffic.max_output_tokens,
        ..ChatRequest::default()
    };
    if traffic.tools {
        request.tools.push(tool());
    }
    if traffic.store {
        let fields = &mut request.extra.fields;
        fields.insert("store".to_owned(), json!(true));
    }
    request
}

/// What accompanies it.
pub(crate) fn context(traffic: &Traffic, nth: usize) -> CallContext {
    CallContext {
        request_id: Some(request_id(nth)),
        session: traffic.session.as_deref().map(Arc::from),
        task: traffic.task.as_deref().map(Arc::from),
        pinned_roster: traffic.pinned_roster.clone(),
        min_capability: traffic.min_capability,
        degradation: degradation(traffic),
        clocks: traffic.clocks,
        complexity: traffic.complexity,
        ..CallContext::default()
    }
}

/// What a caller hands on that builds on an answer of so little capability.
fn degradation(traffic: &Traffic) -> DegradationContext {
    let Some(capability) = traffic.degraded_input else {
        return DegradationContext::default();
    };
    let header =
        format!("evenkeel.degraded=1,evenkeel.agents=earlier,evenkeel.min_capability={capability}");
    Baggage::read([header.as_str()]).degradation()
}

/// Text of about so many tokens, four characters each.
fn padding(tokens: u32) -> String {
    " and".repeat(usize::try_from(tokens).unwrap_or_default())
}

fn output(output: Output) -> ChatOutput {
    match output {
        Output::Text => ChatOutput::Text,
        Output::JsonObject => ChatOutput::JsonObject,
        Output::JsonSchema => ChatOutput::JsonSchema {
            name: "trip".to_owned(),
            schema: json!({
                "type": "object",
                "properties": { "city": { "type": "string" }, "days": { "type": "integer" } },
                "required": ["city", "days"],
                "additionalProperties": false,
            }),
            strict: true,
            description: None,
        },
    }
}

fn tool() -> Tool {
    Tool {
        name: "look_up".to_owned(),
        description: Some("Looks a word up.".to_owned()),
        parameters: Some(json!({
            "type": "object",
            "properties": { "word": { "type": "string" } },
            "required": ["word"],
        })),
        strict: None,
        extra: evenkeel_core::Extra::default(),
    }
}
