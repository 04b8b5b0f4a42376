//! `cargo xtask loom`: the models of the lock-free paths, each under every interleaving.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process;
use crate::workspace::{self, Package};

/// A crate's models, in their own module so that no other test runs under loom's atomics.
const MODELS: &str = "src/proofs.rs";
const FILTER: &str = "proofs::";

/// The cfg that swaps the atomics; not loom's own, which takes tokio's sockets away.
const RUSTFLAGS: &str = "--cfg evenkeel_loom";

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Only this crate; may be given more than once
    #[arg(long, short, value_name = "CRATE")]
    package: Vec<String>,
}

/// Runs the models of every crate that has some; whether all hold.
///
/// # Errors
/// When a crate that is named has no models, or none is found in a crate's module of them.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let packages = workspace::packages()?;
    let target = workspace::target()?.join("loom");
    let mut holds = true;
    for name in chosen(&packages, &args.package)? {
        let test = |more: &[&str]| {
            let mut command = workspace::cargo();
            command
                .args(["test", "--release", "--locked", "--lib", "--package", name])
                .args(["--", FILTER])
                .args(more)
                .env("RUSTFLAGS", RUSTFLAGS)
                .env("CARGO_TARGET_DIR", &target);
            command
        };
        let models = count(&mut test(&["--list"]))?;
        println!("==> {name}: {models} models");
        holds &= process::succeeds(&mut test(&[]))?;
    }
    Ok(holds)
}

/// Crates with models, or those of them that are named.
fn chosen<'a>(packages: &'a [Package], named: &[String]) -> Result<Vec<&'a str>> {
    let with_models: Vec<&str> = packages
        .iter()
        .filter(|package| package.folder.join(MODELS).is_file())
        .map(|package| package.name.as_str())
        .collect();
    if let Some(name) = named
        .iter()
        .find(|name| !with_models.contains(&name.as_str()))
    {
        bail!(
            "{name} has no {MODELS}; {} have one",
            with_models.join(", ")
        );
    }
    let is_chosen = |name: &&str| named.is_empty() || named.iter().any(|n| n == name);
    Ok(with_models.into_iter().filter(is_chosen).collect())
}

/// How many models a crate has. None is an error: a filter that fits nothing would pass.
fn count(list: &mut Command) -> Result<usize> {
    let what = process::spelled(list);
    let output = list
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{what}`"))?;
    ensure!(output.status.success(), "`{what}` failed");
    let models = listed(&String::from_utf8_lossy(&output.stdout));
    ensure!(models > 0, "`{what}` lists no model in {MODELS}");
    Ok(models)
}

/// The tests in what `--list` prints.
fn listed(text: &str) -> usize {
    text.lines().filter(|line| line.ends_with(": test")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_with_models_are_run_or_those_named() {
        let packages = workspace::packages().unwrap();
        let all = ["evenkeel-breaker", "evenkeel-probe"];
        assert_eq!(chosen(&packages, &[]).unwrap(), all);
        let named = ["evenkeel-probe".to_owned()];
        assert_eq!(chosen(&packages, &named).unwrap(), ["evenkeel-probe"]);
        let error = chosen(&packages, &["xtask".to_owned()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "xtask has no src/proofs.rs; evenkeel-breaker, evenkeel-probe have one"
        );
    }

    #[test]
    fn only_tests_are_counted() {
        let text = "proofs::one: test\nproofs::two: test\n\n2 tests, 0 benchmarks\n";
        assert_eq!(listed(text), 2);
        assert_eq!(listed("0 tests, 0 benchmarks\n"), 0);
    }
}
