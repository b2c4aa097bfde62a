//! What a request does within a transaction: it is checked before anything is written, so that one that is refused
//! leaves nothing behind.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use shard_proto::{Epoch, ShardId};

use crate::store::check;
use crate::store::queue::{Outcome, Request};
use crate::store::{
    Append, EntityId, Loaded, MAX_SENDERS, Opened, PAGE_BYTES, Save, Sequence, Snapshot, StoreError,
};

/// `entity.kind` of a journal.
pub(super) const JOURNAL: i64 = 0;
/// `entity.kind` of a value.
const VALUE: i64 = 1;

pub(super) enum Failure {
    /// The request is refused, alone.
    Refused(StoreError),
    /// The transaction cannot go on.
    Sqlite(rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

pub(super) fn apply(connection: &Connection, request: &Request) -> Result<Outcome, Failure> {
    match request {
        Request::Open { entity, epoch } => open(connection, entity, *epoch).map(Outcome::Opened),
        Request::Append(request) => append(connection, request).map(|()| Outcome::Done),
        Request::Snapshot {
            entity,
            epoch,
            seq,
            state,
        } => snapshot(connection, entity, *epoch, *seq, state).map(|()| Outcome::Done),
        Request::Load { entity, epoch } => load(connection, entity, *epoch).map(Outcome::Loaded),
        Request::Save(request) => save(connection, request).map(|()| Outcome::Done),
        Request::Ids {
            entity_type,
            shard,
            epoch,
            after,
            limit,
        } => {
            let shard = enter(connection, entity_type, *shard, *epoch)?;
            Ok(Outcome::Ids(ids(
                connection,
                shard,
                after.as_deref(),
                *limit,
            )?))
        }
        Request::Record {
            entity_type,
            shard,
            epoch,
            changes,
        } => {
            let shard = enter(connection, entity_type, *shard, *epoch)?;
            record(connection, shard, changes)?;
            Ok(Outcome::Done)
        }
    }
}

/// The row of an entity.
struct Known {
    /// `None`: it has none yet.
    key: Option<i64>,
    epoch: Epoch,
    number: u64,
    uses: i64,
}

/// What is known of an entity that `epoch` may write to.
fn admit(
    connection: &Connection,
    kind: i64,
    entity: &EntityId,
    epoch: Epoch,
) -> Result<Known, Failure> {
    let known = connection
        .prepare_cached(
            "SELECT key, epoch, number, uses FROM entity WHERE kind = ?1 AND type = ?2 AND id = ?3",
        )?
        .query_row(
            params![kind, entity.entity_type.as_bytes(), entity.id.as_bytes()],
            |row| {
                Ok(Known {
                    key: Some(row.get(0)?),
                    epoch: Epoch::from_bits(unsigned(row, 1)?),
                    number: unsigned(row, 2)?,
                    uses: row.get(3)?,
                })
            },
        )
        .optional()?
        .unwrap_or(Known {
            key: None,
            epoch: Epoch::NONE,
            number: 0,
            uses: 0,
        });
    check::fence(known.epoch, epoch)?;
    Ok(known)
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(i64::cast_unsigned)
}

/// Writes the row of an entity, and says its key.
fn keep(
    connection: &Connection,
    kind: i64,
    entity: &EntityId,
    known: &Known,
) -> rusqlite::Result<i64> {
    let epoch = known.epoch.to_bits().cast_signed();
    let number = known.number.cast_signed();
    if let Some(key) = known.key {
        connection
            .prepare_cached("UPDATE entity SET epoch = ?2, number = ?3, uses = ?4 WHERE key = ?1")?
            .execute(params![key, epoch, number, known.uses])?;
        return Ok(key);
    }
    connection
        .prepare_cached(
            "INSERT INTO entity (kind, type, id, epoch, number, uses) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .insert(params![
            kind,
            entity.entity_type.as_bytes(),
            entity.id.as_bytes(),
            epoch,
            number,
            known.uses
        ])
}

/// Raises the fence, which costs nothing if it is there already.
fn raise(
    connection: &Connection,
    kind: i64,
    entity: &EntityId,
    epoch: Epoch,
) -> Result<(Known, i64), Failure> {
    let mut known = admit(connection, kind, entity, epoch)?;
    let key = match known.key {
        Some(key) if known.epoch == epoch => key,
        _ => {
            known.epoch = epoch;
            keep(connection, kind, entity, &known)?
        }
    };
    Ok((known, key))
}

fn open(connection: &Connection, entity: &EntityId, epoch: Epoch) -> Result<Opened, Failure> {
    let (known, key) = raise(connection, JOURNAL, entity, epoch)?;
    let snapshot = connection
        .prepare_cached("SELECT seq, state FROM snapshot WHERE entity = ?1")?
        .query_row([key], |row| {
            Ok(Snapshot {
                seq: unsigned(row, 0)?,
                state: row.get(1)?,
            })
        })
        .optional()?;
    Ok(Opened {
        snapshot,
        last_seq: known.number,
        senders: senders(connection, key)?,
    })
}

fn append(connection: &Connection, append: &Append) -> Result<(), Failure> {
    let mut known = admit(connection, JOURNAL, &append.entity, append.epoch)?;
    check::next(known.number, append.first_seq)?;
    known.epoch = append.epoch;
    known.number += append.events.len() as u64;
    known.uses += i64::from(append.sequence.is_some());
    let key = keep(connection, JOURNAL, &append.entity, &known)?;
    let mut insert =
        connection.prepare_cached("INSERT INTO event (entity, seq, event) VALUES (?1, ?2, ?3)")?;
    for (event, seq) in append.events.iter().zip(append.first_seq..) {
        insert.execute(params![key, seq.cast_signed(), event])?;
    }
    keep_sender(connection, key, append.sequence, known.uses)?;
    Ok(())
}

fn snapshot(
    connection: &Connection,
    entity: &EntityId,
    epoch: Epoch,
    seq: u64,
    state: &[u8],
) -> Result<(), Failure> {
    let mut known = admit(connection, JOURNAL, entity, epoch)?;
    let present = connection
        .prepare_cached("SELECT seq FROM snapshot WHERE entity = ?1")?
        .query_row([known.key], |row| unsigned(row, 0))
        .optional()?;
    check::snapshot(known.number, present, seq)?;
    known.epoch = epoch;
    let key = keep(connection, JOURNAL, entity, &known)?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO snapshot (entity, seq, state) VALUES (?1, ?2, ?3)")?
        .execute(params![key, seq.cast_signed(), state])?;
    Ok(())
}

fn load(connection: &Connection, entity: &EntityId, epoch: Epoch) -> Result<Loaded, Failure> {
    let (known, key) = raise(connection, VALUE, entity, epoch)?;
    let state = connection
        .prepare_cached("SELECT state FROM value WHERE entity = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()?;
    Ok(Loaded {
        revision: known.number,
        state,
        senders: senders(connection, key)?,
    })
}

fn save(connection: &Connection, save: &Save) -> Result<(), Failure> {
    let mut known = admit(connection, VALUE, &save.entity, save.epoch)?;
    check::next(known.number, save.revision)?;
    known.epoch = save.epoch;
    known.number = save.revision;
    known.uses += i64::from(save.sequence.is_some());
    let key = keep(connection, VALUE, &save.entity, &known)?;
    if let Some(state) = &save.state {
        connection
            .prepare_cached("INSERT OR REPLACE INTO value (entity, state) VALUES (?1, ?2)")?
            .execute(params![key, state])?;
    } else {
        connection
            .prepare_cached("DELETE FROM value WHERE entity = ?1")?
            .execute([key])?;
    }
    keep_sender(connection, key, save.sequence, known.uses)?;
    Ok(())
}

fn senders(connection: &Connection, entity: i64) -> rusqlite::Result<Vec<Sequence>> {
    connection
        .prepare_cached("SELECT sender, seq FROM sender WHERE entity = ?1 ORDER BY used")?
        .query_map([entity], |row| {
            Ok(Sequence {
                sender: unsigned(row, 0)?,
                seq: unsigned(row, 1)?,
            })
        })?
        .collect()
}

fn keep_sender(
    connection: &Connection,
    entity: i64,
    sequence: Option<Sequence>,
    used: i64,
) -> rusqlite::Result<()> {
    let Some(Sequence { sender, mut seq }) = sequence else {
        return Ok(());
    };
    let sender = sender.cast_signed();
    let known = connection
        .prepare_cached("SELECT seq FROM sender WHERE entity = ?1 AND sender = ?2")?
        .query_row([entity, sender], |row| unsigned(row, 0))
        .optional()?;
    if let Some(known) = known {
        seq = seq.max(known);
    } else {
        let senders: i64 = connection
            .prepare_cached("SELECT count(*) FROM sender WHERE entity = ?1")?
            .query_row([entity], |row| row.get(0))?;
        if senders >= MAX_SENDERS as i64 {
            connection
                .prepare_cached(
                    "DELETE FROM sender WHERE entity = ?1 AND sender = \
                     (SELECT sender FROM sender WHERE entity = ?1 ORDER BY used LIMIT 1)",
                )?
                .execute([entity])?;
        }
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO sender (entity, sender, seq, used) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute([entity, sender, seq.cast_signed(), used])?;
    Ok(())
}

/// Raises the fence of a shard, and says its key.
fn enter(
    connection: &Connection,
    entity_type: &str,
    shard: ShardId,
    epoch: Epoch,
) -> Result<i64, Failure> {
    let known = connection
        .prepare_cached("SELECT key, epoch FROM shard WHERE type = ?1 AND shard = ?2")?
        .query_row(params![entity_type.as_bytes(), shard.0], |row| {
            Ok((row.get(0)?, Epoch::from_bits(unsigned(row, 1)?)))
        })
        .optional()?;
    let bits = epoch.to_bits().cast_signed();
    let Some((key, seen)) = known else {
        return Ok(connection
            .prepare_cached("INSERT INTO shard (type, shard, epoch) VALUES (?1, ?2, ?3)")?
            .insert(params![entity_type.as_bytes(), shard.0, bits])?);
    };
    check::fence(seen, epoch)?;
    if seen != epoch {
        connection
            .prepare_cached("UPDATE shard SET epoch = ?2 WHERE key = ?1")?
            .execute([key, bits])?;
    }
    Ok(key)
}

fn ids(
    connection: &Connection,
    shard: i64,
    after: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Box<str>>> {
    // The empty id is one, too: what comes after nothing is not what comes after it.
    let mut statement = connection.prepare_cached(if after.is_some() {
        "SELECT id FROM living WHERE shard = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    } else {
        "SELECT id FROM living WHERE shard = ?1 AND id >= ?2 ORDER BY id LIMIT ?3"
    })?;
    let after = after.unwrap_or("").as_bytes();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![shard, after, limit])?;
    let mut page = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        // Not a refusal: the fence may have been raised by now.
        let id = String::from_utf8(row.get(0)?).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, Box::new(error))
        })?;
        bytes += id.len();
        page.push(id.into_boxed_str());
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}

fn record(
    connection: &Connection,
    shard: i64,
    changes: &[(Box<str>, bool)],
) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare_cached("INSERT OR IGNORE INTO living (shard, id) VALUES (?1, ?2)")?;
    let mut delete =
        connection.prepare_cached("DELETE FROM living WHERE shard = ?1 AND id = ?2")?;
    for (id, alive) in changes {
        let statement = if *alive { &mut insert } else { &mut delete };
        statement.execute(params![shard, id.as_bytes()])?;
    }
    Ok(())
}
