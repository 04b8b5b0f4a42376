//! `evenkeel`: the gateway, and the tools beside it.

mod cli;
mod demo;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "evenkeel: {}", cli::words(&error));
            ExitCode::FAILURE
        }
    }
}
