//! Tries the load balancing policies on many clients and nodes in virtual time.

use std::process::ExitCode;

use examples::{cli, failure, policies};

fn main() -> ExitCode {
    match cli::parse::<policies::Options>() {
        Ok(options) => failure::exit(policies::run(&options)),
        Err(code) => code,
    }
}
