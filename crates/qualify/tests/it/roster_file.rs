//! Results written into rosters.

use evenkeel_core::ModelId;
use evenkeel_qualify::{
    Left, QualifiedFallback, QualifiedRole, RosterFileError, RosterWritten, check_roster_file,
    write_roster,
};
use evenkeel_roster::{Config, Hashes, SourceFile, load};
use jiff::civil::date;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

fn id(model: &str) -> ModelId {
    ModelId::new(model).unwrap()
}

fn hashes(snapshot: &str) -> Hashes {
    Hashes {
        prompt: "p2".to_owned(),
        tools: "none".to_owned(),
        dataset: "d2".to_owned(),
        snapshot: snapshot.to_owned(),
        fingerprints: Vec::new(),
    }
}

fn fallback(model: &str, score: f64, median: u64) -> QualifiedFallback {
    QualifiedFallback {
        model: id(model),
        quality_score: score,
        median_latency: Duration::from_micros(median * 1_000 + 400),
        schema_compliance: None,
        hashes: hashes("s2"),
    }
}

/// `north/large` scored 0.9 on `d2`; these passed and these did not.
fn found(fallbacks: Vec<QualifiedFallback>, refused: &[&str]) -> QualifiedRole {
    QualifiedRole {
        primary: id("north/large"),
        primary_score: 0.9,
        primary_hashes: hashes("large-2"),
        qualified_at: date(2026, 11, 30),
        allow_same_provider: false,
        fallbacks,
        refused: refused.iter().map(|model| id(model)).collect(),
    }
}

/// A roster in a folder of its own.
struct Roster {
    folder: TempDir,
    path: PathBuf,
}

impl Roster {
    fn new(name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        if !text.is_empty() {
            fs::write(&path, text).unwrap();
        }
        Self { folder, path }
    }

