//! Members, and the sessions of their regions.

use core::cmp::Ordering;

use super::{
    ledger::{Freed, Ledger},
    slot::{CoordNodeSlot, NOBODY, flag},
};
use crate::{
    Incarnation, NodeId,
    membership::{Member, MemberChange, MemberState, NodesFull},
    table::list::NIL,
    wire::control::RegisterRefusal,
};

impl Ledger<'_> {
    /// The slot of a node. O(log nodes).
    pub(super) fn find(&self, node: NodeId) -> Option<u16> {
        find(self.nodes, self.book.order_len, node)
    }

    /// The slot of a member. O(log nodes).
    pub(super) fn member(&self, node: NodeId) -> Option<u16> {
        self.find(node)
            .filter(|&index| self.node(index).is_some_and(|slot| slot.member))
    }

    fn rank(&self, node: NodeId) -> Result<u16, u16> {
        rank(self.nodes, self.book.order_len, node)
    }

    pub(super) fn handle_member(&mut self, change: MemberChange) -> Result<(), NodesFull> {
        match change {
            MemberChange::Member(member) => self.admit(member),
            MemberChange::Removed {
                node, incarnation, ..
            } => {
                if let Some(index) = self.member(node)
                    && self
                        .node(index)
                        .is_some_and(|slot| slot.incarnation <= incarnation)
                {
                    self.remove(index);
                }
                Ok(())
            }
        }
    }

    fn admit(&mut self, member: Member) -> Result<(), NodesFull> {
        if let Some(index) = self.find(member.node)
            && let Some(slot) = self.node(index)
        {
            if member.incarnation < slot.incarnation
                || (slot.gone && member.incarnation == slot.incarnation)
            {
                return Ok(());
            }
            if slot.member && member.incarnation > slot.incarnation {
                // Gives the slot away, if no shard refers to it.
                self.remove(index);
            }
        }
        let index = match self.find(member.node) {
            Some(index) => index,
            None => self.insert(member).ok_or(NodesFull)?,
        };
        let role = self.config.role;
        let Some(slot) = self.node_mut(index) else {
            return Err(NodesFull);
        };
        let (hosted, was_unsettled, was) = (slot.may_host(role), slot.is_unsettled(), slot.state);
        slot.member = true;
        slot.gone = false;
        slot.incarnation = member.incarnation;
        slot.state = member.state;
        slot.roles = member.roles;
        let hosts = slot.may_host(role);
        let unsettled = slot.is_unsettled();
        self.book.unsettled = self
            .book
            .unsettled
            .saturating_add(u32::from(unsettled))
            .saturating_sub(u32::from(was_unsettled));
        if hosted != hosts {
            self.candidates_changed();
        } else if hosts || was != member.state {
            // Roles and states of others matter to the strategy too.
            self.book.candidates_stale = true;
            self.book.rebalance_at = Some(self.book.now);
        }
        if member.state == MemberState::Leaving {
            self.book.leaving.push_back(self.nodes, u32::from(index));
        }
        Ok(())
    }

    /// Frees all shards of a former member whose lease is over at once, because its slot is needed.
    fn vacate_one(&mut self) {
        let gone = self.nodes.iter().position(CoordNodeSlot::is_over);
        let Some(index) = gone.and_then(|index| u16::try_from(index).ok()) else {
            return;
        };
        while let Some(shard) = self.node(index).and_then(|slot| slot.stale.front()) {
            self.free(shard, Freed::Lapsed);
            self.want(shard);
        }
        self.try_wanted();
        self.vacated(index);
    }

    fn insert(&mut self, member: Member) -> Option<u16> {
        if self.nodes.iter().all(|slot| slot.used) {
            self.vacate_one();
        }
        let free = self.nodes.iter().position(|slot| !slot.used)?;
        let index = u16::try_from(free).ok()?;
        let rank = self.rank(member.node).err()?;
        let mut carried = index;
        for place in rank..=self.book.order_len {
            let slot = self.node_mut(place)?;
            carried = core::mem::replace(&mut slot.order, carried);
        }
        self.book.order_len = self.book.order_len.saturating_add(1);
        self.book.candidates_stale = true;
        let hears = self.config.trust;
        let slot = self.node_mut(index)?;
        *slot = CoordNodeSlot {
            order: slot.order,
            used: true,
            node: member.node,
            incarnation: member.incarnation,
            hears,
            ..CoordNodeSlot::EMPTY
        };
        Some(index)
    }

    /// An incarnation is gone: so is its session. Its lease may last, unless membership is all there is to believe.
    fn remove(&mut self, index: u16) {
        let hears = self.config.trust;
        let Some(slot) = self.node_mut(index) else {
            return;
        };
        let unsettled = slot.is_unsettled();
        slot.hears = hears;
        slot.member = false;
        slot.gone = true;
        slot.ended = slot.ended.max(slot.session);
        slot.say_refused = None;
        slot.say_end_sessions = false;
        self.book.unsettled = self.book.unsettled.saturating_sub(u32::from(unsettled));
        // Somebody else may have to settle down before anything is rebalanced; now there is one less.
        self.book.rebalance_at = Some(self.book.now);
        if self.config.trust {
            self.end_session(index, Freed::Lapsed);
        } else {
            self.unregister(index);
        }
        self.vacated(index);
    }

    /// Gives the slot of a former member away once nothing refers to it.
    pub(super) fn vacated(&mut self, index: u16) {
        let at = u32::from(index);
        let Some(slot) = self.node(index) else {
            return;
        };
        if !slot.stale.is_empty() {
            return;
        }
        let (is_over, node) = (slot.is_over(), slot.node);
        self.book.vacating.remove(self.nodes, at);
        if !is_over {
            return;
        }
        self.book.dirty_nodes.remove(self.nodes, at);
        self.book.mapping.remove(self.nodes, at);
        self.book.leaving.remove(self.nodes, at);
        if let Ok(rank) = self.rank(node) {
            let last = self.book.order_len.saturating_sub(1);
            for place in rank..last {
                let next = self.node(place.saturating_add(1)).map(|slot| slot.order);
                if let (Some(next), Some(slot)) = (next, self.node_mut(place)) {
                    slot.order = next;
                }
            }
            if let Some(slot) = self.node_mut(last) {
                slot.order = NOBODY;
            }
            self.book.order_len = last;
        }
        self.book.candidates_stale = true;
        if let Some(slot) = self.node_mut(index) {
            *slot = CoordNodeSlot {
                order: slot.order,
                ..CoordNodeSlot::EMPTY
            };
        }
    }

    /// The session and its registration end; its shards become stale and are freed bit by bit. O(1), unless shards of
    /// a session before it are still stale.
    pub(super) fn end_session(&mut self, index: u16, how: Freed) {
        self.unregister(index);
        let at = u32::from(index);
        let Some(node) = self.nodes.get_mut(usize::from(index)) else {
            return;
        };
        let book = &mut *self.book;
        book.allocated = book.allocated.saturating_sub(node.owned.len());
        book.in_flight = book.in_flight.saturating_sub(node.moving.len());
        if node.stale.is_empty() {
            node.stale.append(self.shards, &mut node.owned);
            node.stale.append(self.shards, &mut node.moving);
            node.parity = !node.parity;
        } else {
            for list in [&mut node.owned, &mut node.moving] {
                while let Some(shard) = list.pop_front(self.shards) {
                    if let Some(slot) = self.shards.get_mut(shard as usize) {
                        slot.toggle(flag::PARITY);
                    }
                    node.stale.push_back(self.shards, shard);
                }
            }
        }
        node.released = how == Freed::Released;
        node.hold = false;
        node.next_part = 0;
        node.parts = 0;
        let vacate = !node.stale.is_empty();
        book.leaving.remove(self.nodes, at);
        if vacate {
            book.vacating.push_back(self.nodes, at);
            book.version = book.version.saturating_add(1);
        }
    }

    /// The node is not given shards any more, and registers again before it is told anything.
    pub(super) fn unregister(&mut self, index: u16) {
        let at = u32::from(index);
        self.book.mapping.remove(self.nodes, at);
        let Some(node) = self.node_mut(index) else {
            return;
        };
        node.say_ack = false;
        node.say_size = false;
        node.say_registered = None;
        node.map_next = NIL;
        let was = core::mem::replace(&mut node.registered, false);
        let (hosted, storage_id) = (was && !node.proxy, node.storage_id);
        if was && storage_id != 0 && storage_id == self.book.storage_id {
            self.book.storage_users = self.book.storage_users.saturating_sub(1);
        }
        self.count_host(index, None);
        if hosted {
            self.candidates_changed();
        }
    }

    /// Protocol 5.6: a node that does not hear is not given shards.
    pub(super) fn handle_hearing(&mut self, node: NodeId, hears: bool) {
        if let Some(slot) = self.member(node).and_then(|index| self.node_mut(index))
            && slot.hears != hears
        {
            slot.hears = hears;
            if slot.registered {
                self.candidates_changed();
            }
        }
    }

    /// Protocol 2.11: leadership is sure that the node's lease is over, whether it is a member or was one.
    pub(super) fn handle_lapsed(&mut self, node: NodeId) {
        let Some(index) = self.find(node) else {
            return;
        };
        if let Some(slot) = self.node_mut(index) {
            slot.ended = slot.ended.max(slot.session);
            slot.given_up = false;
            // A node that had no lease yet did not notice that it lapsed. Its other types may have registered too late:
            // if each learned that only with its next repetition, they might never be registered all at once.
            if slot.registered
                && let Some(session) = slot.session
            {
                slot.say_refused = Some((session, RegisterRefusal::SessionEnded));
                self.say_node(index);
            }
        }
        self.end_session(index, Freed::Lapsed);
        self.vacated(index);
    }

    pub(super) fn handle_former_lapsed(&mut self, node: NodeId) {
        let slot = self.find(node).and_then(|index| self.node(index));
        let is_former = |slot: &CoordNodeSlot| {
            let session = slot.session;
            session.is_none_or(|session| session.incarnation < slot.incarnation)
        };
        if slot.is_some_and(is_former) {
            self.handle_lapsed(node);
        }
    }

    /// The life of a member, if the node is one.
    pub(super) fn incarnation(&self, index: u16) -> Option<Incarnation> {
        self.node(index).map(|slot| slot.incarnation)
    }
}

/// The slot of a node. O(log nodes).
pub(super) fn find(nodes: &[CoordNodeSlot], order_len: u16, node: NodeId) -> Option<u16> {
    let rank = rank(nodes, order_len, node).ok()?;
    nodes.get(usize::from(rank)).map(|slot| slot.order)
}

/// Place of a node in the order, or where it would be.
fn rank(nodes: &[CoordNodeSlot], order_len: u16, node: NodeId) -> Result<u16, u16> {
    let (mut low, mut high) = (0_u16, order_len);
    while low < high {
        let middle = low.midpoint(high);
        let found = nodes
            .get(usize::from(middle))
            .and_then(|slot| nodes.get(usize::from(slot.order)))
            .map_or(Ordering::Greater, |slot| slot.node.cmp(&node));
        match found {
            Ordering::Less => low = middle.saturating_add(1),
            Ordering::Equal => return Ok(middle),
            Ordering::Greater => high = middle,
        }
    }
    Err(low)
}
