//! What depends on the time.

use core::time::Duration;

use super::{Leadership, Ownership, PeerSlot};
use crate::{Instant, earliest};

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// No promise, no lease: membership is believed.
    pub(super) fn is_leased(&self) -> bool {
        self.config.ownership() != Ownership::Trust
    }

    /// Leaders need the support of voters.
    pub(super) fn is_voting(&self) -> bool {
        self.config.ownership() == Ownership::Lease
    }

    /// Takes the time, and notices if this node was stopped: then what was sent to it meanwhile comes first, but what
    /// is over by now is over before that.
    pub(super) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let late = self
            .wake
            .map_or(Duration::ZERO, |wake| self.now.since(wake));
        if late > self.two_beats() {
            self.resume_until = self.now.after(self.two_beats());
            if !self.is_leased() && late > self.config.support_lease() && self.has_rivals() {
                self.end_reign();
            }
            // Once per stop.
            self.wake = Some(self.now);
        }
        if self.is_leased() {
            self.expire_lease();
            self.expire_support();
            self.expire_grants();
            self.expire_leader();
        }
    }

    /// Brings everything that depends on the time or on others up to date.
    pub(super) fn settle(&mut self, may_begin: bool) {
        self.expire_leader();
        self.name(may_begin);
        if self.is_voting() {
            self.check_support();
        }
        self.check_barrier();
        self.make_beats();
        self.wake = self.next_wake();
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let mut wake = None;
        if let Some(reign) = &self.reign {
            wake = Some(reign.beat_at.min(self.lapse_scan_at));
            if !reign.acts {
                wake = earliest(wake, Some(self.patience_of(reign.began)));
            } else if self.is_voting() {
                wake = earliest(wake, reign.support);
            }
            if reign.acts && !reign.open {
                wake = earliest(wake, reign.barrier);
            }
        }
        if self.is_leased() {
            wake = earliest(wake, self.lease_until);
        }
        if let Some(following) = &self.following {
            wake = earliest(wake, Some(self.node_beat_at));
            wake = earliest(wake, Some(self.silent_at(following)));
        }
        if self.reign.is_some() || self.following.is_some() {
            return wake;
        }
        let named = match self.named {
            Some((node, _)) if node == self.me => Some(self.begin_at().max(self.now)),
            Some((_, since)) => Some(self.patience_at(since)),
            None => None,
        };
        earliest(wake, named)
    }

    pub(super) fn next_leader_seq(&self) -> u64 {
        next_seq(self.leader_seq, self.now)
    }

    pub(super) fn next_node_seq(&self) -> u64 {
        next_seq(self.node_seq, self.now)
    }

    pub(super) fn two_beats(&self) -> Duration {
        self.config.beat().saturating_mul(2)
    }
}

/// Numbers of beats say when they were sent, so that an echo does, without a table: microseconds, and ten bits for
/// beats of the same microsecond.
const SEQ_BITS: u32 = 10;

fn next_seq(before: u64, now: Instant) -> u64 {
    let time = now.as_micros().min(u64::MAX >> SEQ_BITS) << SEQ_BITS;
    before.saturating_add(1).max(time)
}

/// When the beat with this number was sent.
pub(super) const fn sent_at(seq: u64) -> Instant {
    Instant::from_micros(seq >> SEQ_BITS)
}
