//! A whole process as one state machine.
//!
//! [`Node`] composes links, leadership, membership and, per entity type, a region and a coordinator. It has no I/O:
//! the adapter feeds it bytes, time and the application's messages, and does what its commands say.
//!
//! The adapter's loop, with the time taken once per wake-up: [`Node::handle_timeout`] if [`Node::poll_timeout`] is
//! due; inputs; [`Node::poll_command`] until `None`; [`Node::links_to_flush`] until `None`, writing what
//! [`Node::poll_transmit`] has for each.

mod api;
#[allow(dead_code, reason = "composed by what follows")]
mod asks;
mod config;
mod key;
pub(crate) mod link;

use alloc::boxed::Box;
use core::marker::PhantomData;

pub use api::{
    AddTypeError, Ask, AskFailure, AskKey, Body, BodyError, ConfigError, Delivery, DialId,
    LinkError, LinkId, LinksFull, Message, NodeCommand, REPLY_ANSWER, REPLY_FAILED, REPLY_NONE,
    REPLY_REFUSED, ReplyTo, SendError, Sent, TypeIndex, Warning,
};
use bytes::{Bytes, BytesMut};
pub use config::{Identity, MembershipMode, NodeConfig, TypeConfig};
pub use key::EntityKey;
pub use stats::NodeStats;

mod stats;
#[cfg(test)]
mod tests;

use crate::allocation::AllocationStrategy;
use crate::membership::{Member, MemberChange};
use crate::region::Origin;
use crate::{EntityTypeId, Epoch, Home, Incarnation, Instant, Leader, NodeId, ShardId};

/// A strategy, as a node keeps it.
pub type Strategy = Box<dyn AllocationStrategy + Send>;

/// A process of the cluster, without its I/O.
#[derive(Debug)]
pub struct Node<B> {
    me: NodeId,
    incarnation: Incarnation,
    stats: NodeStats,
    body: PhantomData<fn() -> B>,
}

#[expect(unused_variables, reason = "signatures first")]
#[expect(clippy::needless_pass_by_value, reason = "signatures first")]
impl<B: Body> Node<B> {
    /// A node that knows nobody yet. Polling says whom to dial.
    ///
    /// # Errors
    /// If a name, an address or a setting cannot work.
    pub fn new(now: Instant, identity: Identity, config: NodeConfig) -> Result<Self, ConfigError> {
        Err(ConfigError::new("node", "not implemented"))
    }

    /// Who this node is.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// Its life.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Starts an entity type here: its region registers, and hosts unless it is a proxy. Started again after
    /// [`Node::stop_type`], it is the same [`TypeIndex`] in a new session.
    ///
    /// Takes memory for the shard table (64 bytes a shard) and the buffer's slots at once.
    ///
    /// # Errors
    /// See [`AddTypeError`]; the state is unchanged.
    pub fn add_type(
        &mut self,
        now: Instant,
        config: TypeConfig,
        strategy: Strategy,
    ) -> Result<TypeIndex, AddTypeError> {
        Err(AddTypeError::Leaving)
    }

    /// Stops a type here, without handing its shards over: `StopShard` for each, buffered messages are rejected,
    /// its shards get other homes at once. Idempotent.
    pub fn stop_type(&mut self, now: Instant, ty: TypeIndex) {}

    /// The index of a type that was added, by its name.
    pub fn type_index(&self, name: &str) -> Option<TypeIndex> {
        None
    }

    /// The id of a type on the wire.
    pub fn entity_type(&self, ty: TypeIndex) -> Option<EntityTypeId> {
        None
    }

    /// Sends a message to an entity. `shard` is [`crate::hash::shard_of`] its id.
    ///
    /// An `ask` that is accepted ends in exactly one of: [`Sent::Local`] or a local [`NodeCommand::Deliver`] (from
    /// then on answering is the adapter's), [`Delivery::Answer`], [`NodeCommand::AskFailed`],
    /// [`NodeCommand::Reject`].
    ///
    /// O(1); does not allocate when the home is known, beyond the link's buffer.
    ///
    /// # Errors
    /// The body is handed back; the state is unchanged.
    pub fn send(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        shard: ShardId,
        id: EntityKey,
        body: B,
        ask: Option<Ask>,
    ) -> Result<Sent<B>, SendError<B>> {
        Err(SendError::Stopped(body))
    }

    /// Answers an ask of another node: `write` appends the payload straight to the link's buffer. Dropped and counted
    /// if that life of the node has ended, or (with [`REPLY_REFUSED`] in its place) if the payload is too large or
    /// `write` fails. Returns whether the reply was sent as given.
    pub fn reply(
        &mut self,
        now: Instant,
        to: ReplyTo,
        status: u8,
        write: impl FnOnce(&mut BytesMut) -> Result<(), BodyError>,
    ) -> bool {
        false
    }

