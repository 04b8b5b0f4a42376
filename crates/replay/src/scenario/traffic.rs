//! Who asks, how often and for what.

use evenkeel_core::{ClockOverrides, Complexity, ModelId};
use evenkeel_document::{Scope, TableReader, nearest};
use evenkeel_roster::Config;
use std::time::Duration;

/// What a request asks its answer to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    /// `text`.
    #[default]
    Text,
    /// `json_object`: any JSON object.
    JsonObject,
    /// `json_schema`: `{"city": string, "days": integer}`.
    JsonSchema,
}

/// Requests of one kind.
#[expect(
    clippy::struct_excessive_bools,
    reason = "keys of a file, each a switch of its own"
)]
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// `role`; the only one where it is not said.
    pub role: String,
    /// `from_ms`: when the first is asked.
    pub from: Duration,
    /// `count`: how many in all; 1 where it is not said.
    pub count: u32,
    /// `every_ms`: from one to the next, whether answered or not.
    pub every: Duration,
    /// `callers`: so many at a time in place of `every_ms`, each asking again as
    /// soon as it has its answer.
    pub callers: Option<u32>,
    /// `stream`: whether they ask for streams.
    pub stream: bool,
    /// `output`.
    pub output: Output,
    /// `tools`: whether they offer a tool.
    pub tools: bool,
    /// `images`: whether they show an image.
    pub images: bool,
    /// `store`: whether the provider is to keep them.
    pub store: bool,
    /// `task` of the role that they are.
    pub task: Option<String>,
    /// `pinned_roster`: the only models that may answer, best first.
    pub pinned_roster: Option<Vec<ModelId>>,
    /// `min_capability` that they ask for, 0 to 1.
    pub min_capability: Option<f64>,
    /// `degraded_input`: the least capability among the answers of fallbacks that
    /// they build on, 0 to 1; none where they build on none.
    pub degraded_input: Option<f64>,
    /// `complexity` that they declare.
    pub complexity: Option<Complexity>,
    /// `input_tokens`, roughly, beside a few words.
    pub input_tokens: u32,
    /// `turns`: earlier exchanges that the input is spread over.
    pub turns: u32,
    /// `max_output_tokens`.
    pub max_output_tokens: Option<u64>,
    /// `session` of all of them; each is its own where it is not said.
    pub session: Option<String>,
    /// `connect_ms`, `first_token_ms`, `stall_ms`, `deadline_ms`: shorter clocks.
    pub clocks: ClockOverrides,
    /// `leaves_after_ms`: when each caller hangs up, if it has no answer.
    pub leaves_after: Option<Duration>,
    /// `read_pause_ms`: how long a caller takes over each event of a stream.
    pub read_pause: Duration,
}

/// Reads `traffic`, a list of tables.
pub(super) fn read(table: &mut TableReader<'_, '_>) -> Vec<Traffic> {
    let scopes = table.listed_tables("traffic").unwrap_or_default();
    if scopes.is_empty() {
        let at = table.place("traffic");
        let message = "nobody asks anything".to_owned();
        let how = "write [[traffic]]".to_owned();
        table.findings.error(&at, message, Some(how));
    }
    scopes
        .into_iter()
        .map(|scope| read_one(scope, table))
        .collect()
}

