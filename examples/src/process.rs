//! Node processes: what they are told, what they say, and how the program that started them sees them.

mod child;
mod member;

use core::time::Duration;
use std::path::PathBuf;

pub use child::{Child, Events};
pub use member::{orders, run_here};
use serde::{Deserialize, Serialize};

use crate::{failure::Failure, ledger::Place, runtimes::On, shape::Shape};

/// How long a node may take to start, to join or to stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first argument of a node process; the second one is its [`Orders`].
const MEMBER: &str = "--member";

/// What a node process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// Its name.
    pub name: String,
    /// Whom to join; nobody: it is the first one.
    pub seeds: Vec<String>,
    /// What all nodes agree on.
    pub shape: Shape,
    /// Where it listens and where others are to dial it, if that is not the same, or not any port of this machine.
    #[serde(default)]
    pub at: Option<(String, String)>,
    /// What it hosts.
    pub hosts: Hosts,
    /// What it runs on.
    pub on: On,
}

/// What a node process hosts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Hosts {
    /// Ledgers, which write their totals to this file.
    Ledgers {
        /// The file.
        book: PathBuf,
        /// Write each row before it is answered, so that a process that is killed leaves what it did.
        each_row: bool,
    },
    /// Ledgers that outlive their process, in a store that all nodes share.
    DurableLedgers(Place),
    /// Echoes.
    Echoes {
        /// How many may live at once; the default of the type, if nothing is said.
        max_entities: Option<u32>,
    },
}

/// What a node process says on stdout, a line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// It has started; this is its address.
    Listens(String),
    /// It takes part; this is its address.
    Ready(String),
    /// It has left and ends.
    Left,
    /// The others declared it down, or another one took its name: it ends.
    Removed,
}

/// What a node process is told on stdin, a line each. The end of stdin is a `stop`.
const LEAVE: &str = "leave";
const STOP: &str = "stop";

/// Waits, but not for ever.
///
/// # Errors
/// It took too long.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> Result<T, Failure> {
    let result = tokio::time::timeout(PATIENCE, future).await;
    result.map_err(|_| {
        Failure::run(format!(
            "waited {} s in vain until {what}",
            PATIENCE.as_secs()
        ))
    })
}
