//! `[audit]`.

use super::access::read_path;
use super::read_secret;
use crate::audit::{AuditConfig, Fsync, OnAuditFailure};
use evenkeel_document::{TableReader, assign};

pub(super) fn read_audit(table: &mut TableReader<'_, '_>) -> AuditConfig {
    let mut audit = AuditConfig::default();
    assign(&mut audit.path, read_path(table, "path"));
    assign(&mut audit.rotate_bytes, table.large_count("rotate_bytes"));
    assign(&mut audit.rotate_hours, table.count("rotate_hours"));
    audit.keep_files = table.count("keep_files");
    let fsync = [
        ("always", Fsync::Always),
        ("interval", Fsync::Interval),
        ("never", Fsync::Never),
    ];
    assign(&mut audit.fsync, table.word("fsync", &fsync));
    assign(&mut audit.fsync_interval, table.ms("fsync_interval_ms"));
    assign(&mut audit.chain, table.flag("chain"));
    let on_failure = [
        ("open", OnAuditFailure::Open),
        ("closed", OnAuditFailure::Closed),
    ];
    assign(&mut audit.on_failure, table.word("on_failure", &on_failure));
    audit.content_hmac_key = read_secret(table, "content_hmac_key");
    for fault in audit.faults() {
        let at = table.place(fault.key);
        table.findings.error(&at, fault.message, None);
    }
    audit
}
