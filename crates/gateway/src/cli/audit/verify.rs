//! `evenkeel audit verify`.

use super::{Log, open};
use anyhow::Context as _;
use evenkeel_otel_emit::audit::{Checkpoint, Fault, Place, Start, Verdict, Verifier};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;

/// The log could not be judged.
const NOT_READ: u8 = 2;

#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    log: Log,
    /// A record that the log is known to hold, as the log line `audit_checkpoint` told its
    /// number and hash: a chain alone does not show that its end was cut off.
    #[arg(long, value_name = "SEQ:HASH")]
    checkpoint: Option<Checkpoint>,
    /// Records may carry no hashes, as those of a gateway with `chain = false` do; of these
    /// only the numbers can be checked.
    #[arg(long)]
    unchained: bool,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let verdict = match judge(args) {
        Ok(verdict) => verdict,
        Err(error) => {
            writeln!(io::stderr(), "evenkeel: {error:#}")?;
            return Ok(ExitCode::from(NOT_READ));
        }
    };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", as_json(&verdict))?;
    } else {
        write_words(&verdict, &mut out)?;
    }
    Ok(if verdict.is_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn judge(args: &VerifyArgs) -> anyhow::Result<Verdict> {
    let mut verifier = match args.checkpoint {
        Some(checkpoint) => Verifier::with_checkpoint(checkpoint),
        None => Verifier::new(),
    };
    let log = args.log.found()?;
    if args.unchained || !log.is_chained {
        verifier = verifier.allowing_unchained();
    }
    for path in log.files {
        let name = path.display().to_string();
        let read = verifier.read(&name, open(&path)?);
        read.with_context(|| format!("cannot read {name}"))?;
    }
    Ok(verifier.finish())
}

fn write_words(verdict: &Verdict, out: &mut impl Write) -> io::Result<()> {
    for Fault { place, kind } in &verdict.faults {
        writeln!(out, "fault: {place}: {kind}")?;
    }
    let told = verdict.faults.len() as u64;
    if verdict.fault_count > told {
        writeln!(out, "and {} more faults", verdict.fault_count - told)?;
    }
    for place in &verdict.torn {
        writeln!(
            out,
            "torn: {place}: the beginning of a record; the writer was killed or the disk was full, \
             and no record is missing here"
        )?;
    }
    if let Some(Start::Later { seq, prev }) = verdict.start {
        let prev = prev.map_or("none".to_owned(), |prev| prev.to_string());
        writeln!(
            out,
            "begins with record {seq}, whose `prev` is {prev}: the records before it were not given"
        )?;
    }
    if verdict.unchained > 0 {
        let count = verdict.unchained;
        writeln!(
            out,
            "{count} records carry no hash: of these only the numbers were checked"
        )?;
    }
    if verdict.lost > 0 {
        let lost = verdict.lost;
        writeln!(
            out,
            "{lost} records were lost when the log could not be written, as it says itself"
        )?;
    }
    if let Some(last) = verdict.last {
        writeln!(out, "ends with record {}, hash {}", last.seq, last.hash)?;
    }
    let (records, files, word) = (verdict.records, verdict.files, word(verdict));
    writeln!(out, "{records} records in {files} files: {word}")
}

fn word(verdict: &Verdict) -> &'static str {
    match (verdict.is_sound(), verdict.unchained) {
        (false, _) => "NOT SOUND",
        (true, 0) => "sound",
        (true, unchained) if unchained < verdict.records => {
            "sound, but for what records without a hash say, which cannot be told"
        }
        (true, _) => "all there; what they say cannot be told to be what was written",
    }
}

fn as_json(verdict: &Verdict) -> Value {
    let place = |place: &Place| json!({ "file": &*place.file, "line": place.line });
    let fault = |fault: &Fault| {
        let mut told = place(&fault.place);
        told["kind"] = fault.kind.as_str().into();
        told["message"] = fault.kind.to_string().into();
        told
    };
    json!({
        "sound": verdict.is_sound(),
        "verdict": word(verdict),
        "files": verdict.files,
        "records": verdict.records,
        "unchained": verdict.unchained,
        "lost": verdict.lost,
        "first": verdict.start.map(|start| match start {
            Start::Beginning => json!({ "seq": 0, "beginning": true }),
            Start::Later { seq, prev } => json!({
                "seq": seq,
                "beginning": false,
                "prev": prev.map(|prev| prev.to_string()),
            }),
        }),
        "last": verdict.last.map(|last| json!({ "seq": last.seq, "hash": last.hash.to_string() })),
        "torn": verdict.torn.iter().map(place).collect::<Vec<_>>(),
        "faults": verdict.faults.iter().map(fault).collect::<Vec<_>>(),
        "fault_count": verdict.fault_count,
    })
}
