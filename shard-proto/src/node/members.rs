//! Who is in the cluster, as this node knows it, whoever says so.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use crate::membership::{Member, MemberState};
use crate::{Incarnation, Instant, NodeId, earliest};

/// A member.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// As all parts of the node were told.
    pub(super) member: Member,
    /// The state before the member's own word that it leaves.
    pub(super) base: MemberState,
    /// It said that it is leaving.
    pub(super) leaving: bool,
    /// When the member counts as silent, while its link is down.
    pub(super) silent_at: Option<Instant>,
    /// When it is down for good, while its link is.
    pub(super) down_at: Option<Instant>,
    /// A part of the node had no room for it: when to tell it again.
    pub(super) offer_at: Option<Instant>,
    /// Where to dial it.
    pub(super) address: Option<String>,
}

impl Entry {
    pub(super) const fn new(member: Member, address: Option<String>) -> Self {
        Self {
            member,
            base: member.state,
            leaving: false,
            silent_at: None,
            down_at: None,
            offer_at: None,
            address,
        }
    }

    /// The state that counts.
    pub(super) const fn effective(&self) -> MemberState {
        match self.base {
            MemberState::Joining | MemberState::Up if self.leaving => MemberState::Leaving,
            base => base,
        }
    }
}

/// All members, this node included, and the lives that are over.
#[derive(Debug)]
pub(super) struct Members {
    entries: BTreeMap<NodeId, Entry>,
    /// The newest life of a node that is over.
    ended: BTreeMap<NodeId, Incarnation>,
    /// Those for whom there was no room.
    waiting: BTreeMap<NodeId, (Member, Option<String>)>,
    /// Members whose state the application has not heard of.
    changed: BTreeSet<NodeId>,
    limit: usize,
}

impl Members {
    pub(super) fn new(limit: u16) -> Self {
        Self {
            entries: BTreeMap::new(),
            ended: BTreeMap::new(),
            waiting: BTreeMap::new(),
            changed: BTreeSet::new(),
            limit: usize::from(limit.max(1)),
        }
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Entry> {
        self.entries.get(&node)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Entry> {
        self.entries.get_mut(&node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Whether this life of the node is over.
    pub(super) fn has_ended(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.ended
            .get(&node)
            .is_some_and(|ended| incarnation <= *ended)
    }

    /// The newest life of a node that is over, if it is not a member in a newer one.
    pub(super) fn ended_life(&self, node: NodeId) -> Option<Incarnation> {
        if self.entries.contains_key(&node) {
            return None;
        }
        self.ended.get(&node).copied()
    }

    /// Whether a node that is no member would fit.
    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < self.limit
    }

    /// Keeps a node for which there is no room in mind, as many as there are members.
    pub(super) fn wait(&mut self, member: Member, address: Option<&str>) {
        let known = self.waiting.get(&member.node);
        let newer = known.is_none_or(|(known, _)| known.incarnation <= member.incarnation);
        if newer && (known.is_some() || self.waiting.len() < self.limit) {
            let address = address.map(String::from);
            self.waiting.insert(member.node, (member, address));
        }
    }

    /// A node that waits is out of reach.
    pub(super) fn give_up(&mut self, node: NodeId) {
        self.waiting.remove(&node);
    }

    /// A node that waited for the room there is now.
    pub(super) fn poll_waiting(&mut self) -> Option<(Member, Option<String>)> {
        if !self.has_room() {
            return None;
        }
        Some(self.waiting.pop_first()?.1)
    }

    /// Adds a member, or replaces what is known of it.
    pub(super) fn put(&mut self, entry: Entry) {
        self.waiting.remove(&entry.member.node);
        self.changed.insert(entry.member.node);
        self.entries.insert(entry.member.node, entry);
    }

    /// The application is to hear of it.
    pub(super) fn mark(&mut self, node: NodeId) {
        self.changed.insert(node);
    }

    /// Ends a life. `Some` if it was a member.
    pub(super) fn remove(&mut self, node: NodeId, incarnation: Incarnation) -> Option<Entry> {
        if let Some((waiting, _)) = self.waiting.get(&node)
            && waiting.incarnation <= incarnation
        {
            self.waiting.remove(&node);
        }
        let ended = self.ended.entry(node).or_insert(incarnation);
        *ended = incarnation.max(*ended);
        // Lives end rarely; of those remembered the oldest is the least likely to come back.
        if self.ended.len() > self.limit.saturating_mul(4) {
            let oldest = self.ended.iter().min_by_key(|(_, ended)| **ended);
            if let Some(oldest) = oldest.map(|(node, _)| *node) {
                self.ended.remove(&oldest);
            }
        }
        let entry = self.entries.get(&node)?;
        if entry.member.incarnation > incarnation {
            return None;
        }
        self.changed.remove(&node);
        self.entries.remove(&node)
    }

    /// The next member whose state the application has not heard of.
    pub(super) fn poll_changed(&mut self) -> Option<Member> {
        loop {
            let node = self.changed.pop_first()?;
            if let Some(entry) = self.entries.get(&node) {
                return Some(entry.member);
            }
        }
    }

    /// The next member whose link was down for so long that it counts as silent.
    pub(super) fn silent(&mut self, now: Instant) -> Option<NodeId> {
        let mut all = self.entries.values_mut();
        let entry = all.find(|entry| entry.silent_at.is_some_and(|at| at <= now))?;
        entry.silent_at = None;
        Some(entry.member.node)
    }

    /// The next member whose link was down for so long that it is down for good.
    pub(super) fn due(&self, now: Instant) -> Option<Member> {
        let mut due = self.entries.values();
        let due = due.find(|entry| entry.down_at.is_some_and(|at| at <= now));
        due.map(|entry| entry.member)
    }

    /// The next member that a part of the node had no room for, and perhaps has now.
    pub(super) fn offer(&mut self, now: Instant) -> Option<Member> {
        let mut all = self.entries.values_mut();
        let entry = all.find(|entry| entry.offer_at.is_some_and(|at| at <= now))?;
        entry.offer_at = None;
        Some(entry.member)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let all = self.entries.values();
        all.filter_map(|entry| {
            let at = earliest(entry.silent_at, entry.down_at);
            earliest(at, entry.offer_at)
        })
        .min()
    }
}
