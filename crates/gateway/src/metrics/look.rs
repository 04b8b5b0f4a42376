//! A look at a gateway, to show how it is.

use super::snapshot::snapshot;
use crate::app::App;
use crate::tickets::Tickets;
use evenkeel_otel_emit::audit::AuditStatus;
use evenkeel_otel_emit::metrics::{Snapshot, TicketsNow};
use evenkeel_router::Router;

/// What gauges are made of. Making them takes its time: windows are merged.
#[derive(Debug)]
pub(super) struct Look {
    router: Router,
    tickets: Option<Vec<TicketsNow>>,
    audit: Option<AuditStatus>,
}

impl Look {
    /// Asks everybody who knows something.
    pub(super) async fn at(app: &App) -> Self {
        Self {
            router: app.router.clone(),
            tickets: counted(app.tickets.as_deref()).await,
            audit: app.audit.as_ref().map(|log| log.status()),
        }
    }

    /// How everything is. Blocks for some milliseconds where there are many models.
    pub(super) fn snapshot(self) -> Snapshot {
        snapshot(&self.router, self.tickets, self.audit)
    }
}

/// Tickets by role and state; none without a store, or where it cannot be asked.
async fn counted(tickets: Option<&Tickets>) -> Option<Vec<TicketsNow>> {
    let now = |(role, state, count): (String, _, _)| TicketsNow {
        role: role.into(),
        state,
        count,
    };
    match tickets?.counts().await {
        Ok(counts) => Some(counts.into_iter().map(now).collect()),
        Err(error) => {
            tracing::warn!(event = "ticket_store_failed", doing = "count", %error);
            None
        }
    }
}
