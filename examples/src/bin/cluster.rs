//! Accounts for the rows of a file in a cluster whose nodes come and go while it works.

use std::process::ExitCode;

use examples::{
    cli, cluster,
    failure::{self, Failure},
    process,
};

fn main() -> ExitCode {
    if let Some(orders) = process::orders() {
        return failure::exit(orders.and_then(|orders| block_on(process::run(orders))));
    }
    match cli::parse::<cli::Cluster>() {
        Ok(options) => failure::exit(block_on(cluster::run(&options))),
        Err(code) => code,
    }
}

/// Each process has a thread of its own: they share the machine's cores.
fn block_on(work: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
