//! Faults that people met in products like this one, as configurations.

use std::time::Duration;

use evenkeel_core::ModelId;
use evenkeel_roster::{BreakerPolicy, Dialect};
use secrecy::ExposeSecret;

use crate::folder::{load_text, report_of};

/// A policy and a roster for the models `a/m` and `b/m`, both simulated.
const ROLE: &str = "=== policy.toml
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
allow_unqualified = true
=== roster.toml
[agent_roles.r]
primary = 'a/m'
fallbacks = [{ model = 'b/m' }]
";

const SIMULATED: &str = "[providers.a]
dialect = 'simulated'
[providers.b]
dialect = 'simulated'
";

fn with_main(main: &str) -> String {
    format!("{ROLE}=== evenkeel.toml\n{main}")
}

fn id(text: &str) -> ModelId {
    ModelId::new(text).expect("a model of this test")
}

/// C115: a zero that was written is a zero, not a default.
#[test]
fn zero_is_zero_and_what_is_no_count_is_refused_by_name() {
    let text = with_main(SIMULATED).replace(
        "allow_unqualified = true",
        "allow_unqualified = true\nretry = { transient = 0 }\nhedge = { burst = 0 }",
    );
    let role = load_text(&text).unwrap().config.roles["r"].clone();
    assert_eq!(role.policy.retry.transient, 0);
    assert_eq!(role.policy.retry.rate_limited, 3, "absent is the default");
    assert_eq!(role.policy.hedge.burst, 0);
    let none = text.replace("[{ model = 'b/m' }]", "[]");
    assert_eq!(load_text(&none).unwrap().config.roles["r"].rungs.len(), 1);
    for (bad, said) in [
        ("-1", "is -1, expected 0 or more"),
        ("1.5", "expected a whole number, found `1.5`"),
        ("'one'", "expected a whole number, found a string"),
    ] {
        let text = text.replace("transient = 0", &format!("transient = {bad}"));
        let report = report_of(&text);
        let expected = format!("policy.toml:6: agent_roles.r.retry.transient: {said}");
        assert!(report.contains(&expected), "{report}");
    }
}

/// C119: an address that cannot be one is said at load, not as a failed call.
#[test]
fn a_malformed_address_is_reported_at_load() {
    for bad in [
        "127.0.0.1:80",
        "ftp://h/v1",
        "http://",
        "http:///v1",
        "http://h:99999/v1",
        "http://h x/v1",
        "",
        "https://h/v1?x=1",
    ] {
        let main = format!(
            "[providers.a]\ndialect = 'openai'\nbase_url = '{bad}'\n[providers.b]\ndialect = 'simulated'\n"
        );
        let report = report_of(&with_main(&main));
        assert!(
            report.contains("evenkeel.toml:3: providers.a.base_url: "),
            "{bad}: {report}"
        );
    }
}

/// C144: every string is filled in, and nothing else leaves the process.
#[test]
fn placeholders_are_filled_in_keys_and_addresses_alike() {
    let main = "[providers.a]
dialect = 'openai'
base_url = 'http://127.0.0.1:1/${PATH_PART}/'
api_key = '${KEY}'
[providers.b]
dialect = 'openai'
base_url = 'http://127.0.0.1:1/$$x'
";
    let config = load_text(&with_main(main)).unwrap().config;
    let a = &config.providers["a"];
    assert_eq!(a.base_url.as_deref(), Some("http://127.0.0.1:1/p"));
    assert_eq!(
        a.api_key.as_ref().unwrap().expose_secret(),
        "sk-from-the-environment"
    );
    let b = &config.providers["b"];
    assert_eq!(b.base_url.as_deref(), Some("http://127.0.0.1:1/$x"));
}

/// C145: an unset or empty variable stops the start; no key at all is fine.
#[test]
fn an_unset_or_empty_key_is_refused_and_an_absent_one_is_none() {
    let main = "[providers.a]
dialect = 'openai'
base_url = 'http://h/v1'
api_key = '${MISSING}'
[providers.b]
dialect = 'openai'
base_url = 'http://h/v1'
api_key = '${EMPTY}'
[providers.local]
dialect = 'openai'
base_url = 'http://h/v1'
";
    let problems = load_text(&with_main(main)).unwrap_err();
    let errors: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
    assert!(errors[0].starts_with(
        "evenkeel.toml:4: providers.a.api_key: environment variable MISSING is not set"
    ));
    assert_eq!(
        errors[1],
        "evenkeel.toml:8: providers.b.api_key: is empty; it comes from EMPTY"
    );
    let fine = main
        .replace("api_key = '${MISSING}'\n", "")
        .replace("api_key = '${EMPTY}'\n", "");
    let config = load_text(&with_main(&fine)).unwrap().config;
    assert!(config.providers["local"].api_key.is_none());
}

