//! A roster in YAML, with the keys of existing manifests.
//!
//! The lines of the role are put anew, all others stay as they are.

use super::merge::{Entry, Merged, Old, OldRole, merge};
use super::{QualifiedRole, RosterFileError, rounded, whole_ms};
use evenkeel_core::ModelId;
use evenkeel_document::{Findings, Node, SourceFile, Table, Value, parse_all};
use serde_json::Value as Json;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

const ROLES: &str = "agent_roles";

/// The file's text with what was found of `role`, and what has become of its fallbacks.
pub(super) fn written<'f>(
    path: &Path,
    text: &str,
    role: &str,
    found: &'f QualifiedRole,
) -> Result<(String, Merged<'f>), RosterFileError> {
    let before = Before::read(path, text, role)?;
    let merged = merge(path, &before.role, found)?;
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let head = lines[..before.lines.start].concat();
    let mut after = head;
    if !after.is_empty() && !after.ends_with('\n') {
        after.push_str(end);
    }
    if before.needs_roles {
        let _ = write!(after, "{ROLES}:{end}");
    }
    let block = block(role, before.indent, &before.kept, &merged, found);
    after.push_str(&block.replace('\n', end));
    after.push_str(&lines[before.lines.end..].concat());
    Ok((after, merged))
}

/// The role as the file has it, in lines that can be put anew.
pub(super) fn read(path: &Path, text: &str, role: &str) -> Result<OldRole, RosterFileError> {
    let before = Before::read(path, text, role)?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (above, below) = (&lines[..before.lines.start], &lines[before.lines.end..]);
    // An anchor that others refer to would go with the role's lines.
    if root(path, &[above, below].concat().concat()).is_err() {
        let how = "other parts of the file refer to what stands in it; write those out, or the roster in TOML";
        return Err(shape(path, &format!("{ROLES}.{role}"), how));
    }
    Ok(before.role)
}

/// What the file says of a role, as it stands there.
#[derive(Default)]
struct Kept {
    fallbacks: Vec<Table>,
    /// Keys that are no roster's, such as a policy's, each with its value.
    others: Vec<(String, String)>,
}

/// Keys of a role that a job writes, or that mean nothing beside what it writes.
const WRITTEN: [&str; 5] = [
    "primary",
    "primary_score",
    "primary_hashes",
    "qualified_at",
    "fallbacks",
];

/// What the file says of the role, and which of its lines do.
struct Before {
    role: OldRole,
    /// The role as it stands there.
    kept: Kept,
    /// The role's lines, counted from 0; none where it is to be added there.
    lines: Range<usize>,
    /// Of the role's key.
    indent: usize,
    /// Whether the key of all roles is missing.
    needs_roles: bool,
}

impl Before {
    fn read(path: &Path, text: &str, role: &str) -> Result<Self, RosterFileError> {
        let root = root(path, text)?;
        let lines: Vec<&str> = text.lines().collect();
        let all = root.get(ROLES);
        let filled = all.filter(|all| !matches!(all.node.value, Value::Null));
        let Some(all) = filled else {
            let end = all.map_or(lines.len(), |all| all.line);
            return Ok(Self {
                role: OldRole::default(),
                kept: Kept::default(),
                lines: end..end,
                indent: 2,
                needs_roles: all.is_none(),
            });
        };
        let Value::Table(roles) = &all.node.value else {
            return Err(shape(path, ROLES, "expected a table of roles"));
        };
        let indent = indent_of(path, all.line, roles, &lines)?;
        let entry = roles.get(role);
        let lines = entry.map_or_else(
            || {
                let end = lines_of(all.line - 1, spaces(lines[all.line - 1]), &lines).end;
                end..end
            },
            |entry| lines_of(entry.line - 1, indent, &lines),
        );
        let (old, kept) = match entry.map(|entry| &entry.node.value) {
            None | Some(Value::Null) => (OldRole::default(), Kept::default()),
            Some(Value::Table(table)) => read_role(path, role, table)?,
            Some(_) => {
                let key = format!("{ROLES}.{role}");
                return Err(shape(path, &key, "expected a table"));
            }
        };
        Ok(Self {
            role: old,
            kept,
            lines,
            indent,
            needs_roles: false,
        })
    }
}

/// The file's top level; empty where it holds nothing.
fn root(path: &Path, text: &str) -> Result<Table, RosterFileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut findings = Findings::default();
    // Placeholders stay: only names of models are read here.
    let as_written = |name: &str| Some(format!("${{{name}}}"));
    let file = SourceFile::new(name, text);
    let documents = parse_all(&[file], &as_written, &mut findings);
    if !documents.whole {
        let faults = findings.into_sorted();
        let first = faults.first().map(|fault| {
            let line = fault.line;
            format!("line {line}: {}", fault.message)
        });
        return Err(RosterFileError::Syntax {
            path: path.to_owned(),
            message: first.unwrap_or_default(),
        });
    }
    let document = documents.list.into_iter().next();
    Ok(document.map_or_else(Table::default, |d| d.scope().table.clone()))
}

fn shape(path: &Path, key: &str, message: &str) -> RosterFileError {
    RosterFileError::Shape {
        path: path.to_owned(),
        key: key.to_owned(),
        message: message.to_owned(),
    }
}

