//! Five hundred streams at a time for minutes, over loopback sockets, while what
//! the upstreams do changes every second; some callers leave in the middle.
//!
//! `cargo run --release -p evenkeel-gateway --example soak -- [MINUTES] [STREAMS]`
//! prints one JSON line and fails where memory grows, a task, a socket or a call is
//! left over, or a request has not exactly one sound outcome. `cargo xtask soak`
//! runs it. With a third argument, `observed`, the second is requests a second; traces,
//! metrics and the audit log are on, and it fails too where the log does not verify or
//! disagrees with the metrics.

mod callers;
mod collector;
mod faults;
mod gauge;
mod observed;

use anyhow::{Context, ensure};
use callers::{Callers, Outcomes};
use collector::Receiver;
use evenkeel::Settings;
use evenkeel_chaos::{Upstream, UpstreamConfig};
use evenkeel_core::{Event, EventKind, Observer};
use evenkeel_gateway::{Limits, Server};
use gauge::{Gauge, Series};
use observed::Watch;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// When there are as many connections and windows as there will be.
const WARM: Duration = Duration::from_secs(60);
/// When the allocator has the pages that it will keep: those of the fullest moment of each of
/// its arenas, for which some minutes have to pass.
const SETTLED: Duration = Duration::from_secs(180);
/// Memory may grow by a tenth and this much after that: what a few more open connections
/// take, and an answer that unpacks to its limit.
const SLACK_BYTES: u64 = 16 * 1024 * 1024;
/// Memory in use when all is over, beyond that at the beginning: what is made once.
const KEPT_BYTES: u64 = 1024 * 1024;
/// How long calls in flight may go on when nobody begins one any more.
const DRAIN: Duration = Duration::from_secs(20);

/// Calls and attempts that began and ended.
#[derive(Debug, Default)]
struct Counts {
    calls: [AtomicU64; 2],
    attempts: [AtomicU64; 2],
    moves: AtomicU64,
    breakers: AtomicU64,
    hedges: AtomicU64,
}

impl Observer for Counts {
    fn on(&self, event: &Event) {
        match event.kind {
            EventKind::CallStarted { .. } => &self.calls[0],
            EventKind::CallEnded { .. } => &self.calls[1],
            EventKind::AttemptStarted { .. } => &self.attempts[0],
            EventKind::AttemptEnded { .. } => &self.attempts[1],
            EventKind::ModelSubstitution { .. } | EventKind::ModelRestoration { .. } => &self.moves,
            EventKind::BreakerTransition { .. } => &self.breakers,
            EventKind::HedgeStarted { .. } => &self.hedges,
            _ => return,
        }
        .fetch_add(1, Ordering::Relaxed);
    }
}

