//! Scorers: what an answer is worth, 0 to 1.

mod answered;
mod asked;
mod choice;
mod code;
mod command;
mod error;
mod exact;
mod field_f1;
mod fields;
mod form;
mod grade;
mod json;
mod judge;
mod normal;
mod number;
mod pattern;
mod reference;
mod schema;
mod scored;
mod similarity;
mod text;
mod tool_call;
mod transcript;

pub(crate) use answered::Answered;
pub(crate) use asked::Asked;
pub use command::CommandLimits;
pub use error::ScoringError;
pub(crate) use field_f1::field_f1;
pub(crate) use form::Form;
pub(crate) use grade::Grade;
pub use judge::{Judge, JudgeError};
pub(crate) use normal::text as normal_text;
pub(crate) use scored::WeightedMean;
pub use scored::{ScoreDetail, Scored, ScoringContext, score};
pub(crate) use similarity::token_f1;
pub(crate) use tool_call::Calls;

use crate::golden::{Item, Keys};
use evenkeel_core::{Tool, Value};
use evenkeel_schema_adapter::{Adapter, Checker};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// What an item offers its scorers when they are read.
pub(crate) struct Expected<'a> {
    /// What is expected, as it is written.
    pub(crate) value: Option<&'a Value>,
    /// The item's tools; none where its question could not be read, and what it
    /// has is not known.
    pub(crate) tools: Option<&'a [Tool]>,
    /// The item's schema.
    pub(crate) schema: Option<&'a Arc<Checker>>,
    /// Where the dataset lies.
    pub(crate) folder: &'a Path,
    /// Compiled schemas.
    pub(crate) adapter: &'a Adapter,
}

/// One way to score an answer, with what it expects.
#[derive(Debug, Clone)]
pub struct Scorer(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Exact(exact::Exact),
    Text(text::SameText),
    Choice(choice::Choice),
    Regex(pattern::Pattern),
    Number(number::Number),
    Json(json::SameJson),
    FieldF1(field_f1::FieldF1),
    Fields(fields::Fields),
    Schema(schema::Obeys),
    ToolCall(tool_call::Calls),
    Code(code::Parses),
    Similarity(similarity::Similar),
    Judge(Arc<judge::Rubric>),
    Command(Arc<command::External>),
}

impl Scorer {
    /// The kinds there are, as a dataset names them.
    pub const KINDS: [&'static str; 14] = [
        "exact",
        "text",
        "choice",
        "regex",
        "number",
        "json",
        "field_f1",
        "fields",
        "schema",
        "tool_call",
        "code",
        "similarity",
        "judge",
        "command",
    ];

    /// Reads a scorer of a known kind; what is wrong with it is told to `keys`.
    pub(crate) fn read(kind: &str, keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        let kind = match kind {
            "exact" => Kind::Exact(exact::Exact::read(keys, expected)?),
            "text" => Kind::Text(text::SameText::read(keys, expected)?),
            "choice" => Kind::Choice(choice::Choice::read(keys, expected)?),
            "regex" => Kind::Regex(pattern::Pattern::read(keys, expected)?),
            "number" => Kind::Number(number::Number::read(keys, expected)?),
            "json" => Kind::Json(json::SameJson::read(keys, expected)?),
            "field_f1" => Kind::FieldF1(field_f1::FieldF1::read(keys, expected)?),
            "fields" => Kind::Fields(fields::Fields::read(keys, expected)?),
            "schema" => Kind::Schema(schema::Obeys::read(keys, expected)?),
            "tool_call" => Kind::ToolCall(tool_call::Calls::read(keys, expected)?),
            "code" => Kind::Code(code::Parses::read(keys)?),
            "similarity" => Kind::Similarity(similarity::Similar::read(keys, expected)?),
            "judge" => Kind::Judge(Arc::new(judge::Rubric::read(keys, expected)?)),
            "command" => Kind::Command(Arc::new(command::External::read(keys, expected)?)),
            _ => return None,
        };
        Some(Self(kind))
    }

