//! `evenkeel status`.

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// How long the gateway is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest state that is read, bytes.
const LONGEST: usize = 64 * 1024 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// The operators' address of the gateway.
    #[arg(long, default_value = "http://127.0.0.1:4001", value_name = "URL")]
    url: Uri,
    /// The environment variable that holds `server.admin.token`.
    #[arg(long, default_value = "EVENKEEL_ADMIN_TOKEN", value_name = "NAME")]
    token_env: String,
}

/// Prints what a running gateway says of itself.
pub(crate) async fn run(args: StatusArgs) -> anyhow::Result<ExitCode> {
    let token = std::env::var_os(&args.token_env).and_then(|token| token.into_string().ok());
    let token =
        token.with_context(|| format!("{} is not set: it must hold the token", args.token_env))?;
    let state = tokio::time::timeout(PATIENCE, fetch(&args.url, &token)).await;
    let state = state.with_context(|| format!("{} does not answer", args.url))??;
    write!(std::io::stdout(), "{}", table(&state))?;
    Ok(ExitCode::SUCCESS)
}

async fn fetch(url: &Uri, token: &str) -> anyhow::Result<Value> {
    if url.scheme_str() != Some("http") {
        bail!("{url}: expected a URL that begins with http://");
    }
    let at = url.to_string();
    let request = Request::get(format!("{}/admin/state", at.trim_end_matches('/')))
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(Full::<Bytes>::default())
        .context("the token cannot be sent")?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let asked = client.request(request).await;
    let answer = asked.with_context(|| format!("cannot reach {url}"))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LONGEST).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("{url}: {error}"))?;
    let said = serde_json::from_slice::<Value>(&body.to_bytes());
    match (status, said) {
        (StatusCode::OK, Ok(state)) => Ok(state),
        (_, Ok(error)) if error["error"]["message"].is_string() => {
            bail!("{url}: {}", text(&error["error"]["message"]))
        }
        _ => bail!("{url}: answered {status}, and not as evenkeel's operators' address does"),
    }
}

/// The state as a table for people.
fn table(state: &Value) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "evenkeel {} since {}",
        text(&state["version"]),
        text(&state["started"])
    );
    if let Some(hash) = state["config"]["hash"].as_str() {
        let short = hash.get(..12).unwrap_or(hash);
        let loaded = text(&state["config"]["loaded"]);
        let _ = writeln!(out, "configuration {short}, loaded {loaded}");
    }
    if let Some(at) = state["config"]["last_refusal"]["at"].as_str() {
        let _ = writeln!(out, "a reload was refused {at}:");
        for problem in list(&state["config"]["last_refusal"]["problems"]) {
            let _ = writeln!(out, "  {}", text(problem));
        }
    }
    for drill in list(&state["drills"]) {
        let _ = writeln!(
            out,
            "drill {}: {} of {} until {}",
            drill["id"],
            text(&drill["kind"]),
            text(&drill["model"]),
            text(&drill["until"])
        );
    }
    for role in list(&state["roles"]) {
        let forced = if role["forced"].is_null() {
            ""
        } else {
            ", forced"
        };
        let task = role["task"].as_str();
        let task = task.map_or_else(String::new, |task| format!(" (task {task})"));
        let _ = writeln!(
            out,
            "\n{}{task}: rung {} since {} (epoch {}{forced}), {} in flight",
            text(&role["role"]),
            role["rung"],
            text(&role["since"]),
            role["epoch"],
            role["in_flight"],
        );
        rungs(&mut out, role);
    }
    out
}

const HEAD: [&str; 8] = [
    "",
    "model",
    "p50/p95/p99 ms",
    "n",
    "first token",
    "n",
    "breaker",
    "",
];

fn rungs(out: &mut String, role: &Value) {
    let rows: Vec<[String; 8]> = list(&role["rungs"])
        .map(|rung| {
            let active = if rung["rung"] == role["rung"] {
                "*"
            } else {
                " "
            };
            [
                format!("{active}{}", rung["rung"]),
                text(&rung["model"]).to_owned(),
                percentiles(&rung["total"]),
                rung["total"]["samples"].to_string(),
                percentiles(&rung["first_token"]),
                rung["first_token"]["samples"].to_string(),
                text(&rung["breaker"]["state"]).to_owned(),
                remarks(rung),
            ]
        })
        .collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(HEAD[column].len())
        })
        .collect();
    let head = HEAD.map(str::to_owned);
    for row in std::iter::once(&head).chain(&rows) {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        let _ = writeln!(out, "  {}", line.join("  ").trim_end());
    }
}

