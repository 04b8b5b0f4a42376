//! What a person or a program sees while the demo runs: a panel that is
//! redrawn in place on a terminal, plain lines elsewhere, JSON lines on request.

use super::lines::{self, since};
use super::load::Answer;
use super::panel::Panel;
use super::scenario::{Scenario, Stage};
use super::stats::Recent;
use super::words::{self, Line, Weight, human};
use evenkeel_core::Event;
use serde_json::Value;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// The state of the run at one moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// Since sending began.
    pub(super) elapsed: Duration,
    /// The part of the run.
    pub(super) stage: Stage,
    /// Requests that have ended.
    pub(super) requests: usize,
    /// Of them without an answer.
    pub(super) failed: usize,
    /// Of them with a wrong one.
    pub(super) wrong: usize,
    /// The last seconds, primary first.
    pub(super) recent: Recent,
    /// The last second alone.
    pub(super) second: Recent,
}

/// How the run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A panel that is redrawn in place; with colours or without.
    Panel {
        /// Whether colours may be used.
        colours: bool,
    },
    /// Plain lines.
    Lines,
    /// Events as JSON lines and the summary as the last one.
    Json,
}

/// Shows the run on `out`.
#[derive(Debug)]
pub(super) struct View<W> {
    out: W,
    shape: Shape,
    scenario: Scenario,
    start: Instant,
    models: [&'static str; 2],
}

#[derive(Debug)]
enum Shape {
    Panel(Panel),
    Lines(Repeated),
    Json,
}

impl<W: Write> View<W> {
    /// A view of a run that began at `start`; `models` are primary and fallback.
    pub(super) fn new(
        out: W,
        form: Form,
        scenario: Scenario,
        start: Instant,
        models: [&'static str; 2],
    ) -> Self {
        let shape = match form {
            Form::Panel { colours } => Shape::Panel(Panel::new(scenario, models, colours)),
            Form::Lines => Shape::Lines(Repeated::default()),
            Form::Json => Shape::Json,
        };
        Self {
            out,
            shape,
            scenario,
            start,
            models,
        }
    }

    /// Text for a person before the run and after it.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if matches!(self.shape, Shape::Json) {
            return Ok(());
        }
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// The run enters `stage` at `at`.
    pub(super) fn stage(&mut self, stage: Stage, at: Instant) -> io::Result<()> {
        let name = self.scenario.stage_name(stage);
        let elapsed = at.saturating_duration_since(self.start);
        match &mut self.shape {
            Shape::Panel(panel) => panel.stage(stage, elapsed),
            Shape::Lines(repeated) => {
                repeated.flush(&mut self.out)?;
                writeln!(self.out, "{:>6.2} s  ── {name} ──", elapsed.as_secs_f64())?;
            }
            Shape::Json => {
                writeln!(self.out, "{}", lines::phase(name, at, self.start))?;
            }
        }
        self.out.flush()
    }

    /// The router tells `event`.
    pub(super) fn event(&mut self, event: &Event) -> io::Result<()> {
        let at = since(self.start, event.at);
        match &mut self.shape {
            Shape::Panel(panel) => {
                if let Some(line) = words::event(&event.kind) {
                    panel.event(at, line);
                }
            }
            Shape::Lines(repeated) => {
                if let Some(line) = words::event(&event.kind) {
                    repeated.event(&mut self.out, at, line)?;
                }
            }
            Shape::Json => {
                if let Some(line) = lines::event(event, self.start) {
                    writeln!(self.out, "{line}")?;
                }
            }
        }
        Ok(())
    }

    /// A request has ended; nothing is said of one that was answered.
    pub(super) fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        let Some(line) = words::trouble(&answer.outcome) else {
            return Ok(());
        };
        let at = since(self.start, answer.ended);
        match &mut self.shape {
            Shape::Panel(panel) => {
                panel.event(at, line);
                Ok(())
            }
            Shape::Lines(repeated) => repeated.event(&mut self.out, at, line),
            Shape::Json => {
                writeln!(self.out, "{}", lines::trouble(&line, answer, self.start))
            }
        }
    }

    /// Some time has passed. `whole_second` says that a second is full.
    pub(super) fn tick(&mut self, now: &Snapshot, whole_second: bool) -> io::Result<()> {
        match &mut self.shape {
            Shape::Panel(panel) => {
                if whole_second {
                    panel.second(&now.second);
                }
                panel.draw(&mut self.out, now)?;
            }
            Shape::Lines(repeated) if whole_second => {
                repeated.flush(&mut self.out)?;
                let name = self.scenario.stage_name(now.stage);
                writeln!(self.out, "{}", plain(now, name, self.models))?;
            }
            Shape::Lines(_) | Shape::Json => {}
        }
        self.out.flush()
    }

    /// The run is over; the terminal is left as it was found.
    pub(super) fn close(&mut self) -> io::Result<()> {
        match &mut self.shape {
            Shape::Panel(panel) => panel.close(&mut self.out)?,
            Shape::Lines(repeated) => repeated.flush(&mut self.out)?,
            Shape::Json => {}
        }
        self.out.flush()
    }

