//! The command lines.

use core::{net::SocketAddr, num::NonZeroU32};
use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

use crate::{
    failure::{self, Failure, say},
    input::{Columns, FLIGHTS, Input},
};

#[cfg(test)]
mod tests;

/// Parses the command line. `Err`: what `main` returns; help or a one-line error is already printed.
///
/// # Errors
/// The exit code: 0 after `--help` and `--version`, 2 after a mistake.
pub fn parse<C: Parser>() -> Result<C, ExitCode> {
    C::try_parse().map_err(|error| {
        if error.use_stderr() {
            eprintln!("{}", first_line(&error));
            ExitCode::from(2)
        } else {
            failure::exit(say(&error).map(|()| ExitCode::SUCCESS))
        }
    })
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    // What is missing or possible is listed on lines of its own, up to an empty one.
    let lines: Vec<_> = text
        .lines()
        .take_while(|line| !line.is_empty())
        .map(str::trim)
        .collect();
    lines.join(" ")
}

/// Accounts for the rows of a file in a cluster whose nodes come and go while it works.
///
/// Starts node processes and one proxy that asks the entity of each row's key to account for the row. After a third of
/// the rows another node joins, after two thirds one leaves. At the end it compares what the entities wrote with a
/// sequential computation. Exit code 0 only if every row was processed exactly once and in order.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Cluster {
    /// How many nodes to start with
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..=32))]
    pub nodes: u16,
    /// How many shards
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub shards: u32,
    /// The file: CSV with a header. Default: 20 000 flights
    #[arg(long, value_name = "FILE.csv")]
    pub input: Option<PathBuf>,
    /// The column that names the entity of a row
    #[arg(long, value_name = "COLUMN", default_value = "origin")]
    pub key: String,
    /// A column to add up, or `none`; may be repeated. Default: delay and distance, if the file has them
    #[arg(long, value_name = "COLUMN")]
    pub sum: Vec<String>,
    /// How many rows are asked for at a time
    #[arg(long, default_value = "128")]
    pub concurrency: NonZeroU32,
    /// After which row another node joins. Default: a third of the rows
    #[arg(long, value_name = "ROW")]
    pub join_at: Option<u32>,
    /// After which row a node leaves. Default: two thirds of the rows
    #[arg(long, value_name = "ROW")]
    pub leave_at: Option<u32>,
    /// Print one JSON object on stdout instead of a report
    #[arg(long)]
    pub json: bool,
}

impl Cluster {
    /// The file to read.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.input.clone().unwrap_or_else(|| FLIGHTS.into())
    }

    /// The columns to read.
    #[must_use]
    pub fn columns(&self) -> Columns {
        Columns {
            key: self.key.clone(),
            sums: self.sum.clone(),
        }
    }

    /// After which rows a node joins and one leaves.
    ///
    /// # Errors
    /// A row that the file does not have, or nobody who could leave.
    pub fn changes(&self, input: &Input) -> Result<Changes, Failure> {
        let rows = u32::try_from(input.len()).unwrap_or(u32::MAX);
        let at = |option, row: Option<u32>, default| match row {
            Some(row) if row > rows => Err(Failure::usage(format!(
                "{option} {row}: the file has only {rows} rows"
            ))),
            row => Ok(row.unwrap_or(default)),
        };
        let changes = Changes {
            join_at: at("--join-at", self.join_at, rows / 3)?,
            leave_at: at("--leave-at", self.leave_at, rows - rows / 3)?,
        };
        if self.nodes == 1 && changes.leave_at <= changes.join_at {
            return Err(Failure::usage(format!(
                "--leave-at {}: the only node cannot leave before another one has joined",
                changes.leave_at
            )));
        }
        Ok(changes)
    }
}

/// When the cluster changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// After how many rows a node joins.
    pub join_at: u32,
    /// After how many rows a node leaves.
    pub leave_at: u32,
}

/// A cluster by hand.
const NODES: &str = "\
For example, each in a terminal of its own:
  cargo run -p examples --bin node -- --name a --listen 127.0.0.1:7001
  cargo run -p examples --bin node -- --name b --listen 127.0.0.1:7002 --seed 127.0.0.1:7001
  cargo run -p examples --bin node -- --name c --listen 127.0.0.1:7003 --seed 127.0.0.1:7001
  cargo run -p examples --bin send -- --seed 127.0.0.1:7001 user-42 hello";

/// A node of a cluster. Start a few in terminals of their own, and talk to their entities with `send`.
///
/// Ctrl-C leaves the cluster: every shard is handed off first. With LOG=info or LOG=debug in the environment it says more.
#[derive(Clone, Debug, Parser)]
#[command(version, after_help = NODES)]
pub struct Node {
    /// The node's name; unique in the cluster
    #[arg(long)]
    pub name: String,
    /// Where it listens, for example 127.0.0.1:7001
    #[arg(long, value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// The address of another node; may be repeated. None: this is the first node
    #[arg(long, value_name = "ADDRESS")]
    pub seed: Vec<SocketAddr>,
    /// How many shards; the same on all nodes
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub shards: u32,
    /// Host nothing, only route
    #[arg(long)]
    pub proxy: bool,
}

/// Sends a message to an entity and prints the answer.
#[derive(Clone, Debug, Parser)]
#[command(version, after_help = NODES)]
pub struct Send {
    /// The address of a node; may be repeated
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub seed: Vec<SocketAddr>,
    /// How many shards; the same as on the nodes
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub shards: u32,
    /// How many times to send it
    #[arg(long, default_value = "1")]
    pub repeat: NonZeroU32,
    /// Milliseconds between two messages
    #[arg(long, value_name = "MS", default_value = "500")]
    pub every: u64,
    /// The entity, for example user-42
    pub entity: String,
    /// The message
    #[arg(default_value = "hello")]
    pub message: String,
}

/// Shows the protocol core at work: two regions and a coordinator without any I/O, what goes in and what comes out.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct InMemory {}

/// Measures what this machine can do and what the sharded entities make of it, in one run.
///
/// The floor of a row is the same work without the layer: a bare channel on the same node, a bare socket to another
/// process.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Bench {
    /// Print one JSON object on stdout instead of a table
    #[arg(long)]
    pub json: bool,
    /// Run one row, named as in its key, like `local_ask`; may be repeated
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// A smoke run: checks that every row works, measures nothing of worth
    #[arg(long)]
    pub quick: bool,
}
