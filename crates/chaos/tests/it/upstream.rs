//! The server by itself, byte by byte: a fault that is not there at the socket
//! would let every test built on it pass (case C229).

use crate::client::{Client, End, chat, data, joined};
use crate::ms;
use evenkeel_chaos::{Behaviour, Fault, Latency, Stats, Upstream, UpstreamConfig, check_answer};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

async fn start(behaviour: Behaviour) -> Upstream {
    let config = UpstreamConfig::named("p")
        .with_seed(7)
        .with_behaviour(behaviour);
    Upstream::start(config).await.expect("a free port")
}

fn three_tokens() -> Behaviour {
    Behaviour::default().with_tokens(3)
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

#[tokio::test]
async fn whole_answers_are_complete_and_keep_the_connection() {
    let upstream = start(three_tokens()).await;
    let mut client = Client::connect(&upstream).await;
    for n in 1..=3 {
        let (head, body, end) = client.whole(&chat(&format!("n{n}"), false)).await.unwrap();
        assert_eq!((head.status, end), (200, End::Whole));
        let body = parsed(&body);
        let text = body["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!(check_answer(text, n, 3), Ok("p/m"));
        assert_eq!(body["choices"][0]["finish_reason"], "stop");
        assert_eq!(body["usage"]["completion_tokens"], 3);
        assert_eq!(
            (&body["object"], &body["model"]),
            (&json!("chat.completion"), &json!("m"))
        );
    }
    let seen = upstream.requests();
    assert!(
        seen.iter()
            .all(|r| r.connection == 1 && r.model == "m" && !r.stream)
    );
    assert_eq!(seen[0].headers["x-trace"], "abc");
    assert_eq!(seen[2].body, chat("n3", false));
    let expected = Stats {
        started: 3,
        ok: 3,
        ..Stats::default()
    };
    assert_eq!(upstream.stats(), expected);
    upstream.stop().await;
}

/// Case C229: chunks leave when they are due, each by itself, without a length.
#[tokio::test(start_paused = true)]
async fn a_stream_leaves_token_by_token_and_not_in_one_piece() {
    let behaviour = Behaviour::healthy(Latency::millis(50))
        .with_tokens(3)
        .with_inter_token(ms(300));
    let upstream = start(behaviour).await;
    let mut client = Client::connect(&upstream).await;
    let begun = Instant::now();
    client.ask(&chat("n5", true)).await;
    let head = client.head().await.unwrap();
    assert!(!head.headers.contains_key("content-length"));
    assert_eq!(head.headers["transfer-encoding"], "chunked");
    let (chunks, end) = client.chunks().await;
    assert_eq!(end, End::Whole);
    let content: Vec<_> = chunks
        .iter()
        .filter(|c| !joined(&[data(&c.1)]).is_empty())
        .collect();
    assert_eq!(content.len(), 3);
    for (n, due) in [50, 350, 650].into_iter().enumerate() {
        let came = content[n].0 - begun;
        assert!(
            came >= ms(due) && came < ms(due + 50),
            "token {n} after {came:?}"
        );
    }
    let events: Vec<String> = chunks.iter().map(|c| data(&c.1)).collect();
    assert_eq!(check_answer(&joined(&events), 5, 3), Ok("p/m"));
    assert_eq!(events.last().unwrap(), "[DONE]");
    let finish = parsed(events[events.len() - 2].as_bytes());
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
}

#[tokio::test(start_paused = true)]
async fn headers_come_at_once_or_with_the_first_token() {
    for (behaviour, due) in [
        (Behaviour::healthy(Latency::millis(700)), 0),
        (
            Behaviour::healthy(Latency::millis(700)).with_late_open(),
            700,
        ),
    ] {
        let upstream = start(behaviour).await;
        let mut client = Client::connect(&upstream).await;
        let begun = Instant::now();
        client.ask(&chat("n1", true)).await;
        client.head().await.unwrap();
        let came = begun.elapsed();
        assert!(came >= ms(due) && came < ms(due + 50), "{came:?}");
    }
}

#[tokio::test]
async fn usage_is_streamed_only_where_it_was_asked_for() {
    let upstream = start(three_tokens()).await;
    let mut client = Client::connect(&upstream).await;
    let (plain, _) = client.stream(&chat("n1", true)).await.unwrap();
    assert!(!plain.iter().any(|e| e.contains("completion_tokens")));
    let mut asked = chat("n1", true);
    asked["stream_options"] = json!({"include_usage": true});
    let (events, _) = client.stream(&asked).await.unwrap();
    let usage = parsed(events[events.len() - 2].as_bytes());
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], 3);
}

