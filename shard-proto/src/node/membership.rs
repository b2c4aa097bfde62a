//! Members come and go: by the adapter's word, by SWIM, or with their links.

use alloc::string::String;
use core::time::Duration;

use super::control::put_control;
use super::gossip::{Gossip, GossipEvent};
use super::link::{CloseReason, LinkEvent, PeerIdentity, PeerSlot, Unacked};
use super::members::Entry;
use super::receive::from_wire;
use super::send::{Put, peer_index};
use super::{AskFailure, Body, MembershipMode, Node, NodeCommand, Phase, Warning, count};
use crate::membership::{Member, MemberChange, MemberState, RemovalCause};
use crate::region::{Origin, RejectReason};
use crate::wire::control::Refusal;
use crate::wire::{Control, Data, Kind};
use crate::{Incarnation, Instant, NodeId};

/// Subjects of warnings, beside the kinds of frames.
const NODES_FULL: u32 = 0x101;

/// How long a node that was linked, and that nobody says to be a member, is waited for.
const STRANGER: Duration = Duration::from_secs(30);

impl<B: Body> Node<B> {
    /// The membership service says something ([`MembershipMode::External`] only; ignored otherwise). `address`: where
    /// to dial the node. `Removed` about this life of this node stops it for good ([`NodeCommand::Removed`]).
    pub fn handle_member(&mut self, now: Instant, change: MemberChange, address: Option<&str>) {
        self.advance(now);
        if self.config.membership == MembershipMode::External {
            self.handle_change(change, address);
            self.pump_links();
        }
    }

    pub(super) fn handle_change(&mut self, change: MemberChange, address: Option<&str>) {
        match change {
            MemberChange::Member(member) if member.node == self.me.node => {
                if member.incarnation > self.me.incarnation {
                    self.be_removed(RemovalCause::Replaced);
                } else if member.incarnation == self.me.incarnation {
                    self.set_state(member.node, member.state);
                }
            }
            MemberChange::Member(member) => self.set_member(member, address),
            MemberChange::Removed {
                node,
                incarnation,
                cause,
            } if node == self.me.node => {
                if incarnation >= self.me.incarnation {
                    let newer = incarnation > self.me.incarnation;
                    self.be_removed(if newer { RemovalCause::Replaced } else { cause });
                }
            }
            MemberChange::Removed {
                node,
                incarnation,
                cause,
            } => self.remove_member(node, incarnation, cause),
        }
    }

    /// Takes a member in, or takes over what is news of it.
    fn set_member(&mut self, member: Member, address: Option<&str>) {
        let node = member.node;
        if self.members.has_ended(node, member.incarnation) || !self.phase.is_member() {
            return;
        }
        let known = self.members.get(node).map(|entry| entry.member.incarnation);
        match known {
            Some(known) if known > member.incarnation => return,
            Some(known) if known < member.incarnation => {
                self.remove_member(node, known, RemovalCause::Replaced);
            }
            Some(_) => {}
            None if !self.members.has_room() => {
                self.members.wait(member, address);
                self.warn(node, NODES_FULL, || Warning::NodesFull { node });
                return;
            }
            None => {}
        }
        self.links
            .handle_member(self.now, node, member.incarnation, address);
        if let Some(entry) = self.members.get_mut(node) {
            if let Some(address) = address {
                entry.address = Some(String::from(address));
            }
            entry.down_at = None;
            entry.member.roles = member.roles;
            self.set_state(node, member.state);
            return;
        }
        self.members
            .put(Entry::new(member, address.map(String::from)));
        self.tell(MemberChange::Member(member));
    }

    /// What is believed of a member changes.
    fn set_state(&mut self, node: NodeId, base: MemberState) {
        let Some(entry) = self.members.get_mut(node) else {
            return;
        };
        entry.base = base;
        entry.member.state = entry.effective();
        let member = entry.member;
        if node == self.me.node {
            self.me = member;
        }
        self.members.mark(node);
        self.tell(MemberChange::Member(member));
    }

