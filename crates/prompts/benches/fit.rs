//! What fitting costs: a history of 10,000 messages, cut and uncut.

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_core::{ChatRequest, Message, Part, Role, ToolCall, ToolResult};
use evenkeel_prompts::{Estimate, TokenCounter as _, Window, fit};
use std::hint::black_box;

/// Turns of a question, a call, its result and an answer; about 240 characters each.
fn history(messages: usize) -> ChatRequest {
    let text = "The ship declared timber, salt and wool, and carried no more than that. ".repeat(3);
    let mut request = ChatRequest::default();
    for at in 0..messages {
        let id = format!("call_{}", at / 4);
        let (role, part) = match at % 4 {
            0 => (Role::User, Part::Text(text.clone())),
            1 => (
                Role::Assistant,
                Part::ToolCall(ToolCall {
                    id,
                    name: "look_up".to_owned(),
                    arguments: "{\"vessel\": 17}".to_owned(),
                    ..ToolCall::default()
                }),
            ),
            2 => (
                Role::Tool,
                Part::ToolResult(ToolResult {
                    call_id: id,
                    parts: vec![Part::Text(text.clone())],
                    is_error: false,
                }),
            ),
            _ => (Role::Assistant, Part::Text(text.clone())),
        };
        let parts = vec![part];
        request.messages.push(Message {
            parts,
            ..Message::text(role, "")
        });
    }
    request
}

fn fitting(c: &mut Criterion) {
    for messages in [1_000, 10_000] {
        let request = history(messages);
        for (name, context_tokens) in [("fits", u64::MAX), ("cut to 8k", 8_192)] {
            let window = Window {
                context_tokens,
                reserve_output: 1_024,
            };
            c.bench_function(&format!("fit/{messages} messages, {name}"), |b| {
                b.iter(|| fit(black_box(&request), &window, &Estimate));
            });
        }
        c.bench_function(&format!("estimate/{messages} messages"), |b| {
            b.iter(|| Estimate.request(black_box(&request)));
        });
    }
}

criterion_group!(benches, fitting);
criterion_main!(benches);
