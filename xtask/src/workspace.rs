//! The workspace as `cargo metadata` tells it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// One of our crates.
pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder of its Cargo.toml.
    pub(crate) folder: PathBuf,
    pub(crate) description: String,
    pub(crate) license: String,
    /// Whether it has a library target.
    pub(crate) is_library: bool,
    /// Whether it has a program: then the library is the program's own.
    pub(crate) is_program: bool,
    pub(crate) features: Vec<String>,
    pub(crate) edges: Vec<Edge>,
}

/// A direct dependency, ours or another's.
pub(crate) struct Edge {
    pub(crate) to: String,
    pub(crate) kind: Kind,
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In the crate itself or in its build script.
    Built,
    /// In its tests, examples and benches only.
    Dev,
}

/// The root of the checkout.
///
/// # Panics
/// Never: this crate lies in a folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in a folder of the workspace")
}

/// `cargo`, at the root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    command
}

/// Where cargo puts what it builds.
///
/// # Errors
/// When `cargo metadata` fails or says something else than its documented format.
pub(crate) fn target() -> Result<PathBuf> {
    let folder = metadata()?["target_directory"].as_str().map(PathBuf::from);
    folder.context("cargo metadata names no target_directory")
}

/// All crates of the workspace, by name.
///
/// # Errors
/// As [`target`].
pub(crate) fn packages() -> Result<Vec<Package>> {
    let metadata = metadata()?;
    let mut packages = list(&metadata, "packages")?
        .iter()
        .map(package)
        .collect::<Result<Vec<_>>>()?;
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

fn metadata() -> Result<Value> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")
}

fn package(value: &Value) -> Result<Package> {
    let manifest = PathBuf::from(text(value, "manifest_path")?);
    let folder = manifest.parent().context("a manifest lies in a folder")?;
    let targets = list(value, "targets")?;
    let has = |kind: &str| {
        targets.iter().any(|target| {
            target["kind"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|k| k == kind))
        })
    };
    let edges = list(value, "dependencies")?
        .iter()
        .map(|dependency| {
            Ok(Edge {
                to: text(dependency, "name")?,
                kind: if dependency["kind"] == "dev" {
                    Kind::Dev
                } else {
                    Kind::Built
                },
            })
        })
        .collect::<Result<_>>()?;
    let features = value["features"]
        .as_object()
        .map(|features| features.keys().cloned().collect())
        .unwrap_or_default();
    Ok(Package {
        name: text(value, "name")?,
        folder: folder.to_owned(),
        description: value["description"].as_str().unwrap_or_default().to_owned(),
        license: value["license"].as_str().unwrap_or_default().to_owned(),
        is_library: has("lib"),
        is_program: has("bin"),
        features,
        edges,
    })
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key]
        .as_array()
        .with_context(|| format!("cargo metadata: `{key}` is no list"))
}

fn text(value: &Value, key: &str) -> Result<String> {
    value[key]
        .as_str()
        .map(str::to_owned)
        .with_context(|| format!("cargo metadata: `{key}` is no string"))
}
