//! The table of nodes.

use crate::{
    Incarnation, Instant, NodeId, Term,
    membership::{MemberState, NodesFull},
};

/// Room for one node. Opaque; storage is made of [`PeerSlot::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct PeerSlot {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    /// `None`: this incarnation was removed.
    pub(super) state: Option<MemberState>,
    /// When it came up.
    pub(super) up_since: Instant,
    /// Not eligible: it was named and kept quiet, or it resigned. Over with its next beat, or when it comes up again.
    pub(super) quiet: bool,
    /// It said that it is leaving.
    pub(super) leaving: bool,
    /// Newest leader's beat of it.
    pub(super) led: Option<Led>,
    /// Since when its beats compete with the reign of this node.
    pub(super) rival_since: Option<Instant>,
    /// Newest beat of it for a reign of this node.
    pub(super) followed: Option<Followed>,
    /// The reign of this node under which it registered last, and the digest of the types that did.
    pub(super) registered: (Term, u32),
    /// It was completely registered once under this reign.
    pub(super) counted: bool,
    /// When the newest beat of a lower term reached it, at the latest; of a registration under this reign.
    pub(super) lower_beat: Option<Instant>,
    /// Newest beat sent to it under this reign.
    pub(super) sent: u64,
    /// A beat of it was echoed under this reign.
    pub(super) granted: bool,
    /// Its lease may last for `lease + drift` from here; `None`: it has none of this reign.
    pub(super) lapse_from: Option<Instant>,
    /// The same, of the life before.
    pub(super) former_from: Option<Instant>,
    /// To tell: the lease of the life before is over.
    pub(super) former_lapsed: bool,
    /// Its sessions were ended: it gets no lease before all its types have registered again.
    pub(super) ended: bool,
    /// To tell: its lease is over.
    pub(super) lapsed: bool,
    /// What the adapter was told: it hears this reign.
    pub(super) told_hears: bool,
    /// It leads, but hears nobody: nobody follows it until then.
    pub(super) ignored_until: Instant,
    /// When a refusal of it was last acted on.
    pub(super) heeded_at: Option<Instant>,
    /// When it was last sent a refusal.
    pub(super) refused_at: Option<Instant>,
    /// When it was last sent a leader's beat.
    pub(super) beat_at: Instant,
    /// To send: a leader's beat.
    pub(super) beat_due: bool,
    /// To send: a refusal of this term.
    pub(super) refuse: Option<Term>,
    /// To send: the resignation of this term.
    pub(super) resign: Option<Term>,
}

/// The newest leader's beat of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Led {
    pub(super) term: Term,
    pub(super) seq: u64,
    pub(super) at: Instant,
}

/// The newest beat of a node for a reign of this node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
    pub(super) term: Term,
    pub(super) seq: u64,
    pub(super) at: Instant,
    /// When the newest beat that it echoed was sent.
    pub(super) echo: Option<Instant>,
    /// Digest of the types that it needs registered.
    pub(super) types: u32,
}

impl PeerSlot {
    /// A free slot.
    pub const EMPTY: Self = Self {
        node: NodeId(0),
        incarnation: Incarnation(0),
        state: None,
        up_since: Instant::ZERO,
        quiet: false,
        leaving: false,
        led: None,
        rival_since: None,
        followed: None,
        registered: (Term::NONE, 0),
        counted: false,
        lower_beat: None,
        sent: 0,
        granted: false,
        lapse_from: None,
        former_from: None,
        former_lapsed: false,
        ended: false,
        lapsed: false,
        told_hears: false,
        ignored_until: Instant::ZERO,
        heeded_at: None,
        refused_at: None,
        beat_at: Instant::ZERO,
        beat_due: false,
        refuse: None,
        resign: None,
    };

    pub(super) const fn new(
        node: NodeId,
        incarnation: Incarnation,
        state: Option<MemberState>,
        now: Instant,
    ) -> Self {
        Self {
            node,
            incarnation,
            state,
            up_since: now,
            ..Self::EMPTY
        }
    }

    pub(super) const fn is_member(&self) -> bool {
        self.state.is_some()
    }

    /// Up, not leaving, and not known to keep quiet.
    pub(super) fn is_eligible(&self) -> bool {
        self.state == Some(MemberState::Up) && !self.quiet && !self.leaving
    }

