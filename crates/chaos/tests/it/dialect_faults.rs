//! Every fault in every dialect: what it is told as, and in whose words.

use crate::client::Client;
use crate::dialects::{start, three};
use crate::ms;
use crate::spoken::{ask, hear, read, written};
use evenkeel_chaos::{Behaviour, Dialect, Fault, check_answer};
use evenkeel_core::{ChatRequest, Class, Finish, Scope};
use serde_json::json;
use std::time::Duration;

pub(crate) fn error_in_stream(code: Option<&str>, after: u32) -> Fault {
    Fault::ErrorInStream {
        after,
        code: code.map(str::to_owned),
        message: "no more of this".into(),
    }
}

/// A fault and the class it must be told as, by every dialect.
fn classes() -> Vec<(Fault, Class)> {
    vec![
        (Fault::status(400), Class::BadRequest),
        (Fault::status(401), Class::Auth),
        (Fault::status(402), Class::QuotaExhausted),
        (Fault::status(403), Class::Auth),
        (Fault::status(404), Class::ModelGone),
        (Fault::status(408), Class::Timeout),
        (Fault::status(409), Class::Transient),
        (Fault::status(413), Class::ContextWindow),
        (Fault::status(422), Class::BadRequest),
        (Fault::status(429), Class::RateLimited),
        (Fault::quota_exhausted(), Class::QuotaExhausted),
        (Fault::status(500), Class::Transient),
        (Fault::status(502), Class::Transient),
        (Fault::status(503), Class::Overloaded),
        (Fault::status(504), Class::Timeout),
        (Fault::status(529), Class::Overloaded),
        (Fault::context_window(), Class::ContextWindow),
        (Fault::Reset, Class::Transient),
        (Fault::Close, Class::Transient),
        (Fault::CutAfter(2), Class::Transient),
        (Fault::ResetAfter(2), Class::Transient),
        (Fault::EndAfter(2), Class::Transient),
        (Fault::FalseDoneAfter(2), Class::Transient),
        (error_in_stream(None, 0), Class::Transient),
        (error_in_stream(None, 2), Class::Transient),
        (error_in_stream(Some("overloaded"), 2), Class::Overloaded),
        (
            error_in_stream(Some("context_length_exceeded"), 0),
            Class::ContextWindow,
        ),
        (Fault::Html { status: 200 }, Class::Malformed),
        (Fault::Html { status: 502 }, Class::Transient),
        (Fault::ErrorIn200, Class::Transient),
    ]
}

