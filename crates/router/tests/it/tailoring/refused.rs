//! A provider refuses how it was asked for JSON.

use super::{Reply, always, asked, plain, says, stage};
use evenkeel_core::{ChatRequest, Class, Failure, Output, Tool};
use serde_json::json;

/// A schema whose bounds `OpenAI` takes and another server may not.
fn bounded() -> ChatRequest {
    ChatRequest {
        output: Output::JsonSchema {
            name: "r".into(),
            schema: json!({"type": "object", "additionalProperties": false,
                "required": ["n"],
                "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}}),
            strict: true,
            description: None,
        },
        ..ChatRequest::user("how many?")
    }
}

fn has_bounds(request: &ChatRequest) -> bool {
    matches!(&request.output, Output::JsonSchema { schema, .. }
        if schema["properties"]["n"].get("maximum").is_some())
}

#[tokio::test(start_paused = true)]
async fn a_schema_of_ours_that_is_refused_is_sent_in_the_words_all_take() {
    let particular: Reply = Box::new(|_, request| {
        if has_bounds(request) {
            let message = "Invalid schema for response_format: 'maximum' is not permitted";
            return Err(Failure::new(Class::BadRequest, message));
        }
        Ok(says("{\"n\":4}"))
    });
    let lenient = stage(
        vec![(particular, plain(0)), (always("x"), plain(1))],
        |_| {},
    );
    let answer = lenient.ask(bounded()).await.unwrap();
    assert_eq!(asked(&answer.trail), ["0 first bad_request", "0 retry won"]);
    assert!(has_bounds(&lenient.seen(0)[0]) && !has_bounds(&lenient.seen(0)[1]));
    // One that takes no schema of ours at all is left for the next rung.
    let never: Reply = Box::new(|_, _| {
        let message = "Invalid schema for response_format 'r'";
        Err(Failure::new(Class::BadRequest, message))
    });
    let next: Reply = Box::new(|_, _| Ok(says("{\"n\":4}")));
    let strict = stage(vec![(never, plain(0)), (next, plain(1))], |_| {});
    let answer = strict.ask(bounded()).await.unwrap();
    assert_eq!(
        asked(&answer.trail),
        [
            "0 first bad_request",
            "0 retry bad_request",
            "1 failover won"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_request_that_is_the_callers_goes_back_to_it() {
    let refuses: Reply =
        Box::new(|_, _| Err(Failure::new(Class::BadRequest, "temperature: 9 > 2")));
    let stage = stage(vec![(refuses, plain(0)), (always("x"), plain(1))], |_| {});
    let error = stage.ask(bounded()).await.unwrap_err();
    assert_eq!(error.kind.class(), Some(Class::BadRequest));
    assert_eq!(asked(&error.trail), ["0 first bad_request"]);
}

/// It takes tools, and a demand for JSON, and not both: the demand goes into the prompt,
/// from the next call on at once.
#[tokio::test(start_paused = true)]
async fn json_that_is_refused_beside_tools_is_asked_for_in_the_prompt() {
    let either: Reply = Box::new(|_, request| {
        if request.output != Output::Text && !request.tools.is_empty() {
            let message =
                "Function calling with a response mime type: 'application/json' is unsupported";
            return Err(Failure::new(Class::BadRequest, message));
        }
        Ok(says("{\"n\":4}"))
    });
    let stage = stage(vec![(either, plain(0)), (always("x"), plain(1))], |_| {});
    let tool = Tool {
        name: "find".into(),
        description: None,
        parameters: None,
        strict: None,
        extra: evenkeel_core::Extra::default(),
    };
    let both = ChatRequest {
        tools: vec![tool],
        ..bounded()
    };
    let answer = stage.ask(both.clone()).await.unwrap();
    assert_eq!(asked(&answer.trail), ["0 first bad_request", "0 retry won"]);
    assert_eq!(answer.response.plain_text(), "{\"n\":4}");
    let answer = stage.ask(both).await.unwrap();
    assert_eq!(asked(&answer.trail), ["0 first won"]);
    // Without tools it is demanded as before.
    stage.ask(bounded()).await.unwrap();
    let last = stage.seen(0).pop().unwrap();
    assert_ne!(last.output, Output::Text);
}
