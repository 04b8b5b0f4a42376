//! A roster in TOML, edited in place.

use super::merge::{Entry, Merged, Old, OldRole, merge};
use super::{QualifiedRole, RosterFileError, rounded, whole_ms};
use evenkeel_core::ModelId;
use evenkeel_roster::Hashes;
use jiff::civil::Date;
use std::path::Path;
use toml_edit::{
    Array, ArrayOfTables, DocumentMut, InlineTable, Item, RawString, Table, TableLike, Value,
};

const ROLES: &str = "agent_roles";
const FALLBACKS: &str = "fallbacks";

/// The file's text with what was found of `role`, and what has become of its fallbacks.
pub(super) fn written<'f>(
    path: &Path,
    text: &str,
    role: &str,
    found: &'f QualifiedRole,
) -> Result<(String, Merged<'f>), RosterFileError> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let has_crlf = body.contains("\r\n");
    let mut document = parse(path, &body.replace("\r\n", "\n"))?;
    let mut edited = role_table(path, &mut document, role)?;
    let old = read_role(path, role, edited.table)?;
    let merged = merge(path, &old, found)?;
    edited.put_role(found);
    edited.put_fallbacks(&merged, found);
    let mut after = document.to_string();
    if body.is_empty() {
        after = after.trim_start().to_owned();
    }
    if has_crlf {
        after = after.replace('\n', "\r\n");
    }
    Ok((format!("{mark}{after}"), merged))
}

/// The role as the file has it, in a table that can be edited.
pub(super) fn read(path: &Path, text: &str, role: &str) -> Result<OldRole, RosterFileError> {
    let mut document = parse(path, text.trim_start_matches('\u{feff}'))?;
    let edited = role_table(path, &mut document, role)?;
    read_role(path, role, edited.table)
}

fn parse(path: &Path, text: &str) -> Result<DocumentMut, RosterFileError> {
    text.parse()
        .map_err(|error: toml_edit::TomlError| RosterFileError::Syntax {
            path: path.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })
}

fn shape(path: &Path, key: String, expected: &str, found: &Item) -> RosterFileError {
    RosterFileError::Shape {
        path: path.to_owned(),
        key,
        message: format!("expected {expected}, found {}", found.type_name()),
    }
}

/// The table of the role, made where it is not there.
fn role_table<'d>(
    path: &Path,
    document: &'d mut DocumentMut,
    role: &str,
) -> Result<Edited<'d>, RosterFileError> {
    let roles = document.entry(ROLES).or_insert_with(|| {
        let mut roles = Table::new();
        roles.set_implicit(true);
        Item::Table(roles)
    });
    if !roles.is_table_like() {
        return Err(shape(path, ROLES.to_owned(), "a table", roles));
    }
    let inline = roles.is_inline_table();
    let roles = roles.as_table_like_mut().expect("asked before");
    if !roles.contains_key(role) {
        let new = if inline {
            Item::Value(Value::InlineTable(InlineTable::new()))
        } else {
            let mut table = Table::new();
            table.decor_mut().set_prefix("\n");
            Item::Table(table)
        };
        roles.insert(role, new);
    }
    let item = roles.get_mut(role).expect("there, or made");
    if !item.is_table_like() {
        return Err(shape(path, format!("{ROLES}.{role}"), "a table", item));
    }
    Ok(Edited::of(item).expect("asked before"))
}

fn read_role(path: &Path, role: &str, table: &dyn TableLike) -> Result<OldRole, RosterFileError> {
    let key = format!("{ROLES}.{role}.{FALLBACKS}");
    let fallbacks = match table.get(FALLBACKS) {
        None => Vec::new(),
        Some(item) => tables(item)
            .ok_or_else(|| shape(path, key.clone(), "a list of tables", item))?
            .into_iter()
            .enumerate()
            .map(|(index, fallback)| {
                read_fallback(fallback).ok_or_else(|| RosterFileError::Shape {
                    path: path.to_owned(),
                    key: format!("{key}[{index}].model"),
                    message: "expected `provider/model`".to_owned(),
                })
            })
            .collect::<Result<_, _>>()?,
    };
    Ok(OldRole {
        primary: model(table.get("primary")),
        primary_score: number(table.get("primary_score")).filter(|score| *score > 0.0),
        fallbacks,
    })
}

