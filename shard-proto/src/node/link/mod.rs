//! Links: connections, their handshakes, and what makes a broken connection lose, double and reorder nothing.
//!
//! A *connection* is one transport connection. A *pair* is this life of this node and one life of another: it numbers
//! data frames, keeps what is not acknowledged, and outlives connections. After a reconnect of the same pair both
//! sides first send again what is unacknowledged, then anything new; known numbers are dropped.
//!
//! # Lanes, streams, fragments
//!
//! A *lane* is a part of a pair's data that has its own numbers, window and acknowledgements, in either direction. What
//! concerns a shard travels on lane shard mod lanes, a reply on lane correlation mod lanes, so that order is kept where it
//! matters and one lane does not wait for another. Both sides offer as many as their transports have; the fewer count, and
//! stay for the life of the pair. What was written before the first handshake moves to where it then belongs.
//!
//! A *stream* is what a connection has of them: one, which everything shares, or one for control and one for each lane.
//! Each lane's frames may come by their stream before the end of the handshake has come by the first: they wait in the
//! buffer of whoever reads, who bounds it. Control is written first at every poll. A connection that breaks in one stream
//! is broken as a whole. `Goodbye` is said when everything is acknowledged on all lanes, or at the deadline of leaving,
//! when what is not acknowledged has been reported: it ends the pair on the other side, whatever is still under way.
//!
//! A message longer than a *fragment* is cut into data frames that say [`MORE`](crate::wire::Flags::MORE) or
//! [`LAST`](crate::wire::Flags::LAST). They are cut when the connection takes them, so what is short and new travels
//! between them, and waits behind four of them at most: no more are given out before the first is acknowledged. A
//! [`Flow`] is what must not overtake: data of the same type and shard. What is written behind a long message of its flow
//! waits with it, without a number, until the last fragment is cut; then the next flow with a long message has its turn.
//! So a lane has one message in pieces at a time, and the receiver's room for pieces, which bounds how many lanes it
//! offers, is never exceeded by a peer that keeps to the protocol.
//!
//! | state | where |
//! |---|---|
//! | frames with a number, not acknowledged; how much may be | `SendLane`, of the pair |
//! | long messages not cut yet, what waits behind them, how far the first is cut | `Held`, of the lane |
//! | what is expected next, and owed an acknowledgement; the pieces so far | `RecvLane` and its `Partial`, of the pair |
//! | control that waits, limits agreed on, which streams there are | `Connection` |
//!
//! What belongs to the pair survives a broken connection: a message of which a part arrived goes on behind that part. When
//! a pair ends, [`Unacked`] tells whole messages: `sent`, if any part of them was ever given to a connection.
//!
//! # Who dials, and which of two connections survives
//!
//! Seeds are dialed until a link with the node at their address stands. Of two members the one with the lower id dials
//! the other. So two nodes may dial each other at once, or one may dial the other twice. Handshake: the dialer says
//! `Hello`; the other side answers `Hello` and `Welcome`, an *offer*; the dialer *commits* with its `Welcome`. A side
//! attaches the connection to its pair when it sends, or receives, the commit.
//!
//! The dialer decides on an offer: a connection that it dialed and attached survives (both were dialed at once), and so
//! does any connection of its own that it attached after this one was dialed. One that the other side dialed is
//! replaced if the dialer is the lower of both, and survives if it is the higher. A higher dialer also drops its own
//! connection while it has itself made an offer to the lower, which commits to every offer.
//!
//! The other side decides on a commit: of two connections of the same dialer the one that said `Hello` later survives
//! (the dialer would not have dialed had it not lost the other). Of two connections with different dialers that of the
//! lower survives, unless it was attached before this side made its offer: then the dialer would not have committed had
//! it not lost the other. Both sides come to the same result, and while both nodes live one of them dials again.

mod config;
mod connection;
mod dial;
mod event;
mod fragment;
mod handshake;
mod lane;
mod lifecycle;
mod peer;
#[cfg(test)]
mod tests;
mod transfer;
mod unacked;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

