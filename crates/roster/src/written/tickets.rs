//! `[tickets]`.

use std::time::Duration;

use http::Uri;
use secrecy::SecretString;

use super::read_secret;
use crate::tickets::{TicketsConfig, WebhookConfig};
use evenkeel_document::{TableReader, assign};

/// How long one post may take unless the files say otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn read_tickets(table: &mut TableReader<'_, '_>) -> TicketsConfig {
    let mut tickets = TicketsConfig::default();
    assign(&mut tickets.keep, table.ms("keep_ms"));
    tickets.webhook = read_webhook(table);
    for fault in tickets.faults() {
        let at = table.place(fault.key);
        table.findings.error(&at, fault.message, None);
    }
    tickets
}

/// `webhook_url` and what belongs to it.
pub(super) fn read_webhook(table: &mut TableReader<'_, '_>) -> Option<WebhookConfig> {
    let timeout = table.ms("webhook_timeout_ms").unwrap_or(TIMEOUT);
    let secret = read_secret(table, "webhook_secret");
    let url = table.text("webhook_url")?;
    if let Err(message) = checked_post_url(url, "posts are signed with webhook_secret") {
        let how = "write e.g. `https://ops.acme.test/hooks/evenkeel`".to_owned();
        let at = table.place("webhook_url");
        table.findings.error(&at, message, Some(how));
        return None;
    }
    if secret.is_none() && !table.has("webhook_secret") {
        let at = table.place("webhook_url");
        let message = "webhook_secret is missing: nobody could tell who posts".to_owned();
        let how = "write e.g. `webhook_secret = \"${EVENKEEL_WEBHOOK_SECRET}\"`".to_owned();
        table.findings.error(&at, message, Some(how));
    }
    Some(WebhookConfig {
        url: SecretString::from(url),
        secret: secret?,
        timeout,
    })
}

/// What is wrong with an address that is posted to, which may hold a token and
/// is not shown. `instead` is told of user names and passwords.
pub(super) fn checked_post_url(text: &str, instead: &str) -> Result<(), String> {
    let uri: Uri = text.parse().map_err(|_| "is not an address".to_owned())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("begins with neither http:// nor https://".to_owned());
    }
    if text.contains('@') {
        return Err(format!("holds a user name or password; {instead}"));
    }
    let host = uri.host().unwrap_or_default();
    if host.is_empty() {
        return Err("names no host".to_owned());
    }
    let has_port = uri
        .authority()
        .is_some_and(|a| a.as_str().len() > host.len());
    if has_port && uri.port_u16().is_none() {
        return Err("has a port that is no number up to 65535".to_owned());
    }
    Ok(())
}
