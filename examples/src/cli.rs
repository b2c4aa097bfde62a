//! The command lines.

mod plan;
#[cfg(test)]
mod tests;

use core::{net::SocketAddr, num::NonZeroU32, str::FromStr, time::Duration};
use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, ValueEnum, error::ErrorKind};

pub use self::plan::{Plan, Step};
use crate::{
    failure::{self, Failure, say},
    fleet::node_name,
    input::{Columns, FLIGHTS},
    runtimes::Runtimes,
    shape::{Secured, Shape},
};

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
    let mut line = lines.join(" ");
    if error.kind() == ErrorKind::UnknownArgument {
        line.push_str("; try --help");
    }
    line
}

/// Accounts for the rows of a file in a cluster whose nodes come and go while it works.
///
/// Starts node processes and one proxy that asks the entity of each row's key to account for the row. After a third of
/// the rows another node joins, after two thirds one leaves; with --kill-at and --freeze-at nodes fail in between, and
/// are started again or woken. At the end it compares what the entities know and wrote with a sequential computation, and how
/// long shards were without service with the bounds. Exit code 0 only if every row was processed exactly once and in
/// order (or, where a node failed, reported to its caller as one that surely or perhaps was not), and no bound was
/// exceeded.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Cluster {
    /// How many nodes to start with; the first one, three or five vote
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
    /// After which row a node leaves, the leading one if it can be done without. Default: two thirds of the rows, and
    /// after everything that fails
    #[arg(long, value_name = "ROW")]
    pub leave_at: Option<u32>,
    /// After which row a node is killed: `leader` (default), `other` or a name like node-b. It is started again when
    /// its shards have new homes. May be repeated
    #[arg(long, value_name = "ROW[:WHO]", value_delimiter = ',')]
    pub kill_at: Vec<At>,
    /// After which row a node freezes, and who, as above: its process is stopped, and woken after --freeze-for. May be
    /// repeated
    #[arg(long, value_name = "ROW[:WHO]", value_delimiter = ',')]
    pub freeze_at: Vec<At>,
    /// For how many milliseconds. Default: a second longer than the lease
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=25_000))]
    pub freeze_for: Option<u64>,
    /// Who may serve a shard: whoever has a lease, or whoever membership says
    #[arg(long, value_enum, default_value_t)]
    pub ownership: Owning,
    /// Where the entities keep their rows: in a file or database that all nodes share, from which an entity recovers wherever
    /// it goes on; or in memory, to be added up at the end
    #[arg(long, value_enum, default_value_t)]
    pub store: Storing,
    /// What the nodes run on. A database needs tokio
    #[arg(long, value_enum, default_value_t)]
    pub runtime: Runtimes,
    /// The database, for example postgres://user:password@localhost/name; needs --store postgres
    #[arg(long, value_name = "URL", required_if_eq("store", "postgres"))]
    pub postgres_url: Option<String>,
    /// How the processes reach each other: over mutual TLS or QUIC, with certificates made for the run, or over plain TCP
    #[arg(long, value_enum, default_value_t)]
    pub transport: Carrying,
    /// Times for networks with round trips below 10 ms: failures are over in a third of the time
    #[arg(long)]
    pub lan: bool,
    /// Measure times without service, but do not judge them: for busy machines
    #[arg(long)]
    pub no_bounds: bool,
    /// Print one JSON object on stdout instead of a report
    #[arg(long)]
    pub json: bool,
}

/// How nodes reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Carrying {
    /// Plain: whoever connects is believed.
    Tcp,
    /// Encrypted, and both sides show certificates.
    #[default]
    Tls,
    /// The same in datagrams, with several streams.
    Quic,
}

/// How nodes that show certificates reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Securing {
    /// TLS over TCP.
    #[default]
    Tls,
    /// QUIC.
    Quic,
}

/// As nodes that have a folder with certificates are told.
fn secured(folder: Option<&PathBuf>, transport: Securing) -> Option<Secured> {
    folder.map(|folder| Secured {
        folder: folder.clone(),
        quic: transport == Securing::Quic,
    })
}

/// Who may serve a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Owning {
    /// A node that a quorum of voters supports, through the leader: never two.
    #[default]
    Lease,
    /// Whom membership names, at once: two for a while, when it is wrong.
    Trust,
}

/// Where entities keep what they know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Storing {
    /// In their process: an entity that goes on elsewhere begins anew there.
    Memory,
    /// In one SQLite file.
    #[default]
    Sqlite,
    /// In a PostgreSQL database.
    Postgres,
}

