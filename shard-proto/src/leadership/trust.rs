//! What `Trust` does in place of promises and leases: reigns that meet settle it among themselves.

use super::{Leadership, PeerSlot, lead::Reign, peer::Led};
use crate::NodeId;
use crate::membership::MemberState;

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// Whether any other node follows this reign.
    fn is_followed(&self, reign: &Reign) -> bool {
        let since = self.config.support_lease();
        self.peers.members().any(|peer| {
            let beat = peer.followed(reign.term);
            peer.node != self.me && beat.is_some_and(|beat| self.now.since(beat.at) <= since)
        })
    }

    /// Another node leads too, or says so: which of both stays. `before` is what was heard of it before.
    pub(super) fn duel(&mut self, from: NodeId, before: Option<Led>) {
        let Some(reign) = self.reign else {
            return;
        };
        let followed = self.is_followed(&reign);
        let (now, patience) = (self.now, self.config.patience());
        let mine = (self.incarnation, self.me);
        let (hold_out, two_beats) = (self.config.support_lease(), self.two_beats());
        let Some(rival) = self.peers.member_mut(from) else {
            return;
        };
        let pause = before.map(|led| now.since(led.at));
        if rival.rival_since.is_none() || pause.is_none_or(|pause| pause > hold_out) {
            rival.rival_since = Some(now);
        }
        let lasts = now.since(rival.rival_since.unwrap_or(now));
        let just_met = rival.up_since >= reign.since && now.since(rival.up_since) <= patience;
        let yields = match (mine < rival.age(), followed) {
            (true, true) => false,
            (true, false) => !just_met && lasts >= two_beats,
            (false, false) => true,
            (false, true) => lasts >= hold_out,
        };
        if yields {
            self.stats.yielded = self.stats.yielded.saturating_add(1);
            self.end_reign();
            self.listen_until = now.after(patience);
        }
    }

    /// Whether nobody can come with a claim any more.
    pub(super) fn all_registered(&self, reign: &Reign) -> bool {
        self.peers
            .members()
            .all(|peer| peer.state == Some(MemberState::Joining) || peer.is_registered(reign.term))
    }

    /// Whether anybody else could have taken the lead meanwhile.
    pub(super) fn has_rivals(&self) -> bool {
        self.peers
            .members()
            .any(|peer| peer.node != self.me && peer.state == Some(MemberState::Up))
    }

    /// A reign that this node cannot follow lives: it does not lead beside it.
    pub(super) fn hear_foreign(&mut self) {
        self.foreign_until = self.now.after(self.config.support_lease());
    }
}
