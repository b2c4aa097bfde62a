//! Writing and reading of frames.

use alloc::boxed::Box;

use bytes::{Buf, Bytes, BytesMut};

use super::connection::Phase;
use super::fragment::Partial;
use super::lane::{Lane, Limits, SendLane};
use super::peer::Peer;
use super::{
    CloseReason, DataError, Flow, FrameSlot, Incoming, LinkEvent, LinkFault, Links, PeerSlot,
    StreamIndex,
};
use crate::membership::RemovalCause;
use crate::node::LinkId;
use crate::wire::control::{Ack, KeepAlive};
use crate::wire::header::Kind;
use crate::wire::{Control, DecodeError, Flags, HEADER_LEN, Header, data};
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

    /// Appends a message, linked or not: it is kept until it is acknowledged or the pair ends. `write` appends one
    /// whole frame as the [`FrameSlot`] says, however long it is; what it appends is taken back if it fails. `hint`:
    /// about how long id and payload will be.
    ///
    /// # Errors
    /// See [`DataError`]; the state is unchanged.
    #[inline]
    pub(crate) fn data<E>(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        flow: Flow,
        hint: usize,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        self.data_within(now, peer, flow, HARD_WINDOWS, |lane, at, limits| {
            lane.push(at, flow, hint, limits, write)
        })
    }

    /// Appends data that goes back to where it came from: there is room for as much as the peer can have sent.
    ///
    /// # Errors
    /// As [`Links::data`].
    pub(crate) fn data_back<E>(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        flow: Flow,
        hint: usize,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        self.data_within(now, peer, flow, HARD_WINDOWS_BACK, |lane, at, limits| {
            lane.push(at, flow, hint, limits, write)
        })
    }

    /// As [`Links::data`], or [`Links::data_back`], of a message with a payload of at least a
    /// [fragment](LinkConfig::fragment), which is not copied: `write` appends a frame without it.
    ///
    /// # Errors
    /// As [`Links::data`].
    pub(crate) fn data_shared<E>(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        flow: Flow,
        back: bool,
        payload: Bytes,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        let windows = if back {
            HARD_WINDOWS_BACK
        } else {
            HARD_WINDOWS
        };
        self.data_within(now, peer, flow, windows, |lane, at, limits| {
            lane.push_shared(at, flow, payload, limits, write)
        })
    }

    #[inline]
    fn data_within<E>(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        flow: Flow,
        windows: u64,
        push: impl FnOnce(&mut SendLane, u8, Limits) -> Result<(), DataError<E>>,
    ) -> Result<(), DataError<E>> {
        self.tick(now);
        let Some(pair) = self.peers.get_mut(peer) else {
            return Err(DataError::UnknownPeer);
        };
        let at = flow.lane(pair.lanes.len());
        let Some(lane) = pair.lanes.get_mut(usize::from(at)) else {
            return Err(DataError::UnknownPeer);
        };
        let window = self.config.window(pair.limits);
        if lane.send.holds(window.times(windows)) {
            return Err(DataError::Full);
        }
        push(&mut lane.send, at, pair.limits)?;
        self.stats.data_out = self.stats.data_out.wrapping_add(1);
        let filled = !pair.congested && lane.send.holds(window);
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

    /// The next bytes to write to a stream of a connection, `None` when there are no more for now. Control goes first.
    /// Data that is given out counts as sent, so write all of it or close the connection.
    pub(crate) fn poll_stream(&mut self, link: LinkId, stream: StreamIndex) -> Option<Bytes> {
        let connection = self.connections.get_mut(link)?;
        let mut pair = match connection.peer {
            Some(slot) => self.peers.get_mut(slot),
            None => None,
        };
        let data = if let Some(lane) = stream.lane() {
            let pair = pair?;
            let lane = pair.lanes.get_mut(usize::from(lane))?;
            if stream.0 >= connection.streams {
                return None;
            }
            lane.send.poll(pair.limits.fragment)
        } else {
            let out = &mut connection.control;
            if let Some(pair) = &mut pair
                && pair.owes()
                && (pair.ack_due || !out.is_empty() || pair.has_more())
            {
                pair.acknowledge(out);
            }
            if !out.is_empty() {
                connection.last_sent = self.now;
                return Some(out.split().freeze());
            }
            match pair {
                Some(pair) if connection.streams == 1 => pair.poll_lanes(),
                Some(_) => None,
                None => {
                    if connection.phase == Phase::Closing {
                        self.connections.remove(link);
                    }
                    return None;
                }
            }
        };
        let (bytes, again) = data?;
        connection.last_sent = self.now;
        self.stats.resent = self.stats.resent.wrapping_add(again);
        Some(bytes)
    }

    /// The next bytes to write to a connection, and to which of its streams. As [`Links::poll_stream`].
    pub(crate) fn poll_transmit(&mut self, link: LinkId) -> Option<(StreamIndex, Bytes)> {
        let streams = self.connections.get(link)?.streams;
        (0..streams).map(StreamIndex).find_map(|stream| {
            let bytes = self.poll_stream(link, stream)?;
            Some((stream, bytes))
        })
    }

    /// Takes whole frames off the front of `buf`, which came by that stream, until one is not the link's own business.
    /// Call until `Ok(None)`; what is left is a part of a frame. What comes by a lane's stream before the handshake is
    /// over stays: try again when something came by the first stream.
    ///
    /// # Errors
    /// The peer violated the protocol, or the link was refused: write what `poll_transmit` still has, and close the
    /// connection. [`LinkEvent::Down`] follows if the link was up; no [`LinkEvent::Close`] does.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        link: LinkId,
        stream: StreamIndex,
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
                    self.read_frame(now, link, stream, buf)
                }
                _ if stream.0 > 0 => return Ok(None),
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
        stream: StreamIndex,
        buf: &mut BytesMut,
    ) -> Result<Step, LinkFault> {
        let header = match Header::decode(buf, self.config.max_frame) {
            Ok(header) => header,
            Err(DecodeError::Incomplete { .. }) => return Ok(Step::Incomplete),
            Err(error) => return Err(LinkFault::Frame(error)),
        };
        let at = header.flags.lane();
        let connection = self.connections.get(link);
        let Some((slot, streams)) = connection.and_then(|c| Some((c.peer?, c.streams))) else {
            return Err(LinkFault::Unknown);
        };
        // Before anything of it is waited for.
        let by = if streams == 1 || !header.kind.is_data() {
            StreamIndex::CONTROL
        } else {
            StreamIndex::of_lane(at)
        };
        if by != stream {
            return Err(LinkFault::Lane);
        }
        let len = header.frame_len();
        let Some(body) = buf.get(HEADER_LEN..len) else {
            return Ok(Step::Incomplete);
        };
        if !header.kind.is_data() {
            return self.read_control(link, slot, header, buf);
        }
        let Some(pair) = self.peers.get_mut(slot) else {
            return Err(LinkFault::Unknown);
        };
        let Some(Lane { recv: lane, .. }) = pair.lanes.get_mut(usize::from(at)) else {
            return Err(LinkFault::Lane);
        };
        let seq = data::seq(body).map_err(LinkFault::Body)?;
        if seq > lane.expected {
            return Err(LinkFault::Gap {
                found: seq,
                expected: lane.expected,
            });
        }
        if seq < lane.expected {
            buf.advance(len);
            self.stats.duplicates = self.stats.duplicates.wrapping_add(1);
            return Ok(Step::Handled);
        }
        if header.flags.is_fragment() {
            Partial::check(lane.partial.as_deref(), &header, pair.limits.max_body)?;
        }
        lane.expected = seq.saturating_add(1);
        lane.owed = lane.owed.saturating_add(len as u64);
        let much = lane.owed >= u64::from(self.config.ack_bytes);
        if pair.ack_at == Instant::FAR_FUTURE {
            pair.ack_at = Instant::from_micros(now.as_micros().saturating_add(self.ack_delay));
            self.next = self.next.min(pair.ack_at);
        }
        let node = pair.node;
        if much && !pair.ack_due {
            pair.ack_due = true;
            self.mark_dirty(link);
        }
        let (header, body) = if header.flags.is_fragment() {
            let Some(whole) = self.join(slot, header, buf) else {
                return Ok(Step::Handled);
            };
            whole
        } else {
            let mut body = buf.split_to(len).freeze();
            body.advance(HEADER_LEN);
            (header, body)
        };
        if !header.kind.is_known() {
            self.stats.unknown_kinds = self.stats.unknown_kinds.wrapping_add(1);
            return Ok(Step::Handled);
        }
        self.stats.data_in = self.stats.data_in.wrapping_add(1);
        Ok(Step::Incoming(Incoming::Data {
            peer: slot,
            node,
            header,
            body,
        }))
    }

    /// Takes a fragment; the answer is the message that it was the last one of.
    #[cold]
    fn join(
        &mut self,
        slot: PeerSlot,
        header: Header,
        buf: &mut BytesMut,
    ) -> Option<(Header, Bytes)> {
        self.stats.fragments_in = self.stats.fragments_in.wrapping_add(1);
        let lane = usize::from(header.flags.lane());
        let frame = buf.split_to(header.frame_len());
        let body = frame.get(HEADER_LEN..)?;
        let pair = self.peers.get_mut(slot)?;
        let max_body = pair.limits.max_body;
        let partial = &mut pair.lanes.get_mut(lane)?.recv.partial;
        match partial {
            None => *partial = Some(Box::new(Partial::new(&header, body))),
            Some(partial) => partial.push(body, max_body),
        }
        if header.flags.contains(Flags::MORE) {
            return None;
        }
        Some(partial.take()?.finish())
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
            Control::Ack(Ack { lane, next }) => {
                let (fragment, congested) = (pair.limits.fragment, pair.congested);
                let lane = pair.lanes.get_mut(usize::from(lane));
                let send = &mut lane.ok_or(LinkFault::Lane)?.send;
                send.ack(next)?;
                let more = send.has_more(fragment);
                if congested {
                    self.update_congestion(slot);
                }
                // A long message waited for the acknowledgement of its fragments.
                if more {
                    self.mark_dirty(link);
                }
                Ok(())
            }
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

    /// Compares the windows with their bounds.
    pub(super) fn update_congestion(&mut self, slot: PeerSlot) {
        let Some(pair) = self.peers.get_mut(slot) else {
            return;
        };
        let window = self.config.window(pair.limits);
        let window = if pair.congested {
            window.half()
        } else {
            window
        };
        pair.congested = pair.lanes.iter().any(|lane| lane.send.holds(window));
        if pair.congested != pair.congestion_told && !pair.congestion_listed {
            pair.congestion_listed = true;
            self.congestion.push_back(slot);
        }
    }
}

impl Peer {
    /// Appends what the peer is to know of what was accepted.
    fn acknowledge(&mut self, out: &mut BytesMut) {
        for (at, lane) in (0_u8..).zip(&mut self.lanes) {
            let recv = &mut lane.recv;
            if !recv.owes() {
                continue;
            }
            let ack = Control::Ack(Ack {
                lane: at,
                next: recv.expected,
            });
            let (none, version) = (EntityTypeId(0), self.limits.version);
            if ack.encode_into(none, Term::NONE, version, out).is_ok() {
                recv.told = recv.expected;
                recv.owed = 0;
            }
        }
        self.ack_due = false;
        self.ack_at = Instant::FAR_FUTURE;
    }

    /// The next chunk of a connection that all lanes share, each in its turn.
    #[inline]
    fn poll_lanes(&mut self) -> Option<(Bytes, u64)> {
        for _ in 0..self.lanes.len() {
            let at = self.turn;
            self.turn = at.saturating_add(1);
            if self.turn >= self.lanes.len() {
                self.turn = 0;
            }
            let data = self.lanes.get_mut(at)?.send.poll(self.limits.fragment);
            if data.is_some() {
                return data;
            }
        }
        None
    }
}
