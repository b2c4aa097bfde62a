//! Entities whose state outlives them: moves, crashes, and restarts of the whole cluster.
//!
//! | | [`EventSourced`] | [`Durable`] |
//! |---|---|---|
//! | kept | every event, and a [snapshot](crate::EntityTypeBuilder::snapshot_every) now and then | the last value |
//! | a write is as large as | what changed | the whole state |
//! | starting costs | the snapshot and the events after it | the value |
//! | started with | [`Node::event_sourced`] | [`Node::durable`] |
//! | kept in a | [`Journal`] | [`Store`] |
//!
//! Both are entity types like any other: everything that [`EntityTypeBuilder`] sets applies to them, and their entities
//! are reached by [`EntityRef`], here called [`SourcedRef`] and [`KeptRef`].
//!
//! # What is promised
//!
//! - The first message is handled when the state is there.
//! - An answer is sent when what it speaks of is durable. What was answered is written exactly once; what was not answered
//!   (the asker ran out of time, the node was killed) at most once.
//! - A former home never writes over its successor, whether or not it has noticed yet that it is one: each write carries
//!   the entity's epoch, and the store refuses one that is lower than the highest it has seen, in the same transaction.
//!   Leases alone could not promise that.
//!
//! Answers that write nothing are as good as the lease of the node: see [leases](crate#leases).
//!
//! # When the store fails
//!
//! | the store says | then |
//! |---|---|
//! | [`Unavailable`](StoreError::Unavailable) to a write | it is tried again for 5 s with growing pauses, and what comes next waits; then as below |
//! | [`Unknown`](StoreError::Unknown), [`Sequence`](StoreError::Sequence), … to a write | the asker is told [`EntityFailed`](crate::AskError::EntityFailed), which says that it was perhaps written; the entity recovers anew after a pause (and is parked if that is too often), and its messages wait |
//! | anything but [`Fenced`](StoreError::Fenced) when it starts | it is started again after a pause that grows, and [parked](crate::EntityTypeBuilder::restarts) if it fails too often; its messages wait |
//! | [`Fenced`](StoreError::Fenced) | the entity takes no more messages here: their askers are told [`Refused`](crate::AskError::Refused), and they are reported as [`Reason::Fenced`] |
//! | [`TooLarge`](StoreError::TooLarge), or it cannot be encoded | this one message is refused |
//!
//! All of it is counted: [`Stats::durable`](crate::Stats::durable).
//!
//! # One store
//!
//! Every node must open the *same* store: each store has an id, which a node registers with the type, and a node with
//! another one is [refused](crate::EntityTypeBuilder::storage_mismatch). A file per node is not one store.

mod arc;
mod counters;
mod effect;
mod encoding;
mod kept;
mod retry;
mod sourced;

use core::fmt;
use std::sync::Arc;

use shard_proto::Epoch;

pub(crate) use counters::Counters;
pub use counters::DurableStats;
pub use effect::{Change, Effect};
pub use kept::{Durable, Kept};
pub use sourced::{EventSourced, Sourced, decode_event};

use self::counters::add;
use crate::entity::{BoxError, Context, Entity};
use crate::entity_ref::EntityRef;
use crate::entity_type::{EntityType, EntityTypeBuilder};
use crate::message::CodecError;
use crate::node::Node;
use crate::report::Reason;
use crate::runtime::Handle;
use crate::store::{Journal, Sequence, Store, StoreError};

/// A reference to an [`EventSourced`] entity.
pub type SourcedRef<E> = EntityRef<Sourced<E>>;
/// A reference to a [`Durable`] entity.
pub type KeptRef<D> = EntityRef<Kept<D>>;
/// A started type of [`EventSourced`] entities.
pub type SourcedType<E> = EntityType<Sourced<E>>;
/// A started type of [`Durable`] entities.
pub type KeptType<D> = EntityType<Kept<D>>;

/// Events between two snapshots, unless told otherwise.
const SNAPSHOT_EVERY: u64 = 100;

impl<R> Node<R> {
    /// Begins to start a type of event sourced entities here, which keep their events in `journal`: a backend, or an
    /// `Arc<dyn Journal>`. Every node must open the same one.
    #[must_use]
    pub fn event_sourced<E: EventSourced>(
        &self,
        journal: impl Journal,
    ) -> EntityTypeBuilder<Sourced<E>> {
        let (storage, place) = (journal.id(), journal.describe());
        let setup = Arc::new(Setup {
            name: E::TYPE.into(),
            runtime: self.running().shared.runtime.clone(),
            counters: self.running().shared.durable(E::TYPE),
            store: journal,
        });
        let setup: Arc<Setup<dyn Journal>> = setup;
        self.entity_type()
            .storage(storage, place)
            .factory(move |_id| Sourced::new(Arc::clone(&setup), SNAPSHOT_EVERY))
    }

