//! The thread that reads events.

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::{mpsc, oneshot};

use super::apply::JOURNAL;
use super::fault::Fault;
use crate::store::{EntityId, PAGE_BYTES, Recorded, StoreError};

pub(super) struct Read {
    pub(super) entity: EntityId,
    pub(super) after: u64,
    pub(super) limit: usize,
    pub(super) answer: oneshot::Sender<Result<Vec<Recorded>, StoreError>>,
}

pub(super) fn run(connection: &Connection, mut asked: mpsc::Receiver<Read>) {
    while let Some(read) = asked.blocking_recv() {
        if read.answer.is_closed() {
            continue;
        }
        let page = page(connection, &read);
        // Nobody may be waiting any more.
        let _ = read.answer.send(page);
    }
}

fn page(connection: &Connection, read: &Read) -> Result<Vec<Recorded>, StoreError> {
    let found = events(connection, read).map_err(|error| Fault::before_commit(&error))?;
    for (event, expected) in found.iter().zip(read.after.saturating_add(1)..) {
        if event.seq != expected {
            return Err(StoreError::Corrupt(format!(
                "{} {:?} has no event {expected} but {}",
                read.entity.entity_type, read.entity.id, event.seq
            )));
        }
    }
    Ok(found)
}

fn events(connection: &Connection, read: &Read) -> rusqlite::Result<Vec<Recorded>> {
    let entity: Option<i64> = connection
        .prepare_cached("SELECT key FROM entity WHERE kind = ?1 AND type = ?2 AND id = ?3")?
        .query_row(
            params![
                JOURNAL,
                read.entity.entity_type.as_bytes(),
                read.entity.id.as_bytes()
            ],
            |row| row.get(0),
        )
        .optional()?;
    let (Some(entity), Ok(after)) = (entity, i64::try_from(read.after)) else {
        return Ok(Vec::new());
    };
    let mut statement = connection.prepare_cached(
        "SELECT seq, event FROM event WHERE entity = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let limit = i64::try_from(read.limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![entity, after, limit])?;
    let mut page = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let event: Vec<u8> = row.get(1)?;
        bytes += event.len();
        page.push(Recorded {
            seq: seq.cast_unsigned(),
            event,
        });
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}