/// C185: the life of a model is told from one field by one rule, and contradictions are said.
#[test]
fn contradictions_in_a_models_life_are_named() {
    let registry = "=== models.yaml
models:
  - { id: m, provider: a, eol_date: 2020-01-01 }
  - { id: m, provider: b, eol_date: 2999-01-01, migration_status: done }
  - { id: z, provider: a, deployed_at: 2026-05-01, eol_date: 2026-04-01 }
  - { id: w, provider: a, eol_date: 2026-02-30 }
";
    let report = report_of(&format!("{}{registry}", with_main(SIMULATED)));
    for said in [
        "warning: models.yaml:2: models[0].eol_date: `a/m` is past its end of life, 2020-01-01: it is skipped",
        "warning: models.yaml:3: models[1]: `b/m`: the registry says that it was migrated from",
        "error: models.yaml:4: models[2].eol_date: 2026-04-01 is before deployed_at, 2026-05-01",
        "error: models.yaml:5: models[3].eol_date: `2026-02-30` is no date of the calendar",
    ] {
        assert!(report.contains(said), "{said}\nnot in\n{report}");
    }
}

/// C212: an override reaches its own model; the rest inherits.
#[test]
fn a_breaker_setting_stays_where_it_was_made() {
    let main = format!(
        "[breaker]\nfailure_threshold = 5\nopen_ms = 7000\n{SIMULATED}
[providers.a.breaker]\nsuccess_threshold = 3
[providers.a.models.'m'.breaker]\nfailure_threshold = 1
[providers.a.cooldown]\nbase_ms = 5
[hold]\nquota_ms = 7\n[providers.a.models.'m'.hold]\nmodel_gone_ms = 0
[providers.a.retry_budget]\nreserve = 0
[providers.a.limits]\nmax_concurrency = 2\n"
    );
    let config = load_text(&with_main(&main)).unwrap().config;
    let (a, b) = (&config.models[&id("a/m")], &config.models[&id("b/m")]);
    let common = BreakerPolicy {
        open: Duration::from_secs(7),
        ..BreakerPolicy::default()
    };
    let strict = BreakerPolicy {
        failure_threshold: 1,
        success_threshold: 3,
        ..common.clone()
    };
    assert_eq!(a.breaker, strict);
    assert_eq!(b.breaker, common);
    assert_eq!(config.providers["a"].breaker.failure_threshold, 5);
    assert_eq!(config.providers["a"].retry_budget.reserve, 0);
    assert_eq!(config.providers["b"].retry_budget.reserve, 10);
    assert_eq!(
        (a.cooldown.base, b.cooldown.base),
        (Duration::from_millis(5), Duration::from_secs(1))
    );
    let quota = Duration::from_millis(7);
    assert_eq!((a.hold.quota, b.hold.quota), (quota, quota));
    assert_eq!(a.hold.model_gone, Duration::ZERO);
    assert_eq!(b.hold.model_gone, Duration::from_secs(3600));
    assert_eq!((a.max_concurrency, b.max_concurrency), (2, 64));
}

/// C228: a model the registry does not know is unknown, which is neither all nor nothing.
#[test]
fn a_model_missing_from_the_registry_is_listed_and_its_window_unknown() {
    let registry = "=== models.toml\n[[models]]\nid = 'a/m'\ncontext_window = 8192\n";
    let loaded = load_text(&format!("{}{registry}", with_main(SIMULATED))).unwrap();
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings
            .iter()
            .any(|w| w.contains("`b/m` is not in the model registry")),
        "{warnings:?}"
    );
    let models = &loaded.config.models;
    assert_eq!(models[&id("a/m")].context_window, Some(8_192));
    assert_eq!(models[&id("b/m")].context_window, None);
    assert!(models[&id("a/m")].registered && !models[&id("b/m")].registered);
}

/// The key of the built-in provider never goes to an address of somebody's own.
#[test]
fn the_usual_key_only_goes_to_the_usual_address() {
    let text = "=== evenkeel.toml
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
primary = 'openai/m'
";
    let env = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-usual".to_owned());
    let load = |text: &str| {
        let files = crate::folder::split(text);
        evenkeel_roster::load(&files, &env, crate::folder::TODAY)
            .unwrap()
            .config
    };
    let usual = load(text);
    let openai = &usual.providers["openai"];
    assert_eq!(openai.dialect, Dialect::OpenAi);
    assert_eq!(
        openai.base_url.as_deref(),
        Some("https://api.openai.com/v1")
    );
    assert_eq!(openai.api_key.as_ref().unwrap().expose_secret(), "sk-usual");
    let own = load(&format!(
        "{text}[providers.openai]\nbase_url = 'http://127.0.0.1:1/v1'\n"
    ));
    assert!(own.providers["openai"].api_key.is_none());
}

