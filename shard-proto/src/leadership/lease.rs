//! The node's side: until when it may serve (protocol 2.9, 2.12).

use core::time::Duration;

use super::{Leadership, PeerSlot, sent_at};
use crate::wire::control::LeaderBeat;

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// The leader that is followed echoed a beat of this node.
    pub(super) fn take_grant(&mut self, beat: &LeaderBeat) {
        // Only beats of this term, and only such as were sent.
        if beat.echo < self.term_seq || beat.echo > self.node_seq || self.removed {
            return;
        }
        let lasts = Duration::from_micros(beat.valid).min(self.config.lease());
        let until = sent_at(beat.echo).after(lasts);
        if until > self.now {
            self.lease_until = self.lease_until.max(Some(until));
        }
    }

    pub(super) fn expire_lease(&mut self) {
        if self.lease_until.is_some_and(|until| self.now >= until) {
            self.lease_until = None;
            self.lapses = self.lapses.saturating_add(1);
        }
    }
}
