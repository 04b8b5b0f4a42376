//! One condition, and what came of it.

use super::MoreItems;
use crate::Interval;
use std::fmt;

/// What came of a check, a candidate or a whole job; a later one is graver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It holds, and a person should look at it.
    Warning,
    /// It may hold or not.
    NotEnoughData,
    /// It does not hold.
    Fail,
}

impl Verdict {
    /// Whether what was judged may be used.
    pub const fn is_pass(self) -> bool {
        matches!(self, Self::Pass | Self::Warning)
    }

    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warning => "warning",
            Self::NotEnoughData => "not_enough_data",
            Self::Fail => "fail",
        }
    }

    /// The words that a person reads.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warning => "warning",
            Self::NotEnoughData => "not enough data",
            Self::Fail => "fail",
        }
    }
}

/// Which condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CheckName {
    /// Quality relative to the primary's; of the primary, that it has some.
    Quality,
    /// Share of the questions that were measured.
    Coverage,
    /// Of the primary: that it answers what the others are measured on.
    Yardstick,
    /// The same over the items of one tag.
    TagQuality(String),
    /// Median latency against the role's threshold.
    Latency,
    /// Share of answers valid for their schema or tools.
    SchemaCompliance,
    /// Room for what the role needs.
    ContextWindow,
    /// Another provider than the primary's.
    Provider,
    /// Not past its last day.
    EndOfLife,
    /// Of a role: that a candidate qualifies.
    Fallbacks,
    /// Of a role: that the first fallback stands at another provider.
    ProviderDiversity,
}

impl fmt::Display for CheckName {
    /// The name used in files: `quality`, `quality[tools]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quality => "quality",
            Self::Coverage => "coverage",
            Self::Yardstick => "yardstick",
            Self::TagQuality(tag) => return write!(f, "quality[{tag}]"),
            Self::Latency => "latency",
            Self::SchemaCompliance => "schema_compliance",
            Self::ContextWindow => "context_window",
            Self::Provider => "provider",
            Self::EndOfLife => "end_of_life",
            Self::Fallbacks => "fallbacks",
            Self::ProviderDiversity => "provider_diversity",
        })
    }
}

/// What a check's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// A mean score, 0..1.
    Score,
    /// A share of the primary's score; above 1 where it is better.
    Ratio,
    /// A share, 0..1.
    Share,
    /// Milliseconds.
    Milliseconds,
    /// Tokens.
    Tokens,
    /// Days until the last day.
    Days,
    /// There are no numbers.
    None,
}

impl Unit {
    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Score => "score",
            Self::Ratio => "ratio",
            Self::Share => "share",
            Self::Milliseconds => "ms",
            Self::Tokens => "tokens",
            Self::Days => "days",
            Self::None => "none",
        }
    }
}

/// One condition, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Which.
    pub name: CheckName,
    /// What came of it.
    pub verdict: Verdict,
    /// What the numbers are.
    pub unit: Unit,
    /// What was found, where it is a number; its interval is a point where it is
    /// not estimated.
    pub measured: Option<Interval>,
    /// What is asked.
    pub limit: Option<f64>,
    /// What it would take to tell, where there is not enough data.
    pub more: Option<MoreItems>,
    /// All of that in a sentence.
    pub words: String,
}

impl Check {
    pub(crate) const fn new(name: CheckName, unit: Unit) -> Self {
        Self {
            name,
            verdict: Verdict::NotEnoughData,
            unit,
            measured: None,
            limit: None,
            more: None,
            words: String::new(),
        }
    }

    /// The gravest verdict of `checks`; a pass of none.
    pub(crate) fn gravest<'c>(checks: impl IntoIterator<Item = &'c Self>) -> Verdict {
        let verdicts = checks.into_iter().map(|check| check.verdict);
        verdicts.max().unwrap_or(Verdict::Pass)
    }

    pub(super) const fn with_limit(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(super) const fn with_measured(mut self, measured: Interval) -> Self {
        self.measured = Some(measured);
        self
    }

    pub(super) const fn with_value(self, value: f64) -> Self {
        self.with_measured(Interval {
            estimate: value,
            lower: value,
            upper: value,
        })
    }

    fn end(mut self, verdict: Verdict, words: String) -> Self {
        self.verdict = verdict;
        self.words = words;
        self
    }

    pub(crate) fn pass(self, words: String) -> Self {
        self.end(Verdict::Pass, words)
    }

    pub(super) fn warn(self, words: impl Into<String>) -> Self {
        self.end(Verdict::Warning, words.into())
    }

    pub(crate) fn fail(self, words: String) -> Self {
        self.end(Verdict::Fail, words)
    }

    pub(crate) fn not_enough(self, words: impl Into<String>) -> Self {
        self.end(Verdict::NotEnoughData, words.into())
    }

    pub(super) fn with_more(mut self, more: MoreItems) -> Self {
        self.more = Some(more);
        self
    }
}
