//! `evenkeel check --eol`: which models end their life.

use anyhow::Context as _;
use evenkeel::Settings;
use evenkeel::breaker::Backoff;
use evenkeel::roster::Severity;
use evenkeel_core::{Clock, SystemClock};
use evenkeel_gateway::{NotTaken, Webhook};
use evenkeel_qualify::{EolReport, ask_providers, json_hash};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct EolArgs {
    /// Says which models end their life, for a daily job; ends with 1 where one that is
    /// used is past its last day, with 2 where the configuration cannot be read or used.
    #[arg(long)]
    pub(crate) eol: bool,
    /// Asks the providers too what they say of their models, and compares.
    #[arg(long, requires = "eol")]
    online: bool,
    /// Prints one JSON object instead of lines.
    #[arg(long, requires = "eol")]
    pub(crate) json: bool,
    /// Posts the JSON there where there is something to look at, signed with the
    /// `webhook_secret` of `[alerts]` if there is one.
    #[arg(long, requires = "eol", value_name = "URL")]
    webhook: Option<String>,
    /// Posts it to the webhook of `[alerts]`.
    #[arg(long, requires = "eol", conflicts_with = "webhook")]
    alert: bool,
}

/// How long one post may take where the configuration does not say.
const POST: Duration = Duration::from_secs(10);
/// Posts before it is given up.
const TRIES: u32 = 3;
/// Waits before a post that was not taken is tried again.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(10),
};

/// Prints what is known of the ends of models' lives, and tells who is to be told.
pub(crate) async fn run(args: &EolArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let webhook = webhook(args, settings)?;
    let mut report = EolReport::of(settings.config(), settings.as_of());
    if args.online {
        let models: Vec<_> = report
            .models
            .iter()
            .map(|life| life.model.clone())
            .collect();
        report.compare(ask_providers(settings, models).await);
    }
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{:#}", report.to_json())?;
    } else {
        writeln!(out, "{report}")?;
    }
    if let Some(webhook) = webhook.filter(|_| report.severity().is_some()) {
        post(&webhook, &report)
            .await
            .context("the webhook was not told")?;
    }
    Ok(match report.severity() {
        Some(Severity::Error) => ExitCode::FAILURE,
        Some(Severity::Warning) | None => ExitCode::SUCCESS,
    })
}

fn webhook(args: &EolArgs, settings: &Settings) -> anyhow::Result<Option<Webhook>> {
    let configured = settings.config().alerts.webhook.as_ref();
    if let Some(url) = &args.webhook {
        let secret = configured.map(|webhook| &webhook.secret);
        let timeout = configured.map_or(POST, |webhook| webhook.timeout);
        let made = Webhook::at(url, secret, timeout).context("--webhook")?;
        return Ok(Some(made));
    }
    if !args.alert {
        return Ok(None);
    }
    let configured = configured.context("--alert: webhook_url is not set in [alerts]")?;
    let made = Webhook::new(configured).context("alerts.webhook_url")?;
    Ok(Some(made))
}

/// Posts the report; the same report of a day has the same id.
async fn post(webhook: &Webhook, report: &EolReport) -> Result<(), NotTaken> {
    let json = report.to_json();
    let since = SystemClock.now().duration_since(UNIX_EPOCH);
    let id = format!("evt_eol_{}_{:.12}", report.as_of, json_hash(&json));
    let body = json!({
        "id": id,
        "type": "model.eol",
        "created": since.unwrap_or_default().as_secs(),
        "report": json,
    });
    let body = body.to_string();
    let mut nth = 1;
    loop {
        match webhook.send(&id, &body).await {
            Err(_) if nth < TRIES => {
                tokio::time::sleep(BACKOFF.delay(nth, fastrand::f64())).await;
                nth += 1;
            }
            done => return done,
        }
    }
}
