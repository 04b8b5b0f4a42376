//! `[server]`: the gateway's own settings.

use std::net::SocketAddr;

use secrecy::SecretString;

use super::access::read_path;
use super::check_key;
use crate::config::{AdminConfig, MetricsAccess, ServerConfig};
use crate::network::Network;
use evenkeel_document::{TableReader, assign};

/// Names that an answer in OpenAI's wire format already uses.
const TAKEN: [&str; 8] = [
    "id",
    "object",
    "created",
    "model",
    "choices",
    "usage",
    "system_fingerprint",
    "service_tier",
];

pub(crate) fn read_server(table: &mut TableReader<'_, '_>) -> ServerConfig {
    let mut server = ServerConfig::default();
    assign(&mut server.listen, table.text("listen").map(str::to_owned));
    let keys_fault = read_client_keys(table, &mut server);
    assign(
        &mut server.meta_key,
        table.text("meta_key").map(str::to_owned),
    );
    if server.meta_key.is_empty() || TAKEN.contains(&server.meta_key.as_str()) {
        let message = format!("`{}` cannot be it: answers have their own", server.meta_key);
        let how = "take `evenkeel` or `_meta`".to_owned();
        table
            .findings
            .error(&table.place("meta_key"), message, Some(how));
    }
    let most = table.large_count("max_body_bytes");
    if most == Some(0) {
        let message = "is 0, expected 1 or more".to_owned();
        table
            .findings
            .error(&table.place("max_body_bytes"), message, None);
    }
    assign(
        &mut server.max_body_bytes,
        most.and_then(|most| usize::try_from(most).ok()),
    );
    server.state_dir = read_path(table, "state_dir");
    assign(&mut server.allow_open, table.flag("allow_open"));
    assign(&mut server.allow_pass, table.flag("allow_pass"));
    assign(&mut server.trusted_networks, read_networks(table));
    assign(
        &mut server.trust_client_keys,
        table.flag("trust_client_keys"),
    );
    check_listen(table, &server, keys_fault);
    server.admin = table.within("admin", read_admin).flatten();
    let shares_port =
        |admin: &&AdminConfig| admin.listen == server.listen && !admin.listen.ends_with(":0");
    if let Some(admin) = server.admin.as_ref().filter(shares_port) {
        let message = format!("admin.listen is `{}` as well", admin.listen);
        let how = "give operators a port of their own, e.g. 4001".to_owned();
        table
            .findings
            .error(&table.place("admin"), message, Some(how));
    }
    read_metrics(table, &mut server);
    assign(&mut server.workflows, read_workflows(table));
    server
}

/// Most names of workflows: each is a label of several series.
const MOST_WORKFLOWS: usize = 64;

fn read_workflows(table: &mut TableReader<'_, '_>) -> Option<Vec<String>> {
    let names = table.texts("workflows")?;
    if names.len() > MOST_WORKFLOWS {
        let message = format!("are {}, expected at most {MOST_WORKFLOWS}", names.len());
        let how = "name kinds of workflows, not runs".to_owned();
        table
            .findings
            .error(&table.place("workflows"), message, Some(how));
    }
    let mut known = Vec::with_capacity(names.len());
    for name in names {
        if name.text.is_empty() || !name.text.bytes().all(|b| b.is_ascii_graphic()) {
            let message = "is no name: expected visible ASCII without spaces".to_owned();
            table.findings.error(&name.place, message, None);
        } else {
            known.push(name.text.to_owned());
        }
    }
    Some(known)
}

/// Reads `metrics`, after `[server.admin]`.
fn read_metrics(table: &mut TableReader<'_, '_>, server: &mut ServerConfig) {
    const WORDS: [(&str, MetricsAccess); 4] = [
        ("client", MetricsAccess::Client),
        ("open", MetricsAccess::Open),
        ("admin", MetricsAccess::Admin),
        ("off", MetricsAccess::Off),
    ];
    assign(&mut server.metrics, table.word("metrics", &WORDS));
    if server.metrics == MetricsAccess::Admin && !table.has("admin") {
        let message = "is \"admin\", and there is no [server.admin]".to_owned();
        let how = "give operators an address, or use \"client\"".to_owned();
        table
            .findings
            .error(&table.place("metrics"), message, Some(how));
    }
}

/// Where operators listen unless the files say otherwise.
const ADMIN_LISTEN: &str = "127.0.0.1:4001";

/// Reads `[server.admin]`; none where its token is missing or unfit.
fn read_admin(table: &mut TableReader<'_, '_>) -> Option<AdminConfig> {
    let listen = table.text("listen").unwrap_or(ADMIN_LISTEN);
    if is_loopback(listen).is_none() {
        let message = format!("`{listen}` is not an address and a port");
        let how = format!("write e.g. `{ADMIN_LISTEN}`");
        table
            .findings
            .error(&table.place("listen"), message, Some(how));
    }
    let at = table.place("token");
    let Some(token) = table.text("token") else {
        if !table.has("token") {
            let message = "is missing: whoever reaches the address could act".to_owned();
            let how = "write e.g. `token = \"${EVENKEEL_ADMIN_TOKEN}\"`".to_owned();
            table.findings.error(&at, message, Some(how));
        }
        return None;
    };
    let variables = table.variables("token");
    check_key(token, variables, &at, table.findings).then(|| AdminConfig {
        listen: listen.to_owned(),
        token: SecretString::from(token),
    })
}

fn read_networks(table: &mut TableReader<'_, '_>) -> Option<Vec<Network>> {
    let networks = table.texts("trusted_networks")?;
    let mut known = Vec::with_capacity(networks.len());
    for network in networks {
        match network.text.parse::<Network>() {
            Ok(network) => known.push(network),
            Err(error) => table
                .findings
                .error(&network.place, error.to_string(), None),
        }
    }
    Some(known)
}

/// Reads the keys; true if one of them cannot be used.
fn read_client_keys(table: &mut TableReader<'_, '_>, server: &mut ServerConfig) -> bool {
    let Some(keys) = table.texts("client_keys") else {
        return table.has("client_keys");
    };
    let mut fault = false;
    for key in keys {
        if check_key(key.text, key.variables, &key.place, table.findings) {
            server.client_keys.push(SecretString::from(key.text));
        } else {
            fault = true;
        }
    }
    fault
}

fn check_listen(table: &mut TableReader<'_, '_>, server: &ServerConfig, keys_fault: bool) {
    let at = table.place("listen");
    let Some(loopback) = is_loopback(&server.listen) else {
        let message = format!("`{}` is not an address and a port", server.listen);
        let how = "write e.g. `127.0.0.1:4000`".to_owned();
        table.findings.error(&at, message, Some(how));
        return;
    };
    if server.client_keys.is_empty() && !keys_fault && !loopback && !server.allow_open {
        let message = format!(
            "`{}` is open to others, and client_keys is empty",
            server.listen
        );
        let how = "set client_keys, listen on loopback, or say allow_open = true".to_owned();
        table.findings.error(&at, message, Some(how));
    }
}

/// Whether only this machine reaches `listen`; `None` if it is no address.
fn is_loopback(listen: &str) -> Option<bool> {
    if let Ok(address) = listen.parse::<SocketAddr>() {
        return Some(address.ip().is_loopback());
    }
    let (host, port) = listen.rsplit_once(':')?;
    let named = !host.is_empty()
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-');
    (named && port.parse::<u16>().is_ok()).then_some(host == "localhost")
}
