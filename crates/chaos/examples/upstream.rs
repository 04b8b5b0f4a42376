//! An upstream for any client: every dialect on `PORT`, and on `PORT + 1`,
//! where `/v1/chat/completions` is Mistral's. The model's name says what
//! happens: `chat` answers, `status-503` fails so, and see below.
//!
//! ```sh
//! cargo run -p evenkeel-chaos --example upstream -- 18060
//! ```

use evenkeel_chaos::{Behaviour, Dialect, Fault, Upstream, UpstreamConfig};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What each model does. Any other name answers, too.
fn models() -> Vec<(String, Behaviour)> {
    let error = Fault::ErrorInStream {
        after: 3,
        code: Some("overloaded".to_owned()),
        message: "Overloaded".to_owned(),
    };
    let statuses = [
        400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529,
    ];
    let failing = |status| {
        (
            format!("status-{status}"),
            Behaviour::failing(Fault::status(status)),
        )
    };
    let thinking = Behaviour::default().with_reasoning(6).with_signature();
    let mut models: Vec<(String, Behaviour)> = statuses.into_iter().map(failing).collect();
    models.extend(
        [
            ("chat", Behaviour::default()),
            ("thinking", thinking.with_cached_tokens(4)),
            ("parallel", Behaviour::default().with_calls(2)),
            ("no-such-model-xyz", Behaviour::failing(Fault::status(404))),
            (
                "wait",
                Behaviour::failing(Fault::rate_limited(Duration::from_secs(7))),
            ),
            ("quota", Behaviour::failing(Fault::quota_exhausted())),
            (
                "context-window",
                Behaviour::failing(Fault::context_window()),
            ),
            ("error-in-stream", Behaviour::failing(error)),
            ("cut", Behaviour::failing(Fault::CutAfter(3))),
            ("hang", Behaviour::failing(Fault::Hang)),
            ("page", Behaviour::failing(Fault::Html { status: 502 })),
        ]
        .map(|(name, behaviour)| (name.to_owned(), behaviour)),
    );
    models
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args()
        .nth(1)
        .unwrap_or_default()
        .parse()
        .unwrap_or(18_060);
    let mut upstreams = Vec::new();
    for (port, dialect) in [(port, Dialect::OpenAi), (port + 1, Dialect::Mistral)] {
        let mut config = UpstreamConfig::named("chaos").with_dialect(dialect);
        config.bind = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let upstream = Upstream::start(config).await?;
        for (name, behaviour) in models() {
            upstream.set_model(&name, behaviour);
        }
        writeln!(
            std::io::stdout(),
            "{}: {}",
            upstream.base_url(),
            dialect.as_str()
        )?;
        upstreams.push(upstream);
    }
    // Until somebody ends the process.
    std::future::pending().await
}
