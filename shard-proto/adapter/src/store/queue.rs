//! What waits for a backend's writer: requests that are done in groups, one transaction each.
//!
//! The writer takes everything that is there when its last transaction has ended. So a group is as large as the store
//! is slow, and a single request waits for nothing but its own transaction.

use std::sync::{Arc, Mutex, PoisonError};

use shard_proto::{Epoch, ShardId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::check::{self, Counters};
use super::{Append, EntityId, Loaded, MAX_WRITE, Opened, Save, StoreError, StoreFuture};

/// The most that one request may write, whatever the settings say: SQLite and PostgreSQL have limits of 1 GB.
const MAX_MAX_WRITE: usize = 512 * 1024 * 1024;

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests, those being written included.
    pub requests: usize,
    /// Bytes of all of them.
    pub bytes: usize,
    /// Bytes of one.
    pub max_write: usize,
}

impl Limits {
    pub const DEFAULT: Self = Self {
        requests: 4096,
        bytes: MAX_WRITE,
        max_write: MAX_WRITE,
    };
}

/// A request that is done in a transaction.
#[derive(Debug)]
pub enum Request {
    Open {
        entity: EntityId,
        epoch: Epoch,
    },
    Append(Append),
    Snapshot {
        entity: EntityId,
        epoch: Epoch,
        seq: u64,
        state: Vec<u8>,
    },
    Load {
        entity: EntityId,
        epoch: Epoch,
    },
    Save(Save),
    Ids {
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        after: Option<Box<str>>,
        limit: usize,
    },
    Record {
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        changes: Vec<(Box<str>, bool)>,
    },
}

impl Request {
    /// What it weighs in the queue, if it is not too large.
    fn weigh(&self, max_write: usize) -> Result<usize, StoreError> {
        let (names, size) = match self {
            Self::Open { entity, .. } | Self::Load { entity, .. } => {
                (entity, check::entity_size(entity))
            }
            Self::Append(append) => (&append.entity, check::append_size(append)),
            Self::Snapshot { entity, state, .. } => {
                let size = check::entity_size(entity).saturating_add(state.len());
                (entity, size)
            }
            Self::Save(save) => (&save.entity, check::save_size(save)),
            Self::Ids {
                entity_type, after, ..
            } => {
                check::names(entity_type, after.as_deref().unwrap_or(""))?;
                return Ok(check::changes_size(entity_type, &[]));
            }
            Self::Record {
                entity_type,
                changes,
                ..
            } => {
                check::names(entity_type, "")?;
                for (id, _) in changes {
                    check::names("", id)?;
                }
                let size = check::changes_size(entity_type, changes);
                check::size(size, max_write)?;
                return Ok(size);
            }
        };
        check::names(&names.entity_type, &names.id)?;
        // An entity must be able to start, whatever the limit is: what only asks is never too large.
        if !matches!(self, Self::Open { .. } | Self::Load { .. }) {
            check::size(size, max_write)?;
        }
        Ok(size)
    }
}

/// What a request is answered with when its transaction was committed.
#[derive(Debug)]
pub enum Outcome {
    Done,
    Opened(Opened),
    Loaded(Loaded),
    Ids(Vec<Box<str>>),
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Queued {
    pub request: Request,
    answer: oneshot::Sender<Result<Outcome, StoreError>>,
    /// Given back when it is answered.
    _room: OwnedSemaphorePermit,
}

impl Queued {
    /// Nobody may be waiting any more.
    pub fn answer(self, result: Result<Outcome, StoreError>) {
        let _ = self.answer.send(result);
    }
}

/// Where requests are put.
#[derive(Debug)]
pub struct WriteQueue {
    /// `None`: closed.
    sender: Mutex<Option<mpsc::Sender<Queued>>>,
    room: Arc<Semaphore>,
    /// All of the room.
    bytes: usize,
    max_write: usize,
    counters: Arc<Counters>,
}

impl WriteQueue {
    /// The receiver is for the writer, who takes up to `limits.requests` at once.
    pub fn new(limits: Limits, counters: Arc<Counters>) -> (Self, mpsc::Receiver<Queued>) {
        let max_write = limits.max_write.clamp(1, MAX_MAX_WRITE);
        let bytes = limits.bytes.clamp(1, u32::MAX as usize);
        let (sender, receiver) = mpsc::channel(limits.requests.clamp(1, Semaphore::MAX_PERMITS));
        let queue = Self {
            sender: Mutex::new(Some(sender)),
            room: Arc::new(Semaphore::new(bytes)),
            bytes,
            max_write,
            counters,
        };
        (queue, receiver)
    }