fn percentiles(window: &Value) -> String {
    ["p50_ms", "p95_ms", "p99_ms"]
        .map(|key| match window[key].as_f64() {
            Some(ms) => format!("{ms:.0}"),
            None => "-".to_owned(),
        })
        .join("/")
}

/// What there is to say of a rung beside its figures.
fn remarks(rung: &Value) -> String {
    let mut said = Vec::new();
    if let Some(why) = rung["refused"]["why"].as_str() {
        said.push(match rung["refused"]["until"].as_str() {
            Some(until) => format!("refused: {why} until {until}"),
            None => format!("refused: {why}"),
        });
    }
    for measure in ["total", "first_token"] {
        if let Some(detector) = rung[measure]["detector"].as_str() {
            said.push(format!("{measure} in breach ({detector})"));
        }
    }
    match rung["recovery"]["stage"].as_str() {
        Some("canary") => {
            let share = rung["recovery"]["share"].as_f64().unwrap_or(0.0) * 100.0;
            said.push(format!("canary, {share:.0}% of sessions"));
        }
        Some("probing") => said.push("benched, being probed".to_owned()),
        _ => {}
    }
    if rung["in_use"].as_u64() >= rung["max_concurrency"].as_u64() {
        said.push("full".to_owned());
    }
    said.join("; ")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A string's text; empty for anything else.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_says_who_serves_and_what_keeps_the_others_away() {
        let window = |p95: Value, samples: u32, detector: Value| json!({ "p50_ms": p95, "p95_ms": p95, "p99_ms": p95, "samples": samples, "detector": detector });
        let rung = |rung: u32, why: Value, stage: &str| {
            json!({
                "rung": rung,
                "model": format!("p{rung}/m"),
                "total": window(json!(1234.5), 20, json!("p95")),
                "first_token": window(Value::Null, 0, Value::Null),
                "breaker": { "state": "open" },
                "refused": { "why": why, "until": "2026-11-30T07:00:00Z" },
                "recovery": { "stage": stage, "share": 0.1 },
                "in_use": 1,
                "max_concurrency": 64,
            })
        };
        let state = json!({
            "version": "0.1.0",
            "started": "2026-11-30T06:00:00Z",
            "config": {
                "hash": "0123456789abcdef",
                "loaded": "2026-11-30T06:30:00Z",
                "last_refusal": { "at": "2026-11-30T06:40:00Z", "problems": ["policy.toml:3: x"] },
            },
            "drills": [{ "id": 4, "kind": "eol", "model": "p0/m", "until": "2026-11-30T08:00:00Z" }],
            "roles": [{
                "role": "planner", "rung": 1, "epoch": 3, "since": "2026-11-30T06:59:00Z",
                "forced": 1, "in_flight": 7,
                "rungs": [rung(0, json!("breaker_open"), "canary"), rung(1, Value::Null, "serving")],
            }],
        });
        let expected = "\
evenkeel 0.1.0 since 2026-11-30T06:00:00Z
configuration 0123456789ab, loaded 2026-11-30T06:30:00Z
a reload was refused 2026-11-30T06:40:00Z:
  policy.toml:3: x
drill 4: eol of p0/m until 2026-11-30T08:00:00Z

planner: rung 1 since 2026-11-30T06:59:00Z (epoch 3, forced), 7 in flight
      model  p50/p95/p99 ms  n   first token  n  breaker
   0  p0/m   1234/1234/1234  20  -/-/-        0  open     refused: breaker_open until 2026-11-30T07:00:00Z; total in breach (p95); canary, 10% of sessions
  *1  p1/m   1234/1234/1234  20  -/-/-        0  open     total in breach (p95)
";
        assert_eq!(table(&state), expected);
    }

    #[test]
    fn a_state_of_another_version_is_shown_as_far_as_it_goes() {
        assert!(table(&json!({})).starts_with("evenkeel"));
        assert!(table(&json!({ "roles": [{}, 1], "drills": [null] })).contains("rung"));
        let task = json!({ "roles": [{ "role": "planner", "task": "review", "rung": 0 }] });
        assert!(table(&task).contains("planner (task review): rung 0"));
    }
}
