//! `evenkeel qualify --check`: whether a roster still says what was measured.

use super::args::{Format, QualifyArgs};
use anyhow::Context as _;
use evenkeel::Settings;
use evenkeel::roster::CandidatesByRole;
use evenkeel_qualify::{Stale, Staleness, UnreadableDataset, Unverified, golden_datasets};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The version of the keys of the JSON.
const VERSION: u32 = 1;

/// Something cannot be read.
const UNREADABLE: u8 = 2;

/// What was compared, and what came of it.
struct Checked<'a> {
    args: &'a QualifyArgs,
    settings: &'a Settings,
    /// By role.
    datasets: BTreeMap<String, Option<PathBuf>>,
    found: Staleness,
}

/// Compares and prints; asks nobody.
pub(super) fn run(args: &QualifyArgs) -> anyhow::Result<ExitCode> {
    let is_json = match args.format {
        Format::Table => false,
        Format::Json => true,
        Format::Markdown | Format::Junit => {
            anyhow::bail!("--check is told as a table or as json")
        }
    };
    // Whether the roster may be served is not asked: `evenkeel check` says that.
    let settings = Settings::load_to_measure(args.config(), &CandidatesByRole::new())?;
    let checked = Checked::of(args, &settings)?;
    let text = if is_json {
        format!("{:#}\n", checked.json())
    } else {
        checked.text()
    };
    stdout().write_all(text.as_bytes())?;
    Ok(checked.exit_code())
}

impl<'a> Checked<'a> {
    fn of(args: &'a QualifyArgs, settings: &'a Settings) -> anyhow::Result<Self> {
        let mut datasets = golden_datasets(settings);
        if let Some(role) = &args.role {
            let own = datasets.remove(role);
            let own = own.with_context(|| format!("no role `{role}` is configured"))?;
            let named = args.golden_dataset.clone();
            datasets = BTreeMap::from([(role.clone(), named.or(own))]);
        }
        let found = Staleness::against(settings, settings.as_of(), &datasets);
        Ok(Self {
            args,
            settings,
            datasets,
            found,
        })
    }

    fn missing(&self) -> impl Iterator<Item = &Unverified> {
        let all = self.found.unverified.iter();
        all.filter(|unverified| unverified.is_missing())
    }

    fn status(&self) -> &'static str {
        if !self.found.unreadable.is_empty() {
            "unreadable"
        } else if self.found.stale.is_empty() && self.missing().next().is_none() {
            "fresh"
        } else {
            "stale"
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self.status() {
            "fresh" => ExitCode::SUCCESS,
            "stale" => ExitCode::FAILURE,
            _ => ExitCode::from(UNREADABLE),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let found = &self.found;
        for stale in &found.stale {
            let _ = writeln!(text, "{stale}; run: {}", self.command(&stale.role));
        }
        for unverified in &found.unverified {
            let _ = write!(text, "{unverified}");
            let run = |role| format!("; run: {}", self.command(role));
            let is_missing = unverified.is_missing();
            let end = is_missing.then(|| run(&unverified.role));
            let _ = writeln!(text, "{}", end.unwrap_or_default());
        }
        for unreadable in &found.unreadable {
            let _ = writeln!(text, "{unreadable}");
        }
        let stale = found.stale.len() + self.missing().count();
        let _ = writeln!(
            text,
            "{} roles as of {}: {}; {stale} stale, {} not to be told, {} datasets not readable",
            self.datasets.len(),
            self.settings.as_of(),
            self.status(),
            found.unverified.len() - self.missing().count(),
            found.unreadable.len()
        );
        text
    }

    fn json(&self) -> Value {
        let stale = self.found.stale.iter().map(|stale| self.stale(stale));
        let unverified = self.found.unverified.iter();
        let unreadable = self.found.unreadable.iter().map(unreadable);
        json!({
            "version": VERSION,
            "as_of": self.settings.as_of().to_string(),
            "status": self.status(),
            "roles": self.datasets.keys().collect::<Vec<_>>(),
            "stale": stale.collect::<Vec<_>>(),
            "unverified": unverified.map(|one| self.unverified(one)).collect::<Vec<_>>(),
            "unreadable": unreadable.collect::<Vec<_>>(),
        })
    }

    fn stale(&self, stale: &Stale) -> Value {
        json!({
            "role": stale.role,
            "rung": stale.rung,
            "model": stale.model.as_str(),
            "change": stale.change.as_str(),
            "words": stale.change.to_string(),
            "run": self.command(&stale.role),
        })
    }

    fn unverified(&self, unverified: &Unverified) -> Value {
        let is_missing = unverified.is_missing();
        json!({
            "role": unverified.role,
            "rung": unverified.rung,
            "model": unverified.model.as_str(),
            "measured": unverified.has_score,
            "stale": is_missing,
            "words": unverified.to_string(),
            "run": is_missing.then(|| self.command(&unverified.role)),
        })
    }

    /// What measures the role anew.
    fn command(&self, role: &str) -> String {
        let mut command = format!(
            "evenkeel qualify --config {} --role {}",
            quoted(self.args.config()),
            quoted(Path::new(role))
        );
        let own = self.settings.config().roles.get(role);
        let is_in_policy = own.is_some_and(|own| own.policy.golden_dataset.is_some());
        match &self.args.golden_dataset {
            Some(path) => {
                let _ = write!(command, " --golden-dataset {}", quoted(path));
            }
            None if is_in_policy => {}
            None => command.push_str(" --golden-dataset FILE.jsonl"),
        }
        if let Some(path) = self.roster() {
            let _ = write!(command, " --output {}", quoted(&path));
        }
        command
    }

    /// The roster's file, where it has one of its own.
    fn roster(&self) -> Option<PathBuf> {
        let folder = self.settings.folder();
        let names = ["roster.toml", "roster.yaml", "roster.yml"];
        let mut files = names.iter().map(|name| folder.join(name));
        files.find(|path| path.exists())
    }
}

fn unreadable(unreadable: &UnreadableDataset) -> Value {
    let problems = unreadable.error.to_string();
    json!({
        "roles": unreadable.roles,
        "dataset": unreadable.path.display().to_string(),
        "problems": problems.lines().collect::<Vec<_>>(),
    })
}

/// A word that a shell takes as it stands.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;
    use std::path::Path;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        for (path, word) in [
            ("/etc/evenkeel", "/etc/evenkeel"),
            ("my conf", "'my conf'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a;b", "'a;b'"),
        ] {
            assert_eq!(quoted(Path::new(path)), word);
        }
    }
}
