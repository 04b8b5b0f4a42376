//! Tokens of the budgets as whole numbers, so that they fit in an atomic.

/// Units in one token: a share is kept to one in a million.
pub(crate) const TOKEN: u64 = 1_000_000;

/// Units in `tokens`, to the nearest; NaN and anything below 0 are 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the cast saturates"
)]
pub(crate) fn units(tokens: f64) -> u64 {
    (tokens * TOKEN as f64).round() as u64
}

/// Tokens in `units`.
#[expect(
    clippy::cast_precision_loss,
    reason = "for reading; exact up to nine billion tokens"
)]
pub(crate) fn tokens(units: u64) -> f64 {
    units as f64 / TOKEN as f64
}
