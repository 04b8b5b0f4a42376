//! Services that judge answers, as far as a scenario plays them.

use async_trait::async_trait;
use evenkeel_core::{Judged, Validator, ValidatorError, Verdict};
use evenkeel_document::{TableReader, nearest};
use evenkeel_roster::{Config, HttpValidatorConfig, ValidatorConfig};
use secrecy::ExposeSecret;
use std::sync::Arc;

/// What a service does with every answer it is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Finds nothing wrong.
    Valid,
    /// Finds it wrong, and says what to tell the model.
    Invalid,
    /// Gives no verdict.
    Error,
    /// Never ends.
    Hang,
    /// Panics.
    Panic,
}

const WORDS: [(&str, Does); 5] = [
    ("valid", Does::Valid),
    ("invalid", Does::Invalid),
    ("error", Does::Error),
    ("hang", Does::Hang),
    ("panic", Does::Panic),
];

/// A service that a policy names with `kind = "http"`.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its `url`.
    pub url: String,
    does: Does,
}

#[async_trait]
impl Validator for Service {
    fn name(&self) -> &str {
        ValidatorConfig::HTTP
    }

    async fn validate(&self, _: &Judged) -> Result<Verdict, ValidatorError> {
        match self.does {
            Does::Valid => Ok(Verdict::Valid),
            Does::Invalid => Ok(Verdict::repairable(
                "the service refuses it",
                "say it otherwise",
            )),
            Does::Error => Err(ValidatorError::new("the service is down")),
            Does::Hang => std::future::pending().await,
            Does::Panic => panic!("a validator that breaks"),
        }
    }
}

/// Reads `service`: a table for each address.
pub(super) fn read(table: &mut TableReader<'_, '_>) -> Vec<Service> {
    let mut services = Vec::new();
    for (url, scope) in table.named_tables("service") {
        let mut own = TableReader::new(scope, table.findings);
        if !own.has("does") {
            let at = own.scope().place.clone();
            let message = "says nothing of what it does".to_owned();
            own.findings
                .error(&at, message, Some("write does = \"valid\"".to_owned()));
        }
        let does = own.word("does", &WORDS);
        own.finish();
        services.extend(does.map(|does| Service {
            url: url.to_owned(),
            does,
        }));
    }
    services
}

/// The one that plays the service of this policy.
pub(crate) fn playing(services: &[Service], config: &HttpValidatorConfig) -> Option<Arc<Service>> {
    let url = config.url.expose_secret();
    let service = services.iter().find(|service| service.url == url);
    service.cloned().map(Arc::new)
}

/// Every service that a role asks is played, and none that nobody asks.
pub(super) fn check_roles(services: &[Service], config: &Config, table: &mut TableReader<'_, '_>) {
    let at = table.place("service");
    let asked: Vec<&str> = config
        .roles
        .values()
        .flat_map(|role| &role.policy.validators)
        .filter_map(|validator| match validator {
            ValidatorConfig::Http(config) => Some(config.url.expose_secret()),
            ValidatorConfig::BuiltIn(_) => None,
        })
        .collect();
    for url in &asked {
        if !services.iter().any(|service| service.url == *url) {
            let message = format!("nothing says what the service `{url}` does");
            let how = format!("write [service.\"{url}\"]");
            table.findings.error(&at, message, Some(how));
        }
    }
    for service in services {
        if !asked.contains(&service.url.as_str()) {
            let how = nearest(&service.url, asked.iter().copied());
            let how = how.map(|url| format!("did you mean `{url}`?"));
            let message = format!("no role asks the service `{}`", service.url);
            table.findings.error(&at, message, how);
        }
    }
}
