//! `[telemetry]`.

use std::collections::BTreeMap;

use secrecy::SecretString;

use super::access::read_path;
use super::check_key;
use crate::redactions::Redactions;
use crate::telemetry::{CaptureContent, EventsAs, WrittenTelemetry, is_endpoint};
use evenkeel_document::TableReader;
use http::{HeaderName, HeaderValue};

pub(super) fn read_telemetry(table: &mut TableReader<'_, '_>) -> WrittenTelemetry {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    WrittenTelemetry {
        endpoint: read_endpoint(table),
        headers: read_headers(table),
        ca_file: read_path(table, "ca_file"),
        timeout: table.ms("timeout_ms").filter(|timeout| {
            let fits = !timeout.is_zero();
            if !fits {
                refuse(table, "timeout_ms", "is 0, expected 1 or more", None);
            }
            fits
        }),
        queue: table.count("queue").filter(|queue| {
            let fits = *queue > 0;
            if !fits {
                refuse(table, "queue", "is 0, expected 1 or more", None);
            }
            fits
        }),
        metrics: table.flag("metrics"),
        sample_ratio: table.number("sample_ratio").filter(|ratio| {
            let fits = (0.0..=1.0).contains(ratio);
            if !fits {
                let message = format!("is {ratio}, expected 0 to 1");
                refuse(table, "sample_ratio", &message, None);
            }
            fits
        }),
        capture_content: table.word("capture_content", &CaptureContent::WORDS),
        redact: read_redact(table),
        events: table
            .within("events", |events| events.word("as", &EventsAs::WORDS))
            .flatten(),
        service_name: owned(named(table, "service_name")),
        environment: owned(named(table, "environment")),
        resource: read_resource(table),
    }
}

fn read_redact(table: &mut TableReader<'_, '_>) -> Redactions {
    let mut redactions = Redactions::default();
    for pattern in table.texts("redact").unwrap_or_default() {
        if let Err(wrong) = redactions.add(pattern.text) {
            table.findings.error(&pattern.place, wrong, None);
        }
    }
    redactions
}

fn refuse(table: &mut TableReader<'_, '_>, key: &str, message: &str, how: Option<&str>) {
    let at = table.place(key);
    table
        .findings
        .error(&at, message.to_owned(), how.map(str::to_owned));
}

/// A text that is not empty.
fn named<'a>(table: &mut TableReader<'a, '_>, key: &'static str) -> Option<&'a str> {
    let text = table.text(key)?;
    if text.is_empty() {
        refuse(table, key, "is empty", Some("leave it out"));
        return None;
    }
    Some(text)
}

fn read_endpoint(table: &mut TableReader<'_, '_>) -> Option<String> {
    let endpoint = table.text("endpoint")?;
    if endpoint.is_empty() || is_endpoint(endpoint) {
        return Some(endpoint.to_owned());
    }
    let how = "write e.g. `http://127.0.0.1:4318`; keys go into headers";
    refuse(
        table,
        "endpoint",
        "is no address that can be posted to",
        Some(how),
    );
    None
}

fn read_headers(table: &mut TableReader<'_, '_>) -> Option<BTreeMap<String, SecretString>> {
    let written = table.named_texts("headers")?;
    let mut headers = BTreeMap::new();
    for (name, value) in written {
        let fits = HeaderName::from_bytes(name.as_bytes()).is_ok();
        if !fits {
            let message = format!("`{name}` is no name of a header");
            table.findings.error(&value.place, message, None);
        } else if HeaderValue::from_str(value.text).is_err() {
            check_key(value.text, value.variables, &value.place, table.findings);
        } else {
            headers.insert(name.to_ascii_lowercase(), SecretString::from(value.text));
        }
    }
    Some(headers)
}

fn read_resource(table: &mut TableReader<'_, '_>) -> BTreeMap<String, String> {
    let written = table.named_texts("resource").unwrap_or_default();
    let mut resource = BTreeMap::new();
    for (name, value) in written {
        let own = match name {
            "service.name" => Some("service_name"),
            "deployment.environment.name" => Some("environment"),
            _ => None,
        };
        if let Some(own) = own {
            let message = format!("`{name}` has a key of its own");
            let how = format!("write `{own}`");
            table.findings.error(&value.place, message, Some(how));
        }
        resource.insert(name.to_owned(), value.text.to_owned());
    }
    resource
}
