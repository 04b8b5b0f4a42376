//! What would take over if a model were gone.

use crate::gate::{CheckName, Verdict};
use crate::ranking::RoleVerdict;
use evenkeel_core::ModelId;
use evenkeel_roster::{Config, RoleConfig, RungConfig};
use jiff::civil::Date;
use std::fmt;

/// What a role would go to without a model that its roster names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takeover {
    /// The role.
    pub role: String,
    /// The model that is played to be gone.
    pub gone: ModelId,
    /// That model's place in the roster, 0 = primary.
    pub rung: usize,
    /// The best of the fallbacks that are left and can be used: without a primary it has
    /// the role's traffic, without a fallback it is next to the primary. None: nothing
    /// would take over.
    pub takes_over: Option<ModelId>,
}

impl Takeover {
    /// What would take over, in every role whose roster names `model`, if it were gone
    /// `today`. A fallback that is past its own last day, or that the role's least
    /// capability keeps out, takes nothing over.
    pub fn of(config: &Config, model: &ModelId, today: Date) -> Vec<Self> {
        let of = |role: &RoleConfig| {
            let rung = role.rungs.iter().position(|rung| rung.model == *model)?;
            let usable = |rung: &&RungConfig| {
                let known = config.models.get(&rung.model);
                rung.model != *model
                    && rung.capability_score >= role.policy.min_capability_score
                    && known.is_none_or(|known| !known.is_past_eol(today))
            };
            let takes_over = role.rungs.iter().skip(1).find(usable);
            Some(Self {
                role: role.name.clone(),
                gone: model.clone(),
                rung,
                takes_over: takes_over.map(|rung| rung.model.clone()),
            })
        };
        config.roles.values().filter_map(of).collect()
    }

    /// What a drill says of it, where `measured` is the verdict on what takes over.
    pub(crate) fn verdict(&self, measured: Option<Verdict>) -> Verdict {
        match (&self.takes_over, measured) {
            (None, _) => Verdict::Fail,
            (Some(_), measured) => measured.unwrap_or(Verdict::NotEnoughData),
        }
    }

    /// The same in a sentence.
    pub(crate) fn words(&self, measured: Option<Verdict>) -> String {
        let end = match (&self.takes_over, measured) {
            (None, _) => return format!("{self}: nothing takes over"),
            (_, None) => "and was not measured, since the role has no golden dataset",
            (_, Some(Verdict::Pass | Verdict::Warning)) => "and qualifies",
            (_, Some(Verdict::NotEnoughData)) => "and there is not enough data to tell of it",
            (_, Some(Verdict::Fail)) => "and does not qualify",
        };
        let model = self.takes_over.as_ref().map_or("", ModelId::as_str);
        format!("{self}: `{model}` takes over, {end}")
    }
}

impl fmt::Display for Takeover {
    /// Without which of its models the role is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gone = &self.gone;
        match self.rung {
            0 => write!(f, "without its primary `{gone}`"),
            _ => write!(f, "without its fallback `{gone}`"),
        }
    }
}

impl RoleVerdict {
    /// The verdict on what takes over, alone: it has to pass every check of its own.
    /// What a drill does not ask is how long the model lives that is played to be gone,
    /// and how many fallbacks are left.
    #[must_use]
    pub fn of_takeover(mut self) -> Self {
        self.checks.clear();
        let own = &mut self.primary.checks;
        own.retain(|check| check.name != CheckName::EndOfLife);
        self
    }
}
