//! What other nodes send: frames off the links, given to the part that they concern.

use bytes::{Bytes, BytesMut};

use super::control::put_control;
use super::link::{Flow, Incoming, LinkFault, PeerSlot};
use super::send::peer_index;
use super::types::{Outgoing, tell_coordinator};
use super::{
    Authenticated, Body, Delivery, EntityKey, LinkError, LinkId, LinksFull, Message, Node, ReplyTo,
    StreamIndex, TypeIndex, Warning, count,
};
use crate::leadership::ControlError as LeadershipError;
use crate::region::{
    Arrival, ControlError as RegionError, Origin, RejectReason, ReturnError, Source,
};
use crate::wire::control::{Register, RegisterRefusal, RegisterRefused};
use crate::wire::{Control, Data, Envelope, Flags, Header, Kind, Return, ReturnReason};
use crate::{Epoch, Instant, NodeId, Term};

impl<B: Body> Node<B> {
    /// A connection that [`NodeCommand::Dial`](super::NodeCommand::Dial) asked for stands. `streams`: 1, or one for
    /// control and one for each [lane](super::NodeConfig::with_lanes). `authenticated`: whom the transport proved the
    /// peer to be, if it can.
    ///
    /// # Errors
    /// No room, or the dial is unknown: close the connection.
    pub fn handle_dialed(
        &mut self,
        now: Instant,
        dial: super::DialId,
        streams: u8,
        authenticated: Option<Authenticated>,
    ) -> Result<LinkId, LinksFull> {
        let now = self.advance(now);
        let link = self.links.dialed(now, dial, streams, authenticated);
        self.pump_links();
        link
    }

    /// Somebody connected. `streams` as of [`Node::handle_dialed`].
    ///
    /// # Errors
    /// No room: close the connection.
    pub fn handle_accepted(
        &mut self,
        now: Instant,
        streams: u8,
        authenticated: Option<Authenticated>,
    ) -> Result<LinkId, LinksFull> {
        let now = self.advance(now);
        if self.config.membership == super::MembershipMode::Alone {
            return Err(LinksFull);
        }
        let link = self.links.accepted(now, streams, authenticated);
        self.pump_links();
        link
    }

    /// A dial failed. It is repeated, with growing pauses, as long as the node is wanted.
    pub fn handle_dial_failed(&mut self, now: Instant, dial: super::DialId) {
        let now = self.advance(now);
        self.links.dial_failed(now, dial);
        self.pump_links();
    }

    /// A connection ended. What it had not delivered is sent again over the next one.
    pub fn handle_closed(&mut self, now: Instant, link: LinkId) {
        let now = self.advance(now);
        self.links.closed(now, link);
        self.pump_links();
    }

    /// Takes whole frames off the front of `buf`, which came by that stream, until one concerns the application. Call it
    /// until `Ok(None)`; then a part of a frame, or nothing, is left in `buf`. Data can overtake the end of the handshake,
    /// which comes by the first stream, and stays in `buf` until then: whenever something was read from the first stream,
    /// read again from those that have something left. Poll commands between the calls or after them: those that were
    /// there before a delivery about the same shard must be done before it.
    ///
    /// # Errors
    /// The link is to be closed after writing what [`Node::poll_transmit`] has; the node has forgotten it.
    pub fn read(
        &mut self,
        now: Instant,
        link: LinkId,
        stream: StreamIndex,
        buf: &mut BytesMut,
    ) -> Result<Option<Delivery<B>>, LinkError> {
        let now = self.advance(now);
        loop {
            let incoming = self.links.read(now, link, stream, buf);
            // A handshake makes a member: before what the new link says.
            self.pump_links();
            let delivery = match incoming {
                Ok(None) => {
                    self.stats.unknown_kinds = self.links.unknown_kinds();
                    return Ok(None);
                }
                Err(fault) => return Err(self.link_error(fault)),
                Ok(Some(Incoming::Data {
                    peer,
                    node,
                    header,
                    body,
                    ..
                })) => self.handle_data(now, peer, node, &header, &body),
                Ok(Some(Incoming::Control {
                    peer,
                    node,
                    header,
                    body,
                })) => {
                    self.handle_control(now, peer, node, &header, &body);
                    None
                }
            };
            if delivery.is_some() {
                return Ok(delivery);
            }
        }
    }

