//! What every request needs.

use crate::alerts::AlertFacts;
use crate::auth::ClientKeys;
use crate::clock::unix_seconds;
use crate::context::RequestIds;
use crate::limits::Limits;
use crate::live::Live;
use crate::metrics::GatewayMetrics;
use crate::tickets::Tickets;
use crate::trust::Trust;
use arc_swap::{ArcSwap, Guard};
use evenkeel_otel_emit::audit::AuditSink;
use evenkeel_otel_emit::otlp::SdkTracer;
use evenkeel_otel_emit::spans::Spans;
use evenkeel_roster::{MetricsAccess, ServerConfig};
use evenkeel_router::Router;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What events call whoever acts with the token.
pub(crate) const ADMIN: &str = "admin";

/// The gateway's state, shared by all requests.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) router: Router,
    /// None where no calls are kept.
    pub(crate) tickets: Option<Arc<Tickets>>,
    /// None where no audit log is written.
    pub(crate) audit: Option<Arc<dyn AuditSink>>,
    /// None where nobody is alerted.
    pub(crate) alerts: Option<AlertFacts>,
    /// None where nothing is counted.
    pub(crate) metrics: Option<Arc<GatewayMetrics>>,
    /// None where nothing is traced.
    pub(crate) spans: Option<Arc<Spans<SdkTracer>>>,
    pub(crate) ids: RequestIds,
    pub(crate) limits: Limits,
    served: ArcSwap<Served>,
    /// Where the configuration comes from, if it comes from files.
    pub(crate) live: OnceLock<Live>,
    /// When the server began, Unix seconds.
    started: u64,
    draining: AtomicBool,
}

/// How clients and operators are served; a reload replaces it whole.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) keys: ClientKeys,
    /// What operators authenticate with; none where they have no address.
    pub(crate) admin: Option<ClientKeys>,
    pub(crate) trust: Trust,
    pub(crate) meta_key: String,
    pub(crate) max_body_bytes: usize,
    pub(crate) allow_pass: bool,
    pub(crate) metrics: MetricsAccess,
}

impl Served {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let admin = config.admin.as_ref();
        Self {
            keys: ClientKeys::new(config.client_keys.clone()),
            admin: admin.map(|admin| ClientKeys::new(vec![admin.token.clone()])),
            trust: Trust::new(config),
            meta_key: config.meta_key.clone(),
            max_body_bytes: config.max_body_bytes,
            allow_pass: config.allow_pass,
            metrics: config.metrics,
        }
    }
}

impl App {
    pub(crate) fn new(config: &ServerConfig, router: Router, limits: Limits) -> Self {
        Self {
            router,
            tickets: None,
            audit: None,
            alerts: None,
            metrics: None,
            spans: None,
            served: ArcSwap::from_pointee(Served::new(config)),
            live: OnceLock::new(),
            ids: RequestIds::new(fastrand::u64(..)),
            limits,
            started: unix_seconds(),
            draining: AtomicBool::new(false),
        }
    }

    /// How clients are served now. Not to be held across an await.
    pub(crate) fn served(&self) -> Guard<Arc<Served>> {
        self.served.load()
    }

    /// Serves so from now on. An operators' address that the new settings no
    /// longer have keeps its token: it cannot be closed while it runs.
    pub(crate) fn serve_as(&self, mut served: Served) {
        if served.admin.is_none() {
            served.admin.clone_from(&self.served().admin);
        }
        self.served.store(Arc::new(served));
    }

    /// When the server began, Unix seconds.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// Whether new calls may begin: no, where none may go unrecorded and the audit log
    /// cannot be written.
    pub(crate) fn admits_calls(&self) -> bool {
        self.audit.as_ref().is_none_or(|audit| audit.admits_calls())
    }

    /// From now on the server is not ready.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}
