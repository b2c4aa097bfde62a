//! Who is in the cluster, as a process knows it.

use alloc::vec::Vec;

use super::{Machine, Sink};
use crate::membership::{Member, MemberChange, MemberState, RemovalCause};
use crate::node::departure::Phase;
use crate::sim::Store;
use crate::{Incarnation, Instant, NodeId};

/// A member.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// As all parts were told.
    member: Member,
    /// The state before the member's own word that it leaves.
    base: MemberState,
    leaving: bool,
}

/// All members, the process itself included, and the lives that are over.
#[derive(Clone, Debug)]
pub(super) struct Members {
    entries: Vec<Entry>,
    ended: Vec<(NodeId, Incarnation)>,
}

impl Members {
    pub(super) fn new(me: Member) -> Self {
        let entry = Entry {
            member: me,
            base: me.state,
            leaving: false,
        };
        Self {
            entries: [entry].into(),
            ended: Vec::new(),
        }
    }

    pub(super) fn has(&self, node: NodeId) -> bool {
        self.get(node).is_some()
    }

    fn get(&self, node: NodeId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.member.node == node)
    }

    fn get_mut(&mut self, node: NodeId) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.member.node == node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Member> + '_ {
        self.entries.iter().map(|entry| entry.member)
    }

    fn has_ended(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.ended
            .iter()
            .any(|(other, ended)| *other == node && incarnation <= *ended)
    }

    fn remove(&mut self, node: NodeId, incarnation: Incarnation) -> Option<Member> {
        match self.ended.iter_mut().find(|(other, _)| *other == node) {
            Some((_, ended)) => *ended = incarnation.max(*ended),
            None => self.ended.push((node, incarnation)),
        }
        let at = self.entries.iter().position(|entry| {
            entry.member.node == node && entry.member.incarnation <= incarnation
        })?;
        Some(self.entries.remove(at).member)
    }
}

impl<St: Store> Machine<St> {
    /// The membership service says something. Whoever keeps the links ends those of a life that is over first, so
    /// that what never left goes back into the buffers before the regions hear of the end.
    pub fn handle_member(&mut self, now: Instant, change: MemberChange, sink: &mut impl Sink) {
        let now = self.enter(now, sink);
        self.learn(change, sink);
        // What goes back to one that is no member yet may have filled its link.
        if let MemberChange::Member(Member { node, .. }) = change
            && sink.is_congested(node)
        {
            for kind in &mut self.kinds {
                kind.region.handle_congestion(now, node, true);
            }
        }
    }

    fn learn(&mut self, change: MemberChange, sink: &mut impl Sink) {
        match change {
            MemberChange::Member(member) if member.node == self.me.node => {
                if member.incarnation > self.me.incarnation {
                    self.be_removed(sink);
                } else if member.incarnation == self.me.incarnation {
                    self.set_state(member.node, member.state);
                }
            }
            MemberChange::Member(member) => self.set_member(member),
            MemberChange::Removed {
                node, incarnation, ..
            } if node == self.me.node => {
                if incarnation >= self.me.incarnation {
                    self.be_removed(sink);
                }
            }
            MemberChange::Removed {
                node,
                incarnation,
                cause,
            } => self.remove_member(node, incarnation, cause),
        }
    }

    /// The life of a node that this process knows as a member.
    #[must_use]
    pub fn life_of(&self, node: NodeId) -> Option<Incarnation> {
        Some(self.members.get(node)?.member.incarnation)
    }

    /// Whether a life of a node is over, as far as this process knows.
    #[must_use]
    pub fn has_ended(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.members.has_ended(node, incarnation)
            || self.life_of(node).is_some_and(|life| life > incarnation)
    }

    fn set_member(&mut self, member: Member) {
        let node = member.node;
        if self.members.has_ended(node, member.incarnation) {
            return;
        }
        match self.life_of(node) {
            Some(known) if known > member.incarnation => return,
            Some(known) if known < member.incarnation => {
                self.remove_member(node, known, RemovalCause::Replaced);
            }
            _ => {}
        }
        // Whose own life is over meets nobody any more, but what others left behind is not their successors'.
        if !self.life.is_member() {
            return;
        }
        if self.members.has(node) {
            return self.set_state(node, member.state);
        }
        self.members.entries.push(Entry {
            member,
            base: member.state,
            leaving: false,
        });
        self.tell(MemberChange::Member(member));
    }

    fn set_state(&mut self, node: NodeId, base: MemberState) {
        let Some(entry) = self.members.get_mut(node) else {
            return;
        };
        entry.base = base;
        entry.member.state = match base {
            MemberState::Joining | MemberState::Up if entry.leaving => MemberState::Leaving,
            base => base,
        };
        let member = entry.member;
        if node == self.me.node {
            self.me = member;
        }
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

    fn remove_member(&mut self, node: NodeId, incarnation: Incarnation, cause: RemovalCause) {
        if let Some(member) = self.members.remove(node, incarnation) {
            self.tell(MemberChange::Removed {
                node,
                incarnation: member.incarnation,
                cause,
            });
        }
    }

    /// Tells every part, in this order: leadership, then each type's coordinator and region.
    fn tell(&mut self, change: MemberChange) {
        let now = self.now;
        // There is room for more than all hosts.
        let _ = self.leadership.handle_member(now, change);
        self.lead_dirty = true;
        for kind in &mut self.kinds {
            kind.dirty = true;
            let _ = kind.coordinator.handle_member(now, change);
            let _ = kind.region.handle_member(now, change);
        }
    }

    /// This life is over: everything stops.
    fn be_removed(&mut self, sink: &mut impl Sink) {
        if !self.life.is_member() {
            return;
        }
        self.life = Phase::Removing(RemovalCause::Down);
        self.stop_types();
        // Nothing waits for a link any more: a process whose life is over has none.
        self.drop_all_stuck(sink);
        self.tell(MemberChange::Removed {
            node: self.me.node,
            incarnation: self.me.incarnation,
            cause: RemovalCause::Down,
        });
    }
}
