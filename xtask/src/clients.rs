//! `cargo xtask clients`: the official SDKs against the chaos upstream.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::process::{self, Server};
use crate::{real, workspace};

/// Where the upstream serves every dialect; on the next port Mistral's has the path of `OpenAI`'s.
const PORT: u16 = 18060;
const MISTRAL_PORT: u16 = PORT + 1;

/// A script of real/clients.
struct Script {
    file: &'static str,
    port: u16,
    /// What it checks here. Left out of the first two: the SDKs' own retries, which nobody but
    /// they decide, the Responses API, and what only llama.cpp's server can show.
    only: &'static str,
}

const SCRIPTS: [Script; 4] = [
    Script {
        file: "smoke_openai.py",
        port: PORT,
        only: "models,chat,stream,tools,tools_stream,tool_roundtrip,json_schema,parse,parse_cut,\
               bad_request,ctx_exceeded,timeout,classes,stream_cut,stop,parallel,thinking,waits,\
               error_in_stream,page",
    },
    Script {
        file: "smoke_anthropic.py",
        port: PORT,
        only: "chat,system,stream,tools,tools_stream,tool_roundtrip,count_tokens,bad_request,\
               error_shape,classes,stream_cut,json_schema,models,stop,parallel,thinking,waits,\
               error_in_stream",
    },
    Script {
        file: "smoke_genai.py",
        port: PORT,
        only: "chat,stream,versions,tools,tools_stream,tool_roundtrip,json_schema,parse,\
               bad_request,classes,waits,stop,parallel,thinking,error_in_stream,models,\
               count_tokens",
    },
    Script {
        file: "smoke_mistral.py",
        port: MISTRAL_PORT,
        only: "models,chat,stream,tools,tools_stream,tool_roundtrip,json_schema,parse,\
               bad_request,classes,waits,stop,parallel,thinking,error_in_stream,stream_cut",
    },
];

/// How many checks of a script came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    passed: usize,
    failed: usize,
    skipped: usize,
}

/// Runs the scripts; whether every check passed. A check that was skipped has shown nothing.
///
/// # Errors
/// [`CannotRun`](crate::CannotRun) when the SDKs can't be installed; others when something
/// cannot be built, started or read.
pub(crate) fn run() -> Result<bool> {
    let python = real::setup("real/clients/setup.sh")?;
    let _upstream = serve()?;
    let mut table = Vec::new();
    for script in &SCRIPTS {
        println!("==> {}", script.file);
        table.push((script, check(python.trim(), script)?));
    }
    println!("\nscript               passed failed skipped of");
    let mut all_passed = true;
    for (script, sums) in &table {
        let asked = script.only.split(',').count();
        let Sums {
            passed,
            failed,
            skipped,
        } = sums;
        println!(
            "{:20} {passed:6} {failed:6} {skipped:7} {asked:2}",
            script.file
        );
        all_passed &= *passed == asked;
    }
    let total: usize = table.iter().map(|(_, sums)| sums.passed).sum();
    println!("{total} passed");
    Ok(all_passed)
}

/// The upstream of crates/chaos, built and served.
fn serve() -> Result<Server> {
    for port in [PORT, MISTRAL_PORT] {
        process::port_must_be_free(port, "the chaos upstream")?;
    }
    let example = ["--package", "evenkeel-chaos", "--example", "upstream"];
    process::run(workspace::cargo().args(["build", "--locked"]).args(example))?;
    let target = workspace::target()?;
    let mut command = Command::new(target.join("debug/examples/upstream"));
    command.arg(PORT.to_string());
    let log = target.join("clients/upstream.log");
    let mut upstream = Server::start("chaos upstream", &mut command, &log)?;
    for port in [PORT, MISTRAL_PORT] {
        upstream.wait_until_ready(port, "/v1/models", Duration::from_secs(15))?;
    }
    Ok(upstream)
}

/// Runs a script and shows what it prints.
fn check(python: &str, script: &Script) -> Result<Sums> {
    let base = format!("http://127.0.0.1:{}", script.port);
    let mut command = real::client(python, script.file);
    command
        .args([
            "--base",
            &format!("{base}/v1"),
            "--model",
            "chat",
            "--chaos",
        ])
        .args(["--only", script.only])
        .stderr(Stdio::inherit());
    if script.file == "smoke_genai.py" {
        command.args(["--gemini", &base]);
    }
    let output = command
        .output()
        .with_context(|| format!("cannot start `{}`", process::spelled(&command)))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    print!("{printed}");
    let last = printed.lines().last().unwrap_or_default();
    sums(last).with_context(|| {
        let file = script.file;
        format!("{file} ended ({}) with `{last}` and no sums", output.status)
    })
}

/// Reads `N passed, N failed` and, behind it, `, N skipped`.
fn sums(line: &str) -> Option<Sums> {
    let mut sums = Sums::default();
    let mut has_passed = false;
    for part in line.split(", ") {
        let (count, what) = part.split_once(' ')?;
        let count = count.parse().ok()?;
        match what {
            "passed" => (sums.passed, has_passed) = (count, true),
            "failed" => sums.failed = count,
            "skipped" => sums.skipped = count,
            _ => return None,
        }
    }
    has_passed.then_some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_script_gives_its_sums() {
        let of = |passed, failed, skipped| {
            Some(Sums {
                passed,
                failed,
                skipped,
            })
        };
        assert_eq!(sums("12 passed, 0 failed"), of(12, 0, 0));
        assert_eq!(sums("3 passed, 1 failed, 2 skipped"), of(3, 1, 2));
        assert_eq!(sums("Traceback (most recent call last):"), None);
        assert_eq!(sums("2 failed"), None);
        assert_eq!(sums(""), None);
    }

    #[test]
    fn every_check_that_is_asked_for_is_in_its_script() {
        for script in &SCRIPTS {
            let path = workspace::root().join("real/clients").join(script.file);
            let text = std::fs::read_to_string(path).unwrap();
            for name in script.only.split(',') {
                let definition = format!("def {name}():");
                assert!(text.contains(&definition), "{}: {name}", script.file);
            }
        }
    }
}
