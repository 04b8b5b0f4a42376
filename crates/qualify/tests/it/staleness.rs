//! Rosters that say what was measured, and what has changed since.

use evenkeel::Settings;
use evenkeel_qualify::{Golden, Staleness, prompt_hash};
use jiff::civil::date;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const GOLDEN: &str = r#"{"id":"1","prompt":"2+2?","expected":"4","check":"number"}
"#;

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

/// A folder whose roster says of every rung what is true of it now; on the 2026-11-01.
fn measured() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(
        path,
        "evenkeel.toml",
        "providers = { a = { dialect = 'simulated' }, b = { dialect = 'simulated' } }\n",
    );
    write(
        path,
        "policy.toml",
        "[defaults]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
requalify_after_days = 30
[agent_roles.writer]
golden_dataset = 'golden.jsonl'
[agent_roles.reader]
",
    );
    write(
        path,
        "prompts.toml",
        "[writer.system_prompt_variants]\ndefault = 'd.txt'\nb = 'b.txt'\n",
    );
    write(path, "d.txt", "Write.");
    write(path, "b.txt", "Write, b.");
    write(path, "golden.jsonl", GOLDEN);
    let rosterless = "[agent_roles.writer]
primary = 'a/m'
fallbacks = [{ model = 'b/m', quality_score = 0.9 }]
[agent_roles.reader]
primary = 'b/m'
fallbacks = [{ model = 'a/m', quality_score = 0.9 }]
";
    write(path, "roster.toml", rosterless);
    write(
        path,
        "models.toml",
        "models = [{ id = 'a/m' }, { id = 'b/m' }]\n",
    );
    let settings = Settings::load(path).unwrap();
    let golden = Golden::open(path.join("golden.jsonl")).unwrap();
    let writer = &settings.config().roles["writer"];
    let hashes = |rung: usize| {
        let model = &writer.rungs[rung].model;
        let prompt = prompt_hash(settings.prompts(), "writer", &writer.policy, model);
        format!(
            "{{ prompt = '{prompt}', tools = '{}', dataset = '{}', snapshot = 'm-1' }}",
            golden.tools_hash(),
            golden.sha256()
        )
    };
    let other = "{ prompt = 'none', tools = 'none', dataset = 'elsewhere', snapshot = 'm-1' }";
    let roster = format!(
        "[agent_roles.writer]
primary = 'a/m'
primary_score = 1.0
qualified_at = 2026-11-01
primary_hashes = {}
fallbacks = [{{ model = 'b/m', quality_score = 0.9, qualified_at = 2026-11-01, hashes = {} }}]
[agent_roles.reader]
primary = 'b/m'
fallbacks = [{{ model = 'a/m', quality_score = 0.9, qualified_at = 2026-11-01, hashes = {other} }}]
",
        hashes(0),
        hashes(1)
    );
    write(path, "roster.toml", &roster);
    folder
}

/// What is stale on that day of November 2026.
fn stale(folder: &TempDir, day: i8) -> Vec<String> {
    let settings = Settings::load(folder.path()).unwrap();
    let found = Staleness::with_datasets(&settings, date(2026, 11, day));
    assert_eq!(
        found.is_fresh(),
        found.stale.is_empty() && found.unreadable.is_empty()
    );
    let unreadable = found.unreadable.iter().map(|dataset| {
        let text = dataset.to_string();
        text.replace(&folder.path().display().to_string(), "…")
    });
    let stale = found.stale.iter().map(ToString::to_string);
    stale.chain(unreadable).collect()
}

