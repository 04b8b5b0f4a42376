//! The written form of each part of a configuration: which keys it has and what they mean.

mod access;
mod alerts;
mod audit;
mod degraded;
mod guard;
mod policy;
mod preset;
mod provider;
mod qualification;
mod queue;
mod registry;
mod roster;
mod server;
mod task;
mod telemetry;
mod tickets;
mod validators;

use std::collections::BTreeMap;

use secrecy::SecretString;

pub(crate) use self::policy::WrittenPolicy;
pub(crate) use self::preset::Preset;
pub use self::preset::preset_servers;
pub(crate) use self::provider::{SharedTables, WrittenProvider};
pub(crate) use self::registry::Registry;
pub(crate) use self::roster::{WrittenFallback, WrittenRoster};
pub(crate) use self::task::WrittenTask;

use self::alerts::read_alerts;
use self::audit::read_audit;
use self::policy::read_policy;
use self::provider::read_providers;
use self::registry::read_registry;
use self::roster::read_roster;
use self::server::read_server;
use self::telemetry::read_telemetry;
use self::tickets::read_tickets;
use crate::alerts::AlertsConfig;
use crate::audit::AuditConfig;
use crate::config::ServerConfig;
use crate::telemetry::WrittenTelemetry;
use crate::tickets::TicketsConfig;
use evenkeel_document::{Document, Findings, Part, Place, Scope, Table, TableReader};

/// Everything the files say, before any rule that needs more than one table.
#[derive(Default)]
pub(crate) struct Written<'a> {
    /// `version`: what the configuration calls itself.
    pub(crate) version: Option<&'a str>,
    /// `[defaults]`.
    pub(crate) defaults: WrittenPolicy<'a>,
    /// Roles with a policy of their own, and where it stands.
    pub(crate) policies: BTreeMap<&'a str, (Place, WrittenPolicy<'a>)>,
    pub(crate) rosters: BTreeMap<&'a str, WrittenRoster<'a>>,
    pub(crate) registry: Registry<'a>,
    pub(crate) shared: SharedTables,
    pub(crate) providers: BTreeMap<String, WrittenProvider>,
    pub(crate) server: ServerConfig,
    pub(crate) telemetry: WrittenTelemetry,
    pub(crate) tickets: TicketsConfig,
    pub(crate) alerts: AlertsConfig,
    pub(crate) audit: Option<AuditConfig>,
}

impl<'a> Written<'a> {
    /// Reads every document; each part has at most one of its own, beside `evenkeel.toml`,
    /// whose top-level keys `others` are somebody else's.
    pub(crate) fn read(
        documents: &'a [Document],
        others: &[&'static str],
        findings: &mut Findings,
    ) -> Self {
        let mut written = Self::default();
        for document in documents {
            let scope = document.scope();
            let mut table = TableReader::new(scope.clone(), findings);
            match document.part {
                Part::Main => {
                    written.read_main(&mut table, &scope, documents);
                    for key in others {
                        table.know(key);
                    }
                }
                Part::Policy => {
                    written.read_defaults(&mut table);
                    written.read_policies(&mut table);
                }
                Part::Roster => written.read_rosters(&mut table),
                Part::Models => written.read_models(&mut table),
                // Read by the prompts' own crate.
                Part::Prompts => continue,
            }
            table.finish();
        }
        written
    }

    fn read_main(
        &mut self,
        table: &mut TableReader<'a, '_>,
        scope: &Scope<'a>,
        documents: &[Document],
    ) {
        self.version = read_version(table);
        self.shared.read(table, &[scope], true);
        self.server = table.within("server", read_server).unwrap_or_default();
        let telemetry = table.within("telemetry", read_telemetry);
        self.telemetry = telemetry.unwrap_or_default();
        self.tickets = table.within("tickets", read_tickets).unwrap_or_default();
        self.alerts = table.within("alerts", read_alerts).unwrap_or_default();
        self.audit = table.within("audit", read_audit);
        if self.audit.is_some() && self.server.state_dir.is_none() {
            let message = "is to be written, and server.state_dir is not set".to_owned();
            let how = "write e.g. `state_dir = \"state\"` into [server]".to_owned();
            table
                .findings
                .error(&table.place("audit"), message, Some(how));
        }
        self.providers = read_providers(table, scope, &self.shared);
        let other = |part| documents.iter().find(|d| d.part == part);
        if table.has("defaults") {
            refuse_second(table, "defaults", other(Part::Policy));
        }
        self.read_defaults(table);
        if table.has("models") {
            refuse_second(table, "models", other(Part::Models));
        }
        self.read_models(table);
        self.read_inline_roles(table, other(Part::Policy), other(Part::Roster));
        table.know("prompts");
    }

    fn read_defaults(&mut self, table: &mut TableReader<'a, '_>) {
        let nothing = WrittenPolicy::default();
        let defaults = table.within("defaults", |t| read_policy(t, &nothing));
        self.defaults = defaults.unwrap_or_else(|| std::mem::take(&mut self.defaults));
    }

    fn read_policies(&mut self, table: &mut TableReader<'a, '_>) {
        for (role, scope) in table.named_tables("agent_roles") {
            check_name("role", role, &scope.place, table.findings);
            let place = scope.place.clone();
            let mut own = TableReader::new(scope, table.findings);
            let policy = read_policy(&mut own, &self.defaults);
            own.finish_knowing(&roster_keys(), "roster.toml");
            self.policies.insert(role, (place, policy));
        }
    }

    fn read_rosters(&mut self, table: &mut TableReader<'a, '_>) {
        for (role, scope) in table.named_tables("agent_roles") {
            check_name("role", role, &scope.place, table.findings);
            let mut own = TableReader::new(scope, table.findings);
            let roster = read_roster(&mut own);
            own.finish_knowing(&policy_keys(), "policy.toml");
            self.rosters.insert(role, roster);
        }
    }

    fn read_models(&mut self, table: &mut TableReader<'a, '_>) {
        if let Some(scopes) = table.listed_tables("models") {
            self.registry = read_registry(scopes, table.findings);
        }
    }

    /// Roles in `evenkeel.toml` hold policy and roster in one table.
    fn read_inline_roles(
        &mut self,
        table: &mut TableReader<'a, '_>,
        policy_file: Option<&Document>,
        roster_file: Option<&Document>,
    ) {
        for (role, scope) in table.named_tables("agent_roles") {
            check_name("role", role, &scope.place, table.findings);
            let place = scope.place.clone();
            let has_any = |keys: &[&str]| keys.iter().any(|key| scope.table.get(key).is_some());
            let (has_policy, has_roster) = (has_any(&policy_keys()), has_any(&roster_keys()));
            let mut own = TableReader::new(scope.clone(), table.findings);
            if has_policy {
                refuse_second_role(&mut own, &place, "policy", policy_file);
            }
            if has_roster {
                refuse_second_role(&mut own, &place, "roster", roster_file);
            }
            let policy = read_policy(&mut own, &self.defaults);
            if policy_file.is_none() {
                self.policies.insert(role, (place, policy));
            }
            if has_roster || roster_file.is_none() {
                self.rosters.insert(role, read_roster(&mut own));
            }
            own.finish_knowing(&roster_keys(), "roster.toml");
        }
    }
}

fn refuse_second(table: &mut TableReader<'_, '_>, key: &str, other: Option<&Document>) {
    if let Some(other) = other {
        let message = format!("{key} are here and in {}", other.place.file);
        let how = "keep them in one of the two".to_owned();
        table.findings.error(&table.place(key), message, Some(how));
    }
}

fn refuse_second_role(
    table: &mut TableReader<'_, '_>,
    at: &Place,
    what: &str,
    other: Option<&Document>,
) {
    if let Some(other) = other {
        let message = format!("has a {what} here, and {} is there too", other.place.file);
        let how = "keep them in one of the two".to_owned();
        table.findings.error(at, message, Some(how));
    }
}

/// Every key of a policy table.
fn policy_keys() -> Vec<&'static str> {
    keys_asked(|table| {
        read_policy(table, &WrittenPolicy::default());
    })
}