    /// Waits for room, then for the answer.
    pub async fn write(&self, request: Request) -> Result<Outcome, StoreError> {
        let result = self.enqueue(request).await;
        if let Err(error) = &result {
            self.counters.refused(error);
        }
        result
    }

    async fn enqueue(&self, request: Request) -> Result<Outcome, StoreError> {
        let size = request.weigh(self.max_write)?;
        // What is larger than all of the room gets all of it.
        let permits = u32::try_from(size.min(self.bytes)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(permits).await;
        let Ok(room) = room else {
            return Err(StoreError::Closed);
        };
        let sender = {
            let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
            sender.clone().ok_or(StoreError::Closed)?
        };
        let (answer, answered) = oneshot::channel();
        let queued = Queued {
            request,
            answer,
            _room: room,
        };
        sender.send(queued).await.map_err(|_| StoreError::Closed)?;
        drop(sender);
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::Unknown("the store's writer ended".into())))
    }

    /// Takes nothing more. What is in the queue is written.
    pub fn close(&self) {
        self.room.close();
        self.sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

impl Outcome {
    /// Bytes that it holds.
    pub fn size(&self) -> usize {
        match self {
            Self::Done => 0,
            Self::Opened(Opened {
                snapshot, senders, ..
            }) => snapshot.as_ref().map_or(0, |it| it.state.len()) + size_of_val(&**senders),
            Self::Loaded(Loaded { state, senders, .. }) => {
                state.as_ref().map_or(0, Vec::len) + size_of_val(&**senders)
            }
            Self::Ids(ids) => check::ids_size(ids.iter().map(|id| &**id)),
        }
    }

    pub fn done(self) -> Result<(), StoreError> {
        match self {
            Self::Done => Ok(()),
            other => Err(other.mixed_up()),
        }
    }

    pub fn opened(self) -> Result<Opened, StoreError> {
        match self {
            Self::Opened(opened) => Ok(opened),
            other => Err(other.mixed_up()),
        }
    }

    pub fn loaded(self) -> Result<Loaded, StoreError> {
        match self {
            Self::Loaded(loaded) => Ok(loaded),
            other => Err(other.mixed_up()),
        }
    }

    pub fn ids(self) -> Result<Vec<Box<str>>, StoreError> {
        match self {
            Self::Ids(ids) => Ok(ids),
            other => Err(other.mixed_up()),
        }
    }

    /// A writer that answers something else than it was asked has a mistake in it.
    fn mixed_up(self) -> StoreError {
        StoreError::Unknown(format!("the store's writer answered {self:?}").into())
    }
}

/// Asks the writer, and takes what it has to say.
pub fn grouped<T: Send + 'static>(
    queue: &WriteQueue,
    request: Request,
    take: fn(Outcome) -> Result<T, StoreError>,
) -> StoreFuture<'_, T> {
    Box::pin(async move { take(queue.write(request).await?) })
}

