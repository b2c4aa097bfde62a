//! What this node sends: messages, replies, what comes back.

use bytes::{Bytes, BytesMut};

use super::link::{AROUND, DataError, Flow, FrameSlot, PeerSlot};
use super::types::Outgoing;
use super::{
    Ask, Body, BodyError, EntityKey, Message, Node, NodeCommand, REPLY_NONE, ReplyTo, SendError,
    Sent, TypeIndex, count,
};
use crate::region::{Origin, RejectReason, Route, RouteError, Source};
use crate::wire::data::ENVELOPE_LEN;
use crate::wire::{Data, DataHead, Flags, Flush, Flushed, MAX_ID_LEN, PutError, ReturnReason, put};
use crate::{EntityTypeId, Epoch, Incarnation, Instant, NodeId, ShardId};

/// Why data did not get into a link's buffer.
pub(super) enum Unsent {
    /// The life of the receiver has ended, or it is not known.
    NoPeer,
    /// Wait until the window moves.
    Full,
    /// It is longer than a message may be.
    TooLarge { size: usize, limit: usize },
    /// The body has no encoding.
    Body(BodyError),
}

impl From<DataError<PutError<BodyError>>> for Unsent {
    fn from(error: DataError<PutError<BodyError>>) -> Self {
        use crate::wire::EncodeError;
        match error {
            DataError::Full => Self::Full,
            DataError::TooLarge { size, limit } => too_large(size, limit),
            DataError::Write(PutError::Payload(error)) => Self::Body(error),
            DataError::Write(PutError::Encode(EncodeError::TooLong { len, limit })) => {
                too_large(len, limit as usize)
            }
            DataError::Write(PutError::Encode(_)) => Self::Body(BodyError {
                reason: "a field is too long",
            }),
            DataError::UnknownPeer => Self::NoPeer,
        }
    }
}

/// In terms of a message: id and body.
const fn too_large(body: usize, limit: usize) -> Unsent {
    Unsent::TooLarge {
        size: body.saturating_sub(ENVELOPE_LEN),
        limit: limit.saturating_sub(AROUND as usize),
    }
}

pub(super) const fn head(slot: FrameSlot, entity_type: EntityTypeId, epoch: Epoch) -> DataHead {
    DataHead {
        flags: Flags::NONE.on_lane(slot.lane),
        version: slot.version,
        entity_type,
        epoch,
        seq: slot.seq,
    }
}

