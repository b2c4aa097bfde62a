//! One suite for all stores: what each of them must do, whatever it is made of.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

#[path = "store/suite.rs"]
mod suite;

#[cfg(all(unix, feature = "postgres"))]
#[path = "store/postgres.rs"]
mod postgres;
#[cfg(all(unix, feature = "postgres"))]
#[path = "store/server.rs"]
mod server;
#[cfg(feature = "sqlite")]
#[path = "store/sqlite.rs"]
mod sqlite;

#[cfg(feature = "sqlite")]
#[path = "store/processes.rs"]
mod processes;

use shard_tokio::store::{MAX_WRITE, MemoryStore};
use suite::{Backend, suite};

struct Memory(MemoryStore);

impl Backend for Memory {
    type Handle = MemoryStore;
    const GROUPS: bool = false;
    const FOREVER: bool = false;

    async fn create() -> Option<Self> {
        Some(Self(MemoryStore::new()))
    }

    async fn open_with(&self, max_write: usize) -> MemoryStore {
        self.0.clone().with_max_write(max_write)
    }
}

suite!(memory, Memory);

#[test]
fn the_default_limit_is_documented() {
    assert_eq!(MAX_WRITE, 64 * 1024 * 1024);
}
