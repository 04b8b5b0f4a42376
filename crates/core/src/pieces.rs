//! A whole answer as a stream.

use crate::{ChatResponse, Delta, Part, StreamEvent};

/// A whole answer as the events of a stream, without its end.
pub fn events_of(response: &ChatResponse) -> Vec<StreamEvent> {
    let mut events = Vec::with_capacity(response.parts.len() + 4);
    if let Some(limits) = &response.rate_limits {
        events.push(StreamEvent::RateLimits(limits.clone()));
    }
    if !response.adapted.is_empty() {
        events.push(StreamEvent::Adapted(response.adapted.clone()));
    }
    events.push(StreamEvent::Start {
        id: response.id.clone(),
        model: response.model.clone(),
        created: response.created,
        extra: response.extra.clone(),
    });
    let mut calls = 0;
    for part in &response.parts {
        if let Part::ToolCall(call) = part {
            events.push(StreamEvent::Delta(Delta::ToolCallStart {
                index: calls,
                id: call.id.clone(),
                name: call.name.clone(),
            }));
            if !call.arguments.is_empty() {
                events.push(StreamEvent::Delta(Delta::ToolCallArguments {
                    index: calls,
                    fragment: call.arguments.clone(),
                }));
            }
            if !call.extra.fields.is_empty() {
                events.push(StreamEvent::Delta(Delta::ToolCallExtra {
                    index: calls,
                    extra: call.extra.clone(),
                }));
            }
            calls += 1;
        } else {
            events.extend(delta_of(part.clone()).map(StreamEvent::Delta));
        }
    }
    events.push(StreamEvent::Finish(response.finish));
    events.extend(response.usage.map(StreamEvent::Usage));
    events
}

/// A part as one piece of a stream; none for calls and their results, which come
/// in several or not at all.
pub fn delta_of(part: Part) -> Option<Delta> {
    match part {
        Part::Text(text) => Some(Delta::Text(text)),
        Part::Refusal(text) => Some(Delta::Refusal(text)),
        Part::Reasoning(part) => Some(Delta::Reasoning(part)),
        Part::Image(_) | Part::Other(_) => Some(Delta::Part(part)),
        _ => None,
    }
}
