//! What a process does to the world around it.

use crate::region::{Origin, RejectReason};
use crate::sim::{Deed, Message};
use crate::wire::{Control, ReturnReason};
use crate::{EntityTypeId, Epoch, Instant, Leader, NodeId, ShardId, Term, Token};

/// A data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DataFrame {
    /// The type's number.
    pub ty: u8,
    /// The shard.
    pub shard: ShardId,
    /// The epoch it is addressed to.
    pub epoch: Epoch,
    /// The rest.
    pub body: Body,
}

/// What a data frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// A message.
    Envelope(Message),
    /// A message that comes back.
    Return(ReturnReason, Message),
    /// The marker at the end of a path.
    Flush(Token),
    /// Its answer.
    Flushed(Token),
}

/// Why data was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The link has no room.
    Full,
    /// The receiver is not known, or its life has ended.
    NoPeer,
}

/// Something that happened inside, worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// It follows another reign, or none.
    Adopted(Option<Leader>),
    /// Its lease lapsed.
    Lapsed,
    /// It leads under a term.
    Begun(Term),
    /// Its reign is supported.
    Acts(Term),
    /// Its barrier is over.
    Opened(Term),
    /// It leads no more.
    Ended,
    /// A handoff took too long.
    TimedOut {
        /// Who did not answer.
        node: NodeId,
        /// The shard.
        shard: ShardId,
    },
    /// A region is registered.
    Registered,
    /// A region is refused.
    Refused,
    /// A shard is handed off.
    HandOff {
        /// The type's number.
        ty: u8,
        /// The shard.
        shard: ShardId,
    },
    /// Something came back that was not sent.
    UnexpectedReturn,
}

/// The world around a process: takes what it wants done.
pub trait Sink {
    /// A control frame to another process; may be lost.
    fn control(&mut self, to: NodeId, entity_type: EntityTypeId, term: Term, control: &Control<'_>);
    /// A data frame to another process: in order, and never lost while both live.
    ///
    /// # Errors
    /// It was not taken.
    fn data(&mut self, to: NodeId, frame: DataFrame) -> Result<(), Unsent>;
    /// Start a shard.
    fn start(&mut self, ty: u8, shard: ShardId, epoch: Epoch);
    /// Everything that was kept for a shard was delivered.
    fn open(&mut self, ty: u8, shard: ShardId, epoch: Epoch);
    /// Until when it may serve, by its own clock.
    fn lease(&mut self, until: Option<Instant>);
    /// Stop a shard.
    fn stop(&mut self, ty: u8, shard: ShardId, epoch: Epoch, abort_at: Instant);
    /// A message for an entity that runs here. `false`: its mailbox is full, and its caller is to hear of it.
    fn deliver(
        &mut self,
        ty: u8,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message,
    ) -> bool;
    /// A message that will not be delivered.
    fn reject(
        &mut self,
        ty: u8,
        shard: ShardId,
        origin: Origin,
        reason: RejectReason,
        message: Message,
    );
    /// Something worth a look.
    fn note(&mut self, note: Note);
    /// Whether a link has just filled up, which the process is to be told before it sends more.
    fn has_filled(&self) -> bool {
        false
    }
    /// Whether the process was told that the link to a node is full, and not yet that it has room again.
    fn is_congested(&self, node: NodeId) -> bool {
        let _ = node;
        false
    }
    /// Something in which a rule may be broken. Nobody need look.
    fn deed(&mut self, deed: Deed) {
        let _ = deed;
    }
    /// Whether everything that this process sent was received.
    fn is_flushed(&self) -> bool;
    /// Whether anybody is linked, from whom something may come.
    fn is_linked(&self) -> bool;
}
