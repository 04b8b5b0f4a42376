//! The arguments of `evenkeel qualify`.

use clap::ValueEnum;
use evenkeel_core::ModelId;
use evenkeel_qualify::{Load, OPEN_AT_MOST, RunOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Questions under way at a time in a closed loop, unless it is said otherwise.
const CONCURRENCY: usize = 8;

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line, and on its own"
)]
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ends with 0 where every gate holds, 1 where one fails or there is not enough data to tell (or the run \
was stopped), 2 where something cannot be read, written or understood. With --check: 0 where every score \
still holds, 1 where one is stale.")]
#[command(group = clap::ArgGroup::new("which").args(["role", "all_roles"]))]
pub(crate) struct QualifyArgs {
    /// The config folder, or one `evenkeel.toml` with everything in it [default: the folder of
    /// --output, else this one]
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// The role whose candidates are measured.
    #[arg(long, required_unless_present_any = ["all_roles", "eol_drill"])]
    pub(super) role: Option<String>,
    /// Every role whose policy names a `golden_dataset`.
    #[arg(long, conflicts_with_all = ["golden_dataset", "primary", "candidates"])]
    pub(super) all_roles: bool,
    /// The questions, one JSON object a line [default: the role's `golden_dataset`]
    #[arg(long, value_name = "FILE.jsonl", requires = "role")]
    pub(super) golden_dataset: Option<PathBuf>,
    /// Least share of the primary's score, 0 to 1 [default: the role's `quality_budget`]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) min_quality_threshold: Option<f64>,
    /// The roster that the result is written into, .toml or .yaml: of this role alone, and only
    /// what passed. A run that was stopped writes nothing.
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// What candidates are measured against [default: the roster's primary]
    #[arg(long, value_name = "MODEL", requires = "role", value_parser = model)]
    pub(super) primary: Option<ModelId>,
    /// The models to measure, whether or not the roster has them [default: its fallbacks]
    #[arg(long, value_name = "MODEL,…", requires = "role", value_delimiter = ',', value_parser = model)]
    pub(super) candidates: Vec<ModelId>,
    /// Say whether the roster's scores still hold: for these prompts, tools, datasets, builds and
    /// today. Asks no model.
    #[arg(long, conflicts_with_all = ["output", "primary", "candidates", "resume", "shadow", "eol_drill"])]
    pub(super) check: bool,
    /// Pairs of shadowed calls (`STATE_DIR/shadow/ROLE.jsonl`) to judge by the role's scorers. The
    /// golden dataset is then asked only where --golden-dataset names it; else no model is asked
    /// but those that judge.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "eol_drill")]
    pub(super) shadow: Vec<PathBuf>,
    /// Play that a model is gone, and measure what takes over in each role that stands on it
    /// (with --role: in that one), against what it stands in for.
    #[arg(long, value_name = "MODEL", value_parser = model,
          conflicts_with_all = ["output", "primary", "candidates"])]
    pub(super) eol_drill: Option<ModelId>,
    /// Questions under way at a time, for each model [default: 8; with --load-rps at most 256]
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// Questions a second for each model, due at drawn times whatever becomes of them; without
    /// it the next is asked when one is answered.
    #[arg(long, value_name = "RATE")]
    load_rps: Option<f64>,
    /// Ask for whole answers: the time to the first token is then not known.
    #[arg(long)]
    whole: bool,
    /// How often each question is asked.
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u32,
    /// Seed of all that is drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Only the first N items of the dataset.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Stop before the run costs more than this.
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(super) budget_usd: Option<f64>,
    /// How long a question waits for rate limits before it is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    patience_s: u32,
    /// Let scorers of kind `command` run what the dataset names.
    #[arg(long)]
    pub(super) allow_commands: bool,
    /// Go on with the run that was broken off in the report's folder.
    #[arg(long)]
    pub(super) resume: bool,
    /// Where journal, manifest and reports go, a folder for each role.
    #[arg(long, value_name = "DIR", default_value = "qualification")]
    pub(super) report: PathBuf,
    /// What is printed; a role's folder has the report in every form.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
}

/// What a report is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a terminal.
    Table,
    /// For a pull request.
    Markdown,
    /// For a program.
    Json,
    /// For a CI server.
    Junit,
}

impl QualifyArgs {
    /// Where the configuration is.
    pub(super) fn config(&self) -> &Path {
        let beside = || self.output.as_deref().and_then(Path::parent);
        let path = self.config.as_deref().or_else(beside);
        path.filter(|path| !path.as_os_str().is_empty())
            .unwrap_or_else(|| Path::new("."))
    }

    /// Whether the golden dataset is asked, or pairs alone are judged.
    pub(super) fn asks(&self) -> bool {
        self.shadow.is_empty() || self.golden_dataset.is_some()
    }

    /// Refuses what goes with a run where there is none.
    pub(super) fn check_pairs_alone(&self) -> anyhow::Result<()> {
        let of_a_run = [
            ("--output", self.output.is_some()),
            ("--primary", self.primary.is_some()),
            ("--candidates", !self.candidates.is_empty()),
            ("--resume", self.resume),
        ];
        for (name, is_there) in of_a_run {
            anyhow::ensure!(
                self.asks() || !is_there,
                "{name} is of a run, and with --shadow there is one only where --golden-dataset names its questions"
            );
        }
        Ok(())
    }

    /// How long a question or a judge waits for rate limits.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_s.into())
    }

    /// How the run asks, with what is left of the budget.
    pub(super) fn options(&self, budget_usd: Option<f64>) -> RunOptions {
        let load = match self.load_rps {
            None => Load::Closed {
                concurrency: self.concurrency.unwrap_or(CONCURRENCY),
            },
            Some(per_second) => Load::Open {
                per_second,
                at_most: self.concurrency.unwrap_or(OPEN_AT_MOST),
            },
        };
        RunOptions {
            load,
            is_streamed: !self.whole,
            repeat: self.repeat,
            limit: self.limit,
            seed: self.seed,
            budget_usd,
            patience: self.patience(),
        }
    }
}

fn model(text: &str) -> Result<ModelId, String> {
    ModelId::new(text).map_err(|error| error.to_string())
}

fn share(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if (0.0..=1.0).contains(&number) {
        return Ok(number);
    }
    Err("expected 0 to 1".to_owned())
}

fn dollars(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if number.is_finite() && number >= 0.0 {
        return Ok(number);
    }
    Err("expected 0 or more".to_owned())
}
