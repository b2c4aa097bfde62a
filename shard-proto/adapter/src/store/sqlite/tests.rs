//! What needs a look into the file, or a hand on it: files of others, full disks, locks.

use core::sync::atomic::{AtomicU64, Ordering};
use std::env;
use std::fs;
use std::process;

use rusqlite::{Connection, OpenFlags};

use shard_proto::{Epoch, ShardId};

use super::*;
use crate::store::queue::Request;
use crate::store::{Append, Journal, Remember, Save, Store};

/// A folder of its own, gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("shard-sqlite-{}-{next}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("store.db")
    }

    /// The file, past the store.
    fn connection(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn entity(id: &str) -> EntityId {
    EntityId::new("cart", id)
}

fn append(id: &str, first_seq: u64, event: &[u8]) -> Append {
    Append {
        entity: entity(id),
        epoch: Epoch::from_bits(1),
        first_seq,
        events: vec![event.to_vec()],
        sequence: None,
    }
}

#[track_caller]
fn unavailable<T: fmt::Debug>(result: Result<T, StoreError>, because: &str) {
    match result {
        Err(error @ StoreError::Unavailable(_)) => {
            let said = error.to_string();
            assert!(said.contains(because), "{said}");
        }
        other => panic!("not unavailable: {other:?}"),
    }
}

#[track_caller]
fn corrupt<T: fmt::Debug>(result: Result<T, StoreError>, because: &str) {
    match result {
        Err(StoreError::Corrupt(said)) => assert!(said.contains(because), "{said}"),
        other => panic!("not corrupt: {other:?}"),
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let folder = Folder::new();
    SqliteStore::open(folder.file())
        .await
        .unwrap()
        .close()
        .await;
    let connection = folder.connection();
    connection
        .pragma_update(None, "user_version", schema::VERSION + 1)
        .unwrap();
    let refused = SqliteStore::open(folder.file()).await.unwrap_err();
    let StoreError::Version { found, known } = refused else {
        panic!("{refused}");
    };
    assert_eq!((found, known), (schema::VERSION + 1, schema::VERSION));
    let said = refused.to_string();
    assert!(
        said.contains("version 2") && said.contains("up to 1"),
        "{said}"
    );
}

#[tokio::test]
async fn files_of_others_are_left_alone() {
    let folder = Folder::new();
    folder
        .connection()
        .execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)")
        .unwrap();
    let before = fs::read(folder.file()).unwrap();
    let refused = SqliteStore::open(folder.file()).await;
    corrupt(refused, "something else");
    assert_eq!(fs::read(folder.file()).unwrap(), before);

    fs::write(folder.file(), "This is a letter. ".repeat(1000)).unwrap();
    let before = fs::read(folder.file()).unwrap();
    corrupt(SqliteStore::open(folder.file()).await, "not a database");
    assert_eq!(fs::read(folder.file()).unwrap(), before);

    // An empty file is nobody's.
    fs::write(folder.file(), "").unwrap();
    SqliteStore::open(folder.file()).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_opened_says_why() {
    let folder = Folder::new();
    let nowhere = folder.0.join("no/such/folder/store.db");
    unavailable(
        SqliteStore::open(&nowhere).await,
        "no/such/folder/store.db: its folder does not exist: make it",
    );
    unavailable(SqliteStore::open(&folder.0).await, "cannot be opened");
    unavailable(SqliteStore::open(":memory:").await, "memory");
}

/// Not the second time either, when all that is needed for reading is there.
#[tokio::test]
async fn a_read_only_file_is_not_opened() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file()).await.unwrap();
    store.append(append("a", 1, b"x")).await.unwrap();
    store.close().await;

    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags(folder.file(), read_only).unwrap();
    assert_eq!(schema::is_read_only(&reader), Ok(true));
    assert_eq!(schema::is_read_only(&folder.connection()), Ok(false));

    let mut permissions = fs::metadata(folder.file()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(folder.file(), permissions).unwrap();
    if fs::File::options().write(true).open(folder.file()).is_ok() {
        return; // root, whom modes do not hold up
    }
    for _ in 0..2 {
        match SqliteStore::open(folder.file()).await {
            Err(StoreError::Setting(said)) => {
                assert!(
                    said.ends_with("store.db is read-only: make it writable for this user"),
                    "{said}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A writer whose connection was first changed by `change`.
fn changed_writer(folder: &Folder, change: &str) -> WriteQueue {
    let config = SqliteConfig::new();
    let (connection, _) = schema::open(&folder.file(), config).unwrap();
    connection.execute_batch(change).unwrap();
    let counters = Arc::new(Counters::default());
    let (writes, queued) = WriteQueue::new(config.limits, Arc::clone(&counters));
    thread::spawn(move || writer::run(connection, queued, &config, &counters));
    writes
}

#[tokio::test]
async fn a_full_disk_refuses_what_does_not_fit() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file()).await.unwrap();
    store.append(append("a", 1, b"before")).await.unwrap();
    let full = changed_writer(&folder, "PRAGMA max_page_count = 40");
    let large = Request::Append(append("a", 2, &[7; 200_000]));
    unavailable(full.write(large).await, "the disk is full");
    // Nothing of it is there, and what fits is written.
    let small = Request::Append(append("a", 2, b"after"));
    full.write(small).await.unwrap();
    let events = store.read(entity("a"), 0, 10).await.unwrap();
    let events: Vec<_> = events.into_iter().map(|recorded| recorded.event).collect();
    assert_eq!(events, [b"before".to_vec(), b"after".to_vec()]);
}

#[tokio::test]
async fn a_read_only_disk_says_so() {
    let folder = Folder::new();
    let read_only = changed_writer(&folder, "PRAGMA query_only = 1");
    let request = Request::Append(append("a", 1, b"x"));
    unavailable(read_only.write(request).await, "read-only");
}

#[tokio::test]
async fn a_busy_file_is_unavailable_and_then_goes_on() {
    let folder = Folder::new();
    let config = SqliteConfig::new().with_busy_timeout(Duration::from_millis(20));
    let store = SqliteStore::open_with(folder.file(), config).await.unwrap();
    store.append(append("a", 1, b"x")).await.unwrap();
    let other = folder.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    unavailable(
        store.append(append("a", 2, b"y")).await,
        "busy for too long",
    );
    let opening = SqliteStore::open_with(folder.file(), config).await;
    unavailable(opening, "busy for too long");
    // Who only reads waits for nobody.
    assert_eq!(store.read(entity("a"), 0, 10).await.unwrap().len(), 1);
    other.execute_batch("ROLLBACK").unwrap();
    store.append(append("a", 2, b"y")).await.unwrap();
    assert_eq!(store.stats().failed, 1);
}

/// Requests that wait while another process writes are one group, and one that meets broken rows fails alone.
#[tokio::test]
async fn what_is_corrupt_fails_alone() {
    const WAITING: u64 = 50;
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file()).await.unwrap();
    let epoch = Epoch::from_bits(1);
    let record = store.record("cart".into(), ShardId(1), epoch, vec![]);
    record.await.unwrap();
    let other = folder.connection();
    other
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO living VALUES (1, X'FF')")
        .unwrap();
    let before = store.stats();
    let appends: Vec<_> = (0..WAITING)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.append(append(&n.to_string(), 1, b"x")).await })
        })
        .collect();
    let load = tokio::spawn({
        let store = store.clone();
        async move { Remember::load(&store, "cart".into(), ShardId(1), epoch, None, 10).await }
    });
    // Each is polled in its turn, and so queued; a second round lets all of them pass the queue's bounds.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    other.execute_batch("COMMIT").unwrap();
    for append in appends {
        append.await.unwrap().unwrap();
    }
    corrupt(load.await.unwrap(), "utf-8");
    assert_eq!(store.stats().writes - before.writes, WAITING);
}

