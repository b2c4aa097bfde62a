//! Writing and reading of frames.

use bytes::{Buf, Bytes, BytesMut};

use super::connection::Phase;
use super::{CloseReason, DataError, FrameSlot, Incoming, LinkEvent, LinkFault, Links, PeerSlot};
use crate::membership::RemovalCause;
use crate::node::LinkId;
use crate::wire::control::{Ack, KeepAlive};
use crate::wire::header::Kind;
use crate::wire::{Control, DecodeError, HEADER_LEN, Header, data};
use crate::{EntityTypeId, Instant, Term};

/// How many windows may be unacknowledged before data is not taken any more.
pub(crate) const HARD_WINDOWS: u64 = 4;
/// The same for what goes back. The peer sent it, and had no more than [`HARD_WINDOWS`] under way: acknowledgements go
/// the same way as what waits here.
pub(crate) const HARD_WINDOWS_BACK: u64 = 2 * HARD_WINDOWS;

/// What became of one frame of an attached connection.
enum Step {
    /// It was the link's own business, or nobody's.
    Handled,
    Incoming(Incoming),
    Incomplete,
}

impl Links {
    /// Appends a control frame if the peer is linked and its buffer has room; otherwise it is dropped and counted.
    /// Returns whether it was appended.
    pub(crate) fn control(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        entity_type: EntityTypeId,
        term: Term,
        control: &Control<'_>,
    ) -> bool {
        self.tick(now);
        let limit = self.config.control_bytes as usize;
        let link = self.peers.get(peer).and_then(|peer| peer.link);
        let taken = link.is_some_and(|link| {
            let Some(connection) = self.connections.get_mut(link) else {
                return false;
            };
            let out = &mut connection.control;
            let taken = out.len() < limit
                && control
                    .encode_into(entity_type, term, connection.version, out)
                    .is_ok();
            if taken {
                self.mark_dirty(link);
            }
            taken
        });
        if !taken {
            self.stats.control_dropped = self.stats.control_dropped.saturating_add(1);
        }
        taken
    }

    /// Appends one of the link's own frames, whatever its phase.
    pub(super) fn write(&mut self, link: LinkId, control: &Control<'_>) {
        if let Some(connection) = self.connections.get_mut(link) {
            let version = connection.version;
            // These bodies are within their limits: what is not comes from this side's own identity, and a `Hello`
            // that is not sent ends in the handshake's timeout.
            let written = control.encode_into(
                EntityTypeId(0),
                Term::NONE,
                version,
                &mut connection.control,
            );
            if written.is_ok() {
                self.mark_dirty(link);
            }
        }
    }

    /// Appends a data frame, linked or not: it is kept until it is acknowledged or the pair ends. `write` appends one
    /// whole frame with the number of the [`FrameSlot`]; what it appends is taken back if it fails. `hint`: about how
    /// long id and payload will be.
    ///
    /// # Errors
    /// See [`DataError`]; the state is unchanged.
    #[inline]
    pub(crate) fn data<E>(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        lane: u8,
        hint: usize,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        self.data_within(now, peer, lane, hint, HARD_WINDOWS, write)
    }

    /// Appends data that goes back to where it came from: there is room for as much as the peer can have sent.
    ///
    /// # Errors
    /// As [`Links::data`].
    pub(crate) fn data_back<E>(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        lane: u8,
        hint: usize,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        self.data_within(now, peer, lane, hint, HARD_WINDOWS_BACK, write)
    }

    #[inline]
    fn data_within<E>(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        lane: u8,
        hint: usize,
        windows: u64,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        self.tick(now);
        let Some(pair) = self.peers.get_mut(peer) else {
            return Err(DataError::UnknownPeer);
        };
        if lane != 0 {
            return Err(DataError::Lane);
        }
        let bytes = u64::from(self.config.window_bytes);
        let frames = u64::from(self.config.window_frames);
        if pair.send.holds(
            bytes.saturating_mul(windows),
            frames.saturating_mul(windows),
        ) {
            return Err(DataError::Full);
        }
        pair.send.push(hint, pair.version, pair.max_frame, write)?;
        self.stats.data_out = self.stats.data_out.wrapping_add(1);
        let filled = !pair.congested && pair.send.holds(bytes, frames);
        if let Some(link) = pair.link {
            self.mark_dirty(link);
        }
        if filled {
            self.update_congestion(peer);
        }
        Ok(())
    }

    /// A link that has something to transmit; each is named once until it has something new.
    pub(crate) fn poll_dirty(&mut self) -> Option<LinkId> {
        while let Some(link) = self.dirty.pop_front() {
            if let Some(connection) = self.connections.get_mut(link) {
                connection.dirty = false;
                return Some(link);
            }
        }
        None
    }