#[tokio::test]
async fn every_fault_has_its_class_in_every_dialect() {
    let mut wrong = Vec::new();
    for dialect in Dialect::ALL {
        for (fault, class) in classes() {
            let upstream = start(three().with_fault(fault.clone()), dialect).await;
            for stream in [false, true] {
                let found = ask(&upstream, dialect, &ChatRequest::user("n1"), stream).await;
                let found = found.map_err(|failure| failure.class);
                if found != Err(class) {
                    wrong.push(format!(
                        "{dialect:?}, stream {stream}, {fault:?}: {found:?}"
                    ));
                }
            }
            let stats = upstream.stats();
            assert_eq!(
                (stats.failed, stats.started),
                (2, 2),
                "{dialect:?}, {fault:?}"
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn broken_and_empty_answers_are_told_from_whole_ones() {
    for dialect in Dialect::ALL {
        let fault = async |fault: Fault, stream| {
            let upstream = start(three().with_fault(fault), dialect).await;
            ask(&upstream, dialect, &ChatRequest::user("n1"), stream).await
        };
        for (nothing, stream, class) in [
            (Fault::TruncatedJson, false, Class::Malformed),
            (Fault::NoChoices, false, Class::Malformed),
            // A stream that ends before its answer is lost, whatever was in it.
            (Fault::NoChoices, true, Class::Transient),
        ] {
            let failure = fault(nothing, stream).await.unwrap_err();
            assert_eq!(failure.class, class, "{dialect:?}");
        }
        for stream in [false, true] {
            let empty = fault(Fault::Empty, stream).await.unwrap();
            let useless = empty.verify().unwrap_err();
            assert_eq!(useless.class, Class::Semantic, "{dialect:?}");
            let whole = fault(Fault::NoDone, stream).await.unwrap();
            assert_eq!(
                check_answer(&whole.plain_text(), 1, 3),
                Ok("p/m"),
                "{dialect:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_wait_stands_where_the_dialect_has_it() {
    for dialect in Dialect::ALL {
        let upstream = start(Behaviour::failing(Fault::rate_limited(ms(1_500))), dialect).await;
        let request = ChatRequest::user("n1");
        let heard = hear(&upstream, dialect, &request, false).await.unwrap();
        let header = heard.head.headers.get("retry-after").map(String::as_str);
        let failure = read(dialect, &heard, false).unwrap_err();
        let (expected, wait) = match dialect {
            Dialect::OpenAi => (Some("2"), ms(1_500)),
            Dialect::Gemini => (None, ms(1_500)),
            _ => (Some("2"), ms(2_000)),
        };
        assert_eq!(
            (header, failure.retry_after),
            (expected, Some(wait)),
            "{dialect:?}"
        );
        assert_eq!(failure.scope, Scope::Model, "{dialect:?}");
    }
}

#[tokio::test]
async fn errors_speak_the_dialects_words() {
    let shown = async |dialect, fault| {
        let upstream = start(Behaviour::failing(fault), dialect).await;
        let request = ChatRequest::user("n1");
        hear(&upstream, dialect, &request, false)
            .await
            .unwrap()
            .json()
    };
    let body = shown(Dialect::Anthropic, Fault::status(529)).await;
    assert_eq!(
        (&body["type"], &body["error"]["type"]),
        (&json!("error"), &json!("overloaded_error"))
    );
    assert!(body["request_id"].is_string());
    let body = shown(Dialect::Anthropic, Fault::context_window()).await;
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("prompt is too long: "), "{message}");
    let body = shown(Dialect::Gemini, Fault::rate_limited(Duration::from_secs(7))).await;
    assert_eq!(
        (&body["error"]["code"], &body["error"]["status"]),
        (&json!(429), &json!("RESOURCE_EXHAUSTED"))
    );
    let details = body["error"]["details"].as_array().unwrap();
    assert!(
        details.iter().any(|d| d["retryDelay"] == "7.000s"),
        "{details:?}"
    );
    let custom = Fault::Status {
        status: 400,
        code: Some("image_dimensions_too_large".into()),
        message: "too large".into(),
        retry_after: None,
    };
    let body = shown(Dialect::Anthropic, custom.clone()).await;
    assert_eq!(
        body["error"]["details"]["error_code"],
        "image_dimensions_too_large"
    );
    let body = shown(Dialect::Gemini, custom.clone()).await;
    assert_eq!(
        body["error"]["details"][0]["reason"],
        "image_dimensions_too_large"
    );
    let body = shown(Dialect::Mistral, custom).await;
    assert_eq!(body["code"], "image_dimensions_too_large");
    let body = shown(Dialect::Mistral, Fault::status(503)).await;
    assert_eq!(
        (&body["object"], &body["code"]),
        (&json!("error"), &json!("3505"))
    );
    let body = shown(Dialect::Mistral, Fault::status(401)).await;
    assert!(body["detail"].is_string());
}

/// Google's client takes every line for JSON.
#[tokio::test(start_paused = true)]
async fn signs_of_life_have_the_dialects_form() {
    let every = ms(500);
    for dialect in Dialect::ALL {
        let upstream = start(Behaviour::failing(Fault::KeepAlivesOnly { every }), dialect).await;
        let (path, body) = written(dialect, &ChatRequest::user("n1"), true);
        let mut client = Client::connect(&upstream).await;
        client.post(&path, &body).await;
        client.head().await.unwrap();
        let (opening, sign) = match dialect {
            Dialect::Anthropic => (true, "event: ping\ndata: {\"type\":\"ping\"}\n\n"),
            Dialect::Gemini => (false, "\r\n"),
            _ => (true, ": keep-alive\n\n"),
        };
        if opening {
            client.chunk().await.unwrap().unwrap();
        }
        for _ in 0..3 {
            let chunk = client.chunk().await.unwrap().unwrap();
            assert_eq!(String::from_utf8(chunk).unwrap(), sign, "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn an_endless_answer_goes_on_in_every_dialect() {
    for dialect in Dialect::ALL {
        let upstream = start(Behaviour::failing(Fault::Endless), dialect).await;
        for stream in [false, true] {
            let (path, body) = written(dialect, &ChatRequest::user("n1"), stream);
            let mut client = Client::connect(&upstream).await;
            client.post(&path, &body).await;
            client.head().await.unwrap();
            for _ in 0..1_000 {
                client.chunk().await.unwrap().unwrap();
            }
        }
        let stats = upstream.wait_until(|s| s.in_flight == 0).await;
        assert_eq!(stats.cancelled, 2, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_content_filter_ends_the_answer_in_the_dialects_words() {
    for (dialect, finish) in [
        (Dialect::OpenAi, Finish::ContentFilter),
        (Dialect::Anthropic, Finish::Refusal),
        (Dialect::Gemini, Finish::ContentFilter),
        (Dialect::Mistral, Finish::Stop),
    ] {
        let upstream = start(three().with_fault(Fault::FilteredAfter(2)), dialect).await;
        for stream in [false, true] {
            let answer = ask(&upstream, dialect, &ChatRequest::user("n1"), stream).await;
            let answer = answer.unwrap();
            let found = (answer.finish, answer.plain_text());
            assert_eq!(
                found,
                (finish, "[[p/m]] n1 t0 t1".to_owned()),
                "{dialect:?}"
            );
        }
    }
}

/// A piece that is no JSON stands between the first two tokens.
#[tokio::test]
async fn a_broken_piece_does_not_hide_the_rest_of_a_stream() {
    for dialect in Dialect::ALL {
        let upstream = start(three().with_fault(Fault::TruncatedJson), dialect).await;
        let answer = ask(&upstream, dialect, &ChatRequest::user("n1"), true).await;
        let text = answer.unwrap().plain_text();
        assert_eq!(check_answer(&text, 1, 3), Ok("p/m"), "{dialect:?}");
    }
}
