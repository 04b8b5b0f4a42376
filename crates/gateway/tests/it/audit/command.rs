//! `evenkeel audit`.

use serde_json::Value;
use std::path::Path;
use std::process::Output;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

const EXAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/telemetry/audit-example.jsonl"
);

pub(super) async fn audit(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.arg("audit").args(args).kill_on_drop(true);
    let ended = timeout(Duration::from_secs(60), command.output()).await;
    let Output {
        status,
        stdout,
        stderr,
    } = ended.unwrap().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A folder with the example, four records a file.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let example = std::fs::read_to_string(EXAMPLE).unwrap();
    let lines: Vec<&str> = example.split_inclusive('\n').collect();
    for (n, lines) in lines.chunks(4).enumerate() {
        let name = format!("audit-{:012}.jsonl", n * 4);
        std::fs::write(folder.path().join(name), lines.concat()).unwrap();
    }
    folder
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn verify_ends_with_0_1_or_2() {
    let (code, said, _) = audit(&["verify", EXAMPLE]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("10 records in 1 files: sound\n"), "{said}");
    let folder = folder();
    let (code, said, _) = audit(&["verify", text_of(folder.path()), "--json"]).await;
    assert_eq!(code, Some(0));
    let verdict: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(verdict["sound"], true);
    assert_eq!(
        (&verdict["files"], &verdict["records"]),
        (&3.into(), &10.into())
    );
    assert_eq!(verdict["first"]["beginning"], true);
    let last = format!("9:{}", verdict["last"]["hash"].as_str().unwrap());

    std::fs::remove_file(folder.path().join("audit-000000000004.jsonl")).unwrap();
    let (code, said, _) = audit(&["verify", text_of(folder.path())]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("records 4 to 7 are missing"), "{said}");
    let late = folder.path().join("audit-000000000008.jsonl");
    let (code, said, _) = audit(&["verify", text_of(&late), "--checkpoint", &last]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("begins with record 8"), "{said}");
    let early = folder.path().join("audit-000000000000.jsonl");
    let (code, said, _) = audit(&["verify", text_of(&early), "--checkpoint", &last]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("cut short"), "{said}");

    let empty = tempfile::tempdir().unwrap();
    for args in [
        &["verify", "/nowhere/at/all"][..],
        &["verify", text_of(empty.path())],
        &["verify", "--config", text_of(empty.path())],
        &["verify"],
        &["verify", EXAMPLE, "--checkpoint", "9"],
    ] {
        let (code, said, error) = audit(args).await;
        assert_eq!((code, said.as_str()), (Some(2), ""), "{args:?}: {error}");
        assert!(!error.is_empty());
    }
}

/// What kill -9 may leave, and what the next start makes of it.
#[tokio::test]
async fn verify_explains_a_torn_line_and_is_content_with_it() {
    let example = std::fs::read_to_string(EXAMPLE).unwrap();
    let lines: Vec<&str> = example.split_inclusive('\n').collect();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit-000000000000.jsonl");
    let (before, half) = (lines[..4].concat(), &lines[4][..40]);
    for (text, place) in [
        (format!("{before}{half}"), 5),
        (format!("{before}{half}\n{}", lines[4..].concat()), 5),
    ] {
        std::fs::write(&log, text).unwrap();
        let (code, said, _) = audit(&["verify", text_of(&log)]).await;
        assert_eq!(code, Some(0), "{said}");
        let told = format!("jsonl:{place}: the beginning of a record; the writer was killed");
        assert!(said.contains(&told), "{said}");
    }
    // In the midst of a record's text that is there otherwise something was cut out.
    std::fs::write(&log, format!("{before}{half}\n{}", lines[6..].concat())).unwrap();
    let (code, said, _) = audit(&["verify", text_of(&log)]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("only the beginning of a record"), "{said}");
}

#[tokio::test]
async fn query_answers_as_a_table_or_as_json() {
    let folder = folder();
    let log = text_of(folder.path());
    let (code, said, _) = audit(&["query", log, "--request", "req_01"]).await;
    assert_eq!(code, Some(0));
    let rows: Vec<&str> = said.lines().collect();
    assert_eq!(rows.len(), 3, "{said}");
    assert!(rows[0].starts_with("TIME") && rows[1].contains("substitution"));
    assert!(rows[2].contains("claude-haiku-4-5, substitute, ok (latency_p95_breach)"));
    let since = ["--since", "2026-11-29T12:20:00Z", "--format", "json"];
    let (_, said, _) = audit(&[&["query", log], &since[..]].concat()).await;
    let example = std::fs::read_to_string(EXAMPLE).unwrap();
    let last_two: Vec<&str> = example.split_inclusive('\n').skip(8).collect();
    assert_eq!(said, last_two.concat(), "lines as they stand in the log");
    let planner = ["query", log, "--role", "planner", "--kind", "hedge"];
    let (_, said, _) = audit(&planner).await;
    assert!(said.lines().count() == 2 && said.contains("won"), "{said}");
    let (code, _, error) = audit(&["query", log, "--kind", "hedges"]).await;
    assert_eq!(code, Some(2));
    assert!(error.contains("latency_breach"), "{error}");
    let (code, _, error) = audit(&["query", log, "--since", "yesterday"]).await;
    assert_eq!(code, Some(1));
    assert!(error.contains("`yesterday` is no time"), "{error}");
}

/// A log whose hashes were taken off looks like one that never had any.
#[tokio::test]
async fn verify_calls_a_log_without_hashes_sound_only_where_it_may_be_one() {
    let example = std::fs::read_to_string(EXAMPLE).unwrap();
    let stripped = example.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let members = record.as_object_mut().unwrap();
        members.shift_remove("prev");
        members.shift_remove("hash");
        format!("{record}\n")
    });
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("state/audit/audit-000000000000.jsonl");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, stripped.collect::<String>()).unwrap();
    let (code, said, _) = audit(&["verify", text_of(&log)]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("from record 0 on there are no hashes"),
        "{said}"
    );
    assert!(said.ends_with("NOT SOUND\n"), "{said}");
    let (code, said, _) = audit(&["verify", text_of(&log), "--unchained"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("10 records carry no hash") && !said.contains("sound"),
        "{said}"
    );
    for (chain, expected) in [("true", 1), ("false", 0)] {
        let text = format!(
            "[server]\nstate_dir = \"state\"\n[audit]\nchain = {chain}\n\
             [providers.a]\ndialect = \"simulated\"\n[agent_roles.planner]\nprimary = \"a/m\"\n\
             fallbacks = []\np95_threshold_ms = 5000\np99_threshold_ms = 8000\n\
             evaluation_window_seconds = 15\n"
        );
        std::fs::write(folder.path().join("evenkeel.toml"), text).unwrap();
        let config = ["verify", "--json", "--config", text_of(folder.path())];
        let (code, said, error) = audit(&config).await;
        assert_eq!(code, Some(expected), "{said}{error}");
        let verdict: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(verdict["sound"], expected == 0, "{said}");
        assert_ne!(verdict["verdict"], "sound", "{said}");
        assert_eq!(verdict["unchained"], 10);
    }
}
