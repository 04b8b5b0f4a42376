//! Answers that are JSON.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

/// Status 200.
pub(crate) fn ok(body: &Value) -> Response<Body> {
    json(StatusCode::OK, body.to_string())
}

/// Of a text that is JSON already.
pub(crate) fn json(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
