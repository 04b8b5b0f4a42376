//! `evenkeel qualify`, the binary, over upstreams on real sockets.

use crate::gateway::upstream;
use evenkeel_chaos::{Behaviour, Fault, Latency, Upstream};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Items from which a share of 1 is known to be at least 0.95 (Wilson, at 95%: 73).
pub(crate) const ENOUGH: usize = 80;

/// A folder with a role over two upstreams, and its questions.
pub(crate) struct Folder(TempDir);

/// An item that expects the label `a` of two.
pub(crate) fn item(n: usize) -> String {
    format!(
        r#"{{"id":"i{n}","prompt":"n{n}","schema":{{"type":"object","properties":{{"label":{{"type":"string","enum":["a","b"]}}}},"required":["label"],"additionalProperties":false}},"expected":{{"label":"a"}},"check":"fields"}}"#
    )
}

pub(crate) fn items(count: usize) -> String {
    (0..count).fold(String::new(), |all, n| all + &item(n) + "\n")
}

/// Answers every item right.
pub(crate) fn good() -> Behaviour {
    Behaviour {
        text: Some(r#"{"label":"a"}"#.into()),
        ..Behaviour::default()
    }
}

/// Answers every item wrong, in the right form.
pub(crate) fn wrong() -> Behaviour {
    Behaviour {
        text: Some(r#"{"label":"b"}"#.into()),
        ..Behaviour::default()
    }
}

impl Folder {
    pub(crate) fn of(north: &Upstream, south: &Upstream, count: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut providers = String::new();
        for (name, upstream) in [("north", north), ("south", south)] {
            let url = upstream.base_url();
            let _ = write!(
                providers,
                "[providers.{name}]\ndialect = \"openai\"\nbase_url = \"{url}\"\n"
            );
        }
        let this = Self(folder);
        this.write("evenkeel.toml", &providers);
        this.write(
            "policy.toml",
            "[agent_roles.clerk]\np95_threshold_ms = 1500\np99_threshold_ms = 2500\nevaluation_window_seconds = 15\n",
        );
        this.write(
            "roster.toml",
            "# People review this.\n[agent_roles.clerk]\nprimary = \"north/big\" # ours\n\n\
             [[agent_roles.clerk.fallbacks]]\nmodel = \"south/small\"\n",
        );
        this.write(
            "models.toml",
            "[[models]]\nid = \"big\"\nprovider = \"north\"\ncontext_window = 8192\n\
             input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 1.0\n\
             [[models]]\nid = \"small\"\nprovider = \"south\"\ncontext_window = 8192\n\
             input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 1.0\n",
        );
        this.write("golden.jsonl", &items(count));
        this
    }

    /// With a role that judges, at a dear model.
    pub(crate) fn with_referee(&self, upstream: &Upstream) {
        let url = upstream.base_url();
        for (file, more) in [
            (
                "evenkeel.toml",
                &*format!("[providers.west]\ndialect = \"openai\"\nbase_url = \"{url}\"\n"),
            ),
            (
                "policy.toml",
                "[agent_roles.referee]\np95_threshold_ms = 1500\np99_threshold_ms = 2500\n\
                 evaluation_window_seconds = 15\n\
                 retry = { transient = 0, overloaded = 0 }\n",
            ),
            (
                "roster.toml",
                "\n[agent_roles.referee]\nprimary = \"west/wise\"\nfallbacks = []\n",
            ),
            (
                "models.toml",
                "[[models]]\nid = \"wise\"\nprovider = \"west\"\n\
                 input_usd_per_mtok = 1000.0\noutput_usd_per_mtok = 1000.0\n",
            ),
        ] {
            self.write(file, &(self.read(file) + more));
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("it can be written to");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("it was written")
    }

    /// The command for the role, with these arguments more.
    pub(crate) fn command(&self, more: &[&str]) -> Command {
        let mut command = self.bare(&["--role", "clerk"]);
        command
            .arg("--golden-dataset")
            .arg(self.path("golden.jsonl"));
        command.args(more);
        command
    }

    pub(crate) fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.arg("qualify").arg("--config").arg(self.0.path());
        command.arg("--report").arg(self.path("report"));
        command
            .args(arguments)
            .kill_on_drop(true)
            .stdin(Stdio::null());
        command
    }

    pub(crate) async fn qualify(&self, more: &[&str]) -> Output {
        ended(self.command(more)).await
    }

    /// The outcomes in the journal.
    pub(crate) fn journal(&self) -> Vec<Value> {
        outcomes(&self.path("report/clerk/journal.jsonl"))
    }
}

pub(crate) async fn ended(mut command: Command) -> Output {
    let output = timeout(LONG, command.output()).await;
    output.expect("it ends").expect("it starts")
}

pub(crate) fn outcomes(journal: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal).expect("there is a journal");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"));
    lines.collect()
}

pub(crate) fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn a_good_candidate_passes_and_enters_the_roster() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    let folder = Folder::of(&north, &south, ENOUGH);
    let roster = folder.path("roster.toml");
    let least = [
        "--min-quality-threshold",
        "0.85",
        "--output",
        roster.to_str().unwrap(),
    ];
    let output = folder.qualify(&least).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = said(&output.stdout);
    assert!(shown.contains("south/small"), "{shown}");
    let roster = folder.read("roster.toml");
    assert!(roster.starts_with("# People review this.\n"), "{roster}");
    assert!(
        roster.contains("# ours") && roster.contains("quality_score = 1"),
        "{roster}"
    );
    assert!(
        roster.contains("median_latency_ms") && roster.contains("hashes"),
        "{roster}"
    );
    assert_eq!(folder.journal().len(), 2 * ENOUGH);
    for form in ["html", "json", "md", "xml"] {
        let report = folder.read(&format!("report/clerk/report.{form}"));
        assert!(report.contains("south/small"), "{form}: {report}");
    }
    // What was written is what the gateway takes.
    let mut check = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    check.arg("check").arg(folder.0.path());
    let output = ended(check).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stdout));
    // The very request that an agent of the role would make: streamed, with its schema.
    let request = &south.requests()[0];
    assert!(
        request.stream && request.body.get("response_format").is_some(),
        "{request:?}"
    );
}