    fn write(&self, found: &QualifiedRole) -> Result<RosterWritten, RosterFileError> {
        check_roster_file(&self.path, "writer")?;
        write_roster(&self.path, "writer", found)
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    /// The names of all files of the folder.
    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

/// What a role of the roster means, by the rules that a gateway reads it with.
fn meaning(text: &str, name: &str) -> Config {
    let policy = "
[defaults]
p95_threshold_ms = 1500
p99_threshold_ms = 2500
evaluation_window_seconds = 15
";
    let models = "providers = { north = { dialect = 'simulated' }, south = { dialect = 'simulated' }, east = { dialect = 'simulated' } }";
    let files = [
        SourceFile::new("evenkeel.toml", models),
        SourceFile::new("policy.toml", policy),
        SourceFile::new(name, text),
    ];
    let loaded = load(&files, &|_| None, date(2026, 11, 30));
    loaded
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"))
        .config
}

const REVIEWED: &str = r#"# Reviewed by Ada.

[agent_roles.planner]
primary   =   "north/large"   # spaces stay
fallbacks = [
  { model = "south/medium", quality_score = 0.93 }, # so does this
]

# The writer's.
[agent_roles.writer]
primary = "north/large"
primary_score = 0.8                # of d1

# Quick and good.
[[agent_roles.writer.fallbacks]]
model = "south/medium"
rank = 1
quality_score = 0.76
median_latency_ms = 345            # by night
hashes = { prompt = "p1", tools = "none", dataset = "d1", snapshot = "medium-1" }
# A comment behind the first.

# Cheap.
[[agent_roles.writer.fallbacks]]
model = "south/small"
rank = 2
quality_score = 0.72
capability_score = 0.95            # by hand

# Slow.
[[agent_roles.writer.fallbacks]]
model = "east/old"
rank = 3
quality_score = 0.7

[agent_roles.zoo]
primary = "north/large"
fallbacks = []
# The end.
"#;

#[test]
fn only_what_was_measured_changes_and_comments_stay_where_they_belong() {
    let roster = Roster::new("roster.toml", REVIEWED);
    let best = QualifiedFallback {
        schema_compliance: Some(0.990_000_4),
        ..fallback("south/small", 0.88, 210)
    };
    let found = found(
        vec![best, fallback("south/new", 0.81, 900)],
        &["south/medium"],
    );
    let written = roster.write(&found).unwrap();
    assert_eq!(written.left, [(id("south/medium"), Left::Refused)]);
    assert_eq!(written.kept, [id("east/old")]);
    assert!(written.is_changed);
    insta::assert_snapshot!(roster.text());
    let writer = &meaning(&roster.text(), "roster.toml").roles["writer"];
    let rungs: Vec<&str> = writer.rungs.iter().map(|r| r.model.as_str()).collect();
    assert_eq!(
        rungs,
        ["north/large", "south/small", "south/new", "east/old"]
    );
    let measured = &writer.rungs[1].measured;
    assert_eq!(measured.hashes, Some(hashes("s2")));
    assert_eq!(measured.qualified_at, Some(date(2026, 11, 30)));
    assert_eq!(measured.schema_compliance, Some(0.99));
    let primary = &writer.rungs[0].measured;
    assert_eq!(primary.hashes, Some(hashes("large-2")));
    // 0.7 of 0.8 by another dataset: the ratio that was measured is kept.
    let kept = writer.rungs[3].quality_score.unwrap();
    assert!((kept - 0.875).abs() < 1e-6, "{kept}");
    assert!((writer.rungs[1].capability_score - 0.95).abs() < 1e-9);
}

#[test]
fn the_same_result_again_changes_nothing() {
    for name in ["roster.toml", "fallback_roster.yaml"] {
        let roster = Roster::new(name, "");
        let found = found(vec![fallback("south/small", 0.88, 210)], &[]);
        assert!(roster.write(&found).unwrap().is_changed);
        let first = roster.text();
        assert!(!roster.write(&found).unwrap().is_changed, "{name}");
        assert_eq!(roster.text(), first);
        assert_eq!(roster.files(), [name]);
    }
}

#[test]
fn a_roster_that_is_not_there_is_made_and_loads() {
    for name in ["roster.toml", "fallback_roster.yaml", "fallback_roster.yml"] {
        let roster = Roster::new(name, "");
        let mut best = fallback("south/small", 0.88, 210);
        best.hashes.fingerprints = vec!["fp_1".to_owned(), "fp_2".to_owned()];
        let found = found(
            vec![best, fallback("east/old", 0.8, 900)],
            &["south/medium"],
        );
        roster.write(&found).unwrap();
        insta::assert_snapshot!(name, roster.text());
        let role = &meaning(&roster.text(), name).roles["writer"];
        assert_eq!(role.rungs.len(), 3);
        let ratio = role.rungs[1].quality_score.unwrap();
        assert!((ratio - 0.88 / 0.9).abs() < 1e-6, "{name}: {ratio}");
        assert_eq!(
            role.rungs[1].median_latency,
            Some(Duration::from_millis(210))
        );
        let told = role.rungs[1].measured.hashes.as_ref();
        assert_eq!(told.is_some(), name.ends_with("toml"), "{name}");
    }
}

/// Every form that TOML gives a list of tables, and roles in one line.
#[test]
fn each_way_to_write_a_roster_keeps_its_form() {
    for (name, text) in [
        (
            "lines",
            "[agent_roles.writer]\nprimary = \"north/large\"\nfallbacks = [\n  { model = \"south/medium\", quality_score = 0.9 }, # good\n  # old\n  { model = \"east/old\", quality_score = 0.9 },\n]\n",
        ),
        (
            "one line",
            "[agent_roles]\nwriter = { primary = \"north/large\", fallbacks = [{ model = \"south/medium\", quality_score = 0.9 }] }\nother = { primary = \"a/b\" }\n",
        ),
        (
            "dotted",
            "[agent_roles]\nwriter.primary = \"north/large\"\nother.primary = \"a/b\"\n",
        ),
        (
            "inline tables of hashes",
            "[[agent_roles.writer.fallbacks]]\nmodel = \"south/medium\"\n[agent_roles.writer.fallbacks.hashes]\nprompt = \"p1\" # first\n[agent_roles.writer]\nprimary = \"north/large\"\n",
        ),
    ] {
        let roster = Roster::new("roster.toml", text);
        let found = found(
            vec![
                fallback("east/old", 0.89, 20),
                fallback("south/medium", 0.88, 10),
            ],
            &[],
        );
        roster.write(&found).unwrap();
        insta::assert_snapshot!(name, roster.text());
        let text = roster.text();
        let only = text
            .replace("other = { primary = \"a/b\" }\n", "")
            .replace("other.primary = \"a/b\"\n", "");
        let role = &meaning(&only, "roster.toml").roles["writer"];
        let rungs: Vec<&str> = role.rungs.iter().map(|r| r.model.as_str()).collect();
        assert_eq!(rungs, ["north/large", "east/old", "south/medium"], "{name}");
    }
}

#[test]
fn line_ends_and_a_byte_order_mark_stay() {
    let text = format!("\u{feff}{}", REVIEWED.replace('\n', "\r\n"));
    let roster = Roster::new("roster.toml", &text);
    roster
        .write(&found(vec![fallback("south/small", 0.88, 210)], &[]))
        .unwrap();
    let text = roster.text();
    assert!(text.starts_with('\u{feff}'));
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    assert!(text.contains("# The end.\r\n"));
}

#[test]
fn a_score_on_the_same_dataset_stands_and_another_primary_leaves_nothing_to_compare() {
    let text = r#"
[agent_roles.writer]
primary = "north/large"
primary_score = 0.8
[[agent_roles.writer.fallbacks]]
model = "south/same"
quality_score = 0.79
hashes = { dataset = "d2" }
[[agent_roles.writer.fallbacks]]
model = "south/ratio"
quality_score = 0.8
hashes = { dataset = "d1" }
"#;
    let roster = Roster::new("roster.toml", text);
    let mut found = found(Vec::new(), &[]);
    assert_eq!(roster.write(&found).unwrap().left, []);
    assert!(roster.text().contains("quality_score = 0.79"));
    // 0.8 of 0.8, beside a primary of 0.9.
    assert!(
        roster.text().contains("quality_score = 0.9\n"),
        "{}",
        roster.text()
    );
    found.primary = id("north/larger");
    let left = roster.write(&found).unwrap().left;
    assert_eq!(left, [(id("south/ratio"), Left::OtherPrimary)]);
    found.primary = id("south/same");
    let left = roster.write(&found).unwrap().left;
    assert_eq!(left, [(id("south/same"), Left::IsPrimary)]);
    // No empty list: that would say that no fallback is wanted.
    assert!(!roster.text().contains("fallbacks"), "{}", roster.text());
}

const MANIFEST: &str = "\
# Ours.
agent_roles:
  intake: # first
    primary: \"openai/gpt-5\"
    fallbacks:
      - model: \"anthropic/claude\"
        rank: 1
        quality_score: 0.93

  # The writer's.
  writer:
    primary: \"north/large\"
    # lost
    fallbacks:
    - model: \"south/medium\"
      rank: 1
      quality_score: 0.9
    - model: \"east/old\"
      rank: 2
      quality_score: 0.86
      capability_score: 0.9

  # The last.
  zoo:
    primary: \"north/large\"
";

#[test]
fn a_manifest_keeps_everything_outside_of_the_role() {
    let roster = Roster::new("fallback_roster.yaml", MANIFEST);
    let found = found(vec![fallback("south/small", 0.88, 210)], &["south/medium"]);
    let written = roster.write(&found).unwrap();
    assert_eq!(written.kept, [id("east/old")]);
    insta::assert_snapshot!(roster.text());
    let added = Roster::new("fallback_roster.yaml", "# Empty.\n");
    added.write(&found).unwrap();
    let behind = Roster::new("roster.yml", "agent_roles:\n    a: {primary: \"x/y\"}");
    behind.write(&found).unwrap();
    insta::assert_snapshot!("added", format!("{}===\n{}", added.text(), behind.text()));
}

#[test]
fn what_is_no_roster_is_told_and_left_alone() {
    for (name, text, told) in [
        ("roster.toml", "a = ", "TOML parse error at line 1"),
        (
            "roster.toml",
            "agent_roles = 1\n",
            "agent_roles: expected a table, found integer",
        ),
        (
            "roster.toml",
            "[agent_roles]\nwriter = 'x'\n",
            "agent_roles.writer: expected a table, found string",
        ),
        (
            "roster.toml",
            "[agent_roles.writer]\nfallbacks = 'x'\n",
            "agent_roles.writer.fallbacks: expected a list of tables",
        ),
        (
            "roster.toml",
            "[agent_roles.writer]\nfallbacks = [{}]\n",
            "agent_roles.writer.fallbacks[0].model: expected `provider/model`",
        ),
        ("roster.yaml", "a: [\n", "line "),
        (
            "roster.yaml",
            "agent_roles: {writer: {primary: a/b}}\n",
            "stands in braces",
        ),
        (
            "roster.yaml",
            "agent_roles: [a]\n",
            "agent_roles: expected a table of roles",
        ),
        (
            "roster.yaml",
            "agent_roles:\n  writer: 3\n",
            "agent_roles.writer: expected a table",
        ),
        ("roster.json", "{}", "a roster ends in .toml, .yaml or .yml"),
    ] {
        let roster = Roster::new(name, text);
        let found = found(vec![fallback("south/small", 0.88, 210)], &[]);
        for result in [
            check_roster_file(&roster.path, "writer"),
            write_roster(&roster.path, "writer", &found).map(|_| ()),
        ] {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert_eq!(roster.text(), text);
        assert_eq!(roster.files(), [name]);
    }
}

#[test]
fn tables_below_a_fallback_go_where_it_goes() {
    let text = r#"[agent_roles.writer]
primary = "north/large"
primary_score = 0.9

[[agent_roles.writer.fallbacks]]
model = "south/medium"
quality_score = 0.8

[agent_roles.writer.fallbacks.hashes]
prompt = "p1"
tools = "none"
dataset = "d1"
snapshot = "medium-1"

[[agent_roles.writer.fallbacks]]
model = "south/small"
quality_score = 0.79
# Of the small one.
[agent_roles.writer.fallbacks.hashes]
prompt = "p1"
tools = "none"
dataset = "d1"
snapshot = "small-1"
"#;
    let roster = Roster::new("roster.toml", text);
    let best = [
        fallback("east/new", 0.89, 200),
        fallback("south/small", 0.88, 210),
        fallback("south/medium", 0.87, 210),
    ];
    roster.write(&found(best.into(), &[])).unwrap();
    let after = roster.text();
    let rungs = &meaning(&after, "roster.toml").roles["writer"].rungs;
    let models: Vec<&str> = rungs.iter().map(|rung| rung.model.as_str()).collect();
    assert_eq!(
        models,
        ["north/large", "east/new", "south/small", "south/medium"]
    );
    for rung in &rungs[1..] {
        let hashes = rung.measured.hashes.as_ref().expect("measured");
        assert_eq!(hashes.dataset, "d2", "{after}");
    }
}

#[test]
fn the_first_fallback_stands_at_another_provider_unless_the_role_allows_the_same() {
    let text = "[agent_roles.writer]\nprimary = 'north/large'\nprimary_score = 0.9\n\n\
        [[agent_roles.writer.fallbacks]]\nmodel = 'south/small'\nquality_score = 0.88\n";
    let roster = Roster::new("roster.toml", text);
    let mut only_same = found(vec![fallback("north/best", 0.9, 100)], &[]);
    roster.write(&only_same).unwrap();
    let rungs = &meaning(&roster.text(), "roster.toml").roles["writer"].rungs;
    assert_eq!(rungs[1].model.as_str(), "south/small");
    assert_eq!(rungs[2].model.as_str(), "north/best");

    for name in ["roster.toml", "roster.yaml"] {
        let empty = Roster::new(name, "");
        let error = empty.write(&only_same).unwrap_err();
        assert!(
            matches!(&error, RosterFileError::SameProvider { first, .. } if first.as_str() == "north/best"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&empty.path).unwrap_or_default(), "");
    }
    only_same.allow_same_provider = true;
    let allowed = Roster::new("roster.toml", "");
    allowed.write(&only_same).unwrap();
    assert!(allowed.text().contains("north/best"));
}

#[test]
fn a_role_that_the_rest_of_a_file_refers_to_is_refused_before_anything_is_measured() {
    let text = "agent_roles:\n  writer:\n    primary: &p north/large\n  reader:\n    primary: *p\n";
    let roster = Roster::new("roster.yaml", text);
    let found = found(vec![fallback("south/small", 0.88, 210)], &[]);
    let error = check_roster_file(&roster.path, "writer").unwrap_err();
    let told = "agent_roles.writer: other parts of the file refer";
    assert!(error.to_string().contains(told), "{error}");
    // Where nobody asked before: what would not read back is not written.
    let error = write_roster(&roster.path, "writer", &found).unwrap_err();
    assert!(matches!(error, RosterFileError::Unsound { .. }), "{error}");
    assert_eq!(roster.text(), text);
}

#[cfg(unix)]
#[test]
fn permissions_and_links_stay() {
    use std::os::unix::fs::PermissionsExt;
    let roster = Roster::new("real.toml", REVIEWED);
    fs::set_permissions(&roster.path, fs::Permissions::from_mode(0o640)).unwrap();
    let link = roster.folder.path().join("roster.toml");
    std::os::unix::fs::symlink(&roster.path, &link).unwrap();
    let found = found(vec![fallback("south/small", 0.88, 210)], &[]);
    write_roster(&link, "writer", &found).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(roster.text().contains("qualified_at"));
    let mode = fs::metadata(&roster.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(roster.files().len(), 2);
}

#[test]
fn a_folder_that_is_not_there_is_known_before_anything_is_measured() {
    let roster = Roster::new("roster.toml", "");
    let path = roster.folder.path().join("none").join("roster.toml");
    let error = check_roster_file(&path, "writer").unwrap_err();
    assert!(matches!(error, RosterFileError::Write { .. }), "{error}");
    assert!(error.to_string().contains("cannot write"), "{error}");
    let found = found(vec![fallback("south/small", 0.88, 210)], &[]);
    write_roster(&path, "writer", &found).unwrap_err();
}
