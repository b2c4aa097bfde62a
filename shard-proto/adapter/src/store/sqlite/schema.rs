//! Opening the file, and the tables in it.

use core::time::Duration;
use std::path::Path;
use std::thread;
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};

use super::fault::{Fault, is_busy};
use super::{Durability, SqliteConfig};
use crate::store::StoreError;

/// Of the tables below. A change of them takes the next number, and steps from all earlier ones.
pub(super) const VERSION: u32 = 1;
/// Says whose file it is: `shrd`.
const APPLICATION: i32 = 0x7368_7264;

/// Names are blobs: the functions of SQLite stop at a NUL in a text. Epochs and senders are `u64` with the same bits.
const TABLES: &str = "
    -- The store's own id.
    CREATE TABLE store (one INTEGER PRIMARY KEY CHECK (one = 1), id INTEGER NOT NULL) STRICT;
    -- kind 0: of a journal, number is that of the last event. 1: of a value, number is the revision.
    -- uses: counts what was kept of senders.
    CREATE TABLE entity (
        key INTEGER PRIMARY KEY,
        kind INTEGER NOT NULL,
        type BLOB NOT NULL,
        id BLOB NOT NULL,
        epoch INTEGER NOT NULL,
        number INTEGER NOT NULL,
        uses INTEGER NOT NULL,
        UNIQUE (kind, type, id)
    ) STRICT;
    CREATE TABLE event (
        entity INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        event BLOB NOT NULL,
        PRIMARY KEY (entity, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE snapshot (
        entity INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        state BLOB NOT NULL
    ) STRICT;
    CREATE TABLE value (entity INTEGER PRIMARY KEY, state BLOB NOT NULL) STRICT;
    -- used: the entity's uses when it was heard of last.
    CREATE TABLE sender (
        entity INTEGER NOT NULL,
        sender INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        used INTEGER NOT NULL,
        PRIMARY KEY (entity, sender)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE shard (
        key INTEGER PRIMARY KEY,
        type BLOB NOT NULL,
        shard INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        UNIQUE (type, shard)
    ) STRICT;
    CREATE TABLE living (
        shard INTEGER NOT NULL,
        id BLOB NOT NULL,
        PRIMARY KEY (shard, id)
    ) STRICT, WITHOUT ROWID;
";

/// Between two attempts to get the file's lock, which nobody tells the end of.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LAST_PAUSE: Duration = Duration::from_millis(2);

/// What is opened besides the connection that writes.
pub(super) struct Rest {
    pub(super) reader: Connection,
    pub(super) id: u64,
}

pub(super) fn open(path: &Path, config: SqliteConfig) -> Result<(Connection, Rest), StoreError> {
    let named = |error: StoreError| match error {
        StoreError::Unavailable(what) => {
            StoreError::Unavailable(format!("{}: {what}", path.display()).into())
        }
        StoreError::Corrupt(what) => StoreError::Corrupt(format!("{}: {what}", path.display())),
        other => other,
    };
    connect(path, config).map_err(named)
}

fn connect(path: &Path, config: SqliteConfig) -> Result<(Connection, Rest), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let create = OpenFlags::SQLITE_OPEN_CREATE;
    let writer = Connection::open_with_flags(path, flags | create).map_err(|error| {
        if has_no_folder(path) {
            let what = format!("its folder does not exist: make it ({error})");
            return StoreError::Unavailable(what.into());
        }
        fault(error)
    })?;
    if is_read_only(&writer).map_err(fault)? {
        return Err(StoreError::Setting(format!(
            "{} is read-only: make it writable for this user",
            path.display()
        )));
    }
    let patience = config.busy_timeout;
    // Instead of it there is `retry`.
    writer.busy_timeout(Duration::ZERO).map_err(fault)?;

    // Before anything is changed: it may be somebody else's. As of one moment: another process may be making it.
    retry(patience, || {
        let moment = writer.unchecked_transaction()?;
        check(&moment)
    })?;
    let mode: String = retry(patience, || {
        // Not a statement of a transaction. It takes every lock once, and then never again.
        Ok(writer.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?)
    })?;
    if mode != "wal" {
        return Err(StoreError::Unavailable(
            format!("its file system has no shared memory: the journal mode is {mode}, not wal")
                .into(),
        ));
    }
    settle(&writer, config).map_err(fault)?;
    begin(&writer, patience).map_err(fault)?;
    let id = match make(&writer) {
        Ok(id) => id,
        Err(error) => {
            // Closing it would do the same.
            let _ = writer.execute_batch("ROLLBACK");
            return Err(error.into());
        }
    };
    writer.execute_batch("COMMIT").map_err(fault)?;

    let reader = Connection::open_with_flags(path, flags).map_err(fault)?;
    reader.busy_timeout(patience).map_err(fault)?;
    reader
        .pragma_update(None, "query_only", true)
        .map_err(fault)?;
    Ok((writer, Rest { reader, id }))
}

/// SQLite opens a file for reading if it may not write to it, and begins no transaction of a writer then, without a word.
pub(super) fn is_read_only(connection: &Connection) -> rusqlite::Result<bool> {
    connection.is_readonly("main")
}

fn has_no_folder(path: &Path) -> bool {
    path.parent()
        .is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.exists())
}

fn fault(error: rusqlite::Error) -> StoreError {
    Fault::before_commit(&error).into()
}

/// Settings of a connection, which are not kept in the file.
fn settle(writer: &Connection, config: SqliteConfig) -> rusqlite::Result<()> {
    let synchronous = match config.durability {
        Durability::PowerCut => "FULL",
        Durability::ProcessCrash => "NORMAL",
    };
    writer.pragma_update(None, "synchronous", synchronous)?;
    // Only where a plain flush stays in the disk's cache (macOS).
    writer.pragma_update(None, "fullfsync", config.durability == Durability::PowerCut)?;
    // In KiB when negative.
    writer.pragma_update(None, "cache_size", -16 * 1024)?;
    writer.set_prepared_statement_cache_capacity(64);
    Ok(())
}

enum Refused {
    Fault(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(error)
    }
}

impl From<Refused> for StoreError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Fault(error) => fault(error),
            Refused::Store(error) => error,
        }
    }
}

