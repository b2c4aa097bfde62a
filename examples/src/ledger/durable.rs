//! The ledger whose rows outlive it: each row is an event in a journal before it is answered.

use core::time::Duration;
use std::{path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};
use shard_tokio::{
    Context, Epoch,
    durable::{Effect, EventSourced, Sourced, decode_event},
    store::{
        EntityId, Journal, PostgresStore, SqliteStore, StoreError,
        sqlite::{Durability, SqliteConfig},
    },
};

use super::{Account, Entered, Entry};
use crate::{
    clock,
    failure::Failure,
    input::Input,
    service::{Probed, Served},
    totals::Totals,
    verdict::Part,
};

/// A ledger that is what its journal says.
#[derive(Debug)]
pub struct DurableLedger;

/// A row that was accounted for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Posted {
    account: Account,
    /// The allocation under which that was decided.
    epoch: u64,
    /// And when, by [`clock::micros`].
    at_us: u64,
}

impl Posted {
    /// The number of the row.
    #[must_use]
    pub const fn row(&self) -> u32 {
        self.account.row
    }
}

impl EventSourced for DurableLedger {
    const TYPE: &'static str = "ledger";
    type Command = Entry;
    type Reply = Entered;
    type Event = Posted;
    type State = Totals;

    fn create(_key: &str) -> Self {
        Self
    }

    async fn decide(
        &mut self,
        totals: &Totals,
        entry: Entry,
        cx: &Context<'_, Sourced<Self>>,
    ) -> Effect<Self> {
        let (epoch, at_us) = (cx.epoch().to_bits(), clock::micros());
        match entry {
            Entry::Row(account) => {
                let row = account.row;
                Effect::persist(Posted {
                    account,
                    epoch,
                    at_us,
                })
                .reply(Entered::Row(row))
            }
            Entry::Probe => Effect::none().reply(Entered::Probe(Served { epoch, at_us })),
            Entry::Totals => Effect::none().reply(Entered::Totals(totals.clone())),
        }
    }

    fn apply(totals: &mut Totals, Posted { account, .. }: &Posted) {
        totals.push(account.row, &account.values);
    }
}

impl Probed for Sourced<DurableLedger> {
    fn probe() -> Entry {
        Entry::Probe
    }

    fn served(answer: &Entered) -> Option<Served> {
        answer.served()
    }
}

/// Where a journal is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Place {
    /// A file.
    Sqlite(PathBuf),
    /// A database, by its URL.
    Postgres(String),
}

impl Place {
    /// Opens it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn open(&self) -> Result<Arc<dyn Journal>, Failure> {
        match self {
            Self::Sqlite(path) => {
                // What is killed here are processes, not machines.
                let config = SqliteConfig::new().with_durability(Durability::ProcessCrash);
                let store = SqliteStore::open_with(path, config).await;
                Ok(Arc::new(store.map_err(Failure::run)?))
            }
            Self::Postgres(url) => {
                let store = PostgresStore::connect(url).await;
                Ok(Arc::new(store.map_err(Failure::run)?))
            }
        }
    }
}

impl Place {
    /// What ids of entities begin with: a database knows those of former runs.
    #[must_use]
    pub fn prefix(&self) -> String {
        match self {
            Self::Sqlite(_) => String::new(),
            Self::Postgres(_) => format!("run-{}-{}/", clock::micros(), std::process::id()),
        }
    }

    /// Whether nobody holds it up.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn is_writable(&self) -> Result<bool, Failure> {
        match self {
            Self::Sqlite(path) => {
                // Longer than any transaction of processes that run.
                let config = SqliteConfig::new().with_busy_timeout(Duration::from_millis(200));
                let store = match SqliteStore::open_with(path, config).await {
                    Ok(store) => store,
                    Err(StoreError::Unavailable(_)) => return Ok(false),
                    Err(error) => return Err(Failure::run(error)),
                };
                let nobody = EntityId::new("nobody", "");
                match store.open(nobody, Epoch::NONE).await {
                    Ok(_) => Ok(true),
                    Err(StoreError::Unavailable(_)) => Ok(false),
                    Err(error) => Err(Failure::run(error)),
                }
            }
            // A transaction is one statement there, which the server does whoever is stopped.
            Self::Postgres(_) => Ok(true),
        }
    }
}

/// What a journal has of the rows of a file.
#[derive(Debug, Default)]
pub struct Journaled {
    /// Each key's events, cut where the epoch changes.
    pub parts: Vec<Part>,
    /// What each key's events add up to, in the order of [`Input::keys`].
    pub totals: Vec<Totals>,
    /// How many events there are.
    pub events: u64,
    /// How many of them have a lower epoch than one before: a former home wrote over its successor.
    pub overwritten: u64,
}

/// Reads all events of the keys of a file; `prefix` and a key make the id of its entity.
///
/// # Errors
/// The journal cannot be read, or has what no ledger writes.
pub async fn read_journal(
    journal: &dyn Journal,
    input: &Input,
    prefix: &str,
) -> Result<Journaled, Failure> {
    let mut read = Journaled::default();
    for key in input.keys() {
        let mut totals = Totals::default();
        let mut part: Option<Part> = None;
        let mut newest = 0;
        let mut last = 0;
        loop {
            let id = EntityId::new(DurableLedger::TYPE, format!("{prefix}{key}"));
            let page = journal.read(id, last, 1000).await.map_err(Failure::run)?;
            let Some(end) = page.last() else { break };
            last = end.seq;
            for recorded in page {
                let (seq, event) = (recorded.seq, decode_event::<DurableLedger>(&recorded.event));
                let Posted {
                    account,
                    epoch,
                    at_us,
                } = event.map_err(Failure::run)?;
                read.events += 1;
                read.overwritten += u64::from(epoch < newest);
                newest = newest.max(epoch);
                totals.push(account.row, &account.values);
                if part.as_ref().is_none_or(|part| part.epoch != epoch) {
                    read.parts.extend(part.take());
                }
                let part = part.get_or_insert_with(|| Part {
                    key: key.to_string(),
                    epoch,
                    life: seq,
                    totals: Totals::default(),
                    rows: Vec::new(),
                    from_us: at_us,
                    to_us: at_us,
                });
                part.totals.push(account.row, &account.values);
                part.rows.push(account.row);
                part.to_us = at_us;
            }
        }
        read.parts.extend(part);
        read.totals.push(totals);
    }
    Ok(read)
}
