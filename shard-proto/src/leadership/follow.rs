//! The node's side: whose beats it follows.

use super::{ControlError, Leadership, PeerSlot, peer::Led};
use crate::wire::control::LeaderBeat;
use crate::{Instant, Leader, NodeId, Term};

/// Terms are sixteenths of a second.
const TERMS_PER_SECOND: u64 = 16;
/// How far a term may lie above the floor.
const TERMS_AHEAD: u64 = 3_600 * TERMS_PER_SECOND;

/// The reign this node follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
    pub(super) leader: Leader,
    /// Of the newest beat.
    pub(super) seq: u64,
    pub(super) heard: Instant,
}

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// The highest term of others that is believed now.
    fn term_limit(&self) -> Term {
        let Some((floor, since)) = self.floor else {
            return Term::MAX;
        };
        let passed = self.now.since(since).as_secs();
        let ahead = passed
            .saturating_mul(TERMS_PER_SECOND)
            .saturating_add(TERMS_AHEAD);
        Term(floor.0.saturating_add(ahead)).min(Term::MAX)
    }

    /// Whether a term of another node is believed; counts it if not.
    pub(super) fn check_term(&mut self, term: Term) -> Result<(), ControlError> {
        if term <= self.term_limit() {
            return Ok(());
        }
        self.stats.terms_too_high = self.stats.terms_too_high.saturating_add(1);
        Err(ControlError::TermTooHigh)
    }

    pub(super) fn handle_leader_beat(
        &mut self,
        from: NodeId,
        term: Term,
        beat: &LeaderBeat,
    ) -> Result<(), ControlError> {
        if let Err(error) = self.check_term(term) {
            // A node that never followed anybody, and whose clock is behind, must not take over what it cannot follow.
            if self.highest == Term::NONE {
                self.hear_foreign();
            }
            return Err(error);
        }
        let now = self.now;
        let Some(peer) = self.peers.member_mut(from) else {
            return Err(ControlError::UnknownPeer);
        };
        if peer
            .led
            .is_some_and(|led| (term, beat.seq) <= (led.term, led.seq))
        {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return Ok(());
        }
        let before = peer.led.replace(Led {
            term,
            seq: beat.seq,
            at: now,
        });
        peer.quiet = false;
        self.known = self.known.max(term);
        if term < self.highest {
            self.lower_beat = now;
        }
        if from != self.me {
            self.duel(from, before);
        }
        self.follow(Leader { node: from, term }, beat.seq);
        Ok(())
    }

    /// Adopts a reign, hears it, ignores it, or refuses it.
    fn follow(&mut self, leader: Leader, seq: u64) {
        let higher = leader.term > self.highest;
        match self.following {
            Some(following) if following.leader == leader => {
                self.following = Some(Following {
                    leader,
                    seq,
                    heard: self.now,
                });
            }
            Some(following) if following.leader.node == leader.node && higher => {
                self.adopt(leader, seq);
            }
            // A node follows nobody else as long as it hears its leader.
            Some(_) => self.stats.ignored = self.stats.ignored.saturating_add(1),
            // A leader's own node follows it; `duel` decides between reigns.
            None if self.reign.is_some() && leader.node != self.me => {}
            None if higher || self.renews(leader) => self.adopt(leader, seq),
            None => {
                self.hear_foreign();
                self.refuse(leader);
            }
        }
    }

    /// Whether this is the reign that was followed last, heard again after a silence.
    fn renews(&self, leader: Leader) -> bool {
        leader.term == self.highest && self.former == Some(leader.node)
    }

    fn adopt(&mut self, leader: Leader, seq: u64) {
        if let Some(following) = self.following
            && leader.term > following.leader.term
        {
            self.lower_beat = self.lower_beat.max(following.heard);
        }
        if leader.term > self.highest {
            self.stats.terms_adopted = self.stats.terms_adopted.saturating_add(1);
        }
        self.highest = leader.term;
        self.known = self.known.max(leader.term);
        self.former = Some(leader.node);
        self.following = Some(Following {
            leader,
            seq,
            heard: self.now,
        });
        self.listen_until = Instant::ZERO;
        self.foreign_until = Instant::ZERO;
        self.node_beat_at = self.now;
    }

    fn hear_foreign(&mut self) {
        self.foreign_until = self.now.after(self.config.support_lease());
    }

    /// Answers a beat whose term is too low, at most once per beat interval and peer.
    fn refuse(&mut self, leader: Leader) {
        let (now, beat) = (self.now, self.config.beat());
        let Some(peer) = self.peers.member_mut(leader.node) else {
            return;
        };
        // A little early is in time: beats jitter.
        if peer
            .refused_at
            .is_some_and(|at| now.since(at).saturating_mul(4) < beat.saturating_mul(3))
        {
            return;
        }
        peer.refused_at = Some(now);
        peer.refuse = Some(leader.term);
        self.told.mail = true;
        self.stats.refused = self.stats.refused.saturating_add(1);
    }

    pub(super) fn handle_resign(&mut self, from: NodeId, term: Term) {
        let Some(peer) = self.peers.member_mut(from) else {
            return;
        };
        if peer.led.is_some_and(|led| led.term > term) {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return;
        }
        // Beats of that reign that come later are late.
        peer.led = Some(Led {
            term,
            seq: u64::MAX,
            at: self.now,
        });
        peer.quiet = true;
        peer.rival_since = None;
        if self.leader() == Some(Leader { node: from, term }) {
            self.stop_following();
        }
    }

    pub(super) fn stop_following(&mut self) {
        if let Some(following) = self.following.take() {
            self.node_beat_due = false;
            self.lower_beat = self.lower_beat.max(following.heard);
        }
    }

    /// When the leader counts as silent.
    pub(super) fn silent_at(&self, following: &Following) -> Instant {
        following
            .heard
            .after(self.config.support_lease())
            .max(self.resume_until)
    }

    pub(super) fn expire_leader(&mut self) {
        let Some(following) = self.following else {
            return;
        };
        if self.now < self.silent_at(&following) {
            return;
        }
        self.stop_following();
        if following.leader.node != self.me
            && let Some(peer) = self.peers.member_mut(following.leader.node)
        {
            peer.quiet = true;
        }
    }

    /// Finds out who should lead where nobody is followed, and begins to lead if that is this node.
    pub(super) fn name(&mut self, may_begin: bool) {
        if self.reign.is_some() || self.following.is_some() {
            self.named = None;
            return;
        }
        if let Some((node, since)) = self.named
            && node != self.me
            && self.now >= self.patience_at(since)
            && let Some(peer) = self.peers.member_mut(node)
        {
            peer.quiet = true;
        }
        let named = self.oldest_eligible();
        if self.named.map(|(node, _)| node) != named {
            self.named = named.map(|node| (node, self.now));
        }
        if may_begin && named == Some(self.me) && self.now >= self.begin_at() {
            self.begin();
        }
    }

    fn oldest_eligible(&self) -> Option<NodeId> {
        let me = self.may_lead();
        self.peers
            .members()
            .filter(|peer| peer.is_eligible() && (me || peer.node != self.me))
            .min_by_key(|peer| peer.age())
            .map(|peer| peer.node)
    }

    fn may_lead(&self) -> bool {
        self.config.may_lead()
            && !self.leaving
            && !self.removed
            && (self.joined || self.config.bootstrap())
            && self.known < Term::MAX
    }

    /// When this node may begin to lead, if it is named.
    pub(super) fn begin_at(&self) -> Instant {
        self.listen_until
            .max(self.resume_until)
            .max(self.foreign_until)
    }

    /// Until when a named node is waited for. While this node still listens, the named one may well do, too.
    pub(super) fn patience_at(&self, since: Instant) -> Instant {
        let listening = match self.listen_until {
            Instant::ZERO => Instant::ZERO,
            until => until.after(self.config.support_lease()),
        };
        since.after(self.config.patience()).max(listening)
    }
}
