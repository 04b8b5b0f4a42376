//! `evenkeel serve`.

use super::hearers::Hearers;
use super::lines;
use super::signals::Signals;
use anyhow::Context as _;
use evenkeel::Settings;
use evenkeel_core::Observer;
use evenkeel_gateway::{HttpValidators, Limits, Server, Tickets, stale_scores};
use evenkeel_otel_emit::audit::FileSink;
use evenkeel_roster::{OnExhausted, RoleConfig};
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long calls may take to end that were cut by a second signal.
const CUT: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The config folder, or one `evenkeel.toml` with everything in it.
    #[arg(long, value_name = "PATH")]
    config: PathBuf,
    /// What to log, in the words of `RUST_LOG` [default: `EVENKEEL_LOG`, else `RUST_LOG`, else info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = lines::Format::Auto, value_name = "FORMAT")]
    log_format: lines::Format,
}

/// Serves until SIGTERM or SIGINT, then finishes the calls in flight. A
/// second signal ends it at once, but for a second or two in which what is known is
/// written and sent. SIGHUP reloads the configuration.
pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let filter = args.log.or_else(log_from_env);
    let lines = lines::start(filter.as_deref().unwrap_or("info"), args.log_format)?;
    let mut signals = Signals::new()?;
    let mut hangups = Hangups::new()?;
    let settings = Settings::load(&args.config)?;
    for warning in settings.warnings() {
        tracing::warn!(event = "config_warning", "{warning}");
    }
    for stale in stale_scores(&settings) {
        tracing::warn!(event = "config_warning", "{stale}");
    }
    let (hearers, observer) = Hearers::of(&settings)?;
    lines.count_on(hearers.losses());
    let validators = HttpValidators::new()?;
    let mut builder = settings
        .router_builder(observer.clone())?
        .http_validators(move |service| validators.validator(service));
    let tickets = open_tickets(&settings, observer, hearers.audit())?;
    if let Some(tickets) = &tickets {
        builder = builder.tickets(tickets.clone());
    }
    let router = builder.build()?;
    let server = Server::bind(&settings.config().server, router.clone(), Limits::default())?;
    let mut server = hearers.shown_by(server).reading(args.config, settings);
    let background = TaskTracker::new();
    let end = CancellationToken::new();
    if let Some(tickets) = tickets.clone() {
        for warning in tickets.strays(&router.roles()).await {
            tracing::warn!(event = "config_warning", "{warning}");
        }
        server = server.with_tickets(tickets.clone());
        let end = end.clone();
        background.spawn(async move { tickets.run(end).await });
    }
    announce(&server, router.roles().len());
    let (reloader, pusher) = (server.reloader(), server.pusher());
    // It has the server's parts, and they the observers: with the last of them it ends.
    let reloads = async move {
        loop {
            hangups.next().await;
            // The log says what came of it.
            let _ = reloader.reload("signal").await;
        }
    };
    let stop = CancellationToken::new();
    let cut = server.cut();
    let twice = async {
        signals.next().await;
        tracing::info!(
            event = "stopping",
            "no more calls are taken; those in flight are finished"
        );
        stop.cancel();
        signals.next().await;
    };
    let mut serving = pin!(server.run(stop.cancelled()));
    tokio::select! {
        () = &mut serving => {}
        () = twice => {
            tracing::warn!(event = "stopped", "stopped before the calls in flight were finished");
            // What is cut has an end too, and what is told of it is written and sent.
            cut.cancel();
            let _ = timeout(CUT, async {
                serving.await;
                router.shutdown().await;
            })
            .await;
            hearers.end_at_once(pusher.last_look().await).await;
            return Ok(ExitCode::FAILURE);
        }
        () = reloads => {}
        () = pusher.run() => {}
    }
    router.shutdown().await;
    let last = pusher.last_look().await;
    end.cancel();
    background.close();
    background.wait().await;
    if let Some(tickets) = tickets {
        tickets.close();
    }
    // With the router the logs end, and with them their writers, when all is written.
    drop(router);
    hearers.end(last).await;
    tracing::info!(event = "stopped", "stopped");
    Ok(ExitCode::SUCCESS)
}

/// Says where it listens.
fn announce(server: &Server, roles: usize) {
    tracing::info!(
        event = "listening",
        address = %server.local_addr(),
        roles,
        "evenkeel {} listens on http://{}",
        env!("CARGO_PKG_VERSION"),
        server.local_addr(),
    );
    if let Some(address) = server.admin_addr() {
        tracing::info!(
            event = "admin_listening",
            %address,
            "operators are served on http://{address}/admin/state"
        );
    }
}

/// The tickets of the state folder, where there is one. Where no role keeps calls, a gateway
/// serves as well without those that an earlier one kept.
fn open_tickets(
    settings: &Settings,
    observer: Arc<dyn Observer>,
    audit: Option<Arc<FileSink>>,
) -> anyhow::Result<Option<Arc<Tickets>>> {
    let Some(folder) = settings.state_dir() else {
        return Ok(None);
    };
    let config = settings.config();
    let opened = Tickets::open(&folder, &config.tickets, &config.server.meta_key, observer);
    let keeps = |role: &RoleConfig| role.policy.on_exhausted != OnExhausted::Error;
    let tickets = match opened {
        Ok(tickets) => tickets,
        Err(error) if error.is_of_the_disk() && !config.roles.values().any(keeps) => {
            tracing::warn!(
                event = "ticket_store_failed",
                doing = "open",
                %error,
                "served without tickets: no role keeps calls"
            );
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Some(Arc::new(match audit {
        Some(audit) => tickets.with_audit(audit),
        None => tickets,
    })))
}

/// Ours, else the one that Rust programs have.
fn log_from_env() -> Option<String> {
    let text = |name| std::env::var_os(name)?.into_string().ok();
    text("EVENKEEL_LOG").or_else(|| text("RUST_LOG"))
}

/// The signal that asks for the configuration to be read again.
struct Hangups {
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl Hangups {
    #[cfg(unix)]
    fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        Ok(Self { hangup })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        if self.hangup.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    #[cfg(not(unix))]
    fn new() -> anyhow::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}
