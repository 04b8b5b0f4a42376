//! The files of a configuration: which part each holds, and that no part is there twice.

use crate::read::{Findings, Place, Scope, Syntax, Table, nearest, parse};

/// One file of a config folder, as text.
#[derive(Clone)]
pub struct SourceFile {
    /// The file's name, e.g. `policy.toml`; a folder in front of it is shown in
    /// messages and ignored otherwise.
    pub name: String,
    /// What is in it.
    pub text: String,
}

impl SourceFile {
    /// A file called `name` that holds `text`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }
}

impl std::fmt::Debug for SourceFile {
    /// Shows the length of the text, never the text: it may hold keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceFile")
            .field("name", &self.name)
            .field("bytes", &self.text.len())
            .finish()
    }
}

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// `evenkeel.toml`: providers, server, shared tables, and all others inline.
    Main,
    Policy,
    Roster,
    Models,
    Prompts,
}

impl Part {
    const fn noun(self) -> &'static str {
        match self {
            Self::Main => "the main settings",
            Self::Policy => "the policy",
            Self::Roster => "the roster",
            Self::Models => "the model registry",
            Self::Prompts => "the prompts",
        }
    }
}

/// Names without their endings: evenkeel's own, and those of existing manifests.
const NAMES: [(&str, Part); 9] = [
    ("evenkeel", Part::Main),
    ("policy", Part::Policy),
    ("agent_latency_policy", Part::Policy),
    ("roster", Part::Roster),
    ("fallback_roster", Part::Roster),
    ("models", Part::Models),
    ("model_registry", Part::Models),
    ("prompts", Part::Prompts),
    ("prompt_registry", Part::Prompts),
];

/// A parsed file.
pub(crate) struct Document {
    pub(crate) part: Part,
    pub(crate) place: Place,
    table: Table,
}

impl Document {
    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope {
            place: self.place.clone(),
            table: &self.table,
        }
    }
}

/// The parsed files, and whether all could be parsed.
pub(crate) struct Documents {
    pub(crate) list: Vec<Document>,
    pub(crate) whole: bool,
}

/// Parses every file that evenkeel reads.
pub(crate) fn parse_all(
    files: &[SourceFile],
    env: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings,
) -> Documents {
    let mut documents = Documents {
        list: Vec::new(),
        whole: true,
    };
    let mut taken: Vec<(Part, &str)> = Vec::new();
    for file in files {
        let place = Place::file(&file.name);
        let Some((stem, syntax)) = syntax_of(&file.name) else {
            continue;
        };
        let Some(part) = part_of(stem, files.len()) else {
            let known = NAMES.iter().map(|(name, _)| *name);
            let ending = file.name.rsplit('.').next().unwrap_or_default();
            let how = nearest(stem, known).map(|name| format!("did you mean `{name}.{ending}`?"));
            findings.warning(&place, "is no file that evenkeel reads".to_owned(), how);
            continue;
        };
        if let Some((_, other)) = taken.iter().find(|(other, _)| *other == part) {
            let message = format!("{other} and {} both hold {}", file.name, part.noun());
            findings.error(&place, message, Some("keep one of the two".to_owned()));
            documents.whole = false;
            continue;
        }
        taken.push((part, &file.name));
        match parse(&place, syntax, &file.text, env, findings) {
            Some(table) => documents.list.push(Document { part, place, table }),
            None => documents.whole = false,
        }
    }
    documents
}

/// The name without folder and ending; `None` where the ending is not ours.
fn syntax_of(name: &str) -> Option<(&str, Syntax)> {
    let base = name.rsplit(['/', '\\']).next()?;
    let (stem, ending) = base.rsplit_once('.')?;
    match ending.to_ascii_lowercase().as_str() {
        "toml" => Some((stem, Syntax::Toml)),
        "yaml" | "yml" => Some((stem, Syntax::Yaml)),
        _ => None,
    }
}

/// A lone file holds everything inline, whatever it is called.
fn part_of(stem: &str, files: usize) -> Option<Part> {
    let named = NAMES.iter().find(|(name, _)| *name == stem);
    match named {
        Some((_, part)) => Some(*part),
        None if files == 1 => Some(Part::Main),
        None => None,
    }
}
