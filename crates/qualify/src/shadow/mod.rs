//! Pairs of shadowed calls: is the candidate as good as what callers got?

mod agreement;
mod comparison;
mod job;
mod pair;
mod verdict;

pub use comparison::{ShadowComparison, ShadowCounts};
pub use job::ShadowJob;
pub use verdict::ShadowVerdict;

use crate::Verdict;
use crate::golden::{GoldenError, GoldenFaults, Line, WeightedScorer, lines_of};
use crate::scorers::{Answered, Asked, ScoringContext, ScoringError, WeightedMean};
use crate::statistics::Resampling;
use comparison::{Gathered, Shown};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use pair::Pair;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Pairs that are scored at a time: judges and commands take their time.
const AT_A_TIME: usize = 8;

/// How pairs are compared.
#[derive(Debug, Clone)]
pub struct ShadowOptions {
    /// Only pairs of this role; none: of every role.
    pub role: Option<String>,
    /// What a role's answers are scored by, where it was allowed to keep them, by
    /// role ([`Golden::role_scorers`](crate::Golden::role_scorers)). A role without
    /// is judged by the validity of its answers and by how they agree.
    pub scorers: BTreeMap<String, Vec<WeightedScorer>>,
    /// How much worse a candidate may score and still be as good, 0 to 1.
    pub margin: f64,
    /// How intervals are made.
    pub resampling: Resampling,
}

impl ShadowOptions {
    /// The margin where nothing else is said: one answer in twenty.
    pub const MARGIN: f64 = 0.05;

    /// All roles, no scorers, and a margin of [`MARGIN`](Self::MARGIN).
    pub fn new(resampling: Resampling) -> Self {
        Self {
            role: None,
            scorers: BTreeMap::new(),
            margin: Self::MARGIN,
            resampling,
        }
    }
}

/// What the pairs of some files come to.
#[derive(Debug, Clone, PartialEq)]
pub struct ShadowReport {
    /// One for each role, candidate, and model that answered live, in that order.
    pub comparisons: Vec<ShadowComparison>,
    /// Lines that are no pairs, by file; the pairs beside them count. A file's last
    /// line without an end, which is being written or was cut off, is none of them.
    pub faults: Vec<GoldenFaults>,
    /// How much worse a candidate may be and still be as good.
    pub margin: f64,
    /// The share of intervals that hold the truth, 0 to 1.
    pub confidence: f64,
}

impl ShadowReport {
    /// The gravest verdict of all candidates; not enough data where there is no pair.
    pub fn verdict(&self) -> Verdict {
        let verdicts = self.comparisons.iter().map(|found| found.verdict.gate());
        verdicts.max().unwrap_or(Verdict::NotEnoughData)
    }
}

/// Compares the pairs that the gateway wrote to `files`, line by line, keeping a
/// few numbers of each.
///
/// Blocks while it reads a file. Dropping the future gives it up.
///
/// # Errors
/// [`GoldenError::Unreadable`] for a file that cannot be read, and
/// [`GoldenError::Faulty`] for one that has lines, none of which is a pair.
pub async fn compare_shadows(
    files: &[PathBuf],
    options: &ShadowOptions,
    context: &ScoringContext,
) -> Result<ShadowReport, GoldenError> {
    let mut gathered: BTreeMap<_, Gathered> = BTreeMap::new();
    let mut take = |(pair, shown): (Pair, Shown)| {
        let of = gathered.entry(pair.key()).or_default();
        of.take(&pair, shown, options);
    };
    // In the order of the pairs, whichever is scored first.
    let mut scoring = FuturesOrdered::new();
    let mut faults = Vec::new();
    for path in files {
        let unreadable = |e| GoldenError::unreadable(path, e);
        let mut lines = lines_of(path)?;
        let mut unread = GoldenFaults::of(path);
        let mut pairs = 0;
        while let Some((number, line)) = lines.next().map_err(unreadable)? {
            let read = match line {
                Line::TooLong => Err("is longer than is read".to_owned()),
                Line::Text(text) => Pair::read(text),
            };
            let pair = match read {
                Ok(pair) => pair,
                Err(_) if lines.is_cut() => continue,
                Err(what) => {
                    unread.line(number, what);
                    continue;
                }
            };
            pairs += 1;
            let is_asked_for = options.role.as_ref().is_none_or(|role| *role == *pair.role);
            if !is_asked_for {
                continue;
            }
            scoring.push_back(async move {
                let shown = shown(&pair, options, context).await;
                (pair, shown)
            });
            if scoring.len() >= AT_A_TIME {
                scoring.next().await.into_iter().for_each(&mut take);
            }
        }
        if pairs == 0 && !unread.is_empty() {
            return Err(GoldenError::Faulty(unread));
        }
        if !unread.is_empty() {
            faults.push(unread);
        }
    }
    while let Some(scored) = scoring.next().await {
        take(scored);
    }
    let comparisons = gathered
        .into_iter()
        .map(|(key, gathered)| gathered.finish(key, options))
        .collect();
    Ok(ShadowReport {
        comparisons,
        faults,
        margin: options.margin,
        confidence: options.resampling.confidence(),
    })
}

/// What the texts of a pair show, where the role keeps them.
async fn shown(pair: &Pair, options: &ShadowOptions, context: &ScoringContext) -> Shown {
    let (Some(request), Some(live)) = (&pair.request, &pair.live.answer) else {
        return Shown::default();
    };
    let asked = Asked {
        id: &pair.call,
        role: Some(&pair.role),
        tags: &[],
        request,
        expected: None,
    };
    let live = Answered::new(live);
    let answered = pair.shadow.failed.is_none();
    let shadow = pair.shadow.answer.as_ref().filter(|_| answered);
    let shadow = shadow.map(Answered::new);
    let agreement = shadow
        .as_ref()
        .map_or(0.0, |s| agreement::of(request, &live, s));
    let scorers = options.scorers.get(&*pair.role).map(Vec::as_slice);
    let scored = scores(
        scorers.unwrap_or_default(),
        asked,
        shadow.as_ref(),
        &live,
        context,
    )
    .await;
    let (quality, unscored) = match scored {
        Ok(quality) => (quality, None),
        Err(error) => (None, Some(error.to_string())),
    };
    Shown {
        quality,
        agreement: Some(agreement),
        unscored,
    }
}

/// The weighted means of the scorers, the candidate's first: 0 where it did not
/// answer. None without scorers.
async fn scores(
    scorers: &[WeightedScorer],
    asked: Asked<'_>,
    shadow: Option<&Answered<'_>>,
    live: &Answered<'_>,
    context: &ScoringContext,
) -> Result<Option<(f64, f64)>, ScoringError> {
    let (mut of_shadow, mut of_live) = (WeightedMean::default(), WeightedMean::default());
    for WeightedScorer { weight, scorer } in scorers {
        let (a, b) = match shadow {
            Some(shadow) => scorer.compare(asked, [shadow, live], context).await?,
            None => (0.0, scorer.grade(asked, live, context).await?.score),
        };
        of_shadow.add(*weight, a);
        of_live.add(*weight, b);
    }
    Ok(of_shadow.mean().zip(of_live.mean()))
}
