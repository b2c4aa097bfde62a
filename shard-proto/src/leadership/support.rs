//! The leader's side under leases: whose support it has, and since when it acts (protocol 2.5, 2.8, 2.17).

use core::cmp::Reverse;
use core::time::Duration;

use super::follow::MICROS_PER_TERM;
use super::{Leadership, PeerSlot, Voters};
use crate::{Instant, Leader, Term};

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// A time of each voter that has one, sorted by `key`: the quorum-th of them.
    pub(super) fn quorum_th<K: Ord>(
        &self,
        time: impl Fn(&PeerSlot) -> Option<Instant>,
        key: impl Fn(Instant) -> K,
    ) -> Option<Instant> {
        let voters = self.config.voters();
        let mut times = [Instant::ZERO; Voters::CAPACITY];
        let mut len = 0_usize;
        let known = voters.iter().filter_map(|node| self.peers.member(node));
        for (slot, time) in times.iter_mut().zip(known.filter_map(time)) {
            *slot = time;
            len = len.saturating_add(1);
        }
        let times = times.get_mut(..len)?;
        times.sort_unstable_by_key(|time| key(*time));
        times.get(voters.quorum().saturating_sub(1)).copied()
    }

    /// Support lasts from when the newest beats that a quorum echoed were sent. It never shrinks: what was promised is
    /// promised. O(voters).
    pub(super) fn count_support(&mut self) {
        let Some(reign) = self.reign else {
            return;
        };
        let echoed = |peer: &PeerSlot| peer.followed(reign.term)?.echo;
        let Some(sent) = self.quorum_th(echoed, Reverse) else {
            return;
        };
        let lasts = self.support_lasts();
        if let Some(reign) = &mut self.reign {
            reign.support = reign.support.max(Some(sent.after(lasts)));
        }
    }

    fn support_lasts(&self) -> Duration {
        let lease = self.config.support_lease();
        lease.saturating_sub(self.config.drift())
    }

    /// Acts from when a quorum supports the reign and has registered for it.
    pub(super) fn check_support(&mut self) {
        let Some(reign) = self.reign.filter(|reign| !reign.acts) else {
            return;
        };
        let supported = reign.support.is_some_and(|until| self.now < until);
        let registered = |peer: &PeerSlot| peer.lower_beat.filter(|_| peer.counted);
        if supported
            && self
                .quorum_th(registered, core::convert::identity)
                .is_some()
            && let Some(reign) = &mut self.reign
        {
            reign.acts = true;
            reign.heeds_from = self.now.after(self.config.beat());
            // Everybody who is registered gets a lease at once.
            reign.beat_at = self.now;
        } else if self.now >= self.patience_of(reign.began) {
            // Somebody may follow a higher term without saying so.
            self.recover();
        }
    }

    /// Until when this node surely supports nobody but that reign: it promised so, or is too young to support anybody.
    #[cfg(feature = "sim")]
    pub(crate) fn keeps_to(&self, leader: Leader) -> Option<Instant> {
        let quiet = self.is_quiet_start().then_some(self.quiet_until);
        let promise = match &self.following {
            Some(following) if following.leader == leader => Some(self.silent_at(following)),
            None if self.highest == leader.term => Some(self.promised_until),
            _ => None,
        };
        quiet.max(promise)
    }

    /// When a leader without support tries again under a fresh term.
    pub(super) fn patience_of(&self, began: Instant) -> Instant {
        let at = began.after(self.config.support_lease());
        at.max(self.term_ready_at(self.known, began))
    }

    /// When the clock has come to the term after `known`, at most four times `support_lease` after `since`, for clocks
    /// that differ by more. Candidates that raise their terms past each other must not raise them past the clock: after
    /// a restart of a quorum nothing but the clock tells how high they were.
    pub(super) fn term_ready_at(&self, known: Term, since: Instant) -> Instant {
        let Some((floor, said)) = self.floor.filter(|_| self.is_voting()) else {
            return since;
        };
        let ahead = known.next().0.saturating_sub(floor.0);
        let at = said.after(Duration::from_micros(ahead.saturating_mul(MICROS_PER_TERM)));
        let most = self.config.support_lease().saturating_mul(4);
        at.clamp(since, since.after(most))
    }

    /// A reign whose support is over is over.
    pub(super) fn expire_support(&mut self) {
        let over = self
            .reign
            .is_some_and(|reign| reign.acts && reign.support.is_none_or(|until| self.now >= until));
        if over {
            self.stats.support_lost = self.stats.support_lost.saturating_add(1);
            self.recover();
        }
    }

    fn recover(&mut self) {
        let since = self.reign.map_or(self.now, |reign| reign.began);
        if self.may_lead() && self.now >= self.term_ready_at(self.known, since) {
            self.begin();
        } else {
            self.end_reign();
        }
    }

    /// Whether so many other voters follow the reign that the leader's own node may.
    pub(super) fn is_backed(&self, term: Term) -> bool {
        let lease = self.config.support_lease();
        let voters = self.config.voters();
        let others = voters.iter().filter(|node| *node != self.me);
        let backing = others
            .filter_map(|node| self.peers.member(node)?.followed(term)?.echo)
            .filter(|sent| self.now.since(*sent) <= lease)
            .count();
        backing >= voters.quorum().saturating_sub(1)
    }

    /// Sends its own node a beat at once when that may follow.
    pub(super) fn court_myself(&mut self, term: Term) {
        let node = self.me;
        if self.leader() == Some(Leader { node, term }) || !self.is_backed(term) {
            return;
        }
        if let Some(peer) = self.peers.member_mut(node) {
            peer.beat_due = true;
            self.told.mail = true;
        }
    }
}