/// The tables of a list of either form.
fn tables(item: &Item) -> Option<Vec<&dyn TableLike>> {
    match item {
        Item::ArrayOfTables(tables) => Some(tables.iter().map(|t| t as &dyn TableLike).collect()),
        Item::Value(Value::Array(values)) => {
            let tables = values.iter().map(Value::as_inline_table);
            tables.map(|t| t.map(|t| t as &dyn TableLike)).collect()
        }
        _ => None,
    }
}

fn read_fallback(table: &dyn TableLike) -> Option<Old> {
    let hashes = table.get("hashes").and_then(Item::as_table_like);
    let dataset = hashes.and_then(|hashes| hashes.get("dataset")?.as_str());
    Some(Old {
        model: model(table.get("model"))?,
        quality_score: number(table.get("quality_score")),
        dataset: dataset.map(str::to_owned),
    })
}

fn model(item: Option<&Item>) -> Option<ModelId> {
    ModelId::new(item?.as_str()?).ok()
}

fn number(item: Option<&Item>) -> Option<f64> {
    let item = item?;
    #[expect(clippy::cast_precision_loss, reason = "a score is a small number")]
    let whole = || item.as_integer().map(|whole| whole as f64);
    item.as_float().or_else(whole)
}

/// A table that is edited.
struct Edited<'t> {
    table: &'t mut dyn TableLike,
    /// Whether it stands in one line, in braces.
    is_inline: bool,
    /// Whether tables below it may have headers of their own.
    takes_headers: bool,
}

impl<'t> Edited<'t> {
    fn of(item: &'t mut Item) -> Option<Self> {
        let is_inline = item.is_inline_table();
        let table = item.as_table_like_mut()?;
        Some(Self {
            is_inline,
            // What dotted keys have begun no header may go on with.
            takes_headers: !is_inline && !table.is_dotted(),
            table,
        })
    }

    fn put_role(&mut self, found: &QualifiedRole) {
        self.put("primary", found.primary.as_str().into());
        self.put("primary_score", rounded(found.primary_score).into());
        self.put("qualified_at", date(found.qualified_at));
        self.put_hashes("primary_hashes", &found.primary_hashes);
    }

