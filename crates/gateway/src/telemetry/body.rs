//! An answer whose span ends with it.

use super::RequestSpan;
use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A response whose request has `span`: it ends when the last byte has gone out, or the
/// client is gone.
pub(crate) fn traced(response: Response<Body>, span: Option<RequestSpan>) -> Response<Body> {
    match span {
        None => response,
        Some(span) => response.map(|body| {
            Body::new(Traced {
                body,
                span: Some(span),
            })
        }),
    }
}

#[derive(Debug)]
struct Traced {
    body: Body,
    span: Option<RequestSpan>,
}

impl HttpBody for Traced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let Some(span) = self.span.take() {
            span.end(tokio::time::Instant::now().into_std());
        }
    }
}
