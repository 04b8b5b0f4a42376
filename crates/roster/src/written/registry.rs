//! `models.toml`: what is known about models.

use std::collections::BTreeMap;

use evenkeel_core::ModelId;
use jiff::civil::Date;

use crate::model::{EolKind, ModelConfig, SCHEMA_DIALECTS};
use crate::registry::RegisteredModel;
use evenkeel_document::{Findings, Item, Place, Scope, TableReader, assign};

/// The model registry by id.
pub(crate) type Registry<'a> = BTreeMap<ModelId, Registered<'a>>;

/// One entry of the registry.
pub(crate) struct Registered<'a> {
    pub(crate) entry: Place,
    /// Which rosters the registry believes the model to be in; `None`: not said.
    pub(crate) used_by: Option<Vec<Item<'a>>>,
    /// Of `eol_date`.
    pub(crate) eol_place: Place,
    /// How far the move to the replacement is. A note for people: whether a model is
    /// used is decided by `eol_date` alone.
    migration_status: Option<String>,
    facts: Facts,
}

/// What a model's entry says about it; absent is unknown.
#[derive(Default)]
struct Facts {
    context_window: Option<u64>,
    max_output_tokens: Option<u64>,
    tools: Option<bool>,
    max_tools: Option<u64>,
    parallel_tool_calls: Option<bool>,
    images: Option<bool>,
    prefill: Option<bool>,
    json_schema: Option<bool>,
    json_object: Option<bool>,
    forced_tool: Option<bool>,
    schema_dialect: Option<&'static str>,
    eol_date: Option<Date>,
    eol_kind: EolKind,
    snapshot: Option<String>,
    replacement: Option<String>,
    probe_max_tokens: Option<u64>,
    probe_usd_per_day: Option<f64>,
    input_usd_per_mtok: Option<f64>,
    output_usd_per_mtok: Option<f64>,
    cached_input_usd_per_mtok: Option<f64>,
    cache_write_usd_per_mtok: Option<f64>,
}

impl Registered<'_> {
    /// Whether the move to the replacement is over.
    pub(crate) fn is_migrated(&self) -> bool {
        let status = self.migration_status.as_deref();
        status.is_some_and(|status| MIGRATED.contains(&status))
    }

    /// The entry as a whole.
    pub(crate) fn registered(&self, id: &ModelId) -> RegisteredModel {
        let mut model = ModelConfig::new(id.clone());
        self.apply(&mut model);
        let used_by = self.used_by.as_ref();
        RegisteredModel {
            model,
            migration_status: self.migration_status.clone(),
            agents_using: used_by.map(|said| said.iter().map(|s| s.text.to_owned()).collect()),
        }
    }

    /// Puts what the registry knows into `model`.
    pub(crate) fn apply(&self, model: &mut ModelConfig) {
        let facts = &self.facts;
        model.registered = true;
        model.context_window = facts.context_window;
        model.max_output_tokens = facts.max_output_tokens;
        model.tools = facts.tools;
        model.max_tools = facts.max_tools;
        model.parallel_tool_calls = facts.parallel_tool_calls;
        model.images = facts.images;
        model.prefill = facts.prefill;
        model.json_schema = facts.json_schema;
        model.json_object = facts.json_object;
        model.forced_tool = facts.forced_tool;
        model.schema_dialect = facts.schema_dialect;
        model.eol_date = facts.eol_date;
        model.eol_kind = facts.eol_kind;
        model.snapshot.clone_from(&facts.snapshot);
        model.replacement.clone_from(&facts.replacement);
        assign(&mut model.probe_max_tokens, facts.probe_max_tokens);
        assign(&mut model.probe_usd_per_day, facts.probe_usd_per_day);
        model.input_usd_per_mtok = facts.input_usd_per_mtok;
        model.output_usd_per_mtok = facts.output_usd_per_mtok;
        model.cached_input_usd_per_mtok = facts.cached_input_usd_per_mtok;
        model.cache_write_usd_per_mtok = facts.cache_write_usd_per_mtok;
    }
}

/// Reads `models`, reporting entries that contradict themselves or each other.
pub(crate) fn read_registry<'a>(scopes: Vec<Scope<'a>>, findings: &mut Findings) -> Registry<'a> {
    let mut registry = Registry::new();
    for scope in scopes {
        let Some((id, registered)) = read_entry(scope, findings) else {
            continue;
        };
        if let Some(first) = registry.get(&id) {
            let message = format!("`{id}` is already in line {}", first.entry.line);
            let how = "keep one of the two".to_owned();
            findings.error(&registered.entry, message, Some(how));
        } else {
            registry.insert(id, registered);
        }
    }
    registry
}

