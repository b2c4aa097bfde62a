//! What leadership tells its node to do.

use crate::{Instant, Leader, NodeId, Term, wire::Control};

/// What the node shall do. Poll until `None`.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a missing arm must not compile")]
pub enum LeadershipCommand {
    /// Send a beat, refusal or resignation with `term` in the header. May be dropped; it is repeated.
    Send {
        /// The peer (may be this node: use the loopback).
        to: NodeId,
        /// The header's term.
        term: Term,
        /// The body; never a list.
        control: Control<'static>,
    },
    /// This node adopted a reign (or none): tell every region.
    Adopt(Option<Leader>),
    /// Until when this node may serve; `None` while it may not. Tell every region.
    Lease(Option<Instant>),
    /// This node's lease lapsed for the `lapses`-th time: tell every region.
    Lapsed {
        /// How often.
        lapses: u32,
    },
    /// This node leads under a fresh term: every coordinator begins.
    Begin {
        /// The term.
        term: Term,
    },
    /// The barrier is over: every coordinator may allocate what nobody claims.
    OpenBarrier {
        /// Of which reign.
        term: Term,
    },
    /// The reign of this node is over: every coordinator ends.
    End,
    /// Sessions of a node end, its shards become unallocated: tell every coordinator.
    NodeLapsed {
        /// The node.
        node: NodeId,
    },
}