/// Case C230.
#[tokio::test]
async fn any_text_arrives_as_it_is() {
    let text = "line one\nline \"two\"\\ \u{2028} 🙂";
    let upstream = start(Behaviour::default().with_text(text)).await;
    let mut client = Client::connect(&upstream).await;
    let (_, body, _) = client.whole(&chat("n1", false)).await.unwrap();
    assert_eq!(parsed(&body)["choices"][0]["message"]["content"], text);
    let (events, end) = client.stream(&chat("n1", true)).await.unwrap();
    assert_eq!((joined(&events).as_str(), end), (text, End::Whole));
    let (done, json) = events.split_last().unwrap();
    assert_eq!(done, "[DONE]");
    assert!(
        json.iter()
            .all(|e| serde_json::from_str::<Value>(e).is_ok())
    );
}

/// Case C231.
#[tokio::test]
async fn an_output_cap_is_honoured_and_reported_as_length() {
    let upstream = start(Behaviour::default().with_text("one two three four five")).await;
    let mut client = Client::connect(&upstream).await;
    for key in ["max_tokens", "max_completion_tokens"] {
        let mut asked = chat("Say hi", false);
        asked[key] = json!(3);
        let (_, body, _) = client.whole(&asked).await.unwrap();
        let body = parsed(&body);
        assert_eq!(body["choices"][0]["message"]["content"], "one two three");
        assert_eq!(body["choices"][0]["finish_reason"], "length");
        assert_eq!(body["usage"]["completion_tokens"], 3);
        asked["stream"] = json!(true);
        let (events, _) = client.stream(&asked).await.unwrap();
        assert_eq!(joined(&events), "one two three");
        let finish = parsed(events[events.len() - 2].as_bytes());
        assert_eq!(finish["choices"][0]["finish_reason"], "length");
    }
}

#[tokio::test]
async fn an_error_status_carries_its_code_and_the_wait() {
    let wait = ms(1_500);
    let upstream = start(Behaviour::failing(Fault::rate_limited(wait))).await;
    let mut client = Client::connect(&upstream).await;
    for stream in [false, true] {
        let (head, body, _) = client.whole(&chat("n1", stream)).await.unwrap();
        assert_eq!(head.status, 429);
        assert_eq!(head.headers["retry-after"], "2");
        assert_eq!(head.headers["retry-after-ms"], "1500");
        assert_eq!(parsed(&body)["error"]["code"], "rate_limit_exceeded");
    }
    upstream.set(three_tokens());
    let (head, ..) = client.whole(&chat("n1", false)).await.unwrap();
    assert_eq!(head.status, 200, "switched on a standing connection");
    let stats = upstream.stats();
    assert_eq!((stats.failed, stats.ok), (2, 1));
}

#[tokio::test]
async fn bodies_that_are_no_answer() {
    let raw = Fault::Raw {
        status: 200,
        content_type: "application/json".into(),
        body: vec![0x7b, 0xc3, 0x28, 0x7d],
    };
    let shown = async |fault: Fault| {
        let upstream = start(three_tokens().with_fault(fault)).await;
        let mut client = Client::connect(&upstream).await;
        let (head, body, end) = client.whole(&chat("n1", false)).await.unwrap();
        assert_eq!(end, End::Whole);
        assert_eq!(upstream.stats().failed, 1);
        (head, body)
    };
    let (head, body) = shown(Fault::Html { status: 502 }).await;
    assert_eq!(
        (head.status, head.headers["content-type"].as_str()),
        (502, "text/html")
    );
    assert!(body.starts_with(b"<html>"));
    let (head, body) = shown(Fault::ErrorIn200).await;
    assert_eq!(
        (head.status, &parsed(&body)["error"]["code"]),
        (200, &json!(502))
    );
    let (_, body) = shown(Fault::NoChoices).await;
    assert_eq!(parsed(&body)["choices"], json!([]));
    let (_, body) = shown(Fault::Empty).await;
    assert_eq!(parsed(&body)["choices"][0]["message"]["content"], "");
    let (_, body) = shown(Fault::TruncatedJson).await;
    assert!(serde_json::from_slice::<Value>(&body).unwrap_err().is_eof());
    for fault in [Fault::EndAfter(1), Fault::FalseDoneAfter(1)] {
        let (_, body) = shown(fault).await;
        let choice = &parsed(&body)["choices"][0];
        assert_eq!(choice["finish_reason"], Value::Null);
        assert_eq!(choice["message"]["content"], "[[p/m]] n1 t0");
    }
    let (_, body) = shown(Fault::ErrorInStream {
        after: 1,
        code: None,
        message: "x".into(),
    })
    .await;
    assert_eq!(parsed(&body)["error"]["message"], "x");
    let (_, body) = shown(raw).await;
    assert_eq!(body, b"{\xc3\x28}");
}