fn read_one(scope: Scope<'_>, outer: &mut TableReader<'_, '_>) -> Traffic {
    let mut table = TableReader::new(scope, outer.findings);
    let outputs = [
        ("text", Output::Text),
        ("json_object", Output::JsonObject),
        ("json_schema", Output::JsonSchema),
    ];
    let complexities = Complexity::ALL.map(|level| (level.as_str(), level));
    let traffic = Traffic {
        role: table.text("role").unwrap_or_default().to_owned(),
        from: table.ms("from_ms").unwrap_or_default(),
        count: table.count("count").unwrap_or(1),
        every: table.ms("every_ms").unwrap_or_default(),
        callers: table.count("callers"),
        stream: table.flag("stream").unwrap_or(false),
        output: table.word("output", &outputs).unwrap_or_default(),
        tools: table.flag("tools").unwrap_or(false),
        images: table.flag("images").unwrap_or(false),
        store: table.flag("store").unwrap_or(false),
        task: table.text("task").map(str::to_owned),
        pinned_roster: models(&mut table, "pinned_roster"),
        min_capability: share(&mut table, "min_capability"),
        degraded_input: share(&mut table, "degraded_input"),
        complexity: table.word("complexity", &complexities),
        input_tokens: table.count("input_tokens").unwrap_or(0),
        turns: table.count("turns").unwrap_or(0),
        max_output_tokens: table.large_count("max_output_tokens"),
        session: table.text("session").map(str::to_owned),
        clocks: ClockOverrides {
            connect: table.ms("connect_ms"),
            first_token: table.ms("first_token_ms"),
            stall: table.ms("stall_ms"),
            deadline: table.ms("deadline_ms"),
        },
        leaves_after: table.ms("leaves_after_ms"),
        read_pause: table.ms("read_pause_ms").unwrap_or_default(),
    };
    check(&mut table, &traffic);
    table.finish();
    traffic
}

/// A number from 0 to 1.
fn share(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<f64> {
    let share = table.number(key)?;
    if (0.0..=1.0).contains(&share) {
        return Some(share);
    }
    let at = table.place(key);
    let message = format!("is {share}, expected 0 to 1");
    table.findings.error(&at, message, None);
    None
}

/// A list of models.
fn models(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<Vec<ModelId>> {
    if !table.has(key) {
        table.know(key);
        return None;
    }
    let mut models = Vec::new();
    for item in table.texts(key)? {
        match ModelId::new(item.text) {
            Ok(model) => models.push(model),
            Err(error) => table.findings.error(&item.place, error.to_string(), None),
        }
    }
    Some(models)
}

fn check(table: &mut TableReader<'_, '_>, traffic: &Traffic) {
    let mut wrong = |key: &str, message: &str| {
        let at = table.place(key);
        table.findings.error(&at, message.to_owned(), None);
    };
    if traffic.count == 0 {
        wrong("count", "is 0: nobody asks");
    }
    if traffic.callers == Some(0) {
        wrong("callers", "is 0: nobody asks");
    }
    if traffic.callers.is_some() && !traffic.every.is_zero() {
        wrong(
            "callers",
            "stands beside every_ms: one of the two says when they ask",
        );
    }
    if !traffic.read_pause.is_zero() && !traffic.stream {
        wrong("read_pause_ms", "only means something with stream = true");
    }
}

/// Every role that is asked exists, and every task of it; where no role is named there
/// is only one.
pub(super) fn check_roles(
    traffic: &mut [Traffic],
    config: &Config,
    table: &mut TableReader<'_, '_>,
) {
    let at = table.place("traffic");
    for traffic in traffic {
        let mut roles = config.roles.keys();
        if traffic.role.is_empty() {
            if let (Some(only), None) = (roles.next(), roles.next()) {
                traffic.role.clone_from(only);
            } else {
                let message = "role is missing: there are several".to_owned();
                table.findings.error(&at, message, None);
            }
        } else if !config.roles.contains_key(&traffic.role) {
            let how = nearest(&traffic.role, roles.map(String::as_str));
            let how = how.map(|role| format!("did you mean `{role}`?"));
            let message = format!("no role is named `{}`", traffic.role);
            table.findings.error(&at, message, how);
        }
        check_task(traffic, config, table);
    }
}

fn check_task(traffic: &Traffic, config: &Config, table: &mut TableReader<'_, '_>) {
    let (Some(task), Some(role)) = (&traffic.task, config.roles.get(&traffic.role)) else {
        return;
    };
    if !role.policy.tasks.contains_key(task.as_str()) {
        let at = table.place("traffic");
        let known = role.policy.tasks.keys();
        let how = nearest(task, known.map(|task| &**task));
        let how = how.map(|task| format!("did you mean `{task}`?"));
        let message = format!("role `{}` has no task `{task}`", traffic.role);
        table.findings.error(&at, message, how);
    }
}
