//! Membership by SWIM, without its I/O.
//!
//! [`Swim`] finds out who is in the cluster: packets go in and come out, as frames of links that authenticate their
//! peers, and [`MemberChange`]s come out. The protocol is `foca`'s (SWIM with suspicion: Das, Gupta, Motivala, "SWIM:
//! Scalable Weakly-consistent Infection-style Process Group Membership Protocol", DSN 2002).
//!
//! What of it becomes what here:
//!
//! | SWIM | [`MemberChange`] |
//! |---|---|
//! | alive | [`MemberState::Up`], or [`MemberState::Leaving`] after [`Swim::begin_leave`] of that node |
//! | suspected by anybody, or its link is silent ([`Swim::handle_silence`]) | [`MemberState::Unreachable`] |
//! | down after [`Swim::leave`] of that node | `Removed`, [`RemovalCause::Left`] |
//! | down | `Removed`, [`RemovalCause::Down`] |
//! | alive in a newer life | `Removed`, [`RemovalCause::Replaced`], then `Member` |
//!
//! A removed life is never readmitted. Its node learns of it ([`SwimEvent::Defunct`]) and has to come back with a new
//! incarnation. When the halves of a cluster that removed each other meet again, each node yields to the older ones:
//! the oldest node's half goes on.
//!
//! What it is not: proof against members that lie. A member can call any other down, or say that it lives anew, and
//! ends its life by that; links keep strangers out.

mod codec;
mod config;
mod identity;
mod runtime;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use codec::SwimCodec;
pub use config::SwimConfig;
use foca::{Foca, Message, NoCustomBroadcast, State, Timer};
use identity::Phase;
pub use identity::SwimIdentity;
use runtime::{Effects, Random};

use super::ConfigError;
use crate::hash::SplitMix64;
use crate::membership::{MemberChange, MemberState, RemovalCause};
use crate::{Incarnation, Instant, NodeId};

/// Ended lives that are remembered.
const MAX_ENDED: usize = 65_536;
/// Timers handled in one go.
const BATCH: usize = 64;

/// What membership wants. Poll until `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an event nobody handles must not compile"
)]
pub enum SwimEvent {
    /// Send a packet to a node, in that life; without a link, dial the address. May be dropped. The life may be one
    /// that was removed: then it is to find out, by being refused.
    Send {
        /// The node.
        to: NodeId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Where to dial it.
        address: String,
        /// The packet.
        packet: Bytes,
    },
    /// The view changed.
    Change {
        /// How.
        change: MemberChange,
        /// Of a `Member`: its name and address.
        identity: Option<SwimIdentity>,
    },
    /// This life was declared down, or replaced: it is over, and has to come back with a new incarnation. Nothing
    /// follows. With [`RemovalCause::Down`] or [`RemovalCause::Replaced`].
    Defunct(RemovalCause),
}

/// Why a packet was not taken. The state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SwimError {
    /// The packet is larger than any node sends, or does not decode.
    Malformed,
    /// The packet says that it is from another node, or another life of it, than its link.
    Sender,
    /// The packet names more nodes than there is room for.
    Full,
    /// The packet names a life of a node above [`Swim::set_incarnation_limit`].
    Future,
}

impl fmt::Display for SwimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed membership packet",
            Self::Sender => "the packet names another sender than its link",
            Self::Full => "no room for another node",
            Self::Future => "the packet names a life that began in the future",
        })
    }
}

impl core::error::Error for SwimError {}

/// A member as the owner was told.
#[derive(Clone)]
struct Known {
    identity: SwimIdentity,
    state: MemberState,
}

/// The membership protocol of one node. See the [module](self).
pub struct Swim {
    now: Instant,
    config: SwimConfig,
    foca: Foca<SwimIdentity, SwimCodec, Random, NoCustomBroadcast>,
    effects: Effects,
    /// In the order in which they are due.
    timers: BTreeMap<(Instant, u64), Timer<SwimIdentity>>,
    timer_seq: u64,
    /// What the owner was told.
    view: BTreeMap<NodeId, Known>,
    /// No life above it is heard of.
    limit: Incarnation,
    /// The newest life of each node that ended.
    ended: BTreeMap<NodeId, Incarnation>,
    /// Nodes whose links are silent.
    silent: BTreeSet<NodeId>,
    /// `view` may differ from what `foca` knows.
    dirty: bool,
    over: Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    No,
    /// Declared down; the owner is to be told.
    Defunct(RemovalCause),
    /// It left, or the owner was told.
    Silent,
}

