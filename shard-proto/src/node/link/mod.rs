//! Links: connections, their handshakes, and what makes a broken connection lose, double and reorder nothing.
//!
//! A *connection* is one transport connection. A *pair* is this life of this node and one life of another: it numbers
//! data frames, keeps what is not acknowledged, and outlives connections. After a reconnect of the same pair both
//! sides first send again what is unacknowledged, then anything new; known numbers are dropped.
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

// Composed by the node, which follows.
#![allow(dead_code, unused_imports, unused_variables)]

mod config;
mod event;
mod lane;

use bytes::{Bytes, BytesMut};
pub(crate) use config::LinkConfig;
pub(crate) use event::{
    CloseReason, DataError, Incoming, LinkEvent, LinkFault, LinkStats, PeerIdentity, PeerSlot,
    refusal_str,
};
pub(crate) use lane::{FrameSlot, Unacked, UnackedFrame};

use crate::membership::RemovalCause;
use crate::node::{ConfigError, DialId, LinkId, LinksFull};
use crate::wire::Control;
use crate::{EntityTypeId, Incarnation, Instant, NodeId, Term};

/// All links of a node. See the [module's docs](self).
#[derive(Debug)]
pub(crate) struct Links {
    config: LinkConfig,
    me: PeerIdentity,
    now: Instant,
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
            config,
            me,
            now,
            stats: LinkStats::default(),
        })
    }

    /// An address to dial until a link with the node behind it stands. Its own may be among them.
    pub(crate) fn add_seed(&mut self, now: Instant, address: &str) {}

    /// A life of a node is a member, or its address is news. The pair begins, if it is news too: data for it is kept
    /// from here on. A newer life ends the older. Idempotent; about this node itself, or an ended life: `None`.
    pub(crate) fn handle_member(
        &mut self,
        now: Instant,
        node: NodeId,
        incarnation: Incarnation,
        address: Option<&str>,
    ) -> Option<PeerSlot> {
        None
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
    }

    /// Where a node is in the table.
    pub(crate) fn slot(&self, node: NodeId) -> Option<PeerSlot> {
        None
    }

    /// The node of a slot.
    pub(crate) fn node(&self, peer: PeerSlot) -> Option<NodeId> {
        None
    }

    /// The life of the node that the slot's pair belongs to; `None` between two lives.
    pub(crate) fn incarnation(&self, peer: PeerSlot) -> Option<Incarnation> {
        None
    }

    /// Who the peer is, once it said so.
    pub(crate) fn identity(&self, peer: PeerSlot) -> Option<&PeerIdentity> {
        None
    }

    /// Whether a link with the peer stands.
    pub(crate) fn is_up(&self, peer: PeerSlot) -> bool {
        false
    }

    /// Whether a window of the peer is full.
    pub(crate) fn is_congested(&self, peer: PeerSlot) -> bool {
        false
    }

    /// All peers that have a pair.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PeerSlot> + '_ {
        core::iter::empty()
    }

    /// A connection that [`LinkEvent::Dial`] asked for stands. `authenticated`: whom the transport proved the peer to
    /// be, if it can.
    ///
    /// # Errors
    /// The dial is not known any more, or there is no room: close the connection.
    pub(crate) fn dialed(
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
    /// There is no room: close the connection.
    pub(crate) fn accepted(
        &mut self,
        now: Instant,
        authenticated: Option<NodeId>,
    ) -> Result<LinkId, LinksFull> {
        Err(LinksFull)
    }

    /// A dial failed; it is repeated after a pause as long as it is wanted.
    pub(crate) fn dial_failed(&mut self, now: Instant, dial: DialId) {}

    /// A connection ended. Also allowed, and not needed, after [`LinkEvent::Close`] and an error of [`Links::read`].
    pub(crate) fn closed(&mut self, now: Instant, link: LinkId) {}

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
        false
    }

    /// Appends a data frame, linked or not: it is kept until it is acknowledged or the pair ends. `write` appends one
    /// whole frame with the number of the [`FrameSlot`]; what it appends is taken back if it fails. `hint`: about how
    /// long the frame will be.
    ///
    /// # Errors
    /// See [`DataError`]; the state is unchanged.
    pub(crate) fn data<E>(
        &mut self,
        now: Instant,
        peer: PeerSlot,
        lane: u8,
        hint: usize,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        Err(DataError::UnknownPeer)
    }

    /// A link that has something to transmit; each is named once until it has something new.
    pub(crate) fn poll_dirty(&mut self) -> Option<LinkId> {
        None
    }

    /// The next bytes to write to a connection, `None` when there are no more for now. Data that is given out counts as
    /// sent, so write all of it or close the connection.
    pub(crate) fn poll_transmit(&mut self, link: LinkId) -> Option<Bytes> {
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
        Ok(None)
    }

    /// Whether the peer has acknowledged all data, and this side all of the peer's.
    pub(crate) fn flushed(&self, peer: PeerSlot) -> bool {
        true
    }

    /// From here on keep-alives say that this node leaves; one is sent at once.
    pub(crate) fn set_leaving(&mut self, now: Instant) {}

    /// This life of the node is over: says so on every link, closes them all, dials and accepts no more.
    pub(crate) fn goodbye(&mut self, now: Instant) {}

    /// Expires what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {}

    /// When to call [`Links::handle_timeout`]; may be early.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// What links want done, or known.
    pub(crate) fn poll_event(&mut self) -> Option<LinkEvent> {
        None
    }

    /// What was counted.
    pub(crate) const fn stats(&self) -> &LinkStats {
        &self.stats
    }
}
