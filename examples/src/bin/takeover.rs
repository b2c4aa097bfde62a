//! How long shards are without service when their node hangs, over many runs.

use std::process::ExitCode;

use examples::{cli, failure, process, takeover};

fn main() -> ExitCode {
    if let Some(orders) = process::orders() {
        return failure::exit(orders.and_then(process::run_here));
    }
    match cli::parse::<cli::Takeover>() {
        Ok(options) => failure::exit(takeover::run_here(&options)),
        Err(code) => code,
    }
}
