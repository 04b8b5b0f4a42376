//! From files to checked prompts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use evenkeel_core::ModelId;
use evenkeel_document::{Documents, Findings, Item, Part, Place, Problems, SourceFile, parse_all};

use crate::file::{Shelf, Unreadable};
use crate::hash::ContentHash;
use crate::set::{PromptSet, RolePrompts, Variant};
use crate::template::Template;
use crate::variant::Key;
use crate::written::{OWN_VARIABLES, WrittenPrompts, WrittenRole, meant, read};

/// What prompts are loaded from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The files of the config folder. Prompts stand in `prompts.toml` (or `.yaml`),
    /// `prompt_registry.yaml`, or in the table `prompts` of `evenkeel.toml`.
    pub files: &'a [SourceFile],
    /// Each role's models, the primary first.
    pub rosters: &'a BTreeMap<String, Vec<ModelId>>,
    /// Looks up what `${NAME}` in paths and values stands for.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a prompt file. The path is relative to the config folder and has no
    /// `..`; the reader sees to it that no symbolic link leads out of the folder
    /// ([`Unreadable::Outside`]) and that a file longer than
    /// [`MOST_PROMPT_BYTES`](crate::MOST_PROMPT_BYTES) is not read
    /// ([`Unreadable::TooLong`]).
    pub read: &'a dyn Fn(&str) -> Result<Vec<u8>, Unreadable>,
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("files", &self.files)
            .field("rosters", &self.rosters)
            .finish_non_exhaustive()
    }
}

/// Reads and checks the prompts of all roles. Without any the set is empty.
///
/// # Errors
/// Everything that is wrong, each with file, line, key and what to do: files that
/// cannot be read, lie outside the folder, are empty or not UTF-8; templates that
/// do not parse; variables without a value, values without a use; variants that fit
/// no model of their role's roster; roles that are in no roster.
pub fn load(sources: &Sources<'_>) -> Result<PromptSet, Problems> {
    let mut findings = Findings::default();
    let documents = parse_all(sources.files, sources.env, &mut findings);
    let written = read(&documents, &mut findings);
    let mut loading = Loading {
        sources,
        shelf: Shelf::new(sources.read),
        folder: folder_of(&documents),
        findings: &mut findings,
    };
    let set = loading.roles(&written);
    if findings.has_errors() {
        return Err(Problems(findings.into_sorted()));
    }
    Ok(set)
}

/// What stands before a prompt's path in messages: the folder of the file that names it.
fn folder_of(documents: &Documents) -> String {
    let home = documents
        .list
        .iter()
        .find(|d| d.part == Part::Prompts)
        .or_else(|| documents.list.first());
    let name = home.map_or("", |document| &*document.place.file);
    let end = name.rfind(['/', '\\']).map_or(0, |slash| slash + 1);
    name[..end].to_owned()
}

struct Loading<'a, 'f> {
    sources: &'a Sources<'a>,
    shelf: Shelf<'a>,
    folder: String,
    findings: &'f mut Findings,
}

/// Which variables a role's variants use, and whether all variants could be read.
#[derive(Default)]
struct Uses {
    names: BTreeSet<String>,
    is_partial: bool,
}

impl Loading<'_, '_> {
    fn roles(&mut self, written: &WrittenPrompts<'_>) -> PromptSet {
        let mut set = PromptSet::default();
        let mut all = Uses::default();
        for (name, place, role) in &written.roles {
            let Some(roster) = self.sources.rosters.get(*name) else {
                self.refuse_role(name, place);
                all.is_partial = true;
                continue;
            };
            let (prompts, uses) = self.role(role, &written.defaults, roster);
            self.refuse_unused(&role.variables, &uses, "of the role");
            all.is_partial |= uses.is_partial;
            all.names.extend(uses.names);
            set.roles.insert((*name).to_owned(), prompts);
        }
        self.refuse_unused(&written.defaults.variables, &all, "of any role");
        set
    }

    fn refuse_role(&mut self, name: &str, place: &Place) {
        let known = self.sources.rosters.keys().map(String::as_str);
        let how = meant(name, known, || {
            format!("write a roster for it, or take out [{name}]")
        });
        let message = format!("role `{name}` has prompts and no roster");
        self.findings.error(place, message, Some(how));
    }

