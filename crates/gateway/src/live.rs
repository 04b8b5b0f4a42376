//! The configuration that runs, and how another takes its place.

use crate::app::{App, Served};
use crate::trust::is_open;
use evenkeel::{Replaced, RouterError, Settings, SettingsError};
use evenkeel_core::{Clock, SystemClock};
use evenkeel_qualify::Staleness;
use evenkeel_roster::{
    AdminConfig, AlertsConfig, AuditConfig, ServerConfig, TelemetryConfig, TicketsConfig,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Where the configuration comes from, what of it runs, and what became of
/// the last one that was refused.
#[derive(Debug)]
pub(crate) struct Live {
    path: PathBuf,
    /// Where the server listens, whatever the files say by now.
    address: SocketAddr,
    /// What the files said of it when the server began.
    began: ServerConfig,
    /// What they said of the audit log then.
    audit: Option<AuditConfig>,
    /// What they said of kept calls then.
    tickets: TicketsConfig,
    /// What they said of telemetry then.
    telemetry: TelemetryConfig,
    /// Whom they had alerted then.
    alerts: AlertsConfig,
    /// Taken for a whole reload.
    running: tokio::sync::Mutex<Settings>,
    shown: Mutex<Shown>,
    applied: AtomicU64,
    refused: AtomicU64,
}

/// What operators are shown of it.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// SHA-256 of the files that run.
    pub(crate) hash: String,
    /// Since when they have run.
    pub(crate) loaded: SystemTime,
    /// When files were refused last, and why.
    pub(crate) refusal: Option<(SystemTime, Vec<String>)>,
}

impl Live {
    pub(crate) fn new(path: PathBuf, settings: Settings, address: SocketAddr) -> Self {
        Self {
            path,
            address,
            began: settings.config().server.clone(),
            audit: settings.config().audit.clone(),
            tickets: settings.config().tickets.clone(),
            telemetry: settings.config().telemetry.clone(),
            alerts: settings.config().alerts.clone(),
            shown: Mutex::new(Shown {
                hash: settings.hash().to_owned(),
                loaded: SystemClock.now(),
                refusal: None,
            }),
            running: tokio::sync::Mutex::new(settings),
            applied: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    pub(crate) fn path(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn shown(&self) -> Shown {
        let shown = self.shown.lock();
        shown.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reloads that took effect, and those that were refused.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (count(&self.applied), count(&self.refused))
    }

    fn show(&self, change: impl FnOnce(&mut Shown)) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut shown);
    }
}

/// What a reload changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reloaded {
    /// SHA-256 of the files that run now.
    pub hash: String,
    /// What became of the roles.
    pub roles: Replaced,
    /// What someone should look at: as `evenkeel check` says it, and what
    /// takes effect only with a restart.
    pub warnings: Vec<String>,
}

impl Reloaded {
    /// Warns in the log too.
    fn add(&mut self, warnings: Vec<String>) {
        for warning in &warnings {
            tracing::warn!(event = "config_warning", "{warning}");
        }
        self.warnings.extend(warnings);
    }
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The server was not started from files.
    #[error("this server was not started from a configuration folder")]
    NoFiles,
    /// The files cannot be read or used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A router cannot be made of them.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// Everyone in reach of the address could use the server.
    #[error(
        "server.client_keys: is empty, and the running server can be reached from other machines at {0}: \
         configure a key, or set server.allow_open = true"
    )]
    Open(SocketAddr),
    /// Reading them was broken off: the program ends.
    #[error("the files were not read to their end")]
    BrokenOff,
}

impl ReloadError {
    /// Each problem, as `evenkeel check` prints it.
    pub fn problems(&self) -> Vec<String> {
        match self {
            Self::Settings(SettingsError::Problems(problems)) => {
                problems.0.iter().map(ToString::to_string).collect()
            }
            Self::Router(RouterError::Router(error)) => vec![causes(error)],
            other => vec![other.to_string()],
        }
    }
}

/// An error with what is behind it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Reloads the configuration of a server; from
/// [`Server::reloader`](crate::Server::reloader).
#[derive(Debug, Clone)]
pub struct Reloader(pub(crate) Arc<App>);

impl Reloader {
    /// Reads the files again, and lets what they say take the place of what
    /// runs: whole and at once, or not at all. Calls under way finish on what
    /// they began with. Reloads that come together are done one after the
    /// other. Told to the log and the observer, in `operator`'s name.
    ///
    /// Cancel safe: dropped before its end it has changed nothing.
    ///
    /// # Errors
    /// [`ReloadError`]; what runs is as it was.
    pub async fn reload(&self, operator: &str) -> Result<Reloaded, ReloadError> {
        let Some(live) = self.0.live.get() else {
            return Err(ReloadError::NoFiles);
        };
        let mut running = live.running.lock().await;
        let path = live.path.clone();
        let read = tokio::task::spawn_blocking(move || Settings::load(path)).await;
        let read = read.map_err(|_| ReloadError::BrokenOff);
        let taken = read.and_then(|settings| self.take(live, settings?, &running, operator));
        match taken {
            Ok((settings, mut reloaded)) => {
                *running = settings;
                if let Some(tickets) = &self.0.tickets {
                    reloaded.add(tickets.strays(&self.0.router.roles()).await);
                }
                Ok(reloaded)
            }
            Err(error) => {
                refuse(live, &error);
                Err(error)
            }
        }
    }

