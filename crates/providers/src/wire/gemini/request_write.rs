//! Requests: neutral form to JSON.

use super::options::{Options, Platform};
use super::parts_write::Style;
use super::{DIALECT, add_unknown, config_write, contents_write, names, own_field, tools_write};
use crate::wire::Encoded;
use crate::wire::adapted::{Adapted, done, what};
use crate::wire::tool_names::ToolNames;
use evenkeel_core::ChatRequest;
use serde_json::{Map, Value};

/// Most characters of a label's value. Google Cloud's reference, "Labels".
const MAX_LABEL: usize = 63;

/// Writes a request to `model`. Whether a stream is asked for is said by its
/// [`path`](super::path), not here.
///
/// [`decode_request`](super::decode_request) reads the same request back, as
/// far as this format can say it.
pub fn encode_request(request: &ChatRequest, model: &str, options: &Options) -> Encoded {
    let mut adapted = Adapted::default();
    let names = ToolNames::of(request, names::RULE);
    let style = Style {
        traits: options.traits(model),
        names: &names,
    };
    let mut map = Map::new();
    let (system, contents) = contents_write::conversation(&request.messages, &style, &mut adapted);
    if let Some(system) = system {
        map.insert("systemInstruction".into(), system);
    }
    map.insert("contents".into(), contents.into());
    tools_write::write(request, &names, &mut map, &mut adapted);
    let config = config_write::config(request, style.traits.thinking, &mut adapted);
    if !config.is_empty() {
        map.insert("generationConfig".into(), config.into());
    }
    user(request, options.platform, &mut map, &mut adapted);
    if !request.metadata.is_empty() {
        adapted.left_out("metadata");
    }
    let written = ["generationConfig", "toolConfig", "labels"];
    add_unknown(&request.extra, &written, &mut map);
    adapted.foreign_fields(&request.extra, DIALECT);
    if !names.is_empty() {
        adapted.note(what::TOOL_NAMES, done::RENAMED);
    }
    Encoded {
        body: Value::Object(map),
        adapted: adapted.into_lines(),
        tool_names: names.into_own_by_wire(),
    }
}

/// The labels, with the user among them where the platform knows labels.
fn user(
    request: &ChatRequest,
    platform: Platform,
    map: &mut Map<String, Value>,
    adapted: &mut Adapted,
) {
    let kept = own_field(&request.extra, "labels").and_then(Value::as_object);
    let mut labels = kept.cloned().unwrap_or_default();
    if let Some(user) = &request.user {
        if platform == Platform::Vertex && is_label(user) {
            labels.insert("user".into(), user.as_str().into());
        } else {
            adapted.left_out(what::USER);
        }
    }
    if !labels.is_empty() {
        map.insert("labels".into(), labels.into());
    }
}

fn is_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    text.len() <= MAX_LABEL && text.bytes().all(plain)
}