/// Every key of a roster table.
fn roster_keys() -> Vec<&'static str> {
    keys_asked(|table| {
        read_roster(table);
    })
}

/// The keys that `read` asks an empty table for.
fn keys_asked(read: impl FnOnce(&mut TableReader<'_, '_>)) -> Vec<&'static str> {
    let empty = Table::default();
    let scope = Scope {
        place: Place::file(""),
        table: &empty,
    };
    let mut unused = Findings::default();
    let mut table = TableReader::new(scope, &mut unused);
    read(&mut table);
    table.known().to_vec()
}

/// Longest `version`, in bytes: what an audit record takes.
const LONGEST_VERSION: usize = 64;

/// `version`: what the configuration calls itself, for traces and records.
fn read_version<'a>(table: &mut TableReader<'a, '_>) -> Option<&'a str> {
    let version = table.text("version")?;
    let length = 1..=LONGEST_VERSION;
    if length.contains(&version.len()) && version.bytes().all(|b| b.is_ascii_graphic()) {
        return Some(version);
    }
    let message = format!("{version:?} is no version");
    let how = format!("use at most {LONGEST_VERSION} letters, digits and signs without spaces");
    table
        .findings
        .error(&table.place("version"), message, Some(how));
    None
}

/// A name that goes into model ids, headers and paths: visible ASCII without a slash.
fn check_name(what: &str, name: &str, at: &Place, findings: &mut Findings) {
    let fits = |b: u8| b.is_ascii_graphic() && b != b'/';
    if name.is_empty() || !name.bytes().all(fits) {
        let message = format!("{name:?} cannot name a {what}");
        let how = "use letters, digits and signs without spaces and without `/`".to_owned();
        findings.error(at, message, Some(how));
    }
}

/// A secret of visible ASCII, if `key` is there.
fn read_secret(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<SecretString> {
    let secret = table.text(key)?;
    let at = table.place(key);
    let fits = check_key(secret, table.variables(key), &at, table.findings);
    fits.then(|| SecretString::from(secret))
}

/// Whether `key` can go into an HTTP header; if not, says so without showing it.
fn check_key(key: &str, variables: &[String], at: &Place, findings: &mut Findings) -> bool {
    let message = if key.is_empty() {
        "is empty"
    } else if key.bytes().all(|b| b.is_ascii_graphic()) {
        return true;
    } else {
        "holds a space, a line end or a sign that is not ASCII"
    };
    let how = if variables.is_empty() {
        "leave it out to use none".to_owned()
    } else {
        format!("it comes from {}", variables.join(" and "))
    };
    findings.error(at, message.to_owned(), Some(how));
    false
}
