//! Writes an audit log of so many MiB, verifies it and looks for one request in it, and
//! prints how long each took and how much memory it needed. Linux.
//!
//! `cargo run --release -p evenkeel-otel-emit --example long_log -- [MIB]`

use evenkeel_core::{Clock as _, SystemClock};
use evenkeel_otel_emit::audit::{
    AuditAttempt, AuditFilter, AuditId, AuditLatency, AuditModel, AuditPolicy, AuditSink as _,
    AuditUsage, FileSink, FileSinkConfig, Hash, Record, RecordKind, SyncPolicy, Text64, Text128,
    Verifier, WallTime, WholeMs, audit_files, query,
};
use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that are read at a time, as `evenkeel audit` does.
const PIECE: usize = 256 * 1024;
/// Records that are handed over between two looks at the queue.
const AT_A_TIME: u64 = 4_096;

/// An answer after a failure, as a call leaves it.
fn record(number: u64) -> Record {
    let policy = AuditPolicy::new(Some("2026-11-29.1"), Hash::of(b"policy"));
    let mut record = Record::new(RecordKind::Answer, WallTime(SystemClock.now()), policy);
    let id = AuditId::new;
    record.request_id = Some(Text64::new(&format!("evk-0123456789abcdef-{number:x}")));
    record.trace_id = Some("0af7651916cd43dd8448eb211c80319c".into());
    record.span_id = Some("b7ad6b7169203331".into());
    record.role = id("planner");
    record.model = Some(AuditModel {
        requested: Text128::new("planner"),
        primary: id("openai/gpt-4o"),
        answered: id("anthropic/claude-haiku-4-5"),
        provider: id("anthropic"),
        ..AuditModel::default()
    });
    record.route = Some("fallback");
    record.outcome = Some("ok");
    record.reason = Some("overloaded");
    let attempt = |provider, model, outcome, error_type| {
        Some(AuditAttempt {
            provider: id(provider)?,
            model: id(model)?,
            start_ms: WholeMs(Duration::from_millis(number % 400)),
            duration_ms: WholeMs(Duration::from_millis(1_500)),
            ttft_ms: None,
            outcome,
            error_type,
            http_status: None,
        })
    };
    let attempts = [
        attempt("openai", "openai/gpt-4o", "error", Some("overloaded")),
        attempt("anthropic", "anthropic/claude-haiku-4-5", "ok", None),
    ];
    record.set_attempts(attempts.into_iter().flatten().collect());
    record.latency = Some(AuditLatency {
        total_ms: Some(WholeMs(Duration::from_millis(1_900))),
        ..AuditLatency::default()
    });
    record.usage = Some(AuditUsage {
        input_tokens: Some(812),
        output_tokens: Some(144),
        wasted_output_tokens: None,
    });
    record
}

/// Most resident memory since it was last asked, bytes.
fn peak() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    // The peak begins anew from what is held now.
    std::fs::write("/proc/self/clear_refs", "5")?;
    Ok(kib.unwrap_or(0) * 1_024)
}

/// Seconds by the wall clock, and the most memory, that `run` takes.
fn measured<T>(
    run: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<(T, f64, u64), Box<dyn Error>> {
    peak()?;
    let began = SystemClock.now();
    let value = run()?;
    let took = SystemClock.now().duration_since(began).unwrap_or_default();
    Ok((value, took.as_secs_f64(), peak()?))
}

fn written(folder: &Path, bytes: u64) -> Result<u64, Box<dyn Error>> {
    let mut config = FileSinkConfig::new(folder.to_owned(), "gw-1");
    config.sync = SyncPolicy::Never;
    let sink = FileSink::open(&config)?;
    let mut count = 0;
    let size = || -> io::Result<u64> {
        let files = audit_files(folder)?;
        files.iter().map(|file| Ok(file.metadata()?.len())).sum()
    };
    while size()? < bytes {
        for _ in 0..AT_A_TIME {
            sink.append(Box::new(record(count)));
            count += 1;
        }
        if !sink.flush(Duration::from_secs(60)) {
            return Err("the log is not written".into());
        }
    }
    if !sink.close(Duration::from_secs(60)) {
        return Err("the log is not written to its end".into());
    }
    Ok(count)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mib: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1_024), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("audit");
    let (count, write_s, _) = measured(|| written(&path, mib * 1_024 * 1_024))?;
    let open =
        |file: &PathBuf| Ok::<_, io::Error>(BufReader::with_capacity(PIECE, File::open(file)?));
    let (verdict, verify_s, verify_peak) = measured(|| {
        let mut verifier = Verifier::new();
        for file in audit_files(&path)? {
            verifier.read(&file.display().to_string(), open(&file)?)?;
        }
        Ok(verifier.finish())
    })?;
    let last = format!("evk-0123456789abcdef-{:x}", count - 1);
    let (found, query_s, query_peak) = measured(|| {
        let filter = AuditFilter::default().of_request(&last);
        let mut found = 0;
        for file in audit_files(&path)? {
            query(open(&file)?, &filter, |_, _| {
                found += 1;
                Ok::<_, io::Error>(())
            })?;
        }
        Ok(found)
    })?;
    if !verdict.is_sound() || verdict.records != count || found != 1 {
        return Err(format!("{:?}, {found} found", verdict.faults).into());
    }
    writeln!(
        io::stdout(),
        "{}",
        serde_json::json!({
            "mib": mib, "records": count, "files": verdict.files,
            "write": { "seconds": write_s },
            "verify": { "seconds": verify_s, "peak_rss_bytes": verify_peak },
            "query_request": { "seconds": query_s, "peak_rss_bytes": query_peak },
        })
    )?;
    Ok(())
}