    #[cold]
    fn link_error(&mut self, fault: LinkFault) -> LinkError {
        match fault {
            fault if !fault.is_news() => {}
            LinkFault::Refused(_) | LinkFault::Version(_) | LinkFault::RefusedByPeer(_) => {
                count(&mut self.stats.links_refused);
            }
            LinkFault::Fragment | LinkFault::Message { .. } => {
                count(&mut self.stats.link_faults);
                count(&mut self.stats.fragments_refused);
            }
            _ => count(&mut self.stats.link_faults),
        }
        let node = self.links.take_blame();
        LinkError { node, fault }
    }

    /// Whether the handshake of a connection is complete, so that it is a link with a node.
    #[must_use]
    pub fn is_linked(&self, link: LinkId) -> bool {
        self.links.is_linked(link)
    }

    /// The next bytes to write to a link, and to which of its streams; `None` when there are no more for now. For links
    /// whose streams all take what there is; see [`Node::poll_stream`].
    pub fn poll_transmit(&mut self, link: LinkId) -> Option<(StreamIndex, Bytes)> {
        self.links.poll_transmit(link)
    }

    /// The next bytes to write to a stream of a link; `None` when there are no more for now. A stream that takes nothing
    /// is left alone, so that what is under way stays little: control, and the fragments of long messages, go in between.
    pub fn poll_stream(&mut self, link: LinkId, stream: StreamIndex) -> Option<Bytes> {
        self.links.poll_stream(link, stream)
    }

    /// A link that has something to transmit; each is named once until it has something new.
    pub fn links_to_flush(&mut self) -> Option<LinkId> {
        self.links.poll_dirty()
    }

