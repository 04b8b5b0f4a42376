//! The model registry as it is written: also of models that no roster names.

use evenkeel_core::ModelId;

use crate::model::ModelConfig;

/// One model of the registry.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisteredModel {
    /// What is known of it. Settings that stand elsewhere have their defaults.
    pub model: ModelConfig,
    /// `migration_status`, as it is written.
    pub migration_status: Option<String>,
    /// `agents_using`: the roles that are said to use it; `None`: not said.
    pub agents_using: Option<Vec<String>>,
}

impl RegisteredModel {
    /// Its id.
    pub fn id(&self) -> &ModelId {
        &self.model.id
    }
}