/// Where and to whom something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// After which row.
    pub row: u32,
    /// To whom.
    pub who: Who,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The one that leads.
    Leader,
    /// One that does not.
    Other,
    /// The one of that name.
    Named(String),
}

impl Owning {
    fn voters(self, voters: Vec<String>) -> Vec<String> {
        match self {
            Self::Lease => voters,
            Self::Trust => Vec::new(),
        }
    }
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (row, who) = text.split_once(':').unwrap_or((text, "leader"));
        let row = row.parse().map_err(|_| "not a row's number".to_owned())?;
        let who = match who {
            "leader" => Who::Leader,
            "other" => Who::Other,
            "" => return Err("no node behind the colon".to_owned()),
            name => Who::Named(name.to_owned()),
        };
        Ok(Self { row, who })
    }
}

impl Cluster {
    /// Whether the options go together, as far as clap does not look.
    ///
    /// # Errors
    /// One of them would have no effect.
    pub fn check(&self) -> Result<(), Failure> {
        if self.postgres_url.is_some() && self.store != Storing::Postgres {
            return Err(Failure::usage("--postgres-url needs --store postgres"));
        }
        if self.store == Storing::Postgres && self.runtime != Runtimes::Tokio {
            return Err(Failure::usage("--store postgres needs --runtime tokio"));
        }
        Ok(())
    }

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

    /// What all nodes agree on.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let voters = match self.nodes {
            1 => 1,
            // With two nodes, the one that joins is the third voter.
            2..5 => 3,
            _ => 5,
        };
        let voters = (0..voters).map(node_name).collect();
        Shape {
            shards: self.shards,
            voters: self.ownership.voters(voters),
            lan: self.lan,
            tls: None,
        }
    }

    /// How long a node is frozen.
    #[must_use]
    pub fn freeze_for(&self) -> Duration {
        let longer = self.shape().lease() + Duration::from_secs(1);
        self.freeze_for.map_or(longer, Duration::from_millis)
    }
}

/// Measures how long shards are without service when their node hangs.
///
/// Starts three node processes and a proxy that asks every shard again and again. Then it stops one of the processes
/// until its shards are served elsewhere, lets it go on, waits until it takes part again, and so on: as many times a
/// node that does not lead as the one that does. Prints the distribution of the longest time without service of a
/// shard. Exit code 0 only if none exceeded the bound, and no shard was served by two homes at once.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Takeover {
    /// How many times each node hangs, one that does not lead and one that does
    #[arg(long, default_value = "50")]
    pub runs: NonZeroU32,
    /// How many shards
    #[arg(long, default_value = "64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub shards: u32,
    /// Times for networks with round trips below 10 ms
    #[arg(long)]
    pub lan: bool,
    /// Print one JSON object on stdout instead of a report
    #[arg(long)]
    pub json: bool,
}

/// A cluster by hand.
const NODES: &str = "\
For example, each in a terminal of its own:
  cargo run -p examples --bin node -- --name a --listen 127.0.0.1:7001
  cargo run -p examples --bin node -- --name b --listen 127.0.0.1:7002 --seed 127.0.0.1:7001
  cargo run -p examples --bin node -- --name c --listen 127.0.0.1:7003 --seed 127.0.0.1:7001
  cargo run -p examples --bin send -- --seed 127.0.0.1:7001 user-42 hello
With certificates, so that nobody else can take part: make them first, and add --tls certs to each of the commands.
  cargo run -p examples --bin certs -- --out certs --cluster demo a b c send
They serve as soon as two of the three voters (a, b and c, unless --voters says otherwise) are up.";

/// Makes a cluster's authority, if the folder has none, and certificates for its nodes and clients.
///
/// The folder is what `node` and `send` take with --tls. Certificates that are there are replaced; nodes read the new ones by
/// themselves. Each node needs ca.pem and its own two files; ca.key signs, and belongs in a safe place.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Certs {
    /// The folder
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// The cluster's name
    #[arg(long, value_name = "NAME")]
    pub cluster: String,
    /// The name of a client; may be repeated
    #[arg(long, value_name = "NAME")]
    pub client: Vec<String>,
    /// How long the certificates are good
    #[arg(long, default_value = "365", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
    /// The names of nodes
    #[arg(value_name = "NODE", required_unless_present = "client")]
    pub nodes: Vec<String>,
}

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
    /// Where the others reach it, if not where it listens
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Option<SocketAddr>,
    /// Names of the 1, 3 or 5 nodes that vote, the same everywhere: the others serve only while a majority of them is up
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "a,b,c"
    )]
    pub voters: Vec<String>,
    /// Who may serve a shard, the same everywhere: whoever has a lease, or whoever membership says
    #[arg(long, value_enum, default_value_t)]
    pub ownership: Owning,
    /// Times for networks with round trips below 10 ms, on all nodes or none
    #[arg(long)]
    pub lan: bool,
    /// A folder with certificates, made by `certs`: nodes show them to each other, over TLS. Without it whoever connects
    /// is believed
    #[arg(long, value_name = "FOLDER")]
    pub tls: Option<PathBuf>,
    /// What the certificates are for, the same on all nodes
    #[arg(long, value_enum, default_value_t, requires = "tls")]
    pub transport: Securing,
    /// Whoever is linked is a member, on all nodes or none, and each has all others as seeds: a cluster for `device`
    #[arg(long)]
    pub links: bool,
}