    fn handle_data(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        from: NodeId,
        header: &Header,
        body: &Bytes,
    ) -> Option<Delivery<B>> {
        let Ok(data) = Data::decode(header.kind, body) else {
            self.unexpected(from, header, None, "data that does not decode");
            return None;
        };
        if let Data::Reply(reply) = data {
            let Some(ask) = self.asks.answered(reply.correlation, peer_index(peer)) else {
                count(&mut self.stats.replies_ignored);
                return None;
            };
            count(&mut self.stats.answered);
            return Some(Delivery::Answer {
                key: ask.key,
                status: reply.status,
                payload: B::from_wire(reply.payload, || body.slice_ref(reply.payload)),
            });
        }
        let Some(ty) = self.types.by_id(header.entity_type) else {
            count(&mut self.stats.unknown_type);
            if let Data::Envelope(envelope) = data {
                self.bounce(now, from, header, &envelope);
            }
            return None;
        };
        match data {
            Data::Envelope(envelope) => {
                return self.handle_envelope(now, peer, from, ty, header, &envelope, body);
            }
            Data::Return(back) => {
                self.handle_return(now, peer, from, ty, header, &back, body);
            }
            Data::Flush(flush) => {
                if let Some(kind) = self.types.touch(ty) {
                    let epoch = header.epoch();
                    kind.region
                        .handle_flush(now, from, flush.shard, epoch, flush.token);
                }
            }
            Data::Flushed(flushed) => {
                let known = self.types.touch(ty).is_some_and(|kind| {
                    kind.region
                        .handle_flushed(now, from, flushed.shard, flushed.token)
                });
                if !known {
                    count(&mut self.stats.unexpected);
                }
            }
            Data::Reply(_) => {}
        }
        None
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a frame")]
    fn handle_envelope(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        from: NodeId,
        ty: TypeIndex,
        header: &Header,
        envelope: &Envelope<'_>,
        body: &Bytes,
    ) -> Option<Delivery<B>> {
        let (shard, epoch) = (envelope.shard, header.epoch());
        let mut message = from_wire(header.flags, envelope, body);
        message.sender = self.links.incarnation(peer)?;
        let kind = self.types.get_mut(ty)?;
        let size = body.len().saturating_add(envelope.id.len());
        message.weight = kind.scales.weigh(size);
        kind.region.keep_new(!kind.scales.is_over(size));
        let arrival = kind
            .region
            .handle_envelope(now, from, shard, epoch, message);
        kind.region.keep_new(true);
        match arrival {
            Arrival::Deliver(message) => {
                count(&mut self.stats.received);
                let reply = Self::reply_to(from, &message);
                Some(Delivery::Message {
                    ty,
                    shard,
                    epoch,
                    origin: from,
                    message,
                    reply,
                })
            }
            Arrival::Queued => {
                if let Some(kept) = kind.region.newest_of(shard, Source::Others) {
                    kind.scales.weigh_kept(size, &mut kept.weight);
                }
                self.types.touch(ty);
                None
            }
            Arrival::Return { reason, payload } => {
                self.send_back(now, ty, from, shard, epoch, reason, payload);
                None
            }
            // Its sender must hear of it: nothing is dropped silently.
            Arrival::Refused(message) => {
                count(&mut self.stats.not_a_member);
                self.send_back(now, ty, from, shard, epoch, ReturnReason::Full, message);
                None
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a frame")]
    fn send_back(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        to: NodeId,
        shard: crate::ShardId,
        epoch: Epoch,
        reason: ReturnReason,
        message: Message<B>,
    ) {
        let outgoing = Outgoing::Return {
            to,
            shard,
            epoch,
            reason,
            message,
        };
        self.put_back(now, ty, outgoing);
    }

    /// Where a reply to a message of that node goes.
    pub(super) fn reply_to(node: NodeId, message: &Message<B>) -> Option<ReplyTo> {
        (message.correlation != 0).then_some(ReplyTo {
            node,
            incarnation: message.sender,
            correlation: message.correlation,
        })
    }

    /// Sends an envelope of a type that is not known here back as undeliverable.
    fn bounce(&mut self, now: Instant, to: NodeId, header: &Header, envelope: &Envelope<'_>) {
        let Some(peer) = self.links.slot(to) else {
            return;
        };
        let back = Data::Return(Return {
            reason: ReturnReason::Full,
            envelope: *envelope,
        });
        let hint = envelope.payload.len().saturating_add(envelope.id.len());
        let flow = Flow::shard(header.entity_type, envelope.shard);
        let sent = self.links.data_back(now, peer, flow, hint, |out, slot| {
            let mut head = super::send::head(slot, header.entity_type, header.epoch());
            head.flags = header.flags.on_lane(slot.lane);
            back.encode_into(&head, slot.max_body, out).map(|_| ())
        });
        if sent.is_ok() {
            count(&mut self.stats.returned);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a frame")]
    fn handle_return(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        from: NodeId,
        ty: TypeIndex,
        header: &Header,
        back: &Return<'_>,
        body: &Bytes,
    ) {
        let envelope = &back.envelope;
        let (shard, correlation) = (envelope.shard, envelope.correlation);
        let mut message = from_wire(header.flags, envelope, body);
        message.ask = self.asks.waits_for(correlation, peer_index(peer));
        let Some(kind) = self.types.touch(ty) else {
            return;
        };
        let size = body.len().saturating_add(envelope.id.len());
        kind.scales.weigh_kept(size, &mut message.weight);
        let epoch = header.epoch();
        let (reason, message) =
            match kind
                .region
                .handle_return(now, from, shard, epoch, back.reason, message)
            {
                Ok(()) => {
                    count(&mut self.stats.came_back);
                    self.asks.came_back(correlation, peer_index(peer));
                    return;
                }
                Err(ReturnError::Full(message)) => (RejectReason::BufferFull, message),
                Err(ReturnError::PathGivenUp(message)) => (RejectReason::PathGivenUp, message),
                Err(ReturnError::Stopped(message)) => (RejectReason::Stopped, message),
                // What the type had sent before it was stopped and started again.
                Err(ReturnError::Unexpected(message)) if kind.region.session().starts > 0 => {
                    (RejectReason::Stopped, message)
                }
                Err(ReturnError::Unexpected(_)) => {
                    self.unexpected(from, header, Some(ty), "a return of what was not sent");
                    return;
                }
            };
        if let super::send::Put::Done(Some(command)) =
            self.reject(ty, shard, Origin::Local, reason, message)
        {
            self.out.push_back(command);
        }
    }

    fn handle_control(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        from: NodeId,
        header: &Header,
        body: &[u8],
    ) {
        let Ok(control) = Control::decode(header.kind, body) else {
            self.unexpected(from, header, None, "control that does not decode");
            return;
        };
        if let Control::Swim(packet) = control {
            let taken = match (&mut self.gossip, self.links.incarnation(peer)) {
                (Some(gossip), Some(life)) => gossip.handle_packet(now, from, life, packet),
                _ => false,
            };
            if !taken {
                self.unexpected(from, header, None, "a packet of the membership protocol");
            }
            self.pump_gossip();
            return;
        }
        if self.members.get(from).is_none() {
            count(&mut self.stats.not_a_member);
            return;
        }
        match header.kind {
            Kind::LEADER_BEAT | Kind::NODE_BEAT | Kind::TERM_REFUSED | Kind::RESIGN => {
                self.lead_dirty = true;
                let taken = self
                    .leadership
                    .handle_control(now, from, header.term(), &control);
                match taken {
                    Err(LeadershipError::TermTooHigh) => {
                        self.unexpected(from, header, None, "a term far ahead of the clock");
                    }
                    Err(_) => count(&mut self.stats.unexpected),
                    Ok(()) => {}
                }
            }
            Kind::REGISTER
            | Kind::DEREGISTER
            | Kind::GET_SHARD_HOME
            | Kind::SHARD_STARTED
            | Kind::HAND_OFF_COMPLETE
            | Kind::RESIZE
            | Kind::ENTITY_STARTED
            | Kind::ENTITY_STOPPED
            | Kind::STATS => self.tell_coordinator(now, peer, from, header, &control),
            Kind::REGISTER_ACK
            | Kind::REGISTER_REFUSED
            | Kind::SHARD_HOME
            | Kind::HAND_OFF
            | Kind::SHARD_MAP_UPDATE
            | Kind::RESIZED
            | Kind::REMEMBERED_ENTITIES
            | Kind::STATS_QUERY => self.tell_region(now, from, header, &control),
            _ => count(&mut self.stats.unexpected),
        }
    }

    fn tell_coordinator(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        from: NodeId,
        header: &Header,
        control: &Control<'_>,
    ) {
        let Some(ty) = self.types.by_id(header.entity_type) else {
            count(&mut self.stats.unknown_type);
            if let Control::Register(register) = control {
                self.refuse_type(now, peer, from, header, register);
            }
            return;
        };
        if header.kind == Kind::REGISTER {
            self.heed_term(now, from, header);
        }
        let Some(kind) = self.types.touch(ty) else {
            return;
        };
        let (taken, unregistered) =
            tell_coordinator(&mut kind.coordinator, now, from, header.term(), control);
        if unregistered {
            self.say_registered(from);
        }
        if let Err(error) = taken {
            if error.is_expected() {
                count(&mut self.stats.late);
            } else {
                self.unexpected(
                    from,
                    header,
                    Some(ty),
                    "a region's frame that it may not send",
                );
            }
        }
    }

    /// A region that registers for a higher term than that of this node's reign has obeyed another leader.
    fn heed_term(&mut self, now: Instant, from: NodeId, header: &Header) {
        if self.reign.is_none_or(|reign| header.term() <= reign.term) {
            return;
        }
        let term = header.term();
        let heeded = self.leadership.handle_higher_term(now, from, term);
        self.lead_dirty = true;
        if let Err(LeadershipError::TermTooHigh) = heeded {
            self.unexpected(from, header, None, "a term far ahead of the clock");
        }
    }

    /// Somebody wants to register a type that this node does not know; it must, if it leads.
    fn refuse_type(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        from: NodeId,
        header: &Header,
        register: &Register<'_>,
    ) {
        if self.reign.map(|reign| reign.term) != Some(header.term()) {
            return;
        }
        if register.claims.iter().next().is_some()
            && self.types.foreign.len() < usize::from(self.config.max_types)
        {
            self.types.foreign.insert(header.entity_type);
        }
        let refused = Control::RegisterRefused(RegisterRefused {
            session: register.session,
            reason: RegisterRefusal::UnknownType,
        });
        let (links, stats) = (&mut self.links, &mut self.stats);
        let (kind, term) = (header.entity_type, header.term());
        put_control(links, stats, now, Some(peer), kind, term, &refused);
        let name = register.type_name;
        self.warn(from, header.entity_type.0, || Warning::UnknownType {
            peer: from,
            name: name.into(),
        });
    }

    fn tell_region(&mut self, now: Instant, from: NodeId, header: &Header, control: &Control<'_>) {
        let Some(ty) = self.types.by_id(header.entity_type) else {
            count(&mut self.stats.unknown_type);
            return;
        };
        let taken = self.types.touch(ty).map(|kind| {
            kind.region
                .handle_control(now, from, header.term(), control)
        });
        self.directive_error(from, header.kind, ty, header.term(), taken);
    }

    fn directive_error(
        &mut self,
        peer: NodeId,
        kind: Kind,
        ty: TypeIndex,
        term: Term,
        taken: Option<Result<(), RegionError>>,
    ) {
        match taken {
            Some(Err(RegionError::NotLeading { adopted, .. })) => {
                count(&mut self.stats.directives_refused);
                // The end of a reign, and the beginning of the next, are seen at different times; that is no news.
                if adopted.is_none_or(|leader| leader.node != peer) {
                    self.warn(peer, u32::from(kind.to_u8()), || Warning::NotTheLeader {
                        peer,
                        ty: Some(ty),
                        term,
                    });
                }
            }
            Some(Err(RegionError::Stopped)) => count(&mut self.stats.late),
            Some(Err(_)) => {
                count(&mut self.stats.unexpected);
                self.warn(peer, u32::from(kind.to_u8()), || Warning::Unexpected {
                    peer,
                    ty: Some(ty),
                    what: kind.name().unwrap_or("a frame"),
                });
            }
            Some(Ok(())) | None => {}
        }
    }

    fn unexpected(
        &mut self,
        peer: NodeId,
        header: &Header,
        ty: Option<TypeIndex>,
        what: &'static str,
    ) {
        count(&mut self.stats.unexpected);
        self.warn(peer, u32::from(header.kind.to_u8()), || {
            Warning::Unexpected { peer, ty, what }
        });
    }
}

/// A message as it lies in the buffer that was read.
pub(super) fn from_wire<B: Body>(
    flags: Flags,
    envelope: &Envelope<'_>,
    body: &Bytes,
) -> Message<B> {
    let id = EntityKey::from_slice(envelope.id, || body.slice_ref(envelope.id));
    let content = B::from_wire(envelope.payload, || body.slice_ref(envelope.payload));
    let mut message = Message::new(id, content, None);
    message.correlation = envelope.correlation;
    message.tracked = flags.contains(Flags::TRACKED);
    message
}
