//! Pairs of shadowed calls, written down to be scored later.

use crate::answer::{ms, usd};
use evenkeel_core::{
    CallId, Class, Clock, Event, EventKind, Finish, Observer, ShadowAnswer, ShadowPair, SystemClock,
};
use evenkeel_providers::wire::openai::{Options, encode_request, encode_response};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

/// Pairs that may wait to be written. Beyond it the newest are lost: a full or slow
/// disk must hold up no call and take no memory.
const WAITING: usize = 256;
/// A file is set aside when it has reached so many bytes.
const LARGEST: u64 = 16 * 1024 * 1024;
/// Files that were set aside are kept, so many for a role.
const KEPT: u32 = 4;

/// Hears of pairs and hands them to its [`ShadowWriter`].
#[derive(Debug)]
pub struct ShadowLog {
    pairs: mpsc::Sender<Entry>,
    lost: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    at: jiff::Timestamp,
    call: Option<CallId>,
    pair: Arc<ShadowPair>,
}

impl ShadowLog {
    /// A log that writes to `ROLE.jsonl` in `folder`, and the writer that is to be
    /// run beside it.
    pub fn new(folder: PathBuf) -> (Self, ShadowWriter) {
        Self::with_largest(folder, LARGEST)
    }

    fn with_largest(folder: PathBuf, largest: u64) -> (Self, ShadowWriter) {
        let (pairs, waiting) = mpsc::channel(WAITING);
        let writer = ShadowWriter {
            pairs: waiting,
            folder,
            largest,
            open: HashMap::new(),
            fails: false,
        };
        let lost = AtomicU64::new(0);
        (Self { pairs, lost }, writer)
    }
}

impl Observer for ShadowLog {
    fn on(&self, event: &Event) {
        let EventKind::Shadowed(pair) = &event.kind else {
            return;
        };
        let now = jiff::Timestamp::try_from(SystemClock.now());
        let entry = Entry {
            at: now.unwrap_or(jiff::Timestamp::MAX),
            call: event.call,
            pair: pair.clone(),
        };
        if self.pairs.try_send(entry).is_err() {
            let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
            // The first, and then ever more rarely.
            if lost.is_power_of_two() {
                tracing::warn!(event = "shadow_pairs_lost", lost);
            }
        }
    }
}

/// Writes pairs as lines of JSON, a file for each role, set aside when it is large.
#[derive(Debug)]
pub struct ShadowWriter {
    pairs: mpsc::Receiver<Entry>,
    folder: PathBuf,
    largest: u64,
    open: HashMap<Arc<str>, Sheet>,
    /// Whether the last write failed: of an episode the first is told.
    fails: bool,
}

/// A file that is written to.
#[derive(Debug)]
struct Sheet {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl ShadowWriter {
    /// Writes until the log is dropped, then what still waits.
    ///
    /// Not cancel safe: dropping it loses what waits, and may leave half a line.
    pub async fn run(mut self) {
        while let Some(entry) = self.pairs.recv().await {
            match self.write(&entry).await {
                Ok(()) => self.fails = false,
                Err(error) => {
                    self.open.remove(&entry.pair.role);
                    if !std::mem::replace(&mut self.fails, true) {
                        let folder = self.folder.display();
                        tracing::warn!(event = "shadow_write_failed", %folder, %error);
                    }
                }
            }
        }
    }

    async fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = line(entry).to_string();
        line.push('\n');
        let role = &entry.pair.role;
        let more = line.len() as u64;
        let is_full = |sheet: &Sheet| sheet.bytes > 0 && sheet.bytes + more > self.largest;
        if self.open.get(role).is_some_and(is_full)
            && let Some(full) = self.open.remove(role)
        {
            set_aside(&full.path).await?;
        }
        if !self.open.contains_key(role) {
            let path = self.folder.join(format!("{}.jsonl", file_name(role)));
            let sheet = Sheet::open(path).await?;
            self.open.insert(role.clone(), sheet);
        }
        if let Some(sheet) = self.open.get_mut(role) {
            sheet.file.write_all(line.as_bytes()).await?;
            sheet.file.flush().await?;
            sheet.bytes += more;
        }
        Ok(())
    }
}

impl Sheet {
    async fn open(path: PathBuf) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).await?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        // It may hold what callers wrote.
        #[cfg(unix)]
        options.mode(0o600);
        let file = options.open(&path).await?;
        let bytes = file.metadata().await?.len();
        Ok(Self { path, file, bytes })
    }
}

