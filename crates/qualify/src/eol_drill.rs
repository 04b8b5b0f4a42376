//! What would take over if a model were gone.

use evenkeel_core::ModelId;
use evenkeel_roster::{Config, RoleConfig, RungConfig};
use jiff::civil::Date;

/// What a role would go to without a model that its roster names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takeover {
    /// The role.
    pub role: String,
    /// The model's place in its roster, 0 = primary.
    pub rung: usize,
    /// The best of the fallbacks that are left and can be used: without a primary it has
    /// the role's traffic, without a fallback it is next to the primary. None: nothing
    /// would take over.
    pub takes_over: Option<ModelId>,
}

/// What would take over, in every role whose roster names `model`, if it were gone
/// `today`.
pub fn takeovers(config: &Config, model: &ModelId, today: Date) -> Vec<Takeover> {
    let of = |role: &RoleConfig| {
        let rung = role.rungs.iter().position(|rung| rung.model == *model)?;
        let left = role.rungs.iter().skip(1);
        let mut left = left.filter(|rung| rung.model != *model && can_be_used(role, rung));
        let usable = |rung: &&RungConfig| {
            let known = config.models.get(&rung.model);
            known.is_none_or(|known| !known.is_past_eol(today))
        };
        Some(Takeover {
            role: role.name.clone(),
            rung,
            takes_over: left.find(usable).map(|rung| rung.model.clone()),
        })
    };
    config.roles.values().filter_map(of).collect()
}

/// Whether the role ever asks that rung, as far as its capability goes.
fn can_be_used(role: &RoleConfig, rung: &RungConfig) -> bool {
    rung.capability_score >= role.policy.min_capability_score
}
