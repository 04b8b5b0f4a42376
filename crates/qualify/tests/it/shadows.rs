//! Pairs of shadowed calls, as the gateway writes them.

use async_trait::async_trait;
use evenkeel_core::{ChatRequest, ChatResponse, Extra, Finish, Output, Part, ToolCall};
use evenkeel_providers::wire::openai::{Options, encode_request, encode_response};
use evenkeel_qualify::{
    Golden, GoldenError, Judge, JudgeError, Resampling, ScoringContext, ShadowComparison,
    ShadowOptions, ShadowReport, ShadowVerdict, compare_shadows,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::NamedTempFile;

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

fn side(model: &str, said: Option<&ChatResponse>) -> Value {
    let mut side = json!({
        "model": model, "latency_ms": 120.5, "first_token_ms": 20.0, "input_tokens": 3, "output_tokens": 4,
        "cost_usd": 0.25, "cost_is_estimate": false, "finish": "stop", "text_bytes": 5, "tool_calls": 0,
        "is_valid": null, "error": null,
    });
    if let Some(said) = said {
        side["answer"] = encode_response(said, model);
    }
    side
}

/// A pair whose texts were kept.
fn kept(request: &ChatRequest, live: &ChatResponse, shadow: &ChatResponse) -> Value {
    json!({
        "at": "2026-11-29T10:00:00Z", "call": 7, "role": "r",
        "live": side("a/live", Some(live)), "shadow": side("b/next", Some(shadow)),
        "request": encode_request(request, "r", false, &Options::default()).body,
    })
}

fn says(live: &str, shadow: &str) -> Value {
    let text = |text: &str| answer(vec![Part::Text(text.into())]);
    kept(
        &ChatRequest::user("when is high tide?"),
        &text(live),
        &text(shadow),
    )
}

/// A pair of which only numbers were kept.
fn bare(live_is_valid: Value, shadow_is_valid: Value, error: Value) -> Value {
    let mut pair =
        json!({"role": "r", "live": side("a/live", None), "shadow": side("b/next", None)});
    pair["live"]["is_valid"] = live_is_valid;
    pair["shadow"]["is_valid"] = shadow_is_valid;
    pair["shadow"]["error"] = error;
    pair
}

fn file(lines: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), lines).expect("room for it");
    file
}

fn text(pairs: &[Value]) -> String {
    let lines: Vec<String> = pairs.iter().map(Value::to_string).collect();
    lines.join("\n") + "\n"
}

async fn compare(lines: &str, options: &ShadowOptions, context: &ScoringContext) -> ShadowReport {
    let file = file(lines);
    let files = [file.path().to_owned()];
    compare_shadows(&files, options, context)
        .await
        .expect("pairs")
}

/// The one comparison of the pairs, without scorers.
async fn one(pairs: &[Value]) -> ShadowComparison {
    let options = ShadowOptions::new(Resampling::new(1));
    let report = compare(&text(pairs), &options, &ScoringContext::default()).await;
    assert!(report.faults.is_empty(), "{report:?}");
    let [comparison] = report.comparisons.try_into().expect("one comparison");
    comparison
}

/// A dataset whose items share some scorers.
fn golden(scorers: &[Value]) -> Golden {
    let line = |id: &str, own: Value| {
        let scorers: Vec<Value> = scorers.iter().cloned().chain([own]).collect();
        json!({"id": id, "role": "r", "prompt": "p", "expected": "x", "scorers": scorers})
            .to_string()
    };
    let lines = [
        line("a", json!({"kind": "exact"})),
        line("b", json!({"kind": "regex", "pattern": "of b alone"})),
    ];
    let file = file(&lines.join("\n"));
    Golden::open(file.path()).expect("a whole dataset")
}

fn scored_by(golden: &Golden) -> ShadowOptions {
    let mut options = ShadowOptions::new(Resampling::new(1));
    options.scorers.insert("r".into(), golden.role_scorers("r"));
    options
}

#[tokio::test]
async fn one_that_says_the_same_is_equivalent_once_there_are_enough() {
    let same = vec![says("At noon.", "at noon"); 300];
    let all = one(&same).await;
    assert_eq!(all.verdict, ShadowVerdict::Equivalent, "{all:?}");
    assert!(all.verdict.may_cut_over());
    assert_eq!((all.pairs, all.unmeasured, all.unscored), (300, 0, 0));
    let few = one(&same[..10]).await;
    assert_eq!(few.verdict, ShadowVerdict::NotEnoughData, "{few:?}");
    let counts: Vec<u64> = ShadowVerdict::ALL.map(|v| all.counts.of(v)).to_vec();
    assert_eq!(counts.iter().sum::<u64>(), 300);
    assert!(counts[1] > 0 && counts[3] >= 10, "{counts:?}");
    assert_eq!(
        all.candidate_latency
            .total
            .expect("answers")
            .p50
            .as_millis(),
        120
    );
    assert_eq!(all.live_usd, Some(75.0));
}

