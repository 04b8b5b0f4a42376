//! The demo's own configuration: the text a user would write, and the figures
//! of the two simulated models.

use super::scenario::Scenario;
use std::fmt::Write as _;
use std::time::Duration;

/// The role the callers ask for.
pub(super) const ROLE: &str = "agent";
/// The role's first model.
pub(super) const PRIMARY: &str = "alpha/large";
/// The role's second model, on another provider.
pub(super) const FALLBACK: &str = "beta/medium";
/// The providers' names: the parts before the slash.
pub(super) const PROVIDERS: [&str; 2] = ["alpha", "beta"];

/// Median and 99th percentile of the primary's time to the first token, ms.
pub(super) const PRIMARY_MS: (u64, u64) = (200, 400);
/// The same of the fallback.
pub(super) const FALLBACK_MS: (u64, u64) = (250, 450);
/// Tokens of an answer.
pub(super) const TOKENS: u32 = 20;
/// Time between two of them, ms.
pub(super) const INTER_TOKEN_MS: u64 = 5;
/// What the primary's first token takes once it is slow.
pub(super) const SLOW: Duration = Duration::from_secs(10);
/// The wait a rate-limited primary asks for.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The role's limits and its way back, as in a `policy.toml`.
pub(super) const POLICY: &str = r#"[agent_roles.agent]
p95_threshold_ms = 600
p99_threshold_ms = 1500
evaluation_window_seconds = 10
signal = "first_token"
restore = { probe_interval_ms = 1000, restore_after = 2, canary = [0.5] }
"#;

/// The role's models, as in a `roster.toml`.
pub(super) const ROSTER: &str = r#"[agent_roles.agent]
primary = "alpha/large"

[[agent_roles.agent.fallbacks]]
model = "beta/medium"
rank = 1
quality_score = 0.92
median_latency_ms = 250
"#;

/// What differs from the defaults for all roles, where something does: an open
/// breaker tries again after 2 s instead of a minute, so that the run is short.
pub(super) const fn shared(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::Outage | Scenario::AllDown => "[breaker]\nopen_ms = 2000\ngrowth = 1.0\n",
        Scenario::Spike | Scenario::Ramp | Scenario::Hang | Scenario::Ratelimit => "",
    }
}

/// The whole `evenkeel.toml`, with the addresses of the two upstreams.
pub(super) fn main_file(scenario: Scenario, base_urls: &[String; 2]) -> String {
    let mut text = String::from("[server]\nlisten = \"127.0.0.1:0\"\n\n");
    text.push_str(shared(scenario));
    for (name, url) in PROVIDERS.into_iter().zip(base_urls) {
        let _ = write!(
            text,
            "\n[providers.{name}]\ndialect = \"openai\"\nbase_url = \"{url}\"\n"
        );
    }
    text
}
