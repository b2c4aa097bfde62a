//! What a node counts.

/// Counters of a node since it started. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// Messages of this node delivered on this node.
    pub local: u64,
    /// Messages of this node sent to another one, those sent again after a return included.
    pub sent: u64,
    /// Messages of other nodes delivered here.
    pub received: u64,
    /// Messages that were buffered.
    pub queued: u64,
    /// Messages sent back to their origin.
    pub returned: u64,
    /// Messages of this node that came back from a former home, and go out again.
    pub came_back: u64,
    /// Messages not taken in `send`, body handed back.
    pub refused: u64,
    /// Messages reported as undeliverable, by commands.
    pub rejected: u64,
    /// Asks that left this node.
    pub asks: u64,
    /// Asks answered.
    pub answered: u64,
    /// Asks whose deadline passed.
    pub asks_timed_out: u64,
    /// Replies that nobody here waits for: late, or guessed.
    pub replies_ignored: u64,
    /// Replies that were not sent because the asking life of a node had ended.
    pub replies_dropped: u64,
    /// Control frames that were not sent because there is no link, or it is full; they are repeated.
    pub control_dropped: u64,
    /// Directives from a node that is not the adopted leader, or of another term.
    pub directives_refused: u64,
    /// Frames of nodes that are not members.
    pub not_a_member: u64,
    /// Frames of entity types that are not started here.
    pub unknown_type: u64,
    /// Control frames that came too late to matter. Harmless.
    pub late: u64,
    /// Malformed frames, and those that their sender may not send.
    pub unexpected: u64,
    /// Frames of kinds that this node does not know, skipped: of peers that are newer.
    pub unknown_kinds: u64,
    /// Links that this node refused, or another one.
    pub links_refused: u64,
    /// Links closed because the other side broke the protocol.
    pub link_faults: u64,
    /// Those of them that were closed because of a fragment: out of place, or of a message that is too long.
    pub fragments_refused: u64,
    /// Connections closed because their handshake took too long, whoever dialed.
    pub handshakes_timed_out: u64,
    /// Times this node lost its lease, and with it what it hosted.
    pub lapses: u64,
}