#[tokio::test]
async fn one_that_says_something_else_is_not_judged_by_that() {
    let other = one(&vec![says("At noon.", "Ask again."); 300]).await;
    assert_eq!(other.verdict, ShadowVerdict::NotEnoughData);
    assert!(
        other
            .agreement
            .is_some_and(|agreement| agreement.upper < 0.05)
    );
}

#[tokio::test]
async fn scorers_that_all_items_share_say_who_is_better() {
    let golden = golden(&[json!({"kind": "regex", "pattern": "[0-9]{2}:[0-9]{2}"})]);
    assert_eq!(
        golden.role_scorers("r").len(),
        1,
        "not those of one item alone"
    );
    assert!(golden.role_scorers("other").is_empty());
    let options = scored_by(&golden);
    for (live, shadow, verdict) in [
        ("at 12:00", "at 12:10", ShadowVerdict::Equivalent),
        ("at 12:00", "at noon", ShadowVerdict::Worse),
        ("at noon", "at 12:00", ShadowVerdict::Better),
    ] {
        let pairs = vec![says(live, shadow); 200];
        let report = compare(&text(&pairs), &options, &ScoringContext::default()).await;
        let found = &report.comparisons[0];
        assert_eq!(found.verdict, verdict, "{found:?}");
        assert!(found.quality.is_some());
    }
}

/// Prefers answers with a time in them, wherever they stand.
#[derive(Debug)]
struct Timekeeper;

#[async_trait]
impl Judge for Timekeeper {
    async fn ask(&self, _: &str, prompt: String) -> Result<String, JudgeError> {
        let (first, second) = prompt.split_once("<second-").unwrap_or_default();
        let first = first.split("<first-").last().unwrap_or_default();
        if first.contains("broken") || second.contains("broken") {
            return Err(JudgeError::new("the judge is asleep"));
        }
        let grade = |text: &str| if text.contains("12:00") { 9 } else { 3 };
        Ok(json!({"first": grade(first), "second": grade(second)}).to_string())
    }
}

#[tokio::test]
async fn a_judge_reads_both_answers_at_once() {
    let golden =
        golden(&[json!({"kind": "judge", "role": "critic", "rubric": "is there a time?"})]);
    let options = scored_by(&golden);
    let context = ScoringContext {
        judge: Some(Arc::new(Timekeeper)),
        commands: None,
    };
    let mut pairs = vec![says("at noon", "at 12:00"); 100];
    pairs.push(says("broken", "at 12:00"));
    let report = compare(&text(&pairs), &options, &context).await;
    let found = &report.comparisons[0];
    let quality = found.quality.expect("judgements");
    assert!((quality.estimate - 0.6).abs() < 1e-9, "{found:?}");
    assert_eq!(found.verdict, ShadowVerdict::Better);
    assert_eq!((found.pairs, found.unscored), (101, 1));
    assert!(
        found
            .first_unscored
            .as_ref()
            .is_some_and(|why| why.contains("asleep"))
    );
}

