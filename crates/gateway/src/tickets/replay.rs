//! A whole answer that is there, for a client that asked for a stream.

use evenkeel_core::{Failure, StreamEvent, events_of};
use evenkeel_providers::wire::openai::{StreamEncoder, decode_response};
use evenkeel_providers::wire::{Server, sse};
use serde_json::Value;

/// The answer as server-sent events, its meta object on the first chunk and the last.
pub(super) fn events(
    answer: &str,
    meta_key: &str,
    include_usage: bool,
) -> Result<Vec<u8>, Failure> {
    let response = decode_response(answer.as_bytes(), Server::default())?;
    let said: Value = serde_json::from_str(answer).unwrap_or_default();
    let meta = said.get(meta_key);
    let mut encoder = StreamEncoder::new(
        &response.id,
        response.created,
        &response.model,
        include_usage,
    );
    let mut events = events_of(&response);
    events.push(StreamEvent::End);
    let mut out = Vec::new();
    for event in &events {
        if matches!(event, StreamEvent::Adapted(_)) {
            continue;
        }
        let last = matches!(event, StreamEvent::Finish(_) | StreamEvent::End);
        for mut chunk in encoder.push(event) {
            if let Some(meta) = meta
                && (last || out.is_empty())
            {
                chunk[meta_key] = meta.clone();
            }
            sse::write_event(None, &chunk.to_string(), &mut out);
        }
    }
    out.extend_from_slice(sse::DONE.as_bytes());
    Ok(out)
}
