//! A client's socket, with the clocks that HTTP/1 servers need on it.
//!
//! It sits between the TCP stream and hyper and adds what hyper leaves open:
//! a clock for request heads that is not the one for idle connections, a clock
//! for clients that do not take their answer, notice of a client that left
//! with bytes still unread, and a body for the errors hyper answers by itself.

use crate::error::ApiError;
use crate::limits::Limits;
use bytes::{Buf, Bytes};
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long bytes of a refused request are read and thrown away.
const LINGER: Duration = Duration::from_secs(1);

/// The requests of one connection; shared by its socket and its service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Serving(Arc<Requests>);

#[derive(Debug, Default)]
struct Requests {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Serving {
    /// A request's head has been read.
    pub(crate) fn begin(&self) -> Served {
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        Served(self.0.clone())
    }

    fn begun(&self) -> usize {
        self.0.begun.load(Ordering::Acquire)
    }

    fn now(&self) -> bool {
        self.begun() != self.0.ended.load(Ordering::Acquire)
    }
}

/// Held from a request's head to the end of its answer.
#[derive(Debug)]
pub(crate) struct Served(Arc<Requests>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// What a client that sends nothing is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// The first byte of a request.
    Request,
    /// The rest of a request head.
    Head,
}

/// A clock that is armed only while something is waited for.
#[derive(Debug)]
struct Alarm<T> {
    sleep: Pin<Box<Sleep>>,
    armed: Option<T>,
}

impl<T: Copy + PartialEq> Alarm<T> {
    fn new() -> Self {
        Self {
            sleep: Box::pin(sleep_until(Instant::now())),
            armed: None,
        }
    }

    /// Waits for `what` since the first call that named it.
    fn poll(&mut self, cx: &mut Context<'_>, what: T, after: Duration) -> Poll<()> {
        if self.armed != Some(what) {
            self.armed = Some(what);
            self.sleep.as_mut().reset(Instant::now() + after);
        }
        self.sleep.as_mut().poll(cx)
    }
}

/// One client's connection.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    serving: Serving,
    limits: Limits,
    silence: Alarm<Awaited>,
    head_begun: bool,
    /// How many requests had begun when the socket was last read.
    begun: usize,
    write_stall: Alarm<()>,
    linger: Alarm<()>,
    lingers: bool,
    /// An error answer that takes the place of one of hyper's, and the length it replaces.
    replacement: Option<(Bytes, usize)>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, serving: Serving, limits: Limits) -> Self {
        Self {
            stream,
            serving,
            limits,
            silence: Alarm::new(),
            head_begun: false,
            begun: 0,
            write_stall: Alarm::new(),
            linger: Alarm::new(),
            lingers: false,
            replacement: None,
        }
    }

    /// Once a request has begun, the next head has a clock of its own.
    fn forget_last_head(&mut self) {
        let begun = self.serving.begun();
        if self.begun != begun {
            self.begun = begun;
            self.head_begun = false;
            self.silence.armed = None;
        }
    }

    /// What a client that sends nothing is waited for, and how long at most;
    /// none while it is the client that waits.
    fn awaited(&mut self) -> Option<(Awaited, Duration)> {
        self.forget_last_head();
        if self.serving.now() {
            None
        } else if self.head_begun {
            Some((Awaited::Head, self.limits.head))
        } else {
            Some((Awaited::Request, self.limits.idle))
        }
    }

    /// Nothing came: is it still worth waiting?
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some((awaited, limit)) = self.awaited() else {
            return Poll::Pending;
        };
        ready!(self.silence.poll(cx, awaited, limit));
        match awaited {
            // As if the client had closed: hyper ends an idle connection quietly.
            Awaited::Request => Poll::Ready(Ok(())),
            Awaited::Head => {
                let answer = ApiError::slow_head(limit).to_http();
                // Best effort: a client that sends no head may read no answer either.
                let _ = self.stream.try_write(&answer);
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client did not finish its request head",
                )))
            }
        }
    }

    /// Sets the clock of an idle connection. hyper does not read again after
    /// an answer where it knows that nothing is there.
    fn arm_silence(&mut self, cx: &mut Context<'_>) {
        if let Some((awaited, limit)) = self.awaited()
            && self.silence.poll(cx, awaited, limit).is_ready()
        {
            // The next read says that it is over.
            cx.waker().wake_by_ref();
        }
    }

    /// Whether the client has left while its request is being served.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let mut byte = [0];
        match ready!(self.stream.poll_peek(cx, &mut ReadBuf::new(&mut byte))) {
            Ok(0) => Poll::Ready(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the client left",
            )),
            Ok(_) => Poll::Pending,
            Err(error) => Poll::Ready(error),
        }
    }

    /// Writes out an error answer of ours that replaces one of hyper's.
    fn poll_replacement(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<usize>>> {
        while let Some((answer, _)) = &mut self.replacement {
            if answer.is_empty() {
                return Poll::Ready(Ok(self.replacement.take().map(|(_, stood_for)| stood_for)));
            }
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, answer))?;
            answer.advance(written);
        }
        Poll::Ready(Ok(None))
    }

    /// Reads on, for a moment, after an answer to a request that was not read
    /// to its end: a socket closed with bytes unread is reset, and the reset
    /// can take the answer with it.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 4096];
        loop {
            if self.linger.poll(cx, (), LINGER).is_ready() {
                return Poll::Ready(());
            }
            let mut buf = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }

    /// Limits how long a write may make no progress.
    fn guard<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_stall.armed = None;
            return written;
        }
        ready!(self.write_stall.poll(cx, (), self.limits.write_stall));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not take its answer",
        )))
    }
}

