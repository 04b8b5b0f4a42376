//! Scorers through items, as a dataset writes them.

use super::*;
use crate::golden::Golden;
use evenkeel_core::{ChatResponse, Extra, Finish, Part, ToolCall};
use serde_json::json;
use std::ffi::OsString;
use std::io::Write as _;
use std::time::Duration;

fn item(line: &Value) -> Item {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{line}").unwrap();
    let golden = Golden::open(file.path()).unwrap();
    golden.items(None).next().unwrap().unwrap()
}

/// An item of one scorer.
fn scored_by(expected: &Value, scorer: &Value) -> Item {
    item(&json!({"id": "a", "prompt": "p", "expected": expected, "scorers": [scorer]}))
}

fn answer(parts: Vec<Part>) -> ChatResponse {
    ChatResponse {
        id: String::new(),
        model: "m".into(),
        created: 0,
        parts,
        finish: Finish::Stop,
        usage: None,
        adapted: Vec::new(),
        rate_limits: None,
        extra: Extra::default(),
    }
}

fn says(text: &str) -> ChatResponse {
    answer(vec![Part::Text(text.into())])
}

fn calls(calls: &[(&str, &str)]) -> ChatResponse {
    let part = |(name, arguments): &(&str, &str)| {
        Part::ToolCall(ToolCall {
            name: (*name).into(),
            arguments: (*arguments).into(),
            ..ToolCall::default()
        })
    };
    answer(calls.iter().map(part).collect())
}

/// The score of an answer; none of the scorers used here waits for anything.
fn score_of(item: &Item, answer: &ChatResponse) -> Scored {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let context = ScoringContext::default();
    runtime.block_on(score(item, answer, &context)).unwrap()
}

#[track_caller]
fn gives(item: &Item, answer: &ChatResponse, expected: f64) {
    let scored = score_of(item, answer);
    assert!((scored.score - expected).abs() < 1e-12, "{scored:?}");
}

#[test]
fn texts() {
    let exact = scored_by(&json!(["Paris", "paris"]), &json!({"kind": "exact"}));
    gives(&exact, &says(" paris\n"), 1.0);
    gives(&exact, &says("PARIS"), 0.0);
    let text = scored_by(&json!("It's 5%."), &json!({"kind": "text"}));
    gives(&text, &says("**its 5%**"), 1.0);
    gives(&text, &says("its 5"), 0.0);
    let similar = json!({"kind": "similarity"});
    let similar = scored_by(&json!(["high tide at noon", "noon"]), &similar);
    gives(&similar, &says("Noon."), 1.0);
    gives(&similar, &says("high tide at six"), 0.75);
    let near = json!({"kind": "similarity", "measure": "levenshtein", "at_least": 0.8});
    let near = scored_by(&json!("evenkeel"), &near);
    gives(&near, &says("evenkeels"), 1.0);
    gives(&near, &says("even"), 0.0);
    let choices = json!({"kind": "choice", "choices": ["yes", "no"]});
    let choice = scored_by(&json!("yes"), &choices);
    gives(&choice, &says("Yes, it is."), 1.0);
    gives(&choice, &says("No"), 0.0);
    gives(&choice, &says("yes or no"), 0.0);
}

#[test]
fn patterns() {
    let regex = scored_by(&json!(null), &json!({"kind": "regex", "pattern": "^ok"}));
    gives(&regex, &says("ok then"), 1.0);
    gives(&regex, &says("not ok"), 0.0);
    let absent = json!({"kind": "regex", "pattern": "(?i)sorry", "absent": true});
    gives(&scored_by(&json!(null), &absent), &says("SORRY"), 0.0);
    let group = json!({"kind": "regex", "pattern": "A: *(.*)", "group": 1});
    let group = scored_by(&json!("42"), &group);
    gives(&group, &says("A: 1\nA:  42 \n"), 1.0);
    gives(&group, &says("A: 42\nA: 1"), 0.0);
}

#[test]
fn numbers_within_a_tolerance() {
    let number = |rest: Value| {
        let mut scorer = json!({"kind": "number"});
        scorer
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        scored_by(&json!("1,000"), &scorer)
    };
    gives(&number(json!({})), &says("so 1000.0 it is"), 1.0);
    gives(&number(json!({})), &says("1000.5"), 0.0);
    gives(&number(json!({"abs": 0.5})), &says("1000.5"), 1.0);
    gives(&number(json!({"rel": 0.01})), &says("990"), 1.0);
    gives(&number(json!({"rel": 0.01})), &says("989"), 0.0);
    gives(&number(json!({"abs": 1e308})), &says(&"9".repeat(400)), 0.0);
}

