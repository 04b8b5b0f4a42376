//! Histories that go from Gemini to another provider and back: what is signed
//! goes to its own format only, what others made is sent with the placeholder.

use evenkeel_core::{ChatRequest, Part};
use evenkeel_providers::Server;
use evenkeel_providers::wire::{anthropic, gemini, openai};
use proptest::prelude::*;
use serde_json::{Value, json};

/// `skip_thought_signature_validator`, in base64.
const PLACEHOLDER: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

fn strict() -> gemini::Options {
    gemini::Options {
        needs_signatures: Some(true),
        ..gemini::Options::default()
    }
}

fn history(text: &str, city: &str, signature: &str) -> ChatRequest {
    let body = json!({"contents": [
        {"role": "user", "parts": [{"text": text}]},
        {"role": "model", "parts": [
            {"text": "moon", "thought": true},
            {"text": "Looking.", "thoughtSignature": format!("{signature}T")},
            {"functionCall": {"id": "c1", "name": "tide", "args": {"city": city}}, "thoughtSignature": format!("{signature}C")},
            {"functionCall": {"id": "c2", "name": "tide", "args": {}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "c1", "name": "tide", "response": {"output": "low"}}},
            {"functionResponse": {"id": "c2", "name": "tide", "response": {"error": "no station"}}},
        ]},
        {"role": "model", "parts": [{"text": "Low."}, {"text": "", "thoughtSignature": format!("{signature}E")}]},
        {"role": "user", "parts": [{"text": "And tomorrow?"}]},
    ]});
    gemini::decode_request("m", false, body.to_string().as_bytes())
        .unwrap()
        .request
}

/// The calls, results and plain texts: what every format can say.
fn gist(body: &Value) -> Vec<String> {
    let contents = body["contents"].as_array().unwrap();
    let parts = contents.iter().flat_map(|c| c["parts"].as_array().unwrap());
    parts
        .filter(|part| part.get("thought").is_none() && part["text"] != "")
        .map(|part| {
            let mut part = part.clone();
            part.as_object_mut().unwrap().remove("thoughtSignature");
            part.to_string()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn signatures_stay_at_home_and_calls_come_back_with_the_placeholder(
        text in "[a-z]{1,12}", city in "[a-z]{1,12}", signature in "SIG[a-zA-Z0-9]{8}",
    ) {
        let request = history(&text, &city, &signature);
        let home = gemini::encode_request(&request, "m", &strict()).body;
        prop_assert_eq!(home["contents"][1]["parts"][2]["thoughtSignature"].as_str(), Some(&*format!("{signature}C")));

        let options = anthropic::Options::default();
        let away = anthropic::encode_request(&request, "claude", false, &options).body.to_string();
        prop_assert!(!away.contains(&signature), "{}", away);
        let back = anthropic::decode_request(away.as_bytes()).unwrap().request;
        let returned = gemini::encode_request(&back, "m", &strict()).body;
        prop_assert_eq!(gist(&returned), gist(&home));
        prop_assert!(!returned.to_string().contains(&signature));
        let calls = returned["contents"][1]["parts"].as_array().unwrap();
        let signatures: Vec<&Value> = calls.iter().filter_map(|part| part.get("thoughtSignature")).collect();
        prop_assert_eq!(signatures, [PLACEHOLDER]);
    }

    #[test]
    fn no_server_of_another_kind_sees_a_signature(signature in "SIG[a-zA-Z0-9]{8}") {
        let request = history("q", "oslo", &signature);
        for server in [Server::OpenAi, Server::Azure, Server::Groq, Server::DeepSeek, Server::Ollama] {
            let options = openai::Options::of(server);
            let written = openai::encode_request(&request, "m", false, &options).body.to_string();
            prop_assert!(!written.contains(&signature), "{server:?}: {written}");
        }
    }

    /// A client that speaks `OpenAI`'s format carries the signatures of calls.
    #[test]
    fn a_client_of_another_format_brings_the_signatures_of_calls_back(signature in "SIG[a-zA-Z0-9]{8}") {
        let request = history("q", "oslo", &signature);
        let client = openai::encode_request(&request, "m", false, &openai::Options::default()).body.to_string();
        let back = openai::decode_request(client.as_bytes()).unwrap().request;
        let returned = gemini::encode_request(&back, "m", &strict()).body;
        let call = returned["contents"][1]["parts"]
            .as_array()
            .unwrap()
            .iter()
            .find(|part| part["functionCall"]["id"] == "c1")
            .unwrap();
        prop_assert_eq!(call["thoughtSignature"].as_str(), Some(&*format!("{signature}C")));
        prop_assert!(!returned.to_string().contains(PLACEHOLDER));
    }
}

#[test]
fn a_history_without_signatures_is_left_alone_where_none_are_needed() {
    let mut request = history("q", "oslo", "SIG");
    for message in &mut request.messages {
        message
            .parts
            .retain(|part| !matches!(part, Part::Reasoning(_)));
    }
    let written = gemini::encode_request(&request, "gemini-2.5-flash", &gemini::Options::default());
    assert!(!written.body.to_string().contains(PLACEHOLDER));
    assert!(written.adapted.is_empty());
}