    fn take(
        &self,
        live: &Live,
        settings: Settings,
        before: &Settings,
        operator: &str,
    ) -> Result<(Settings, Reloaded), ReloadError> {
        let server = &settings.config().server;
        if is_open(server, live.address) {
            return Err(ReloadError::Open(live.address));
        }
        let app = &self.0;
        let roles = settings.replace(before, &app.router)?;
        app.serve_as(Served::new(server));
        if let Some(alerts) = &app.alerts {
            alerts.replace(settings.config());
        }
        if let Some(metrics) = &app.metrics {
            metrics.replace(settings.config());
        }
        live.applied.fetch_add(1, Ordering::Relaxed);
        live.show(|shown| {
            settings.hash().clone_into(&mut shown.hash);
            shown.loaded = SystemClock.now();
        });
        app.router
            .operator(operator)
            .acted("reload", settings.hash());
        let warnings = settings.warnings().iter().map(ToString::to_string);
        let warnings: Vec<String> = warnings
            .chain(stale_scores(&settings))
            .chain(fixed(&live.began, server))
            .chain(fixed_audit(
                live.audit.as_ref(),
                settings.config().audit.as_ref(),
            ))
            .chain(fixed_tickets(&live.tickets, &settings.config().tickets))
            .chain(fixed_telemetry(
                &live.telemetry,
                &settings.config().telemetry,
            ))
            .chain(fixed_alerts(&live.alerts, &settings.config().alerts))
            .chain(roles.let_go.iter().map(|role| {
                format!("role `{role}`: the model it was forced to is gone; it is forced no more")
            }))
            .collect();
        tracing::info!(
            event = "config_reloaded",
            hash = settings.hash(),
            "the configuration is reloaded"
        );
        let hash = settings.hash().to_owned();
        let mut reloaded = Reloaded {
            hash,
            roles,
            warnings: Vec::new(),
        };
        reloaded.add(warnings);
        Ok((settings, reloaded))
    }
}

/// Scores of the roster that may not hold any more, as far as can be told without
/// reading golden datasets. They are no reason not to serve: the day on which a
/// measurement is too old must not be the day on which nothing starts.
pub fn stale_scores(settings: &Settings) -> Vec<String> {
    let found = Staleness::of(settings, settings.as_of());
    found.stale.iter().map(ToString::to_string).collect()
}

fn refuse(live: &Live, error: &ReloadError) {
    let problems = error.problems();
    live.refused.fetch_add(1, Ordering::Relaxed);
    for problem in &problems {
        tracing::error!(
            event = "config_refused",
            "{problem}; what ran before runs on"
        );
    }
    live.show(|shown| shown.refusal = Some((SystemClock.now(), problems)));
}

/// What stands for a setting that is not there.
const ABSENT: &str = "absent";

/// Settings that a running server cannot change.
fn fixed(old: &ServerConfig, new: &ServerConfig) -> Vec<String> {
    let listen = |admin: &Option<AdminConfig>| admin.as_ref().map(|a| a.listen.clone());
    let (before, after) = (listen(&old.admin), listen(&new.admin));
    let mut told = Vec::new();
    if old.listen != new.listen {
        told.push(restart("server.listen", &old.listen));
    }
    if before != after {
        let before = before.as_deref().unwrap_or(ABSENT);
        told.push(restart("server.admin.listen", before));
    }
    if old.state_dir != new.state_dir {
        let before = old.state_dir.as_ref().map(|folder| folder.display());
        let before = before.map_or_else(|| ABSENT.to_owned(), |folder| folder.to_string());
        told.push(restart("server.state_dir", &before));
    }
    told
}

/// The audit log is written as it was begun.
fn fixed_audit(old: Option<&AuditConfig>, new: Option<&AuditConfig>) -> Option<String> {
    (old != new).then(|| "audit: stays as it is until the program is started anew".to_owned())
}

/// Kept calls are told of as it was begun.
fn fixed_tickets(old: &TicketsConfig, new: &TicketsConfig) -> Option<String> {
    let stays = || "tickets: stay as they are until the program is started anew".to_owned();
    (!old.is_as(new)).then(stays)
}

/// Telemetry is sent as it was begun.
fn fixed_telemetry(old: &TelemetryConfig, new: &TelemetryConfig) -> Option<String> {
    let stays = || "telemetry: stays as it is until the program is started anew".to_owned();
    (!old.is_as(new)).then(stays)
}

/// Alerts go where they went.
fn fixed_alerts(old: &AlertsConfig, new: &AlertsConfig) -> Option<String> {
    let stays = || "alerts: go where they went until the program is started anew".to_owned();
    (!old.is_as(new)).then(stays)
}

fn restart(key: &str, running: &str) -> String {
    format!("{key}: stays {running} until the program is started anew")
}
