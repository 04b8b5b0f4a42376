//! From files to a checked configuration.

use jiff::civil::Date;

use crate::assemble::{Purpose, assemble};
use crate::candidates::CandidatesByRole;
use crate::config::Config;
use crate::rules;
use crate::stamp::stamp;
use crate::written::Written;
use evenkeel_document::{Findings, Place, Problem, Problems, SourceFile, parse_all};

/// A configuration without errors, and what someone should look at all the same.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings, in the order of files and lines.
    pub warnings: Vec<Problem>,
}

/// Reads a configuration from the text of its files and checks it as of `today`.
///
/// Files are told apart by name: `evenkeel.toml`, `policy.toml`, `roster.toml`,
/// `models.toml`; the same with `.yaml`; and `agent_latency_policy.yaml`,
/// `fallback_roster.yaml`, `model_registry.yaml`. One file alone, whatever its
/// name, holds all tables inline. Files with other endings are passed over.
///
/// `env` looks up what `${NAME}` in strings stands for, and the key of the
/// built-in provider `openai` (`OPENAI_API_KEY`).
///
/// # Errors
/// Every [`Problem`] of every file, warnings too, if at least one is an error.
pub fn load(
    files: &[SourceFile],
    env: &dyn Fn(&str) -> Option<String>,
    today: Date,
) -> Result<Loaded, Problems> {
    load_beside(files, &[], env, today)
}

/// As [`load`], from files in which other things stand beside the configuration:
/// the top-level keys `others` of a file with all tables inline are passed over.
///
/// # Errors
/// As [`load`].
pub fn load_beside(
    files: &[SourceFile],
    others: &[&'static str],
    env: &dyn Fn(&str) -> Option<String>,
    today: Date,
) -> Result<Loaded, Problems> {
    read(files, others, Purpose::Serve, env, today)
}

/// As [`load`], for measuring `candidates` instead of serving: their models stand
/// in the rungs of their roles, behind what the roster has, and the rules that a
/// roster has to keep are not asked, since whether it can is what is measured. Without
/// candidates every role is to be measured whose policy names a `golden_dataset`. Roles
/// that are not to be measured and lack a policy or a roster are left out.
///
/// # Errors
/// As [`load`], and a role to be measured that is not there.
pub fn load_to_measure(
    files: &[SourceFile],
    candidates: &CandidatesByRole,
    env: &dyn Fn(&str) -> Option<String>,
    today: Date,
) -> Result<Loaded, Problems> {
    read(files, &[], Purpose::Measure(candidates), env, today)
}

fn read(
    files: &[SourceFile],
    others: &[&'static str],
    purpose: Purpose<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    today: Date,
) -> Result<Loaded, Problems> {
    let mut findings = Findings::default();
    let documents = parse_all(files, env, &mut findings);
    let written = Written::read(&documents.list, others, &mut findings);
    if !documents.whole {
        return Err(Problems(findings.into_sorted()));
    }
    let home = documents
        .list
        .first()
        .map_or_else(|| Place::file("evenkeel.toml"), |d| d.place.clone());
    let mut draft = assemble(&written, &home, purpose, env, &mut findings);
    draft.config.stamp = Some(stamp(files, &documents.list, written.version));
    match purpose {
        Purpose::Serve => rules::check(&draft, &written, today, &mut findings),
        Purpose::Measure(_) => rules::check_models(&draft, &written, today, &mut findings),
    }
    if findings.has_errors() {
        return Err(Problems(findings.into_sorted()));
    }
    Ok(Loaded {
        config: draft.config,
        warnings: findings.into_sorted(),
    })
}