#[tokio::test]
async fn calls_and_json_agree_by_what_they_say() {
    let call = |name: &str, arguments: &str| {
        Part::ToolCall(ToolCall {
            id: "c".into(),
            name: name.into(),
            arguments: arguments.into(),
            ..ToolCall::default()
        })
    };
    let request = ChatRequest::user("p");
    let live = answer(vec![call("f", r#"{"a":1,"b":2}"#), call("g", "{}")]);
    let other_order = answer(vec![call("g", ""), call("f", r#"{"b":2.0, "a":1}"#)]);
    let half = answer(vec![call("f", r#"{"a":1,"b":2}"#), call("h", "{}")]);
    let none = answer(vec![Part::Text("no".into())]);
    let mut json = ChatRequest::user("p");
    json.output = Output::JsonObject;
    let object = |text: &str| answer(vec![Part::Text(text.into())]);
    let (a, b) = (object(r#"{"a":1,"b":2}"#), object(r#"{"b":2,"a":3}"#));
    let refusal = answer(vec![Part::Refusal("No.".into())]);
    for (request, live, shadow, agreement) in [
        (&request, &live, &other_order, 1.0),
        (&request, &live, &half, 0.5),
        (&request, &live, &none, 0.0),
        (&json, &a, &b, 0.5),
        (&json, &a, &none, 0.0),
        (&request, &none, &refusal, 0.0),
        (&request, &refusal, &refusal, 1.0),
    ] {
        let found = one(&[kept(request, live, shadow)]).await.agreement;
        let estimate = found.expect("texts").estimate;
        assert!((estimate - agreement).abs() < 1e-12, "{live:?} {shadow:?}");
    }
}

#[tokio::test]
async fn without_texts_a_candidate_can_be_worse_and_never_good_enough() {
    let valid = vec![bare(json!(true), json!(true), json!(null)); 400];
    let all = one(&valid).await;
    assert_eq!(all.verdict, ShadowVerdict::NotEnoughData);
    assert!(all.compliance.is_some() && all.agreement.is_none() && all.quality.is_none());
    let mut invalid = valid.clone();
    invalid[..100].fill(bare(json!(true), json!(false), json!(null)));
    assert_eq!(one(&invalid).await.verdict, ShadowVerdict::Worse);
    let mut failing = valid.clone();
    failing[..100].fill(bare(json!(null), json!(null), json!("timeout")));
    let failing = one(&failing).await;
    assert_eq!(failing.verdict, ShadowVerdict::Worse);
    assert!(
        failing
            .answered
            .is_some_and(|answered| answered.upper < -0.1)
    );
    let mut limited = valid;
    limited[..100].fill(bare(json!(true), json!(null), json!("rate_limited")));
    let limited = one(&limited).await;
    assert_eq!((limited.pairs, limited.unmeasured), (300, 100));
    assert_eq!(limited.verdict, ShadowVerdict::NotEnoughData);
}

#[tokio::test]
async fn each_role_and_model_is_compared_for_itself() {
    let mut pairs = vec![says("a", "a"), says("a", "a"), says("a", "a")];
    pairs[1]["role"] = json!("s");
    pairs[2]["live"]["model"] = json!("a/other");
    let mut options = ShadowOptions::new(Resampling::new(1));
    let report = compare(&text(&pairs), &options, &ScoringContext::default()).await;
    let keys = report
        .comparisons
        .iter()
        .map(|c| (&*c.role, &*c.candidate, &*c.live));
    let expected = [
        ("r", "b/next", "a/live"),
        ("r", "b/next", "a/other"),
        ("s", "b/next", "a/live"),
    ];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    options.role = Some("s".into());
    let report = compare(&text(&pairs), &options, &ScoringContext::default()).await;
    assert_eq!(report.comparisons.len(), 1);
}

#[tokio::test]
async fn lines_that_are_no_pairs_are_told_and_a_torn_last_one_is_passed_over() {
    let pair = bare(json!(null), json!(null), json!(null));
    let mut no_model = pair.clone();
    no_model["live"]["model"] = json!("nothing");
    let mut no_class = pair.clone();
    no_class["shadow"]["error"] = json!("bad luck");
    let mut no_time = pair.clone();
    no_time["live"]["latency_ms"] = json!(-1);
    let mut no_request = pair.clone();
    no_request["request"] = json!({"model": "r", "messages": []});
    let lines =
        format!("{pair}\nx\n{{}}\n{no_model}\n{no_class}\n{no_time}\n{no_request}\n{{\"role\":");
    let file = file(&lines);
    let files = [file.path().to_owned()];
    let options = ShadowOptions::new(Resampling::new(1));
    let report = compare_shadows(&files, &options, &ScoringContext::default()).await;
    let report = report.expect("a pair among them");
    assert_eq!(report.comparisons[0].pairs, 1);
    let told = report.faults[0].to_string();
    let told = told.replace(&file.path().display().to_string(), "f");
    insta::assert_snapshot!(told);
}

#[tokio::test]
async fn a_file_without_a_pair_is_an_error() {
    let options = ShadowOptions::new(Resampling::new(1));
    let context = ScoringContext::default();
    let wrong = file("{\"id\":\"a\"}\n");
    let files = [wrong.path().to_owned()];
    let error = compare_shadows(&files, &options, &context)
        .await
        .unwrap_err();
    assert!(matches!(error, GoldenError::Faulty(_)), "{error}");
    let files = [PathBuf::from("/nowhere/r.jsonl")];
    let error = compare_shadows(&files, &options, &context)
        .await
        .unwrap_err();
    assert!(matches!(error, GoldenError::Unreadable { .. }), "{error}");
}