/// Journal, store and memory of a type whose writes go through its `queue()`, and whose `events` are read beside it.
#[doc(hidden)]
#[macro_export]
macro_rules! grouped_store {
    ($store:ty) => {
        const _: () = {
            use std::sync::Arc;

            use $crate::backend::{Outcome, Request, grouped};
            use $crate::store::{
                Append, EntityId, Journal, Loaded, Opened, Recorded, Remember, Save, Store,
                StoreFuture,
            };
            use $crate::{Epoch, ShardId};

            impl Journal for $store {
                fn open(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Opened> {
                    grouped(
                        self.queue(),
                        Request::Open { entity, epoch },
                        Outcome::opened,
                    )
                }

                fn read(
                    &self,
                    entity: EntityId,
                    after: u64,
                    limit: usize,
                ) -> StoreFuture<'_, Vec<Recorded>> {
                    Box::pin(async move {
                        let page = self.events(entity, after, limit).await;
                        if let Err(error) = &page {
                            self.inner.counters.refused(error);
                        }
                        page
                    })
                }

                fn append(&self, append: Append) -> StoreFuture<'_, ()> {
                    grouped(self.queue(), Request::Append(append), Outcome::done)
                }

                fn snapshot(
                    &self,
                    entity: EntityId,
                    epoch: Epoch,
                    seq: u64,
                    state: Vec<u8>,
                ) -> StoreFuture<'_, ()> {
                    let request = Request::Snapshot {
                        entity,
                        epoch,
                        seq,
                        state,
                    };
                    grouped(self.queue(), request, Outcome::done)
                }
            }

            impl Store for $store {
                fn load(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Loaded> {
                    grouped(
                        self.queue(),
                        Request::Load { entity, epoch },
                        Outcome::loaded,
                    )
                }

                fn save(&self, save: Save) -> StoreFuture<'_, ()> {
                    grouped(self.queue(), Request::Save(save), Outcome::done)
                }
            }

            impl Remember for $store {
                fn load(
                    &self,
                    entity_type: Arc<str>,
                    shard: ShardId,
                    epoch: Epoch,
                    after: Option<Box<str>>,
                    limit: usize,
                ) -> StoreFuture<'_, Vec<Box<str>>> {
                    let request = Request::Ids {
                        entity_type,
                        shard,
                        epoch,
                        after,
                        limit,
                    };
                    grouped(self.queue(), request, Outcome::ids)
                }

                fn record(
                    &self,
                    entity_type: Arc<str>,
                    shard: ShardId,
                    epoch: Epoch,
                    changes: Vec<(Box<str>, bool)>,
                ) -> StoreFuture<'_, ()> {
                    let request = Request::Record {
                        entity_type,
                        shard,
                        epoch,
                        changes,
                    };
                    grouped(self.queue(), request, Outcome::done)
                }
            }
        };
    };
}
#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        requests: 4,
        bytes: 1000,
        max_write: 2000,
    };

    fn queue(limits: Limits) -> (Arc<WriteQueue>, mpsc::Receiver<Queued>) {
        let (queue, receiver) = WriteQueue::new(limits, Arc::default());
        (Arc::new(queue), receiver)
    }

    fn append(seq: u64, bytes: usize) -> Request {
        Request::Append(Append {
            entity: EntityId::new("cart", "a"),
            epoch: Epoch::NONE,
            first_seq: seq,
            events: vec![vec![0; bytes]],
            sequence: None,
        })
    }

    fn seq(queued: &Queued) -> u64 {
        match &queued.request {
            Request::Append(append) => append.first_seq,
            _ => 0,
        }
    }

    type Waiting = tokio::task::JoinHandle<Result<Outcome, StoreError>>;

    fn write(queue: &Arc<WriteQueue>, request: Request) -> Waiting {
        let queue = Arc::clone(queue);
        tokio::spawn(async move { queue.write(request).await })
    }

    /// Until everybody who can go on has.
    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    async fn take(receiver: &mut mpsc::Receiver<Queued>) -> u64 {
        let queued = receiver.recv().await.unwrap();
        let seq = seq(&queued);
        queued.answer(Ok(Outcome::Done));
        settle().await;
        seq
    }

    #[tokio::test]
    async fn requests_wait_for_room_in_order() {
        let (queue, mut receiver) = queue(LIMITS);
        let waiting: Vec<Waiting> = (1..=6).map(|n| write(&queue, append(n, 1))).collect();
        settle().await;
        assert_eq!(receiver.len(), 4);
        for n in 1..=6 {
            assert_eq!(take(&mut receiver).await, n);
        }
        for waiting in waiting {
            waiting.await.unwrap().unwrap().done().unwrap();
        }
    }

    #[tokio::test]
    async fn bytes_are_bounded_too() {
        let (queue, mut receiver) = queue(LIMITS);
        // The second is larger than all of the room: it gets all of it, when nobody else has any.
        let sizes = [(1, 500), (2, 1500), (3, 1)];
        let waiting: Vec<Waiting> = sizes
            .into_iter()
            .map(|(n, bytes)| write(&queue, append(n, bytes)))
            .collect();
        settle().await;
        for n in 1..=3 {
            assert_eq!(receiver.len(), 1, "only {n}");
            assert_eq!(take(&mut receiver).await, n);
        }
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        let refused = queue.write(append(4, 2000)).await.unwrap_err();
        assert!(matches!(refused, StoreError::TooLarge { .. }), "{refused}");
        assert_eq!(queue.counters.stats().too_large, 1);
    }

    #[tokio::test]
    async fn closing_lets_out_what_is_in_the_queue() {
        let (queue, mut receiver) = queue(LIMITS);
        let waiting = write(&queue, append(1, 1));
        settle().await;
        queue.close();
        let late = queue.write(append(2, 1)).await.unwrap_err();
        assert!(matches!(late, StoreError::Closed), "{late}");
        assert_eq!(take(&mut receiver).await, 1);
        waiting.await.unwrap().unwrap();
        assert!(receiver.recv().await.is_none());
    }

    #[tokio::test]
    async fn nobody_knows_what_a_writer_did_that_ended() {
        let (queue, mut receiver) = queue(LIMITS);
        let waiting = write(&queue, append(1, 1));
        drop(receiver.recv().await.unwrap());
        let unknown = waiting.await.unwrap().unwrap_err();
        assert!(matches!(unknown, StoreError::Unknown(_)), "{unknown}");
        drop(receiver);
        let closed = queue.write(append(2, 1)).await.unwrap_err();
        assert!(matches!(closed, StoreError::Closed), "{closed}");
    }
}