    /// Begins to start a type of durable entities here, which keep their value in `store`: a backend, or an
    /// `Arc<dyn Store>`. Every node must open the same one.
    #[must_use]
    pub fn durable<D: Durable>(&self, store: impl Store) -> EntityTypeBuilder<Kept<D>> {
        let (storage, place) = (store.id(), store.describe());
        let setup = Arc::new(Setup {
            name: D::TYPE.into(),
            runtime: self.running().shared.runtime.clone(),
            counters: self.running().shared.durable(D::TYPE),
            store,
        });
        let setup: Arc<Setup<dyn Store>> = setup;
        self.entity_type()
            .storage(storage, place)
            .factory(move |_id| Kept::new(Arc::clone(&setup)))
    }
}

impl<E: EventSourced> EntityTypeBuilder<Sourced<E>> {
    /// Events of an entity between two snapshots of its state; 0: none. Few make starting fast, and each is written as
    /// a whole. Nothing waits for a snapshot. Default: 100.
    #[must_use]
    pub fn snapshot_every(self, events: u64) -> Self {
        self.wrap_factory(move |_id, mut sourced| {
            sourced.snapshot_every = events;
            sourced
        })
    }

    /// Makes entities, in place of [`EventSourced::create`].
    #[must_use]
    pub fn create_with(self, create: impl Fn(&str) -> E + Send + Sync + 'static) -> Self {
        self.wrap_factory(move |id, mut sourced| {
            sourced.inner = Some(create(id));
            sourced
        })
    }
}

impl<D: Durable> EntityTypeBuilder<Kept<D>> {
    /// Makes entities, in place of [`Durable::create`].
    #[must_use]
    pub fn create_with(self, create: impl Fn(&str) -> D + Send + Sync + 'static) -> Self {
        self.wrap_factory(move |id, mut kept| {
            kept.inner = Some(create(id));
            kept
        })
    }
}

/// What the entities of a type share.
struct Setup<S: ?Sized> {
    name: Arc<str>,
    runtime: Handle,
    counters: Arc<Counters>,
    store: S,
}

/// What has become of an entity.
enum Life<L> {
    Unrecovered,
    Live(L),
    /// The store has seen a higher epoch: it takes no messages here any more.
    Fenced,
}

impl<L> fmt::Debug for Life<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unrecovered => "Unrecovered",
            Self::Live(_) => "Live",
            Self::Fenced => "Fenced",
        })
    }
}

/// What every write carries: the fencing token, and the number of the message that it comes of if that was told
/// reliably.
#[derive(Clone, Copy)]
struct Stamp {
    epoch: Epoch,
    sequence: Option<Sequence>,
}

impl Stamp {
    fn of<E: Entity>(cx: &Context<'_, E>) -> Self {
        Self {
            epoch: cx.epoch(),
            sequence: cx.sequence(),
        }
    }
}

/// Why something was not written.
enum WriteError {
    Codec(CodecError),
    Store(StoreError),
}

impl From<CodecError> for WriteError {
    fn from(error: CodecError) -> Self {
        Self::Codec(error)
    }
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What an entity is to do that could not write.
enum Unwritten {
    /// Nothing: it is as before, or goes.
    Unharmed,
    /// It was surely not written, nor will it be. The asker knows.
    Refused,
    /// It takes no more messages.
    Fenced,
}

impl<S: ?Sized> Setup<S> {
    /// What a recovery came to. An error: it is to be tried again.
    fn life<L>(
        &self,
        recovered: Result<L, BoxError>,
        ty: &'static str,
        id: &str,
    ) -> Result<Life<L>, BoxError> {
        let error = match recovered {
            Ok(live) => return Ok(Life::Live(live)),
            Err(error) => error,
        };
        if let Some(StoreError::Fenced { seen, given }) = error.downcast_ref() {
            let now = self.runtime.now();
            self.counters.fence(now, ty, id, (*seen, *given));
            return Ok(Life::Fenced);
        }
        add(&self.counters.failed_recoveries, 1);
        Err(error)
    }

    /// Tells the asker, and says what to do.
    fn unwritten<E: Entity>(&self, error: WriteError, cx: &mut Context<'_, E>) -> Unwritten {
        match error {
            WriteError::Codec(error) => {
                tracing::warn!(entity_type = E::TYPE, id = cx.id(), %error, "what a message comes to cannot be encoded");
                cx.refuse_as(Reason::Codec);
                Unwritten::Unharmed
            }
            WriteError::Store(StoreError::Fenced { seen, given }) => {
                let now = self.runtime.now();
                self.counters.fence(now, E::TYPE, cx.id(), (seen, given));
                cx.refuse_as(Reason::Fenced);
                Unwritten::Fenced
            }
            WriteError::Store(error @ StoreError::TooLarge { .. }) => {
                tracing::warn!(entity_type = E::TYPE, id = cx.id(), %error, "what a message comes to is not written");
                cx.refuse_as(Reason::TooLarge);
                Unwritten::Refused
            }
            WriteError::Store(error) => {
                add(&self.counters.failed, 1);
                cx.fail(error);
                Unwritten::Unharmed
            }
        }
    }
}

/// An entity of a type that was not started by `Node::`*name*.
fn unset(name: &str) -> BoxError {
    format!("the type must be started by `Node::{name}`: it has no store").into()
}
