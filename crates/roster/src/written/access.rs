//! How a provider is reached: address, key, headers, proxy, connections.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::HeaderName;
use secrecy::SecretString;

use super::check_key;
use crate::provider::{ConnectionPolicy, Dialect, ProviderConfig};
use evenkeel_document::{TableReader, Value, assign};

/// Headers that a message has anyway, or that decide how it is read.
const MESSAGE_HEADERS: [&str; 10] = [
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a provider's client sets beside those.
const CLIENT_HEADERS: [&str; 2] = ["accept", "authorization"];

/// Keys that only mean something where there is an address.
const REMOTE: [&str; 8] = [
    "base_url",
    "api_version",
    "api_key",
    "api_key_file",
    "key_header",
    "headers",
    "proxy",
    "ca_file",
];

/// Reads address and key; true if any of them is the provider's own.
pub(super) fn read_access(table: &mut TableReader<'_, '_>, provider: &mut ProviderConfig) -> bool {
    let own = ["base_url", "api_key", "api_key_file"]
        .iter()
        .any(|key| table.has(key));
    if provider.dialect == Dialect::Simulated {
        refuse_remote(table);
        return own;
    }
    read_address(table, provider);
    read_key(table, provider);
    let how = "remove it; the key goes into api_key, and key_header names its header";
    provider.headers = read_headers(table, &CLIENT_HEADERS, how);
    if let Some(proxy) = table.text("proxy") {
        match checked_proxy(proxy) {
            Ok(()) => provider.proxy = Some(SecretString::from(proxy)),
            Err(message) => {
                let how = "write e.g. `http://proxy.acme.test:3128`".to_owned();
                table
                    .findings
                    .error(&table.place("proxy"), message.to_owned(), Some(how));
            }
        }
    }
    provider.ca_file = read_path(table, "ca_file");
    if let Some(connections) = table.within("connections", read_connections) {
        provider.connections = connections;
    }
    own
}

fn refuse_remote(table: &mut TableReader<'_, '_>) {
    for key in REMOTE {
        table.know(key);
        if table.has(key) {
            let message = "a simulated provider has none".to_owned();
            let how = "remove it".to_owned();
            table.findings.error(&table.place(key), message, Some(how));
        }
    }
}

fn read_address(table: &mut TableReader<'_, '_>, provider: &mut ProviderConfig) {
    if let Some(url) = table.text("base_url") {
        match checked_url(url) {
            Ok(url) => provider.base_url = Some(url),
            Err(message) => {
                let how = "write e.g. `https://api.acme.test/v1`".to_owned();
                table
                    .findings
                    .error(&table.place("base_url"), message, Some(how));
            }
        }
    }
    // A preset that is none was told already.
    let unknown_preset = table.has("preset") && provider.server.is_none();
    if provider.base_url.is_none() && !table.has("base_url") && !unknown_preset {
        let at = table.scope().place.clone();
        let how = match provider.server {
            Some("azure") => "write the resource's address, e.g. `https://acme.openai.azure.com`",
            _ => "write the address up to and with the version, e.g. `https://api.acme.test/v1`",
        };
        table
            .findings
            .error(&at, "base_url is missing".to_owned(), Some(how.to_owned()));
    }
    provider.api_version = read_version(table, provider.dialect, provider.server);
}

/// `api_version` of a provider or of one of its models.
pub(super) fn read_version(
    table: &mut TableReader<'_, '_>,
    dialect: Dialect,
    server: Option<&str>,
) -> Option<String> {
    /// Those of the client; the first is its default.
    const ANTHROPIC: [&str; 2] = ["2023-06-01", "2026-10-21"];
    let version = table.text("api_version")?;
    let plain = !version.is_empty()
        && version
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    let (message, how) = if dialect == Dialect::Anthropic {
        if ANTHROPIC.contains(&version) {
            return Some(version.to_owned());
        }
        let message = format!("`{version}` is not one of {}", ANTHROPIC.join(", "));
        (message, None)
    } else if server == Some("azure") {
        if plain {
            return Some(version.to_owned());
        }
        let message = format!("`{version}` is no version");
        (message, Some("write e.g. `2024-10-21`".to_owned()))
    } else {
        let message = "only Azure and Anthropic have one".to_owned();
        let how = "remove it, or write preset = \"azure\" or dialect = \"anthropic\"".to_owned();
        (message, Some(how))
    };
    table
        .findings
        .error(&table.place("api_version"), message, how);
    None
}

fn read_key(table: &mut TableReader<'_, '_>, provider: &mut ProviderConfig) {
    if let Some(key) = table.text("api_key") {
        let variables = table.variables("api_key");
        if check_key(key, variables, &table.place("api_key"), table.findings) {
            provider.api_key = Some(SecretString::from(key));
        }
    }
    provider.api_key_file = read_path(table, "api_key_file");
    if provider.api_key_file.is_some() && table.has("api_key") {
        let message = "api_key is there too".to_owned();
        let how = "keep one of them".to_owned();
        table
            .findings
            .error(&table.place("api_key_file"), message, Some(how));
    }
    if let Some(name) = table.text("key_header") {
        provider.key_header = header_name(name);
        if provider.key_header.is_none() {
            let message = format!("`{name}` is no name of a header");
            let how = "write e.g. `x-api-key`, or `authorization` for a bearer token";
            table
                .findings
                .error(&table.place("key_header"), message, Some(how.to_owned()));
        }
    }
}

pub(super) fn read_path(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<PathBuf> {
    let path = table.text(key)?;
    if path.is_empty() {
        let message = "is empty, expected a path".to_owned();
        table.findings.error(&table.place(key), message, None);
    }
    Some(PathBuf::from(path))
}

/// `headers`: any names but those of every message and the client's `own`, texts as
/// values. `how` is told of those.
pub(super) fn read_headers(
    table: &mut TableReader<'_, '_>,
    own: &[&str],
    how: &str,
) -> BTreeMap<String, SecretString> {
    let mut headers = BTreeMap::new();
    let Some(scope) = table.table("headers") else {
        return headers;
    };
    for entry in &scope.table.entries {
        let place = scope.place.below(&entry.key, entry.line);
        let mut wrong = |message: String, how: Option<&str>| {
            table
                .findings
                .error(&place, message, how.map(str::to_owned));
        };
        let Value::String(value) = &entry.node.value else {
            if !matches!(entry.node.value, Value::Unusable) {
                let message = format!("expected a string, found {}", entry.node.value.kind());
                wrong(message, None);
            }
            continue;
        };
        let Some(name) = header_name(&entry.key) else {
            wrong("is no name of a header".to_owned(), None);
            continue;
        };
        if MESSAGE_HEADERS
            .iter()
            .chain(own)
            .any(|taken| *taken == name)
        {
            wrong("is set by the client itself".to_owned(), Some(how));
        } else if http::HeaderValue::from_str(value).is_err() {
            // Not shown: it may be a secret.
            wrong("holds a sign that no header can carry".to_owned(), None);
        } else if headers
            .insert(name, SecretString::from(value.as_str()))
            .is_some()
        {
            wrong("is there twice".to_owned(), Some("keep one of the two"));
        }
    }
    headers
}

/// The name in lower case.
fn header_name(name: &str) -> Option<String> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    Some(name.as_str().to_owned())
}

fn read_connections(table: &mut TableReader<'_, '_>) -> ConnectionPolicy {
    let mut connections = ConnectionPolicy::default();
    for (key, slot) in [
        ("max", &mut connections.max),
        ("max_idle", &mut connections.max_idle),
    ] {
        assign(slot, table.count(key).map(Some));
        if *slot == Some(0) && key == "max" {
            let message = "is 0, expected 1 or more".to_owned();
            table.findings.error(&table.place(key), message, None);
        }
    }
    connections.idle = table.ms("idle_ms");
    connections
}

/// The address without its trailing slash, or what is wrong with it.
fn checked_url(text: &str) -> Result<String, String> {
    if text.contains('@') {
        // Not shown: what stands before the @ may be a password.
        return Err("holds a user name or password; use api_key for it".to_owned());
    }
    let uri: http::Uri = text
        .parse()
        .map_err(|error| format!("`{text}` is not an address: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!("`{text}` begins with neither http:// nor https://"));
    }
    let host = uri.host().unwrap_or_default();
    if host.is_empty() {
        return Err(format!("`{text}` names no host"));
    }
    let has_port = uri
        .authority()
        .is_some_and(|a| a.as_str().len() > host.len());
    if has_port && uri.port_u16().is_none() {
        return Err(format!("`{text}` has a port that is no number up to 65535"));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(format!(
            "`{text}` has a query or fragment, but paths are appended to it"
        ));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// What is wrong with a proxy's address, which may hold a password and is not
/// shown.
fn checked_proxy(text: &str) -> Result<(), &'static str> {
    let uri: http::Uri = text.parse().map_err(|_| "is not an address")?;
    if uri.scheme_str() != Some("http") {
        return Err("does not begin with http://, the only kind of proxy that is spoken to");
    }
    if uri.host().unwrap_or_default().is_empty() {
        return Err("names no host");
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("has a path or query, expected host and port");
    }
    Ok(())
}
