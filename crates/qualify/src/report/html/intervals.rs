//! Each candidate's ratio with its interval, against the threshold.

use super::plot::{Scale, begin, end, label, line, range, vertical_grid};
use super::text::escaped;
use crate::report::{GoldenReport, words};
use std::fmt::{Result, Write as _};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 260.0;
const ROW: f64 = 28.0;
const TOP: f64 = 10.0;

pub(super) fn figure(out: &mut String, report: &GoldenReport) -> Result {
    let candidates = &report.verdict.candidates;
    let threshold = report.limits.quality;
    let ratios = candidates.iter().filter_map(|judged| judged.measures.ratio);
    // An upper end far away would press all others together.
    let ends = ratios.flat_map(|ratio| [ratio.lower, ratio.estimate, ratio.upper.min(2.0)]);
    let Some(range) = range(ends.chain([threshold, 1.0])) else {
        return Ok(());
    };
    let bottom = candidates.iter().fold(TOP, |bottom, _| bottom + ROW);
    let scale = Scale::new(range, (LEFT, WIDTH - 20.0));
    writeln!(out, "<h3>Quality relative to the primary</h3>")?;
    begin(
        out,
        (WIDTH, bottom + 26.0),
        "Intervals of quality relative to the primary",
    )?;
    vertical_grid(out, scale, (TOP, bottom), |tick| format!("{tick:.2}"))?;
    let at = scale.at(threshold);
    line(out, "limit", (at, TOP), (at, bottom))?;
    let mut y = TOP - ROW / 2.0;
    for judged in candidates {
        y += ROW;
        let name = escaped(judged.measures.candidate.as_str());
        label(out, (LEFT - 10.0, y + 4.0), "end", &name)?;
        let Some(ratio) = judged.measures.ratio else {
            label(out, (LEFT + 8.0, y + 4.0), "start", "not measured")?;
            continue;
        };
        let numbers = words::interval(Some(ratio));
        writeln!(
            out,
            "<g class=\"{}\"><title>{name}: {numbers}</title>",
            judged.verdict().as_str()
        )?;
        line(
            out,
            "bar",
            (scale.at(ratio.lower), y),
            (scale.at(ratio.upper), y),
        )?;
        let x = scale.at(ratio.estimate);
        writeln!(
            out,
            "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/></g>"
        )?;
    }
    end(
        out,
        "The estimate with its interval; the dashed line is the threshold. A candidate passes \
         when the whole interval lies at or above it, and fails when it lies below.",
    )
}