fn spaces(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// How far the roles' keys are indented. Each must stand in a line of its own.
fn indent_of(
    path: &Path,
    above: usize,
    roles: &Table,
    lines: &[&str],
) -> Result<usize, RosterFileError> {
    let in_braces = || {
        let how = "stands in braces; write each role in lines of its own, or the roster in TOML";
        shape(path, ROLES, how)
    };
    let mut indents = roles.entries.iter().map(|role| {
        let line = lines.get(role.line.saturating_sub(1)).unwrap_or(&"");
        let starts = line.trim_start().trim_start_matches(['"', '\'']);
        (role.line > above && starts.starts_with(role.key.as_str())).then(|| spaces(line))
    });
    match indents.next() {
        None => Ok(2),
        Some(first) => {
            let first = first.ok_or_else(in_braces)?;
            let alike = indents.all(|indent| indent == Some(first));
            alike.then_some(first).ok_or_else(in_braces)
        }
    }
}

/// The lines of a key and all that is indented below it, without the empty lines and
/// comments that follow.
fn lines_of(key: usize, indent: usize, lines: &[&str]) -> Range<usize> {
    let mut end = key + 1;
    for (index, line) in lines.iter().enumerate().skip(key + 1) {
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let is_item = spaces(line) == indent && content.starts_with("- ");
        if spaces(line) <= indent && !is_item || content == "---" || content == "..." {
            break;
        }
        end = index + 1;
    }
    key..end
}

fn read_role(path: &Path, role: &str, table: &Table) -> Result<(OldRole, Kept), RosterFileError> {
    let key = format!("{ROLES}.{role}.fallbacks");
    let mut fallbacks = Vec::new();
    let mut kept = Kept::default();
    match table.get("fallbacks").map(|entry| &entry.node.value) {
        None | Some(Value::Null) => {}
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let Value::Table(fallback) = &item.value else {
                    return Err(shape(path, &format!("{key}[{index}]"), "expected a table"));
                };
                let model = model(fallback, "model").ok_or_else(|| {
                    let key = format!("{key}[{index}].model");
                    shape(path, &key, "expected `provider/model`")
                })?;
                fallbacks.push(Old {
                    model,
                    quality_score: number(fallback, "quality_score"),
                    dataset: dataset(fallback),
                });
                kept.fallbacks.push(fallback.clone());
            }
        }
        Some(_) => return Err(shape(path, &key, "expected a list of tables")),
    }
    let others = table.entries.iter();
    let others = others.filter(|entry| !WRITTEN.contains(&entry.key.as_str()));
    kept.others = others
        .map(|entry| (key_text(&entry.key), json(&entry.node).to_string()))
        .collect();
    let old = OldRole {
        primary: model(table, "primary"),
        primary_score: number(table, "primary_score").filter(|score| *score > 0.0),
        fallbacks,
    };
    Ok((old, kept))
}

fn model(table: &Table, key: &str) -> Option<ModelId> {
    match &table.get(key)?.node.value {
        Value::String(text) => ModelId::new(text).ok(),
        _ => None,
    }
}

fn number(table: &Table, key: &str) -> Option<f64> {
    match table.get(key)?.node.value {
        Value::Float(number) => Some(number),
        #[expect(clippy::cast_precision_loss, reason = "a score is a small number")]
        Value::Integer(number) => Some(number as f64),
        _ => None,
    }
}

fn dataset(fallback: &Table) -> Option<String> {
    let Value::Table(hashes) = &fallback.get("hashes")?.node.value else {
        return None;
    };
    match &hashes.get("dataset")?.node.value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// The lines of the role.
fn block(
    role: &str,
    indent: usize,
    kept: &Kept,
    merged: &Merged<'_>,
    found: &QualifiedRole,
) -> String {
    let pad = " ".repeat(indent);
    let mut lines = format!("{pad}{}:\n", key_text(role));
    let primary = quoted(found.primary.as_str());
    let _ = writeln!(lines, "{pad}  primary: {primary}");
    for (name, value) in &kept.others {
        let _ = writeln!(lines, "{pad}  {name}: {value}");
    }
    if !merged.entries.is_empty() {
        let _ = writeln!(lines, "{pad}  fallbacks:");
    }
    for (index, entry) in merged.entries.iter().enumerate() {
        let keys = keys(index, entry, &kept.fallbacks);
        for (nth, (name, value)) in keys.iter().enumerate() {
            let bullet = if nth == 0 { "- " } else { "  " };
            let _ = writeln!(lines, "{pad}    {bullet}{name}: {value}");
        }
    }
    lines
}

/// The keys of one fallback, each with its value as it is written.
fn keys(index: usize, entry: &Entry<'_>, kept: &[Table]) -> Vec<(String, String)> {
    let mut keys = vec![
        ("model".to_owned(), quoted(entry.model.as_str())),
        ("rank".to_owned(), (index + 1).to_string()),
    ];
    if let Some(ratio) = entry.ratio {
        keys.push(("quality_score".to_owned(), rounded(ratio).to_string()));
    }
    if let Some(measured) = entry.measured {
        let median = whole_ms(measured.median_latency);
        keys.push(("median_latency_ms".to_owned(), median.to_string()));
    }
    let old = entry.from.and_then(|from| kept.get(from));
    for own in old.into_iter().flat_map(|table| &table.entries) {
        // What a job says of a model it says wholly.
        let is_replaced = entry.measured.is_some() && own.key != "capability_score"
            || keys.iter().any(|(name, _)| *name == own.key);
        if !is_replaced {
            keys.push((key_text(&own.key), json(&own.node).to_string()));
        }
    }
    keys
}

/// A key; in quotes where it has to be.
fn key_text(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_plain = name.chars().all(plain) && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| name.eq_ignore_ascii_case(word));
    if is_plain && !is_word {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// A text in quotes: JSON's are YAML's.
fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

/// A value in the flow form that JSON and YAML share.
fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null | Value::Unusable => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::String(text) | Value::Date(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(json).collect(),
        Value::Table(table) => {
            let pairs = table.entries.iter();
            pairs.map(|e| (e.key.clone(), json(&e.node))).collect()
        }
    }
}