pub(crate) use config::{AROUND, LinkConfig};
use connection::{Connection, Connections, Phase};
use dial::Dialer;
pub(crate) use event::{
    CloseReason, DataError, Incoming, LinkEvent, LinkFault, LinkStats, PeerIdentity, PeerSlot,
};
pub(crate) use fragment::Flow;
pub(crate) use lane::FrameSlot;
use peer::Peers;
#[cfg(feature = "sim")]
pub(crate) use transfer::{HARD_WINDOWS, HARD_WINDOWS_BACK};
pub(crate) use unacked::{Unacked, UnackedFrame};

use crate::membership::RemovalCause;
use crate::node::{Authenticated, ConfigError, DialId, LinkId, LinksFull, StreamIndex};
use crate::wire::Control;
use crate::wire::control::{KeepAlive, Refusal};
use crate::{Incarnation, Instant, NodeId, micros};

/// All links of a node. See the [module's docs](self).
#[derive(Debug)]
pub(crate) struct Links {
    config: LinkConfig,
    me: PeerIdentity,
    now: Instant,
    /// Microseconds without any input after which this process is taken to have been paused.
    pause: u64,
    /// Microseconds that an acknowledgement waits.
    ack_delay: u64,
    /// No deadline is earlier.
    next: Instant,
    /// Counts greetings, see [`Connection::order`].
    order: u64,
    peers: Peers,
    connections: Connections,
    dialer: Dialer,
    /// Links that have something to transmit.
    dirty: VecDeque<LinkId>,
    /// Peers whose congestion may have changed.
    congestion: VecDeque<PeerSlot>,
    events: VecDeque<LinkEvent>,
    /// With whom the link was that failed last.
    blame: Option<NodeId>,
    /// No life of a node above it is taken in.
    limit: Incarnation,
    leaving: bool,
    left: bool,
    stats: LinkStats,
}

