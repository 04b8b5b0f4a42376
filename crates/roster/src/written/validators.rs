//! `validators = [ { kind = "…", … } ]`: what judges a role's answers.

use super::access::read_headers;
use super::tickets::checked_post_url;
use crate::validator::{HttpValidatorConfig, ValidatorConfig};
use evenkeel_core::Value as Json;
use evenkeel_document::{TableReader, Value};
use evenkeel_validators::{BuiltIn, InvalidRule};
use secrecy::SecretString;

/// The keys of all kinds together.
const KEYS: [&str; 9] = [
    "chars",
    "equals",
    "exists",
    "headers",
    "must_match",
    "path",
    "pattern",
    "timeout_ms",
    "url",
];

/// Reads the list; none where there is none.
pub(super) fn read_validators(table: &mut TableReader<'_, '_>) -> Option<Vec<ValidatorConfig>> {
    let scopes = table.listed_tables("validators")?;
    let mut validators = Vec::with_capacity(scopes.len());
    for scope in scopes {
        let mut own = TableReader::new(scope, table.findings);
        validators.extend(read_validator(&mut own));
        own.finish();
    }
    Some(validators)
}

fn read_validator(table: &mut TableReader<'_, '_>) -> Option<ValidatorConfig> {
    let kinds = BuiltIn::KINDS.into_iter().chain([ValidatorConfig::HTTP]);
    let kinds: Vec<_> = kinds.map(|kind| (kind, kind)).collect();
    if !table.has("kind") {
        missing(table, "kind");
    }
    let Some(kind) = table.word("kind", &kinds) else {
        // Which keys it may have is its kind's to say.
        for key in KEYS {
            table.know(key);
        }
        return None;
    };
    match kind {
        ValidatorConfig::HTTP => read_http(table).map(ValidatorConfig::Http),
        built_in => read_built_in(table, built_in).map(ValidatorConfig::BuiltIn),
    }
}

fn read_built_in(table: &mut TableReader<'_, '_>, kind: &str) -> Option<BuiltIn> {
    match kind {
        "regex" => {
            let must_match = table.flag("must_match").unwrap_or(true);
            let pattern = required(table, "pattern", TableReader::text)?;
            sound(table, "pattern", BuiltIn::regex(pattern, must_match))
        }
        "json_path" => {
            let exists = table.flag("exists");
            let equals = read_equals(table);
            let path = required(table, "path", TableReader::text)?;
            if equals.is_some() && exists.is_some() {
                let at = table.place("exists");
                let message = "stands beside equals: keep one of the two".to_owned();
                table.findings.error(&at, message, None);
            }
            let rule = match equals {
                Some(value) => BuiltIn::json_equals(path, value),
                None => BuiltIn::json_exists(path, exists.unwrap_or(true)),
            };
            sound(table, "path", rule)
        }
        "min_length" => required(table, "chars", TableReader::large_count).map(BuiltIn::MinLength),
        _ => Some(BuiltIn::Refusal),
    }
}

fn read_http(table: &mut TableReader<'_, '_>) -> Option<HttpValidatorConfig> {
    let timeout = table.ms("timeout_ms");
    let headers = read_headers(table, &[], "remove it");
    let url = required(table, "url", TableReader::text)?;
    if let Err(message) = checked_post_url(url, "write a header `authorization` for it") {
        let how = "write e.g. `http://127.0.0.1:9000/validate`".to_owned();
        let at = table.place("url");
        table.findings.error(&at, message, Some(how));
        return None;
    }
    let service = HttpValidatorConfig {
        url: SecretString::from(url),
        timeout,
        headers,
    };
    let faults = service.faults();
    if faults.is_empty() {
        return Some(service);
    }
    for fault in faults {
        let at = table.place(fault.key);
        table.findings.error(&at, fault.message, None);
    }
    None
}

/// A value to compare with: a string, a number, true or false.
fn read_equals(table: &mut TableReader<'_, '_>) -> Option<Json> {
    table.know("equals");
    let entry = table.scope().table.get("equals")?;
    match &entry.node.value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Integer(number) => Some((*number).into()),
        Value::Float(number) => Some((*number).into()),
        Value::Bool(flag) => Some((*flag).into()),
        other => {
            let at = table.place("equals");
            let found = other.kind();
            let message = format!("expected a string, a number, true or false, found {found}");
            table.findings.error(&at, message, None);
            None
        }
    }
}

fn required<'a, 'f, T>(
    table: &mut TableReader<'a, 'f>,
    key: &'static str,
    read: impl FnOnce(&mut TableReader<'a, 'f>, &'static str) -> Option<T>,
) -> Option<T> {
    if !table.has(key) {
        missing(table, key);
    }
    read(table, key)
}

fn missing(table: &mut TableReader<'_, '_>, key: &str) {
    let at = table.scope().place.clone();
    table.findings.error(&at, format!("{key} is missing"), None);
}

fn sound(
    table: &mut TableReader<'_, '_>,
    key: &str,
    rule: Result<BuiltIn, InvalidRule>,
) -> Option<BuiltIn> {
    match rule {
        Ok(rule) => Some(rule),
        Err(error) => {
            let at = table.place(key);
            table.findings.error(&at, error.to_string(), None);
            None
        }
    }
}