    /// A member said that it leaves.
    pub(super) fn set_leaving(&mut self, node: NodeId) {
        if let Some(entry) = self.members.get_mut(node)
            && !entry.leaving
        {
            entry.leaving = true;
            let base = entry.base;
            self.set_state(node, base);
        }
    }

    /// A life of a node is over for good. Its links are asked first, so that what it had not received goes back into
    /// the buffers before their regions hear of the end.
    pub(super) fn remove_member(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        cause: RemovalCause,
    ) {
        self.links
            .handle_removed(self.now, node, incarnation, cause);
        self.pump_links();
        self.forget_member(node, incarnation, cause);
    }

    fn forget_member(&mut self, node: NodeId, incarnation: Incarnation, cause: RemovalCause) {
        let Some(entry) = self.members.remove(node, incarnation) else {
            return;
        };
        let incarnation = entry.member.incarnation;
        self.out.push_back(NodeCommand::MemberGone {
            node,
            incarnation,
            cause,
        });
        self.tell(MemberChange::Removed {
            node,
            incarnation,
            cause,
        });
        // A life that was replaced makes room for the next.
        if cause != RemovalCause::Replaced {
            self.admit_waiting();
        }
    }

    /// Tells every part, in this order: leadership, then each type's coordinator and region.
    fn tell(&mut self, change: MemberChange) {
        let now = self.now;
        let mut full = self.leadership.handle_member(now, change).is_err();
        self.lead_dirty = true;
        let congested = self.congested_link(change);
        for (_, kind) in self.types.touch_all() {
            full |= kind.coordinator.handle_member(now, change).is_err();
            full |= kind.region.handle_member(now, change).is_err();
            if let Some(node) = congested {
                kind.region.handle_congestion(now, node, true);
            }
        }
        // They have more room than the list of members; a part that is full of lives that ended says so here. They
        // go when their leases are over.
        let again = now.after(self.config.keep_alive);
        if let MemberChange::Member(Member { node, .. }) = change
            && let Some(entry) = self.members.get_mut(node)
        {
            entry.offer_at = full.then_some(again);
            if full {
                self.warn(node, NODES_FULL, || Warning::NodesFull { node });
            }
        }
    }

    /// The node of a member whose link is full: what goes back to one that is none yet may have filled it, which regions
    /// that did not know it did not hear of.
    fn congested_link(&self, change: MemberChange) -> Option<NodeId> {
        let MemberChange::Member(member) = change else {
            return None;
        };
        let peer = self.links.slot(member.node)?;
        let is_its_own = self.links.incarnation(peer) == Some(member.incarnation);
        (is_its_own && self.links.is_congested(peer)).then_some(member.node)
    }

    /// Handles what links have to say. Cheap if they have nothing.
    pub(super) fn pump_links(&mut self) {
        while let Some(event) = self.links.poll_event() {
            self.handle_link_event(event);
        }
    }

