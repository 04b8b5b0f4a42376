//! The prompts of all roles, ready to be used.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_core::ModelId;

use crate::hash::ContentHash;
use crate::placement::SystemPrompt;
use crate::template::Template;
use crate::variant::Key;

/// How much a rung is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The whole task.
    #[default]
    Full,
    /// A simpler one: a rung below the role's `simplify_below`.
    Simple,
}

/// The prompts of all roles, without fault. Cheap to look up, never changed; a
/// reload makes a new one.
#[derive(Debug, Clone, Default)]
pub struct PromptSet {
    pub(crate) roles: BTreeMap<String, RolePrompts>,
}

/// One role's variants and what fills them.
#[derive(Clone)]
pub(crate) struct RolePrompts {
    pub(crate) placement: SystemPrompt,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) variants: Vec<Variant>,
}

#[derive(Debug, Clone)]
pub(crate) struct Variant {
    /// The key as it is written.
    pub(crate) name: String,
    pub(crate) key: Key,
    pub(crate) template: Template,
    pub(crate) hash: ContentHash,
}

/// A prompt for one rung. `Debug` does not show its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The prompt.
    pub text: String,
    /// The key of the variant it is made from, e.g. `default` or `anthropic/claude-*`.
    pub variant: String,
    /// What the variant holds, for rosters.
    pub hash: ContentHash,
    /// What it does to the caller's own system prompt.
    pub placement: SystemPrompt,
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendered")
            .field("bytes", &self.text.len())
            .field("variant", &self.variant)
            .field("hash", &self.hash)
            .field("placement", &self.placement)
            .finish()
    }
}

impl fmt::Debug for RolePrompts {
    /// Shows the names of variables, never their values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RolePrompts")
            .field("placement", &self.placement)
            .field("variables", &self.variables.keys())
            .field("variants", &self.variants)
            .finish()
    }
}

impl PromptSet {
    /// The prompt of `role` for `model`; `None` where the role has none for it, and
    /// the caller's own system prompt stands alone.
    ///
    /// In [`Mode::Simple`] the variant `simple`, if there is one. Else the variant
    /// whose key is the model, then the family pattern with the most characters
    /// that are no wildcards (of two alike the first in the file), then the
    /// provider, then `default`.
    ///
    /// `variables` of this call go before those of the files; a value is never read
    /// as a template, and `role`, `model` and `provider` are always the rung's.
    pub fn for_rung(
        &self,
        role: &str,
        model: &ModelId,
        mode: Mode,
        variables: &BTreeMap<String, String>,
    ) -> Option<Rendered> {
        let prompts = self.roles.get(role)?;
        let variant = prompts.variant(model, mode)?;
        let text = variant.template.render(|name| match name {
            "role" => role,
            "model" => model.model(),
            "provider" => model.provider(),
            _ => variables
                .get(name)
                .or_else(|| prompts.variables.get(name))
                .map_or("", String::as_str),
        });
        // Values may leave nothing of it, and an empty block is refused by some providers.
        (!text.trim().is_empty()).then(|| Rendered {
            text,
            variant: variant.name.clone(),
            hash: variant.hash,
            placement: prompts.placement,
        })
    }

    /// The hash of the variant that [`for_rung`](Self::for_rung) takes.
    pub fn hash(&self, role: &str, model: &ModelId, mode: Mode) -> Option<ContentHash> {
        let variant = self.roles.get(role)?.variant(model, mode)?;
        Some(variant.hash)
    }

    /// Whether no role has a prompt.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }
}

impl RolePrompts {
    fn variant(&self, model: &ModelId, mode: Mode) -> Option<&Variant> {
        let simple = || self.variants.iter().find(|v| v.key == Key::Simple);
        let closest = || {
            let fitting = self.variants.iter().rev().filter_map(|variant| {
                let closeness = variant.key.closeness(model)?;
                Some((closeness, variant))
            });
            // Of equals the last is taken, which is the first in the file.
            fitting.max_by_key(|(closeness, _)| *closeness)
        };
        match mode {
            Mode::Simple => simple().or_else(|| closest().map(|(_, variant)| variant)),
            Mode::Full => closest().map(|(_, variant)| variant),
        }
    }
}
