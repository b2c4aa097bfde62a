//! Tries what the protocol promises in simulated clusters in which everything goes wrong.

use std::process::ExitCode;

use examples::{chaos, cli, failure};

fn main() -> ExitCode {
    match cli::parse::<chaos::Chaos>() {
        Ok(options) => failure::exit(chaos::run(&options)),
        Err(code) => code,
    }
}
