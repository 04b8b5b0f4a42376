//! Scales and axes.

use std::fmt::{Result, Write as _};

/// Maps values onto pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// From `from` to `to`, which lie apart, on `start` to `end`.
    pub(super) fn new((from, to): (f64, f64), (start, end): (f64, f64)) -> Self {
        let to = if to - from < 1e-9 { from + 1e-9 } else { to };
        Self {
            from,
            to,
            start,
            end,
        }
    }

    /// Where `value` lies; what lies outside, at the nearer end.
    pub(super) fn at(self, value: f64) -> f64 {
        let share = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.start + share * (self.end - self.start)
    }

    /// Round values along it, about five, each a step of 1, 2 or 5 apart.
    pub(super) fn ticks(self) -> Vec<f64> {
        let rough = (self.to - self.from) / 5.0;
        let magnitude = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * magnitude)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let first = (self.from / step).ceil();
        let within = |nth: u32| (first + f64::from(nth)) * step;
        (0..12)
            .map(within)
            .take_while(|tick| *tick <= self.to + step * 1e-6)
            .collect()
    }
}

/// Begins a figure of that size, in pixels.
pub(super) fn begin(out: &mut String, (width, height): (f64, f64), label: &str) -> Result {
    writeln!(
        out,
        "<figure>\n<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{label}\" xmlns=\"http://www.w3.org/2000/svg\">"
    )
}

/// Ends it with a caption, which is no text from outside.
pub(super) fn end(out: &mut String, caption: &str) -> Result {
    writeln!(out, "</svg>\n<figcaption>{caption}</figcaption>\n</figure>")
}

/// A line of that class.
pub(super) fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) -> Result {
    let ((x1, y1), (x2, y2)) = (from, to);
    writeln!(
        out,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    )
}

/// Escaped text, `anchor`ed at a point.
pub(super) fn label(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) -> Result {
    writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    )
}

/// A grid of vertical lines with what they stand for below, from `top` to `bottom`.
pub(super) fn vertical_grid(
    out: &mut String,
    scale: Scale,
    (top, bottom): (f64, f64),
    shown: impl Fn(f64) -> String,
) -> Result {
    for tick in scale.ticks() {
        let x = scale.at(tick);
        line(out, "grid", (x, top), (x, bottom))?;
        let text = shown(tick);
        writeln!(
            out,
            "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            bottom + 16.0
        )?;
    }
    Ok(())
}

/// A grid of horizontal lines with what they stand for on the left.
pub(super) fn horizontal_grid(
    out: &mut String,
    scale: Scale,
    (left, right): (f64, f64),
    shown: impl Fn(f64) -> String,
) -> Result {
    for tick in scale.ticks() {
        let y = scale.at(tick);
        line(out, "grid", (left, y), (right, y))?;
        let text = shown(tick);
        writeln!(
            out,
            "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            left - 6.0,
            y + 4.0
        )?;
    }
    Ok(())
}

/// The least and the greatest of `values`, with a little room; none of none.
pub(super) fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    (least <= most).then(|| {
        let room = ((most - least) * 0.06).max(0.01);
        (least - room, most + room)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let ticks = Scale::new((0.0, 1.0), (0.0, 100.0)).ticks();
        assert_eq!(ticks.len(), 6);
        assert!((ticks[1] - 0.2).abs() < 1e-12);
        let narrow = Scale::new((0.82, 0.91), (0.0, 100.0)).ticks();
        assert!(
            narrow.iter().all(|tick| (0.82..=0.9101).contains(tick)),
            "{narrow:?}"
        );
        assert!((3..=6).contains(&narrow.len()), "{narrow:?}");
    }

    #[test]
    fn a_scale_of_one_value_stays_finite() {
        let scale = Scale::new((2.0, 2.0), (0.0, 100.0));
        assert!(scale.at(2.0).is_finite() && scale.at(f64::MAX).is_finite());
        assert!(scale.ticks().len() <= 12);
    }

    #[test]
    fn nothing_has_no_range() {
        assert_eq!(range(std::iter::empty()), None);
    }
}