/// The status of an answer that hyper wrote by itself: it is the only one here
/// that is an error with an empty body, and it is written in one piece.
fn hypers_own_error(bytes: &[u8]) -> Option<u16> {
    let head = bytes
        .strip_prefix(b"HTTP/1.1 4")
        .or_else(|| bytes.strip_prefix(b"HTTP/1.0 4"))?;
    let head = std::str::from_utf8(head).ok()?;
    let empty = head.ends_with("\r\n\r\n")
        && head
            .lines()
            .any(|line| line.eq_ignore_ascii_case("content-length: 0"));
    let digits = head.get(..2)?;
    empty.then(|| digits.parse::<u16>().ok().map(|d| 400 + d))?
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.forget_last_head();
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Ready(result) => {
                this.head_begun |= !this.serving.now();
                Poll::Ready(result)
            }
            Poll::Pending => this.poll_silence(cx),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.replacement.is_none()
            && let Some(status) = hypers_own_error(bytes)
        {
            let answer = ApiError::unreadable_head(status, this.limits.head_bytes).to_http();
            this.replacement = Some((answer, bytes.len()));
            this.lingers = true;
        }
        let replaced = this.poll_replacement(cx);
        if let Some(stood_for) = ready!(this.guard(cx, replaced))? {
            return Poll::Ready(Ok(stood_for));
        }
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.guard(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = slices {
            return self.poll_write(cx, only);
        }
        let this = &mut *self;
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.guard(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Nothing is buffered here. hyper calls this whenever it has looked after
    /// a connection, and it does not look for the client's end while it holds
    /// bytes that the client sent beyond its request (an old client's final
    /// CRLF, a pipelined request): so the end is looked for here.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.serving.now() {
            this.arm_silence(cx);
        } else if let Poll::Ready(left) = this.poll_left(cx) {
            return Poll::Ready(Err(left));
        }
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        if this.lingers {
            ready!(this.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_client_error_is_hypers_own() {
        let own = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        assert_eq!(hypers_own_error(own), Some(431));
        for other in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 4",
            b"",
            b"\xff\xfe",
        ] {
            assert_eq!(hypers_own_error(other), None);
        }
    }
}
