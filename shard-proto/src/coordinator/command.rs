//! What a coordinator tells its node to do.

use crate::{Epoch, NodeId, ShardId, wire::Control};

/// What the node of a coordinator shall do. Poll until `None`.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a missing arm must not compile")]
pub enum CoordinatorCommand<'a> {
    /// Send a control frame with the reign's term in its header. May be dropped; it is repeated.
    Send {
        /// The region's node (may be this one: use the loopback).
        to: NodeId,
        /// The body.
        control: Control<'a>,
    },
    /// The last part of a node's registration is there.
    Registered {
        /// The node.
        node: NodeId,
        /// Age, in microseconds at arrival, of the newest beat of a lower term that it received.
        last_beat_age: u64,
    },
    /// The node's sessions end: echo it no more (protocol 5.5).
    EndSessions {
        /// The node.
        node: NodeId,
    },
    /// A handoff was not completed in time. Log it as a warning.
    HandOffTimedOut {
        /// Who did not answer.
        node: NodeId,
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
    },
    /// A node registered that opened another store than the others of the type, which
    /// [`StorageMismatch::Warn`](super::StorageMismatch::Warn) lets it do. Log it as a warning.
    OtherStorage {
        /// The node.
        node: NodeId,
        /// The store of the others.
        expected: u64,
        /// Its store.
        found: u64,
    },
    /// Rounds of this term are used up: the reign must end.
    Exhausted,
}
