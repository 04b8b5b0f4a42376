//! `cargo xtask soak`: minutes of streams over sockets while the upstreams' faults change.

use anyhow::Result;

use crate::{process, workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Streams at a time
    #[arg(long, default_value_t = 500)]
    streams: u64,
    /// 100 requests a second instead, with traces, metrics and the audit log on, which have to agree
    #[arg(long)]
    observed: bool,
}

/// Requests a second of the observed soak.
const RATE: u64 = 100;

/// Runs the gateway's example `soak` in release; false when it found a leak, growing memory or a
/// request without exactly one sound outcome.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let (count, mode) = if args.observed {
        (RATE, "observed")
    } else {
        (args.streams, "plain")
    };
    process::succeeds(workspace::cargo().args([
        "run",
        "--release",
        "--locked",
        "--package",
        "evenkeel-gateway",
        "--example",
        "soak",
        "--",
        &args.minutes.to_string(),
        &count.to_string(),
        mode,
    ]))
}
