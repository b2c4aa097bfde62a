//! SQLite: the suite, and what is only about files and processes.

use super::suite::{Backend, suite};
use shard_tokio::store::SqliteStore;
use shard_tokio::store::sqlite::SqliteConfig;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of its own, gone with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("shard-store-{}-{next}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("store.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Backend for Folder {
    type Handle = SqliteStore;
    const GROUPS: bool = true;
    const FOREVER: bool = true;

    async fn create() -> Option<Self> {
        Some(Self::new())
    }

    async fn open_with(&self, max_write: usize) -> SqliteStore {
        let config = SqliteConfig::new().with_max_write(max_write);
        SqliteStore::open_with(self.file(), config).await.unwrap()
    }

    async fn close(handle: SqliteStore) {
        handle.close().await;
    }
}

suite!(suite, Folder);
