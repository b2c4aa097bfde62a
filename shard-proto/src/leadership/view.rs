//! What membership says.

use super::{Leadership, PeerSlot};
use crate::membership::{Member, MemberState, NodesFull};
use crate::{Incarnation, NodeId};

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    pub(super) fn see_myself(&mut self, member: &Member) {
        if member.incarnation > self.incarnation {
            self.remove_myself();
        } else if member.incarnation == self.incarnation
            && let Some(peer) = self.peers.member_mut(self.me)
        {
            peer.state = Some(member.state);
        }
    }

    fn remove_myself(&mut self) {
        self.removed = true;
        self.end_reign();
    }

    pub(super) fn see(&mut self, member: &Member) -> Result<(), NodesFull> {
        let mut fresh = PeerSlot {
            beat_due: self.reign.is_some(),
            ..PeerSlot::new(
                member.node,
                member.incarnation,
                Some(member.state),
                self.now,
            )
        };
        match self.peers.slot_mut(member.node) {
            Some(peer) if peer.incarnation == member.incarnation => {
                if peer.state.is_some() && peer.state != Some(member.state) {
                    peer.state = Some(member.state);
                    if member.state == MemberState::Up {
                        peer.up_since = self.now;
                        peer.quiet = false;
                    }
                }
                return Ok(());
            }
            Some(peer) if peer.incarnation > member.incarnation => return Ok(()),
            Some(peer) => {
                // The lease of the former life may last.
                fresh.former_from = peer.lapse_from.max(peer.former_from);
                fresh.former_lapsed = peer.lapsed || peer.former_lapsed;
                self.lose(member.node);
            }
            None => {}
        }
        self.peers.put(fresh)?;
        self.told.mail |= fresh.beat_due;
        if !self.joined {
            self.joined = true;
            self.listen_until = self.now.after(self.config.patience());
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, node: NodeId, incarnation: Incarnation) {
        if node == self.me {
            if incarnation >= self.incarnation {
                self.remove_myself();
            }
            return;
        }
        let mut gone = PeerSlot::new(node, incarnation, None, self.now);
        if let Some(peer) = self.peers.slot_mut(node) {
            if peer.incarnation > incarnation {
                return;
            }
            // Its lease may last.
            gone.lapse_from = peer.lapse_from;
            gone.lapsed = peer.lapsed;
            gone.former_from = peer.former_from;
            gone.former_lapsed = peer.former_lapsed;
        }
        self.lose(node);
        // No room to remember a node that was never here: nothing to undo.
        let _ = self.peers.put(gone);
    }

    /// An incarnation of the node has ended.
    fn lose(&mut self, node: NodeId) {
        if let Some(following) = self.following
            && following.leader.node == node
        {
            // Membership can be wrong: the promise stands.
            self.promised_until = self.silent_at(&following);
            self.stop_following();
        }
        if self.former == Some(node) {
            self.former = None;
        }
    }
}
