//! The words before the run and after it.

use super::record::Record;
use super::scenario::{INTERVAL, Scenario, Stage};
use super::settings;
use super::verdict::Check;
use super::view::latency;
use super::words::human;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

/// What is about to happen, with every setting.
pub(super) fn opening(scenario: Scenario, seed: u64, gateway: SocketAddr) -> String {
    let name = scenario.name();
    let mut text = format!("evenkeel demo: {name}\n\n{}\n\n", scenario.plot());
    let model = |name: &str, (median, p99): (u64, u64)| {
        format!(
            "{name:<12} first token lognormal, median {median} ms, p99 {p99} ms;\n            \
             {} tokens {} ms apart",
            settings::TOKENS,
            settings::INTER_TOKEN_MS
        )
    };
    let rows = [
        (
            "callers",
            format!(
                "{} requests per second through HTTP, whole and streamed in turn,\n            \
                 each a session of its own, all for the role `{}`",
                1_000 / INTERVAL.as_millis(),
                settings::ROLE
            ),
        ),
        (
            "gateway",
            format!("http://{gateway}, with http://{gateway}/metrics"),
        ),
        ("primary", model(settings::PRIMARY, settings::PRIMARY_MS)),
        ("fallback", model(settings::FALLBACK, settings::FALLBACK_MS)),
        (
            "seed",
            format!("{seed} (of all latencies; `--seed` takes another)"),
        ),
        ("course", scenario.course().words(name)),
    ];
    for (label, words) in rows {
        let _ = writeln!(text, "  {label:<9} {words}");
    }
    let _ = write!(text, "\n  policy.toml\n{}", indented(settings::POLICY));
    let shared = settings::shared(scenario);
    if !shared.is_empty() {
        let _ = write!(text, "\n  evenkeel.toml\n{}", indented(shared));
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "    {line}");
        all
    })
}

/// What happened, and the one sentence that says what was shown.
pub(super) fn closing(run: &Record, checks: &[Check]) -> String {
    let mut text = String::from("\nReport\n");
    for (label, words) in figures(run) {
        let _ = writeln!(text, "  {label:<22} {words}");
    }
    text.push('\n');
    for check in checks {
        let mark = if check.held { '✓' } else { '✗' };
        let _ = writeln!(text, "  {mark} {} ({})", check.what, check.seen);
    }
    let _ = write!(text, "\n{}", sentence(run, checks));
    text
}

fn figures(run: &Record) -> Vec<(&'static str, String)> {
    let requests = run.answers.len();
    let row = |label: &'static str, words: String| (label, words);
    let mut rows = vec![
        row(
            "requests",
            format!(
                "{requests}, failed {}, wrong {}",
                run.answers.failed(),
                run.answers.wrong()
            ),
        ),
        row(
            "answered by",
            [run.primary, run.fallback]
                .map(|model| format!("{model} {}", run.answers.served_by(model)))
                .join(", "),
        ),
        row("p99 while healthy", latency(run.stage_p99(Stage::Healthy))),
        row("p99 during the fault", fault_p99(run)),
        row("p99 of the fallback", latency(run.fallback_p99())),
    ];
    if let Some(time) = run.time_to_substitution() {
        rows.push(row("moved after", moved_after(run, time)));
    }
    if let Some(time) = run.tally.time_to_restoration() {
        rows.push(row("moved back after", human(time)));
    }
    rows.push(row(
        "hedges",
        format!("{}, of them won {}", run.tally.hedges, run.tally.hedges_won),
    ));
    rows.push(row("upstream calls", upstream_calls(run)));
    rows
}

/// With the time that five slow calls in a row take to show, where all are
/// slow at once: the first one's patience and four more arrivals; the fifth
/// arrival is for the onset between two, and 200 ms for the machine.
fn moved_after(run: &Record, time: Duration) -> String {
    let bound = run.patience + 5 * INTERVAL + Duration::from_millis(200);
    match run.scenario {
        Scenario::Spike | Scenario::Hang => format!(
            "{} (patience + 5 arrivals + 200 ms = {})",
            human(time),
            human(bound)
        ),
        _ => human(time),
    }
}

