//! Frames of other nodes, and data for them: messages, replies, what comes back.

use heapless::Vec;
use shard_proto::region::{Arrival, Origin, ReturnError};
use shard_proto::wire::{
    Control, Data, DataHead, Envelope, Flags, HEADER_LEN, Header, Kind, Reply, Return, ReturnReason,
};
use shard_proto::{EntityTypeId, Epoch, Incarnation, NodeId, ShardId, hash};

use crate::asks::Failure;
use crate::device::Device;
use crate::link::{End, Heard, Link};
use crate::lives::link_to;
use crate::visitors::VISITOR;
use crate::{BODY, ID, INBOX};

/// Status of a reply: what follows is the answer.
const ANSWER: u8 = 0;
/// Status of a reply: the entity could not be started, or the message is not understood.
const REFUSED: u8 = 3;

/// A message, as the region keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// Names the reply; 0: nobody waits.
    pub(crate) correlation: u64,
    /// The life that sent it; 0: this one.
    pub(crate) sender: Incarnation,
    pub(crate) flags: Flags,
    pub(crate) id: Vec<u8, ID>,
    pub(crate) body: Vec<u8, BODY>,
}

impl Message {
    /// `None`: it is too long.
    pub(crate) fn new(id: &[u8], body: &[u8]) -> Option<Self> {
        Some(Self {
            correlation: 0,
            sender: Incarnation(0),
            flags: Flags::NONE,
            id: Vec::from_slice(id).ok()?,
            body: Vec::from_slice(body).ok()?,
        })
    }

    pub(crate) fn of(
        header: &Header,
        envelope: &Envelope<'_>,
        sender: Incarnation,
    ) -> Option<Self> {
        let message = Self::new(envelope.id, envelope.payload)?;
        Some(Self {
            correlation: envelope.correlation,
            sender,
            flags: header.flags,
            ..message
        })
    }
}

/// A frame that this node wrote, if it is a message of its own.
pub(crate) fn envelope(frame: &[u8]) -> Option<(Header, Envelope<'_>)> {
    let header = Header::decode(frame, u32::MAX).ok()?;
    match Data::decode(header.kind, frame.get(HEADER_LEN..)?) {
        Ok(Data::Envelope(envelope)) => Some((header, envelope)),
        _ => None,
    }
}