impl<B: Body> Node<B> {
    /// Sends a message to an entity. `shard` is [`crate::hash::entity_shard`] of its id.
    ///
    /// An `ask` that is accepted ends in exactly one of: [`Sent::Local`] or a local [`NodeCommand::Deliver`] (from
    /// then on answering is the adapter's), [`Delivery::Answer`](super::Delivery::Answer),
    /// [`NodeCommand::AskFailed`], [`NodeCommand::Reject`].
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
        self.send_message(now, ty, shard, Message::new(id, body, ask))
    }

    /// As [`Node::send`], of a message that is [tracked](Message::tracked).
    ///
    /// # Errors
    /// The body is handed back; the state is unchanged.
    pub fn send_tracked(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        shard: ShardId,
        id: EntityKey,
        body: B,
        ask: Option<Ask>,
    ) -> Result<Sent<B>, SendError<B>> {
        let mut message = Message::new(id, body, ask);
        message.tracked = true;
        self.send_message(now, ty, shard, message)
    }

    #[inline]
    fn send_message(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        shard: ShardId,
        message: Message<B>,
    ) -> Result<Sent<B>, SendError<B>> {
        let now = self.advance(now);
        let sent = self.try_send(now, ty, shard, message);
        let counter = match &sent {
            Ok(Sent::Local { .. }) => &mut self.stats.local,
            Ok(Sent::Remote) => &mut self.stats.sent,
            Ok(Sent::Queued) => &mut self.stats.queued,
            Err(_) => &mut self.stats.refused,
        };
        count(counter);
        sent
    }

    fn try_send(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        shard: ShardId,
        mut message: Message<B>,
    ) -> Result<Sent<B>, SendError<B>> {
        let limit = self.config.max_message as usize;
        let id_len = message.id.as_bytes().len();
        let size = id_len.saturating_add(message.body.len_hint());
        let (size, limit) = if id_len > MAX_ID_LEN {
            (id_len, MAX_ID_LEN)
        } else {
            (size, limit)
        };
        if size > limit {
            let body = message.body;
            return Err(SendError::TooLarge { size, limit, body });
        }
        if !self.phase.takes_messages() {
            return Err(SendError::Stopped(message.body));
        }
        let ask = message.ask;
        if ask.is_some() && self.asks.is_full() {
            return Err(SendError::TooManyAsks(message.body));
        }
        let Some(kind) = self.types.get_mut(ty) else {
            return Err(SendError::UnknownShard(message.body));
        };
        message.pending = true;
        let correlation = ask.and_then(|ask| self.asks.insert(ask)).unwrap_or(0);
        message.correlation = correlation;
        message.weight = kind.scales.weigh(size);
        kind.region.keep_new(!kind.scales.is_over(size));
        let routed = kind.region.route(now, shard, message);
        kind.region.keep_new(true);
        let kept = matches!(routed, Ok(Route::Remote { .. } | Route::Queued));
        if correlation != 0 && !kept {
            self.asks.take(correlation);
        }
        match routed {
            Ok(Route::Local { epoch, mut payload }) => {
                payload.pending = false;
                payload.correlation = 0;
                Ok(Sent::Local {
                    epoch,
                    message: payload,
                })
            }
            Ok(Route::Remote { to, epoch, payload }) => {
                self.send_remote(now, ty, to, shard, epoch, payload)
            }
            Ok(Route::Queued) => {
                if let Some(kept) = kind.region.newest_of(shard, Source::Here) {
                    kind.scales.weigh_kept(size, &mut kept.weight);
                }
                self.types.touch(ty);
                Ok(Sent::Queued)
            }
            Err(RouteError::BufferFull(message)) => Err(SendError::BufferFull(message.body)),
            Err(RouteError::UnknownShard(message)) => Err(SendError::UnknownShard(message.body)),
            Err(RouteError::Stopped(message)) => Err(SendError::Stopped(message.body)),
        }
    }

    fn send_remote(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        message: Message<B>,
    ) -> Result<Sent<B>, SendError<B>> {
        let sent = self.put_envelope(now, ty, to, shard, epoch, &message);
        if sent.is_err() && message.correlation != 0 {
            self.asks.take(message.correlation);
        }
        let body = message.body;
        match sent {
            Ok(()) => {
                // If the link is full now, what follows waits in the region: many may be sent before the next poll.
                self.pump_links();
                Ok(Sent::Remote)
            }
            Err(Unsent::Body(error)) => Err(SendError::Body { error, body }),
            Err(Unsent::TooLarge { size, limit }) => Err(SendError::TooLarge { size, limit, body }),
            Err(Unsent::Full | Unsent::NoPeer) => Err(SendError::BufferFull(body)),
        }
    }

    /// Writes an envelope of this node; its ask waits for that peer from then on.
    pub(super) fn put_envelope(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        message: &Message<B>,
    ) -> Result<(), Unsent> {
        let peer = self.put_message(now, ty, to, shard, epoch, None, message)?;
        if message.correlation != 0 && message.ask.is_some() {
            count(&mut self.stats.asks);
            self.asks.sent(message.correlation, peer_index(peer));
        }
        Ok(())
    }

    /// Writes data that a region wants sent. What cannot be sent for good is reported; what has to wait comes back.
    pub(super) fn put(&mut self, now: Instant, ty: TypeIndex, outgoing: Outgoing<B>) -> Put<B> {
        if outgoing.to() == self.me.node {
            return self.loop_back(now, ty, outgoing);
        }
        match outgoing {
            Outgoing::Envelope {
                to,
                shard,
                epoch,
                mut message,
            } => {
                // It was given back, and could not be watched then.
                if message.correlation == 0
                    && let Some(ask) = message.ask
                {
                    let Some(correlation) = self.asks.insert(ask) else {
                        let reason = RejectReason::BufferFull;
                        return self.reject(ty, shard, Origin::Local, reason, message);
                    };
                    message.correlation = correlation;
                }
                match self.put_envelope(now, ty, to, shard, epoch, &message) {
                    Ok(()) => {
                        count(&mut self.stats.sent);
                        if message.pending {
                            Put::Done(Some(NodeCommand::Handed { ty, shard }))
                        } else {
                            Put::Done(None)
                        }
                    }
                    Err(Unsent::Full) => Put::Wait(Outgoing::Envelope {
                        to,
                        shard,
                        epoch,
                        message,
                    }),
                    Err(Unsent::NoPeer) => {
                        self.reject(ty, shard, Origin::Local, RejectReason::PathGivenUp, message)
                    }
                    Err(Unsent::Body(_) | Unsent::TooLarge { .. }) => {
                        self.reject(ty, shard, Origin::Local, RejectReason::Unsendable, message)
                    }
                }
            }
            Outgoing::Return {
                to,
                shard,
                epoch,
                reason,
                message,
            } => match self.put_return(now, ty, to, shard, epoch, reason, &message) {
                Ok(()) => Put::Done(None),
                Err(Unsent::Full) => Put::Wait(Outgoing::Return {
                    to,
                    shard,
                    epoch,
                    reason,
                    message,
                }),
                Err(_) => self.reject(
                    ty,
                    shard,
                    Origin::Remote(to),
                    RejectReason::OriginEnded,
                    message,
                ),
            },
            Outgoing::Flush {
                to,
                shard,
                epoch,
                token,
            } => {
                let flush = Data::Flush(Flush { shard, token });
                match self.put_marker(now, ty, to, shard, epoch, &flush) {
                    Err(Unsent::Full) => Put::Wait(outgoing),
                    _ => Put::Done(None),
                }
            }
            Outgoing::Flushed { to, shard, token } => {
                let flushed = Data::Flushed(Flushed { shard, token });
                match self.put_marker(now, ty, to, shard, Epoch::NONE, &flushed) {
                    Err(Unsent::Full) => Put::Wait(outgoing),
                    _ => Put::Done(None),
                }
            }
        }
    }

    /// What a region sends to its own node. Its own messages never take this way: a region delivers them.
    fn loop_back(&mut self, now: Instant, ty: TypeIndex, outgoing: Outgoing<B>) -> Put<B> {
        let me = self.me.node;
        let Some(kind) = self.types.touch(ty) else {
            return Put::Done(None);
        };
        match outgoing {
            Outgoing::Envelope { shard, message, .. } | Outgoing::Return { shard, message, .. } => {
                self.reject(ty, shard, Origin::Local, RejectReason::PathGivenUp, message)
            }
            Outgoing::Flush {
                shard,
                epoch,
                token,
                ..
            } => {
                kind.region.handle_flush(now, me, shard, epoch, token);
                Put::Done(None)
            }
            Outgoing::Flushed { shard, token, .. } => {
                kind.region.handle_flushed(now, me, shard, token);
                Put::Done(None)
            }
        }
    }

    /// Reports a message. Its ask has failed by that.
    pub(super) fn reject(
        &mut self,
        ty: TypeIndex,
        shard: ShardId,
        origin: Origin,
        reason: RejectReason,
        mut message: Message<B>,
    ) -> Put<B> {
        count(&mut self.stats.rejected);
        self.release(&mut message);
        let pending = message.pending;
        Put::Done(Some(NodeCommand::Reject {
            ty,
            shard,
            origin,
            reason,
            message,
            pending,
        }))
    }

    /// A message of this node leaves the node's care: its ask is no longer watched here. If it failed before, nobody
    /// waits.
    pub(super) fn release(&mut self, message: &mut Message<B>) {
        if message.correlation != 0 && message.ask.is_some() {
            message.ask = self.asks.take(message.correlation);
            message.correlation = 0;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a frame")]
    pub(super) fn put_return(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        reason: ReturnReason,
        message: &Message<B>,
    ) -> Result<(), Unsent> {
        self.put_message(now, ty, to, shard, epoch, Some(reason), message)?;
        count(&mut self.stats.returned);
        Ok(())
    }

    /// Writes a message: as an envelope, or with a `reason` as a return.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the fields of a frame")]
    fn put_message(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        reason: Option<ReturnReason>,
        message: &Message<B>,
    ) -> Result<PeerSlot, Unsent> {
        let entity_type = self.types.get(ty).map_or(EntityTypeId(0), |kind| kind.id);
        let peer = self.links.slot(to).ok_or(Unsent::NoPeer)?;
        if reason.is_some() && !self.is_sender(peer, message) {
            return Err(Unsent::NoPeer);
        }
        let (id, correlation) = (message.id.as_bytes(), message.correlation);
        let hint = message.body.len_hint();
        let long = self.config.fragment as usize;
        let shared = if hint >= long {
            message
                .body
                .shared()
                .filter(|payload| payload.len() >= long)
        } else {
            None
        };
        let hint = if shared.is_some() { 0 } else { hint };
        let whole = hint.saturating_add(id.len()).saturating_add(64);
        let is_shared = shared.is_some();
        let write = |out: &mut BytesMut, slot: FrameSlot| {
            let (mut head, most) = (head(slot, entity_type, epoch), slot.max_body);
            if message.tracked {
                head.flags = head.flags.with(Flags::TRACKED);
            }
            let body = |out: &mut BytesMut| {
                if is_shared {
                    Ok(())
                } else {
                    message.body.encode(out)
                }
            };
            let written = match reason {
                None => put::envelope(out, &head, most, shard, correlation, id, hint, body),
                Some(reason) => {
                    put::back(out, &head, most, reason, shard, correlation, id, hint, body)
                }
            };
            written.map(|_| ())
        };
        let flow = Flow::shard(entity_type, shard);
        match (shared, reason) {
            (Some(payload), _) => {
                let back = reason.is_some();
                self.links
                    .data_shared(now, peer, flow, back, payload, write)?;
            }
            (None, None) => self.links.data(now, peer, flow, whole, write)?,
            (None, Some(_)) => self.links.data_back(now, peer, flow, whole, write)?,
        }
        Ok(peer)
    }

    /// Whether the life behind a link is the one that sent the message.
    pub(super) fn is_sender(&self, peer: PeerSlot, message: &Message<B>) -> bool {
        message.sender == Incarnation(0) || self.links.incarnation(peer) == Some(message.sender)
    }

    fn put_marker(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        marker: &Data<'_>,
    ) -> Result<(), Unsent> {
        let entity_type = self.types.get(ty).map_or(EntityTypeId(0), |kind| kind.id);
        let peer = self.links.slot(to).ok_or(Unsent::NoPeer)?;
        let write = |out: &mut BytesMut, slot: FrameSlot| {
            marker
                .encode_into(&head(slot, entity_type, epoch), slot.max_body, out)
                .map(|_| ())
                .map_err(PutError::<BodyError>::Encode)
        };
        let flow = Flow::shard(entity_type, shard);
        Ok(self.links.data(now, peer, flow, 64, write)?)
    }

    /// Answers an ask of another node: `write` appends the payload straight to the link's buffer. Dropped and counted
    /// if that life of the node has ended; if the payload is too large or `write` fails, [`REPLY_NONE`] goes in its
    /// place, because the message was handled. Returns whether the reply was sent as given.
    pub fn reply(
        &mut self,
        now: Instant,
        to: ReplyTo,
        status: u8,
        write: impl FnOnce(&mut BytesMut) -> Result<(), BodyError>,
    ) -> bool {
        self.answer(now, to, |node, now, peer| {
            node.put_reply(now, peer, to.correlation, status, write)
        })
    }

    /// As [`Node::reply`], with a payload that is there already: a long one is sent from it without a copy.
    pub fn reply_shared(&mut self, now: Instant, to: ReplyTo, status: u8, payload: Bytes) -> bool {
        if payload.len() < self.config.fragment as usize {
            return self.reply(now, to, status, |out| {
                out.extend_from_slice(&payload);
                Ok(())
            });
        }
        self.answer(now, to, |node, now, peer| {
            let flow = Flow::reply(to.correlation);
            let write = reply_frame(to.correlation, status, |_: &mut BytesMut| Ok(()));
            Ok(node
                .links
                .data_shared(now, peer, flow, false, payload, write)?)
        })
    }

    fn answer(
        &mut self,
        now: Instant,
        to: ReplyTo,
        put: impl FnOnce(&mut Self, Instant, PeerSlot) -> Result<(), Unsent>,
    ) -> bool {
        let now = self.advance(now);
        let peer = self
            .links
            .slot(to.node)
            .filter(|peer| self.links.incarnation(*peer) == Some(to.incarnation));
        let Some(peer) = peer else {
            count(&mut self.stats.replies_dropped);
            return false;
        };
        match put(self, now, peer) {
            Ok(()) => true,
            Err(Unsent::Body(_) | Unsent::TooLarge { .. }) => {
                let empty = |_: &mut BytesMut| Ok(());
                if self
                    .put_reply(now, peer, to.correlation, REPLY_NONE, empty)
                    .is_err()
                {
                    count(&mut self.stats.replies_dropped);
                }
                false
            }
            Err(Unsent::Full | Unsent::NoPeer) => {
                count(&mut self.stats.replies_dropped);
                false
            }
        }
    }

    fn put_reply(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        correlation: u64,
        status: u8,
        payload: impl FnOnce(&mut BytesMut) -> Result<(), BodyError>,
    ) -> Result<(), Unsent> {
        let write = reply_frame(correlation, status, payload);
        let flow = Flow::reply(correlation);
        Ok(self.links.data(now, peer, flow, 128, write)?)
    }
}

/// Writes a reply.
fn reply_frame(
    correlation: u64,
    status: u8,
    payload: impl FnOnce(&mut BytesMut) -> Result<(), BodyError>,
) -> impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), PutError<BodyError>> {
    move |out, slot| {
        let head = head(slot, EntityTypeId(0), Epoch::NONE);
        put::reply(out, &head, slot.max_body, correlation, status, 64, payload).map(|_| ())
    }
}

/// What became of data that a region wanted sent.
pub(super) enum Put<B> {
    /// It is gone; the application may have to know.
    Done(Option<NodeCommand<B>>),
    /// Its link has no room now.
    Wait(Outgoing<B>),
}

pub(super) fn peer_index(peer: PeerSlot) -> u16 {
    u16::try_from(peer.index()).unwrap_or(u16::MAX)
}
