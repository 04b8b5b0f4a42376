//! The live panel of a terminal, drawn with ANSI sequences and redrawn in place.

use super::scenario::{Scenario, Stage};
use super::stats::Recent;
use super::view::{Snapshot, latency};
use super::words::{Line, Weight};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

/// Columns of the bars that show who answers.
const BAR: usize = 40;
/// Columns of the history, one a second: a run takes at most 55 s.
const HISTORY: usize = 56;
/// Events kept in sight.
const EVENTS: usize = 9;
/// Columns an event's text may take, so that a line fits into 80.
const TEXT: usize = 56;
/// One level of the history's blocks.
const LEVEL: Duration = Duration::from_millis(200);
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";
/// Hides the cursor and cuts long lines instead of wrapping them.
const ENTER: &str = "\x1b[?25l\x1b[?7l";
/// Undoes [`ENTER`].
const LEAVE: &str = "\x1b[?7h\x1b[?25h";

/// The panel's state between two drawings.
#[derive(Debug)]
pub(super) struct Panel {
    scenario: Scenario,
    models: [&'static str; 2],
    colours: bool,
    stages: Vec<(Stage, Duration)>,
    history: VecDeque<Second>,
    events: VecDeque<Told>,
    /// Lines of the last drawing.
    drawn: usize,
}

/// One second of the history.
#[derive(Debug)]
struct Second {
    p99: Option<Duration>,
    who: Who,
}

/// Who gave most of a second's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Primary,
    Fallback,
    /// At least one request got no answer, or a wrong one.
    Trouble,
    Nobody,
}

#[derive(Debug)]
struct Told {
    at: f64,
    line: Line,
    count: usize,
}

impl Panel {
    /// A panel that has not been drawn yet.
    pub(super) fn new(scenario: Scenario, models: [&'static str; 2], colours: bool) -> Self {
        Self {
            scenario,
            models,
            colours,
            stages: Vec::new(),
            history: VecDeque::new(),
            events: VecDeque::new(),
            drawn: 0,
        }
    }

    /// The run enters `stage`.
    pub(super) fn stage(&mut self, stage: Stage, elapsed: Duration) {
        self.stages.push((stage, elapsed));
    }

    /// Takes an event. Those of single calls that are in sight already are counted there.
    pub(super) fn event(&mut self, at: f64, line: Line) {
        let known = self.events.iter_mut().find(|t| t.line.label == line.label);
        if line.weight == Weight::Call
            && let Some(told) = known
        {
            told.count += 1;
            told.line = line;
            return;
        }
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Told { at, line, count: 1 });
    }

    /// A second is full.
    pub(super) fn second(&mut self, second: &Recent) {
        let (primary, fallback) = (second.answered[0], second.answered[1]);
        let who = match (primary, fallback) {
            _ if second.bad > 0 => Who::Trouble,
            (0, 0) => Who::Nobody,
            _ if primary >= fallback => Who::Primary,
            _ => Who::Fallback,
        };
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(Second {
            p99: second.p99,
            who,
        });
    }

    /// Draws the panel over the last drawing.
    pub(super) fn draw(&mut self, out: &mut impl Write, now: &Snapshot) -> io::Result<()> {
        let text = self.render(now);
        if self.drawn == 0 {
            out.write_all(ENTER.as_bytes())?;
        } else {
            write!(out, "\x1b[{}A\r", self.drawn)?;
        }
        self.drawn = text.lines().count();
        for line in text.lines() {
            // Each line is cleared behind its end: nothing flickers.
            writeln!(out, "{line}\x1b[K")?;
        }
        Ok(())
    }

    /// Leaves the last drawing in place and gives the cursor back.
    pub(super) fn close(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.drawn > 0 {
            out.write_all(LEAVE.as_bytes())?;
        }
        Ok(())
    }

    fn render(&self, now: &Snapshot) -> String {
        let mut text = String::new();
        self.head(&mut text, now);
        self.bars(&mut text, &now.recent);
        self.strips(&mut text);
        self.told(&mut text);
        text
    }

