//! Which model answered which request, when and why.

use super::id::{AuditId, Text64};
use super::kind::RecordKind;
use super::lines::Lines;
use super::stored::Stored;
use crate::plain::Plain;
use jiff::Timestamp;
use memchr::memmem::Finder;
use serde_json::Value;
use std::fmt::{self, Write as _};
use std::io::{self, BufRead};

/// Which records are wanted; what is none asks for nothing.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Those of this request, by its id of at most 64 characters.
    request: Option<String>,
    /// Those of this role, by its name as records have it.
    role: Option<String>,
    /// Those about this model, by its id as records have it.
    model: Option<String>,
    /// Those of this kind.
    pub kind: Option<RecordKind>,
    /// Those of this time or later.
    pub since: Option<Timestamp>,
    /// Those before this time.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Asks for the records of a request; of a longer id the first 64 characters count,
    /// as they do in records.
    #[must_use]
    pub fn of_request(mut self, id: &str) -> Self {
        self.request = Some(Text64::new(id).as_str().to_owned());
        self
    }

    /// Asks for the records of a role, whose name counts as records may hold it.
    #[must_use]
    pub fn of_role(mut self, role: &str) -> Self {
        self.role = Some(as_recorded(role));
        self
    }

    /// Asks for the answers that a model gave or was asked for, and the decisions about it;
    /// its id counts as records may hold it.
    #[must_use]
    pub fn of_model(mut self, model: &str) -> Self {
        self.model = Some(as_recorded(model));
        self
    }

    fn takes(&self, record: &Stored) -> bool {
        let is = |wanted: &Option<String>, key| {
            let wanted = wanted.as_deref();
            wanted.is_none_or(|wanted| record.text(key) == Some(wanted))
        };
        let kind = self.kind.map(RecordKind::as_str);
        is(&self.request, "request_id")
            && is(&self.role, "role")
            && kind.is_none_or(|kind| record.text("kind") == Some(kind))
            && self.model.as_deref().is_none_or(|m| is_about(record, m))
            && self.is_in_time(record)
    }

    fn is_in_time(&self, record: &Stored) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        record.time().is_some_and(|time| {
            self.since.is_none_or(|since| time >= since)
                && self.until.is_none_or(|until| time < until)
        })
    }

    /// What any line that is wanted holds, so that most need not be read.
    fn needle(&self) -> Option<Finder<'static>> {
        let text = self.request.as_ref().or(self.model.as_ref())?;
        // Another way to write it would be another writer's.
        let is_plain = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
        let quoted = format!("\"{text}\"");
        text.bytes()
            .all(is_plain)
            .then(|| Finder::new(&quoted).into_owned())
    }
}

/// A name of ours as records hold it. They hold no empty one: it is nobody's.
fn as_recorded(name: &str) -> String {
    let id = AuditId::new(name);
    id.map_or_else(String::new, |id| id.as_str().to_owned())
}

fn is_about(record: &Stored, model: &str) -> bool {
    let is = |key| record.text_in("model", key) == Some(model);
    if record.text("kind") != Some(RecordKind::Answer.as_str()) {
        return is("primary") || is("fallback");
    }
    let attempts = record.members.get("attempts").and_then(Value::as_array);
    let mut asked = attempts.into_iter().flatten();
    is("answered") || asked.any(|a| a.get("model").and_then(Value::as_str) == Some(model))
}

/// Reads one file of a log, and gives `found` each record that is wanted with its line.
/// Lines that are no records are passed over: verifying is another matter. Says how many
/// those were.
///
/// # Errors
/// The file cannot be read on, or what `found` says.
pub fn query<E: From<io::Error>>(
    from: impl BufRead,
    filter: &AuditFilter,
    mut found: impl FnMut(&[u8], &Stored) -> Result<(), E>,
) -> Result<u64, E> {
    let needle = filter.needle();
    let mut lines = Lines::new(from);
    let mut unreadable = 0;
    while let Some(line) = lines.next()? {
        if needle.as_ref().is_some_and(|n| n.find(line.text).is_none()) {
            continue;
        }
        match Stored::read(line.text) {
            Ok(record) if filter.takes(&record) => found(line.text, &record)?,
            Ok(_) => {}
            Err(_) => unreadable += 1,
        }
    }
    Ok(unreadable)
}