impl fmt::Debug for Swim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swim")
            .field("identity", self.foca.identity())
            .field("members", &self.view.len())
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Swim {
    /// A node that knows nobody. [`Swim::announce`] it to a node of the cluster.
    ///
    /// # Errors
    /// See [`SwimConfig::validate`].
    pub fn new(
        now: Instant,
        identity: SwimIdentity,
        config: SwimConfig,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let random = Random(SplitMix64::new(seed));
        Ok(Self {
            now,
            config,
            foca: Foca::new(identity, config.foca(), random, SwimCodec),
            effects: Effects::default(),
            timers: BTreeMap::new(),
            timer_seq: 0,
            view: BTreeMap::new(),
            limit: Incarnation(u64::MAX),
            ended: BTreeMap::new(),
            silent: BTreeSet::new(),
            dirty: false,
            over: Over::No,
        })
    }

    /// This node.
    #[must_use]
    pub const fn identity(&self) -> &SwimIdentity {
        self.foca.identity()
    }

    /// The other members, as [`SwimEvent::Change`] told them.
    pub fn members(&self) -> impl Iterator<Item = (&SwimIdentity, MemberState)> {
        self.view
            .values()
            .map(|known| (&known.identity, known.state))
    }

    /// Asks a node that a link leads to for the cluster. Repeat it until a member appears.
    pub fn announce(&mut self, now: Instant, peer: SwimIdentity) {
        self.advance(now);
        if self.over == Over::No && peer.node != self.identity().node {
            // Nothing else can be in the way than an identity that is too long, and there is none.
            let _ = self.foca.announce(peer, &mut self.effects);
            self.absorb();
        }
    }

    /// A packet that came over a link of `from` in its life `incarnation`.
    ///
    /// # Errors
    /// [`SwimError`]; the state is unchanged.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        from: NodeId,
        incarnation: Incarnation,
        packet: &[u8],
    ) -> Result<(), SwimError> {
        self.advance(now);
        if self.over != Over::No {
            return Ok(());
        }
        if packet.len() > self.config.foca().max_packet_size.get() {
            return Err(SwimError::Malformed);
        }
        let (header, updates) = codec::take_packet(packet).map_err(|_| SwimError::Malformed)?;
        let (me, src) = (self.identity().clone(), &header.src);
        if src.node != from || src.incarnation != incarnation || from == me.node {
            return Err(SwimError::Sender);
        }
        let ids = || {
            let updates = updates.iter().map(foca::Member::id);
            updates.chain([&header.src])
        };
        if !self.has_room(ids()) {
            return Err(SwimError::Full);
        }
        if ids().any(|id| id.incarnation > self.limit) {
            return Err(SwimError::Future);
        }
        // Nobody makes this node dial whom it does not know, or asks it to ask itself.
        if let Some(named) = codec::named(&header.message) {
            if named.node == me.node {
                return Err(SwimError::Malformed);
            }
            if !self.remembers(named) {
                return Ok(());
            }
        }
        let newer = |id: &SwimIdentity| id.node == me.node && id.incarnation > me.incarnation;
        if ids().any(newer) {
            self.over = Over::Defunct(RemovalCause::Replaced);
            return Ok(());
        }
        // A removed life is told so, and heard only if it says the same of this one and this one is the younger.
        if self.has_ended(src) && (header.message != Message::TurnUndead || self.is_older_than(src))
        {
            self.tell_ended(header);
            return Ok(());
        }
        let result = self.foca.handle_data(packet, &mut self.effects);
        self.absorb();
        result.map_err(|_| SwimError::Malformed)
    }

    /// Packets that name a life of a node above it are not taken: it would be the node's last. Default: every life is.
    pub fn set_incarnation_limit(&mut self, limit: Incarnation) {
        self.limit = limit;
    }

    /// A node's link was silent for too long, or is heard again. Until the node's suspicion is refuted or confirmed it
    /// counts as unreachable.
    pub fn handle_silence(&mut self, now: Instant, node: NodeId, silent: bool) {
        self.advance(now);
        let changed = if silent {
            self.view.contains_key(&node) && self.silent.insert(node)
        } else {
            self.silent.remove(&node)
        };
        self.dirty |= changed;
    }

    /// Tells the others that this node leaves: it is [`MemberState::Leaving`] to them. Idempotent.
    pub fn begin_leave(&mut self, now: Instant) {
        self.advance(now);
        if self.over == Over::No && self.identity().phase == Phase::Up {
            self.enter(Phase::Leaving);
        }
    }

    /// Leaves: the others remove this node with [`RemovalCause::Left`]. What is to be sent is to be sent before the
    /// links close; nothing else follows. Idempotent.
    pub fn leave(&mut self, now: Instant) {
        self.advance(now);
        if self.over == Over::No {
            self.enter(Phase::Left);
            let _ = self.foca.leave_cluster(&mut self.effects);
            self.absorb();
            self.over = Over::Silent;
            self.timers.clear();
        }
    }

    /// Does what is due, a bounded batch.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        if self.over != Over::No {
            return;
        }
        if let Some(((due, _), _)) = self.timers.first_key_value() {
            let late = self.now.since(*due);
            if late > self.config.probe_period {
                self.postpone(late.saturating_add(self.config.probe_rtt));
            }
        }
        for _ in 0..BATCH {
            match self.timers.first_entry() {
                Some(entry) if entry.key().0 <= self.now => {
                    let timer = entry.remove();
                    // Errors of timers are about their order, which is kept, or about a life that is over.
                    let _ = self.foca.handle_timer(timer, &mut self.effects);
                    self.absorb();
                }
                _ => break,
            }
        }
    }

    /// When to call [`Swim::handle_timeout`]. O(1).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.over {
            Over::No => self.timers.keys().next().map(|(at, _)| *at),
            Over::Defunct(_) | Over::Silent => None,
        }
    }

    /// What is wanted next. O(1) when there is nothing; O(members) for a change.
    pub fn poll_event(&mut self) -> Option<SwimEvent> {
        if let Some((to, packet)) = self.effects.packets.pop_front() {
            return Some(SwimEvent::Send {
                to: to.node,
                incarnation: to.incarnation,
                address: String::from(to.address()),
                packet,
            });
        }
        match self.over {
            Over::No => {}
            Over::Defunct(cause) => {
                self.over = Over::Silent;
                self.timers.clear();
                return Some(SwimEvent::Defunct(cause));
            }
            Over::Silent => return None,
        }
        while self.dirty {
            match self.next_change() {
                Some(Step::Tell(change, identity)) => {
                    return Some(SwimEvent::Change { change, identity });
                }
                Some(Step::Bury(identity)) => self.bury(identity),
                None => self.dirty = false,
            }
        }
        None
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// This node says something new of itself.
    fn enter(&mut self, phase: Phase) {
        let next = self.identity().renewed(phase);
        let _ = self.foca.change_identity(next, &mut self.effects);
        // It is as connected as it was.
        let _ = self
            .foca
            .apply_many(core::iter::empty(), false, &mut self.effects);
        self.absorb();
    }

    fn absorb(&mut self) {
        for (after, timer) in self.effects.timers.drain(..) {
            self.timer_seq = self.timer_seq.saturating_add(1);
            self.timers
                .insert((self.now.after(after), self.timer_seq), timer);
        }
        if self.effects.defunct && self.over == Over::No {
            self.over = Over::Defunct(RemovalCause::Down);
        }
        self.dirty = true;
    }

    /// This node was stopped: packets that came meanwhile are read before members are declared down for not having
    /// answered. All timers wait for it, in their order.
    fn postpone(&mut self, late: Duration) {
        let timers = core::mem::take(&mut self.timers);
        let later = |((at, seq), timer): ((Instant, u64), _)| ((at.after(late), seq), timer);
        self.timers = timers.into_iter().map(later).collect();
    }

    /// Whether all of these nodes fit into the table.
    fn has_room<'a>(&self, ids: impl Iterator<Item = &'a SwimIdentity>) -> bool {
        let max = usize::from(self.config.max_members);
        let members = self.foca.iter_membership_state();
        let count = members.len();
        let ids: BTreeSet<NodeId> = ids.map(|id| id.node).collect();
        if count.saturating_add(ids.len()) <= max {
            return true;
        }
        let known = members
            .filter(|member| ids.contains(&member.id().node))
            .count();
        count.saturating_add(ids.len()).saturating_sub(known) <= max
    }

    fn remembers(&self, id: &SwimIdentity) -> bool {
        let mut members = self.foca.iter_membership_state();
        members.any(|member| member.id().node == id.node)
    }

    fn is_older_than(&self, id: &SwimIdentity) -> bool {
        let me = self.identity();
        (me.incarnation, me.node) < (id.incarnation, id.node)
    }

    fn has_ended(&self, id: &SwimIdentity) -> bool {
        let told = self.ended.get(&id.node);
        told.is_some_and(|ended| *ended >= id.incarnation)
            || self.foca.iter_membership_state().any(|member| {
                member.id().node == id.node
                    && member.id().incarnation >= id.incarnation
                    && member.state() == State::Down
            })
    }

    /// Tells the sender of a packet that its life is over.
    fn tell_ended(&mut self, header: foca::Header<SwimIdentity>) {
        use foca::{Codec, Runtime};

        let (src, dst) = (self.identity().clone(), header.src);
        let header = foca::Header {
            src,
            src_incarnation: 0,
            dst,
            message: Message::TurnUndead,
        };
        let mut packet = Vec::new();
        if SwimCodec.encode_header(&header, &mut packet).is_ok() {
            (&mut self.effects).send_to(header.dst, &packet);
        }
    }

    fn bury(&mut self, identity: SwimIdentity) {
        let down = core::iter::once(foca::Member::down(identity));
        let _ = self.foca.apply_many(down, true, &mut self.effects);
        self.absorb();
    }

    fn remember_end(&mut self, node: NodeId, incarnation: Incarnation) {
        let ended = self.ended.entry(node).or_insert(incarnation);
        *ended = (*ended).max(incarnation);
        if self.ended.len() > MAX_ENDED
            && let Some(oldest) = self
                .ended
                .iter()
                .min_by_key(|(_, incarnation)| **incarnation)
                .map(|(node, _)| *node)
        {
            self.ended.remove(&oldest);
        }
    }

    /// The first difference between what the owner was told and what is known.
    fn next_change(&mut self) -> Option<Step> {
        let me = self.identity().node;
        let mut found = None;
        for member in self.foca.iter_membership_state() {
            let id = member.id();
            if id.node == me {
                continue;
            }
            let state = self.state_of(member);
            let known = self.view.get(&id.node);
            let differs = match (known, state) {
                (None, None) => false,
                (None, Some(_)) => true,
                (Some(known), state) => known.identity != *id || state != Some(known.state),
            };
            if differs {
                found = Some((id.clone(), state));
                break;
            }
        }
        let (id, state) = found?;
        let removed = |node, incarnation, cause| {
            let change = MemberChange::Removed {
                node,
                incarnation,
                cause,
            };
            Some(Step::Tell(change, None))
        };
        if let Some(known) = self.view.get(&id.node) {
            let old = known.identity.incarnation;
            let cause = match state {
                _ if old != id.incarnation => Some(RemovalCause::Replaced),
                None if id.phase == Phase::Left => Some(RemovalCause::Left),
                None => Some(RemovalCause::Down),
                Some(_) => None,
            };
            if let Some(cause) = cause {
                self.view.remove(&id.node);
                self.silent.remove(&id.node);
                self.remember_end(id.node, old);
                return removed(id.node, old, cause);
            }
        }
        let state = state?;
        if self
            .ended
            .get(&id.node)
            .is_some_and(|ended| *ended >= id.incarnation)
        {
            return Some(Step::Bury(id));
        }
        let member = id.member(state);
        let identity = id.clone();
        self.view.insert(id.node, Known { identity, state });
        Some(Step::Tell(MemberChange::Member(member), Some(id)))
    }

    /// `None`: down.
    fn state_of(&self, member: &foca::Member<SwimIdentity>) -> Option<MemberState> {
        let id = member.id();
        match (member.state(), id.phase) {
            (State::Down, _) | (_, Phase::Left) => None,
            (State::Suspect, _) => Some(MemberState::Unreachable),
            (State::Alive, _) if self.silent.contains(&id.node) => Some(MemberState::Unreachable),
            (State::Alive, Phase::Leaving) => Some(MemberState::Leaving),
            (State::Alive, Phase::Up) => Some(MemberState::Up),
        }
    }
}

enum Step {
    Tell(MemberChange, Option<SwimIdentity>),
    /// A removed life that somebody believes to be alive.
    Bury(SwimIdentity),
}