    fn head(&self, text: &mut String, now: &Snapshot) {
        let rule = "─".repeat(78);
        let count = |n: usize| self.paint(if n > 0 { RED } else { GREEN }, &n.to_string());
        let recent = &now.recent;
        let _ = write!(
            text,
            "{}\n phase    {}{:>8.1} s\n requests {:<8} {:>4.1} per second   failed {}   wrong {}\n \
             latency  p50 {:<8} p95 {:<8} p99 {:<8} {}\n",
            self.paint(DIM, &rule),
            self.phases(now.stage),
            now.elapsed.as_secs_f64(),
            now.requests,
            recent.rate,
            count(now.failed),
            count(now.wrong),
            latency(recent.p50),
            latency(recent.p95),
            latency(recent.p99),
            self.paint(DIM, "of the last 3 s"),
        );
    }

    fn phases(&self, current: Stage) -> String {
        [Stage::Healthy, Stage::Fault, Stage::Recovery]
            .map(|stage| {
                let mut label = self.scenario.stage_name(stage).to_owned();
                if stage == Stage::Fault && stage == current {
                    label = label.to_uppercase();
                }
                if let Some((_, at)) = self.stages.iter().find(|(s, _)| *s == stage) {
                    let _ = write!(label, " from {:.0} s", at.as_secs_f64());
                }
                match stage {
                    Stage::Fault if stage == current => self.paint(RED, &format!("▶ {label}")),
                    _ if stage == current => self.paint(BOLD, &format!("▶ {label}")),
                    _ => self.paint(DIM, &format!("  {label}")),
                }
            })
            .join("  ")
    }

    fn bars(&self, text: &mut String, recent: &Recent) {
        let total = recent.answered.iter().sum::<usize>().max(1);
        let width = self.models.iter().map(|m| m.len()).max().unwrap_or(0);
        let rows = self.models.iter().zip(&recent.answered);
        for ((model, &count), (place, colour)) in
            rows.zip([("primary ", GREEN), ("fallback", YELLOW)])
        {
            let filled = count * BAR / total;
            let bar = format!("{}{}", "█".repeat(filled), "·".repeat(BAR - filled));
            let _ = writeln!(
                text,
                " {place} {model:<width$} {} {:>3}%",
                self.paint(colour, &bar),
                count * 100 / total,
            );
        }
    }

    fn strips(&self, text: &mut String) {
        let (mut heights, mut names) = (String::new(), String::new());
        for second in &self.history {
            let block = second.p99.map_or(' ', block);
            heights.push_str(&self.paint(second.who.colour(), &block.to_string()));
            names.push(second.who.letter());
        }
        let _ = write!(
            text,
            " p99      {heights}\n answered {names}\n {}\n{}\n",
            self.paint(
                DIM,
                "one column a second: ▁ 0.2 s … █ 1.6 s, p primary, f fallback, ! failed"
            ),
            self.paint(DIM, &"─".repeat(78)),
        );
    }

    fn told(&self, text: &mut String) {
        for told in &self.events {
            let times = match told.count {
                1 => String::new(),
                n => format!(" ×{n}"),
            };
            let style = match told.line.weight {
                Weight::Turn => BOLD,
                Weight::Step => PLAIN,
                Weight::Call => DIM,
            };
            let words = clipped(&told.line.text, TEXT - times.chars().count());
            let line = format!("{:>6.2} s {:<14} {words}{times}", told.at, told.line.label);
            let _ = writeln!(text, "{}", self.paint(style, &line));
        }
        for _ in self.events.len()..EVENTS {
            text.push('\n');
        }
    }

