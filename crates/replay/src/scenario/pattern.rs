//! A step of a trail as a scenario writes it: its line, and bands on its times.

use super::Band;
use evenkeel_core::TrailStep;
use std::fmt;
use std::time::Duration;

/// `LINE [@ A..B] [until A..B] [for A..B]`: the step's own line, and in milliseconds
/// since the call began when it came, when the attempt ended, how long was waited.
/// One number stands for a band of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct StepPattern {
    line: String,
    at: Option<Band>,
    until: Option<Band>,
    lasts: Option<Band>,
}

/// What stands before each band.
const CLAUSES: [&str; 3] = [" @ ", " until ", " for "];

impl StepPattern {
    /// Reads the text of a step.
    ///
    /// # Errors
    /// What cannot be read of it.
    pub fn parse(text: &str) -> Result<Self, String> {
        // `resumed 1 for 0` names two rungs: nothing was waited for.
        let resumed = text.starts_with("resumed ");
        let clauses = CLAUSES.iter().filter(|c| !resumed || **c != CLAUSES[2]);
        let ends = clauses.filter_map(|clause| text.find(clause));
        let end = ends.min().unwrap_or(text.len());
        let (line, mut rest) = text.split_at(end);
        let mut bands = [None; 3];
        while !rest.is_empty() {
            let (nth, clause) = CLAUSES
                .iter()
                .enumerate()
                .find(|(_, clause)| rest.starts_with(**clause))
                .ok_or_else(|| {
                    format!("`{rest}` is neither `@ A..B`, `until A..B` nor `for A..B`")
                })?;
            rest = &rest[clause.len()..];
            let (band, after) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
            bands[nth] = Some(span(band)?);
            rest = after;
        }
        let [at, until, lasts] = bands;
        Ok(Self {
            line: line.to_owned(),
            at,
            until,
            lasts,
        })
    }

    /// Whether `step` is the one that is meant.
    pub fn fits(&self, step: &TrailStep) -> bool {
        let (until, lasts) = match step {
            TrailStep::Attempt(record) => (record.ended, None),
            TrailStep::Waited { wait, .. } => (None, Some(*wait)),
            _ => (None, None),
        };
        let line = step.to_string();
        let same = match self.line.strip_suffix('*') {
            Some(start) => line.starts_with(start),
            None => line == self.line,
        };
        same && within(self.at, step.at()) && within(self.until, until) && within(self.lasts, lasts)
    }
}

/// `step` as a scenario would write it, with exact times.
pub(crate) fn written(step: &TrailStep) -> String {
    use fmt::Write as _;
    let mut text = step.to_string();
    let mut add = |clause: &str, time: Option<Duration>| {
        if let Some(time) = time {
            let _ = write!(text, "{clause}{}", time.as_millis());
        }
    };
    add(CLAUSES[0], step.at());
    match step {
        TrailStep::Attempt(record) => add(CLAUSES[1], record.ended),
        TrailStep::Waited { wait, .. } => add(CLAUSES[2], Some(*wait)),
        _ => {}
    }
    text
}

fn within(band: Option<Band>, time: Option<Duration>) -> bool {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    band.is_none_or(|band| time.is_some_and(|time| band.holds(ms(time))))
}

fn span(text: &str) -> Result<Band, String> {
    let number = |text: &str| {
        let number = text.parse::<f64>();
        number.map_err(|_| format!("`{text}` is no number of milliseconds"))
    };
    let (least, most) = match text.split_once("..") {
        Some((least, most)) => (number(least)?, number(most)?),
        // Exact to the millisecond: what is written is rounded down.
        None => (number(text)?, number(text)? + 0.999_999),
    };
    if least > most {
        return Err(format!("`{text}`: write the least first"));
    }
    Ok(Band { least, most })
}

impl fmt::Display for StepPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)?;
        for (clause, band) in CLAUSES.iter().zip([self.at, self.until, self.lasts]) {
            if let Some(Band { least, most }) = band {
                write!(f, "{clause}{least}..{most}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(at: u64, wait: u64) -> TrailStep {
        TrailStep::Waited {
            rung: 0,
            wait: Duration::from_millis(wait),
            reason: "rate_limited",
            at: Duration::from_millis(at),
        }
    }

    #[test]
    fn a_step_fits_by_line_and_by_every_band() {
        for (pattern, fits) in [
            ("waited 0 rate_limited", true),
            ("waited 0 rate_limited @ 20", true),
            ("waited 0 rate_limited @ 0..20 for 2000..2200", true),
            ("waited 0 rate_limited for 2000..2099", false),
            ("waited 0 rate_limited @ 21", false),
            ("waited 0 *", true),
            ("waited 1 rate_limited", false),
            // It has no end of its own.
            ("waited 0 rate_limited until 0..9999", false),
        ] {
            let step = StepPattern::parse(pattern).unwrap();
            assert_eq!(step.fits(&waited(20, 2_100)), fits, "{pattern}");
        }
    }

    #[test]
    fn a_resumed_step_names_both_rungs() {
        let step = TrailStep::Resumed {
            attempt: 1,
            rung: 1,
            from: 0,
            prefilled: false,
            sent_tokens: 5,
            at: Duration::from_millis(20),
        };
        assert_eq!(written(&step), "resumed 1 for 0 @ 20");
        for (pattern, fits) in [
            ("resumed 1 for 0 @ 20", true),
            ("resumed 1 for 0", true),
            ("resumed 1 for 2", false),
            ("resumed 1 for 0 @ 21", false),
        ] {
            let pattern = StepPattern::parse(pattern).unwrap();
            assert_eq!(pattern.fits(&step), fits, "{pattern}");
        }
    }

    #[test]
    fn what_is_written_fits_itself() {
        let step = waited(20, 2_100);
        assert_eq!(written(&step), "waited 0 rate_limited @ 20 for 2100");
        assert!(StepPattern::parse(&written(&step)).unwrap().fits(&step));
    }

    #[test]
    fn a_band_that_is_none_is_refused() {
        for bad in ["waited 0 x @ soon", "waited 0 x @ 5..1", "waited 0 x @ 1 2"] {
            assert!(StepPattern::parse(bad).is_err(), "{bad}");
        }
    }
}
