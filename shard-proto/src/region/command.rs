//! What a region tells its host to do, and what it answers at once.

use crate::{Epoch, Instant, NodeId, ShardId, Token, wire::Control, wire::ReturnReason};

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no third place")]
pub enum Origin {
    /// A caller on this node.
    Local,
    /// The region of the same type on another node.
    Remote(NodeId),
}

/// What to do with a message, now.
///
/// The message is handed back by value, so the known home costs no queue and no copy.
#[derive(Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a route nobody takes must not compile"
)]
pub enum Route<P> {
    /// Deliver it to the entity, which runs here under `epoch`.
    Local {
        /// The shard's allocation.
        epoch: Epoch,
        /// The message.
        payload: P,
    },
    /// Send it to `to` as an `Envelope` with `epoch`. It counts as sent.
    Remote {
        /// The home.
        to: NodeId,
        /// The epoch it is addressed to.
        epoch: Epoch,
        /// The message.
        payload: P,
    },
    /// The region keeps it; a command will deliver, send or reject it.
    Queued,
}

/// What to do with an `Envelope` of another node, now.
#[derive(Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an arrival nobody handles must not compile"
)]
pub enum Arrival<P> {
    /// Deliver it to the entity, which runs here under the envelope's epoch.
    Deliver(P),
    /// The region keeps it.
    Queued,
    /// Send it back on the lane it came by.
    Return {
        /// Why.
        reason: ReturnReason,
        /// The message.
        payload: P,
    },
    /// The sender is not a member: drop and count.
    Refused(P),
}

/// Why a message was not delivered. Each is counted and reported to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectReason {
    /// A buffer of this node or of the home is full.
    BufferFull,
    /// The region stopped while it kept the message.
    Stopped,
    /// The message came back after its path had been given up.
    PathGivenUp,
    /// Its origin's incarnation has ended.
    OriginEnded,
    /// The home's incarnation ended with the message unacknowledged: perhaps delivered.
    PerhapsDelivered,
    /// It cannot be encoded, or is larger than a frame may be.
    Unsendable,
}

/// What the host of a region shall do. Poll until `None`.
///
/// `Send` may be dropped; it is repeated. Everything else must be done, in order.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a missing arm must not compile")]
pub enum Command<'a, P> {
    /// Send a control frame with the region's adopted term in its header.
    Send {
        /// The coordinator's node (may be this one: use the loopback).
        to: NodeId,
        /// The body.
        control: Control<'a>,
    },
    /// Send a buffered message of this node to the home.
    Forward {
        /// The home.
        to: NodeId,
        /// The shard.
        shard: ShardId,
        /// The epoch it is addressed to.
        epoch: Epoch,
        /// The message.
        payload: P,
    },
    /// Send a message back to where it came from.
    Return {
        /// Its origin.
        to: NodeId,
        /// The shard.
        shard: ShardId,
        /// The epoch it was addressed to.
        epoch: Epoch,
        /// Why.
        reason: ReturnReason,
        /// The message.
        payload: P,
    },
    /// Send a marker down a path, behind all that was sent on it.
    Flush {
        /// The old home.
        to: NodeId,
        /// The shard.
        shard: ShardId,
        /// The path's epoch.
        epoch: Epoch,
        /// Comes back in `Flushed`.
        token: Token,
    },
    /// Answer a marker.
    Flushed {
        /// Who sent it.
        to: NodeId,
        /// The shard.
        shard: ShardId,
        /// The marker's.
        token: Token,
    },
    /// Deliver a buffered message to the entity, which runs here.
    Deliver {
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
        /// Where it came from.
        origin: Origin,
        /// The message.
        payload: P,
    },
    /// Start the shard; answer with `handle_shard_started`.
    StartShard {
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
    },
    /// Everything buffered was delivered: until `StopShard`, messages of this node's callers may go to the running
    /// entities without `route`.
    Open {
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
    },
    /// Stop everything of the shard: give back what its entities have not handled, then answer with
    /// `handle_shard_stopped`. Comes again, with an earlier `abort_at`, if there is less time than was said.
    StopShard {
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
        /// When to abort what has not stopped.
        abort_at: Instant,
    },
    /// A message that will not be delivered. Report it to its caller.
    Reject {
        /// The shard.
        shard: ShardId,
        /// Where it came from; only `Origin::Local` has a caller here.
        origin: Origin,
        /// Why.
        reason: RejectReason,
        /// The message.
        payload: P,
    },
    /// The home that this region uses for a shard changed; for maps that people look at. `None`: unknown.
    HomeChanged {
        /// The shard.
        shard: ShardId,
        /// Where it lives now.
        home: Option<crate::Home>,
    },
    /// The region is registered with this coordinator, and has its whole map.
    Registered {
        /// For which reign.
        term: crate::Term,
    },
    /// The coordinator refuses this region; it hosts nothing and keeps buffering.
    Refused {
        /// Why.
        reason: crate::wire::control::RegisterRefusal,
    },
}
