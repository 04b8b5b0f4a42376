//! The `evenkeel` binary, built and served.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::process::{self, Server};
use crate::workspace;

/// Which gateway a task runs.
#[derive(clap::Args)]
pub(crate) struct Binary {
    /// An `evenkeel` that is built already, to compare two builds; without it the tree's is built
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

impl Binary {
    /// Its path, after a release build unless one was named.
    ///
    /// # Errors
    /// When it does not build, or the named one is not there.
    pub(crate) fn ready(&self) -> Result<PathBuf> {
        match &self.binary {
            Some(path) => path
                .canonicalize()
                .with_context(|| format!("no gateway at {}", path.display())),
            None => build(),
        }
    }
}

fn build() -> Result<PathBuf> {
    process::run(workspace::cargo().args([
        "build",
        "--release",
        "--locked",
        "--package",
        "evenkeel-gateway",
    ]))?;
    Ok(workspace::target()?.join("release/evenkeel"))
}

/// A fresh gateway on `port`, which its config must name, ready to answer.
///
/// # Errors
/// When the config folder is not there, the port is taken, or the gateway does not get ready.
pub(crate) fn serve(binary: &Path, config: &Path, port: u16, log: &Path) -> Result<Server> {
    ensure!(config.is_dir(), "no config folder {}", config.display());
    process::port_must_be_free(port, "the gateway")?;
    let mut command = Command::new(binary);
    command.arg("serve").arg("--config").arg(config);
    let mut server = Server::start("evenkeel serve", &mut command, log)?;
    server.wait_until_ready(port, "/readyz", Duration::from_secs(15))?;
    Ok(server)
}