/// With the measure that hedging sets for it, where the role is to move.
fn fault_p99(run: &Record) -> String {
    let p99 = latency(run.stage_p99(Stage::Fault));
    match (run.tally.activations, run.fallback_p99()) {
        (1.., Some(fallback)) => format!(
            "{p99} (patience {} + 2 × the fallback's p99 = {})",
            human(run.patience),
            human(run.patience + 2 * fallback)
        ),
        _ => p99,
    }
}

fn upstream_calls(run: &Record) -> String {
    #[expect(clippy::cast_precision_loss, reason = "about a thousand calls")]
    let share = run.upstream_calls as f64 / run.answers.len().max(1) as f64;
    format!(
        "{}, probes included: {share:.2} per request",
        run.upstream_calls
    )
}

/// The one sentence.
pub(super) fn sentence(run: &Record, checks: &[Check]) -> String {
    let missed: Vec<&str> = checks.iter().filter(|c| !c.held).map(|c| c.what).collect();
    if !missed.is_empty() {
        return format!("NOT shown: {}.", missed.join("; "));
    }
    let p99 = latency(run.stage_p99(Stage::Fault));
    let requests = run.answers.len();
    match run.scenario {
        Scenario::Spike => moved(run, "went from 0.2 s to 10 s at once"),
        Scenario::Ramp => moved(run, "slowed down from 0.2 s to 10 s"),
        Scenario::Hang => moved(run, "stopped answering without closing a connection"),
        Scenario::Outage => format!(
            "Shown: the primary answered nothing but errors for {}, and all {requests} requests \
             were answered (99% of those in the outage within {p99}): its breaker opened, the \
             fallback took the calls, and the primary took them back when it worked again.",
            whole_seconds(run)
        ),
        Scenario::Ratelimit => format!(
            "Shown: the primary refused calls with 429 for {}, and all {requests} requests were \
             answered (99% of those meanwhile within {p99}): it cooled down as it had asked, the \
             fallback took the calls, and the primary took them back afterwards.",
            whole_seconds(run)
        ),
        Scenario::AllDown => format!(
            "Shown: with both models down for {} nothing hung: 99% of the calls had a clear 503 \
             `roster_exhausted` within {p99} and all within a second, and were answered again \
             once the models were back.",
            whole_seconds(run)
        ),
    }
}

fn whole_seconds(run: &Record) -> String {
    format!("{} s", run.scenario.course().fault().as_secs())
}

fn moved(run: &Record, how: &str) -> String {
    let known = |duration: Option<Duration>| duration.unwrap_or_default();
    format!(
        "Shown: the primary {how}, and all {} requests were answered, 99% of those meanwhile \
         within {}: calls in flight were handed over after {}, the role moved to {} {} after the \
         onset and was back on {} {} later.",
        run.answers.len(),
        latency(run.stage_p99(Stage::Fault)),
        human(run.patience),
        run.fallback,
        human(known(run.time_to_substitution())),
        run.primary,
        human(known(run.tally.time_to_restoration())),
    )
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{answered_by, record};
    use super::super::verdict::checks;
    use super::*;

    fn gateway() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 4_000))
    }

    #[test]
    fn the_opening_says_every_setting() {
        let text = opening(Scenario::Spike, 7, gateway());
        for said in [
            "20 requests per second",
            "median 200 ms, p99 400 ms",
            "median 250 ms, p99 450 ms",
            "20 tokens 5 ms apart",
            "p95_threshold_ms = 600",
            "p99_threshold_ms = 1500",
            "evaluation_window_seconds = 10",
            "signal = \"first_token\"",
            "probe_interval_ms = 1000, restore_after = 2, canary = [0.5]",
            "a session of its own",
            "12 s healthy, 12 s spike",
            "7 (of all latencies",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        assert!(opening(Scenario::Outage, 7, gateway()).contains("open_ms = 2000"));
        for line in text.lines() {
            assert!(line.chars().count() <= 96, "{line}");
        }
    }

    #[test]
    fn what_did_not_happen_is_not_said_to_be_shown() {
        let mut run = record(Scenario::Spike);
        run.answers.push(answered_by(&run, run.primary, 1_000, 300));
        let missed = sentence(&run, &checks(&run));
        assert_eq!(
            missed,
            "NOT shown: the role moved to the fallback; the primary took its traffic back."
        );
        run.tally.activations = 1;
        run.tally.restorations = 1;
        let shown = sentence(&run, &checks(&run));
        assert!(
            shown.starts_with("Shown: the primary went from 0.2 s"),
            "{shown}"
        );
    }
}
