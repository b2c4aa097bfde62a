//! What leadership tells its node to do.
//!
//! The commands of a reign come as `Begin`, `Act`, `OpenBarrier`, `End`; a reign can end at any point of it. `End`,
//! `Lapsed` and `Lease(None)` come before everything else.

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
    /// This node leads under a fresh term: every coordinator begins, and takes registrations; it answers nothing yet.
    Begin {
        /// The term.
        term: Term,
    },
    /// The reign is supported: every coordinator may answer what is claimed, and hand off.
    Act {
        /// Of which reign.
        term: Term,
    },
    /// Whether a node hears this leader: it echoed a beat that was sent within `support_lease`. One that does not is no
    /// candidate for a shard: tell every coordinator. Until told otherwise, a node does not hear a new reign.
    Hearing {
        /// The node.
        node: NodeId,
        /// Whether it hears.
        hears: bool,
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
        /// Only those of a life that was replaced: a session of the present one stays.
        former: bool,
    },
}