    /// The last line for a program.
    pub(super) fn summary(&mut self, summary: &Value) -> io::Result<()> {
        if matches!(self.shape, Shape::Json) {
            writeln!(self.out, "{summary}")?;
        }
        self.out.flush()
    }
}

/// A latency for a person; a dash where there is none.
pub(super) fn latency(value: Option<Duration>) -> String {
    value.map_or_else(|| "-".to_owned(), human)
}

/// One second as one line.
fn plain(now: &Snapshot, stage: &str, models: [&str; 2]) -> String {
    let recent = &now.recent;
    let answered: Vec<String> = models
        .iter()
        .zip(&recent.answered)
        .map(|(model, n)| format!("{model} {n}"))
        .collect();
    format!(
        "{:>6.2} s  {stage:<9} {:>4.1}/s  p50 {:>6}  p95 {:>6}  p99 {:>6}  {}  failed {}",
        now.elapsed.as_secs_f64(),
        recent.rate,
        latency(recent.p50),
        latency(recent.p95),
        latency(recent.p99),
        answered.join("  "),
        now.failed + now.wrong,
    )
}

/// Single calls' events come by the dozen: those of one kind between two full
/// seconds become one line with their count.
#[derive(Debug, Default)]
struct Repeated(Vec<(f64, Line, usize)>);

impl Repeated {
    fn event(&mut self, out: &mut impl Write, at: f64, line: Line) -> io::Result<()> {
        if line.weight != Weight::Call {
            self.flush(out)?;
            return write_line(out, at, &line, 1);
        }
        match self.0.iter_mut().find(|(_, known, _)| *known == line) {
            Some((_, _, count)) => *count += 1,
            None => self.0.push((at, line, 1)),
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        for (at, line, count) in self.0.drain(..) {
            write_line(out, at, &line, count)?;
        }
        Ok(())
    }
}

fn write_line(out: &mut impl Write, at: f64, line: &Line, count: usize) -> io::Result<()> {
    let times = match count {
        1 => String::new(),
        n => format!("  ×{n}"),
    };
    writeln!(out, "{at:>6.2} s  » {}: {}{times}", line.label, line.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::EventKind;
    use serde_json::json;

    fn hedge(at: Instant) -> Event {
        Event {
            at,
            call: None,
            kind: EventKind::HedgeStarted {
                role: "agent".into(),
                from: 0,
                to: 1,
                budgeted: true,
            },
        }
    }

    fn shown(form: Form, show: impl FnOnce(&mut View<&mut Vec<u8>>, Instant)) -> String {
        let start = tokio::time::Instant::now().into_std();
        let mut out = Vec::new();
        let mut view = View::new(&mut out, form, Scenario::Spike, start, ["a/x", "b/y"]);
        show(&mut view, start);
        view.close().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_is_lines_of_json_and_nothing_else() {
        let text = shown(Form::Json, |view, start| {
            view.text("hello").unwrap();
            view.stage(Stage::Fault, start + Duration::from_secs(12))
                .unwrap();
            view.event(&hedge(start + Duration::from_secs(13))).unwrap();
            view.summary(&json!({"scenario": "spike"})).unwrap();
        });
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[0],
            json!({"at_s": 12.0, "event": "phase", "phase": "spike"})
        );
        assert_eq!(lines[1]["event"], "hedge_started");
        assert_eq!(lines[2], json!({"scenario": "spike"}));
    }

    #[test]
    fn events_of_single_calls_are_counted_in_one_line() {
        let text = shown(Form::Lines, |view, start| {
            for n in 0..17 {
                view.event(&hedge(start + Duration::from_millis(12_650 + n)))
                    .unwrap();
            }
        });
        assert_eq!(text.lines().count(), 1);
        assert!(text.starts_with(" 12.65 s  » hedge: "), "{text}");
        assert!(text.ends_with("×17\n"), "{text}");
    }

    #[test]
    fn a_second_is_one_line_of_figures() {
        let text = shown(Form::Lines, |view, _| {
            let recent = Recent {
                rate: 20.0,
                p50: Some(Duration::from_millis(301)),
                p95: Some(Duration::from_millis(410)),
                p99: Some(Duration::from_millis(1_184)),
                answered: vec![12, 8],
                bad: 0,
            };
            let now = Snapshot {
                elapsed: Duration::from_secs(13),
                stage: Stage::Fault,
                requests: 260,
                failed: 0,
                wrong: 0,
                second: recent.clone(),
                recent,
            };
            view.tick(&now, false).unwrap();
            view.tick(&now, true).unwrap();
        });
        assert_eq!(
            text,
            " 13.00 s  spike     20.0/s  p50 301 ms  p95 410 ms  p99 1.18 s  a/x 12  b/y 8  failed 0\n"
        );
    }
}