    fn handle_link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Dial { dial, address } => {
                self.out.push_back(NodeCommand::Dial { dial, address });
            }
            LinkEvent::Close { link, reason } => {
                if reason == CloseReason::HandshakeTimeout {
                    count(&mut self.stats.handshakes_timed_out);
                }
                self.out.push_back(NodeCommand::Close {
                    link,
                    reason: reason.as_str(),
                });
            }
            LinkEvent::Up { identity, .. } => self.link_up(&identity),
            LinkEvent::Down { node, .. } => self.link_down(node),
            LinkEvent::Refused {
                by_peer,
                node,
                refusal,
            } => self.link_refused(by_peer, node, refusal),
            LinkEvent::Leaving { node, .. } => self.set_leaving(node),
            LinkEvent::PairEnded {
                peer,
                node,
                incarnation,
                cause,
                unacked,
            } => {
                self.pair_ended(peer, node, incarnation, unacked);
                self.drop_stuck(node);
                self.forget_member(node, incarnation, cause);
            }
            LinkEvent::Forgotten { peer, .. } => self.asks.peer_ended(peer_index(peer)),
            LinkEvent::Congested {
                node, congested, ..
            } => self.handle_congestion(node, congested),
        }
    }

    fn link_up(&mut self, identity: &PeerIdentity) {
        let node = identity.node;
        self.leadership.handle_linked(self.now, node);
        self.lead_dirty = true;
        if let Some(entry) = self.members.get_mut(node) {
            entry.silent_at = None;
            entry.down_at = None;
        }
        let state = match (self.config.membership, &mut self.gossip) {
            (MembershipMode::Links { .. }, _) => MemberState::Up,
            (_, Some(gossip)) => {
                gossip.link_up(self.now, identity);
                let known = self.members.get(node);
                if known.is_some_and(|known| known.member.incarnation == identity.incarnation) {
                    return;
                }
                // It may send before anybody told this node that it is a member.
                MemberState::Joining
            }
            _ => return,
        };
        let member = Member {
            node,
            incarnation: identity.incarnation,
            state,
            roles: identity.roles,
        };
        self.set_member(member, Some(&identity.address));
    }

    /// A connection that broke is most often made again at once; only then the node counts as silent.
    fn link_down(&mut self, node: NodeId) {
        let now = self.now;
        let down_after = match self.config.membership {
            MembershipMode::Links { down_after } => Some(down_after),
            _ => None,
        };
        let silent_after = self.config.keep_alive;
        if down_after.is_some() {
            self.members.give_up(node);
        }
        if let Some(entry) = self.members.get_mut(node) {
            entry.silent_at = Some(now.after(silent_after));
            entry.down_at = match down_after {
                None if entry.base == MemberState::Joining => Some(now.after(STRANGER)),
                other => other.map(|after| now.after(after)),
            };
        }
    }

    fn link_silent(&mut self, node: NodeId) {
        if let Some(gossip) = &mut self.gossip {
            gossip.link_silent(self.now, node);
        }
        if matches!(self.config.membership, MembershipMode::Links { .. }) {
            self.set_state(node, MemberState::Unreachable);
        }
    }

    /// Handles what the membership protocol has to say. Cheap if there is nothing, or none.
    pub(super) fn pump_gossip(&mut self) {
        while let Some(event) = self.gossip.as_mut().and_then(Gossip::poll) {
            match event {
                GossipEvent::Send {
                    to,
                    incarnation,
                    packet,
                } => {
                    let links = &mut self.links;
                    let peer = links
                        .slot(to)
                        .filter(|peer| links.incarnation(*peer) == Some(incarnation));
                    let control = Control::Swim(&packet);
                    let none = crate::EntityTypeId(0);
                    let (stats, term) = (&mut self.stats, crate::Term::NONE);
                    put_control(links, stats, self.now, peer, none, term, &control);
                }
                GossipEvent::Change(change, address) => {
                    self.handle_change(change, address.as_deref());
                }
                GossipEvent::Over(cause) => self.be_removed(cause),
            }
        }
    }

    /// What follows from links that were down for too long.
    pub(super) fn expire_members(&mut self) {
        while let Some(node) = self.members.silent(self.now) {
            self.link_silent(node);
        }
        while let Some(member) = self.members.due(self.now) {
            self.remove_member(member.node, member.incarnation, RemovalCause::Down);
        }
        while let Some(member) = self.members.offer(self.now) {
            self.tell(MemberChange::Member(member));
        }
    }

    /// Who waited for room among the members is taken in.
    fn admit_waiting(&mut self) {
        while let Some((member, address)) = self.members.poll_waiting() {
            self.set_member(member, address.as_deref());
        }
    }

    fn link_refused(&mut self, by_peer: bool, node: Option<NodeId>, refusal: Refusal) {
        if by_peer
            && let Refusal::Incarnation { newest } = refusal
            && newest >= self.me.incarnation
            && self.is_overruled(node)
        {
            let newer = newest > self.me.incarnation;
            self.be_removed(if newer {
                RemovalCause::Replaced
            } else {
                RemovalCause::Down
            });
        }
    }

    /// A node says that this life is over. Two halves of a cluster that lost each other say it of one another; then
    /// the older node stays.
    fn is_overruled(&self, by: Option<NodeId>) -> bool {
        let Some(by) = by else {
            return false;
        };
        match self.members.ended_life(by) {
            Some(incarnation) => (incarnation, by) < self.me.age(),
            None => true,
        }
    }

    /// This life of this node is over: everything stops.
    pub(super) fn be_removed(&mut self, cause: RemovalCause) {
        if !self.phase.is_member() {
            return;
        }
        let (now, me) = (self.now, self.me);
        self.phase = Phase::Removing(cause);
        self.gossip = None;
        self.stop_types(now);
        self.tell(MemberChange::Removed {
            node: me.node,
            incarnation: me.incarnation,
            cause: RemovalCause::Down,
        });
        self.asks.fail_all(AskFailure::Stopped);
        self.links.goodbye(now);
    }

    /// What a life of a node had not acknowledged when it ended. What it was never sent goes back into the buffers;
    /// the rest was perhaps delivered.
    fn pair_ended(
        &mut self,
        peer: PeerSlot,
        node: NodeId,
        incarnation: Incarnation,
        unacked: Unacked,
    ) {
        let mut frames: u64 = 0;
        for frame in unacked {
            match frame.header.kind {
                Kind::ENVELOPE if !frame.sent && self.take_back(peer, node, &frame) => {}
                Kind::ENVELOPE => {
                    frames = frames.saturating_add(1);
                    self.lost.push_back((node, frame));
                }
                // Its origin, which has ended, may not have it.
                Kind::RETURN => self.lost.push_back((node, frame)),
                Kind::REPLY => count(&mut self.stats.replies_dropped),
                _ => {}
            }
        }
        self.asks.peer_ended(peer_index(peer));
        if frames > 0 {
            self.out
                .push_back(NodeCommand::Warn(Warning::Unacknowledged {
                    node,
                    incarnation,
                    frames,
                }));
        }
    }

    /// A message that never left this node.
    fn take_back(
        &mut self,
        peer: PeerSlot,
        node: NodeId,
        frame: &super::link::UnackedFrame,
    ) -> bool {
        let Ok(Data::Envelope(envelope)) = Data::decode(frame.header.kind, &frame.body) else {
            return false;
        };
        let Some(ty) = self.types.by_id(frame.header.entity_type) else {
            return false;
        };
        let mut message = from_wire::<B>(frame.header.flags, &envelope, &frame.body);
        let index = peer_index(peer);
        message.ask = self.asks.waits_for(envelope.correlation, index);
        let (now, epoch) = (self.now, frame.header.epoch());
        let taken = self.types.touch(ty).is_some_and(|kind| {
            kind.region
                .take_back(now, node, envelope.shard, epoch, message)
                .is_ok()
        });
        if taken {
            self.asks.came_back(envelope.correlation, index);
        }
        taken
    }

    /// The next message to be reported that a link did not get rid of: perhaps delivered, or on its way back to who
    /// has ended. Its ask has failed on its own.
    pub(super) fn poll_lost(&mut self) -> Option<NodeCommand<B>> {
        loop {
            let (node, frame) = self.lost.pop_front()?;
            let (envelope, origin, reason) = match Data::decode(frame.header.kind, &frame.body) {
                Ok(Data::Envelope(envelope)) => {
                    (envelope, Origin::Local, RejectReason::PerhapsDelivered)
                }
                Ok(Data::Return(back)) => {
                    let origin = Origin::Remote(node);
                    (back.envelope, origin, RejectReason::OriginEnded)
                }
                _ => continue,
            };
            let Some(ty) = self.types.by_id(frame.header.entity_type) else {
                continue;
            };
            let message = from_wire(frame.header.flags, &envelope, &frame.body);
            if let Put::Done(command) = self.reject(ty, envelope.shard, origin, reason, message) {
                return command;
            }
        }
    }
}
