//! A configuration tried out: what it asks for is made, and nobody is asked for anything.

use evenkeel::Settings;
use evenkeel::core::NoObserver;
use evenkeel_gateway::{Alerts, HttpValidators, collector};
use evenkeel_router::Router;
use std::sync::Arc;

/// The router of a gateway that starts now, without a place for calls that found nothing left.
/// To be called in a runtime.
///
/// # Errors
/// What a gateway would not start for.
pub(super) fn router(settings: &Settings) -> anyhow::Result<Router> {
    let builder = settings.router_builder(Arc::new(NoObserver))?;
    let validators = HttpValidators::new()?;
    Ok(builder
        .without_tickets()
        .http_validators(move |service| validators.validator(service))
        .build()?)
}

/// Everything that a gateway would not start for, though it can be read: certificates, keys and
/// addresses that are none. To be called in a runtime.
pub(super) fn faults(settings: &Settings) -> Vec<String> {
    let telemetry = &settings.config().telemetry;
    let tried = [
        router(settings).map(drop),
        collector(telemetry, settings.folder(), "check")
            .map(drop)
            .map_err(Into::into),
        Alerts::new(settings.config()).map(drop).map_err(Into::into),
    ];
    let errors = tried.into_iter().filter_map(Result::err);
    errors.map(|error| super::words(&error)).collect()
}
