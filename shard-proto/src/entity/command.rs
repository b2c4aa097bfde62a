//! What entities need done, and what deliveries and tasks come to.

use crate::node::EntityKey;
use crate::{Epoch, ShardId};

/// Names one life of an entity's task. Not used again while anything about that life may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntitySlot {
    /// Where it is kept: dense, so that adapters can keep what is theirs in a vector.
    pub index: u32,
    /// Grows with each life that starts at that index.
    pub generation: u32,
}

/// Where a message went.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
#[expect(
    clippy::exhaustive_enums,
    reason = "a message nobody handles must not compile"
)]
pub enum Delivered<P> {
    /// Put it into the entity's mailbox, now. If that is closed already: [`Entities::undelivered`](super::Entities::undelivered).
    Mailbox {
        /// Its life.
        slot: EntitySlot,
        /// The message.
        payload: P,
    },
    /// It is kept; a command will deliver it, give it back, or reject it.
    Kept,
    /// It was not taken. Nothing changed, but for a counter.
    Refused {
        /// Why.
        reason: Refusal,
        /// The message.
        payload: P,
    },
}

/// Why a message is not delivered. It was surely not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The shard does not run here under that epoch, or stops.
    NotHosted,
    /// Too many entities: twice [`EntityConfig::with_max_entities`](super::EntityConfig::with_max_entities), those that
    /// are still stopping or wait for something included; or their ids are too long for one more,
    /// [`EntityConfig::with_max_key_bytes`](super::EntityConfig::with_max_key_bytes).
    TooMany,
    /// Too many messages wait for entities without a mailbox: [`EntityConfig::with_keep`](super::EntityConfig::with_keep)
    /// or [`EntityConfig::with_keep_per_shard`](super::EntityConfig::with_keep_per_shard).
    KeepFull,
    /// The entity failed too often: [`EntityConfig::with_restarts`](super::EntityConfig::with_restarts).
    Parked,
}

/// How a task came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an end nobody tells must not compile"
)]
pub enum End {
    /// Its mailbox was closed, and what it does when it stops was done.
    Stopped,
    /// It panicked, gave up, or did not start.
    Failed,
    /// It was aborted.
    Aborted,
}

/// What the host of the entities shall do, in order. Poll until `None`.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a missing arm must not compile")]
pub enum EntityCommand<P> {
    /// Spawn the entity's task with a new mailbox, which callers do not see yet.
    /// Answer with [`Entities::started`](super::Entities::started) or [`Entities::ended`](super::Entities::ended).
    Start {
        /// The life that begins.
        slot: EntitySlot,
        /// Its shard.
        shard: ShardId,
        /// The shard's allocation: the fencing token.
        epoch: Epoch,
        /// The entity.
        key: EntityKey,
    },
    /// Put a message into its mailbox that was kept until now. If that is closed already:
    /// [`Entities::undelivered`](super::Entities::undelivered).
    Deliver {
        /// Its life.
        slot: EntitySlot,
        /// The message.
        payload: P,
    },
    /// Everything that was kept is in the mailbox: callers of this node may put messages there without asking.
    Publish {
        /// Its life.
        slot: EntitySlot,
    },
    /// Close the mailbox: the task ends with the message in hand, does what it does when it stops, and says
    /// [`Entities::ended`](super::Entities::ended) with the rest.
    Close {
        /// Its life.
        slot: EntitySlot,
    },
    /// Abort the task; `ended` is still awaited.
    Abort {
        /// Its life.
        slot: EntitySlot,
    },
    /// A message of a shard that stops: back to the region.
    GiveBack {
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
        /// The entity.
        key: EntityKey,
        /// The message.
        payload: P,
    },
    /// A kept message that will not be delivered. Report it to its caller.
    Reject {
        /// The shard.
        shard: ShardId,
        /// The entity.
        key: EntityKey,
        /// Why.
        reason: Refusal,
        /// The message.
        payload: P,
    },
    /// Nothing of the shard runs any more, and everything was given back.
    ShardStopped {
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
        /// Something was aborted, or given up.
        forced: bool,
    },
    /// Tell the store whether the entity lives, and answer with [`Entities::recorded`](super::Entities::recorded).
    /// One at a time per entity.
    Record {
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
        /// The entity.
        key: EntityKey,
        /// It lives, or was passivated.
        alive: bool,
    },
}
