//! Pairs and connections: how they begin and end.

use super::connection::Phase;
use super::peer::Peer;
use super::{CloseReason, LinkEvent, LinkFault, Links, PeerSlot, Unacked};
use crate::membership::RemovalCause;
use crate::node::LinkId;
use crate::wire::VersionMismatch;
use crate::wire::control::Refusal;
use crate::{Incarnation, Instant, NodeId};

impl Links {
    /// The slot of a node whose pair is with that life; begins the pair, and ends an older one. `None`: no room.
    pub(super) fn begin_pair(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
    ) -> Option<PeerSlot> {
        if let Some(slot) = self.peers.slot(node) {
            if self.peers.get(slot)?.incarnation != incarnation {
                self.end_pair(
                    slot,
                    RemovalCause::Replaced,
                    Some(incarnation),
                    CloseReason::Ended,
                );
            }
            return Some(slot);
        }
        let peer = Peer::new(node, incarnation, &self.config);
        if let Some(slot) = self.peers.insert(peer) {
            return Some(slot);
        }
        // A node that is neither a member nor linked makes room, and does not come back in this life.
        let stranger = self
            .peers
            .iter()
            .find(|(_, peer)| !peer.member && peer.link.is_none())
            .map(|(slot, _)| slot)?;
        self.end_pair(stranger, RemovalCause::Down, None, CloseReason::Ended);
        self.peers
            .insert(Peer::new(node, incarnation, &self.config))
    }

    /// The pair of a slot is over. Without a successor the slot is given up.
    pub(super) fn end_pair(
        &mut self,
        slot: PeerSlot,
        cause: RemovalCause,
        successor: Option<Incarnation>,
        reason: CloseReason,
    ) {
        let Some(peer) = self.peers.get_mut(slot) else {
            return;
        };
        // Or the slot of a stranger would be given up with its connection, before its end is told.
        peer.member = true;
        let (node, incarnation) = (peer.node, peer.incarnation);
        self.peers.end(node, incarnation);
        self.close_ended(node, incarnation, reason);
        let ended = match successor {
            Some(next) => {
                let peer = Peer::new(node, next, &self.config);
                self.peers
                    .get_mut(slot)
                    .map(|ended| core::mem::replace(ended, peer))
            }
            None => self.peers.remove(slot),
        };
        let Some(mut ended) = ended else {
            return;
        };
        self.events.push_back(LinkEvent::PairEnded {
            peer: slot,
            node,
            incarnation,
            cause,
            unacked: Unacked::new(&mut ended.lanes),
        });
        if successor.is_none() {
            self.dialer.remove_member(node);
            self.events
                .push_back(LinkEvent::Forgotten { peer: slot, node });
        }
    }

    /// Closes the connections with lives of a node that are over.
    pub(super) fn close_ended(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        reason: CloseReason,
    ) {
        for index in 0..self.connections.len() {
            if let Some(link) = self.connections.at(index)
                && let Some(connection) = self.connections.get(link)
                && let Some((who, life)) = connection.who
                && who == node
                && life <= incarnation
            {
                self.close(link, reason);
            }
        }
    }

    /// Makes a connection the one of its pair.
    pub(super) fn attach(
        &mut self,
        link: LinkId,
        slot: PeerSlot,
        expected: &[u64],
    ) -> Result<(), LinkFault> {
        let now = self.now;
        let (Some(connection), Some(peer)) =
            (self.connections.get_mut(link), self.peers.get_mut(slot))
        else {
            return Err(LinkFault::Unknown);
        };
        peer.agree(connection.lanes, connection.limits)?;
        for (index, lane) in peer.lanes.iter_mut().enumerate() {
            let number = |list: &[u64]| list.get(index).copied().unwrap_or(0);
            lane.send.resume(number(expected))?;
            lane.recv.told = number(&connection.offered);
            lane.recv.owed = 0;
        }
        peer.ack_due = peer.owes();
        peer.ack_at = Instant::FAR_FUTURE;
        peer.limits = connection.limits;
        peer.up_at = now;
        connection.phase = Phase::Up;
        connection.peer = Some(slot);
        connection.last_heard = now;
        connection.last_sent = now;
        let identity = connection.identity.take();
        let node = peer.node;
        let before = peer.link.replace(link);
        peer.identity.clone_from(&identity);
        self.stats.ups = self.stats.ups.saturating_add(1);
        match (before, identity) {
            (Some(before), _) => {
                self.dialer.replaced(before);
                self.close(before, CloseReason::Superseded);
            }
            (None, Some(identity)) => self.events.push_back(LinkEvent::Up {
                peer: slot,
                identity,
            }),
            (None, None) => {}
        }
        self.dialer.up(node);
        self.arm(now.after(self.config.keep_alive));
        self.mark_dirty(link);
        self.update_congestion(slot);
        Ok(())
    }

    /// Takes a connection off its pair, if it is attached to one.
    pub(super) fn detach(&mut self, link: LinkId, reason: CloseReason) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(link) else {
            return;
        };
        let in_handshake = connection.in_handshake();
        let Some(slot) = connection.peer.take() else {
            if in_handshake {
                self.dialer.handshake_ended(now, link);
            }
            return;
        };
        let Some(peer) = self.peers.get_mut(slot) else {
            return;
        };
        if peer.link != Some(link) {
            return;
        }
        peer.link = None;
        peer.ack_at = Instant::FAR_FUTURE;
        peer.ack_due = false;
        let (node, lasted) = (peer.node, now.since(peer.up_at));
        let forget = !peer.member && peer.is_unused();
        self.dialer.down(now, link, node, lasted);
        self.events.push_back(LinkEvent::Down {
            peer: slot,
            node,
            reason,
        });
        if forget {
            self.peers.remove(slot);
            self.events
                .push_back(LinkEvent::Forgotten { peer: slot, node });
        }
    }

    /// Closes a connection and says so.
    pub(super) fn close(&mut self, link: LinkId, reason: CloseReason) {
        let Some(connection) = self.connections.get(link) else {
            return;
        };
        if connection.phase == Phase::Closing {
            return;
        }
        self.shut(link, reason);
        self.events.push_back(LinkEvent::Close { link, reason });
    }

    /// A connection is of no use any more; the caller of `read` is told so.
    pub(super) fn fail(&mut self, link: LinkId, fault: LinkFault) {
        self.stats.faults = self.stats.faults.saturating_add(1);
        if matches!(fault, LinkFault::Fragment | LinkFault::Message { .. }) {
            self.stats.fragments_refused = self.stats.fragments_refused.saturating_add(1);
        }
        let reason = match fault {
            LinkFault::Refused(refusal) => CloseReason::Refused(refusal),
            LinkFault::Version(VersionMismatch {
                ours: (min, max), ..
            }) => CloseReason::Refused(Refusal::Version { min, max }),
            LinkFault::RefusedByPeer(refusal) => CloseReason::RefusedByPeer(refusal),
            fault => CloseReason::Error(fault),
        };
        let node = self.connections.get(link).and_then(|it| it.node());
        self.blame = node.or(self.blame);
        self.shut(link, reason);
        self.settle();
    }

    pub(super) fn shut(&mut self, link: LinkId, reason: CloseReason) {
        self.detach(link, reason);
        let deadline = self.now.after(self.config.handshake);
        if let Some(connection) = self.connections.get_mut(link) {
            connection.phase = Phase::Closing;
            connection.deadline = deadline;
        }
        self.arm(deadline);
        self.mark_dirty(link);
    }
}
