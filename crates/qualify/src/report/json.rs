//! JSON, whose keys are stable: a key that is there keeps its meaning within a
//! version, and new ones may come. `docs/QUALIFICATION.md` says what they are.

use super::{GoldenReport, Report, shadows};
use crate::run::{Halt, Load};
use crate::{
    Check, Interval, Judged, MoreItems, OutcomeKind, Quantiles, Rank, TagMeasures, WorstItem,
};
use evenkeel_core::{Class, ModelId};
use serde_json::{Map, Value, json};

/// The version of the keys.
const VERSION: u32 = 1;

/// The reports as JSON, with a line break at the end.
pub fn json(reports: &[Report]) -> String {
    let passes = reports.iter().all(|report| report.verdict().is_pass());
    let document = json!({
        "version": VERSION,
        "passes": passes,
        "roles": reports.iter().map(role).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn role(report: &Report) -> Value {
    let golden = report.golden.as_ref();
    json!({
        "role": report.role,
        "verdict": report.verdict().as_str(),
        "stopped": golden.and_then(|golden| golden.stopped.as_ref()),
        "dataset": golden.map(|golden| json!({
            "name": golden.dataset.name,
            "sha256": golden.dataset.sha256,
            "items": golden.dataset.items,
        })),
        "conditions": golden.map(conditions),
        "limits": golden.map(limits),
        "checks": golden.map(|golden| checks(&golden.verdict.checks)),
        "primary": golden.map(|golden| model(&golden.verdict.primary)),
        "candidates": golden.map(|golden| golden.verdict.candidates.iter().map(model).collect::<Vec<_>>()),
        "tags_left_out": golden.map(|golden| golden.tags_left_out),
        "worst_items": golden.map(|golden| golden.worst.iter().map(worst).collect::<Vec<_>>()),
        "manifest": golden.map(|golden| &golden.manifest),
        "shadow": report.shadows.as_ref().map(shadows::json),
        "eol_drill": report.drill.as_ref().map(|drill| json!({
            "gone": drill.gone.as_str(),
            "rung": drill.rung,
            "takes_over": drill.takes_over.as_ref().map(ModelId::as_str),
            "words": report.headline(),
        })),
    })
}

fn conditions(report: &GoldenReport) -> Value {
    let conditions = report.conditions;
    let load = match conditions.load {
        Load::Closed { concurrency } => json!({ "kind": "closed", "concurrency": concurrency }),
        Load::Open {
            per_second,
            at_most,
        } => json!({ "kind": "open", "per_second": per_second, "at_most": at_most }),
    };
    json!({
        "load": load,
        "repeat": conditions.repeat,
        "seed": conditions.resampling.seed(),
        "resamples": conditions.resampling.resamples(),
        "confidence": conditions.resampling.confidence(),
        "today": conditions.today.to_string(),
    })
}

fn limits(report: &GoldenReport) -> Value {
    let limits = &report.limits;
    json!({
        "quality": limits.quality,
        "quality_by_tag": limits.quality_by_tag,
        "latency_of": limits.latency_kind.as_str(),
        "latency_ms": limits.latency.as_secs_f64() * 1_000.0,
        "schema_compliance": limits.schema_compliance,
        "context_window": limits.context_window,
        "allow_same_provider": limits.allow_same_provider,
    })
}

fn model(judged: &Judged) -> Value {
    let measures = &judged.measures;
    let errors: Map<String, Value> = measures
        .errors
        .iter()
        .map(|(class, count)| (class.as_str().to_owned(), json!(count)))
        .collect();
    let tags: Map<String, Value> = measures
        .tags
        .iter()
        .map(|(name, found)| (name.clone(), tag(found)))
        .collect();
    json!({
        "model": measures.candidate.as_str(),
        "verdict": judged.verdict().as_str(),
        "rank": judged.rank.map(rank),
        "items": measures.items,
        "paired_items": measures.paired,
        "questions": measures.questions,
        "scored": measures.scored,
        "unmeasured": measures.unmeasured,
        "unscored": measures.unscored,
        "unreached": measures.unreached,
        "halted": measures.halted.map(halted),
        "judged_answers": measures.judged,
        "judges_agree": measures.judges_agree,
        "quality": measures.quality.map(interval),
        "ratio": measures.ratio.map(interval),
        "schema_compliance": measures.compliance.map(interval),
        "checked_items": measures.checked,
        "latency_ms": {
            "total": measures.latency.total.map(quantiles),
            "first_token": measures.latency.first_token.map(quantiles),
        },
        "error_share": measures.error_share,
        "errors": errors,
        "refusal_share": measures.refusal_share,
        "input_tokens": measures.usage.input,
        "output_tokens": measures.usage.output,
        "cost_usd": measures.cost_usd,
        "context_window": judged.facts.context_window,
        "eol_date": judged.facts.eol_date.map(|day| day.to_string()),
        "checks": checks(&judged.checks),
        "tags": tags,
    })
}

fn halted(halt: Halt) -> Value {
    let (kind, in_a_row, class) = match halt {
        Halt::Failing { in_a_row, class } => ("failing", in_a_row, class),
        Halt::Limited { in_a_row, class } => ("limited", in_a_row, class),
    };
    json!({
        "kind": kind,
        "in_a_row": in_a_row,
        "class": class.as_str(),
        "words": halt.to_string(),
    })
}

fn rank(rank: Rank) -> Value {
    json!({
        "place": rank.rank,
        "score": rank.score,
        "quality": rank.quality,
        "latency": rank.latency,
        "compliance": rank.compliance,
    })
}

fn tag(found: &TagMeasures) -> Value {
    json!({
        "items": found.items,
        "paired_items": found.paired,
        "quality": found.quality.map(interval),
        "ratio": found.ratio.map(interval),
    })
}

pub(super) fn interval(found: Interval) -> Value {
    json!({ "estimate": found.estimate, "lower": found.lower, "upper": found.upper })
}

pub(super) fn quantiles(found: Quantiles) -> Value {
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1_000.0;
    json!({ "p50": ms(found.p50), "p95": ms(found.p95), "p99": ms(found.p99) })
}

fn checks(checks: &[Check]) -> Vec<Value> {
    let one = |check: &Check| {
        let (more, can_be_settled) = match check.more {
            None => (None, None),
            Some(MoreItems::About(more)) => (Some(more), Some(true)),
            Some(MoreItems::CannotBeSettled) => (None, Some(false)),
        };
        json!({
            "name": check.name.to_string(),
            "verdict": check.verdict.as_str(),
            "unit": check.unit.as_str(),
            "measured": check.measured.map(interval),
            "limit": check.limit,
            "can_be_settled": can_be_settled,
            "more_items": more,
            "words": check.words,
        })
    };
    checks.iter().map(one).collect()
}

fn worst(item: &WorstItem) -> Value {
    let answer = |answer: &crate::ItemAnswer| {
        let (ended, class): (&str, Option<Class>) = match answer.kind {
            None => ("not_asked", None),
            Some(OutcomeKind::Answered(_)) => ("answered", None),
            Some(OutcomeKind::Refused) => ("refused", None),
            Some(OutcomeKind::Failed(class)) => ("failed", Some(class)),
            Some(OutcomeKind::Unscored) => ("unscored", None),
            Some(OutcomeKind::Unmeasured(class)) => ("unmeasured", Some(class)),
        };
        json!({
            "model": answer.candidate.as_str(),
            "ended": ended,
            "class": class.map(Class::as_str),
            "score": answer.kind.and_then(OutcomeKind::score),
            "answer": answer.answer.as_deref(),
        })
    };
    json!({
        "id": &*item.item,
        "tags": &*item.tags,
        "question": item.question.as_deref(),
        "expected": item.expected.as_deref(),
        "answers": item.answers.iter().map(answer).collect::<Vec<_>>(),
    })
}