#[tokio::test]
async fn a_gzip_bomb_unpacks_to_256_mebibytes() {
    let upstream = start(Behaviour::failing(Fault::GzipBomb)).await;
    let mut client = Client::connect(&upstream).await;
    let (head, body, end) = client.whole(&chat("n1", false)).await.unwrap();
    assert_eq!(
        (head.headers["content-encoding"].as_str(), end),
        ("gzip", End::Whole)
    );
    assert!(body.len() < 400_000);
    let mut unpacked = flate2::read::GzDecoder::new(&*body);
    let (mut piece, mut total) = (vec![0; 1 << 20], 0_u64);
    loop {
        match unpacked.read(&mut piece).expect("a valid gzip file") {
            0 => break,
            n => total += n as u64,
        }
    }
    assert_eq!(total, 256 << 20);
}

#[tokio::test]
async fn connections_end_before_an_answer() {
    for (fault, end) in [(Fault::Reset, End::Reset), (Fault::Close, End::Closed)] {
        for stream in [false, true] {
            let upstream = start(Behaviour::failing(fault.clone())).await;
            let mut client = Client::connect(&upstream).await;
            client.ask(&chat("n1", stream)).await;
            assert_eq!(client.head().await.unwrap_err(), end, "{fault:?}");
            assert_eq!(upstream.stats().failed, 1);
        }
    }
}

#[tokio::test]
async fn streams_break_off_after_their_tokens() {
    for (fault, end) in [
        (Fault::CutAfter(2), End::Closed),
        (Fault::ResetAfter(2), End::Reset),
        (Fault::EndAfter(2), End::Whole),
    ] {
        let upstream = start(three_tokens().with_fault(fault.clone())).await;
        let mut client = Client::connect(&upstream).await;
        let (events, got) = client.stream(&chat("n1", true)).await.unwrap();
        assert_eq!(got, end, "{fault:?}");
        assert_eq!(joined(&events), "[[p/m]] n1 t0 t1", "{fault:?}");
        let all = events.concat();
        assert!(
            !all.contains("\"stop\"") && !all.contains("[DONE]"),
            "{fault:?}"
        );
        assert_eq!(upstream.stats().failed, 1);
    }
}

#[tokio::test]
async fn whole_answers_break_off_within_their_body() {
    for (fault, end) in [
        (Fault::CutAfter(2), End::Closed),
        (Fault::ResetAfter(2), End::Reset),
        (Fault::CutAfter(99), End::Closed),
    ] {
        let upstream = start(three_tokens().with_fault(fault.clone())).await;
        let mut client = Client::connect(&upstream).await;
        let (head, body, got) = client.whole(&chat("n1", false)).await.unwrap();
        assert_eq!(got, end, "{fault:?}");
        let declared: usize = head.headers["content-length"].parse().unwrap();
        assert!(
            !body.is_empty() && body.len() < declared,
            "{fault:?}: {} of {declared}",
            body.len()
        );
    }
}

