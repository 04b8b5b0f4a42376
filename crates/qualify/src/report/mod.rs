//! What a person or a program is told of a job.
//!
//! One set of facts, [`Report`], in five forms: a table for a terminal, Markdown for
//! a pull request, JSON and JUnit XML for programs, and one HTML page that needs
//! nothing beside it. Each form takes the reports of all roles of a job. Names and
//! answers come from outside: each form escapes them its own way.

mod columns;
mod html;
mod json;
mod junit;
mod markdown;
mod shadows;
mod table;
mod words;
mod xml;

pub use html::html;
pub use json::json;
pub use junit::junit;
pub use markdown::markdown;
pub use table::{TableStyle, table};

use crate::run::Load;
use crate::{
    GateLimits, Judged, Resampling, RoleVerdict, ShadowReport, Takeover, Verdict, WorstItem,
};
use jiff::civil::Date;
use std::collections::BTreeMap;

/// What a job says of one role.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The role.
    pub role: String,
    /// What a golden dataset says of its models; none where none was asked.
    pub golden: Option<GoldenReport>,
    /// What pairs of shadowed calls say of its candidates; none where none were to be
    /// judged. Beside a golden dataset they do not change the verdict: a fallback may be
    /// worse than the primary, and one to cut over to may not.
    pub shadows: Option<ShadowReport>,
    /// The drill that was played; the golden dataset was then asked of what takes over.
    pub drill: Option<Takeover>,
}

/// What a golden dataset says of a role's models.
#[derive(Debug, Clone, PartialEq)]
pub struct GoldenReport {
    /// What its models were measured on.
    pub dataset: DatasetSummary,
    /// How they were measured.
    pub conditions: Conditions,
    /// What the gate asked for.
    pub limits: GateLimits,
    /// What it found.
    pub verdict: RoleVerdict,
    /// Why not everything was asked, where it was not.
    pub stopped: Option<String>,
    /// Tags that were too many to be told apart.
    pub tags_left_out: usize,
    /// The items at which a candidate loses most, the worst first.
    pub worst: Vec<WorstItem>,
    /// What else a run is repeated from, by name.
    pub manifest: BTreeMap<String, String>,
}

/// A golden dataset, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetSummary {
    /// Its file, as it was named.
    pub name: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Items that were asked.
    pub items: usize,
}

/// How candidates were measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// How questions reached them.
    pub load: Load,
    /// How often each item was asked.
    pub repeat: u32,
    /// How intervals were made.
    pub resampling: Resampling,
    /// The day that end-of-life dates were judged on.
    pub today: Date,
}

impl Report {
    /// Of a drill whether what takes over qualifies; else that of the golden dataset, and
    /// where none was asked that of the pairs.
    pub fn verdict(&self) -> Verdict {
        let golden = self.golden.as_ref().map(GoldenReport::verdict);
        if let Some(drill) = &self.drill {
            return drill.verdict(golden);
        }
        let shadows = || self.shadows.as_ref().map(ShadowReport::verdict);
        golden.or_else(shadows).unwrap_or(Verdict::NotEnoughData)
    }

    /// 0 where the gate holds, with or without warnings, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.verdict().is_pass())
    }

    /// One sentence that says what was found.
    fn headline(&self) -> String {
        let golden = self.golden.as_ref();
        match (&self.drill, golden, &self.shadows) {
            (Some(drill), _, _) => drill.words(golden.map(GoldenReport::verdict)),
            (None, Some(golden), _) => golden.headline(),
            (None, None, Some(shadows)) => shadows::headline(shadows),
            (None, None, None) => "nothing was measured".to_owned(),
        }
    }
}

impl GoldenReport {
    /// The gravest verdict; of a run that was stopped never a pass.
    pub fn verdict(&self) -> Verdict {
        let found = self.verdict.verdict();
        match self.stopped {
            Some(_) => found.max(Verdict::NotEnoughData),
            None => found,
        }
    }

    /// The primary, then the candidates in the order of their ranks.
    fn models(&self) -> impl Iterator<Item = &Judged> {
        std::iter::once(&self.verdict.primary).chain(&self.verdict.candidates)
    }

    /// One sentence that says what the gate found.
    fn headline(&self) -> String {
        let of = self.verdict.candidates.len();
        let passed = self.verdict.qualified().count();
        let gate = match self.verdict() {
            Verdict::Pass | Verdict::Warning => "the gate holds",
            Verdict::NotEnoughData => "the gate does not hold: not enough data",
            Verdict::Fail => "the gate does not hold",
        };
        format!("{gate}; {passed} of {of} candidates qualify")
    }

    /// How it was measured, in a sentence.
    fn circumstances(&self) -> String {
        let Self {
            dataset,
            conditions,
            ..
        } = self;
        format!(
            "{} items of {}, each {}, {}; threshold {} of `{}`; intervals at {:.0}%, seed {}",
            dataset.items,
            dataset.name,
            match conditions.repeat {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            },
            words::load(conditions.load),
            self.limits.quality,
            self.verdict.primary.measures.candidate,
            conditions.resampling.confidence() * 100.0,
            conditions.resampling.seed(),
        )
    }
}
