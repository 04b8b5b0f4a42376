//! The files of a configuration: which part each holds, and that no part is there twice.

use crate::findings::{Findings, nearest};
use crate::node::Table;
use crate::place::{Place, Scope};
use crate::syntax::{Syntax, parse};

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

/// What a file of a config folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `evenkeel.toml`: providers, server, shared tables, and all others inline.
    Main,
    /// `policy.toml`: thresholds, clocks, hedging and the rest of what roles ask for.
    Policy,
    /// `roster.toml`: each role's ranked models.
    Roster,
    /// `models.toml`: end of life, windows, prices.
    Models,
    /// `prompts.toml`: each role's prompts.
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
#[derive(Debug)]
pub struct Document {
    /// What it holds.
    pub part: Part,
    /// The file as a whole.
    pub place: Place,
    table: Table,
}

impl Document {
    /// Its top level, to be read key by key.
    pub fn scope(&self) -> Scope<'_> {
        Scope {
            place: self.place.clone(),
            table: &self.table,
        }
    }
}

/// The parsed files, and whether all could be parsed.
#[derive(Debug)]
pub struct Documents {
    /// The files that could be parsed; no part twice.
    pub list: Vec<Document>,
    /// Whether these are all.
    pub whole: bool,
}

/// Parses every file that evenkeel reads; the others are passed over, with a
/// warning where the ending is one of ours. A part in two files, whatever their
/// syntax, is an error that names both.
///
/// `env` looks up what `${NAME}` in strings stands for. What cannot be parsed is
/// in `findings`.
pub fn parse_all(
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