/// What was read waits for the end of its transaction: not as many values as may be asked for at once.
#[tokio::test]
async fn a_transaction_ends_when_it_holds_as_many_bytes_as_may_be() {
    const VALUES: u64 = 40;
    let folder = Folder::new();
    let config = SqliteConfig::new().with_queue(1000, 8000);
    let store = SqliteStore::open_with(folder.file(), config).await.unwrap();
    let epoch = Epoch::from_bits(1);
    for n in 0..VALUES {
        let save = Save {
            entity: entity(&n.to_string()),
            epoch,
            revision: 1,
            state: Some(vec![n as u8; 1000]),
            sequence: None,
        };
        store.save(save).await.unwrap();
    }
    let before = store.stats();
    let other = folder.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let loads: Vec<_> = (0..VALUES)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { Store::load(&store, entity(&n.to_string()), epoch).await })
        })
        .collect();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    other.execute_batch("COMMIT").unwrap();
    for (n, load) in (0..VALUES).zip(loads) {
        let loaded = load.await.unwrap().unwrap();
        assert_eq!(loaded.state, Some(vec![n as u8; 1000]));
    }
    let after = store.stats();
    assert_eq!(after.writes - before.writes, VALUES);
    // The first one may have been taken before the others came.
    assert!(after.transactions - before.transactions >= 5, "{after:?}");
    assert!(after.largest_group <= 8, "{after:?}");
}

#[tokio::test]
async fn a_missing_event_is_no_end() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file()).await.unwrap();
    for seq in 1..=4 {
        store.append(append("a", seq, b"x")).await.unwrap();
    }
    let deleted = folder
        .connection()
        .execute("DELETE FROM event WHERE seq = 2", []);
    assert_eq!(deleted.unwrap(), 1);
    corrupt(store.read(entity("a"), 0, 10).await, "no event 2");
    assert_eq!(store.read(entity("a"), 2, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn closing_writes_what_waits_and_refuses_the_rest() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file()).await.unwrap();
    let other = folder.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting: Vec<_> = (0..20)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.append(append(&n.to_string(), 1, b"x")).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let closing = tokio::spawn({
        let store = store.clone();
        async move { store.close().await }
    });
    tokio::task::yield_now().await;
    let late = store.append(append("late", 1, b"x")).await;
    assert!(matches!(late, Err(StoreError::Closed)), "{late:?}");
    other.execute_batch("COMMIT").unwrap();
    for append in waiting {
        append.await.unwrap().unwrap();
    }
    closing.await.unwrap();
    let read = store.read(entity("0"), 0, 1).await;
    assert!(matches!(read, Err(StoreError::Closed)), "{read:?}");
    store.close().await;
    drop(other);
    // The last connection has tidied up: everything is in the one file.
    assert!(!folder.0.join("store.db-wal").exists());
    let again = SqliteStore::open(folder.file()).await.unwrap();
    let opened = again.open(entity("19"), Epoch::from_bits(1)).await.unwrap();
    assert_eq!(opened.last_seq, 1);
}

#[tokio::test]
async fn durability_is_what_was_asked_for() {
    let folder = Folder::new();
    for (durability, expected) in [(Durability::PowerCut, 2), (Durability::ProcessCrash, 1)] {
        let config = SqliteConfig::new().with_durability(durability);
        let (connection, _) = schema::open(&folder.file(), config).unwrap();
        let synchronous: i32 = connection
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .unwrap();
        assert_eq!(synchronous, expected);
    }
}
