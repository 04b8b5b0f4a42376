//! `command`: any program that reads the answer and prints a score.

use super::{Answered, Asked, Expected, Grade, ScoringError};
use crate::golden::{Keys, brief};
use evenkeel_providers::wire::openai::{Options, encode_request};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

/// Most bytes of standard error that are told.
const TOLD: usize = 1_000;

/// Limits of external commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLimits {
    /// How long one may take; a scorer's own `timeout_ms` may only shorten it.
    pub timeout: Duration,
    /// Most bytes that one may write to standard output.
    pub output_bytes: usize,
    /// The variables it sees, and no others: a dataset's command is not to be
    /// handed the keys of providers.
    pub environment: Vec<(OsString, OsString)>,
}

/// A program, without a shell between.
#[derive(Debug, PartialEq)]
pub(super) struct External {
    argv: Vec<String>,
    folder: PathBuf,
    timeout: Option<Duration>,
}

impl External {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        if !keys.has("argv") {
            keys.fault("the scorer needs an `argv`: the program and its arguments");
        }
        let timeout = keys.count("timeout_ms").map(Duration::from_millis);
        let argv = keys.texts("argv")?;
        if argv.is_empty() {
            keys.fault_of("argv", "must not be empty");
            return None;
        }
        Some(Self {
            argv,
            folder: expected.folder.to_owned(),
            timeout,
        })
    }

    pub(super) async fn grade(
        &self,
        asked: Asked<'_>,
        answer: &Answered<'_>,
        limits: &CommandLimits,
    ) -> Result<Grade, ScoringError> {
        let own = self.timeout.unwrap_or(limits.timeout);
        let timeout = own.min(limits.timeout);
        let input = input(asked, answer).to_string();
        let ran = tokio::time::timeout(timeout, self.run(input, limits)).await;
        let output = ran.map_err(|_| ScoringError::CommandTimeout {
            command: self.name(),
            after: timeout,
        })??;
        self.score_of(&output)
    }

    fn name(&self) -> String {
        brief(&self.argv[0])
    }

    /// Runs the program and reads what it prints. Dropping the future ends it, with
    /// all that it started.
    async fn run(&self, input: String, limits: &CommandLimits) -> Result<Vec<u8>, ScoringError> {
        let failed = |source: io::Error| ScoringError::CommandIo {
            command: self.name(),
            source,
        };
        let mut group = Group::start(self.command(limits)).map_err(failed)?;
        let child = &mut group.child;
        let (mut stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin.take() {
                // Who does not read its input may end before it is written.
                match stdin.write_all(input.as_bytes()).await {
                    Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                    _ => {}
                }
            }
            Ok(())
        };
        let limit = limits.output_bytes;
        let read = async {
            let (output, is_whole) = head(stdout, limit).await.map_err(failed)?;
            if is_whole {
                return Ok(output);
            }
            let command = self.name();
            Err(ScoringError::CommandOutput { command, limit })
        };
        let write = async { write.await.map_err(failed) };
        let told = async { tail(stderr).await.map_err(failed) };
        let ((), output, stderr) = tokio::try_join!(write, read, told)?;
        let status = group.end().await.map_err(failed)?;
        if status.success() {
            return Ok(output);
        }
        Err(ScoringError::CommandFailed {
            command: self.name(),
            status: status.to_string(),
            stderr,
        })
    }

    fn command(&self, limits: &CommandLimits) -> Command {
        let mut command = Command::new(self.program());
        command
            .args(&self.argv[1..])
            .env_clear()
            .envs(limits.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if self.folder != Path::new("") {
            command.current_dir(&self.folder);
        }
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    /// A path is one from the dataset's folder; a name is looked for in `PATH`.
    fn program(&self) -> PathBuf {
        let program = Path::new(&self.argv[0]);
        if program.components().count() < 2 && !self.argv[0].contains('/') {
            return program.to_owned();
        }
        let path = self.folder.join(program);
        // Found from here, and started from there.
        std::path::absolute(&path).unwrap_or(path)
    }

    /// A number, or an object with a number `score`, and nothing else.
    fn score_of(&self, output: &[u8]) -> Result<Grade, ScoringError> {
        let printed = String::from_utf8_lossy(output);
        let no_score = || ScoringError::NoScore {
            scorer: self.name(),
            seen: format!("`{}`", brief(printed.trim())),
        };
        let value: Value = serde_json::from_str(printed.trim()).map_err(|_| no_score())?;
        let score = value.as_f64().or_else(|| value.get("score")?.as_f64());
        let score = score
            .filter(|s| (0.0..=1.0).contains(s))
            .ok_or_else(no_score)?;
        let note = value.get("note").and_then(Value::as_str);
        let grade = Grade::of(score);
        Ok(match note {
            Some(note) => grade.with(note),
            None => grade,
        })
    }
}

/// What a command reads: the question, and the answer.
fn input(asked: Asked<'_>, answer: &Answered<'_>) -> Value {
    let calls: Vec<Value> = answer
        .response
        .tool_calls()
        .map(|call| json!({"name": call.name, "arguments": call.arguments}))
        .collect();
    let role = asked.role.unwrap_or_default();
    let mut request = encode_request(asked.request, role, false, &Options::default()).body;
    if let Some(body) = request.as_object_mut() {
        // A role's name is no model's.
        body.shift_remove("model");
    }
    json!({
        "id": asked.id,
        "role": asked.role,
        "tags": asked.tags,
        "request": request,
        "expected": asked.expected,
        "answer": {
            "text": answer.text(),
            "tool_calls": calls,
            "finish": answer.response.finish.as_str(),
        },
    })
}

/// What there is up to `limit` bytes, and whether that is all.
async fn head(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut read = Vec::new();
    if let Some(stream) = stream {
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        stream.take(most).read_to_end(&mut read).await?;
    }
    let is_whole = read.len() <= limit;
    Ok((read, is_whole))
}

/// The last of what there is, read to its end so that its writer does not wait.
async fn tail(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut kept = Vec::new();
    let mut piece = [0; 4096];
    if let Some(mut stream) = stream {
        loop {
            let read = stream.read(&mut piece).await?;
            if read == 0 {
                break;
            }
            kept.extend_from_slice(&piece[..read]);
            let surplus = kept.len().saturating_sub(TOLD);
            kept.drain(..surplus);
        }
    }
    Ok(String::from_utf8_lossy(&kept).trim().to_owned())
}

/// A running program and all that it starts. Dropped, it is killed.
struct Group {
    child: Child,
    #[cfg(unix)]
    id: Option<rustix::process::Pid>,
}

impl Group {
    fn start(mut command: Command) -> io::Result<Self> {
        let child = command.spawn()?;
        #[cfg(unix)]
        let id = child
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        Ok(Self {
            child,
            #[cfg(unix)]
            id,
        })
    }

    /// Waits for the program itself. What it started and left behind is ended.
    async fn end(mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(id) = self.id {
            // Nobody left in it is as good.
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}
