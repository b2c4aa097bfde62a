//! Accounts for the rows of a file in a cluster whose nodes come and go while it works.

use std::process::ExitCode;

use examples::{cli, cluster, failure, process};

fn main() -> ExitCode {
    if let Some(orders) = process::orders() {
        return failure::exit(orders.and_then(process::run_here));
    }
    match cli::parse::<cli::Cluster>() {
        Ok(options) => failure::exit(cluster::run_here(&options)),
        Err(code) => code,
    }
}
