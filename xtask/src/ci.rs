//! `cargo xtask ci`: everything the CI asks, by the same commands a person types.

use anyhow::{Result, bail};

use crate::process::{self, now};
use crate::workspace::{self, Package};
use crate::{deny, loom, rules, tidy};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this step; may be given more than once
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
}

struct Step {
    name: &'static str,
    run: fn() -> Result<bool>,
}

/// Cheap ones first.
const STEPS: &[Step] = &[
    Step {
        name: "tidy",
        run: tidy::run,
    },
    Step {
        name: "fmt",
        run: fmt,
    },
    Step {
        name: "deny",
        run: || deny::run(&[]),
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "docs",
        run: docs,
    },
    Step {
        name: "test",
        run: test,
    },
    Step {
        name: "rules",
        run: rules::run,
    },
    Step {
        name: "alone",
        run: alone,
    },
    Step {
        name: "loom",
        run: || loom::run(&loom::Args::default()),
    },
];

/// Runs every step, also after one has failed; whether all passed.
///
/// # Errors
/// When `--only` names no step.
pub(crate) fn run(args: &Args) -> Result<bool> {
    for name in &args.only {
        if !STEPS.iter().any(|step| step.name == name) {
            let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
            bail!("no step `{name}`; there are {}", names.join(", "));
        }
    }
    let mut report = Vec::new();
    for step in STEPS {
        if !args.only.is_empty() && !args.only.iter().any(|name| name == step.name) {
            continue;
        }
        println!("==> {}", step.name);
        let begun = now();
        let passed = (step.run)().unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", step.name);
            false
        });
        report.push((step.name, passed, begun.elapsed()));
    }
    println!("\nstep     result   seconds");
    for (name, passed, took) in &report {
        let result = if *passed { "passed" } else { "FAILED" };
        println!("{name:8} {result:8} {:.0}", took.as_secs_f64());
    }
    Ok(report.iter().all(|(_, passed, _)| *passed))
}

fn fmt() -> Result<bool> {
    process::succeeds(workspace::cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<bool> {
    process::succeeds(workspace::cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

/// The libraries' pages last: the binary `evenkeel` and the library of that name share a folder.
fn docs() -> Result<bool> {
    let doc = |which: &str| {
        process::succeeds(
            workspace::cargo()
                .args(["doc", "--workspace", "--no-deps", which])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    };
    Ok(doc("--bins")? && doc("--lib")?)
}

/// The README's command, to the letter.
fn test() -> Result<bool> {
    process::succeeds(workspace::cargo().args(["test", "--workspace"]))
}

/// Each crate by itself, so that none lives on a feature that only a neighbour turns on; and
/// with each of its features.
fn alone() -> Result<bool> {
    let mut passed = true;
    for package in workspace::packages()? {
        for features in variants(&package) {
            let mut command = workspace::cargo();
            command.args(["check", "--quiet", "--package", &package.name]);
            command.args(&features);
            if !process::succeeds(&mut command)? {
                println!("FAILED: {}", process::spelled(&command));
                passed = false;
            }
        }
    }
    Ok(passed)
}

/// The feature sets a crate is checked with: its defaults, none, and each one by itself.
fn variants(package: &Package) -> Vec<Vec<String>> {
    let mut variants = vec![Vec::new()];
    if !package.features.is_empty() {
        variants.push(vec!["--no-default-features".to_owned()]);
    }
    for feature in package.features.iter().filter(|name| *name != "default") {
        variants.push(vec![
            "--no-default-features".to_owned(),
            format!("--features={feature}"),
        ]);
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_crate_is_checked_bare_and_with_each_feature() {
        let mut package = Package {
            name: "evenkeel-breaker".to_owned(),
            folder: PathBuf::new(),
            description: String::new(),
            license: String::new(),
            is_library: true,
            is_program: false,
            features: Vec::new(),
            edges: Vec::new(),
        };
        assert_eq!(variants(&package), [vec![""; 0]]);
        package.features = vec!["default".to_owned(), "tower".to_owned()];
        assert_eq!(
            variants(&package),
            [
                vec![],
                vec!["--no-default-features"],
                vec!["--no-default-features", "--features=tower"],
            ]
        );
    }

    #[test]
    fn a_step_that_is_not_there_is_named_with_those_that_are() {
        let args = Args {
            only: vec!["lint".to_owned()],
        };
        let error = run(&args).unwrap_err().to_string();
        assert_eq!(
            error,
            "no step `lint`; there are tidy, fmt, deny, clippy, docs, test, rules, alone, loom"
        );
    }
}