impl Counts {
    /// Waits until every call and attempt that has begun has ended.
    async fn until_level(&self) -> anyhow::Result<()> {
        let is_level = |counts| {
            let [began, ended] = Self::pair(counts);
            began == ended
        };
        let give_up = Instant::now() + DRAIN;
        while !is_level(&self.calls) || !is_level(&self.attempts) {
            ensure!(Instant::now() < give_up, "calls do not end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn pair(counts: &[AtomicU64; 2]) -> [u64; 2] {
        counts.each_ref().map(|n| n.load(Ordering::Relaxed))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let is_observed = std::env::args()
        .nth(3)
        .is_some_and(|word| word == "observed");
    let mut numbers = std::env::args().skip(1);
    let mut number = |usual: u64| match numbers.next() {
        Some(text) => text
            .parse()
            .with_context(|| format!("`{text}` is no whole number")),
        None => Ok(usual),
    };
    let lasts = Duration::from_secs(60 * number(10)?.max(1));
    let streams = number(500)?;
    let at_rest = Gauge::read()?;
    let counts = Arc::new(Counts::default());
    let Ran {
        outcomes,
        series,
        in_flight,
        recorded,
    } = run(lasts, streams, is_observed, counts.clone()).await?;
    // What has ended may take a moment to be gone.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let left = Gauge::read()?;
    let report = Report {
        lasts,
        streams,
        outcomes,
        series,
        in_flight,
        at_rest,
        left,
        counts: &counts,
        recorded,
    };
    write_line(&report.to_json().to_string())?;
    report.judge()
}

fn write_line(line: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{line}")
}

/// What came of it.
struct Ran {
    /// How requests ended.
    outcomes: Outcomes,
    /// What was measured meanwhile.
    series: Series,
    /// Calls that were still open at the upstreams.
    in_flight: u64,
    /// What the audit log holds, where there is one.
    recorded: Option<Value>,
}

/// Everything from the first socket to the last.
async fn run(
    lasts: Duration,
    streams: u64,
    is_observed: bool,
    counts: Arc<Counts>,
) -> anyhow::Result<Ran> {
    let mut upstreams = BTreeMap::new();
    for name in faults::UPSTREAMS {
        let config = UpstreamConfig::named(name)
            .with_seed(7)
            .with_behaviour(faults::healthy());
        upstreams.insert(name, Upstream::start(config).await?);
    }
    let folder = tempfile::tempdir()?;
    let receiver = if is_observed {
        Some(Receiver::start().await?)
    } else {
        None
    };
    let settings = settings(folder.path(), &upstreams, receiver.as_ref()).await?;
    let watch = receiver.map(|receiver| Watch::new(&settings, receiver));
    let watch = watch.transpose()?;
    let watching = watch.iter().flat_map(|watch| watch.observers(&settings));
    let observers: Vec<Arc<dyn Observer>> = watching.chain([counts.clone() as _]).collect();
    let router = settings.router(Arc::new(observers))?;
    let limits = Limits {
        drain: DRAIN,
        ..Limits::default()
    };
    let mut server = Server::bind(&settings.config().server, router.clone(), limits)?;
    if let Some(watch) = &watch {
        server = watch.shown_by(server);
    }
    let (address, pusher) = (server.local_addr(), server.pusher());
    let url = format!("http://{address}/v1/chat/completions").parse()?;
    let stop = CancellationToken::new();
    let mut gateway = JoinSet::new();
    gateway.spawn(server.run(stop.clone().cancelled_owned()));

    let began = Instant::now();
    let until = began + lasts;
    let callers = Callers::new(url, until);
    let (outcomes, series, (), looked) = tokio::join!(
        async {
            if is_observed {
                callers.run_at(streams).await
            } else {
                callers.run(streams).await
            }
        },
        gauge::watch(until),
        faults::turn(&upstreams, until),
        async {
            if is_observed {
                Watch::look_on(address, &pusher, until).await
            } else {
                Ok(())
            }
        },
    );
    looked?;
    let mut recorded = None;
    if let Some(watch) = &watch {
        // Nothing is begun any more, and what was begun has ended.
        router.shutdown().await;
        counts.until_level().await?;
        recorded = Some(watch.compare(address).await?);
    }
    stop.cancel();
    while gateway.join_next().await.is_some() {}
    router.shutdown().await;
    drop(router);
    let last = pusher.last_look().await;
    if let Some(watch) = watch {
        watch.end(last).await?;
    }
    let mut in_flight = 0;
    for upstream in upstreams.into_values() {
        let idle = upstream.wait_until(|stats| stats.in_flight == 0);
        let _ = tokio::time::timeout(DRAIN, idle).await;
        in_flight += upstream.stats().in_flight;
        upstream.stop().await;
    }
    Ok(Ran {
        outcomes,
        series: series?,
        in_flight,
        recorded,
    })
}

async fn settings(
    folder: &Path,
    upstreams: &BTreeMap<&str, Upstream>,
    receiver: Option<&Receiver>,
) -> anyhow::Result<Settings> {
    let file = folder.join("evenkeel.toml");
    let providers = upstreams.iter().map(|(name, upstream)| {
        let url = upstream.base_url();
        format!("[providers.{name}]\ndialect = \"openai\"\nbase_url = \"{url}\"\n")
    });
    let observed = receiver.map(|receiver| {
        let endpoint = receiver.address;
        format!("{AUDIT}[telemetry]\nendpoint = \"http://{endpoint}\"\n")
    });
    let tables = observed.into_iter().chain([SETTINGS.to_owned()]);
    let text: String = tables.chain(providers).collect();
    tokio::fs::write(&file, text).await?;
    Ok(Settings::load(&file)?)
}

/// Files small enough that many are left for a new one, and the hash of what was said.
const AUDIT: &str = "[audit]
rotate_bytes = 4194304
content_hmac_key = \"0123456789abcdef0123456789abcdef\"
";

/// Clocks and open times short enough that everything happens many times.
const SETTINGS: &str = r#"
[server]
listen = "127.0.0.1:0"
state_dir = "state"
[limits]
max_concurrency = 2000
[breaker]
open_ms = 2000
growth = 1.0
[agent_roles.chat]
p95_threshold_ms = 1500
p99_threshold_ms = 3000
evaluation_window_seconds = 15
first_token_ms = 4000
stall_ms = 1500
deadline_ms = 20000
allow_unqualified = true
restore = { probe_interval_ms = 2000, canary = [0.5], canary_max_ms = 5000, hold_ms = 2000 }
primary = "north/chat"
fallbacks = [{ model = "south/chat", rank = 1 }, { model = "east/chat", rank = 2 }]
"#;

struct Report<'a> {
    lasts: Duration,
    streams: u64,
    outcomes: Outcomes,
    series: Series,
    in_flight: u64,
    at_rest: Gauge,
    left: Gauge,
    counts: &'a Counts,
    recorded: Option<Value>,
}

impl Report<'_> {
    fn to_json(&self) -> serde_json::Value {
        let warm = self.series.around(WARM.min(self.lasts / 2));
        let settled = self.series.around(SETTLED.min(self.lasts / 2));
        let end = self.series.last();
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let load = if self.recorded.is_some() {
            "requests_per_second"
        } else {
            "streams"
        };
        let by_minute = self.series.by_minute();
        let mib = |of: fn(&Gauge) -> u64| -> Vec<u64> {
            by_minute.iter().map(|minute| of(minute) >> 20).collect()
        };
        json!({
            "minutes": self.lasts.as_secs() / 60,
            load: self.streams,
            "requests": self.outcomes.asked,
            "answered": self.outcomes.answered,
            "error_events": self.outcomes.error_events,
            "refused": self.outcomes.refused,
            "left": self.outcomes.left,
            "unsound": self.outcomes.unsound.len(),
            "rss_bytes": { "at_rest": self.at_rest.rss, "settled": settled.rss, "end": end.rss, "most": self.series.most_rss() },
            "heap_bytes": { "at_rest": self.at_rest.heap, "warm": warm.heap, "end": end.heap, "left": self.left.heap },
            "mib_by_minute": { "rss": mib(|gauge| gauge.rss), "heap": mib(|gauge| gauge.heap) },
            "tasks": { "warm": warm.tasks, "end": end.tasks, "left": self.left.tasks },
            "descriptors": { "at_rest": self.at_rest.descriptors, "warm": warm.descriptors, "end": end.descriptors, "left": self.left.descriptors },
            "calls": Counts::pair(&self.counts.calls),
            "attempts": Counts::pair(&self.counts.attempts),
            "upstream_calls_open": self.in_flight,
            "moves": read(&self.counts.moves),
            "breaker_transitions": read(&self.counts.breakers),
            "hedges": read(&self.counts.hedges),
            "audit": self.recorded,
        })
    }

    /// Fails with the first thing that is not as it must be.
    fn judge(&self) -> anyhow::Result<()> {
        let outcomes = &self.outcomes;
        ensure!(
            outcomes.unsound.is_empty(),
            "{} requests without a sound outcome, the first: {}",
            outcomes.unsound.len(),
            outcomes.unsound[0]
        );
        let ended = outcomes.answered + outcomes.error_events + outcomes.refused + outcomes.left;
        ensure!(
            ended == outcomes.asked,
            "{} requests, {ended} outcomes",
            outcomes.asked
        );
        ensure!(outcomes.answered > 0, "nobody was answered");
        for (what, counts) in [
            ("calls", &self.counts.calls),
            ("attempts", &self.counts.attempts),
        ] {
            let [began, ended] = Counts::pair(counts);
            ensure!(began == ended, "{began} {what} began, {ended} ended");
        }
        ensure!(
            self.in_flight == 0,
            "{} calls are still open at the upstreams",
            self.in_flight
        );
        let warm = self.series.around(WARM.min(self.lasts / 2));
        let end = self.series.last();
        let settled = self.series.around(SETTLED.min(self.lasts / 2));
        for (what, before, after) in [
            ("memory in use", warm.heap, end.heap),
            ("resident memory", settled.rss, end.rss),
        ] {
            let most = before + before / 10 + SLACK_BYTES;
            ensure!(
                after <= most,
                "{what} grew from {before} to {after} bytes, past {most}"
            );
        }
        let most = self.at_rest.heap + KEPT_BYTES;
        ensure!(
            self.left.heap <= most,
            "{} bytes are still in use when all is over, more than {most}",
            self.left.heap
        );
        ensure!(
            self.left.tasks <= self.at_rest.tasks,
            "{} tasks are left",
            self.left.tasks
        );
        ensure!(
            self.left.descriptors <= self.at_rest.descriptors,
            "{} descriptors are open, {} were at the beginning",
            self.left.descriptors,
            self.at_rest.descriptors
        );
        Ok(())
    }
}
