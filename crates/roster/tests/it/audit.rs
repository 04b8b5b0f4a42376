//! `[audit]`: absent, empty and full.

use std::time::Duration;

use evenkeel_roster::{AuditConfig, Config, Fsync, OnAuditFailure};
use secrecy::ExposeSecret;

use crate::folder::load_text;

fn config(audit: &str) -> Config {
    let text = format!(
        "=== evenkeel.toml
[server]
state_dir = 'state'
{audit}
[providers.a]
dialect = 'simulated'
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
primary = 'a/m'
fallbacks = []
"
    );
    match load_text(&text) {
        Ok(loaded) => loaded.config,
        Err(problems) => panic!("{problems}"),
    }
}

#[test]
fn a_table_alone_turns_it_on_with_the_defaults() {
    assert!(config("").audit.is_none());
    let audit = config("[audit]").audit.unwrap();
    let default = AuditConfig::default();
    assert_eq!(audit.path, default.path);
    assert_eq!(audit.rotate_bytes, 64 * 1024 * 1024);
    assert_eq!(audit.rotate_hours, 24);
    assert_eq!(audit.keep_files, None);
    assert_eq!(audit.fsync, Fsync::Interval);
    assert_eq!(audit.fsync_interval, Duration::from_secs(1));
    assert_eq!(audit.on_failure, OnAuditFailure::Open);
    assert!(audit.chain);
    assert!(audit.content_hmac_key.is_none());
}

#[test]
fn every_key_is_read() {
    let audit = config(
        "[audit]
path = 'who'
rotate_bytes = 4096
rotate_hours = 1
keep_files = 1
fsync = 'always'
fsync_interval_ms = 5
chain = false
on_failure = 'closed'
content_hmac_key = '0123456789abcdef0123456789abcdef'",
    );
    let audit = audit.audit.unwrap();
    assert_eq!(audit.path.to_str(), Some("who"));
    assert_eq!((audit.rotate_bytes, audit.rotate_hours), (4_096, 1));
    assert_eq!(audit.keep_files, Some(1));
    assert_eq!(audit.fsync, Fsync::Always);
    assert_eq!(audit.fsync_interval, Duration::from_millis(5));
    assert_eq!(audit.on_failure, OnAuditFailure::Closed);
    assert!(!audit.chain);
    let key = audit.content_hmac_key.as_ref().unwrap();
    assert_eq!(key.expose_secret(), "0123456789abcdef0123456789abcdef");
}

#[test]
fn a_key_is_compared_and_not_shown() {
    let with = |key: &str| {
        let text = format!("[audit]\ncontent_hmac_key = '{key}'");
        config(&text).audit.unwrap()
    };
    let (one, other) = (
        "a-key-of-32-characters-and-more-1",
        "a-key-of-32-characters-and-more-2",
    );
    assert_eq!(with(one), with(one));
    assert_ne!(with(one), with(other));
    assert_ne!(with(one), AuditConfig::default());
    let shown = format!("{:?}", with(one));
    assert!(!shown.contains(one), "{shown}");
}