    fn role(
        &mut self,
        role: &WrittenRole<'_>,
        defaults: &WrittenRole<'_>,
        roster: &[ModelId],
    ) -> (RolePrompts, Uses) {
        let values = defaults.variables.iter().chain(&role.variables);
        let mut prompts = RolePrompts {
            placement: role.placement.or(defaults.placement).unwrap_or_default(),
            variables: values
                .map(|(name, item)| ((*name).to_owned(), item.text.to_owned()))
                .collect(),
            variants: Vec::with_capacity(role.variants.len()),
        };
        let mut uses = Uses::default();
        for (name, item) in &role.variants {
            let variant = self.variant(name, item, roster, &prompts.variables, &mut uses);
            uses.is_partial |= variant.is_none();
            prompts.variants.extend(variant);
        }
        (prompts, uses)
    }

    fn variant(
        &mut self,
        name: &str,
        item: &Item<'_>,
        roster: &[ModelId],
        values: &BTreeMap<String, String>,
        uses: &mut Uses,
    ) -> Option<Variant> {
        let key = match Key::read(name) {
            Ok(key) => key,
            Err(error) => {
                self.findings.error(&item.place, error.to_string(), None);
                return None;
            }
        };
        if key != Key::Simple && !roster.iter().any(|m| key.closeness(m).is_some()) {
            self.refuse_unfitting(&key, name, &item.place, roster);
        }
        let file = match self.shelf.file(item.text) {
            Ok(file) => file,
            Err(fault) => {
                let (place, message) = match fault.line {
                    0 => (
                        item.place.clone(),
                        format!("`{}` {}", item.text, fault.message),
                    ),
                    line => (self.place_in(item, line), fault.message),
                };
                let how = fault.suggestion.to_owned();
                self.findings.error(&place, message, Some(how));
                return None;
            }
        };
        let template = self.template(&file.text, item, values, uses)?;
        let filled: BTreeMap<&str, &str> = template
            .names()
            .into_iter()
            .filter_map(|name| Some((name, values.get(name)?.as_str())))
            .collect();
        Some(Variant {
            name: name.to_owned(),
            hash: ContentHash::of(&file.bytes, &filled),
            key,
            template,
        })
    }

    fn template(
        &mut self,
        text: &str,
        item: &Item<'_>,
        values: &BTreeMap<String, String>,
        uses: &mut Uses,
    ) -> Option<Template> {
        let (template, met) = match Template::parse(text) {
            Ok(read) => read,
            Err(faults) => {
                for fault in faults {
                    let place = self.place_in(item, fault.line);
                    let how = Some(fault.suggestion);
                    self.findings.error(&place, fault.message, how);
                }
                return None;
            }
        };
        for variable in met {
            let name = variable.name.as_str();
            if !values.contains_key(name) && !OWN_VARIABLES.contains(&name) {
                let known = values.keys().map(String::as_str).chain(OWN_VARIABLES);
                let how = meant(name, known, || {
                    format!("write `{name} = \"…\"` into the variables of the role")
                });
                let message = format!("variable `{name}` has no value");
                let place = self.place_in(item, variable.line);
                self.findings.error(&place, message, Some(how));
            }
            uses.names.insert(variable.name);
        }
        Some(template)
    }

    fn refuse_unfitting(&mut self, key: &Key, name: &str, place: &Place, roster: &[ModelId]) {
        let how = match key {
            Key::Provider(_) => meant(name, roster.iter().map(ModelId::provider), || {
                "take it out, or write `provider/model` or a pattern such as `provider/*`"
                    .to_owned()
            }),
            Key::Family(_) => {
                "take it out; a pattern is compared with the whole `provider/model`".to_owned()
            }
            _ => meant(name, roster.iter().map(ModelId::as_str), || {
                "take it out, or the model into the roster".to_owned()
            }),
        };
        let message = "fits no model of the role's roster".to_owned();
        self.findings.error(place, message, Some(how));
    }

    fn refuse_unused(&mut self, variables: &[(&str, Item<'_>)], uses: &Uses, whose: &str) {
        if uses.is_partial {
            return;
        }
        for (name, item) in variables {
            if !uses.names.contains(*name) {
                let how = meant(name, uses.names.iter().map(String::as_str), || {
                    "take it out".to_owned()
                });
                let message = format!("no prompt {whose} uses this variable");
                self.findings.error(&item.place, message, Some(how));
            }
        }
    }

    /// A line of the prompt file that `item` names.
    fn place_in(&self, item: &Item<'_>, line: usize) -> Place {
        let mut place = Place::file(&format!("{}{}", self.folder, item.text));
        place.line = line;
        place.key.clone_from(&item.place.key);
        place
    }
}