/// A node like `node`, without an async runtime: the core on std threads and blocking sockets.
///
/// A line `ENTITY TEXT` on stdin asks an entity, like `send`; `leave`, or Ctrl-C, leaves.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Threads {
    /// The node's name; unique in the cluster
    #[arg(long)]
    pub name: String,
    /// Where it listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// The address of another node; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub seed: Vec<String>,
    /// How many shards; the same on all nodes
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub shards: u32,
    /// Names of the 1, 3 or 5 nodes that vote, the same everywhere
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "a,b,c"
    )]
    pub voters: Vec<String>,
}

/// A cluster for it by hand.
const DEVICE: &str = "\
For example, each in a terminal of its own:
  cargo run -p examples --bin node -- --name a --voters a --shards 6 --links --listen 127.0.0.1:7001
  cargo run -p examples --bin device -- --name device --voters a --seed 127.0.0.1:7001
and in the latter: `user-42 hello`, `host`, `leave`.";

/// The node without an allocator of `examples/no_alloc`, in a cluster of nodes that were started with `node --links`.
///
/// It begins as a proxy. Lines on stdin: `ENTITY TEXT` asks an entity, `host` begins to host shards, `leave` hands them off
/// and leaves.
#[derive(Clone, Debug, Parser)]
#[command(version, after_help = DEVICE)]
pub struct Device {
    /// The node's name; unique in the cluster
    #[arg(long)]
    pub name: String,
    /// The address of another node; one for each of them
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub seed: Vec<String>,
    /// How many shards; the same on all nodes
    #[arg(long, default_value = "6", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub shards: u32,
    /// Names of the 1, 3 or 5 nodes that vote, the same everywhere
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "a,b,c"
    )]
    pub voters: Vec<String>,
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
    /// Names of the 1, 3 or 5 nodes that vote, the same everywhere: the others serve only while a majority of them is up
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "a,b,c"
    )]
    pub voters: Vec<String>,
    /// Who may serve a shard, the same everywhere: whoever has a lease, or whoever membership says
    #[arg(long, value_enum, default_value_t)]
    pub ownership: Owning,
    /// Times for networks with round trips below 10 ms, on all nodes or none
    #[arg(long)]
    pub lan: bool,
    /// A folder with certificates, made by `certs`: nodes show them to each other, over TLS. Without it whoever connects
    /// is believed
    #[arg(long, value_name = "FOLDER")]
    pub tls: Option<PathBuf>,
    /// What the certificates are for, the same on all nodes
    #[arg(long, value_enum, default_value_t, requires = "tls")]
    pub transport: Securing,
    /// The name in the certificate. Default: send
    #[arg(long, requires = "tls")]
    pub name: Option<String>,
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

impl Node {
    /// What all nodes agree on.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape {
            shards: self.shards,
            voters: self.ownership.voters(self.voters.clone()),
            lan: self.lan,
            tls: secured(self.tls.as_ref(), self.transport),
        }
    }
}

impl Send {
    /// The name as a node.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.name, &self.tls) {
            (Some(name), _) => name.clone(),
            (None, Some(_)) => "send".to_owned(),
            (None, None) => format!("send-{}", std::process::id()),
        }
    }

    /// What all nodes agree on.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape {
            shards: self.shards,
            voters: self.ownership.voters(self.voters.clone()),
            lan: self.lan,
            tls: secured(self.tls.as_ref(), self.transport),
        }
    }
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
    /// Measure only what goes over this transport
    #[arg(long, value_enum)]
    pub transport: Option<Carrying>,
    /// Run one row, named as in its key, like `local_ask`; may be repeated
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// A smoke run: checks that every row works, measures nothing of worth
    #[arg(long)]
    pub quick: bool,
}