    /// Its kind, as a dataset names it.
    pub fn kind(&self) -> &'static str {
        match &self.0 {
            Kind::Exact(_) => "exact",
            Kind::Text(_) => "text",
            Kind::Choice(_) => "choice",
            Kind::Regex(_) => "regex",
            Kind::Number(_) => "number",
            Kind::Json(_) => "json",
            Kind::FieldF1(_) => "field_f1",
            Kind::Fields(_) => "fields",
            Kind::Schema(_) => "schema",
            Kind::ToolCall(_) => "tool_call",
            Kind::Code(_) => "code",
            Kind::Similarity(_) => "similarity",
            Kind::Judge(_) => "judge",
            Kind::Command(_) => "command",
        }
    }

    /// Whether only an answer that calls a tool can be right.
    pub(crate) fn wants_a_call(&self) -> bool {
        matches!(&self.0, Kind::ToolCall(calls) if calls.wants_a_call())
    }

    /// The scorer for answers of which it is not known what is expected; none where
    /// it needs to know.
    pub(crate) fn without_expected(&self) -> Option<Self> {
        Some(Self(match &self.0 {
            Kind::Regex(pattern) if !pattern.needs_expected() => self.0.clone(),
            Kind::Code(_) | Kind::Command(_) => self.0.clone(),
            Kind::Judge(rubric) => Kind::Judge(Arc::new(rubric.without_reference())),
            _ => return None,
        }))
    }

    /// Whether both score any answer alike, of scorers [without what is
    /// expected](Self::without_expected).
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Regex(a), Kind::Regex(b)) => a.is_same(b),
            (Kind::Code(a), Kind::Code(b)) => a == b,
            (Kind::Judge(a), Kind::Judge(b)) => a == b,
            (Kind::Command(a), Kind::Command(b)) => a == b,
            _ => false,
        }
    }

    /// The scores of two answers to the same question, the first one's first. A
    /// judge reads both at once.
    pub(crate) async fn compare(
        &self,
        asked: Asked<'_>,
        answers: [&Answered<'_>; 2],
        context: &ScoringContext,
    ) -> Result<(f64, f64), ScoringError> {
        if let Kind::Judge(rubric) = &self.0 {
            let judge = context.judge.as_deref().ok_or(ScoringError::NoJudge)?;
            return rubric.compare(asked.request, answers, judge).await;
        }
        let [first, second] = answers;
        let first = self.grade(asked, first, context).await?;
        let second = self.grade(asked, second, context).await?;
        Ok((first.score, second.score))
    }

    /// The score of an answer.
    pub(crate) async fn grade(
        &self,
        asked: Asked<'_>,
        answer: &Answered<'_>,
        context: &ScoringContext,
    ) -> Result<Grade, ScoringError> {
        Ok(match &self.0 {
            Kind::Exact(scorer) => scorer.grade(answer),
            Kind::Text(scorer) => scorer.grade(answer),
            Kind::Choice(scorer) => scorer.grade(answer),
            Kind::Regex(scorer) => scorer.grade(answer),
            Kind::Number(scorer) => scorer.grade(answer),
            Kind::Json(scorer) => scorer.grade(answer),
            Kind::FieldF1(scorer) => scorer.grade(answer),
            Kind::Fields(scorer) => scorer.grade(answer),
            Kind::Schema(scorer) => scorer.grade(answer),
            Kind::ToolCall(scorer) => scorer.grade(answer),
            Kind::Code(scorer) => scorer.grade(answer),
            Kind::Similarity(scorer) => scorer.grade(answer),
            Kind::Judge(rubric) => {
                let judge = context.judge.as_deref().ok_or(ScoringError::NoJudge)?;
                rubric.grade(asked.request, answer, judge).await?
            }
            Kind::Command(command) => {
                let limits = context.commands.as_ref().ok_or(ScoringError::NoCommands)?;
                command.grade(asked, answer, limits).await?
            }
        })
    }
}

/// What the scorers of a dataset need beside the answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    /// Roles that are asked for a judgement.
    pub(crate) judges: BTreeSet<Arc<str>>,
    /// Whether external commands are run.
    pub(crate) commands: bool,
}

impl Needs {
    /// With what an item's scorers need.
    pub(crate) fn take(&mut self, item: &Item) {
        for weighted in &item.scorers {
            match &weighted.scorer.0 {
                Kind::Judge(rubric) if !self.judges.contains(rubric.role()) => {
                    self.judges.insert(rubric.role().clone());
                }
                Kind::Command(_) => self.commands = true,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::any_json;
