//! Which variant a rung gets, and with which values.

use std::collections::BTreeMap;

use evenkeel_core::ModelId;
use evenkeel_prompts::{
    Mode, Problems, PromptSet, Rendered, SourceFile, Sources, SystemPrompt, Unreadable, load,
};

/// The rosters of `fixtures/manifests/fallback_roster.yaml`.
pub(crate) fn rosters() -> BTreeMap<String, Vec<ModelId>> {
    let roster = |models: &[&str]| models.iter().map(|m| ModelId::new(m).unwrap()).collect();
    BTreeMap::from([
        (
            "intake_agent".to_owned(),
            roster(&[
                "openai/gpt-5",
                "anthropic/claude-4-sonnet",
                "google/gemini-2.5-flash",
            ]),
        ),
        (
            "research_agent".to_owned(),
            roster(&["anthropic/claude-4-sonnet", "mistral/mistral-large-3"]),
        ),
    ])
}

/// Loads `files`; a prompt file's text is its name, unless `texts` has another.
pub(crate) fn load_files(
    files: &[SourceFile],
    texts: &[(&str, &[u8])],
) -> Result<PromptSet, Problems> {
    let env = |name: &str| (name == "FOLDER").then(|| "prompts".to_owned());
    load(&Sources {
        files,
        rosters: &rosters(),
        env: &env,
        read: &|path| match texts.iter().find(|(name, _)| *name == path) {
            Some((_, text)) => Ok(text.to_vec()),
            None if path.contains("missing") => Err(Unreadable::Missing),
            None => Ok(path.as_bytes().to_vec()),
        },
    })
}

fn set(manifest: &str, texts: &[(&str, &[u8])]) -> PromptSet {
    let file = SourceFile::new("prompts.toml", manifest);
    load_files(&[file], texts).unwrap()
}

fn prompt(set: &PromptSet, role: &str, model: &str, mode: Mode) -> Option<Rendered> {
    set.for_rung(role, &ModelId::new(model).unwrap(), mode, &BTreeMap::new())
}

fn text(set: &PromptSet, model: &str, mode: Mode) -> String {
    prompt(set, "intake_agent", model, mode).map_or_else(String::new, |p| p.text)
}

#[test]
fn the_manifest_people_already_have_loads_as_it_stands() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/manifests/prompt_registry.yaml"
    );
    let manifest = std::fs::read_to_string(path).unwrap();
    let file = SourceFile::new("prompt_registry.yaml", manifest);
    let set = load_files(&[file], &[]).unwrap();
    assert_eq!(
        text(&set, "openai/gpt-5", Mode::Full),
        "prompts/intake_agent_system.txt"
    );
    assert_eq!(
        text(&set, "google/gemini-2.5-flash", Mode::Full),
        "prompts/intake_agent_system_flash.txt"
    );
    let research = prompt(
        &set,
        "research_agent",
        "mistral/mistral-large-3",
        Mode::Full,
    )
    .unwrap();
    assert_eq!(research.text, "prompts/research_agent_system.txt");
    assert_eq!(research.variant, "default");
    assert_eq!(research.placement, SystemPrompt::Prepend);
    assert_eq!(
        prompt(&set, "another_agent", "openai/gpt-5", Mode::Full),
        None
    );
}

#[test]
fn the_closest_key_is_taken() {
    let mut manifest = String::from("[intake_agent.system_prompt_variants]\n");
    let model = "anthropic/claude-4-sonnet";
    let mut expected = String::new();
    // From the widest to the closest, each goes before those above it.
    for key in [
        "default",
        "anthropic",
        "*",
        "anthropic/*",
        "*/claude-4-s*",
        model,
    ] {
        manifest = format!("{manifest}\"{key}\" = \"{key}.txt\"\n");
        let set = set(&manifest, &[]);
        expected = format!("{key}.txt");
        assert_eq!(text(&set, model, Mode::Full), expected);
        assert_eq!(text(&set, model, Mode::Simple), expected);
    }
    manifest.push_str("simple = \"simple.txt\"\n");
    let set = set(&manifest, &[]);
    assert_eq!(text(&set, model, Mode::Full), expected);
    assert_eq!(text(&set, model, Mode::Simple), "simple.txt");
    assert_eq!(text(&set, "openai/gpt-5", Mode::Full), "*.txt");
}

#[test]
fn of_two_patterns_alike_the_first_in_the_file_is_taken() {
    // Six characters each that are no wildcards.
    for (first, second) in [("*/gpt-5", "openai*"), ("openai*", "*/gpt-5")] {
        let manifest = format!(
            "[intake_agent.system_prompt_variants]\n\"{first}\" = \"first\"\n\"{second}\" = \"second\"\n"
        );
        assert_eq!(
            text(&set(&manifest, &[]), "openai/gpt-5", Mode::Full),
            "first"
        );
    }
}

