//! The `evenkeel` binary, built and served.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::process::{self, Server};
use crate::workspace;

/// A release build of the gateway; its path.
///
/// # Errors
/// When it does not build.
pub(crate) fn build() -> Result<PathBuf> {
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
