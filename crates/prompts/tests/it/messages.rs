//! Every message, word for word.

use evenkeel_prompts::SourceFile;

use crate::registry::load_files;

fn refused(files: &[(&str, &str)], texts: &[(&str, &[u8])]) -> String {
    let files: Vec<SourceFile> = files
        .iter()
        .map(|(name, text)| SourceFile::new(*name, *text))
        .collect();
    load_files(&files, texts).unwrap_err().to_string()
}

#[test]
fn paths() {
    let manifest = r#"
[intake_agent.system_prompt_variants]
default = "/etc/passwd"
simple = "../secrets.txt"
openai = "prompts/../../x"
anthropic = 'prompts\x'
google = "C:/x"
"anthropic/claude-4-sonnet" = ""
"google/*" = "missing.txt"
"openai/gpt-5" = "${NOWHERE}/x"
"#;
    insta::assert_snapshot!(refused(&[("config/prompts.toml", manifest)], &[]));
}

#[test]
fn contents() {
    let manifest = r#"
[intake_agent.system_prompt_variants]
default = "latin1.txt"
simple = "empty.txt"
openai = "blank.txt"
anthropic = "zero.txt"
google = "long.txt"
"#;
    let long = vec![b'x'; 1024 * 1024 + 1];
    let texts: &[(&str, &[u8])] = &[
        ("latin1.txt", b"one\ntwo\nna\xefve"),
        ("empty.txt", b""),
        ("blank.txt", b" \n\n"),
        ("zero.txt", b"a\nb\0"),
        ("long.txt", &long),
    ];
    insta::assert_snapshot!(refused(&[("config/prompts.toml", manifest)], texts));
}

#[test]
fn variables() {
    let manifest = r#"
[defaults.variables]
product = "x"
unused = "x"

[intake_agent.variables]
tome = "x"
role = "x"
"a b" = "x"
number = 3

[intake_agent.system_prompt_variants]
default = "a.txt"

[research_agent.system_prompt_variants]
default = "b.txt"
"#;
    let texts: &[(&str, &[u8])] = &[
        ("a.txt", b"{{product}}\n\nbe {{tone}} at {{place}}"),
        ("b.txt", b"{{modle}}"),
    ];
    insta::assert_snapshot!(refused(&[("prompts.toml", manifest)], texts));
}

#[test]
fn templates() {
    let manifest = r#"
[intake_agent.system_prompt_variants]
default = "a.txt"
"#;
    let texts: &[(&str, &[u8])] = &[(
        "a.txt",
        b"{{product\n}}\n{{#each x}}\n{{ include \"/etc/passwd\" }}\n{{",
    )];
    insta::assert_snapshot!(refused(&[("prompts.toml", manifest)], texts));
}

#[test]
fn variants() {
    let manifest = r#"
[intake_agent.system_prompt_variants]
default = "a"
"openai/gpt5" = "a"
"mistral/mistral-large-3" = "a"
antropic = "a"
mistral = "a"
"claude-*" = "a"
"openai/" = "a"
"#;
    insta::assert_snapshot!(refused(&[("prompts.toml", manifest)], &[]));
}

#[test]
fn keys() {
    let manifest = r#"
defaults = { system_prompts = "replace", system_prompt_variants = { default = "a" } }
research_agent = "prompts/a.txt"
intake_agnet.system_prompt_variants = { default = "a" }
[intake_agent]
system_prompt = "prepended"
system_prompt_variant = { default = "a" }
"#;
    insta::assert_snapshot!(refused(&[("prompts.toml", manifest)], &[]));
}

#[test]
fn wrong_types() {
    let manifest = r#"
[intake_agent]
system_prompt = true
variables = ["a"]
system_prompt_variants = { default = ["a"], openai = { file = "a" } }
[research_agent]
system_prompt_variants = "a"
"#;
    insta::assert_snapshot!(refused(&[("prompts.toml", manifest)], &[]));
}

#[test]
fn twice() {
    let toml = "[intake_agent.system_prompt_variants]\ndefault = \"a\"\n";
    let yaml = "intake_agent:\n  system_prompt_variants:\n    default: a\n";
    let both = refused(
        &[("c/prompts.toml", toml), ("c/prompt_registry.yaml", yaml)],
        &[],
    );
    let main = "[prompts.intake_agent.system_prompt_variants]\ndefault = \"a\"\n";
    let inline = refused(&[("evenkeel.toml", main), ("prompts.toml", toml)], &[]);
    let doubled = format!("{yaml}    default: b\n");
    let yaml_key = refused(&[("prompts.yaml", &doubled)], &[]);
    let doubled = format!("{toml}default = \"b\"\n");
    let toml_key = refused(&[("prompts.toml", &doubled)], &[]);
    insta::assert_snapshot!([both, inline, yaml_key, toml_key].join("\n\n"));
}

#[test]
fn yaml_has_the_same_messages() {
    let yaml = "intake_agent:\n  system_prompt_variants:\n    default: missing.txt\n    openai/gpt5: a\n    # a comment\n    google: ../x\nresearch_agent:\n";
    insta::assert_snapshot!(refused(&[("c/prompt_registry.yaml", yaml)], &[]));
}