impl Device<'_> {
    /// What a link has for this node.
    pub(crate) fn hear(&mut self, index: usize, heard: Heard, frame: &[u8; INBOX]) {
        match heard {
            Heard::Up(life) => self.link_up(index, life),
            Heard::End(end) => self.end(index, end),
            Heard::Frame(header) if header.kind.is_data() => self.hear_data(index, &header, frame),
            Heard::Frame(header) => self.hear_control(index, &header, frame),
        }
    }

    fn hear_control(&mut self, index: usize, header: &Header, frame: &[u8; INBOX]) {
        let body = frame.get(HEADER_LEN..header.frame_len()).unwrap_or(&[]);
        let peer = self.links.get(index).and_then(|link| link.peer);
        let (Some((from, _)), Ok(control)) = (peer, Control::decode(header.kind, body)) else {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return;
        };
        let term = header.term();
        let of_leadership = matches!(
            header.kind,
            Kind::LEADER_BEAT | Kind::NODE_BEAT | Kind::TERM_REFUSED | Kind::RESIGN
        );
        let taken = if of_leadership {
            let taken = self
                .leadership
                .handle_control(self.now, from, term, &control);
            taken.is_ok()
        } else if header.entity_type == hash::entity_type_id(VISITOR) {
            let taken = self.region.handle_control(self.now, from, term, &control);
            taken.is_ok()
        } else {
            false
        };
        if !taken {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
        }
        self.pump();
    }

    /// A data frame. If there is no room for what it may need, the connection ends, and the frame comes again.
    pub(crate) fn hear_data(&mut self, index: usize, header: &Header, frame: &[u8; INBOX]) {
        self.pump();
        if !self.has_room() {
            if let Some(link) = self.links.get_mut(index) {
                link.unread();
            }
            self.end(index, End::Overrun);
            return;
        }
        self.arrived = self.arrived.wrapping_add(1);
        let body = frame.get(HEADER_LEN..header.frame_len()).unwrap_or(&[]);
        let peer = self.links.get(index).and_then(|link| link.peer);
        let (Some((from, life)), Ok(data)) = (peer, Data::decode(header.kind, body)) else {
            self.ignore();
            return;
        };
        let (now, epoch) = (self.now, header.epoch());
        match data {
            Data::Reply(Reply {
                correlation,
                status,
                payload,
            }) => {
                if !self.asks.answer(correlation, status, payload) {
                    self.ignore();
                }
            }
            Data::Envelope(envelope) => self.arrive(from, life, header, &envelope),
            _ if header.entity_type != hash::entity_type_id(VISITOR) => self.ignore(),
            Data::Return(back) => self.come_back(from, header, &back),
            Data::Flush(flush) => {
                self.region
                    .handle_flush(now, from, flush.shard, epoch, flush.token);
            }
            Data::Flushed(flushed) => {
                if !self
                    .region
                    .handle_flushed(now, from, flushed.shard, flushed.token)
                {
                    self.ignore();
                }
            }
            _ => self.ignore(),
        }
    }

    fn ignore(&mut self) {
        self.stats.ignored = self.stats.ignored.saturating_add(1);
    }

    /// A message of another node.
    fn arrive(
        &mut self,
        from: NodeId,
        life: Incarnation,
        header: &Header,
        envelope: &Envelope<'_>,
    ) {
        let (shard, epoch) = (envelope.shard, header.epoch());
        let known = header.entity_type == hash::entity_type_id(VISITOR);
        let message = Message::of(header, envelope, life).filter(|_| known);
        let Some(message) = message else {
            // Another type, or too long: its sender is told that it cannot be taken.
            self.stats.refused = self.stats.refused.saturating_add(1);
            self.bounce(from, header, envelope);
            return;
        };
        match self
            .region
            .handle_envelope(self.now, from, shard, epoch, message)
        {
            Arrival::Deliver(message) => {
                self.deliver(shard, epoch, Some(Origin::Remote(from)), &message);
            }
            Arrival::Queued => {}
            Arrival::Return { reason, payload } => {
                self.put_back(from, shard, epoch, reason, &payload);
            }
            Arrival::Refused(message) => {
                self.put_back(from, shard, epoch, ReturnReason::Full, &message);
            }
        }
    }

    /// A message of this node that was not taken.
    fn come_back(&mut self, from: NodeId, header: &Header, back: &Return<'_>) {
        let (shard, epoch) = (back.envelope.shard, header.epoch());
        let Some(message) = Message::of(header, &back.envelope, Incarnation(0)) else {
            self.ignore();
            return;
        };
        let taken = self
            .region
            .handle_return(self.now, from, shard, epoch, back.reason, message);
        match taken {
            Ok(()) => {}
            Err(ReturnError::Unexpected(_)) => self.ignore(),
            Err(error) => {
                let correlation = error.into_payload().correlation;
                self.asks.fail(correlation, Failure::Undelivered);
            }
        }
    }

    /// The entity, which lives here, handles a message. `None`: an ask of this node, just made.
    pub(crate) fn deliver(
        &mut self,
        shard: ShardId,
        epoch: Epoch,
        origin: Option<Origin>,
        message: &Message,
    ) {
        // Reliable tells need a receiver that remembers numbers: this one does not.
        let understood = !message.flags.contains(Flags::TRACKED);
        let home = (shard, epoch);
        let answer = if understood {
            self.visitors
                .handle(self.now, self.me.name, home, &message.id, &message.body)
        } else {
            None
        };
        let counter = if answer.is_some() {
            &mut self.stats.handled
        } else {
            &mut self.stats.refused
        };
        *counter = counter.saturating_add(1);
        let status = if answer.is_some() { ANSWER } else { REFUSED };
        let payload = answer.as_deref().unwrap_or(&[]);
        let correlation = message.correlation;
        match origin {
            Some(Origin::Remote(node)) if correlation != 0 => {
                let same = |link: &Link| link.peer == Some((node, message.sender));
                // An earlier life of the node is not told.
                if self.links.iter().any(same) {
                    let reply = Reply {
                        correlation,
                        status,
                        payload,
                    };
                    self.put(node, Epoch::NONE, &Data::Reply(reply));
                }
            }
            Some(Origin::Remote(_)) => {}
            Some(Origin::Local) | None => {
                self.asks.answer(correlation, status, payload);
            }
        }
    }

    pub(crate) fn put_back(
        &mut self,
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        reason: ReturnReason,
        message: &Message,
    ) {
        let envelope = Envelope {
            shard,
            correlation: message.correlation,
            id: &message.id,
            payload: &message.body,
        };
        let head = self.head(hash::entity_type_id(VISITOR), message.flags, epoch);
        self.push(to, head, &Data::Return(Return { reason, envelope }));
    }

    fn bounce(&mut self, to: NodeId, header: &Header, envelope: &Envelope<'_>) {
        let back = Return {
            reason: ReturnReason::Full,
            envelope: *envelope,
        };
        let head = self.head(header.entity_type, header.flags, header.epoch());
        self.push(to, head, &Data::Return(back));
    }

    /// Appends a frame to the window of a link. `false`: there is none any more.
    pub(crate) fn put(&mut self, to: NodeId, epoch: Epoch, data: &Data<'_>) -> bool {
        let reply = matches!(data, Data::Reply(_));
        let ty = if reply {
            EntityTypeId(0)
        } else {
            hash::entity_type_id(VISITOR)
        };
        let head = self.head(ty, Flags::NONE, epoch);
        self.push(to, head, data)
    }

    const fn head(&self, entity_type: EntityTypeId, flags: Flags, epoch: Epoch) -> DataHead {
        DataHead {
            flags,
            version: 1,
            entity_type,
            epoch,
            seq: 0,
        }
    }

    fn push(&mut self, to: NodeId, mut head: DataHead, data: &Data<'_>) -> bool {
        let Some(link) = link_to(&mut self.links, to) else {
            return false;
        };
        head.version = link.version;
        link.window.push(head, data)
    }
}
