//! `evenkeel audit query`.

use super::{Log, open};
use anyhow::Context as _;
use clap::ValueEnum;
use evenkeel_core::{Clock as _, SystemClock};
use evenkeel_otel_emit::audit::{AuditFilter, RecordKind, Row, Stored, query};
use jiff::{SignedDuration, Timestamp};
use std::io::{self, Write};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct QueryArgs {
    #[command(flatten)]
    log: Log,
    /// Records of this request: the value of `x-evenkeel-request-id`.
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Records of this role.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Answers that this model gave or was asked for, and decisions about it.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
    /// Records of this kind, e.g. answer, substitution, operator.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<RecordKind>,
    /// Not before: an RFC 3339 time, or how long ago, e.g. 90s, 15m, 2h, 7d.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before: likewise.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// How records are printed.
    #[arg(long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line each.
    Table,
    /// As they stand in the log, one JSON object a line.
    Json,
}

fn kind(named: &str) -> Result<RecordKind, String> {
    RecordKind::named(named).ok_or_else(|| {
        let kinds: Vec<&str> = RecordKind::ALL.map(RecordKind::as_str).to_vec();
        format!("expected one of {}", kinds.join(", "))
    })
}

pub(super) fn run(args: QueryArgs) -> anyhow::Result<ExitCode> {
    let files = args.log.files()?;
    let (format, filter) = (args.format, filter(args)?);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let printed = print(&files, &filter, format, &mut out).and_then(|()| Ok(out.flush()?));
    match printed {
        // Whoever read has seen enough.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        printed => printed.map(|()| ExitCode::SUCCESS),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let said = error.downcast_ref::<io::Error>();
    said.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn filter(args: QueryArgs) -> anyhow::Result<AuditFilter> {
    let now = Timestamp::try_from(SystemClock.now()).context("the clock says no time")?;
    let time = |text: Option<String>| text.map(|text| time(&text, now)).transpose();
    let mut filter = AuditFilter::default();
    filter.kind = args.kind;
    filter.since = time(args.since)?;
    filter.until = time(args.until)?;
    if let Some(id) = args.request {
        filter = filter.of_request(&id);
    }
    if let Some(role) = args.role {
        filter = filter.of_role(&role);
    }
    if let Some(model) = args.model {
        filter = filter.of_model(&model);
    }
    Ok(filter)
}

/// An RFC 3339 time, or a span before `now`.
fn time(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    let expected = || format!("`{text}` is no time: expected e.g. 2026-11-29T12:00:00Z or 2h");
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        _ => 0,
    };
    let count = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    let count: Option<i64> = count.parse().ok().filter(|count| *count >= 0 && unit > 0);
    let seconds = count.and_then(|count| count.checked_mul(unit));
    let seconds = seconds.with_context(expected)?;
    now.checked_sub(SignedDuration::from_secs(seconds))
        .with_context(expected)
}

fn print(
    files: &[std::path::PathBuf],
    filter: &AuditFilter,
    format: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if format == Format::Table {
        writeln!(out, "{}", Row::head())?;
    }
    let mut unreadable = 0;
    for path in files {
        let show = |line: &[u8], record: &Stored| match format {
            Format::Table => writeln!(out, "{}", Row(record)),
            Format::Json => out.write_all(line).and_then(|()| out.write_all(b"\n")),
        };
        unreadable += query(open(path)?, filter, show)?;
    }
    if unreadable > 0 {
        let what = "lines are no records; evenkeel audit verify says more";
        writeln!(io::stderr(), "evenkeel: {unreadable} {what}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_a_span() {
        let now: Timestamp = "2026-11-29T12:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z"),
            ("2026-11-01T02:00:00+02:00", "2026-11-01T00:00:00Z"),
            ("90s", "2026-11-29T11:58:30Z"),
            ("15m", "2026-11-29T11:45:00Z"),
            ("2h", "2026-11-29T10:00:00Z"),
            ("7d", "2026-11-22T12:00:00Z"),
            ("0s", "2026-11-29T12:00:00Z"),
        ] {
            let expected: Timestamp = expected.parse().unwrap();
            assert_eq!(time(text, now).unwrap(), expected, "{text}");
        }
        for bad in [
            "",
            "2",
            "h",
            "-2h",
            "2w",
            "zwei",
            "9223372036854775807d",
            "2ü",
        ] {
            assert!(time(bad, now).is_err(), "{bad}");
        }
    }
}
