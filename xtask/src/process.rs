//! Child processes: run to the end, or served and ended whatever happens.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// How long a server may take to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The one place that reads the clock; tasks run in real time.
#[expect(
    clippy::disallowed_methods,
    reason = "tasks time real processes; nothing here is under test on a paused clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The command as a person would type it, for messages.
pub(crate) fn spelled(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs a command to its end with our own output; whether it succeeded.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", spelled(command)))?;
    Ok(status.success())
}

/// Runs a command that must succeed.
///
/// # Errors
/// When it cannot be started or ends with another status than 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    ensure!(succeeds(command)?, "`{}` failed", spelled(command));
    Ok(())
}

/// Runs a command that starts servers of its own, and interrupts it if this process dies, so
/// that it can end them; whether it succeeded.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn succeeds_leashed(command: &mut Command) -> Result<bool> {
    let what = spelled(command);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{what}`"))?;
    let leash = Leash::on(&child, "INT")?;
    let status = child
        .wait()
        .with_context(|| format!("waiting for `{what}`"))?;
    leash.release();
    Ok(status.success())
}

/// Refuses to go on when somebody listens on `port` already: a run would measure a stranger.
///
/// # Errors
/// When the port is taken.
pub(crate) fn port_must_be_free(port: u16, whose: &str) -> Result<()> {
    TcpListener::bind(("127.0.0.1", port))
        .map(drop)
        .with_context(|| format!("port {port} is needed for {whose}, and something listens there"))
}

/// A server that lives as long as this value.
pub(crate) struct Server {
    name: String,
    child: Child,
    leash: Option<Leash>,
    log: PathBuf,
}

impl Server {
    /// Starts it with its output in `log`, a new file.
    ///
    /// # Errors
    /// When the log cannot be made or the command cannot be started.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        if let Some(folder) = log.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let file = File::create(log).with_context(|| format!("making {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{name}: cannot start `{}`", spelled(command)))?;
        let leash = Some(Leash::on(&child, "KILL")?);
        Ok(Self {
            name: name.to_owned(),
            child,
            leash,
            log: log.to_owned(),
        })
    }

    /// Waits until `GET path` answers 200.
    ///
    /// # Errors
    /// When the server ends before, or does not answer within `limit`; the message carries the
    /// end of its log.
    pub(crate) fn wait_until_ready(
        &mut self,
        port: u16,
        path: &str,
        limit: Duration,
    ) -> Result<()> {
        let end = now() + limit;
        while get_status(port, path) != Some(200) {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "{} ended ({status}) before it was ready:\n{}",
                    self.name,
                    self.log_tail()
                );
            }
            if now() > end {
                bail!(
                    "{}: no 200 from http://127.0.0.1:{port}{path} within {} s:\n{}",
                    self.name,
                    limit.as_secs(),
                    self.log_tail()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(20)..];
        format!("{}\n(log: {})", tail.join("\n"), self.log.display())
    }

    fn stop(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            signal("TERM", self.child.id());
            let end = now() + GRACE;
            while self.child.try_wait()?.is_none() {
                if now() > end {
                    self.child.kill()?;
                    self.child.wait()?;
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        if let Some(leash) = self.leash.take() {
            leash.release();
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!(
                "xtask: {} may still run as {}: {error}",
                self.name,
                self.child.id()
            );
        }
    }
}

/// Sends a signal; a process that is gone already is no error.
fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .stderr(Stdio::null())
        .status();
    if let Err(error) = sent {
        eprintln!("xtask: cannot run `kill`: {error}");
    }
}

/// A shell that waits on a pipe from this process. If the pipe closes without a word, this
/// process has died (a signal, a panic that aborts) and the shell signals the child: destructors
/// alone would leave it running.
struct Leash {
    shell: Child,
}

impl Leash {
    fn on(child: &Child, signal: &str) -> Result<Self> {
        let script = r#"trap "" INT TERM HUP; if read -r _; then exit; fi; kill -s "$1" "$2""#;
        let shell = Command::new("sh")
            .args(["-c", script, "leash", signal, &child.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start `sh`")?;
        Ok(Self { shell })
    }

    /// Ends the leash and leaves the child alone.
    fn release(mut self) {
        // A shell that is gone holds no leash: both results only say that.
        if let Some(mut pipe) = self.shell.stdin.take() {
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.shell.wait();
    }
}

/// The status of a GET on loopback, if anybody answers within a second.
fn get_status(port: u16, path: &str) -> Option<u16> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let limit = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&address, limit).ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n"
    )
    .ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head)
        .ok()?
        .strip_prefix("HTTP/1.1 ")?
        .parse()
        .ok()
}

/// Status and body of a GET on loopback.
///
/// # Errors
/// When nobody answers, or not in HTTP.
pub(crate) fn get(port: u16, path: &str) -> Result<(u16, String)> {
    let limit = Duration::from_secs(10);
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(limit))?;
    // HTTP/1.0: the body ends with the connection, and comes in no chunks.
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nhost: 127.0.0.1:{port}\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Ok((
        status.context("an answer without a status")?,
        body.to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    fn is_alive(pid: u32) -> bool {
        Command::new("kill")
            .args(["-s", "0", &pid.to_string()])
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    }

    #[test]
    fn a_dropped_server_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start("sleeper", &mut sleeper(), &folder.path().join("log")).unwrap();
        let pid = server.pid();
        assert!(is_alive(pid));
        drop(server);
        assert!(!is_alive(pid));
    }

    #[test]
    fn a_leash_whose_holder_died_ends_the_child() {
        let mut child = sleeper().spawn().unwrap();
        let mut leash = Leash::on(&child, "KILL").unwrap();
        // What the kernel does when this process dies: the pipe closes without a word.
        drop(leash.shell.stdin.take());
        assert!(!child.wait().unwrap().success());
        leash.shell.wait().unwrap();
    }

    #[test]
    fn a_released_leash_leaves_the_child_alone() {
        let mut child = sleeper().spawn().unwrap();
        Leash::on(&child, "KILL").unwrap().release();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_server_that_ends_early_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such folder; exit 3"]);
        let mut server =
            Server::start("gateway", &mut command, &folder.path().join("log")).unwrap();
        // Nobody listens on port 1.
        let error = server
            .wait_until_ready(1, "/readyz", Duration::from_secs(30))
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("gateway ended") && text.contains("no such folder"),
            "{text}"
        );
    }

    #[test]
    fn a_taken_port_is_refused_by_name() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = port_must_be_free(port, "the gateway").unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("port {port} is needed for the gateway"))
        );
        assert_eq!(get_status(1, "/"), None);
    }
}
