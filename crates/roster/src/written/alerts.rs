//! `[alerts]`.

use super::tickets::read_webhook;
use crate::alerts::AlertsConfig;
use evenkeel_document::TableReader;

pub(super) fn read_alerts(table: &mut TableReader<'_, '_>) -> AlertsConfig {
    let alerts = AlertsConfig {
        webhook: read_webhook(table),
    };
    for fault in alerts.faults() {
        let at = table.place(fault.key);
        table.findings.error(&at, fault.message, None);
    }
    alerts
}
