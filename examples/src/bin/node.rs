//! A node of a cluster, in a terminal of its own.

use std::process::ExitCode;

use examples::{cli, failure, terminal};
use shard_tokio::Tokio;

#[tokio::main]
async fn main() -> ExitCode {
    match cli::parse::<cli::Node>() {
        Ok(options) => failure::exit(terminal::run::<Tokio>(options).await),
        Err(code) => code,
    }
}
