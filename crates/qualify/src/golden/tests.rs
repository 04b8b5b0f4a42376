//! Whole datasets, right and wrong.

use super::*;
use crate::hashes::{ContentHasher, NOTHING};
use crate::scorers::Scorer;
use evenkeel_core::{Output, Role, ToolChoice};
use std::io::Write as _;

fn file(text: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_ref()).unwrap();
    file
}

fn items(text: &str) -> Vec<Item> {
    let file = file(text);
    let golden = Golden::open(file.path()).unwrap();
    golden.items(None).map(Result::unwrap).collect()
}

/// What is wrong, a line each, without the file's name.
fn faults(text: impl AsRef<[u8]>) -> String {
    let file = file(text);
    let error = Golden::open(file.path()).unwrap_err().to_string();
    let name = file.path().display().to_string();
    error.replace(&name, "f")
}

const TOOL: &str = r#"{"type":"function","function":{"name":"go","parameters":{"type":"object","properties":{"to":{"type":"string"}}}}}"#;

#[test]
fn the_three_ways_to_ask() {
    let items = items(
        r#"{"id":"a","prompt":"hi","expected":"x","scorers":[{"kind":"exact"}],"max_tokens":9}
{"id":"b","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"expected":"x","scorers":[{"kind":"text"}]}
{"id":"c","input":{"n":1},"expected":"x","scorers":[{"kind":"text"}],"tags":["t","u","t"],"role":"r"}"#,
    );
    let texts: Vec<String> = items
        .iter()
        .map(|i| i.request.messages[0].plain_text())
        .collect();
    assert_eq!(texts, ["hi", "be brief", r#"{"n":1}"#]);
    assert_eq!(items[0].request.max_output_tokens, Some(9));
    assert_eq!(items[1].request.messages[1].role, Role::User);
    assert_eq!(*items[2].tags, ["t".to_owned(), "u".to_owned()]);
    assert_eq!(items[2].role.as_deref(), Some("r"));
    let places: Vec<(usize, usize)> = items.iter().map(|i| (i.line, i.index)).collect();
    assert_eq!(places, [(1, 0), (2, 1), (3, 2)]);
}

#[test]
fn a_schema_is_strict_and_a_call_is_required_unless_the_item_says_otherwise() {
    let call = r#""expected":{"name":"go","arguments":{}},"check":"tool_call""#;
    let items = items(&format!(
        r#"{{"id":"a","prompt":"p","schema":{{"type":"object"}},"expected":{{"k":1}},"check":"fields","tools":null}}
{{"id":"b","prompt":"p","tools":[{TOOL}],{call}}}
{{"id":"c","prompt":"p","tools":[{TOOL}],"tool_choice":"auto",{call}}}
{{"id":"d","prompt":"p","tools":[{TOOL}],"expected":[],"check":"tool_call"}}"#
    ));
    assert!(matches!(
        &items[0].request.output,
        Output::JsonSchema { strict: true, .. }
    ));
    let choices: Vec<&Option<ToolChoice>> = items.iter().map(|i| &i.request.tool_choice).collect();
    let expected = [
        None,
        Some(ToolChoice::Required),
        Some(ToolChoice::Auto),
        None,
    ];
    assert_eq!(choices, expected.each_ref());
}

#[test]
fn every_faulty_line_is_told_with_its_number() {
    let text = r#"{"id":"a","prompt":"p","expected":"x","scorers":[{"kind":"exact"}]}
not json
[1]
{"id":"a","prompt":"p","expected":"x","scorers":[{"kind":"exact"}]}
{"id":"","prompt":"p","expected":"x","check":"number"}

{"prompt":"p","expected":1,"check":"number"}
{"id":"e","expected":1,"check":"number"}
{"id":"f","prompt":"p","input":"q","expected":1,"check":"number"}
{"id":"g","prompt":"p","check":"number"}
{"id":"h","prompt":"p","expected":1}
{"id":"i","prompt":"p","expected":1,"check":"nubmer"}
{"id":"j","prompt":"p","expected":1,"check":"number","promt":"x"}
{"id":"k","prompt":"p","expected":"x","scorers":[{"kind":"exactly"},{"weight":1}]}
{"id":"l","prompt":"p","expected":"x","scorers":[{"kind":"exact","weight":0},{"kind":"exact","weight":-1},{"kind":"text","weight":"1"}]}
{"id":"m","prompt":"p","expected":{},"check":"fields","schema":{"type":"strin"}}
{"id":"n","prompt":"p","scorers":[{"kind":"regex","pattern":"(a"}]}
{"id":"o","prompt":"p","tools":[{"type":"function"}],"expected":{"name":"go"},"check":"tool_call"}
{"id":"p","prompt":"p","tools":[{"type":"function","function":{"name":"go"}}],"expected":{"name":"come","arguments":{}},"check":"tool_call"}
{"id":"q","prompt":"p","expected":{"name":"go"},"check":"tool_call"}
{"id":"r","messages":[{"role":"usr","content":"x"}],"expected":1,"check":"number"}
{"id":"s","prompt":"p","expected":1,"check":"number","id":"s2"}
{"id":"t","prompt":"p","expected":1,"check":"number","max_tokens":0,"tags":[1]}
{"id":"u","prompt":"p","scorers":[],"weight":1e999}
"#;
    insta::assert_snapshot!(faults(text));
}

#[test]
fn what_is_no_text_and_what_is_too_long_is_told() {
    let mut text = b"{\"id\":\"\xff\"}\n".to_vec();
    text.extend(vec![b' '; 4 * 1024 * 1024]);
    text.extend_from_slice(b"x\n{\"id\":\"a\"");
    insta::assert_snapshot!(faults(text), @r"
    f:1: is not UTF-8: byte 8 of the line
    f:2: is longer than 4 MiB
    f:3: is not JSON: EOF while parsing an object (column 9)
    ");
}

#[test]
fn an_empty_dataset_is_told() {
    let expected = "f: holds no item: at least one line is needed";
    assert_eq!(faults(""), expected);
    assert_eq!(faults("\n \n"), expected);
    let missing = Golden::open("/nowhere/golden.jsonl").unwrap_err();
    assert!(matches!(missing, GoldenError::Unreadable { .. }));
}

#[test]
fn faults_beyond_ten_thousand_are_counted() {
    let error = faults("x\n".repeat(10_003));
    assert_eq!(error.lines().count(), 10_001);
    assert!(error.ends_with("f: and 3 more faults"));
}

#[test]
fn a_dataset_says_what_its_items_have_in_common() {
    let line = |id: &str, rest: &str| format!(r#"{{"id":"{id}","prompt":"p",{rest}}}"#);
    let text = [
        line(
            "a",
            r#""role":"y","scorers":[{"kind":"judge","role":"critic","rubric":"?"}]"#,
        ),
        line(
            "b",
            r#""role":"x","scorers":[{"kind":"command","argv":["true"]}]"#,
        ),
    ];
    let plain = file(text.join("\n"));
    let golden = Golden::open(plain.path()).unwrap();
    assert_eq!(golden.count(), 2);
    let roles: Vec<&str> = golden.roles().iter().map(|r| &**r).collect();
    assert_eq!(roles, ["x", "y"]);
    assert!(golden.judges().contains("critic") && golden.runs_commands());
    assert_eq!(golden.tools_hash(), NOTHING);
    let mut hasher = ContentHasher::new();
    hasher.update(text.join("\n").as_bytes());
    assert_eq!(golden.sha256(), hasher.finish());
}

#[test]
fn tools_and_schemas_have_a_hash() {
    let hash = |rest: &str| {
        let text = format!(
            r#"{{"id":"a","prompt":"p","scorers":[{{"kind":"schema","schema":{{}}}}],{rest}}}"#
        );
        let file = file(text);
        Golden::open(file.path()).unwrap().tools_hash().to_owned()
    };
    let schema = hash(r#""schema":{"type":"object"}"#);
    assert_ne!(schema, NOTHING);
    assert_ne!(schema, hash(r#""schema":{"type":"array"}"#));
    assert_ne!(hash(&format!(r#""tools":[{TOOL}]"#)), NOTHING);
}

#[test]
fn a_dataset_that_changes_meanwhile_is_told() {
    let line = |id: &str| {
        format!("{{\"id\":\"{id}\",\"prompt\":\"p\",\"expected\":1,\"check\":\"number\"}}\n")
    };
    let last = |text: &str| {
        let file = file([line("a"), line("b")].concat());
        let golden = Golden::open(file.path()).unwrap();
        std::fs::write(file.path(), text).unwrap();
        let read: Vec<Result<Item, GoldenError>> = golden.items(None).collect();
        (read.len(), read.into_iter().next_back().unwrap())
    };
    for changed in [
        line("a"),
        [line("a"), line("c")].concat(),
        [line("a"), line("b"), line("c")].concat(),
        [line("a"), "x\n".into()].concat(),
    ] {
        let (_, end) = last(&changed);
        assert!(matches!(end, Err(GoldenError::Changed { .. })), "{changed}");
    }
    let (count, end) = last(&[line("a"), line("b")].concat());
    assert_eq!((count, end.is_ok()), (2, true));
}

#[test]
fn a_limit_ends_early() {
    let line = |id: usize| {
        format!("{{\"id\":\"{id}\",\"prompt\":\"p\",\"expected\":1,\"check\":\"number\"}}\n")
    };
    let file = file((0..9).map(line).collect::<String>());
    let golden = Golden::open(file.path()).unwrap();
    for (limit, count) in [
        (Some(0), 0),
        (Some(4), 4),
        (Some(9), 9),
        (Some(99), 9),
        (None, 9),
    ] {
        assert_eq!(golden.items(limit).map(Result::unwrap).count(), count);
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_too_odd(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        let surroundings = Surroundings::new(PathBuf::new());
        let mut survey = Survey::new(Path::new("f"), &surroundings);
        let mut lines = Lines::new(&*bytes);
        while let Some((number, line)) = lines.next().unwrap() {
            survey.take(number, line);
        }
        let told = survey.count > 0 || !survey.faults.is_empty();
        proptest::prop_assert!(told || bytes.trim_ascii().is_empty() || bytes == b"\xEF\xBB\xBF");
    }

    #[test]
    fn no_value_of_a_key_is_too_odd(
        key in proptest::sample::select(vec![
            "id", "role", "prompt", "messages", "input", "expected", "check", "scorers", "tags",
            "schema", "tools", "tool_choice", "max_tokens",
        ]),
        kind in proptest::sample::select(Scorer::KINDS.to_vec()),
        value in crate::scorers::any_json(),
    ) {
        let surroundings = Surroundings::new(PathBuf::new());
        let mut item = serde_json::json!({
            "id": "a", "prompt": "p", "expected": value, "scorers": [{"kind": kind, "pattern": "a"}],
        });
        item[key] = value.clone();
        for item in [item, serde_json::json!({
            "id": "a", "prompt": "p", "expected": "x",
            "scorers": [{"kind": kind, "weight": value, "argv": value, "choices": value, "rubric": value,
                "role": value, "measure": value, "group": value, "abs": value, "schema": value}],
        })] {
            let line = item.to_string();
            let read = ItemReader::new(&surroundings).read(line.as_bytes(), 1, 0);
            if let Err(unread) = read {
                proptest::prop_assert!(!unread.faults.is_empty());
            }
        }
    }
}
