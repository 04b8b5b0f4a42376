//! `evenkeel audit`.

mod query;
mod verify;

use anyhow::{Context as _, ensure};
use evenkeel::Settings;
use evenkeel_otel_emit::audit::audit_files;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes that are read at a time.
const PIECE: usize = 256 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Finds any record that was changed, is missing, doubled or out of order; ends with 1
    /// if there is one, with 2 if the log cannot be read.
    Verify(verify::VerifyArgs),
    /// Prints records: which model answered which request, when and why.
    Query(query::QueryArgs),
}

pub(crate) fn run(args: AuditArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Verify(args) => verify::run(&args),
        Command::Query(args) => query::run(args),
    }
}

/// Which log is read.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Log {
    /// The files of one log, the oldest first, or its folder.
    #[arg(value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    /// The log of a gateway with this configuration: its folder, or one `evenkeel.toml`.
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
}

impl Log {
    /// Its files, in their order.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        Ok(self.found()?.files)
    }

    /// Its files, and what its configuration says of it.
    fn found(&self) -> anyhow::Result<Found> {
        if let Some(path) = &self.config {
            let settings = Settings::load(path)?;
            let folder = settings.audit_dir();
            let folder = folder.context("this configuration has no [audit]: it writes no log")?;
            let audit = settings.config().audit.as_ref();
            return Ok(Found {
                files: in_folder(&folder)?,
                is_chained: audit.is_none_or(|audit| audit.chain),
            });
        }
        let mut files = Vec::new();
        for path in &self.paths {
            if path.is_dir() {
                files.extend(in_folder(path)?);
            } else {
                files.push(path.clone());
            }
        }
        Ok(Found {
            files,
            is_chained: true,
        })
    }
}

/// A log that is there.
struct Found {
    files: Vec<PathBuf>,
    /// Whether its records are to carry hashes; they are where no configuration says
    /// otherwise.
    is_chained: bool,
}

fn in_folder(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = audit_files(folder);
    let files = read.with_context(|| format!("cannot read {}", folder.display()))?;
    ensure!(
        !files.is_empty(),
        "{} holds no audit log: no file is called audit-NUMBER.jsonl",
        folder.display()
    );
    Ok(files)
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(BufReader::with_capacity(PIECE, file))
}
