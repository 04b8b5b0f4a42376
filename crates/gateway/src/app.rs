//! What every request needs.

use crate::auth::ClientKeys;
use crate::context::RequestIds;
use crate::limits::Limits;
use crate::trust::Trust;
use evenkeel_core::{Clock, SystemClock};
use evenkeel_roster::ServerConfig;
use evenkeel_router::Router;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

/// The gateway's state, shared by all requests.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) router: Router,
    pub(crate) keys: ClientKeys,
    /// What operators authenticate with; none where they have no address.
    pub(crate) admin: Option<ClientKeys>,
    pub(crate) trust: Trust,
    pub(crate) ids: RequestIds,
    pub(crate) limits: Limits,
    pub(crate) meta_key: String,
    pub(crate) max_body_bytes: usize,
    /// When the server began, Unix seconds.
    started: u64,
    draining: AtomicBool,
}

impl App {
    pub(crate) fn new(config: &ServerConfig, router: Router, limits: Limits) -> Self {
        let admin = config.admin.as_ref();
        Self {
            router,
            keys: ClientKeys::new(config.client_keys.clone()),
            admin: admin.map(|admin| ClientKeys::new(vec![admin.token.clone()])),
            trust: Trust::new(config),
            ids: RequestIds::new(fastrand::u64(..)),
            limits,
            meta_key: config.meta_key.clone(),
            max_body_bytes: config.max_body_bytes,
            started: unix_seconds(),
            draining: AtomicBool::new(false),
        }
    }

    /// When the server began, Unix seconds.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// From now on the server is not ready.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

/// Unix time in seconds.
pub(crate) fn unix_seconds() -> u64 {
    SystemClock
        .now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
