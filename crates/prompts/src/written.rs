//! The written form of the prompts: which keys there are and what they mean.

use evenkeel_document::{
    Documents, Findings, Item, Part, Place, Scope, TableReader, Value, nearest,
};

use crate::placement::SystemPrompt;
use crate::template::is_name;

/// Variables that evenkeel fills in, for each rung.
pub(crate) const OWN_VARIABLES: [&str; 3] = ["role", "model", "provider"];

/// What one table says, `[defaults]` or a role's.
#[derive(Default)]
pub(crate) struct WrittenRole<'a> {
    pub(crate) placement: Option<SystemPrompt>,
    pub(crate) variables: Vec<(&'a str, Item<'a>)>,
    pub(crate) variants: Vec<(&'a str, Item<'a>)>,
}

/// Everything that the files say about prompts.
#[derive(Default)]
pub(crate) struct WrittenPrompts<'a> {
    pub(crate) defaults: WrittenRole<'a>,
    /// Roles with the place of their table, in the order of the file.
    pub(crate) roles: Vec<(&'a str, Place, WrittenRole<'a>)>,
}

/// Reads the prompts' own document, or the table `prompts` of `evenkeel.toml`.
pub(crate) fn read<'a>(documents: &'a Documents, findings: &mut Findings) -> WrittenPrompts<'a> {
    let find = |part| documents.list.iter().find(|d| d.part == part);
    let own = find(Part::Prompts);
    let inline = find(Part::Main).and_then(|main| {
        let mut table = TableReader::new(main.scope(), findings);
        table.table("prompts")
    });
    if let (Some(own), Some(inline)) = (own, &inline) {
        let message = format!("prompts are here and in {}", own.place.file);
        let how = "keep them in one of the two".to_owned();
        findings.error(&inline.place, message, Some(how));
    }
    match own.map_or(inline, |document| Some(document.scope())) {
        Some(scope) => read_roles(&scope, findings),
        None => WrittenPrompts::default(),
    }
}

fn read_roles<'a>(scope: &Scope<'a>, findings: &mut Findings) -> WrittenPrompts<'a> {
    let mut prompts = WrittenPrompts::default();
    for entry in &scope.table.entries {
        let place = scope.place.below(&entry.key, entry.line);
        let table = match &entry.node.value {
            Value::Table(table) => table,
            Value::Unusable => continue,
            other => {
                let message = format!("expected a table, found {}", other.kind());
                let how = "write the role's system_prompt_variants below it".to_owned();
                findings.error(&place, message, Some(how));
                continue;
            }
        };
        let scope = Scope {
            place: place.clone(),
            table,
        };
        let mut reader = TableReader::new(scope, findings);
        if entry.key == "defaults" {
            prompts.defaults = read_shared(&mut reader);
            reader.finish_knowing(&["system_prompt_variants"], "the table of a role");
        } else {
            let role = read_role(&mut reader);
            reader.finish();
            prompts.roles.push((&entry.key, place, role));
        }
    }
    prompts
}

/// The keys that `[defaults]` and a role share.
fn read_shared<'a>(table: &mut TableReader<'a, '_>) -> WrittenRole<'a> {
    let words = [
        ("replace", SystemPrompt::Replace),
        ("prepend", SystemPrompt::Prepend),
        ("if_absent", SystemPrompt::IfAbsent),
    ];
    let placement = table.word("system_prompt", &words);
    let mut variables = table.named_texts("variables").unwrap_or_default();
    variables.retain(|(name, item)| is_usable(name, item, table.findings));
    WrittenRole {
        placement,
        variables,
        variants: Vec::new(),
    }
}

fn read_role<'a>(table: &mut TableReader<'a, '_>) -> WrittenRole<'a> {
    let mut role = read_shared(table);
    let written = table.has("system_prompt_variants");
    role.variants = table
        .named_texts("system_prompt_variants")
        .unwrap_or_default();
    if !written {
        let place = table.scope().place.clone();
        let message = "system_prompt_variants is missing".to_owned();
        let how = "write it with at least `default = \"prompts/….txt\"`".to_owned();
        table.findings.error(&place, message, Some(how));
    }
    role
}

fn is_usable(name: &str, item: &Item<'_>, findings: &mut Findings) -> bool {
    let (message, how) = if OWN_VARIABLES.contains(&name) {
        let how = "take another name".to_owned();
        ("is filled in by evenkeel".to_owned(), how)
    } else if !is_name(name) {
        let how = "use letters, digits and `_`, no digit first".to_owned();
        (format!("{name:?} cannot name a variable"), how)
    } else {
        return true;
    };
    findings.error(&item.place, message, Some(how));
    false
}

/// What to do about a name that nobody knows: the one most like it, else `otherwise`.
pub(crate) fn meant<'c>(
    name: &str,
    known: impl IntoIterator<Item = &'c str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    nearest(name, known).map_or_else(otherwise, |word| format!("did you mean `{word}`?"))
}