    fn put_fallbacks(&mut self, merged: &Merged<'_>, found: &QualifiedRole) {
        if merged.entries.is_empty() {
            // An empty list would say that none are wanted.
            self.drop_key(FALLBACKS);
            return;
        }
        match self.table.get_mut(FALLBACKS) {
            Some(Item::Value(Value::Array(old))) => {
                let mut new = inline_fallbacks(old, merged, found);
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
            None if !self.takes_headers => {
                let new = inline_fallbacks(&Array::new(), merged, found);
                self.put(FALLBACKS, new.into());
            }
            _ => {
                let mut old = match self.table.remove(FALLBACKS) {
                    Some(Item::ArrayOfTables(old)) => old,
                    _ => ArrayOfTables::new(),
                };
                leave_comments(self.table, &mut old);
                let new = listed_fallbacks(&old, merged, found);
                self.table.insert(FALLBACKS, Item::ArrayOfTables(new));
            }
        }
    }

    fn put_entry(&mut self, index: usize, entry: &Entry<'_>, found: &QualifiedRole) {
        let rank = i64::try_from(index + 1).unwrap_or(i64::MAX);
        self.put("model", entry.model.as_str().into());
        self.put("rank", rank.into());
        let Some(measured) = entry.measured else {
            if let Some(ratio) = entry.ratio.filter(|_| !entry.says_so) {
                let score = rounded(ratio * found.primary_score);
                self.put("quality_score", score.into());
            }
            return;
        };
        self.put("quality_score", rounded(measured.quality_score).into());
        let median = whole_ms(measured.median_latency);
        self.put("median_latency_ms", median.into());
        match measured.schema_compliance {
            Some(share) => self.put("schema_compliance", rounded(share).into()),
            None => self.drop_key("schema_compliance"),
        }
        self.put("qualified_at", date(found.qualified_at));
        self.put_hashes("hashes", &measured.hashes);
    }

    fn put_hashes(&mut self, key: &str, hashes: &Hashes) {
        if !self.table.get(key).is_some_and(Item::is_table_like) {
            self.put(key, InlineTable::new().into());
        }
        let inner = self.table.get_mut(key).and_then(Edited::of);
        let mut inner = inner.expect("a table, there or made");
        inner.put("prompt", hashes.prompt.as_str().into());
        inner.put("tools", hashes.tools.as_str().into());
        inner.put("dataset", hashes.dataset.as_str().into());
        inner.put("snapshot", hashes.snapshot.as_str().into());
        if hashes.fingerprints.is_empty() {
            inner.drop_key("fingerprints");
        } else {
            let all: Array = hashes.fingerprints.iter().map(String::as_str).collect();
            inner.put("fingerprints", all.into());
        }
    }

    /// Sets a key. What says the same already is left as it is written, and what
    /// stands around a value, comments too, stays there.
    fn put(&mut self, key: &str, mut value: Value) {
        match self.table.get_mut(key) {
            Some(Item::Value(old)) if says_the_same(old, &value) => {}
            Some(Item::Value(old)) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            Some(other) => *other = Item::Value(value),
            None => {
                if let Some(space) = self.space_before_brace() {
                    value.decor_mut().set_prefix(" ");
                    value.decor_mut().set_suffix(space);
                }
                self.table.insert(key, Item::Value(value));
            }
        }
    }

    /// Takes the key out; the space before the closing brace stays.
    fn drop_key(&mut self, key: &str) {
        let space = self.space_before_brace();
        self.table.remove(key);
        if let (Some(space), Some(last)) = (space, self.last()) {
            last.decor_mut().set_suffix(space);
        }
    }

    /// Takes away the space before the closing brace of an inline table that is not
    /// empty.
    fn space_before_brace(&mut self) -> Option<String> {
        if !self.is_inline {
            return None;
        }
        let last = self.last()?;
        let space = last.decor().suffix().map(|space| text(Some(space)));
        last.decor_mut().set_suffix("");
        Some(space.unwrap_or_else(|| " ".to_owned()))
    }

    fn last(&mut self) -> Option<&mut Value> {
        last_value(self.table)
    }
}

fn last_value(table: &mut dyn TableLike) -> Option<&mut Value> {
    let values = table.iter_mut().map(|(_, item)| item);
    values.filter_map(Item::as_value_mut).last()
}

/// Comments above a `[[…fallbacks]]` with an empty line between belong to what stands
/// before them, and stay there when the fallback moves or goes.
fn leave_comments(role: &mut dyn TableLike, fallbacks: &mut ArrayOfTables) {
    for index in 0..fallbacks.len() {
        let table = fallbacks.get_mut(index).expect("below the length");
        let decor = table.decor_mut();
        let prefix = text(decor.prefix());
        let Some(cut) = prefix.rfind("\n\n") else {
            continue;
        };
        let (above, own) = prefix.split_at(cut + 1);
        let above = above.trim_end_matches('\n').to_owned();
        decor.set_prefix(own.to_owned());
        let before: &mut dyn TableLike = match index.checked_sub(1) {
            Some(before) => fallbacks.get_mut(before).expect("below the length"),
            None => &mut *role,
        };
        if let Some(last) = last_value(before) {
            let suffix = text(last.decor().suffix());
            last.decor_mut().set_suffix(format!("{suffix}\n{above}"));
        }
    }
}

fn text(raw: Option<&RawString>) -> String {
    let text = raw.and_then(RawString::as_str);
    text.unwrap_or_default().to_owned()
}

fn listed_fallbacks(
    old: &ArrayOfTables,
    merged: &Merged<'_>,
    found: &QualifiedRole,
) -> ArrayOfTables {
    let mut new = ArrayOfTables::new();
    let place = old.iter().filter_map(Table::position).min();
    for (index, entry) in merged.entries.iter().enumerate() {
        let kept = entry.from.and_then(|from| old.get(from));
        let mut table = kept.cloned().unwrap_or_else(|| {
            let mut table = Table::new();
            table.decor_mut().set_prefix("\n");
            table
        });
        // The first stands where the first stood, the others behind it, and what stands
        // below one of them goes with it.
        table.set_position(place.filter(|_| index == 0));
        unplace_below(&mut table);
        let mut edited = Edited {
            table: &mut table,
            is_inline: false,
            takes_headers: true,
        };
        edited.put_entry(index, entry, found);
        new.push(table);
    }
    new
}

/// Takes the places of all tables below one, so that they follow it.
fn unplace_below(table: &mut Table) {
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(below) => {
                below.set_position(None);
                unplace_below(below);
            }
            Item::ArrayOfTables(tables) => {
                for below in tables.iter_mut() {
                    below.set_position(None);
                    unplace_below(below);
                }
            }
            Item::None | Item::Value(_) => {}
        }
    }
}

