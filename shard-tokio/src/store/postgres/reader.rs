//! What is read: on a connection of its own, so that it waits for no write.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use shard_proto::Epoch;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::fault::Fault;
use super::session::{Ask, Door, Session};
use crate::store::{EntityId, Loaded, Opened, Recorded, Sequence, Snapshot, StoreError};
use shard_adapter::backend as check;
use shard_adapter::backend::{Outcome, Request};

/// A page has no more items than this, whatever the limit.
const PAGE_ITEMS: i64 = 10_000;

/// So many reads at a time: each may have a page in memory.
const READS: usize = 64;
/// After a failed attempt to connect, whoever comes within this time is told the same.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Reader {
    door: Arc<Door>,
    store: u64,
    state: Mutex<State>,
    places: Semaphore,
}

#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    failed: Option<(Instant, String)>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    pub(super) fn new(door: Arc<Door>, store: u64) -> Self {
        Self {
            door,
            store,
            state: Mutex::default(),
            places: Semaphore::new(READS),
        }
    }

    /// What there is of an entity or a shard whose fence was raised: from then on nobody with a lower epoch writes.
    /// A successor may have raised it further in between: whoever asks is then told so.
    pub(super) async fn outcome(&self, request: &Request, key: i64) -> Result<Outcome, StoreError> {
        match request {
            Request::Open { epoch, .. } => {
                let found = self.entity(key, *epoch).await?;
                Ok(Outcome::Opened(Opened {
                    snapshot: found.state,
                    last_seq: found.seq,
                    senders: found.senders,
                }))
            }
            Request::Load { epoch, .. } => {
                let found = self.entity(key, *epoch).await?;
                Ok(Outcome::Loaded(Loaded {
                    revision: found.seq,
                    state: found.state.map(|snapshot| snapshot.state),
                    senders: found.senders,
                }))
            }
            Request::Ids {
                epoch,
                after,
                limit,
                ..
            } => {
                let ask = Ask::Ids {
                    key,
                    after: after.as_deref().map(str::as_bytes),
                    limit: items(*limit),
                };
                let rows = self.read(ask).await?;
                let Some(first) = rows.first() else {
                    return Err(StoreError::Corrupt("a shard was deleted".to_owned()));
                };
                let seen = Epoch::from_bits(column::<i64>(first, 0)?.cast_unsigned());
                check::fence(seen, *epoch)?;
                let id = |row: &Row| {
                    let id = column::<Option<Vec<u8>>>(row, 1).transpose()?;
                    Some(id.and_then(|id| {
                        String::from_utf8(id)
                            .map(String::into_boxed_str)
                            .map_err(|_| StoreError::Corrupt("an id is not UTF-8".to_owned()))
                    }))
                };
                rows.iter()
                    .filter_map(id)
                    .collect::<Result<_, _>>()
                    .map(Outcome::Ids)
            }
            Request::Append(_)
            | Request::Save(_)
            | Request::Snapshot { .. }
            | Request::Record { .. } => Ok(Outcome::Done),
        }
    }

    async fn entity(&self, key: i64, epoch: Epoch) -> Result<Found, StoreError> {
        let rows = self.read(Ask::Entity(key)).await?;
        let [row] = &*rows else {
            return Err(StoreError::Corrupt("an entity was deleted".to_owned()));
        };
        let found = Found::read(row)?;
        check::fence(found.epoch, epoch)?;
        Ok(found)
    }

    pub(super) async fn events(
        &self,
        entity: &EntityId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        check::names(&entity.entity_type, &entity.id)?;
        let ask = Ask::Events {
            entity,
            after: i64::try_from(after).unwrap_or(i64::MAX),
            limit: items(limit),
        };
        let rows = self.read(ask).await?;
        let event = |row: &Row| {
            Ok(Recorded {
                seq: column::<i64>(row, 0)?.cast_unsigned(),
                event: column(row, 1)?,
            })
        };
        rows.iter().map(event).collect()
    }

    /// Reads, and once again on a new connection if the one there was is lost.
    async fn read(&self, ask: Ask<'_>) -> Result<Vec<Row>, StoreError> {
        let Ok(_place) = self.places.acquire().await else {
            return Err(StoreError::Closed);
        };
        let mut again = true;
        loop {
            let session = self.session().await?;
            let fault = match session.read(&ask).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            let lost = matches!(fault, Fault::Lost(_) | Fault::Refused { keep: false, .. });
            if lost {
                self.give_up(&session).await;
            }
            if lost && core::mem::take(&mut again) {
                continue;
            }
            let corrupt = matches!(fault, Fault::Refused { corrupt: true, .. });
            let text = format!("{}: {}", self.door.address.place, fault.text());
            return Err(if corrupt {
                StoreError::Corrupt(text)
            } else {
                StoreError::Unavailable(text.into())
            });
        }
    }

    /// Reads nothing more.
    pub(super) async fn close(&self) {
        self.places.close();
        self.state.lock().await.session = None;
    }

    async fn session(&self) -> Result<Arc<Session>, StoreError> {
        let mut state = self.state.lock().await;
        if let Some(session) = state.session.as_ref().filter(|s| !s.is_closed()) {
            return Ok(Arc::clone(session));
        }
        if let Some((at, text)) = &state.failed
            && at.elapsed() < PAUSE
        {
            return Err(StoreError::Unavailable(text.clone().into()));
        }
        match self.door.open(Some(self.store)).await {
            Ok(session) => {
                let session = Arc::new(session);
                state.session = Some(Arc::clone(&session));
                state.failed = None;
                Ok(session)
            }
            Err(error) => {
                let text = match error {
                    StoreError::Unavailable(text) => text.to_string(),
                    error => error.to_string(),
                };
                state.session = None;
                state.failed = Some((Instant::now(), text.clone()));
                Err(StoreError::Unavailable(text.into()))
            }
        }
    }

    async fn give_up(&self, session: &Arc<Session>) {
        let mut state = self.state.lock().await;
        if state
            .session
            .as_ref()
            .is_some_and(|s| Arc::ptr_eq(s, session))
        {
            state.session = None;
        }
    }
}

/// What there is of an entity.
struct Found {
    epoch: Epoch,
    seq: u64,
    state: Option<Snapshot>,
    senders: Vec<Sequence>,
}

impl Found {
    fn read(row: &Row) -> Result<Self, StoreError> {
        let epoch: i64 = column(row, 0)?;
        let seq: i64 = column(row, 1)?;
        let state_seq: Option<i64> = column(row, 2)?;
        let state: Option<Vec<u8>> = column(row, 3)?;
        let senders: Vec<i64> = column(row, 4)?;
        let numbers: Vec<i64> = column(row, 5)?;
        Ok(Self {
            epoch: Epoch::from_bits(epoch.cast_unsigned()),
            seq: seq.cast_unsigned(),
            state: state_seq.zip(state).map(|(seq, state)| Snapshot {
                seq: seq.cast_unsigned(),
                state,
            }),
            senders: senders
                .into_iter()
                .zip(numbers)
                .map(|(sender, seq)| Sequence {
                    sender: sender.cast_unsigned(),
                    seq: seq.cast_unsigned(),
                })
                .collect(),
        })
    }
}

fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at)
        .map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// A limit as the server counts.
fn items(limit: usize) -> i64 {
    i64::try_from(limit).map_or(PAGE_ITEMS, |limit| limit.min(PAGE_ITEMS))
}