fn edit(folder: &TempDir, name: &str, from: &str, to: &str) {
    let path = folder.path().join(name);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{name}: {from}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn what_is_as_it_was_measured_is_fresh_to_its_last_day() {
    let folder = measured();
    assert_eq!(stale(&folder, 1), [""; 0]);
    edit(&folder, "policy.toml", "= 30", "= 29");
    assert_eq!(stale(&folder, 30), [""; 0]);
}

#[test]
fn each_change_names_role_model_and_what_it_is() {
    let folder = measured();
    edit(&folder, "b.txt", "Write", "Rite");
    assert_eq!(
        stale(&folder, 2),
        ["role `writer`: `b/m` is stale: its prompt is another one than was measured"]
    );
    let folder = measured();
    edit(&folder, "golden.jsonl", "2+2", "2 + 2");
    let dataset = "is stale: the golden dataset is another one than was measured on";
    assert_eq!(
        stale(&folder, 2),
        [
            format!("role `writer`: `a/m` {dataset}"),
            format!("role `writer`: `b/m` {dataset}")
        ]
    );
    let folder = measured();
    edit(&folder, "policy.toml", "= 30", "= 28");
    let age = "is stale: it was measured on 2026-11-01, 29 days ago; requalify_after_days = 28";
    assert_eq!(
        stale(&folder, 30),
        [
            format!("role `reader`: `a/m` {age}"),
            format!("role `writer`: `a/m` {age}"),
            format!("role `writer`: `b/m` {age}"),
        ]
    );
}

#[test]
fn without_a_day_nobody_can_tell_how_old_a_score_is() {
    let folder = measured();
    edit(&folder, "roster.toml", "qualified_at = 2026-11-01\n", "");
    edit(
        &folder,
        "roster.toml",
        "quality_score = 0.9, qualified_at = 2026-11-01, hashes = { prompt = 'none'",
        "quality_score = 0.9, hashes = { prompt = 'none'",
    );
    let settings = Settings::load(folder.path()).unwrap();
    let found = Staleness::with_datasets(&settings, date(2027, 11, 30));
    let told: Vec<String> = found.unverified.iter().map(ToString::to_string).collect();
    let undated =
        "is unverified: the roster does not say when its score was measured (qualified_at)";
    assert_eq!(
        told,
        [
            format!("role `reader`: `a/m` {undated}"),
            format!("role `writer`: `a/m` {undated}")
        ]
    );
    assert!(found.unverified.iter().all(|one| !one.is_missing()));
    assert_eq!(found.stale.len(), 1, "the one with a day: {found:?}");
}

#[test]
fn a_day_that_is_still_to_come_is_no_day_of_a_measurement() {
    let folder = measured();
    edit(
        &folder,
        "roster.toml",
        "quality_score = 0.9, qualified_at = 2026-11-01, hashes = { prompt = 'none'",
        "quality_score = 0.9, qualified_at = 2026-11-03, hashes = { prompt = 'none'",
    );
    assert_eq!(
        stale(&folder, 2),
        ["role `reader`: `a/m` is stale: it was measured on 2026-11-03, which is still to come"]
    );
    assert_eq!(stale(&folder, 3), [""; 0]);
}

#[test]
fn tools_of_the_dataset_count_by_their_meaning() {
    let folder = measured();
    let tool = |description: &str| {
        format!(
            r#"{{"id":"1","prompt":"x","expected":{{"name":"t","arguments":{{}}}},"check":"tool_call","tools":[{{"type":"function","function":{{"name":"t","description":"{description}","parameters":{{"type":"object","properties":{{}}}}}}}}]}}
"#
        )
    };
    write(folder.path(), "golden.jsonl", &tool("d"));
    let found = stale(&folder, 2);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(
        found[1].ends_with("tools or schemas of the golden dataset are others than were measured")
    );
}

#[test]
fn another_build_is_known_from_the_registry_or_a_later_measurement() {
    let folder = measured();
    let registry = "models = [{ id = 'a/m', snapshot = 'm-2' }, { id = 'b/m', snapshot = 'm-1' }]";
    write(folder.path(), "models.toml", registry);
    let change = "is stale: `m-1` was measured, and the model registry says that `m-2` is served";
    assert_eq!(
        stale(&folder, 2),
        [
            format!("role `reader`: `a/m` {change}"),
            format!("role `writer`: `a/m` {change}")
        ]
    );
    let folder = measured();
    edit(
        &folder,
        "roster.toml",
        "qualified_at = 2026-11-01, hashes = { prompt = 'none', tools = 'none', dataset = 'elsewhere', snapshot = 'm-1' }",
        "qualified_at = 2026-11-02, hashes = { prompt = 'none', tools = 'none', dataset = 'elsewhere', snapshot = 'm-3' }",
    );
    assert_eq!(
        stale(&folder, 2),
        [
            "role `writer`: `a/m` is stale: `m-1` was measured, and for role `reader` it was `m-3` on 2026-11-02"
        ]
    );
}

#[test]
fn a_dataset_that_cannot_be_read_is_told_and_not_taken_for_fresh() {
    let folder = measured();
    fs::remove_file(folder.path().join("golden.jsonl")).unwrap();
    let found = stale(&folder, 2);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("role `writer`: "), "{found:?}");
    write(folder.path(), "golden.jsonl", "{");
    assert_eq!(stale(&folder, 2).len(), 1);
}

#[test]
fn an_unverified_roster_is_not_stale() {
    let folder = measured();
    write(
        folder.path(),
        "roster.toml",
        "[agent_roles.writer]\nprimary = 'a/m'\nfallbacks = [{ model = 'b/m', quality_score = 0.9 }]\n[agent_roles.reader]\nprimary = 'b/m'\nfallbacks = []\n",
    );
    assert_eq!(stale(&folder, 30), [""; 0]);
}