/// Whether it is a store that this version knows (`true`), or nothing yet.
fn check(connection: &Connection) -> Result<bool, Refused> {
    let application: i32 = pragma(connection, "application_id")?;
    let version: u32 = pragma(connection, "user_version")?;
    if application != APPLICATION {
        let tables: u32 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if application == 0 && version == 0 && tables == 0 {
            return Ok(false);
        }
        return Err(Refused::Store(StoreError::Corrupt(
            "the file is a database of something else".to_owned(),
        )));
    }
    if version > VERSION {
        return Err(Refused::Store(StoreError::Version {
            found: version,
            known: VERSION,
        }));
    }
    Ok(true)
}

fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> rusqlite::Result<T> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// Makes the tables and the id, if another process has not by now. In a transaction.
fn make(writer: &Connection) -> Result<u64, Refused> {
    if !check(writer)? {
        writer.execute_batch(TABLES)?;
        writer.execute(
            "INSERT INTO store (one, id) SELECT 1, CASE r WHEN 0 THEN 1 ELSE r END FROM (SELECT random() AS r)",
            [],
        )?;
        writer.pragma_update(None, "application_id", APPLICATION)?;
        writer.pragma_update(None, "user_version", VERSION)?;
    }
    let id: i64 = writer.query_row("SELECT id FROM store", [], |row| row.get(0))?;
    if id == 0 {
        return Err(Refused::Store(StoreError::Corrupt(
            "its id is 0".to_owned(),
        )));
    }
    Ok(id.cast_unsigned())
}

/// Takes the file's write lock, for which it waits.
pub(super) fn begin(writer: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let attempt = || Ok(writer.prepare_cached("BEGIN IMMEDIATE")?.execute([])?);
    match retry(patience, attempt) {
        Ok(_) => Ok(()),
        Err(Refused::Fault(error)) => Err(error),
        // An attempt has no other errors.
        Err(Refused::Store(_)) => Err(rusqlite::Error::InvalidQuery),
    }
}

/// SQLite's own way of waiting sleeps for up to 100 ms, which is much longer than transactions are.
fn retry<T>(
    patience: Duration,
    mut attempt: impl FnMut() -> Result<T, Refused>,
) -> Result<T, Refused> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt() {
            Err(Refused::Fault(error)) if is_busy(&error) && start.elapsed() < patience => {
                thread::sleep(pause);
                pause = (pause * 2).min(LAST_PAUSE);
            }
            result => return result,
        }
    }
}