#[test]
fn json_values() {
    let same = scored_by(&json!({"a": [1, 2], "b": "x"}), &json!({"kind": "json"}));
    gives(&same, &says(r#"{"b":"x","a":[1.0,2]}"#), 1.0);
    gives(&same, &says(r#"{"b":"x","a":[2,1]}"#), 0.0);
    gives(&same, &says(r#"{"b":"X","a":[1,2]}"#), 0.0);
    gives(&same, &says("```json\n{}\n```"), 0.0);
    let loose = json!({"kind": "json", "unordered": true, "abs": 0.1});
    let loose = scored_by(&json!([1, 2, 2]), &loose);
    gives(&loose, &says("[2.05, 1, 2]"), 1.0);
    gives(&loose, &says("[2, 1, 1]"), 0.0);
    let f1 = scored_by(
        &json!({"a": 1, "b": {"c": "X"}, "d": []}),
        &json!({"kind": "field_f1"}),
    );
    gives(&f1, &says(r#"{"a":1,"b":{"c":"x "},"d":[]}"#), 1.0);
    gives(&f1, &says(r#"{"a":1,"b":{"c":"y"}}"#), 0.4);
    gives(&f1, &says(r#"{"a":1,"b/c":"x","d":[0]}"#), 1.0 / 3.0);
    gives(&f1, &says("no"), 0.0);
    let lists = json!({"kind": "field_f1", "unordered": true});
    let lists = scored_by(&json!({"t": ["a", "b"]}), &lists);
    gives(&lists, &says(r#"{"t":["b","a"]}"#), 1.0);
    gives(&lists, &says(r#"{"t":["b","b","c"]}"#), 0.4);
}

#[test]
fn schemas_and_validity() {
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let item =
        item(&json!({"id": "a", "prompt": "p", "schema": schema, "scorers": [{"kind": "schema"}]}));
    let scored = score_of(&item, &says(r#"{"n": 1}"#));
    assert_eq!((scored.score, scored.is_valid), (1.0, Some(true)));
    let scored = score_of(&item, &says(r#"{"n": "1"}"#));
    assert_eq!((scored.score, scored.is_valid), (0.0, Some(false)));
    assert!(scored.details[0].note.is_some());
    let own = json!({"kind": "schema", "schema": {"type": "array"}});
    let own = scored_by(&json!(null), &own);
    let scored = score_of(&own, &says("[]"));
    assert_eq!((scored.score, scored.is_valid), (1.0, None));
}

fn tools(expected: &Value, scorer: &Value) -> Item {
    let tool = |name: &str| {
        let parameters = json!({"type": "object", "properties": {"n": {"type": "number"}}});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    item(&json!({
        "id": "a", "prompt": "p", "tools": [tool("f"), tool("g")], "expected": expected,
        "scorers": [scorer],
    }))
}

#[test]
fn one_call() {
    let kind = json!({"kind": "tool_call"});
    let one = tools(
        &json!({"name": "f", "arguments": {"n": [1, 2], "s": ["X", ""]}}),
        &kind,
    );
    gives(&one, &calls(&[("f", r#"{"n": 2.0}"#)]), 1.0);
    gives(&one, &calls(&[("f", r#"{"n": 1, "s": " x"}"#)]), 1.0);
    gives(&one, &calls(&[("f", r#"{"n": 1}"#), ("g", "{}")]), 1.0);
    for wrong in [
        ("g", r#"{"n": 1}"#),
        ("f", r#"{"n": 3}"#),
        ("f", r#"{"n": true}"#),
        ("f", r#"{"n": 1, "o": 1}"#),
        ("f", "{}"),
        ("f", ""),
        ("f", "[1]"),
        ("f", "{"),
    ] {
        gives(&one, &calls(&[wrong]), 0.0);
    }
    gives(&one, &says("f(1)"), 0.0);
    let valid = |answer| score_of(&one, &answer).is_valid;
    assert_eq!(valid(calls(&[("f", r#"{"n": 9}"#)])), Some(true));
    assert_eq!(valid(calls(&[("f", r#"{"n": "9"}"#)])), Some(false));
    assert_eq!(valid(calls(&[("h", "{}")])), Some(false));
    assert_eq!(valid(says("f(1)")), Some(false), "a call is required");
    let exact = json!({"kind": "tool_call", "exact": true, "optional": ["s"]});
    let exact = tools(
        &json!({"name": "f", "arguments": {"n": [1], "s": "x"}}),
        &exact,
    );
    gives(&exact, &calls(&[("f", r#"{"n": [1]}"#)]), 1.0);
    gives(&exact, &calls(&[("f", r#"{"n": 1}"#)]), 0.0);
}

#[test]
fn several_calls() {
    let call = |name: &str, n: &[u8]| json!({"name": name, "arguments": {"n": n}});
    let kind = json!({"kind": "tool_call"});
    // The first made call could be either of the first two.
    let three = json!([call("f", &[1, 2]), call("f", &[1]), call("g", &[3])]);
    let any = tools(&three, &kind);
    let made = [
        ("f", r#"{"n":1}"#),
        ("g", r#"{"n":3}"#),
        ("f", r#"{"n":2}"#),
    ];
    gives(&any, &calls(&made), 1.0);
    gives(&any, &calls(&made[..2]), 2.0 / 3.0);
    gives(&any, &calls(&[made[0], made[0], made[0], made[0]]), 0.5);
    let ordered = tools(&three, &json!({"kind": "tool_call", "ordered": true}));
    gives(&ordered, &calls(&made), 2.0 / 3.0);
    gives(&ordered, &calls(&[made[2], made[0], made[1]]), 1.0);
    let none = tools(&json!([]), &kind);
    gives(&none, &says("no need"), 1.0);
    gives(&none, &calls(&made[..1]), 0.0);
    assert_eq!(score_of(&none, &says("no need")).is_valid, Some(true));
}

#[test]
fn weights_and_refusals() {
    let item = item(
        &json!({"id": "a", "prompt": "p", "expected": "42", "scorers": [
            {"kind": "number", "weight": 3}, {"kind": "exact"},
        ]}),
    );
    gives(&item, &says("it is 42"), 0.75);
    let huge = json!({"id": "a", "prompt": "p", "expected": "42", "scorers": [
        {"kind": "number", "weight": 1e308}, {"kind": "exact", "weight": 1e308},
    ]});
    gives(&super::tests::item(&huge), &says("it is 42"), 0.5);
    let refused = |answer: &ChatResponse| score_of(&item, answer).is_refusal;
    assert!(refused(&says("I'm sorry, but I can't help with that.")));
    assert!(refused(&answer(vec![Part::Refusal("No.".into())])));
    let mut cut = says("4");
    cut.finish = Finish::ContentFilter;
    assert!(refused(&cut));
    assert!(!refused(&says("7")), "wrong is not declined");
    assert!(
        !refused(&says("I can't give details. It is 42")),
        "scored for what it says"
    );
    let expects = json!({"kind": "regex", "pattern": "can't"});
    let expects = scored_by(&json!(null), &expects);
    let declines = says("I can't help with that.");
    assert!(!score_of(&expects, &declines).is_refusal, "asked for");
}

#[tokio::test]
async fn what_was_not_allowed_is_an_error_and_no_score() {
    let judge = json!({"kind": "judge", "role": "critic", "rubric": "?"});
    let command = json!({"kind": "command", "argv": ["true"]});
    for (scorer, said) in [(judge, "none was given"), (command, "none may run")] {
        let item = scored_by(&json!(null), &scorer);
        let error = score(&item, &says("x"), &ScoringContext::default()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[cfg(unix)]
mod commands {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    fn context() -> ScoringContext {
        ScoringContext {
            judge: None,
            commands: Some(CommandLimits {
                timeout: Duration::from_secs(20),
                output_bytes: 64,
                environment: vec![(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))],
            }),
        }
    }

    async fn run(script: &str) -> Result<Scored, ScoringError> {
        let scorer = json!({"kind": "command", "argv": ["sh", "-c", script]});
        let item = scored_by(&json!("x"), &scorer);
        score(&item, &says(&"long ".repeat(100_000)), &context()).await
    }

    #[tokio::test]
    async fn a_command_prints_a_score() {
        for (script, expected) in [
            ("cat >/dev/null; echo 0.5", 0.5),
            ("echo '{\"score\": 1, \"note\": \"fine\"}'", 1.0),
            ("grep -q '\"expected\":\"x\"' && echo 1", 1.0),
            ("test -z \"$HOME\" && echo 1", 1.0),
        ] {
            let scored = run(script).await.unwrap();
            assert!((scored.score - expected).abs() < 1e-12, "{script}");
        }
        let noted = run("echo '{\"score\": 1, \"note\": \"fine\"}'")
            .await
            .unwrap();
        assert_eq!(noted.details[0].note.as_deref(), Some("fine"));
    }

    #[tokio::test]
    async fn anything_else_is_an_error() {
        for (script, said) in [
            ("echo 1.5", "expected a number from 0 to 1"),
            ("echo NaN", "`NaN`"),
            ("echo fine", "`fine`"),
            ("true", "``"),
            ("echo 1; echo broken >&2; exit 3", "exit status: 3: broken"),
            ("kill -9 $$", "signal: 9"),
            ("yes", "more than 64 bytes"),
        ] {
            let error = run(script).await.unwrap_err().to_string();
            assert!(error.contains(said), "{script}: {error}");
        }
        let missing = json!({"kind": "command", "argv": ["./not-there"]});
        let item = scored_by(&json!(null), &missing);
        let error = score(&item, &says("x"), &context()).await.unwrap_err();
        assert!(matches!(error, ScoringError::CommandIo { .. }), "{error}");
    }

    #[tokio::test]
    async fn time_that_is_up_is_an_error() {
        let scorer =
            json!({"kind": "command", "argv": ["sh", "-c", "sleep 3600"], "timeout_ms": 50});
        let item = scored_by(&json!(null), &scorer);
        let error = score(&item, &says("x"), &context()).await.unwrap_err();
        let expected = "the command `sh` was ended after 50 ms";
        assert_eq!(error.to_string(), expected);
    }

    #[tokio::test]
    async fn what_is_given_up_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let script = format!(
            "(echo started; exec sleep 3600) >{0} 2>/dev/null & sleep 3600",
            pipe.display()
        );
        let scorer = json!({"kind": "command", "argv": ["sh", "-c", script]});
        let item = scored_by(&json!(null), &scorer);
        let (context, answer) = (context(), says("x"));
        // Opened once the grandchild has opened its end.
        let opened = tokio::select! {
            opened = tokio::fs::File::open(&pipe) => opened,
            ended = score(&item, &answer, &context) => panic!("{ended:?}"),
        };
        // The end comes when nobody holds the other end any more.
        let mut said = String::new();
        opened.unwrap().read_to_string(&mut said).await.unwrap();
        assert!(said.is_empty() || said == "started\n");
    }
}

mod any {
    use super::*;
    use proptest::prelude::*;

    fn items() -> Vec<Item> {
        let by = |expected: Value, scorer: Value| scored_by(&expected, &scorer);
        vec![
            by(json!("x"), json!({"kind": "exact"})),
            by(json!("x y"), json!({"kind": "text"})),
            by(
                json!("a"),
                json!({"kind": "choice", "choices": ["a", "b", "a b"]}),
            ),
            by(
                json!("1"),
                json!({"kind": "regex", "pattern": "([0-9]+)", "group": 1}),
            ),
            by(json!(1), json!({"kind": "number", "rel": 0.5})),
            by(
                json!({"a": [1, "x"]}),
                json!({"kind": "json", "unordered": true}),
            ),
            by(json!({"a": [1, "x"]}), json!({"kind": "field_f1"})),
            by(
                json!({"a": [1, "x"]}),
                json!({"kind": "field_f1", "unordered": true}),
            ),
            by(json!({"a": 1, "b": "x"}), json!({"kind": "fields"})),
            by(
                json!(null),
                json!({"kind": "schema", "schema": {"type": "object"}}),
            ),
            by(json!(null), json!({"kind": "code", "language": "python"})),
            by(json!("x y z"), json!({"kind": "similarity"})),
            by(
                json!("x y z"),
                json!({"kind": "similarity", "measure": "levenshtein"}),
            ),
            by(
                json!("x y z"),
                json!({"kind": "similarity", "measure": "jaro_winkler"}),
            ),
            tools(
                &json!({"name": "f", "arguments": {"a": [1]}}),
                &json!({"kind": "tool_call"}),
            ),
            tools(
                &json!([{"name": "f"}, {"name": "g"}]),
                &json!({"kind": "tool_call"}),
            ),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_score_lies_within_0_and_1(value in any_json(), text in ".{0,80}") {
            let json = value.to_string();
            for item in items() {
                for answer in [
                    says(&json), says(&text), calls(&[("f", &json), ("g", &text)]), answer(vec![]),
                ] {
                    let scored = score_of(&item, &answer);
                    prop_assert!((0.0..=1.0).contains(&scored.score), "{:?}", scored);
                }
            }
        }
    }
}

/// Any JSON, none of it deep.
pub(crate) fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let word = || proptest::sample::select(vec!["a", "b", "x", "name", "arguments", ""]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        word().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let fields = proptest::collection::vec((word(), inner.clone()), 0..4);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|f| f.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}
