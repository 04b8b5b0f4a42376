//! What goes wrong with a model's calls.

use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_document::TableReader;
use std::time::Duration;

#[derive(Clone, Copy)]
enum Kind {
    Status,
    QuotaExhausted,
    ContextWindow,
    Hang,
    Refuse,
    Reset,
    Close,
    StallAfter,
    CutAfter,
    ResetAfter,
    EndAfter,
    FalseDoneAfter,
    NoDone,
    KeepAlivesOnly,
    ErrorInStream,
    FilteredAfter,
    Html,
    ErrorIn200,
    NoChoices,
    Empty,
    TruncatedJson,
    GzipBomb,
    Endless,
}

const KINDS: [(&str, Kind); 23] = [
    ("status", Kind::Status),
    ("quota_exhausted", Kind::QuotaExhausted),
    ("context_window", Kind::ContextWindow),
    ("hang", Kind::Hang),
    ("refuse", Kind::Refuse),
    ("reset", Kind::Reset),
    ("close", Kind::Close),
    ("stall_after", Kind::StallAfter),
    ("cut_after", Kind::CutAfter),
    ("reset_after", Kind::ResetAfter),
    ("end_after", Kind::EndAfter),
    ("false_done_after", Kind::FalseDoneAfter),
    ("no_done", Kind::NoDone),
    ("keep_alives_only", Kind::KeepAlivesOnly),
    ("error_in_stream", Kind::ErrorInStream),
    ("filtered_after", Kind::FilteredAfter),
    ("html", Kind::Html),
    ("error_in_200", Kind::ErrorIn200),
    ("no_choices", Kind::NoChoices),
    ("empty", Kind::Empty),
    ("truncated_json", Kind::TruncatedJson),
    ("gzip_bomb", Kind::GzipBomb),
    ("endless", Kind::Endless),
];

/// Reads `fault = { kind, … }` into `behaviour`: `share` and `times` say which calls
/// get it, `delay_ms` how long after the request it shows; `status`, `code`,
/// `message`, `retry_after_ms`, `tokens`, `every_ms` belong to some kinds.
pub(super) fn read(table: &mut TableReader<'_, '_>, behaviour: &mut Behaviour) {
    if let Some(fault) = table.within("fault", |t| read_table(t, behaviour)) {
        behaviour.fault = fault;
    }
}

fn read_table(table: &mut TableReader<'_, '_>, behaviour: &mut Behaviour) -> Option<Fault> {
    behaviour.error_rate = table.number("share").unwrap_or(1.0);
    behaviour.fault_times = table.large_count("times");
    behaviour.fault_delay = table.ms("delay_ms").unwrap_or_default();
    if !(0.0..=1.0).contains(&behaviour.error_rate) {
        let at = table.place("share");
        let message = format!("is {}, expected 0 to 1", behaviour.error_rate);
        table.findings.error(&at, message, None);
    }
    if !table.has("kind") {
        let at = table.scope().place.clone();
        let how = "write e.g. kind = \"status\"".to_owned();
        table
            .findings
            .error(&at, "kind is missing".to_owned(), Some(how));
    }
    let kind = table.word("kind", &KINDS)?;
    fault(kind, table)
}

fn fault(kind: Kind, table: &mut TableReader<'_, '_>) -> Option<Fault> {
    Some(match kind {
        Kind::Status => return status(table),
        Kind::Html => Fault::Html {
            status: status_code(table)?,
        },
        Kind::QuotaExhausted => Fault::quota_exhausted(),
        Kind::ContextWindow => Fault::context_window(),
        Kind::Hang => Fault::Hang,
        Kind::Refuse => Fault::Refuse,
        Kind::Reset => Fault::Reset,
        Kind::Close => Fault::Close,
        Kind::StallAfter => Fault::StallAfter(tokens(table)?),
        Kind::CutAfter => Fault::CutAfter(tokens(table)?),
        Kind::ResetAfter => Fault::ResetAfter(tokens(table)?),
        Kind::EndAfter => Fault::EndAfter(tokens(table)?),
        Kind::FalseDoneAfter => Fault::FalseDoneAfter(tokens(table)?),
        Kind::FilteredAfter => Fault::FilteredAfter(tokens(table)?),
        Kind::NoDone => Fault::NoDone,
        Kind::KeepAlivesOnly => Fault::KeepAlivesOnly {
            every: table.ms("every_ms").unwrap_or(Duration::from_secs(1)),
        },
        Kind::ErrorInStream => Fault::ErrorInStream {
            after: tokens(table)?,
            code: table.text("code").map(str::to_owned),
            message: table.text("message").unwrap_or("it broke").to_owned(),
        },
        Kind::ErrorIn200 => Fault::ErrorIn200,
        Kind::NoChoices => Fault::NoChoices,
        Kind::Empty => Fault::Empty,
        Kind::TruncatedJson => Fault::TruncatedJson,
        Kind::GzipBomb => Fault::GzipBomb,
        Kind::Endless => Fault::Endless,
    })
}

/// An error status with its usual code and wording, as far as the table says no other.
fn status(table: &mut TableReader<'_, '_>) -> Option<Fault> {
    let status = status_code(table)?;
    let Fault::Status { code, message, .. } = Fault::status(status) else {
        return None;
    };
    let own_code = table.text("code").map(str::to_owned);
    let own_message = table.text("message").map(str::to_owned);
    Some(Fault::Status {
        status,
        code: own_code.or(code),
        message: own_message.unwrap_or(message),
        retry_after: table.ms("retry_after_ms"),
    })
}

fn status_code(table: &mut TableReader<'_, '_>) -> Option<u16> {
    let status = needed(table, "status")?;
    if let Ok(status @ 200..=599) = u16::try_from(status) {
        return Some(status);
    }
    let at = table.place("status");
    let message = format!("is {status}, expected 200 to 599");
    table.findings.error(&at, message, None);
    None
}

/// After how many tokens it comes.
fn tokens(table: &mut TableReader<'_, '_>) -> Option<u32> {
    needed(table, "tokens")
}

fn needed(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<u32> {
    let present = table.has(key);
    let number = table.count(key);
    if !present {
        let at = table.scope().place.clone();
        let message = format!("{key} is missing: this kind of fault needs it");
        table.findings.error(&at, message, None);
    }
    number
}
