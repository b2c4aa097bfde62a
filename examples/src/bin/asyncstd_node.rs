//! A node of a cluster as `node`, on async-std. The others may run on tokio.

use std::process::ExitCode;

use examples::{cli, failure, terminal};
use shard_asyncstd::AsyncStd;

fn main() -> ExitCode {
    match cli::parse::<cli::Node>() {
        Ok(options) => {
            let run = terminal::run::<AsyncStd>(options);
            failure::exit(async_std::task::block_on(run))
        }
        Err(code) => code,
    }
}