#[tokio::test]
async fn streams_that_end_in_good_order_and_are_not_right() {
    let shown = async |fault: Fault| {
        let upstream = start(three_tokens().with_fault(fault)).await;
        let mut client = Client::connect(&upstream).await;
        let (events, end) = client.stream(&chat("n1", true)).await.unwrap();
        assert_eq!(end, End::Whole);
        let stats = upstream.stats();
        upstream.set(three_tokens());
        let (next, _) = client.stream(&chat("n1", true)).await.unwrap();
        assert_eq!(next.last().unwrap(), "[DONE]", "the connection goes on");
        (events, stats)
    };
    let (events, stats) = shown(Fault::FalseDoneAfter(2)).await;
    assert_eq!(events.last().unwrap(), "[DONE]");
    assert!(!events.concat().contains("\"stop\""));
    assert_eq!(stats.failed, 1);
    let (events, stats) = shown(Fault::NoDone).await;
    assert!(events.last().unwrap().contains("\"stop\""));
    assert_eq!(stats.ok, 1);
    let code = Some("overloaded".to_owned());
    let fault = Fault::ErrorInStream {
        after: 1,
        code,
        message: "busy".into(),
    };
    let (events, _) = shown(fault).await;
    assert_eq!(joined(&events), "[[p/m]] n1 t0");
    assert_eq!(
        parsed(events.last().unwrap().as_bytes())["error"]["code"],
        "overloaded"
    );
    let (events, _) = shown(Fault::NoChoices).await;
    assert!(events.iter().any(|e| e.contains("\"choices\":[]")));
    assert_eq!(joined(&events), "");
    let (events, _) = shown(Fault::Empty).await;
    assert_eq!((joined(&events).as_str(), events.len()), ("", 3));
    let (events, _) = shown(Fault::TruncatedJson).await;
    assert_eq!(check_answer(&joined(&events), 1, 3), Ok("p/m"));
    let broken = events
        .iter()
        .filter(|e| serde_json::from_str::<Value>(e).is_err());
    assert_eq!(broken.count(), 2, "the broken event and [DONE]");
}

