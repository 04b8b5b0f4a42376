//! What the qualification job costs itself: seconds for 1,000 items at a primary and four
//! candidates that answer at once, the share that its journal takes, and the most memory
//! for 1,000, 10,000 and 50,000 items.
//!
//! The job is the one of `evenkeel qualify`, over sockets; the upstream is a process of its
//! own, and so is each measure, so that the memory is the job's alone.
//!
//! `cargo run --release -p evenkeel-gateway --example qualify_speed -- [ITEMS…]`
//! prints a JSON line for each number of items.

use anyhow::Context;
use evenkeel::Settings;
use evenkeel_chaos::{Behaviour, Latency, Upstream, UpstreamConfig};
use evenkeel_core::{Clock, SystemClock};
use evenkeel_gateway::worker_threads;
use evenkeel_qualify::{
    Finished, Golden, Job, Load, Plan, Run, RunFolder, RunOptions, Silent, report,
};
use evenkeel_roster::{Candidates, CandidatesByRole};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write, stdin, stdout};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Items of the measures, unless others are named.
const ITEMS: [usize; 3] = [1_000, 10_000, 50_000];
/// Measures of the first number, the best of which says what the machine can.
const ROUNDS: usize = 3;
/// The primary and its candidates.
const MODELS: usize = 5;
/// Questions under way at a time, for each model.
const CONCURRENCY: usize = 16;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["upstream"] => runtime()?.block_on(upstream()),
        ["measure", url, items] => runtime()?.block_on(Box::pin(measure(url, items.parse()?))),
        _ => all(&arguments),
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(worker_threads()).enable_all();
    Ok(builder.build()?)
}

/// Measures each number of items in a process of its own.
fn all(arguments: &[String]) -> anyhow::Result<()> {
    let named = arguments.iter().map(|text| text.parse());
    let named: Vec<usize> = named.collect::<Result<_, _>>().context("ITEMS…")?;
    let items = if named.is_empty() {
        ITEMS.to_vec()
    } else {
        named
    };
    let mut upstream = own_process(&["upstream"], Stdio::piped())?;
    let mut url = String::new();
    let out = upstream.stdout.take().context("its output is piped")?;
    BufReader::new(out).read_line(&mut url)?;
    for (nth, items) in items.iter().enumerate() {
        let rounds = if nth == 0 { ROUNDS } else { 1 };
        for _ in 0..rounds {
            let arguments = ["measure", url.trim(), &items.to_string()];
            let status = own_process(&arguments, Stdio::inherit())?.wait()?;
            anyhow::ensure!(status.success(), "{items} items: {status}");
        }
    }
    // It ends with its input.
    drop(upstream.stdin.take());
    upstream.wait()?;
    Ok(())
}

fn own_process(arguments: &[&str], out: Stdio) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::piped()).stdout(out);
    Ok(command.spawn()?)
}

/// Answers at once, until its input ends.
async fn upstream() -> anyhow::Result<()> {
    let behaviour = Behaviour::healthy(Latency::millis(0)).with_text(r#"{"label":"a"}"#);
    let config = UpstreamConfig::named("up").with_behaviour(behaviour);
    let upstream = Upstream::start(config).await?;
    writeln!(stdout(), "{}", upstream.base_url())?;
    let ended = tokio::task::spawn_blocking(|| stdin().read_line(&mut String::new()));
    ended.await??;
    upstream.stop().await;
    Ok(())
}

/// Runs the whole job on so many items, and says what it took.
async fn measure(url: &str, items: usize) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let began = Instant::now();
    let finished = Box::pin(job(folder.path(), url, items)).await?;
    let seconds = began.elapsed().as_secs_f64();
    let ended = &finished.ended;
    let journal = RunFolder::of(folder.path(), "clerk").journal();
    let told = json!({
        "items": items,
        "models": MODELS,
        "seconds": seconds,
        "questions_per_second": rate(items * MODELS, seconds),
        "asking_s": ended.took.as_secs_f64(),
        "journal_s": ended.writing.as_secs_f64(),
        "journal_share": ended.writing.as_secs_f64() / seconds,
        "journal_mb": megabytes(std::fs::metadata(journal)?.len()),
        "peak_rss_mb": peak_rss_mb(),
        "passes": finished.verdict.verdict().is_pass(),
    });
    writeln!(stdout(), "{told}")?;
    Ok(())
}

async fn job(folder: &Path, url: &str, items: usize) -> anyhow::Result<Finished> {
    let path = folder.join("evenkeel.toml");
    std::fs::write(&path, config(url))?;
    let dataset = folder.join("golden.jsonl");
    write_items(&dataset, items)?;
    let by_role = CandidatesByRole::from([("clerk".to_owned(), Candidates::default())]);
    let settings = Settings::load_to_measure(&path, &by_role)?;
    let golden = Arc::new(Golden::open(&dataset)?);
    let options = RunOptions {
        load: Load::Closed {
            concurrency: CONCURRENCY,
        },
        ..RunOptions::default()
    };
    let begun = jiff::Timestamp::try_from(SystemClock.now())?;
    let locked = RunFolder::of(folder, "clerk").lock(begun)?;
    let job = Job {
        threshold: None,
        today: settings.as_of(),
        run: Run {
            plan: Plan::new(&settings, "clerk", None, golden, options)?,
            settings: &settings,
            folder: &locked,
            is_resumed: false,
            http_validators: None,
            commands: None,
            begun,
        },
    };
    let stop = CancellationToken::new();
    let finished = Box::pin(job.finish(&mut Silent, stop)).await?;
    let told = report::Report {
        role: finished.role.clone(),
        golden: Some(finished.report()),
        shadows: None,
        drill: None,
    };
    let page = report::html(std::slice::from_ref(&told));
    std::fs::write(locked.folder().path().join("report.html"), page)?;
    Ok(finished)
}

fn config(url: &str) -> String {
    let mut text = String::new();
    for provider in ["north", "south"] {
        let _ = write!(
            text,
            "[providers.{provider}]\ndialect = \"openai\"\nbase_url = \"{url}\"\n"
        );
    }
    text + "[agent_roles.clerk]\np95_threshold_ms = 1500\np99_threshold_ms = 2500\n\
            evaluation_window_seconds = 15\nprimary = \"north/a\"\nfallbacks = [\
            { model = \"south/b\" }, { model = \"north/c\" }, { model = \"south/d\" }, \
            { model = \"north/e\" }]\n"
}

fn write_items(path: &Path, count: usize) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for n in 0..count {
        let item = json!({
            "id": format!("i{n}"),
            "prompt": format!("Which label does message {n} have?"),
            "schema": {
                "type": "object",
                "properties": { "label": { "type": "string", "enum": ["a", "b"] } },
                "required": ["label"],
                "additionalProperties": false,
            },
            "expected": { "label": "a" },
            "check": "fields",
            "tags": [if n % 2 == 0 { "even" } else { "odd" }],
        });
        writeln!(file, "{item}")?;
    }
    Ok(file.flush()?)
}

#[expect(clippy::cast_precision_loss, reason = "a count of questions")]
fn rate(questions: usize, seconds: f64) -> f64 {
    questions as f64 / seconds
}

#[expect(clippy::cast_precision_loss, reason = "a file's size")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The most memory that this process has had, as Linux tells it; none elsewhere.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024.0 / 1e6)
}