/// `ROLE.jsonl` becomes `ROLE.1.jsonl`, that `ROLE.2.jsonl`, and the oldest goes.
async fn set_aside(path: &Path) -> io::Result<()> {
    let older = |n: u32| path.with_extension(format!("{n}.jsonl"));
    for n in (1..KEPT).rev() {
        match fs::rename(older(n), older(n + 1)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, older(1)).await
}

/// A role's name as a file's: whatever is neither letter, digit, `-` nor `_` as `%XX`.
fn file_name(role: &str) -> String {
    let mut name = String::with_capacity(role.len());
    for byte in role.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

fn line(entry: &Entry) -> Value {
    let Entry { at, call, pair } = entry;
    let mut line = json!({
        "at": at.to_string(),
        "call": call.map(CallId::get),
        "role": &*pair.role,
        "live": answer(&pair.live),
        "shadow": answer(&pair.shadow),
    });
    if let Some(request) = &pair.request {
        let encoded = encode_request(request, &pair.role, false, &Options::default());
        line["request"] = encoded.body;
    }
    line
}

fn answer(answer: &ShadowAnswer) -> Value {
    let mut said = json!({
        "model": answer.model.as_str(),
        "latency_ms": ms(answer.latency),
        "first_token_ms": answer.first_token.map(ms),
        "input_tokens": answer.usage.map(|u| u.input),
        "output_tokens": answer.usage.map(|u| u.output),
        "cost_usd": answer.cost.map(|c| usd(c.usd)),
        "cost_is_estimate": answer.cost.map(|c| c.is_estimate),
        "finish": answer.finish.map(Finish::as_str),
        "text_bytes": answer.text_bytes,
        "tool_calls": answer.tool_calls,
        "is_valid": answer.is_valid,
        "error": answer.failure.map(Class::as_str),
    });
    if let Some(content) = &answer.content {
        said["answer"] = encode_response(content, answer.model.as_str());
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{ChatRequest, ModelId};
    use std::time::Duration;

    fn said(model: &str) -> ShadowAnswer {
        ShadowAnswer {
            model: ModelId::new(model).unwrap(),
            latency: Duration::from_millis(120),
            first_token: None,
            usage: None,
            cost: None,
            finish: Some(Finish::Stop),
            text_bytes: 5,
            tool_calls: 0,
            is_valid: None,
            failure: None,
            content: None,
        }
    }

    fn shadowed(role: &str, request: Option<ChatRequest>) -> Event {
        let pair = ShadowPair {
            role: role.into(),
            live: said("a/live"),
            shadow: said("b/next"),
            request: request.map(Arc::new),
        };
        Event {
            at: tokio::time::Instant::now().into_std(),
            call: None,
            kind: EventKind::Shadowed(Arc::new(pair)),
        }
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    #[tokio::test]
    async fn each_role_has_a_file_and_a_line_for_each_pair() {
        let folder = tempfile::tempdir().unwrap();
        let (log, writer) = ShadowLog::new(folder.path().join("shadow"));
        log.on(&shadowed("planner", None));
        log.on(&shadowed("a/b role", Some(ChatRequest::user("the tide"))));
        log.on(&shadowed("planner", None));
        drop(log);
        writer.run().await;
        let of = |name: &str| lines(&folder.path().join("shadow").join(name));
        let planner = of("planner.jsonl");
        assert_eq!(planner.len(), 2);
        assert_eq!(planner[0]["live"]["model"], "a/live");
        assert_eq!(planner[0]["shadow"]["latency_ms"], 120.0);
        assert!(planner[0].get("request").is_none(), "nothing was captured");
        let other = of("a%2Fb%20role.jsonl");
        assert_eq!(other[0]["request"]["messages"][0]["content"], "the tide");
    }

    #[tokio::test]
    async fn a_large_file_is_set_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        // Room for one line.
        let (log, writer) = ShadowLog::with_largest(folder.path().to_owned(), 100);
        for _ in 0..7 {
            log.on(&shadowed("r", None));
        }
        drop(log);
        writer.run().await;
        let mut names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = [
            "r.1.jsonl",
            "r.2.jsonl",
            "r.3.jsonl",
            "r.4.jsonl",
            "r.jsonl",
        ];
        assert_eq!(names, expected);
        for name in names {
            assert_eq!(lines(&folder.path().join(name)).len(), 1);
        }
    }

    #[tokio::test]
    async fn what_was_there_before_is_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let (log, writer) = ShadowLog::new(folder.path().to_owned());
            log.on(&shadowed("r", None));
            drop(log);
            writer.run().await;
        }
        assert_eq!(lines(&folder.path().join("r.jsonl")).len(), 2);
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_to_costs_pairs_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "in the way").unwrap();
        let (log, writer) = ShadowLog::new(file);
        for _ in 0..2 * WAITING {
            log.on(&shadowed("r", None));
        }
        assert_eq!(log.lost.load(Ordering::Relaxed), WAITING as u64);
        drop(log);
        writer.run().await;
    }
}
