//! Used-up credit, as providers name it in a machine-readable way or in words.

use super::Detail;

/// Codes and types that say so, in lower case.
const MARKERS: [&str; 8] = [
    "insufficient_quota",
    // Kimi.
    "exceeded_current_quota_error",
    // Zhipu.
    "1113",
    // MiniMax and others.
    "insufficient_balance",
    "insufficient_balance_error",
    // Gateways built on one-api.
    "insufficient_user_quota",
    // DashScope.
    "arrearage",
    "allocationquota.freetieronly",
];

/// Whether code or type say that the account is out of credit.
pub(super) fn is_used_up(d: &Detail) -> bool {
    let is_marker = |name: &str| MARKERS.contains(&name.to_lowercase().as_str());
    is_marker(&d.code) || is_marker(&d.kind)
}

/// Whether a message in lower case says so.
pub(super) fn says_used_up(message: &str) -> bool {
    const PARTS: [&str; 4] = [
        // OpenRouter's limit of one key, which an hour does not lift.
        "key limit exceeded",
        "insufficient account balance",
        // "Balance insufficient", "user quota insufficient".
        "余额不足",
        "用户额度不足",
    ];
    PARTS.iter().any(|part| message.contains(part))
}
