//! What endpoints say of their models.

use crate::fixtures;
use crate::server::{Key, Server, ok, request, response, soon};
use evenkeel_core::{Class, Failure};
use evenkeel_providers::{Client, ClientConfig, ClientOptions, Dialect, Lifecycle, ListedModel};
use jiff::civil::date;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const CONNECT: Duration = Duration::from_secs(20);

/// The recorded list of that file's provider.
fn recorded(file: &str) -> String {
    let all = fixtures::all();
    let found = all.into_iter().find(|fixture| fixture.file == file);
    String::from_utf8(found.unwrap().bytes).unwrap()
}

/// A client of an endpoint that answers requests with `answers`, in turn; and what was
/// asked of it.
async fn asked(
    dialect: Dialect,
    base: &str,
    answers: Vec<Vec<u8>>,
) -> (Client, Arc<Mutex<Vec<String>>>, Server) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let server = Server::new(move |_, mut socket| {
        let (log, answers) = (Arc::clone(&log), Arc::clone(&answers));
        async move {
            while let Some(request) = request(&mut socket).await {
                log.lock().unwrap().push(request.head);
                let answer = answers.lock().unwrap().next().unwrap();
                socket.write_all(&answer).await.unwrap();
            }
        }
    })
    .await;
    let config = ClientConfig {
        dialect,
        base_url: format!("http://{}{base}", server.address),
        key: Arc::new(Key),
        propagate: true,
    };
    let client = Client::with_options(config, ClientOptions::default()).unwrap();
    (client, seen, server)
}

fn json(body: &str) -> Vec<u8> {
    ok("application/json", body)
}

fn lines(seen: &Mutex<Vec<String>>) -> Vec<String> {
    let seen = seen.lock().unwrap();
    let first = |head: &String| head.lines().next().unwrap().to_owned();
    seen.iter().map(first).collect()
}

async fn list(client: &Client) -> Result<Vec<ListedModel>, Failure> {
    soon(client.models(CONNECT)).await
}

#[tokio::test]
async fn each_dialect_lists_its_models_with_what_it_says_of_their_end() {
    for (dialect, base, file, path, expected) in [
        (
            Dialect::OpenAi,
            "/v1",
            "openai/models/list.json",
            "get /v1/models http/1.1",
            vec![
                ("fixture-1", Lifecycle::Active, None),
                ("fixture-0", Lifecycle::Deprecated, Some(date(2027, 1, 14))),
            ],
        ),
        (
            Dialect::Anthropic,
            "",
            "anthropic/models/list.json",
            "get /v1/models?limit=1000 http/1.1",
            vec![(
                "fixture-sonnet-1",
                Lifecycle::Deprecated,
                Some(date(2027, 3, 1)),
            )],
        ),
        (
            Dialect::Gemini,
            "",
            "gemini/models/list.json",
            "get /v1beta/models?pagesize=1000 http/1.1",
            vec![("fixture-flash", Lifecycle::Active, None)],
        ),
        (
            Dialect::OpenAi,
            "/v1",
            "vllm/models/list.json",
            "get /v1/models http/1.1",
            vec![("fixture-8b", Lifecycle::Active, None)],
        ),
        (
            Dialect::OpenAi,
            "/v1",
            "llamacpp/models/list.json",
            "get /v1/models http/1.1",
            vec![("fixture.gguf", Lifecycle::Active, None)],
        ),
    ] {
        let (client, seen, _server) = asked(dialect, base, vec![json(&recorded(file))]).await;
        let listed = list(&client).await.unwrap();
        let listed: Vec<_> = listed
            .iter()
            .map(|m| (m.id.as_str(), m.lifecycle, m.last_day))
            .collect();
        assert_eq!(listed, expected, "{file}");
        assert_eq!(lines(&seen), [path], "{file}");
        let head = seen.lock().unwrap()[0].clone();
        assert!(head.contains("sk-test-"), "{file}: {head}");
        assert!(!head.contains("content-type"), "{file}: {head}");
    }
}

#[tokio::test]
async fn a_list_in_pages_is_read_to_its_end() {
    let first = r#"{"data":[{"id":"a"}],"has_more":true,"last_id":"a b"}"#;
    let last = r#"{"data":[{"id":"c","lifecycle":"retired"}],"has_more":false,"last_id":"c"}"#;
    let (client, seen, _server) =
        asked(Dialect::Anthropic, "", vec![json(first), json(last)]).await;
    let listed = list(&client).await.unwrap();
    assert_eq!(listed[1].lifecycle, Lifecycle::Retired);
    assert_eq!(
        lines(&seen)[1],
        "get /v1/models?limit=1000&after_id=a%20b http/1.1"
    );
    let endless = r#"{"models":[],"nextPageToken":"again"}"#;
    let (client, seen, _server) = asked(Dialect::Gemini, "", vec![json(endless); 100]).await;
    assert_eq!(list(&client).await.unwrap(), []);
    assert_eq!(lines(&seen).len(), 64);
}

#[tokio::test]
async fn one_model_is_described_by_its_own_name() {
    let card = r#"{"type":"model","id":"m-1","lifecycle":"active","retires_at":null}"#;
    let (client, seen, _server) = asked(Dialect::Anthropic, "", vec![json(card)]).await;
    let found = soon(client.describe("m/1", CONNECT)).await.unwrap();
    assert_eq!((found.id.as_str(), found.last_day), ("m-1", None));
    assert_eq!(lines(&seen), ["get /v1/models/m%2f1 http/1.1"]);
    let gone = r#"{"error":{"message":"The model 'm' does not exist","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#;
    let gone = response(404, "content-type: application/json\r\n", gone.as_bytes());
    let (client, _, _server) = asked(Dialect::OpenAi, "/v1", vec![gone]).await;
    let failure = soon(client.describe("m", CONNECT)).await.unwrap_err();
    assert_eq!(failure.class, Class::ModelGone);
}

#[tokio::test]
async fn what_is_no_list_is_a_failure_and_not_an_empty_one() {
    for (body, class) in [
        ("<html>", Class::Malformed),
        ("{}", Class::Malformed),
        (
            r#"{"error":{"message":"x","code":"server_error"}}"#,
            Class::Transient,
        ),
    ] {
        let (client, _, _server) = asked(Dialect::OpenAi, "/v1", vec![json(body)]).await;
        assert_eq!(list(&client).await.unwrap_err().class, class, "{body}");
    }
    let vertex = "/v1/projects/p/locations/eu/publishers/google";
    let (client, seen, _server) = asked(Dialect::Gemini, vertex, Vec::new()).await;
    assert_eq!(list(&client).await.unwrap_err().class, Class::BadRequest);
    assert_eq!(lines(&seen), [""; 0]);
}