impl Links {
    /// Links of a node that knows nobody.
    ///
    /// # Errors
    /// If a setting cannot work.
    pub(crate) fn new(
        now: Instant,
        config: LinkConfig,
        me: PeerIdentity,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            now,
            pause: micros(config.idle_timeout) / 2,
            ack_delay: micros(config.ack_delay),
            next: Instant::FAR_FUTURE,
            order: 0,
            peers: Peers::new(config.max_peers),
            connections: Connections::default(),
            dialer: Dialer::new(config.seed, config.retry, config.max_retry),
            dirty: VecDeque::new(),
            congestion: VecDeque::new(),
            events: VecDeque::new(),
            blame: None,
            limit: Incarnation(u64::MAX),
            leaving: false,
            left: false,
            stats: LinkStats::default(),
            config,
            me,
        })
    }

    /// An address to dial until a link with the node behind it stands. Its own may be among them.
    pub(crate) fn add_seed(&mut self, now: Instant, address: &str) {
        self.tick(now);
        if address != self.me.address {
            self.dialer.add_seed(self.now, address);
            self.settle();
        }
    }

    /// A life of a node is a member, or its address is news. The pair begins, if it is news too: data for it is kept
    /// from here on. A newer life ends the older. Idempotent. `None`: about this node itself, an ended life, or there
    /// is no room.
    pub(crate) fn handle_member(
        &mut self,
        now: Instant,
        node: NodeId,
        incarnation: Incarnation,
        address: Option<&str>,
    ) -> Option<PeerSlot> {
        let now = self.tick(now);
        if node == self.me.node || self.peers.newer(node, incarnation).is_some() {
            return None;
        }
        let slot = self.begin_pair(node, incarnation)?;
        let peer = self.peers.get_mut(slot)?;
        peer.member = true;
        let known: Option<String> = peer.address().cloned();
        let address = address.or(known.as_deref()).filter(|a| !a.is_empty());
        if let Some(address) = address
            && self.me.node < node
        {
            self.dialer.add_member(now, node, address);
        }
        self.settle();
        Some(slot)
    }

    /// A life of a node, and every earlier one, is over for good: the pair ends, its connection is closed, and the
    /// life is never admitted again.
    pub(crate) fn handle_removed(
        &mut self,
        now: Instant,
        node: NodeId,
        incarnation: Incarnation,
        cause: RemovalCause,
    ) {
        self.tick(now);
        if node == self.me.node {
            return;
        }
        self.peers.end(node, incarnation);
        if let Some(slot) = self.peers.slot(node)
            && self
                .peers
                .get(slot)
                .is_some_and(|peer| peer.incarnation <= incarnation)
        {
            self.end_pair(slot, cause, None, CloseReason::Ended);
        }
        self.close_ended(node, incarnation, CloseReason::Ended);
        self.settle();
    }

    /// No life of a node above it is taken in.
    pub(crate) const fn set_incarnation_limit(&mut self, limit: Incarnation) {
        self.limit = limit;
    }

    /// Where a node is in the table.
    #[inline]
    pub(crate) fn slot(&self, node: NodeId) -> Option<PeerSlot> {
        self.peers.slot(node)
    }

    /// The node of a slot.
    pub(crate) fn node(&self, peer: PeerSlot) -> Option<NodeId> {
        self.peers.get(peer).map(|peer| peer.node)
    }

    /// The life of the node that the slot's pair belongs to.
    pub(crate) fn incarnation(&self, peer: PeerSlot) -> Option<Incarnation> {
        self.peers.get(peer).map(|peer| peer.incarnation)
    }

    /// Who the peer is, once it said so.
    #[cfg(test)]
    pub(crate) fn identity(&self, peer: PeerSlot) -> Option<&PeerIdentity> {
        self.peers.get(peer)?.identity.as_deref()
    }

    /// The longest body that travels between this node and another.
    pub(crate) fn longest(&self, node: NodeId) -> u32 {
        let peer = self.peers.slot(node).and_then(|slot| self.peers.get(slot));
        peer.map_or(0, |peer| peer.limits.max_body)
    }

    /// Whether a link with the peer stands.
    pub(crate) fn is_up(&self, peer: PeerSlot) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.link.is_some())
    }

    /// Whether the connection is attached to its pair.
    pub(crate) fn is_linked(&self, link: LinkId) -> bool {
        self.connections
            .get(link)
            .is_some_and(|connection| connection.phase == Phase::Up)
    }

    /// Whether a window of the peer is full.
    pub(crate) fn is_congested(&self, peer: PeerSlot) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.congested)
    }

    /// All peers: members, and those that are linked or may come back.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PeerSlot> + '_ {
        self.peers.iter().map(|(slot, _)| slot)
    }

    /// A connection that [`LinkEvent::Dial`] asked for stands. `streams`: 1, or one for control and one for each lane.
    /// `authenticated`: whom the transport proved the peer to be, if it can.
    ///
    /// # Errors
    /// The dial is not known any more, or there is no room: close the connection.
    pub(crate) fn dialed(
        &mut self,
        now: Instant,
        dial: DialId,
        streams: u8,
        authenticated: Option<Authenticated>,
    ) -> Result<LinkId, LinksFull> {
        let now = self.tick(now);
        let Some(target) = self.dialer.answer(dial) else {
            return Err(LinksFull);
        };
        let link = if self.left {
            Err(LinksFull)
        } else {
            self.connect(now, true, streams, authenticated)
        };
        match link {
            Ok(link) => {
                self.dialer.set_link(target, link);
                let order = self.next_order();
                if let Some(connection) = self.connections.get_mut(link) {
                    connection.order = order;
                }
                self.greet(link);
            }
            Err(_) => self.dialer.fail(now, target),
        }
        self.settle();
        link
    }

    /// Somebody connected. `streams` as of [`Links::dialed`].
    ///
    /// # Errors
    /// There is no room: close the connection.
    pub(crate) fn accepted(
        &mut self,
        now: Instant,
        streams: u8,
        authenticated: Option<Authenticated>,
    ) -> Result<LinkId, LinksFull> {
        let now = self.tick(now);
        let waiting = self
            .connections
            .iter()
            .filter(|connection| !connection.dialed && connection.in_handshake())
            .count();
        // A caller that does not poll events gets no new links before it does.
        let unheard = self.events.len() > usize::from(self.config.max_links).saturating_mul(4);
        if self.left || unheard || waiting >= usize::from(self.config.max_handshakes) {
            return Err(LinksFull);
        }
        self.connect(now, false, streams, authenticated)
    }

    fn connect(
        &mut self,
        now: Instant,
        dialed: bool,
        streams: u8,
        authenticated: Option<Authenticated>,
    ) -> Result<LinkId, LinksFull> {
        let deadline = now.after(self.config.handshake);
        let limits = self.config.limits();
        let connection = Connection::new(now, deadline, dialed, streams, authenticated, limits);
        let link = self
            .connections
            .insert(connection, self.config.max_links)
            .ok_or(LinksFull)?;
        self.arm(deadline);
        Ok(link)
    }

    /// A dial failed; it is repeated after a pause as long as it is wanted.
    pub(crate) fn dial_failed(&mut self, now: Instant, dial: DialId) {
        let now = self.tick(now);
        if let Some(target) = self.dialer.answer(dial) {
            self.dialer.fail(now, target);
            self.settle();
        }
    }

    /// A connection ended. Also allowed, and not needed, after [`LinkEvent::Close`] and an error of [`Links::read`].
    pub(crate) fn closed(&mut self, now: Instant, link: LinkId) {
        self.tick(now);
        self.detach(link, CloseReason::Closed);
        self.connections.remove(link);
        self.settle();
    }

    /// Whether the peer has acknowledged all data, and this side all of the peer's, and nothing waits to be sent.
    pub(crate) fn flushed(&self, peer: PeerSlot) -> bool {
        let Some(peer) = self.peers.get(peer) else {
            return true;
        };
        let control = peer
            .link
            .and_then(|link| self.connections.get(link))
            .is_some_and(|connection| !connection.control.is_empty());
        peer.is_flushed() && !peer.owes() && !control
    }

    /// From here on keep-alives say that this node leaves; one is sent at once.
    pub(crate) fn set_leaving(&mut self, now: Instant) {
        self.tick(now);
        self.leaving = true;
        for index in 0..self.connections.len() {
            if let Some(link) = self.connections.at(index) {
                self.keep_alive(link);
            }
        }
    }

    /// What no peer has acknowledged so far, by peer.
    pub(crate) fn unacknowledged(&mut self) -> Vec<(NodeId, Unacked)> {
        let peers = self.peers.iter_mut();
        peers
            .map(|peer| (peer.node, Unacked::new(&mut peer.lanes)))
            .collect()
    }

    /// This life of the node is over: says so on every link, closes them all, dials and accepts no more.
    pub(crate) fn goodbye(&mut self, now: Instant) {
        self.tick(now);
        self.left = true;
        for index in 0..self.connections.len() {
            let Some(link) = self.connections.at(index) else {
                continue;
            };
            if self
                .connections
                .get(link)
                .is_some_and(|c| c.phase == Phase::Up)
            {
                self.write(link, &Control::Goodbye);
            }
            self.close(link, CloseReason::Left);
        }
    }

    /// Frames of unknown kinds, skipped.
    pub(crate) const fn unknown_kinds(&self) -> u64 {
        self.stats.unknown_kinds
    }

    /// With whom the link was of which `read` just said that it failed, if that came to light.
    pub(crate) const fn take_blame(&mut self) -> Option<NodeId> {
        self.blame.take()
    }

    /// Expires what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let now = self.tick(now);
        if self.next > now {
            return;
        }
        self.next = Instant::FAR_FUTURE;
        for index in 0..self.connections.len() {
            if let Some(link) = self.connections.at(index) {
                self.expire(now, link);
            }
        }
        self.schedule();
    }

    /// Deadlines of one connection.
    fn expire(&mut self, now: Instant, link: LinkId) {
        let Some(connection) = self.connections.get(link) else {
            return;
        };
        let deadline = connection.deadline;
        match connection.phase {
            Phase::Closing if deadline <= now => {
                self.connections.remove(link);
            }
            Phase::Closing => self.arm(deadline),
            Phase::Up => {
                let idle = connection.last_heard.after(self.config.idle_timeout);
                let quiet = connection.last_sent.after(self.config.keep_alive);
                let peer = connection.peer;
                if idle <= now {
                    self.close(link, CloseReason::Idle);
                    return;
                }
                self.arm(idle);
                if quiet <= now {
                    self.keep_alive(link);
                    self.arm(now.after(self.config.keep_alive));
                } else {
                    self.arm(quiet);
                }
                let Some(pair) = peer.and_then(|slot| self.peers.get_mut(slot)) else {
                    return;
                };
                let ack_at = pair.ack_at;
                if ack_at <= now {
                    pair.ack_due = true;
                    pair.ack_at = Instant::FAR_FUTURE;
                    self.mark_dirty(link);
                } else {
                    self.arm(ack_at);
                }
            }
            _ if deadline <= now => {
                if !connection.dialed {
                    self.write(link, &Control::Refused(Refusal::Handshake));
                }
                self.close(link, CloseReason::HandshakeTimeout);
            }
            _ => self.arm(deadline),
        }
    }

    fn keep_alive(&mut self, link: LinkId) {
        let Some(connection) = self.connections.get_mut(link) else {
            return;
        };
        if connection.phase == Phase::Up {
            // It counts as sent, or a connection that takes nothing would get one after the other.
            connection.last_sent = self.now;
            let leaving = self.leaving;
            self.write(link, &Control::KeepAlive(KeepAlive { leaving }));
        }
    }

    /// When to call [`Links::handle_timeout`]; may be early.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (self.next != Instant::FAR_FUTURE).then_some(self.next)
    }

    /// What links want done, or known.
    pub(crate) fn poll_event(&mut self) -> Option<LinkEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        while let Some(slot) = self.congestion.pop_front() {
            let Some(pair) = self.peers.get_mut(slot) else {
                continue;
            };
            pair.congestion_listed = false;
            if pair.congested != pair.congestion_told {
                pair.congestion_told = pair.congested;
                return Some(LinkEvent::Congested {
                    peer: slot,
                    node: pair.node,
                    congested: pair.congested,
                });
            }
        }
        None
    }

    /// What was counted.
    #[allow(dead_code, reason = "for whoever shows it")]
    pub(crate) const fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// The time, monotonic.
    #[inline]
    fn tick(&mut self, now: Instant) -> Instant {
        let before = self.now.as_micros();
        self.now = self.now.max(now);
        if self.now.as_micros().saturating_sub(before) >= self.pause {
            self.forgive(before);
        }
        self.now
    }

    /// A jump of the time means that this process did not run: what the others sent meanwhile was not read, so their
    /// silence starts now.
    #[cold]
    fn forgive(&mut self, before: u64) {
        let gap = self.now.since(Instant::from_micros(before));
        for connection in self.connections.iter_mut() {
            connection.last_heard = connection.last_heard.after(gap).min(self.now);
        }
    }

    fn arm(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    const fn next_order(&mut self) -> u64 {
        self.order = self.order.saturating_add(1);
        self.order
    }

    #[inline]
    fn mark_dirty(&mut self, link: LinkId) {
        if let Some(connection) = self.connections.get_mut(link)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push_back(link);
        }
    }

    /// Dials what a change made due.
    fn settle(&mut self) {
        self.schedule();
    }
}
