#![doc = include_str!("../README.md")]

mod drill;
mod eol;
mod gate;
mod golden;
mod hashes;
mod job;
mod latencies;
mod measures;
mod outcome;
mod provider_words;
mod qualified;
mod ranking;
pub mod report;
mod roster_file;
mod run;
mod scorers;
mod shadow;
mod staleness;
mod statistics;
mod tally;

pub use drill::Takeover;
pub use eol::{EolReport, ModelLife, ProviderWord};
pub use gate::{
    Check, CheckName, GateLimits, Judged, LatencyKind, ModelFacts, MoreItems, Unit, Verdict, judge,
    judge_primary,
};
pub use golden::{Golden, GoldenError, GoldenFault, GoldenFaults, Item, Items, WeightedScorer};
pub use hashes::{ContentHasher, NOTHING, ToolsHasher, json_hash, prompt_hash};
pub use job::{Finished, Job};
pub use measures::{CandidateMeasures, Interval, LatencyMeasures, Quantiles, TagMeasures};
pub use outcome::{Outcome, OutcomeKind};
pub use provider_words::ask_providers;
pub use ranking::{Rank, RoleVerdict};
pub use roster_file::{
    Left, QualifiedFallback, QualifiedRole, RosterFileError, RosterWritten, check_roster_file,
    write_roster,
};
pub use run::{
    Bars, Ended, Halt, HttpValidators, Lines, Load, LockedFolder, Manifest, OPEN_AT_MOST, Plan,
    Progress, Run, RunError, RunFolder, RunOptions, Seen, Silent, SoFar, Stop,
};
pub use scorers::{
    CommandLimits, Judge, JudgeError, ScoreDetail, Scored, Scorer, ScoringContext, ScoringError,
    score,
};
pub use shadow::{
    ShadowComparison, ShadowCounts, ShadowJob, ShadowOptions, ShadowReport, ShadowVerdict,
    compare_shadows,
};
pub use staleness::{
    Change, SnapshotKnownBy, Stale, Staleness, UnreadableDataset, Unverified, golden_datasets,
};
pub use statistics::{
    RatioOutlook, Resampling, mean_interval, paired_difference, paired_ratio, share_interval,
};
pub use tally::{ForeignOutcome, ItemAnswer, Tally, WorstItem, WorstItems};