    /// The next bytes to write to a connection, `None` when there are no more for now. Data that is given out counts as
    /// sent, so write all of it or close the connection.
    pub(crate) fn poll_transmit(&mut self, link: LinkId) -> Option<Bytes> {
        let connection = self.connections.get_mut(link)?;
        let mut pair = match connection.peer {
            Some(slot) => self.peers.get_mut(slot),
            None => None,
        };
        if let Some(pair) = &mut pair
            && pair.recv.owes()
            && (pair.ack_due || !connection.control.is_empty() || pair.send.has_more())
        {
            let ack = Control::Ack(Ack {
                lane: 0,
                next: pair.recv.expected,
            });
            let out = &mut connection.control;
            if ack
                .encode_into(EntityTypeId(0), Term::NONE, connection.version, out)
                .is_ok()
            {
                pair.recv.told = pair.recv.expected;
                pair.recv.owed = 0;
                pair.ack_due = false;
                pair.ack_at = Instant::FAR_FUTURE;
            }
        }
        if !connection.control.is_empty() {
            connection.last_sent = self.now;
            return Some(connection.control.split().freeze());
        }
        if let Some(pair) = pair {
            let (bytes, again) = pair.send.poll()?;
            connection.last_sent = self.now;
            self.stats.resent = self.stats.resent.wrapping_add(again);
            return Some(bytes);
        }
        if connection.phase == Phase::Closing {
            self.connections.remove(link);
        }
        None
    }