#[tokio::test]
async fn a_bad_candidate_fails_the_gate_and_leaves_the_roster() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", wrong()).await,
    );
    let folder = Folder::of(&north, &south, 40);
    let roster = folder.path("roster.toml");
    let output = folder
        .qualify(&["--output", roster.to_str().unwrap(), "--whole"])
        .await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = said(&output.stderr);
    assert!(told.contains("`south/small` is out"), "{told}");
    assert!(!folder.read("roster.toml").contains("south/small"));
    assert!(!south.requests()[0].stream);
}

#[tokio::test]
async fn a_dead_candidate_is_soon_let_be() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    let folder = Folder::of(&north, &south, 400);
    south.down().await;
    let output = folder.qualify(&[]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = said(&output.stderr);
    assert!(
        told.contains("south/small: 20 questions in a row failed (unreachable)"),
        "{told}"
    );
    assert!(folder.journal().len() < 430);
}

#[tokio::test]
async fn rate_limits_are_waited_for() {
    let limited = Behaviour {
        fault: Some(Fault::rate_limited(Duration::from_millis(300))),
        error_rate: 1.0,
        fault_times: Some(3),
        ..good()
    };
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", limited).await,
    );
    let folder = Folder::of(&north, &south, ENOUGH);
    let output = folder.qualify(&["--concurrency", "1"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        folder
            .journal()
            .iter()
            .all(|line| line["kind"] == "answered")
    );
    assert!(
        said(&output.stderr).contains("for its rate limit"),
        "{output:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_understood_ends_with_two_before_anybody_is_asked() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    let folder = Folder::of(&north, &south, 2);
    for (arguments, words) in [
        (vec!["--role", "clerk"], "has no golden_dataset"),
        (
            vec!["--all-roles"],
            "no role's policy names a golden_dataset",
        ),
        (vec!["--role", "pilot"], "no role `pilot`"),
        (
            vec!["--role", "clerk", "--all-roles"],
            "cannot be used with",
        ),
        (vec![], "--role"),
        (
            vec!["--role", "clerk", "--golden-dataset", "/nowhere.jsonl"],
            "/nowhere.jsonl",
        ),
        (
            vec!["--role", "clerk", "--candidates", "nonsense"],
            "nonsense",
        ),
        (
            vec!["--role", "clerk", "--min-quality-threshold", "85"],
            "expected 0 to 1",
        ),
    ] {
        let output = ended(folder.bare(&arguments)).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let told = said(&output.stderr);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    for (arguments, words) in [
        (
            vec!["--candidates", "north/big"],
            "has no candidate beside its primary",
        ),
        (vec!["--repeat", "0"], "expected at least 1"),
        (vec!["--load-rps", "0"], "above 0"),
        (vec!["--resume"], "no run is here to go on with"),
        (vec!["--output", "roster.json"], "roster.json"),
    ] {
        let output = folder.qualify(&arguments).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let told = said(&output.stderr);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    std::fs::remove_dir_all(folder.path("report")).unwrap();
    folder.write("report", "a file, and no folder");
    let output = folder.qualify(&[]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        said(&output.stderr).contains("cannot be written"),
        "{output:?}"
    );
    assert_eq!(north.stats().started + south.stats().started, 0);
}

#[tokio::test]
async fn every_faulty_line_of_a_dataset_is_told() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    let folder = Folder::of(&north, &south, 0);
    let output = folder.qualify(&[]).await;
    assert_eq!(
        output.status.code(),
        Some(2),
        "an empty dataset: {output:?}"
    );
    let lines = format!("{}\n{{\n{}\n{}\n", item(0), item(0), r#"{"id":"x"}"#);
    folder.write("golden.jsonl", &lines);
    let output = folder.qualify(&[]).await;
    assert_eq!(output.status.code(), Some(2));
    let told = said(&output.stderr);
    for line in [2, 3, 4] {
        assert!(told.contains(&format!("golden.jsonl:{line}: ")), "{told}");
    }
}

fn interrupt(child: &Child) {
    let pid = child.id().expect("it runs").to_string();
    let sent = std::process::Command::new("kill")
        .args(["-s", "INT", &pid])
        .status();
    assert!(sent.expect("there is a kill").success());
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupted_run_goes_on_where_it_was() {
    let slow = Behaviour {
        first_token: Latency::millis(50),
        ..good()
    };
    let (north, south) = (
        upstream("north", slow.clone()).await,
        upstream("south", slow).await,
    );
    let folder = Folder::of(&north, &south, ENOUGH);
    let mut command = folder.command(&["--concurrency", "1"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    while north.stats().started < 5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    interrupt(&child);
    let output = timeout(LONG, child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        said(&output.stderr).contains("Go on with --resume"),
        "{output:?}"
    );
    let before = folder.journal();
    assert!((2..150).contains(&before.len()), "{}", before.len());
    let output = folder.qualify(&["--concurrency", "1"]).await;
    assert_eq!(
        output.status.code(),
        Some(2),
        "it is not thrown away: {output:?}"
    );
    let output = folder.qualify(&["--concurrency", "2", "--resume"]).await;
    assert_eq!(output.status.code(), Some(2), "another load: {output:?}");
    assert!(said(&output.stderr).contains("load was"), "{output:?}");
    let output = folder.qualify(&["--concurrency", "1", "--resume"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let after = folder.journal();
    assert_eq!(after[..before.len()], before, "what was heard stays");
    assert_eq!(after.len(), 2 * ENOUGH);
}

/// A run in a folder is alone there until it ends, however it ends.
#[cfg(unix)]
#[tokio::test]
async fn a_folder_is_one_runs_at_a_time_and_is_let_go_by_kill() {
    let slow = Behaviour {
        first_token: Latency::millis(50),
        ..good()
    };
    let (north, south) = (
        upstream("north", slow.clone()).await,
        upstream("south", slow).await,
    );
    let folder = Folder::of(&north, &south, ENOUGH);
    let mut command = folder.command(&[]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    north.wait_until(|stats| stats.started > 5).await;
    let pid = child.id().expect("it runs");
    for more in [&["--resume"][..], &[]] {
        let output = folder.qualify(more).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let told = said(&output.stderr);
        let words = format!("a run is at work here (process {pid}, since 20");
        assert!(told.contains(&words), "{told}");
    }
    // SIGKILL.
    child.start_kill().unwrap();
    timeout(LONG, child.wait()).await.unwrap().unwrap();
    let output = folder.qualify(&["--resume"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(folder.journal().len(), 2 * ENOUGH);
}

/// Answers whose judge fails are written down, told, and asked again by the next run.
#[tokio::test]
async fn what_could_not_be_scored_is_asked_again_and_nothing_else() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    let folder = Folder::of(&north, &south, 0);
    let grades = Behaviour {
        text: Some(r#"{"answer": 9}"#.into()),
        fault: Some(Fault::status(500)),
        error_rate: 1.0,
        fault_times: Some(2),
        ..Behaviour::default()
    };
    let referee = upstream("referee", grades).await;
    folder.with_referee(&referee);
    let items = (0..ENOUGH).fold(String::new(), |all, n| {
        let scorers = r#"[{"kind":"judge","role":"referee","rubric":"Is it polite?"}]"#;
        all + &format!("{{\"id\":\"i{n}\",\"prompt\":\"p\",\"scorers\":{scorers}}}\n")
    });
    folder.write("golden.jsonl", &items);
    let output = folder
        .qualify(&["--concurrency", "1", "--format", "json"])
        .await;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let role = &told["roles"][0];
    let unscored = |model: &Value| model["unscored"].as_u64().unwrap();
    let all = unscored(&role["primary"]) + unscored(&role["candidates"][0]);
    assert_eq!(all, 2, "{told}");
    let words = "2 answers could not be scored, the first: item `i0`";
    assert!(said(&output.stderr).contains(words), "{output:?}");
    let journal = folder.journal();
    assert_eq!(journal.len(), 2 * ENOUGH);
    let lines: Vec<&Value> = journal
        .iter()
        .filter(|line| line["kind"] == "unscored")
        .collect();
    assert_eq!(lines.len(), 2);
    let why = lines[0]["unscored"].as_str().unwrap();
    assert!(why.contains("west/wise"), "{why}");
    let report = folder.read("report/clerk/report.md");
    assert!(report.contains("could not be scored"), "{report}");
    let asked = north.stats().started + south.stats().started;
    let output = folder
        .qualify(&["--concurrency", "1", "--format", "json", "--resume"])
        .await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["roles"][0]["primary"]["unscored"], 0, "{told}");
    assert_eq!(told["roles"][0]["candidates"][0]["items"], ENOUGH, "{told}");
    assert_eq!(north.stats().started + south.stats().started, asked + 2);
    assert_eq!(folder.journal().len(), 2 * ENOUGH + 2);
}

#[tokio::test]
async fn a_budget_ends_a_run_with_one_and_a_larger_one_ends_it_well() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    let folder = Folder::of(&north, &south, ENOUGH);
    let output = folder.qualify(&["--budget-usd", "0.0005"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        said(&output.stderr).contains("the budget is spent"),
        "{output:?}"
    );
    let output = folder.qualify(&["--budget-usd", "1", "--resume"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(folder.journal().len(), 2 * ENOUGH);
}

#[tokio::test]
async fn all_roles_are_measured_each_on_its_own_dataset() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    let folder = Folder::of(&north, &south, ENOUGH);
    let policy = folder.read("policy.toml");
    let pilot = policy.replace("clerk", "pilot");
    let own = "golden_dataset = \"golden.jsonl\"\n";
    folder.write("policy.toml", &format!("{policy}{own}{pilot}"));
    let roster = folder.read("roster.toml");
    folder.write(
        "roster.toml",
        &format!("{roster}\n{}", roster.replace("clerk", "pilot")),
    );
    let output = ended(folder.bare(&["--all-roles", "--seed", "7", "--format", "json"])).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["passes"], true, "{told}");
    assert!(said(&output.stderr).contains("pilot: its policy names no golden_dataset"));
    assert_eq!(folder.journal().len(), 2 * ENOUGH);
    assert!(!folder.path("report/pilot").exists());
}
