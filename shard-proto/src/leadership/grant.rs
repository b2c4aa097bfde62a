//! The leader's side under leases: registrations, what is echoed, and when a node's lease is surely over (protocol
//! 2.10, 2.11, 2.16).

use super::{Leadership, Ownership, PeerSlot, lead::Reign};
use crate::{Instant, NodeId, micros};

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    pub(super) fn take_registration(&mut self, node: NodeId, types: u32, age: u64) {
        // The coordinators speak of the reign that they were told.
        let Some(reign) = self
            .reign
            .filter(|reign| self.told.reign == Some(reign.term))
        else {
            return;
        };
        let (now, leased) = (self.now, self.is_leased());
        let Some(peer) = self.peers.member_mut(node) else {
            return;
        };
        if peer.lapsed {
            // The coordinators are about to hear of that, and end this registration too.
            return;
        }
        peer.registered = (reign.term, types);
        let complete = peer.is_registered(reign.term);
        peer.counted |= complete;
        let at = Instant::from_micros(now.as_micros().saturating_sub(age));
        peer.lower_beat = Some(peer.lower_beat.map_or(at, |before| before.min(at)));
        // A coordinator may count the node as hearing only from when it registered.
        peer.told_hears = false;
        self.told.mail = true;
        if !leased {
            return;
        }
        if types != 0 && (complete || !peer.ended) {
            // A lease of a predecessor, or of a session before, is over by then.
            peer.ended = false;
            peer.lapse_from = Some(now);
        }
        peer.beat_due |= reign.acts && complete && !peer.granted;
        self.expect_lapse(now);
        self.count_barrier();
    }

    /// No echo any more before the node's regions have registered again.
    pub(super) fn end_registration(&mut self, node: NodeId) {
        if let Some(peer) = self.peers.member_mut(node) {
            peer.registered = (crate::Term::NONE, 0);
            peer.ended = true;
        }
    }

    /// Every lease of a predecessor is over `lease + drift` after a quorum heard one of them last.
    pub(super) fn count_barrier(&mut self) {
        if !self.is_voting() {
            return;
        }
        let registered = |peer: &PeerSlot| peer.lower_beat.filter(|_| peer.counted);
        let Some(heard) = self.quorum_th(registered, core::convert::identity) else {
            return;
        };
        let at = heard.after(self.lapse_after());
        if let Some(reign) = &mut self.reign {
            reign.barrier = Some(reign.barrier.map_or(at, |before| before.min(at)));
        }
    }

    fn lapse_after(&self) -> core::time::Duration {
        self.config.lease().saturating_add(self.config.drift())
    }

    /// What a beat echoes, and for how long that is valid. Under `Trust` an echo only says that the node is heard.
    pub(super) fn grant(&mut self, at: usize, reign: &Reign) -> (u64, u64) {
        let (now, leased) = (self.now, self.is_leased());
        let valid = self.valid(reign);
        let hears_from = self.hears_from();
        let Some(peer) = self.peers.all_mut().get_mut(at) else {
            return (0, 0);
        };
        let Some(beat) = peer.followed(reign.term) else {
            return (0, valid);
        };
        if !leased {
            return (beat.seq, valid);
        }
        if !reign.acts || !peer.is_registered(reign.term) || beat.echo < hears_from {
            return (0, valid);
        }
        peer.granted = true;
        let from = peer.lapse_from.map_or(beat.at, |from| from.max(beat.at));
        peer.lapse_from = Some(from.min(now));
        self.expect_lapse(from);
        (beat.seq, valid)
    }

    /// The leader's remaining support, and by how much a node's lease may outlast it.
    fn valid(&self, reign: &Reign) -> u64 {
        let (lease, support) = (self.config.lease(), self.config.support_lease());
        match (self.config.ownership(), reign.support) {
            (Ownership::Lease, Some(until)) if reign.acts => {
                let rest = until.since(self.now);
                micros(rest.saturating_add(lease.saturating_sub(support)))
            }
            (Ownership::Lease, _) => 0,
            _ => micros(lease),
        }
    }

    /// A node that echoed a beat sent then, or later, hears this leader. `None`: it need not have echoed any.
    pub(super) fn hears_from(&self) -> Option<Instant> {
        let lease = micros(self.config.support_lease());
        let from = self.now.as_micros().saturating_sub(lease);
        self.is_leased().then_some(Instant::from_micros(from))
    }

    fn expect_lapse(&mut self, from: Instant) {
        let at = from.after(self.lapse_after());
        self.lapse_scan_at = self.lapse_scan_at.min(at);
    }

    /// Finds the nodes whose leases are over. One look over the nodes, at most once per `lease` in calm.
    pub(super) fn expire_grants(&mut self) {
        if self.now < self.lapse_scan_at {
            return;
        }
        let (now, after) = (self.now, self.lapse_after());
        let mut next = Instant::FAR_FUTURE;
        for peer in self.peers.all_mut() {
            if let Some(from) = peer.former_from {
                let at = from.after(after);
                if now < at {
                    next = next.min(at);
                } else {
                    peer.former_from = None;
                    peer.former_lapsed = true;
                    self.told.mail = true;
                }
            }
            let Some(from) = peer.lapse_from else {
                continue;
            };
            let at = from.after(after);
            if now < at {
                next = next.min(at);
                continue;
            }
            peer.lapse_from = None;
            peer.registered = (crate::Term::NONE, 0);
            peer.granted = false;
            peer.ended = false;
            peer.lapsed = true;
            self.told.mail = true;
        }
        self.lapse_scan_at = next;
    }
}
