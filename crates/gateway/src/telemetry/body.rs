//! An answer whose span ends with it.

use super::RequestSpan;
use crate::held::Held;
use axum::body::Body;
use http::Response;

/// A response whose request has `span`: it ends when the last byte has gone out, or the
/// client is gone.
pub(crate) fn traced(response: Response<Body>, span: Option<RequestSpan>) -> Response<Body> {
    match span {
        None => response,
        Some(span) => response.map(|body| Body::new(Held::new(body, Open(Some(span))))),
    }
}

/// A span that ends when this is dropped.
#[derive(Debug)]
struct Open(Option<RequestSpan>);

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(span) = self.0.take() {
            span.end(tokio::time::Instant::now().into_std());
        }
    }
}