    /// Takes whole frames off the front of `buf` until one is not the link's own business. Call until `Ok(None)`; what
    /// is left is a part of a frame.
    ///
    /// # Errors
    /// The peer violated the protocol, or the link was refused: write what `poll_transmit` still has, and close the
    /// connection. [`LinkEvent::Down`] follows if the link was up; no [`LinkEvent::Close`] does.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        link: LinkId,
        buf: &mut BytesMut,
    ) -> Result<Option<Incoming>, LinkFault> {
        let now = self.tick(now);
        loop {
            let Some(connection) = self.connections.get_mut(link) else {
                buf.clear();
                return Err(LinkFault::Unknown);
            };
            let step = match connection.phase {
                Phase::Closing => {
                    buf.clear();
                    return Ok(None);
                }
                Phase::Up => {
                    connection.last_heard = now;
                    self.read_frame(now, link, buf)
                }
                _ => self.read_handshake(link, buf),
            };
            match step {
                Ok(Step::Handled) => {}
                Ok(Step::Incoming(incoming)) => return Ok(Some(incoming)),
                Ok(Step::Incomplete) => return Ok(None),
                Err(fault) => {
                    buf.clear();
                    self.fail(link, fault);
                    return Err(fault);
                }
            }
        }
    }

    #[cold]
    fn read_handshake(&mut self, link: LinkId, buf: &mut BytesMut) -> Result<Step, LinkFault> {
        let limit = self.config.max_frame;
        let header = match Header::decode(buf, limit) {
            Ok(header) => header,
            Err(DecodeError::Incomplete { .. }) => return Ok(Step::Incomplete),
            Err(error) => return Err(LinkFault::Frame(error)),
        };
        // Before anything of it is waited for.
        if !matches!(header.kind, Kind::HELLO | Kind::WELCOME | Kind::REFUSED) {
            return Err(LinkFault::Handshake);
        }
        if buf.len() < header.frame_len() {
            return Ok(Step::Incomplete);
        }
        let mut frame = buf.split_to(header.frame_len());
        frame.advance(HEADER_LEN);
        self.handshake_frame(link, header, &frame)?;
        self.settle();
        Ok(Step::Handled)
    }

    /// One frame of an attached connection.
    #[inline]
    fn read_frame(
        &mut self,
        now: Instant,
        link: LinkId,
        buf: &mut BytesMut,
    ) -> Result<Step, LinkFault> {
        let header = match Header::decode(buf, self.config.max_frame) {
            Ok(header) => header,
            Err(DecodeError::Incomplete { .. }) => return Ok(Step::Incomplete),
            Err(error) => return Err(LinkFault::Frame(error)),
        };
        let len = header.frame_len();
        let Some(body) = buf.get(HEADER_LEN..len) else {
            return Ok(Step::Incomplete);
        };
        let slot = self.connections.get(link).and_then(|c| c.peer);
        let Some(slot) = slot else {
            return Err(LinkFault::Unknown);
        };
        let Some(pair) = self.peers.get_mut(slot) else {
            return Err(LinkFault::Unknown);
        };
        if !header.kind.is_data() {
            return self.read_control(link, slot, header, buf);
        }
        let seq = data::seq(body).map_err(LinkFault::Body)?;
        let lane = &mut pair.recv;
        if seq > lane.expected {
            return Err(LinkFault::Gap {
                found: seq,
                expected: lane.expected,
            });
        }
        let owed_before = lane.owes();
        if seq < lane.expected {
            buf.advance(len);
            self.stats.duplicates = self.stats.duplicates.wrapping_add(1);
            return Ok(Step::Handled);
        }
        lane.expected = seq.saturating_add(1);
        lane.owed = lane.owed.saturating_add(len as u64);
        if !owed_before {
            pair.ack_at = Instant::from_micros(now.as_micros().saturating_add(self.ack_delay));
            self.next = self.next.min(pair.ack_at);
        }
        let node = pair.node;
        if pair.recv.owed >= u64::from(self.config.ack_bytes) && !pair.ack_due {
            pair.ack_due = true;
            self.mark_dirty(link);
        }
        if !header.kind.is_known() {
            buf.advance(len);
            self.stats.unknown_kinds = self.stats.unknown_kinds.wrapping_add(1);
            return Ok(Step::Handled);
        }
        self.stats.data_in = self.stats.data_in.wrapping_add(1);
        let mut body = buf.split_to(len).freeze();
        body.advance(HEADER_LEN);
        Ok(Step::Incoming(Incoming::Data {
            peer: slot,
            node,
            lane: 0,
            header,
            body,
        }))
    }

    fn read_control(
        &mut self,
        link: LinkId,
        slot: PeerSlot,
        header: Header,
        buf: &mut BytesMut,
    ) -> Result<Step, LinkFault> {
        let mut frame = buf.split_to(header.frame_len());
        frame.advance(HEADER_LEN);
        match header.kind {
            Kind::ACK | Kind::KEEP_ALIVE | Kind::GOODBYE | Kind::REFUSED => {
                let control = Control::decode(header.kind, &frame).map_err(LinkFault::Body)?;
                self.own_control(link, slot, &control)?;
                Ok(Step::Handled)
            }
            Kind::HELLO | Kind::WELCOME => Err(LinkFault::Handshake),
            kind if !kind.is_known() => {
                self.stats.unknown_kinds = self.stats.unknown_kinds.wrapping_add(1);
                Ok(Step::Handled)
            }
            _ => {
                let Some(pair) = self.peers.get(slot) else {
                    return Err(LinkFault::Unknown);
                };
                Ok(Step::Incoming(Incoming::Control {
                    peer: slot,
                    node: pair.node,
                    header,
                    body: frame.freeze(),
                }))
            }
        }
    }

    fn own_control(
        &mut self,
        link: LinkId,
        slot: PeerSlot,
        control: &Control<'_>,
    ) -> Result<(), LinkFault> {
        let Some(pair) = self.peers.get_mut(slot) else {
            return Err(LinkFault::Unknown);
        };
        match *control {
            Control::Ack(Ack { lane: 0, next }) => {
                pair.send.ack(next)?;
                if pair.congested {
                    self.update_congestion(slot);
                }
                Ok(())
            }
            Control::Ack(_) => Err(LinkFault::Lane),
            Control::KeepAlive(KeepAlive { leaving }) => {
                if leaving && !pair.leaving {
                    pair.leaving = true;
                    let node = pair.node;
                    self.events
                        .push_back(LinkEvent::Leaving { peer: slot, node });
                }
                Ok(())
            }
            Control::Goodbye => {
                self.end_pair(slot, RemovalCause::Left, None, CloseReason::PeerLeft);
                self.settle();
                Ok(())
            }
            Control::Refused(refusal) => Err(self.refused_by_peer(link, refusal)),
            _ => Ok(()),
        }
    }

    /// Compares the window with its bounds.
    pub(super) fn update_congestion(&mut self, slot: PeerSlot) {
        let bytes = u64::from(self.config.window_bytes);
        let frames = u64::from(self.config.window_frames);
        let Some(pair) = self.peers.get_mut(slot) else {
            return;
        };
        pair.congested = if pair.congested {
            pair.send.holds((bytes / 2).max(1), (frames / 2).max(1))
        } else {
            pair.send.holds(bytes, frames)
        };
        if pair.congested != pair.congestion_told && !pair.congestion_listed {
            pair.congestion_listed = true;
            self.congestion.push_back(slot);
        }
    }
}
