//! Quality against latency.

use super::plot::{Scale, begin, end, horizontal_grid, label, line, range, vertical_grid};
use super::text::escaped;
use crate::report::{GoldenReport, words};
use crate::{Interval, Judged, LatencyKind, Quantiles};
use std::fmt::{Result, Write as _};
use std::time::Duration;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = HEIGHT - 46.0;

/// Least distance of two names, in pixels.
const APART: f64 = 14.0;

struct Point<'r> {
    judged: &'r Judged,
    class: &'static str,
    quality: Interval,
    latency: Quantiles,
}

pub(super) fn figure(out: &mut String, report: &GoldenReport) -> Result {
    let points = points(report);
    let limit = report.limits.latency;
    let slowest = points.iter().map(|point| point.latency.p95).max();
    let (Some(slowest), Some(qualities)) = (
        slowest,
        range(
            points
                .iter()
                .flat_map(|p| [p.quality.lower, p.quality.upper]),
        ),
    ) else {
        return Ok(());
    };
    // A limit far away would press all points together: it is told in words then.
    let is_near = limit <= slowest * 4;
    let far = if is_near { slowest.max(limit) } else { slowest };
    let x = Scale::new((0.0, ms(far) * 1.06), (LEFT, RIGHT));
    let y = Scale::new((qualities.0.max(0.0), qualities.1.min(1.02)), (BOTTOM, TOP));
    writeln!(out, "<h3>Quality against latency</h3>")?;
    begin(out, (WIDTH, HEIGHT), "Quality against latency")?;
    vertical_grid(out, x, (TOP, BOTTOM), |tick| words::time(Some(of_ms(tick))))?;
    horizontal_grid(out, y, (LEFT, RIGHT), |tick| format!("{tick:.2}"))?;
    if is_near {
        let at = x.at(ms(limit));
        line(out, "limit", (at, TOP), (at, BOTTOM))?;
    }
    let mut names: Vec<(f64, f64)> = Vec::new();
    for point in &points {
        draw(out, point, (x, y), &mut names)?;
    }
    let axis = match report.limits.latency_kind {
        LatencyKind::Total => "time to the whole answer",
        LatencyKind::FirstToken => "time to the first token",
    };
    label(
        out,
        (f64::midpoint(LEFT, RIGHT), HEIGHT - 8.0),
        "middle",
        axis,
    )?;
    end(
        out,
        &format!(
            "Each model at its median latency and its score, with the score's interval and, to the \
             right, the time up to the 95th percentile. The median has to be below {}.",
            words::time(Some(limit))
        ),
    )
}

fn points(report: &GoldenReport) -> Vec<Point<'_>> {
    let models = report.models();
    models.filter_map(|judged| point(report, judged)).collect()
}

/// None of a model that was not measured.
fn point<'r>(report: &GoldenReport, judged: &'r Judged) -> Option<Point<'r>> {
    let measures = &judged.measures;
    let latency = match report.limits.latency_kind {
        LatencyKind::Total => measures.latency.total,
        LatencyKind::FirstToken => measures.latency.first_token,
    };
    let is_primary = std::ptr::eq(judged, &raw const report.verdict.primary);
    let verdict = judged.verdict().as_str();
    Some(Point {
        judged,
        class: if is_primary { "primary" } else { verdict },
        quality: measures.quality?,
        latency: latency?,
    })
}

fn draw(
    out: &mut String,
    point: &Point<'_>,
    (x, y): (Scale, Scale),
    names: &mut Vec<(f64, f64)>,
) -> Result {
    let (quality, latency) = (point.quality, point.latency);
    let name = escaped(point.judged.measures.candidate.as_str());
    let (cx, cy) = (x.at(ms(latency.p50)), y.at(quality.estimate));
    writeln!(
        out,
        "<g class=\"{}\"><title>{name}: {}, median {}</title>",
        point.class,
        words::interval(Some(quality)),
        words::time(Some(latency.p50))
    )?;
    line(
        out,
        "bar",
        (cx, y.at(quality.lower)),
        (cx, y.at(quality.upper)),
    )?;
    line(out, "thin", (cx, cy), (x.at(ms(latency.p95)), cy))?;
    writeln!(
        out,
        "<circle class=\"mark\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"5\"/></g>"
    )?;
    let is_right = cx > f64::midpoint(LEFT, RIGHT);
    let (at, anchor) = if is_right {
        (cx - 9.0, "end")
    } else {
        (cx + 9.0, "start")
    };
    label(out, (at, free(at, cy - 6.0, names)), anchor, &name)
}

/// Where a name has room, at or below `y`.
fn free(x: f64, mut y: f64, names: &mut Vec<(f64, f64)>) -> f64 {
    for _ in 0..names.len() {
        let is_taken = |(px, py): &(f64, f64)| (px - x).abs() < 160.0 && (py - y).abs() < APART;
        match names.iter().find(|name| is_taken(name)) {
            Some((_, taken)) => y = taken + APART,
            None => break,
        }
    }
    names.push((x, y));
    y
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn of_ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.max(0.0) / 1_000.0)
}