fn inline_fallbacks(old: &Array, merged: &Merged<'_>, found: &QualifiedRole) -> Array {
    let spaces = Spaces::of(old);
    let mut new = old.clone();
    new.clear();
    let mut behind = spaces.opening();
    for (index, entry) in merged.entries.iter().enumerate() {
        let kept = entry.from.and_then(|from| old.get(from)?.as_inline_table());
        let mut table = kept.cloned().unwrap_or_default();
        let mut edited = Edited {
            table: &mut table,
            is_inline: true,
            takes_headers: false,
        };
        edited.put_entry(index, entry, found);
        let prefix = spaces.before(entry.from, index);
        table.decor_mut().set_prefix(format!("{behind}{prefix}"));
        table.decor_mut().set_suffix("");
        behind = spaces.behind(entry.from);
        new.push_formatted(Value::InlineTable(table));
    }
    new.set_trailing(format!("{behind}{}", spaces.closing()));
    new
}

/// What stands between the items of a list. Of what is between two, the rest of the
/// line behind the comma belongs to the first, and all else to the second.
struct Spaces<'a>(&'a Array);

impl<'a> Spaces<'a> {
    fn of(list: &'a Array) -> Self {
        Self(list)
    }

    fn prefix(&self, index: usize) -> Option<String> {
        let item = self.0.get(index)?;
        Some(text(item.decor().prefix()))
    }

    /// Behind the bracket, in its line.
    fn opening(&self) -> String {
        let first = self.prefix(0).unwrap_or_default();
        split_line(&first).0.to_owned()
    }

    /// Above and before an item that was there, or a new one at that place.
    fn before(&self, from: Option<usize>, index: usize) -> String {
        let own = self.prefix(from.unwrap_or(0)).unwrap_or_default();
        match split_line(&own).1 {
            "" if index > 0 => " ".to_owned(),
            "" => String::new(),
            // A new item takes the place of the first in its line, not its comments.
            lines if from.is_none() => {
                let last = lines.rfind('\n').unwrap_or(0);
                lines[last..].to_owned()
            }
            lines => lines.to_owned(),
        }
    }

    /// Behind the comma of an item that was there, in its line.
    fn behind(&self, from: Option<usize>) -> String {
        let Some(from) = from else {
            return String::new();
        };
        let next = self.prefix(from + 1);
        let next = next.unwrap_or_else(|| text(Some(self.0.trailing())));
        split_line(&next).0.to_owned()
    }

    /// Before the closing bracket.
    fn closing(&self) -> String {
        split_line(&text(Some(self.0.trailing()))).1.to_owned()
    }
}

/// What stands before the first line end, where there is one, and what stands from
/// there on.
fn split_line(space: &str) -> (&str, &str) {
    space.find('\n').map_or(("", ""), |end| space.split_at(end))
}

fn says_the_same(old: &Value, new: &Value) -> bool {
    let plain = |value: &Value| value.clone().decorated("", "").to_string();
    match (old, new) {
        (Value::String(old), Value::String(new)) => old.value() == new.value(),
        (Value::Float(old), Value::Float(new)) => old.value().to_bits() == new.value().to_bits(),
        (Value::Datetime(old), Value::Datetime(new)) => old.value() == new.value(),
        // A date that is written as text.
        (Value::String(old), Value::Datetime(new)) => *old.value() == new.value().to_string(),
        _ => plain(old) == plain(new),
    }
}

fn date(day: Date) -> Value {
    let date: toml_edit::Datetime = day
        .to_string()
        .parse()
        .expect("a day of the calendar as ISO 8601 writes it");
    date.into()
}