#[test]
fn a_model_without_a_variant_has_no_prompt() {
    let set = set(
        "[intake_agent.system_prompt_variants]\ngoogle = \"g.txt\"\n",
        &[],
    );
    assert_eq!(
        prompt(&set, "intake_agent", "openai/gpt-5", Mode::Full),
        None
    );
    assert!(prompt(&set, "intake_agent", "google/gemini-2.5-flash", Mode::Full).is_some());
    assert!(!set.is_empty());
    assert!(PromptSet::default().is_empty());
}

const WITH_VARIABLES: &str = r#"
    [defaults]
    system_prompt = "if_absent"
    variables = { who = "we", where = "here" }
    [intake_agent]
    variables = { who = "{{where}}" }
    system_prompt_variants = { default = "${FOLDER}/a.txt" }
    [research_agent]
    system_prompt = "replace"
    system_prompt_variants = { default = "${FOLDER}/a.txt" }
"#;
const TEXTS: &[(&str, &[u8])] = &[(
    "prompts/a.txt",
    "\u{feff}{{who}} are {{where}} as {{role}} on {{model}} by {{provider}}\r\n".as_bytes(),
)];

#[test]
fn values_come_from_call_role_and_defaults_and_are_never_expanded_again() {
    let set = set(WITH_VARIABLES, TEXTS);
    assert_eq!(
        text(&set, "openai/gpt-5", Mode::Full),
        "{{where}} are here as intake_agent on gpt-5 by openai"
    );
    let model = ModelId::new("mistral/mistral-large-3").unwrap();
    let of_call = BTreeMap::from([
        ("where".to_owned(), "{{who}}".to_owned()),
        ("model".to_owned(), "another".to_owned()),
        ("unknown".to_owned(), "x".to_owned()),
    ]);
    let prompt = set
        .for_rung("research_agent", &model, Mode::Full, &of_call)
        .unwrap();
    assert_eq!(
        prompt.text,
        "we are {{who}} as research_agent on mistral-large-3 by mistral"
    );
    assert_eq!(prompt.placement, SystemPrompt::Replace);
}

#[test]
fn the_hash_changes_with_the_file_and_with_the_values_it_uses() {
    let hash = |manifest: &str, texts: &[(&str, &[u8])]| {
        let model = ModelId::new("openai/gpt-5").unwrap();
        set(manifest, texts).hash("intake_agent", &model, Mode::Full)
    };
    let before = hash(WITH_VARIABLES, TEXTS);
    assert!(before.is_some());
    let other = WITH_VARIABLES.replace("where = \"here\"", "where = \"there\"");
    assert_ne!(hash(&other, TEXTS), before);
    let placed = WITH_VARIABLES.replace("if_absent", "prepend");
    assert_eq!(hash(&placed, TEXTS), before);
    let edited: &[(&str, &[u8])] = &[("prompts/a.txt", b"{{who}} {{where}}")];
    assert_ne!(hash(WITH_VARIABLES, edited), before);
}

#[test]
fn a_prompt_that_its_values_leave_empty_is_none() {
    let manifest =
        "[intake_agent]\nvariables = { a = \" \" }\nsystem_prompt_variants = { default = \"a\" }\n";
    let set = set(manifest, &[("a", b"{{a}}\n")]);
    assert_eq!(
        prompt(&set, "intake_agent", "openai/gpt-5", Mode::Full),
        None
    );
}

#[test]
fn prompts_may_stand_in_the_main_file() {
    let main = "[server]\nlisten = \"x\"\n[prompts.intake_agent.system_prompt_variants]\ndefault = \"a.txt\"\n";
    let set = load_files(&[SourceFile::new("evenkeel.toml", main)], &[]).unwrap();
    assert_eq!(text(&set, "openai/gpt-5", Mode::Full), "a.txt");
    let none = load_files(&[SourceFile::new("evenkeel.toml", "[server]\n")], &[]).unwrap();
    assert!(none.is_empty());
}

#[test]
fn no_debug_shows_a_prompt_or_a_value() {
    let set = set(WITH_VARIABLES, TEXTS);
    let prompt = prompt(&set, "intake_agent", "openai/gpt-5", Mode::Full).unwrap();
    for shown in [format!("{set:?}"), format!("{prompt:?}")] {
        assert!(!shown.contains(" are "), "{shown}");
        assert!(!shown.contains("{{where}}"), "{shown}");
    }
}