    fn paint(&self, style: &str, text: &str) -> String {
        if self.colours {
            format!("{style}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }
}

impl Who {
    const fn letter(self) -> char {
        match self {
            Self::Primary => 'p',
            Self::Fallback => 'f',
            Self::Trouble => '!',
            Self::Nobody => ' ',
        }
    }

    const fn colour(self) -> &'static str {
        match self {
            Self::Primary => GREEN,
            Self::Fallback => YELLOW,
            Self::Trouble => RED,
            Self::Nobody => PLAIN,
        }
    }
}

/// The block for a latency: one level per 200 ms, the last for all above.
fn block(latency: Duration) -> char {
    let level = latency.as_millis().saturating_sub(1) / LEVEL.as_millis();
    BLOCKS[usize::try_from(level).map_or(BLOCKS.len() - 1, |l| l.min(BLOCKS.len() - 1))]
}

/// At most `width` characters of `text`.
fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(answered: [usize; 2], bad: usize, p99: u64) -> Recent {
        let time = Some(Duration::from_millis(p99));
        Recent {
            rate: 20.0,
            p50: time,
            p95: time,
            p99: time,
            answered: answered.to_vec(),
            bad,
        }
    }

    fn snapshot(answered: [usize; 2]) -> Snapshot {
        Snapshot {
            elapsed: Duration::from_millis(13_400),
            stage: Stage::Fault,
            requests: 268,
            failed: 0,
            wrong: 0,
            recent: recent(answered, 0, 1_184),
            second: recent(answered, 0, 1_184),
        }
    }

    fn call(text: &str) -> Line {
        Line {
            label: "hedge won",
            text: text.to_owned(),
            weight: Weight::Call,
        }
    }

    #[test]
    fn the_panel_keeps_its_height_and_fits_eighty_columns() {
        let mut panel = Panel::new(Scenario::Spike, ["alpha/large", "beta/medium"], false);
        panel.stage(Stage::Healthy, Duration::ZERO);
        let empty = panel.render(&snapshot([0, 0])).lines().count();
        panel.stage(Stage::Fault, Duration::from_secs(12));
        for n in 0..70_u32 {
            panel.second(&recent([20, 0], 0, 300));
            panel.event(
                f64::from(n),
                Line {
                    label: "substitution",
                    text: "a very long text ".repeat(9),
                    weight: Weight::Turn,
                },
            );
        }
        let full = panel.render(&snapshot([13, 7]));
        assert_eq!(full.lines().count(), empty);
        for line in full.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(full.contains("▶ SPIKE from 12 s"), "{full}");
        assert!(full.contains(" 65%") && full.contains(" 35%"), "{full}");
    }

    #[test]
    fn a_second_with_one_failure_is_marked() {
        let mut panel = Panel::new(Scenario::Spike, ["a/x", "b/y"], false);
        panel.second(&recent([20, 0], 0, 300));
        panel.second(&recent([3, 17], 0, 400));
        panel.second(&recent([3, 16], 1, 1_700));
        let text = panel.render(&snapshot([1, 1]));
        assert!(text.contains("p99      ▂▂█\n answered pf!\n"), "{text}");
    }

    #[test]
    fn events_of_single_calls_are_counted_in_place() {
        let mut panel = Panel::new(Scenario::Spike, ["a/x", "b/y"], false);
        for n in 0..17 {
            panel.event(f64::from(n), call("b/y answered before a/x"));
        }
        let text = panel.render(&snapshot([1, 1]));
        assert!(text.contains("b/y answered before a/x ×17"), "{text}");
    }

    #[test]
    fn the_second_drawing_goes_over_the_first_and_the_cursor_comes_back() {
        let mut panel = Panel::new(Scenario::Spike, ["a/x", "b/y"], true);
        let mut out = Vec::new();
        panel.draw(&mut out, &snapshot([1, 1])).unwrap();
        let lines = panel.drawn;
        panel.draw(&mut out, &snapshot([1, 1])).unwrap();
        panel.close(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with(ENTER) && text.ends_with(LEAVE));
        assert_eq!(text.matches(&format!("\x1b[{lines}A")).count(), 1);
    }
}
