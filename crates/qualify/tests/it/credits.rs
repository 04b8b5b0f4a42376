//! The scorers behind `check` give what `fixtures/golden/tools/score.py` gives.

use crate::datasets::folder;
use evenkeel_core::{ChatResponse, Extra, Finish, Part, ToolCall};
use evenkeel_qualify::{Golden, Item, ScoringContext, score};
use serde_json::Value;
use std::collections::HashMap;

/// `credits.jsonl`: the answers of `nb-7` to `classify-banking8`, and right, wrong and
/// broken answers to a sample of every dataset, each with the credit that score.py
/// gave it.
#[tokio::test]
async fn recorded_answers_score_what_they_were_credited_with() {
    let recorded = std::fs::read_to_string(folder().join("tools/credits.jsonl")).unwrap();
    let mut datasets: HashMap<String, HashMap<String, Item>> = HashMap::new();
    let (mut answers, mut right, mut in_part) = (0, 0, 0);
    for line in recorded.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let file = line["file"].as_str().unwrap();
        let items = datasets
            .entry(file.to_owned())
            .or_insert_with(|| items(file));
        let item = &items[line["id"].as_str().unwrap()];
        let answer = answer(&line["answer"]);
        let scored = score(item, &answer, &ScoringContext::default())
            .await
            .unwrap();
        let credit = line["credit"].as_f64().unwrap();
        assert!((scored.score - credit).abs() < 1e-12, "{line}: {scored:?}");
        answers += 1;
        right += usize::from(credit >= 1.0);
        in_part += usize::from(credit > 0.0 && credit < 1.0);
    }
    assert_eq!(datasets.len(), 6);
    assert!(
        answers > 800 && right > 400 && in_part > 30,
        "{answers} {right} {in_part}"
    );
}

fn items(file: &str) -> HashMap<String, Item> {
    let golden = Golden::open(folder().join(format!("{file}.jsonl"))).expect("a whole dataset");
    let items = golden.items(None).map(Result::unwrap);
    items.map(|item| (item.id.to_string(), item)).collect()
}

fn answer(recorded: &Value) -> ChatResponse {
    let mut parts = Vec::new();
    if let Some(text) = recorded["content"].as_str() {
        parts.push(Part::Text(text.to_owned()));
    }
    for call in recorded["tool_calls"].as_array().into_iter().flatten() {
        parts.push(Part::ToolCall(ToolCall {
            name: call[0].as_str().unwrap_or_default().to_owned(),
            arguments: call[1].as_str().unwrap_or_default().to_owned(),
            ..ToolCall::default()
        }));
    }
    ChatResponse {
        id: String::new(),
        model: String::new(),
        created: 0,
        parts,
        finish: Finish::Stop,
        usage: None,
        adapted: Vec::new(),
        rate_limits: None,
        extra: Extra::default(),
    }
}
