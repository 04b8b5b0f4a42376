//! Log lines on stderr that never make a request wait.

use clap::ValueEnum;
use evenkeel_otel_emit::Plain;
use evenkeel_otel_emit::metrics::{Losses, Signal};
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::Level;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FormatFields, MakeWriter};
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
    dropped: Arc<Dropped>,
}

/// Lines that nobody gets to read: too many waited, or stderr is closed.
#[derive(Debug, Default)]
struct Dropped {
    /// Since it was last told.
    untold: AtomicU64,
    /// What counts them, once there is something.
    losses: OnceLock<Losses>,
    /// Those before that.
    uncounted: AtomicU64,
}

impl Dropped {
    fn add_one(&self) {
        self.untold.fetch_add(1, Ordering::Relaxed);
        match self.losses.get() {
            Some(losses) => losses.lost(Signal::Log, 1),
            None => drop(self.uncounted.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn count_on(&self, losses: Losses) {
        losses.lost(Signal::Log, self.uncounted.swap(0, Ordering::Relaxed));
        // Asked twice, the first counts.
        let _ = self.losses.set(losses);
    }
}

/// Waits, when dropped, until the lines are written.
#[derive(Debug)]
pub(crate) struct Flush(Lines);

impl Flush {
    /// Counts lines that are dropped on `losses`, those before included.
    pub(crate) fn count_on(&self, losses: Losses) {
        self.0.dropped.count_on(losses);
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        if self.0.queue.try_send(Message::Flush(done)).is_ok() {
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
    let dropped = Arc::<Dropped>::default();
    let writer = Lines {
        queue,
        dropped: dropped.clone(),
    };
    let flush = Flush(writer.clone());
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || write_lines(&lines, &dropped, &mut io::stderr()))?;
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
        lines.with_ansi(terminal).fmt_fields(fields()).boxed()
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
    Ok(flush)
}

/// Fields as text: `name=value`, the message as it is, and all of it in one line.
fn fields() -> impl for<'a> FormatFields<'a> {
    let field = |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
        if field.name() != "message" {
            let name = field.name();
            if writer.has_ansi_escapes() {
                // Slanted, and the sign behind it dim.
                write!(writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?;
            } else {
                write!(writer, "{name}=")?;
            }
        }
        write!(Plain(writer), "{value:?}")
    };
    debug_fn(field).delimited(" ")
}

/// Writes lines until the program ends.
fn write_lines(lines: &Receiver<Message>, dropped: &Dropped, err: &mut impl Write) {
    while let Ok(message) = lines.recv() {
        match message {
            Message::Line(line) => {
                if err.write_all(&line).is_err() {
                    dropped.add_one();
                    continue;
                }
                let lost = dropped.untold.swap(0, Ordering::Relaxed);
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
            self.lines.dropped.add_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_otel_emit::metrics::{Build, Catalogue, Exposition, Metrics};

    fn meters() -> (Exposition, Losses) {
        let exposition = Exposition::new().unwrap();
        let build = Build {
            version: "0",
            revision: "0",
        };
        let metrics = Metrics::new(&exposition.meter(), Catalogue::default(), build);
        let losses = metrics.losses();
        (exposition, losses)
    }

    fn is_counted(exposition: &Exposition, lines: u64) -> bool {
        let told = format!("evenkeel_telemetry_dropped_total{{signal=\"log\"}} {lines}\n");
        exposition.text().unwrap().contains(&told)
    }

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
        let (exposition, losses) = meters();
        assert!(is_counted(&exposition, 0));
        writer.dropped.count_on(losses);
        assert!(is_counted(&exposition, 3), "those from before it was asked");
        writeln!(writer.make_writer(), "line 5").unwrap();
        assert!(is_counted(&exposition, 4));
        assert_eq!(writer.dropped.untold.load(Ordering::Relaxed), 4);
        let kept: Vec<String> = lines
            .try_iter()
            .map(|message| match message {
                Message::Line(line) => String::from_utf8(line).unwrap(),
                Message::Flush(_) => unreachable!("nobody flushes here"),
            })
            .collect();
        assert_eq!(kept, ["line 0\n", "line 1\n"]);
    }

    #[test]
    fn a_line_of_text_is_one_line_whatever_clients_call_things() {
        let (queue, lines) = sync_channel(8);
        let writer = Lines {
            queue,
            dropped: Arc::default(),
        };
        let text = tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .with_ansi(false)
            .fmt_fields(fields());
        let subscriber = tracing_subscriber::registry().with(text);
        let _another = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        tracing::subscriber::with_default(subscriber, || {
            let role = "a\nERROR forged \u{1b}[2J";
            tracing::warn!(event = "told", agent.role = %role, "of {role}");
        });
        let Ok(Message::Line(line)) = lines.try_recv() else {
            panic!("a line");
        };
        let line = String::from_utf8(line).unwrap();
        let line = line.strip_suffix('\n').unwrap();
        assert!(!line.chars().any(char::is_control), "{line:?}");
        let told = "of a\\nERROR forged \\u{1b}[2J event=\"told\" agent.role=a\\nERROR forged";
        assert!(line.contains(told), "{line}");
    }

    /// Takes a line, then none, then lines again.
    struct Closing(Vec<u8>, usize);

    impl Write for Closing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            if (2..4).contains(&self.1) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_told_of() {
        let (queue, lines) = sync_channel(8);
        for n in 0..4 {
            let line = format!("line {n}\n").into_bytes();
            assert!(queue.try_send(Message::Line(line)).is_ok());
        }
        drop(queue);
        let (exposition, losses) = meters();
        let dropped = Dropped::default();
        dropped.count_on(losses);
        let mut closing = Closing(Vec::new(), 0);
        write_lines(&lines, &dropped, &mut closing);
        assert!(is_counted(&exposition, 2));
        let written = String::from_utf8(closing.0).unwrap();
        assert!(written.starts_with("line 0\nline 3\n"), "{written}");
        assert!(
            written.contains(r#""event":"log_lines_dropped","lines":2"#),
            "{written}"
        );
    }
}