    /// A connection that [`NodeCommand::Dial`] asked for stands. `authenticated`: whom the transport proved the peer
    /// to be, if it can.
    ///
    /// # Errors
    /// No room, or the dial is unknown: close the connection.
    pub fn handle_dialed(
        &mut self,
        now: Instant,
        dial: DialId,
        authenticated: Option<NodeId>,
    ) -> Result<LinkId, LinksFull> {
        Err(LinksFull)
    }

    /// Somebody connected.
    ///
    /// # Errors
    /// No room: close the connection.
    pub fn handle_accepted(
        &mut self,
        now: Instant,
        authenticated: Option<NodeId>,
    ) -> Result<LinkId, LinksFull> {
        Err(LinksFull)
    }

    /// A dial failed. It is repeated, with growing pauses, as long as the node is wanted.
    pub fn handle_dial_failed(&mut self, now: Instant, dial: DialId) {}

    /// A connection ended. What it had not delivered is sent again over the next one.
    pub fn handle_closed(&mut self, now: Instant, link: LinkId) {}

    /// Takes whole frames off the front of `buf` until one concerns the application. Call it until `Ok(None)`; then a
    /// part of a frame, or nothing, is left in `buf`. Poll commands between the calls or after them: those that were
    /// there before a delivery about the same shard must be done before it.
    ///
    /// # Errors
    /// The link is to be closed after writing what [`Node::poll_transmit`] has; the node has forgotten it.
    pub fn read(
        &mut self,
        now: Instant,
        link: LinkId,
        buf: &mut BytesMut,
    ) -> Result<Option<Delivery<B>>, LinkError> {
        Ok(None)
    }

    /// The next bytes to write to a link; `None` when there are no more for now.
    pub fn poll_transmit(&mut self, link: LinkId) -> Option<Bytes> {
        None
    }

    /// A link that has something to transmit; each is named once until it has something new.
    pub fn links_to_flush(&mut self) -> Option<LinkId> {
        None
    }

    /// The shard runs: answers [`NodeCommand::StartShard`].
    pub fn shard_started(&mut self, now: Instant, ty: TypeIndex, shard: ShardId, epoch: Epoch) {}

    /// Hands back, in order, what an entity of a stopping shard has not handled, between
    /// [`NodeCommand::StopShard`] and [`Node::shard_stopped`]. It goes in front of what was buffered since.
    ///
    /// # Errors
    /// The shard is not stopping under that epoch: the message is handed back, report it.
    pub fn give_back(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message<B>,
    ) -> Result<(), Message<B>> {
        Err(message)
    }

    /// Nothing of the shard runs any more: answers [`NodeCommand::StopShard`]. `forced`: something was aborted.
    pub fn shard_stopped(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
        forced: bool,
    ) {
    }

    /// The mailbox of an entity is full: sends the message of another node back to its caller as undeliverable.
    pub fn return_full(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
        origin: NodeId,
        message: Message<B>,
    ) {
    }

    /// The membership service says something ([`MembershipMode::External`] only). `address`: where to dial the node.
    /// About this node itself: `Removed` stops it for good ([`NodeCommand::Removed`]).
    pub fn handle_member(&mut self, now: Instant, change: MemberChange, address: Option<&str>) {}

    /// The wall clock in 1/16 s, or a persisted number: terms are taken above it. Say it once before anything else
    /// and whenever it is at hand.
    pub fn handle_term_floor(&mut self, now: Instant, floor: crate::Term) {}

    /// Leaves the cluster: resigns, hands every shard off, waits until what it had sent has arrived; at most
    /// for the deadline of the config. [`NodeCommand::Left`] says when it is done. Idempotent.
    pub fn leave(&mut self, now: Instant) {}

    /// Expires what is due, a bounded batch; call again while [`Node::poll_timeout`] is still due.
    pub fn handle_timeout(&mut self, now: Instant) {}

    /// When to call [`Node::handle_timeout`]. O(types).
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// What to do next. O(1) when there is nothing.
    pub fn poll_command(&mut self) -> Option<NodeCommand<B>> {
        None
    }

    /// Where a shard lives, as far as this node knows.
    pub fn home(&self, ty: TypeIndex, shard: ShardId) -> Option<Home> {
        None
    }

    /// How many shards of a type are hosted here.
    pub fn hosted(&self, ty: TypeIndex) -> u32 {
        0
    }

    /// How many messages of a type are buffered here.
    pub fn buffered(&self, ty: TypeIndex) -> u32 {
        0
    }

    /// Whether the type is registered with its coordinator.
    pub fn is_registered(&self, ty: TypeIndex) -> bool {
        false
    }

    /// The reign this node follows.
    pub fn leader(&self) -> Option<Leader> {
        None
    }

    /// The members this node knows, itself included.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        core::iter::empty()
    }

    /// A member's name and address, as its link or the membership service told them.
    pub fn member_address(&self, node: NodeId) -> Option<&str> {
        None
    }

    /// Whether [`Node::leave`] was called.
    pub fn is_leaving(&self) -> bool {
        false
    }

    /// What was counted.
    pub fn stats(&self) -> &NodeStats {
        &self.stats
    }
}