/// A record in a table: when, what, which request and role, who, and why. Control
/// characters in it are escaped: it is one line.
#[derive(Debug)]
pub struct Row<'a>(pub &'a Stored);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = Plain(f);
        let text = |key| self.0.text(key).unwrap_or("-");
        write!(
            f,
            "{:<24}  {:<17}  {:<32}  {:<16}  ",
            text("time"),
            text("kind"),
            text("request_id"),
            text("role"),
        )?;
        self.what(&mut f)
    }
}

impl Row<'_> {
    /// The heads of the columns.
    pub fn head() -> String {
        format!(
            "{:<24}  {:<17}  {:<32}  {:<16}  WHAT",
            "TIME", "KIND", "REQUEST", "ROLE"
        )
    }

    fn what(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let record = self.0;
        let model = |key| record.text_in("model", key).unwrap_or("-");
        let reason = record.text("reason");
        match record.text("kind").and_then(RecordKind::named) {
            Some(RecordKind::Answer) => return self.answer(f),
            Some(RecordKind::Substitution | RecordKind::Fallback | RecordKind::Hedge) => {
                write!(f, "{} -> {}", model("primary"), model("fallback"))?;
                if let Some(result) = record.text_in("hedge", "result") {
                    write!(f, ", {result}")?;
                }
            }
            Some(RecordKind::Restoration) => {
                write!(f, "{} -> {}", model("fallback"), model("primary"))?;
            }
            Some(RecordKind::LatencyBreach) => {
                let detector = record.text_in("latency", "detector").unwrap_or("-");
                write!(f, "{}, {detector}", model("primary"))?;
            }
            Some(RecordKind::Breaker) => {
                let state = |key| record.text_in("breaker", key).unwrap_or("-");
                let whose = record.text_in("model", "primary");
                let whose = whose.or(record.text_in("model", "provider"));
                let (from, to) = (state("from"), state("to"));
                write!(f, "{}: {from} -> {to}", whose.unwrap_or("-"))?;
            }
            Some(RecordKind::Operator) => {
                let part = |key| record.text_in("operator", key).unwrap_or("-");
                write!(
                    f,
                    "{} {} by {}",
                    part("action"),
                    part("target"),
                    part("actor")
                )?;
            }
            Some(RecordKind::Ticket) => {
                let part = |key| record.text_in("ticket", key).unwrap_or("-");
                write!(f, "{} {}", part("id"), part("state"))?;
            }
            Some(RecordKind::Drill) => {
                let part = |key| record.text_in("drill", key).unwrap_or("-");
                write!(
                    f,
                    "{} of {}: {}",
                    part("name"),
                    part("target"),
                    part("phase")
                )?;
            }
            Some(RecordKind::DegradedWorkflow) => {
                write!(f, "{}", record.text("workflow").unwrap_or("-"))?;
            }
            Some(RecordKind::PolicyChange) => {
                let hash = record.text_in("policy", "sha256").unwrap_or("-");
                write!(f, "{}", hash.get(..12).unwrap_or(hash))?;
            }
            Some(RecordKind::Gap) => {
                let gap = record.members.get("gap");
                let lost = gap.and_then(|gap| gap.get("records")?.as_u64());
                let since = record.text_in("gap", "since").unwrap_or("-");
                write!(f, "{} records lost since {since}", lost.unwrap_or(0))?;
            }
            None => write!(f, "-")?,
        }
        match reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }

    fn answer(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let record = self.0;
        let text = |key| record.text(key).unwrap_or("-");
        match record.text_in("model", "answered") {
            Some(model) => write!(f, "{model}")?,
            None => write!(f, "nobody")?,
        }
        write!(f, ", {}, {}", text("route"), text("outcome"))?;
        if let Some(reason) = record.text("reason") {
            write!(f, " ({reason})")?;
        }
        let latency = record.members.get("latency");
        if let Some(total) = latency.and_then(|l| l.get("total_ms")?.as_u64()) {
            write!(f, ", {total} ms")?;
        }
        let attempts = record.members.get("attempts").and_then(Value::as_array);
        for attempt in attempts.into_iter().flatten() {
            let part = |key| attempt.get(key).and_then(Value::as_str);
            write!(f, "; {} ", part("model").unwrap_or("-"))?;
            f.write_str(part("error_type").or(part("outcome")).unwrap_or("-"))?;
        }
        Ok(())
    }
}