#[tokio::test(start_paused = true)]
async fn silence_lasts_until_the_caller_leaves() {
    for (fault, stream, tokens) in [
        (Fault::Hang, false, None),
        (Fault::Hang, true, None),
        (Fault::StallAfter(2), false, Some("")),
        (Fault::StallAfter(2), true, Some("[[p/m]] n1 t0 t1")),
    ] {
        let upstream = start(three_tokens().with_fault(fault.clone())).await;
        let mut client = Client::connect(&upstream).await;
        client.ask(&chat("n1", stream)).await;
        let mut text = String::new();
        if let Some(tokens) = tokens {
            client.head().await.unwrap();
            while text != tokens {
                let chunk = client.chunk().await.unwrap().unwrap();
                text += &joined(&[data(&String::from_utf8(chunk).unwrap())]);
            }
        } else {
            upstream.wait_until(|s| s.in_flight == 1).await;
        }
        let more = timeout(Duration::from_secs(3_600), client.head()).await;
        assert!(more.is_err(), "{fault:?}, stream {stream}: {more:?}");
        assert_eq!(upstream.stats().in_flight, 1);
        drop(client);
        let stats = upstream.wait_until(|s| s.in_flight == 0).await;
        assert_eq!((stats.cancelled, stats.failed), (1, 0), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn keep_alives_are_comments_or_blank_lines() {
    let every = ms(500);
    let upstream = start(Behaviour::failing(Fault::KeepAlivesOnly { every })).await;
    for (stream, wanted) in [(true, ": keep-alive\n\n"), (false, "\n")] {
        let mut client = Client::connect(&upstream).await;
        client.ask(&chat("n1", stream)).await;
        client.head().await.unwrap();
        if stream {
            assert!(client.chunk().await.unwrap().is_some(), "the role");
        }
        for _ in 0..3 {
            let chunk = client.chunk().await.unwrap().unwrap();
            assert_eq!(String::from_utf8(chunk).unwrap(), wanted);
        }
    }
}

#[tokio::test]
async fn an_endless_answer_goes_on_until_the_caller_leaves() {
    let upstream = start(Behaviour::failing(Fault::Endless)).await;
    for stream in [true, false] {
        let mut client = Client::connect(&upstream).await;
        client.ask(&chat("n1", stream)).await;
        client.head().await.unwrap();
        for _ in 0..10_000 {
            client.chunk().await.unwrap().unwrap();
        }
    }
    let stats = upstream.wait_until(|s| s.in_flight == 0).await;
    assert_eq!(stats.cancelled, 2);
}

/// A caller that leaves while it waits is seen at once, whatever the call waits for.
#[tokio::test]
async fn a_caller_that_leaves_is_seen_within_a_hundred_milliseconds() {
    let slow = Behaviour::healthy(Latency::Fixed(Duration::from_secs(3_600)));
    let dripping = three_tokens().with_inter_token(Duration::from_secs(3_600));
    for (behaviour, stream) in [
        (slow.clone(), false),
        (slow.clone(), true),
        (slow.with_late_open(), true),
        (dripping, true),
    ] {
        let upstream = start(behaviour).await;
        let mut client = Client::connect(&upstream).await;
        client.ask(&chat("n1", stream)).await;
        upstream.wait_until(|s| s.in_flight == 1).await;
        drop(client);
        let seen = timeout(ms(100), upstream.wait_until(|s| s.cancelled == 1)).await;
        assert_eq!(seen.expect("seen in time").in_flight, 0);
    }
}

async fn refused(upstream: &Upstream) -> bool {
    match TcpStream::connect(upstream.address()).await {
        Ok(_) => false,
        Err(e) => e.kind() == ErrorKind::ConnectionRefused,
    }
}

#[tokio::test]
async fn the_port_closes_and_opens_again_as_the_same() {
    let upstream = start(Behaviour::failing(Fault::Hang)).await;
    let url = upstream.base_url();
    for _ in 0..3 {
        let mut client = Client::connect(&upstream).await;
        client.ask(&chat("n1", false)).await;
        upstream.wait_until(|s| s.in_flight == 1).await;
        upstream.down().await;
        assert!(refused(&upstream).await);
        assert!(client.head().await.is_err(), "the connection is cut");
        assert_eq!(upstream.stats().in_flight, 0);
        upstream.up().await.expect("the port is still ours");
        assert!(!refused(&upstream).await);
    }
    assert_eq!(upstream.base_url(), url);
    let stats = upstream.stats();
    assert_eq!((stats.started, stats.failed), (3, 3));
}

#[tokio::test]
async fn refusing_closes_the_port_until_another_behaviour_is_set() {
    let upstream = start(Behaviour::failing(Fault::Refuse)).await;
    assert!(refused(&upstream).await, "from the start");
    upstream.set(three_tokens());
    // The accepting task runs on this thread: one turn and the order is carried out.
    tokio::task::yield_now().await;
    let mut client = Client::connect(&upstream).await;
    assert!(client.whole(&chat("n1", false)).await.is_ok());
    upstream.set(Behaviour::failing(Fault::Refuse));
    tokio::task::yield_now().await;
    assert!(refused(&upstream).await);
    upstream.down().await;
    upstream.set(three_tokens());
    tokio::task::yield_now().await;
    assert!(refused(&upstream).await, "down counts until up");
    upstream.up().await.unwrap();
    assert!(!refused(&upstream).await);
}

#[tokio::test]
async fn models_may_differ_in_behaviour() {
    let upstream = start(three_tokens()).await;
    upstream.set_model("sick", Behaviour::failing(Fault::status(500)));
    let mut client = Client::connect(&upstream).await;
    let mut sick = chat("n1", false);
    sick["model"] = json!("sick");
    assert_eq!(client.whole(&sick).await.unwrap().0.status, 500);
    assert_eq!(
        client.whole(&chat("n1", false)).await.unwrap().0.status,
        200
    );
    let stats = upstream.stats();
    assert_eq!((stats.started, stats.ok, stats.failed), (2, 1, 1));
    client.send(b"GET /v1/models HTTP/1.1\r\n\r\n").await;
    let head = client.head().await.unwrap();
    let list = parsed(&client.sized(&head).await.0);
    assert_eq!(list["data"][0]["id"], "sick");
}

#[tokio::test]
async fn requests_that_are_none_are_refused_and_not_counted() {
    let upstream = start(three_tokens()).await;
    let post = |body: &str| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for (request, status) in [
        (post("{not json"), 400),
        (
            post("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"),
            400,
        ),
        (post("{\"model\":\"m\",\"messages\":[]}"), 400),
        (
            post("{\"model\":\"m\",\"messages\":[{\"role\":\"boss\",\"content\":\"x\"}]}"),
            400,
        ),
        (
            post("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":7}]}"),
            400,
        ),
        ("POST /v1/nothing HTTP/1.1\r\n\r\n".to_owned(), 404),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 404),
        ("no HTTP at all\r\n\r\n".to_owned(), 400),
    ] {
        let mut client = Client::connect(&upstream).await;
        client.send(request.as_bytes()).await;
        let head = client.head().await.unwrap();
        assert_eq!(head.status, status, "{request}");
        let body = parsed(&client.sized(&head).await.0);
        assert!(body["error"]["message"].is_string(), "{request}");
    }
    assert_eq!(upstream.stats(), Stats::default());
}

#[tokio::test]
async fn nothing_is_left_when_it_is_dropped() {
    let upstream = start(Behaviour::failing(Fault::Hang)).await;
    let address = upstream.address();
    let mut client = Client::connect(&upstream).await;
    client.ask(&chat("n1", false)).await;
    upstream.wait_until(|s| s.in_flight == 1).await;
    drop(upstream);
    assert!(client.head().await.is_err(), "the connection is cut");
    let error = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}