fn read_entry<'a>(scope: Scope<'a>, findings: &mut Findings) -> Option<(ModelId, Registered<'a>)> {
    let entry = scope.place.clone();
    let mut table = TableReader::new(scope, findings);
    let id = read_id(&mut table);
    let facts = read_facts(&mut table);
    warn_of_half_a_price(&facts, &mut table);
    let eol_place = table.place("eol_date");
    if let (Some(first), Some(last)) = (read_date(&mut table, "deployed_at"), facts.eol_date)
        && last < first
    {
        let message = format!("{last} is before deployed_at, {first}");
        table.findings.error(&eol_place, message, None);
    }
    let migration_status = read_migration(&mut table);
    let used_by = table.texts("agents_using");
    table.finish();
    let registered = Registered {
        entry,
        used_by,
        eol_place,
        migration_status,
        facts,
    };
    Some((id?, registered))
}

/// The id is `provider` and `id` together, or a whole `provider/model` in `id`.
fn read_id(table: &mut TableReader<'_, '_>) -> Option<ModelId> {
    let at = table.scope().place.clone();
    if !table.has("id") {
        table.know("id");
        table.know("provider");
        let how = "write the model's name, and its provider beside it".to_owned();
        table
            .findings
            .error(&at, "id is missing".to_owned(), Some(how));
        return None;
    }
    let id = table.text("id");
    let written = table.has("provider");
    let provider = table.text("provider");
    let (id, whole) = match (id?, provider) {
        (id, Some(provider)) => (id, format!("{provider}/{id}")),
        (id, None) if !written => (id, id.to_owned()),
        _ => return None,
    };
    let read = ModelId::new(&whole).ok();
    if read.is_none() {
        let message = format!("`{id}` names no provider");
        let how = "write provider beside it, or the id as `provider/model`".to_owned();
        table.findings.error(&table.place("id"), message, Some(how));
    }
    read
}

/// States in which nobody uses the model any more.
const MIGRATED: [&str; 2] = ["done", "completed"];

fn read_migration(table: &mut TableReader<'_, '_>) -> Option<String> {
    let status = table.text("migration_status")?;
    if !MIGRATED.contains(&status) && !matches!(status, "pending" | "in_progress") {
        let message = format!("`{status}` is not one of pending, in_progress, done, completed");
        let at = table.place("migration_status");
        table.findings.warning(&at, message, None);
    }
    Some(status.to_owned())
}

fn read_facts(table: &mut TableReader<'_, '_>) -> Facts {
    let kinds = [("fixed", EolKind::Fixed), ("earliest", EolKind::Earliest)];
    Facts {
        context_window: read_size(table, "context_window"),
        max_output_tokens: read_size(table, "max_output_tokens"),
        tools: table.flag("tools"),
        max_tools: read_size(table, "max_tools"),
        parallel_tool_calls: table.flag("parallel_tool_calls"),
        images: table.flag("images"),
        prefill: table.flag("prefill"),
        json_schema: table.flag("json_schema"),
        json_object: table.flag("json_object"),
        forced_tool: table.flag("forced_tool"),
        schema_dialect: table.word("schema_dialect", &SCHEMA_DIALECTS.map(|name| (name, name))),
        eol_date: read_date(table, "eol_date"),
        eol_kind: table.word("eol_kind", &kinds).unwrap_or_default(),
        snapshot: table.text("snapshot").map(str::to_owned),
        replacement: table.text("replacement").map(str::to_owned),
        probe_max_tokens: read_size(table, "probe_max_tokens"),
        probe_usd_per_day: read_price(table, "probe_usd_per_day"),
        input_usd_per_mtok: read_price(table, "input_usd_per_mtok"),
        output_usd_per_mtok: read_price(table, "output_usd_per_mtok"),
        cached_input_usd_per_mtok: read_price(table, "cached_input_usd_per_mtok"),
        cache_write_usd_per_mtok: read_price(table, "cache_write_usd_per_mtok"),
    }
}

/// With one of the two prices no call's cost is known.
fn warn_of_half_a_price(facts: &Facts, table: &mut TableReader<'_, '_>) {
    let (known, missing) = match (facts.input_usd_per_mtok, facts.output_usd_per_mtok) {
        (Some(_), None) => ("input_usd_per_mtok", "output_usd_per_mtok"),
        (None, Some(_)) => ("output_usd_per_mtok", "input_usd_per_mtok"),
        _ => return,
    };
    if table.has(missing) {
        return; // it has a fault of its own
    }
    let message = format!("without {missing} no call's cost is known");
    let at = table.place(known);
    table.findings.warning(&at, message, None);
}

fn read_date(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<Date> {
    table.date(key, |text| text.parse().ok())
}

fn read_size(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<u64> {
    let size = table.large_count(key)?;
    if size == 0 {
        let message = "is 0, expected 1 or more".to_owned();
        let how = "leave it out if it is not known".to_owned();
        table.findings.error(&table.place(key), message, Some(how));
        return None;
    }
    Some(size)
}

fn read_price(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<f64> {
    let price = table.number(key)?;
    if price < 0.0 {
        let message = format!("is {price}, expected 0 or more");
        table.findings.error(&table.place(key), message, None);
        return None;
    }
    Some(price)
}
