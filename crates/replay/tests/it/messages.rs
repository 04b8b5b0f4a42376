//! A file that is no scenario says where and why.

use evenkeel_document::SourceFile;
use evenkeel_replay::Scenario;

const SOUND: &str = r#"
name = "n"
why = "w"
[providers.acme]
dialect = "simulated"
[agent_roles.agent]
p95_threshold_ms = 1500
p99_threshold_ms = 2500
evaluation_window_seconds = 15
primary = "acme/big"
fallbacks = []
[upstream."acme/big"]
first_token_ms = 100
[[traffic]]
[[expect.trail]]
outcome = "ok"
"#;

/// What is told of `SOUND` with `from` replaced by `to`.
fn told(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from), "{from}");
    let text = SOUND.replacen(from, to, 1);
    let problems = Scenario::parse(&SourceFile::new("s.toml", text));
    problems.expect_err("it is wrong").to_string()
}

#[test]
fn a_sound_file_is_taken() {
    Scenario::parse(&SourceFile::new("s.toml", SOUND)).unwrap();
}

#[test]
fn what_is_wrong_is_named_by_line_and_key() {
    for (from, to, expected) in [
        (
            "[[traffic]]",
            "[[trafic]]",
            "s.toml:14: trafic: unknown key; did you mean `traffic`?",
        ),
        (
            "[[traffic]]",
            "[[traffic]]\ncont = 3",
            "s.toml:15: traffic[0].cont: unknown key; did you mean `count`?",
        ),
        (
            "[[traffic]]",
            "[[traffic]]\nrole = \"agnt\"",
            "no role is named `agnt`; did you mean `agent`?",
        ),
        (
            "[[traffic]]",
            "[[traffic]]\ncallers = 2\nevery_ms = 10",
            "s.toml:15: traffic[0].callers: stands beside every_ms",
        ),
        (
            "[[traffic]]",
            "[[traffic]]\ntask = \"review\"",
            "role `agent` has no task `review`",
        ),
        (
            "[[traffic]]",
            "[[traffic]]\npinned_roster = [\"big\"]",
            "s.toml:15: traffic[0].pinned_roster[0]: ",
        ),
        (
            "[[traffic]]",
            "[[traffic]]\ndegraded_input = 85",
            "s.toml:15: traffic[0].degraded_input: is 85, expected 0 to 1",
        ),
        (
            "[[traffic]]",
            "[[drill]]\nkind = \"eol\"\nfor_ms = 5\n[[traffic]]",
            "s.toml:14: drill[0]: model is missing",
        ),
        (
            "[[traffic]]",
            "[[drill]]\nkind = \"eol\"\nfor_ms = 5\nmodel = \"acme/bag\"\n[[traffic]]",
            "`acme/bag` is in no roster; did you mean `acme/big`?",
        ),
        (
            "acme/big\"]",
            "acme/bog\"]",
            "`acme/bog` is in no roster; did you mean `acme/big`?",
        ),
        (
            "first_token_ms = 100",
            "first_token_ms = { median_ms = 5 }",
            "is no distribution",
        ),
        (
            "first_token_ms = 100",
            "fault = { kind = \"stauts\" }",
            "`stauts` is not one of status,",
        ),
        (
            "first_token_ms = 100",
            "fault = { kind = \"cut_after\" }",
            "tokens is missing: this kind of fault needs it",
        ),
        (
            "first_token_ms = 100",
            "fault = { kind = \"hang\", status = 500 }",
            "fault.status: unknown key",
        ),
        (
            "p95_threshold_ms = 1500",
            "p95_treshold_ms = 1500",
            "p95_treshold_ms: unknown key; did you mean `p95_threshold_ms`?",
        ),
        (
            "outcome = \"ok\"",
            "total_ms = [5, 1]",
            "from 5 to 1 there is nothing; write the least first",
        ),
        (
            "outcome = \"ok\"",
            "steps = [\"attempt 0 first won @ soon\"]",
            "`soon` is no number of milliseconds",
        ),
        (
            "[[expect.trail]]\noutcome = \"ok\"",
            "[expect]",
            "expects nothing: it could not fail",
        ),
        ("name = \"n\"", "name = \"\"", "s.toml:2: name: is missing"),
    ] {
        let told = told(from, to);
        assert!(told.contains(expected), "{to}: {told}");
    }
}
