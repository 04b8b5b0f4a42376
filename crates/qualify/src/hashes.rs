//! What a measurement was made on, told by hashes.
//!
//! One way to compute them, for the roster that is written, for the manifest of
//! a run, and for whoever asks whether either is out of date.

use evenkeel_core::{ModelId, Output, Tool, Value};
use evenkeel_prompts::{Mode, PromptSet};
use evenkeel_roster::RolePolicy;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Stands where there is nothing to hash: a role without a prompt for a model, a
/// dataset without tools and schemas.
pub const NOTHING: &str = "none";

/// The hash of the prompt that `role` gives `model`: SHA-256 of its variant, in
/// hexadecimal, or [`NOTHING`].
///
/// Where the role simplifies (`simplify_below`) and has another variant for that,
/// it is the SHA-256 of both hashes, since which of the two the model gets depends
/// on the score that is being measured.
pub fn prompt_hash(
    prompts: &PromptSet,
    role: &str,
    policy: &RolePolicy,
    model: &ModelId,
) -> String {
    let full = prompts.hash(role, model, Mode::Full);
    let simple = (policy.simplify_below > 0.0)
        .then(|| prompts.hash(role, model, Mode::Simple))
        .flatten();
    let text = |hash: Option<_>| hash.map_or_else(|| NOTHING.to_owned(), |h| format!("{h}"));
    if simple.is_none() || simple == full {
        return text(full);
    }
    let mut both = ContentHasher::new();
    both.update(text(full).as_bytes());
    both.update(text(simple).as_bytes());
    both.finish()
}

/// SHA-256 of bytes that come in pieces: of a dataset, its file as `sha256sum`
/// gives it.
#[derive(Debug, Clone, Default)]
pub struct ContentHasher(Sha256);

impl ContentHasher {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// 64 hexadecimal digits.
    pub fn finish(self) -> String {
        hexadecimal(&self.0.finalize())
    }
}

/// Hashes the tools and output schemas that the items of a dataset offer: each
/// counts once, however many items have it and in whatever order, and by its
/// meaning as JSON (RFC 8785), not by how it is written. Memory grows with the
/// number of different ones.
#[derive(Debug, Clone, Default)]
pub struct ToolsHasher(BTreeSet<[u8; 32]>);

impl ToolsHasher {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the tools of an item.
    pub fn tools(&mut self, tools: &[Tool]) {
        for tool in tools {
            self.value(&json!({
                "tool": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": tool.strict,
            }));
        }
    }

    /// Takes the shape that an item asks of its answer.
    pub fn output(&mut self, output: &Output) {
        match output {
            Output::Text => {}
            Output::JsonObject => self.value(&json!({ "output": "json_object" })),
            Output::JsonSchema {
                name,
                schema,
                strict,
                description,
            } => self.value(&json!({
                "output": name,
                "schema": schema,
                "strict": strict,
                "description": description,
            })),
        }
    }

    fn value(&mut self, value: &Value) {
        self.0.insert(Sha256::digest(canonical(value)).into());
    }

    /// 64 hexadecimal digits, or [`NOTHING`].
    pub fn finish(self) -> String {
        if self.0.is_empty() {
            return NOTHING.to_owned();
        }
        let mut all = Sha256::new();
        for one in &self.0 {
            all.update(one);
        }
        hexadecimal(&all.finalize())
    }
}

/// SHA-256 of a JSON value by its meaning (RFC 8785), in hexadecimal.
pub fn json_hash(value: &Value) -> String {
    hexadecimal(&Sha256::digest(canonical(value)))
}

fn canonical(value: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("a JSON value has text keys and finite numbers")
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Extra;
    use evenkeel_prompts::{SourceFile, Sources, Unreadable, load};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn tool(name: &str, parameters: &str) -> Tool {
        Tool {
            name: name.to_owned(),
            description: None,
            parameters: Some(serde_json::from_str(parameters).unwrap()),
            strict: None,
            extra: Extra::default(),
        }
    }

    fn of_tools(tools: &[Tool]) -> String {
        let mut hasher = ToolsHasher::new();
        for tool in tools {
            hasher.tools(std::slice::from_ref(tool));
        }
        hasher.finish()
    }

    #[test]
    fn tools_are_told_apart_by_what_they_mean_alone() {
        let a = tool("a", r#"{"type":"object","maxProperties":1.0}"#);
        let same = tool("a", r#"{ "maxProperties": 1, "type": "object" }"#);
        let other = tool("a", r#"{"type":"object","maxProperties":2}"#);
        let b = tool("b", r#"{"type":"object"}"#);
        assert_eq!(
            of_tools(&[a.clone(), b.clone()]),
            of_tools(&[b.clone(), same, a.clone()])
        );
        assert_ne!(of_tools(std::slice::from_ref(&a)), of_tools(&[other]));
        assert_ne!(of_tools(std::slice::from_ref(&a)), of_tools(&[a, b]));
        assert_eq!(of_tools(&[]), NOTHING);
    }

    #[test]
    fn a_schema_counts_and_free_text_does_not() {
        let of = |output: &Output| {
            let mut hasher = ToolsHasher::new();
            hasher.output(output);
            hasher.finish()
        };
        let schema = |strict| Output::JsonSchema {
            name: "s".to_owned(),
            schema: json!({ "type": "object" }),
            strict,
            description: None,
        };
        assert_eq!(of(&Output::Text), NOTHING);
        assert_ne!(of(&Output::JsonObject), NOTHING);
        assert_ne!(of(&schema(true)), of(&schema(false)));
    }

    #[test]
    fn bytes_hash_as_any_other_tool_hashes_them() {
        let mut hasher = ContentHasher::new();
        hasher.update(b"a");
        hasher.update(b"bc");
        // FIPS 180-2, the first example.
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hasher.finish(), hex);
    }

    /// Prompts of a role `r` for `acme/big`: `default`, and `simple` where given.
    fn prompts(default: &str, simple: Option<&str>) -> PromptSet {
        let mut manifest = "[r.system_prompt_variants]\ndefault = \"d.txt\"\n".to_owned();
        if simple.is_some() {
            manifest.push_str("simple = \"s.txt\"\n");
        }
        let model = ModelId::new("acme/big").unwrap();
        load(&Sources {
            files: &[SourceFile::new("prompts.toml", manifest)],
            rosters: &BTreeMap::from([("r".to_owned(), vec![model])]),
            env: &|_| None,
            read: &|path| match (path, simple) {
                ("d.txt", _) => Ok(default.as_bytes().to_vec()),
                ("s.txt", Some(simple)) => Ok(simple.as_bytes().to_vec()),
                _ => Err(Unreadable::Missing),
            },
        })
        .unwrap()
    }

    #[test]
    fn a_prompt_is_every_variant_that_the_model_may_get() {
        let ms = Duration::from_millis;
        let model = ModelId::new("acme/big").unwrap();
        let mut policy = RolePolicy::new(ms(1), ms(1), ms(1_000));
        let hash =
            |policy: &RolePolicy, prompts: &PromptSet| prompt_hash(prompts, "r", policy, &model);
        let (plain, simple) = (prompts("abc", None), prompts("abc", Some("s")));
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash(&policy, &plain), abc);
        assert_eq!(hash(&policy, &simple), abc, "nobody is simplified for");
        policy.simplify_below = 0.9;
        assert_eq!(hash(&policy, &plain), abc);
        assert_ne!(hash(&policy, &simple), abc);
        assert_ne!(
            hash(&policy, &simple),
            hash(&policy, &prompts("abc", Some("t")))
        );
        assert_eq!(prompt_hash(&plain, "other", &policy, &model), NOTHING);
    }
}