    /// The order in which members lead: oldest first.
    pub(super) const fn age(&self) -> (Incarnation, NodeId) {
        (self.incarnation, self.node)
    }

    /// Its newest beat for the reign.
    pub(super) fn followed(&self, term: Term) -> Option<Followed> {
        self.followed.filter(|beat| beat.term == term)
    }

    /// Whether all types that its newest beat of this reign says are registered.
    pub(super) fn is_registered(&self, term: Term) -> bool {
        self.followed(term)
            .is_some_and(|beat| self.registered == (term, beat.types))
    }

    /// Whether the adapter waits to hear that a lease of it is over.
    const fn may_serve(&self) -> bool {
        let pending = self.lapse_from.is_some() || self.former_from.is_some();
        pending || self.lapsed || self.former_lapsed
    }

    /// Forgets what belonged to a reign of this node.
    pub(super) const fn forget_reign(&mut self) {
        self.rival_since = None;
        self.registered = (Term::NONE, 0);
        self.counted = false;
        self.lower_beat = None;
        self.sent = 0;
        self.granted = false;
        self.lapse_from = None;
        self.former_from = None;
        self.former_lapsed = false;
        self.ended = false;
        self.lapsed = false;
        self.told_hears = false;
        self.beat_due = false;
    }

    pub(super) const fn has_mail(&self) -> bool {
        self.beat_due
            || self.lapsed
            || self.former_lapsed
            || self.refuse.is_some()
            || self.resign.is_some()
    }
}

impl Default for PeerSlot {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The slots in use, sorted by node, at the front of the storage.
///
/// A removed incarnation keeps its slot, so that a late change does not bring it back, until the room is needed.
#[derive(Clone, Debug)]
pub(super) struct Peers<S> {
    slots: S,
    len: usize,
}

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Peers<S> {
    pub(super) const fn new(slots: S) -> Self {
        Self { slots, len: 0 }
    }

    pub(super) fn all(&self) -> &[PeerSlot] {
        self.slots.as_ref().get(..self.len).unwrap_or(&[])
    }

    pub(super) fn all_mut(&mut self) -> &mut [PeerSlot] {
        self.slots.as_mut().get_mut(..self.len).unwrap_or(&mut [])
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &PeerSlot> {
        self.all().iter().filter(|peer| peer.is_member())
    }

    /// The node's slot, also if its incarnation was removed. O(log nodes).
    pub(super) fn slot_mut(&mut self, node: NodeId) -> Option<&mut PeerSlot> {
        let at = self.all().binary_search_by_key(&node, |peer| peer.node);
        self.all_mut().get_mut(at.ok()?)
    }

    pub(super) fn member(&self, node: NodeId) -> Option<&PeerSlot> {
        let at = self.all().binary_search_by_key(&node, |peer| peer.node);
        self.all().get(at.ok()?).filter(|peer| peer.is_member())
    }

    pub(super) fn member_mut(&mut self, node: NodeId) -> Option<&mut PeerSlot> {
        self.slot_mut(node).filter(|peer| peer.is_member())
    }

    /// Puts a node into the table; one that is there is overwritten.
    pub(super) fn put(&mut self, slot: PeerSlot) -> Result<(), NodesFull> {
        if let Some(old) = self.slot_mut(slot.node) {
            *old = slot;
            return Ok(());
        }
        if self.slots.as_ref().len() <= self.len {
            if !slot.is_member() {
                return Err(NodesFull);
            }
            self.drop_oldest_removed()?;
        }
        let at = self.all().partition_point(|peer| peer.node < slot.node);
        let len = self.len.saturating_add(1);
        let tail = self.slots.as_mut().get_mut(at..len).ok_or(NodesFull)?;
        tail.rotate_right(1);
        *tail.first_mut().ok_or(NodesFull)? = slot;
        self.len = len;
        Ok(())
    }

    fn drop_oldest_removed(&mut self) -> Result<(), NodesFull> {
        let removed = self.all().iter().enumerate();
        let oldest = removed
            .filter(|(_, peer)| !peer.is_member() && !peer.may_serve())
            .min_by_key(|(_, peer)| peer.incarnation);
        let at = oldest.ok_or(NodesFull)?.0;
        self.all_mut()
            .get_mut(at..)
            .ok_or(NodesFull)?
            .rotate_left(1);
        self.len = self.len.saturating_sub(1);
        Ok(())
    }
}
