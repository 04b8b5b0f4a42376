//! The config folders of the project load as they stand.

use std::time::Duration;

use evenkeel_core::Complexity;
use evenkeel_roster::{
    BuiltIn, Commit, Dialect, HttpValidatorConfig, Loaded, RankingPolicy, Signal, SourceFile,
    ValidatorConfig, load,
};

use crate::folder::{TODAY, env, files_in, fixture, load_text};

fn load_clean(files: &[SourceFile]) -> Loaded {
    match load(files, &env, TODAY) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{problems}"),
    }
}

fn shown(loaded: &Loaded) -> Vec<String> {
    loaded.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn the_example_folder_has_nothing_to_say_and_runs_without_a_key() {
    let loaded = load_clean(&files_in(&fixture("config")));
    assert_eq!(shown(&loaded), Vec::<String>::new());
    let config = loaded.config;
    let providers: Vec<_> = config.providers.values().collect();
    assert_eq!(providers.len(), 2);
    assert!(
        providers
            .iter()
            .all(|p| p.dialect == Dialect::Simulated && p.api_key.is_none())
    );
    let writer = &config.roles["writer"];
    let ladder: Vec<&str> = writer.rungs.iter().map(|r| r.model.as_str()).collect();
    assert_eq!(ladder, ["north/large", "south/medium", "north/small"]);
    assert_eq!(writer.policy.signal, Signal::FirstToken);
    assert_eq!(writer.policy.first_token_p95, Duration::from_millis(600));
    let review = &config.roles["planner"].policy.tasks["code_review"];
    assert_eq!(review.complexity, Some(Complexity::High));
    let first_token = review.thresholds.unwrap().first_token_p95;
    assert_eq!(first_token, Duration::from_millis(1_200));
    let medium = &config.models[&writer.rungs[1].model];
    assert_eq!(medium.max_concurrency, 256);
    assert_eq!(medium.context_window, Some(200_000));
    assert_eq!(
        medium.simulated.as_ref().map(|model| model.median),
        Some(Duration::from_millis(250))
    );
}

#[test]
fn one_file_with_all_tables_inline_is_the_same_configuration() {
    let split = "=== evenkeel.toml
providers = { a = { dialect = 'simulated' }, b = { dialect = 'simulated' } }
=== policy.toml
[defaults]
evaluation_window_seconds = 10
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
=== roster.toml
[agent_roles.r]
primary = 'a/m'
primary_score = 0.5
[[agent_roles.r.fallbacks]]
model = 'b/m'
quality_score = 0.45
=== models.toml
[[models]]
id = 'a/m'
context_window = 8192
";
    let inline = "=== evenkeel.toml
providers = { a = { dialect = 'simulated' }, b = { dialect = 'simulated' } }
[defaults]
evaluation_window_seconds = 10
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
primary = 'a/m'
primary_score = 0.5
[[agent_roles.r.fallbacks]]
model = 'b/m'
quality_score = 0.45
[[models]]
id = 'a/m'
context_window = 8192
";
    let folder = load_text(split).unwrap().config;
    // A lone file may be called anything.
    for name in ["evenkeel.toml", "rendered.toml"] {
        let one = load_text(&inline.replace("evenkeel.toml", name))
            .unwrap()
            .config;
        assert_eq!(one.roles, folder.roles, "{name}");
        assert_eq!(one.models, folder.models, "{name}");
    }
    // Any part may stand in the main file while the others have their own.
    let mixed = inline.replace("[[models]]", "=== models.toml\n[[models]]");
    assert_eq!(load_text(&mixed).unwrap().config.models, folder.models);
}

#[test]
fn the_manifests_people_already_have_load_as_they_stand() {
    let loaded = load_clean(&files_in(&fixture("manifests")));
    insta::assert_snapshot!(evenkeel_roster::report(&loaded.warnings));
    let config = loaded.config;
    let intake = &config.roles["intake_agent"];
    assert_eq!(intake.policy.p95, Duration::from_millis(1_800));
    assert_eq!(intake.policy.window, Duration::from_secs(20));
    let ladder: Vec<&str> = intake.rungs.iter().map(|r| r.model.as_str()).collect();
    assert_eq!(
        ladder,
        [
            "openai/gpt-5",
            "anthropic/claude-4-sonnet",
            "google/gemini-2.5-flash"
        ]
    );
    assert_eq!(intake.rungs[1].quality_score, Some(0.93));
    assert_eq!(config.providers["openai"].dialect, Dialect::OpenAi);
    assert_eq!(config.providers["mistral"].dialect, Dialect::Mistral);
}

#[test]
fn both_policies_of_the_fault_bench_load() {
    for (name, p95, stall) in [("calm", 2_500, 10_000), ("tight", 1_500, 2_500)] {
        let files = files_in(&fixture("failover16").join(name));
        let loaded = load_clean(&files);
        let [warning] = loaded.warnings.as_slice() else {
            panic!("{name}: {:?}", shown(&loaded));
        };
        assert!(warning.key.ends_with("allow_unqualified"), "{warning}");
        let config = loaded.config;
        // 16 + 22 faults, and the two healthy models.
        assert_eq!(config.roles.len(), 40, "{name}");
        for (role, found) in &config.roles {
            let policy = &found.policy;
            assert_eq!(policy.p95, Duration::from_millis(p95), "{role}");
            assert_eq!(policy.clocks.stall, Duration::from_millis(stall), "{role}");
            assert_eq!(policy.commit, Commit::FirstToken, "{role}");
            assert_eq!(policy.retry.transient, 2, "{role}");
            assert_eq!(policy.retry.semantic, 1, "{role}: not in the table");
            let primary = &found.rungs[0].model;
            assert_eq!(primary.model(), role, "the fault model is the role");
            let healthy = role.starts_with("f16-ok");
            assert_eq!(found.rungs.len(), if healthy { 1 } else { 2 }, "{role}");
            let breaker = &config.models[primary].breaker;
            assert_eq!(breaker.failure_threshold, 2);
            assert_eq!(breaker.open, Duration::from_secs(8));
            assert!((breaker.growth - 1.0).abs() < f64::EPSILON);
        }
        let url = |provider: &str| config.providers[provider].base_url.clone().unwrap();
        assert_eq!(url("p-s01"), "http://127.0.0.1:8601/v1");
        assert_eq!(url("p-e13"), "http://127.0.0.1:1/v1");
        assert_eq!(url("p-e14"), "https://127.0.0.1:8601/v1");
        let noprefill = &config.roles["f16-s14"].rungs[1].model;
        assert_eq!(noprefill.as_str(), "p-ok/f16-ok-noprefill");
    }
}

#[test]
fn the_fault_bench_takes_its_commit_rule_from_the_environment() {
    let files = files_in(&fixture("failover16/calm"));
    let full = |name: &str| (name == "EVENKEEL_COMMIT").then(|| "full".to_owned());
    let config = load(&files, &full, TODAY).unwrap().config;
    assert!(
        config
            .roles
            .values()
            .all(|role| role.policy.commit == Commit::Full)
    );
    let wrong = |name: &str| (name == "EVENKEEL_COMMIT").then(|| "whole".to_owned());
    let problems = load(&files, &wrong, TODAY).unwrap_err();
    assert_eq!(
        problems.0[0].to_string(),
        "policy.toml:11: defaults.commit: `whole` is not one of first_token, window, full"
    );
}

#[test]
fn the_gateway_bench_loads_once_its_runner_has_filled_it_in() {
    let mut files = files_in(&fixture("bench-gateway/peers/evenkeel"));
    for file in &mut files {
        for (placeholder, value) in [
            ("{port}", "9142"),
            ("{primary}", "http://127.0.0.1:9101"),
            ("{fallback}", "http://127.0.0.1:9102"),
        ] {
            file.text = file.text.replace(placeholder, value);
        }
    }
    let loaded = load_clean(&files);
    assert_eq!(loaded.warnings.len(), 1, "{:?}", shown(&loaded));
    let config = loaded.config;
    assert_eq!(config.server.listen, "127.0.0.1:9142");
    let main = &config.roles["main"];
    assert_eq!(
        main.rungs[1].median_latency,
        Some(Duration::from_millis(300))
    );
    assert_eq!(main.policy.restore.canary, Vec::<f64>::new());
    assert_eq!(main.policy.restore.restore_after, 1);
    let url = config.providers["second"].base_url.as_deref();
    assert_eq!(url, Some("http://127.0.0.1:9102/v1"));
}

#[test]
fn a_task_says_what_differs_from_its_role() {
    let text = "=== evenkeel.toml
providers = { a = { dialect = 'simulated' }, b = { dialect = 'simulated' } }
[defaults]
evaluation_window_seconds = 10
tasks = { shared = { p95_threshold_ms = 1500, complexity = 'medium' } }
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
first_token_p95_ms = 400
complexity = { high = 0.9 }
primary = 'a/m'
fallbacks = [{ model = 'b/m', quality_score = 0.9 }]
[agent_roles.r.tasks.shared]
p99_threshold_ms = 1800
[agent_roles.r.tasks.hard]
complexity = 'high'
min_capability_score = 0.5
[agent_roles.r.tasks.turned]
order = ['b/m', 'a/m']
";
    let role = load_text(text).unwrap().config.roles["r"].policy.clone();
    let ms = Duration::from_millis;
    let shared = &role.tasks["shared"];
    let limits = shared.policy(&role);
    assert_eq!((limits.p95, limits.p99), (ms(1_500), ms(1_800)));
    // What the role says of first tokens holds; where it says nothing, the task's own limits do.
    assert_eq!(limits.first_token_p95, ms(400));
    assert_eq!(limits.first_token_p99, ms(1_800));
    assert!((shared.least_capability(&role) - 0.85).abs() < f64::EPSILON);
    let hard = &role.tasks["hard"];
    assert!(!hard.stands_apart() && shared.stands_apart());
    assert!((hard.least_capability(&role) - 0.9).abs() < f64::EPSILON);
    let turned = role.tasks["turned"].order.as_ref().unwrap();
    assert_eq!(turned[0].as_str(), "b/m");
    assert!(role.tasks["turned"].stands_apart());
}

#[test]
fn validators_are_read_in_their_order_and_a_roles_own_list_stands_alone() {
    let text = "=== evenkeel.toml
providers = { a = { dialect = 'simulated' } }
[defaults]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
validators = [{ kind = 'refusal' }]
[agent_roles.shared]
primary = 'a/m'
fallbacks = []
[agent_roles.none]
primary = 'a/m'
fallbacks = []
validators = []
[agent_roles.own]
primary = 'a/m'
fallbacks = []
validators = [
  { kind = 'min_length', chars = 7 },
  { kind = 'regex', pattern = 'x+', must_match = false },
  { kind = 'json_path', path = '$.n', equals = 1 },
  { kind = 'json_path', path = '$.n', exists = false },
  { kind = 'http', url = 'http://h:9/v', timeout_ms = 300, headers = { Authorization = 'Bearer k' } },
  { kind = 'http', url = 'https://h' },
]
";
    let roles = load_text(text).unwrap().config.roles;
    let of = |role: &str| roles[role].policy.validators.clone();
    assert_eq!(of("shared"), [BuiltIn::Refusal.into()]);
    assert_eq!(of("none"), []);
    let mut service = HttpValidatorConfig::new("http://h:9/v");
    service.timeout = Some(Duration::from_millis(300));
    service.headers = [("authorization".to_owned(), "Bearer k".into())].into();
    let expected = [
        BuiltIn::MinLength(7).into(),
        BuiltIn::regex("x+", false).unwrap().into(),
        BuiltIn::json_equals("$.n", 1.into()).unwrap().into(),
        BuiltIn::json_exists("$.n", false).unwrap().into(),
        ValidatorConfig::Http(service),
        ValidatorConfig::Http(HttpValidatorConfig::new("https://h")),
    ];
    assert_eq!(of("own"), expected);
}

#[test]
fn what_fallbacks_are_measured_against_is_read_on_top_of_the_defaults() {
    let text = "=== evenkeel.toml
providers = { a = { dialect = 'simulated' }, b = { dialect = 'simulated' } }
=== policy.toml
[defaults]
evaluation_window_seconds = 10
quality_budget_by_tag = { tools = 0.8, short = 0.9 }
ranking = { quality = 2, compliance = 0 }
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
quality_budget_by_tag = { short = 0.7 }
min_context_window = 32000
ranking = { latency = 1 }
=== roster.toml
[agent_roles.r]
primary = 'a/m'
fallbacks = [{ model = 'b/m', quality_score = 0.9 }]
";
    let loaded = load_text(text).unwrap();
    let policy = &loaded.config.roles["r"].policy;
    let budgets: Vec<_> = policy.quality_budget_by_tag.iter().collect();
    assert_eq!(
        budgets,
        [(&"short".to_owned(), &0.7), (&"tools".to_owned(), &0.8)]
    );
    let ranking = RankingPolicy {
        quality: 2.0,
        latency: 1.0,
        compliance: 0.0,
    };
    assert_eq!(policy.ranking, ranking);
    assert_eq!(policy.min_context_window, Some(32_000));
}
