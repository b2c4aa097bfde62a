//! What the application says of the shards it serves, and of messages that it cannot handle.

use super::send::Put;
use super::types::Outgoing;
use super::{Body, Message, Node, TypeIndex};
use crate::region::{Origin, RejectReason};
use crate::wire::ReturnReason;
use crate::{Epoch, Instant, NodeId, ShardId};

impl<B: Body> Node<B> {
    /// The shard runs: answers [`NodeCommand::StartShard`](super::NodeCommand::StartShard).
    pub fn shard_started(&mut self, now: Instant, ty: TypeIndex, shard: ShardId, epoch: Epoch) {
        let now = self.advance(now);
        if let Some(kind) = self.types.touch(ty) {
            kind.region.handle_shard_started(now, shard, epoch);
        }
    }

    /// Hands back, in order, what an entity of a stopping shard has not handled, between
    /// [`NodeCommand::StopShard`](super::NodeCommand::StopShard) and [`Node::shard_stopped`]. It goes in front of what
    /// was buffered since; one whose sender's life has ended is reported.
    ///
    /// # Errors
    /// No buffer slot is left, or the shard is not stopping under that epoch: the message is handed back. Report it to
    /// its caller; one of another node goes back with [`Node::return_full`].
    pub fn give_back(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        mut message: Message<B>,
    ) -> Result<(), Message<B>> {
        let now = self.advance(now);
        // A message of this node is watched here again: what becomes of it is told by a command, without `pending`.
        message.pending = false;
        if let Some(ask) = message.ask {
            message.correlation = self.asks.insert(ask).unwrap_or(0);
        }
        if let Origin::Remote(node) = origin
            && !(self.links.slot(node)).is_some_and(|peer| self.is_sender(peer, &message))
        {
            let (origin, reason) = (Origin::Remote(node), RejectReason::OriginEnded);
            if let Put::Done(command) = self.reject(ty, shard, origin, reason, message) {
                self.out.extend(command);
            }
            return Ok(());
        }
        let Some(kind) = self.types.touch(ty) else {
            self.release(&mut message);
            return Err(message);
        };
        let size = message
            .body
            .len_hint()
            .saturating_add(message.id.as_bytes().len());
        kind.scales.weigh_kept(size, &mut message.weight);
        let given = kind.region.give_back(now, shard, epoch, origin, message);
        given.map_err(|mut message| {
            self.release(&mut message);
            message
        })
    }

    /// Nothing of the shard runs any more: answers [`NodeCommand::StopShard`](super::NodeCommand::StopShard).
    /// `forced`: something was aborted.
    pub fn shard_stopped(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
        forced: bool,
    ) {
        let now = self.advance(now);
        if let Some(kind) = self.types.touch(ty) {
            kind.region.handle_shard_stopped(now, shard, epoch, forced);
        }
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
        let now = self.advance(now);
        let outgoing = Outgoing::Return {
            to: origin,
            shard,
            epoch,
            reason: ReturnReason::Full,
            message,
        };
        self.put_back(now, ty, outgoing);
    }
}
