//! Which configuration is in force: its version and its hash.

use crate::folder::{load_text, report_of};
use evenkeel_core::PolicyStamp;
use std::sync::Arc;

const ROLE: &str = "[agent_roles.agent]\np95_threshold_ms = 1000\np99_threshold_ms = 2000\n\
                    evaluation_window_seconds = 60\nprimary = \"north/a\"\n\
                    [providers.north]\ndialect = \"simulated\"\n";

fn stamp(text: &str) -> Arc<PolicyStamp> {
    let loaded = load_text(text).expect("a configuration without faults");
    loaded.config.stamp.expect("it was read from files")
}

#[test]
fn a_version_is_what_the_files_call_themselves() {
    let named = stamp(&format!(
        "=== evenkeel.toml\nversion = \"2026-11-29.1\"\n{ROLE}"
    ));
    assert_eq!(named.version.as_deref(), Some("2026-11-29.1"));
    assert_eq!(stamp(&format!("=== evenkeel.toml\n{ROLE}")).version, None);
    let spaced = report_of(&format!(
        "=== evenkeel.toml\nversion = \"two words\"\n{ROLE}"
    ));
    assert!(
        spaced.contains("version: \"two words\" is no version"),
        "{spaced}"
    );
    let empty = report_of(&format!("=== evenkeel.toml\nversion = \"\"\n{ROLE}"));
    assert!(empty.contains("is no version"), "{empty}");
}

#[test]
fn the_hash_is_of_names_and_bytes_and_of_no_folder_or_order() {
    let main = format!("=== evenkeel.toml\n{ROLE}");
    let models = "=== models.toml\n[[models]]\nid = \"north/a\"\n";
    let one = stamp(&format!("{main}{models}"));
    assert_eq!(one.sha256.len(), 64);
    assert_eq!(one, stamp(&format!("{models}{main}")));
    let elsewhere = format!("{main}{models}").replace("=== ", "=== conf/");
    assert_eq!(one, stamp(&elsewhere));
    assert_ne!(one, stamp(&format!("{main}{models}# a comment\n")));
    assert_ne!(one, stamp(&main));
    // What is passed over is no part of it.
    assert_eq!(one, stamp(&format!("{main}{models}=== notes.txt\nhello\n")));
}