/// A preset gives address, dialect, server and the usual key; each can be had
/// otherwise.
#[test]
fn a_known_provider_needs_its_name_only() {
    let text = "=== evenkeel.toml
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
primary = 'fast/m'
fallbacks = [{ model = 'near/m' }, { model = 'google/m' }, { model = 'deploy/m' }]
allow_unqualified = true
[providers.fast]
preset = 'groq'
headers = { X-Title = 'harbour' }
proxy = 'http://proxy.test:3128'
connections = { max = 8, idle_ms = 9000 }
models.m = { fixed_sampling = true, stream_usage = false }
[providers.near]
preset = 'vllm'
base_url = 'http://gpu-1:8000/v1'
[providers.deploy]
preset = 'azure'
base_url = 'https://acme.openai.azure.com'
api_version = '2024-10-21'
api_key = 'k-azure'
";
    let env = |name: &str| match name {
        "GROQ_API_KEY" => Some("gsk-usual".to_owned()),
        "GOOGLE_API_KEY" => Some("aiza-usual".to_owned()),
        _ => None,
    };
    let files = crate::folder::split(text);
    let loaded = evenkeel_roster::load(&files, &env, crate::folder::TODAY).unwrap();
    let providers = &loaded.config.providers;
    let key = |name: &str| {
        let key = providers[name].api_key.as_ref();
        key.map(|key| key.expose_secret().to_owned())
    };
    let fast = &providers["fast"];
    assert_eq!(fast.dialect, Dialect::OpenAi);
    assert_eq!(fast.server, Some("groq"));
    assert_eq!(
        fast.base_url.as_deref(),
        Some("https://api.groq.com/openai/v1")
    );
    assert_eq!(key("fast").as_deref(), Some("gsk-usual"));
    assert_eq!(fast.headers["x-title"].expose_secret(), "harbour");
    assert_eq!(fast.connections.max, Some(8));
    assert!(fast.models["m"].fixed_sampling);
    assert_eq!(fast.models["m"].stream_usage, Some(false));
    let shown = format!("{fast:?}");
    assert!(!shown.contains("harbour") && !shown.contains("gsk-usual"));
    let near = &providers["near"];
    assert_eq!(
        (near.server, near.base_url.as_deref()),
        (Some("vllm"), Some("http://gpu-1:8000/v1"))
    );
    assert_eq!(key("near"), None);
    assert_eq!(providers["google"].dialect, Dialect::Gemini);
    assert_eq!(key("google").as_deref(), Some("aiza-usual"));
    assert_eq!(
        providers["deploy"].api_version.as_deref(),
        Some("2024-10-21")
    );
}

/// Scores beside a `primary_score` are in its unit; capability follows unless stated.
#[test]
fn scores_become_ratios_and_capability_follows_them() {
    let text = with_main(SIMULATED)
        .replace("primary = 'a/m'", "primary = 'a/m'\nprimary_score = 80")
        .replace("{ model = 'b/m' }", "{ model = 'b/m', quality_score = 84 }, { model = 'b/n', quality_score = 72, capability_score = 0.5 }, { model = 'b/o' }");
    let rungs = load_text(&text).unwrap().config.roles["r"].rungs.clone();
    let scores: Vec<_> = rungs
        .iter()
        .map(|r| (r.quality_score, r.capability_score))
        .collect();
    assert_eq!(
        scores,
        [
            (Some(1.0), 1.0),
            (Some(1.05), 1.0),
            (Some(0.9), 0.5),
            (None, 0.0)
        ]
    );
}

/// A share beside a percentage, and seconds where milliseconds are asked for.
#[test]
fn units_that_do_not_go_together_are_named() {
    let text = with_main(SIMULATED)
        .replace("primary = 'a/m'", "primary = 'a/m'\nprimary_score = 0.9")
        .replace("{ model = 'b/m' }", "{ model = 'b/m', quality_score = 91 }");
    let error = load_text(&text).unwrap_err().to_string();
    assert!(
        error.contains("is 91, and primary_score is 0.9: another unit"),
        "{error}"
    );
    let text = with_main(SIMULATED)
        .replace("p95_threshold_ms = 1000", "p95_threshold_ms = 3")
        .replace("p99_threshold_ms = 2000", "p99_threshold_ms = 5");
    let warnings = load_text(&text).unwrap().warnings;
    let warned = warnings.iter().map(ToString::to_string).collect::<String>();
    assert!(
        warned.contains("is 3 ms: every call would be too slow; write 3000"),
        "{warned}"
    );
}

/// Ranks, where they are written, count more than the order in the file.
#[test]
fn fallbacks_stand_in_the_order_of_their_ranks() {
    let text = with_main(SIMULATED).replace(
        "{ model = 'b/m' }",
        "{ model = 'a/n', rank = 7 }, { model = 'b/m', rank = 2 }",
    );
    let config = load_text(&text).unwrap().config;
    let ladder: Vec<&str> = config.roles["r"]
        .rungs
        .iter()
        .map(|r| r.model.as_str())
        .collect();
    assert_eq!(ladder, ["a/m", "b/m", "a/n"]);
}
