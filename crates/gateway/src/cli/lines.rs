//! Log lines on stderr that never make a request wait.

use clap::ValueEnum;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing::Level;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Lines that wait to be written; more are dropped and counted.
const QUEUE: usize = 4_096;

/// How long the program's end waits for the last lines.
const FLUSH: Duration = Duration::from_secs(1);

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Readable.
    Text,
    /// One JSON object a line.
    Json,
}

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Where finished lines go.
#[derive(Debug, Clone)]
struct Lines {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

/// Waits, when dropped, until the lines are written.
#[derive(Debug)]
pub(crate) struct Flush(SyncSender<Message>);

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        if self.0.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH);
        }
    }
}

/// Sends log lines to stderr from here on: `filter` in the words of
/// `RUST_LOG` (`info`, `evenkeel_router=debug`, …).
///
/// # Errors
/// A filter that cannot be read, or a second call.
pub(crate) fn start(filter: &str, format: Format) -> anyhow::Result<Flush> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| anyhow::anyhow!("the log filter `{filter}` cannot be read: {error}"))?;
    let (queue, lines) = sync_channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let writer = Lines {
        queue: queue.clone(),
        dropped: dropped.clone(),
    };
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || write_lines(&lines, &dropped))?;
    let terminal = io::stderr().is_terminal();
    let json = match format {
        Format::Auto => !terminal,
        Format::Text => false,
        Format::Json => true,
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines = if json {
        lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .boxed()
    } else {
        lines.with_ansi(terminal).boxed()
    };
    // Libraries below may print headers, and with them keys: only their
    // warnings are let through, whatever the filter says. The exporters' tell of every
    // batch that a collector did not take; we tell of the first.
    let ours = filter_fn(|meta| {
        meta.target().starts_with("evenkeel")
            || (*meta.level() <= Level::WARN && !meta.target().starts_with("opentelemetry"))
    });
    tracing_subscriber::registry()
        .with(filter)
        .with(lines.with_filter(ours))
        .try_init()?;
    Ok(Flush(queue))
}

/// Writes lines until the program ends.
fn write_lines(lines: &Receiver<Message>, dropped: &AtomicU64) {
    let mut err = io::stderr();
    while let Ok(message) = lines.recv() {
        match message {
            Message::Line(line) => {
                let _ = err.write_all(&line);
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let _ = writeln!(
                        err,
                        r#"{{"level":"WARN","event":"log_lines_dropped","lines":{lost}}}"#
                    );
                }
            }
            Message::Flush(done) => {
                let _ = err.flush();
                let _ = done.try_send(());
            }
        }
    }
}

/// One line that is being put together.
struct Line<'a> {
    bytes: Vec<u8>,
    lines: &'a Lines,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            bytes: Vec::with_capacity(256),
            lines: self,
        }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let line = Message::Line(std::mem::take(&mut self.bytes));
        if self.lines.queue.try_send(line).is_err() {
            self.lines.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_lines_and_counts_them() {
        let (queue, lines) = sync_channel(2);
        let writer = Lines {
            queue,
            dropped: Arc::default(),
        };
        for n in 0..5 {
            writeln!(writer.make_writer(), "line {n}").unwrap();
        }
        assert_eq!(writer.dropped.load(Ordering::Relaxed), 3);
        let kept: Vec<String> = lines
            .try_iter()
            .map(|message| match message {
                Message::Line(line) => String::from_utf8(line).unwrap(),
                Message::Flush(_) => unreachable!("nobody flushes here"),
            })
            .collect();
        assert_eq!(kept, ["line 0\n", "line 1\n"]);
    }
}
