//! Where a ticket is asked for.

use evenkeel_core::TicketId;
use http::{HeaderMap, HeaderValue, header};

/// Where a ticket is asked for.
pub(crate) fn address(id: &TicketId) -> String {
    format!("/v1/evenkeel/tickets/{id}")
}

/// Writes where the ticket is asked for.
pub(crate) fn put_location(headers: &mut HeaderMap, id: &TicketId) {
    let value = HeaderValue::from_str(&address(id)).expect("an id fits a header");
    headers.insert(header::LOCATION, value);
}
