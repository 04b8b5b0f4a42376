//! Models that are to be measured for a role, before its roster may name them.

use std::collections::BTreeMap;

use evenkeel_core::ModelId;
use evenkeel_document::{Findings, Place};

use crate::config::{RoleConfig, RungConfig};

/// What is to be measured, by role.
pub type CandidatesByRole = BTreeMap<String, Candidates>;

/// Models that are to be measured for one role, whatever its roster says of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// What the others are measured against, in the place of the roster's primary;
    /// `None`: the roster's own.
    pub primary: Option<ModelId>,
    /// Models that the roster need not have.
    pub models: Vec<ModelId>,
}

impl Candidates {
    /// Puts them into the role's rungs: the primary first, then what the roster
    /// has, then the others. Nothing is known of those that are new.
    pub(crate) fn join(&self, rungs: &mut Vec<RungConfig>) {
        if let Some(primary) = &self.primary {
            rungs.retain(|rung| rung.model != *primary);
            if let Some(former) = rungs.first_mut() {
                former.quality_score = None;
            }
            rungs.insert(0, RungConfig::primary(primary.clone()));
        }
        for model in &self.models {
            if rungs.iter().all(|rung| rung.model != *model) {
                rungs.push(RungConfig::unmeasured(model.clone()));
            }
        }
    }
}

/// Every role to be measured must be there.
pub(crate) fn refuse_unknown(
    candidates: &CandidatesByRole,
    roles: &BTreeMap<String, RoleConfig>,
    home: &Place,
    findings: &mut Findings,
) {
    for name in candidates.keys().filter(|name| !roles.contains_key(*name)) {
        let message = format!("no role `{name}` is here to be measured");
        let known: Vec<&str> = roles.keys().map(String::as_str).collect();
        let how = if known.is_empty() {
            format!("write [agent_roles.{name}] into policy.toml and roster.toml")
        } else {
            format!("the roles are {}", known.join(", "))
        };
        findings.error(home, message, Some(how));
    }
}
