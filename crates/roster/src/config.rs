//! The whole configuration, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{ModelId, PolicyStamp};
use secrecy::SecretString;

use crate::alerts::AlertsConfig;
use crate::audit::AuditConfig;
use crate::measured::Measured;
use crate::model::ModelConfig;
use crate::network::Network;
use crate::policy::RolePolicy;
use crate::provider::ProviderConfig;
use crate::registry::RegisteredModel;
use crate::telemetry::TelemetryConfig;
use crate::tickets::TicketsConfig;

/// A configuration without errors.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Roles by name.
    pub roles: BTreeMap<String, RoleConfig>,
    /// Every model that a roster names.
    pub models: BTreeMap<ModelId, ModelConfig>,
    /// Every provider that a roster names or that is configured.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// The gateway's own settings.
    pub server: ServerConfig,
    /// What becomes of kept calls.
    pub tickets: TicketsConfig,
    /// Who is told of what needs a person.
    pub alerts: AlertsConfig,
    /// Every model of the registry, whether or not a roster names it.
    pub registry: BTreeMap<ModelId, RegisteredModel>,
    /// Where telemetry goes, and what of it.
    pub telemetry: TelemetryConfig,
    /// Which configuration this is, where it was read from files.
    pub stamp: Option<Arc<PolicyStamp>>,
    /// How the audit log is written; none: there is none.
    pub audit: Option<AuditConfig>,
}

/// One role: its policy and its roster.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleConfig {
    /// What a client sends as `model`.
    pub name: String,
    /// What the role asks for.
    pub policy: RolePolicy,
    /// The roster, best first: rung 0 is the primary.
    pub rungs: Vec<RungConfig>,
}

/// One place in a roster.
#[derive(Debug, Clone, PartialEq)]
pub struct RungConfig {
    /// The model.
    pub model: ModelId,
    /// Share of the primary's score on the golden dataset; `None`: never measured.
    /// 1 for the primary.
    pub quality_score: Option<f64>,
    /// What the rung can do compared with the primary, 0 to 1: its own key, else its
    /// quality score over the primary's, else 0 (nothing is known). 1 for the primary.
    pub capability_score: f64,
    /// `median_latency_ms`: median latency measured under load; in a role with
    /// `signal = "first_token"` to the first token.
    pub median_latency: Option<Duration>,
    /// When and on what it was measured.
    pub measured: Measured,
}

impl RungConfig {
    /// A primary: capability 1, latency unknown.
    pub fn primary(model: ModelId) -> Self {
        Self {
            model,
            quality_score: Some(1.0),
            capability_score: 1.0,
            median_latency: None,
            measured: Measured::default(),
        }
    }

    /// A model nothing is known of yet.
    pub(crate) fn unmeasured(model: ModelId) -> Self {
        Self {
            model,
            quality_score: None,
            capability_score: 0.0,
            median_latency: None,
            measured: Measured::default(),
        }
    }

    /// A fallback that has `ratio` of the primary's score.
    pub fn fallback(model: ModelId, ratio: f64) -> Self {
        Self {
            model,
            quality_score: Some(ratio),
            capability_score: ratio.clamp(0.0, 1.0),
            median_latency: None,
            measured: Measured::default(),
        }
    }
}

/// The gateway's own settings (`[server]`).
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `listen`: address and port.
    pub listen: String,
    /// `client_keys`: keys that clients authenticate with; empty: open.
    pub client_keys: Vec<SecretString>,
    /// `meta_key`: the name of the object with evenkeel's data in an answer.
    pub meta_key: String,
    /// `max_body_bytes`: longest request body.
    pub max_body_bytes: usize,
    /// `state_dir`: the folder of what must outlive the process; a relative one counts
    /// from the configuration's. None: nothing is kept.
    pub state_dir: Option<PathBuf>,
    /// `allow_open`: whether to serve without client keys on an address that is not loopback.
    pub allow_open: bool,
    /// `trusted_networks`: whose word about what earlier answers have lost (`baggage`)
    /// is taken; absent: loopback's, empty: nobody's.
    pub trusted_networks: Vec<Network>,
    /// `trust_client_keys`: whether that of everyone with a client key is taken too.
    pub trust_client_keys: bool,
    /// `allow_pass`: whether clients may ask a model by its name, or a role's
    /// primary alone, with no routing.
    pub allow_pass: bool,
    /// `[server.admin]`: the operators' own address; absent: there is none.
    pub admin: Option<AdminConfig>,
    /// `metrics`: who may read `/metrics`.
    pub metrics: MetricsAccess,
    /// `workflows`: names that runs of workflows are counted under; a run is one of the
    /// name that its id begins with.
    pub workflows: Vec<String>,
}

/// Who may read `/metrics`, and at which address (`metrics`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsAccess {
    /// `client`: at `listen`, whoever may call.
    #[default]
    Client,
    /// `open`: at `listen`, everyone who reaches it.
    Open,
    /// `admin`: at the operators' address, whoever has the token.
    Admin,
    /// `off`: nobody.
    Off,
}

/// Where operators look and act (`[server.admin]`).
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// `listen`: address and port.
    pub listen: String,
    /// `token`: what every request must bring, whatever the address.
    pub token: SecretString,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:4000".to_owned(),
            client_keys: Vec::new(),
            meta_key: "evenkeel".to_owned(),
            max_body_bytes: 32 * 1024 * 1024,
            state_dir: None,
            allow_open: false,
            trusted_networks: Network::LOOPBACK.to_vec(),
            trust_client_keys: false,
            allow_pass: false,
            admin: None,
            metrics: MetricsAccess::default(),
            workflows: Vec::new(),
        }
    }
}
