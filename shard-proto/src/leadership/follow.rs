//! The node's side: whose beats it follows.

use super::{ControlError, Leadership, Ownership, PeerSlot, peer::Led};
use crate::wire::control::LeaderBeat;
use crate::{Instant, Leader, NodeId, Term, micros};

/// Terms are sixteenths of a second; a clock may run two percent too fast, and terms must not run away from real time.
pub(super) const MICROS_PER_TERM: u64 = 63_776;
/// How far a term may lie above the floor: an hour.
const TERMS_AHEAD: u64 = 3_600 * 16;

/// The reign this node follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
    pub(super) leader: Leader,
    /// Of the newest beat.
    pub(super) seq: u64,
    pub(super) heard: Instant,
    /// When a beat of the leader last said that it acts; when it was first followed, before that.
    pub(super) acted: Instant,
}

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// What the adapter would say now, as far as is known.
    pub(super) fn floor(&self) -> Option<Term> {
        let (floor, since) = self.floor?;
        let passed = micros(self.now.since(since)) / MICROS_PER_TERM;
        Some(Term(floor.0.saturating_add(passed)).min(Term::MAX))
    }

    /// The highest term of others that is believed now.
    fn term_limit(&self) -> Term {
        self.floor().map_or(Term::MAX, |floor| {
            Term(floor.0.saturating_add(TERMS_AHEAD)).min(Term::MAX)
        })
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
            if !self.is_leased() && self.highest == Term::NONE {
                self.hear_foreign();
            }
            return Err(error);
        }
        let now = self.now;
        let strange = self.is_voting() && !self.config.voters().contains(from);
        if strange || self.is_quiet_start() {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return Ok(());
        }
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
        self.known = self.known.max(term);
        if self.is_voting() && self.is_deaf(from, beat.valid > 0) {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return Ok(());
        }
        if let Some(peer) = self.peers.member_mut(from) {
            peer.quiet = false;
        }
        if !self.is_leased() {
            if term < self.highest {
                self.lower_beat = now;
            }
            if from != self.me {
                self.duel(from, before);
            }
        }
        self.follow(Leader { node: from, term }, beat);
        Ok(())
    }

    /// The highest term that a former life of this voter may have supported, before this one follows anybody: it is
    /// forgotten, but below what the clock, or a persisted number, says at the end of the quiet start.
    pub(super) fn forgotten(&self) -> Term {
        match self.floor {
            Some((floor, since)) if self.is_voting() && self.highest == Term::NONE => {
                let passed = micros(self.quiet_until.since(since)) / MICROS_PER_TERM;
                Term(floor.0.saturating_add(passed).saturating_sub(1)).min(Term::MAX)
            }
            _ => self.forgotten,
        }
    }

    /// Whether a leader has been heard for long that hears nobody itself: its beats would keep its followers from
    /// finding another for ever (protocol 2.2).
    fn is_deaf(&mut self, from: NodeId, acts: bool) -> bool {
        let (now, patience) = (self.now, self.config.patience());
        let pause = self.config.support_lease().saturating_mul(4);
        let follows = self.following.filter(|f| f.leader.node == from);
        let waits = follows.is_some_and(|f| now.since(f.acted) >= patience);
        let me = self.me;
        let Some(peer) = self.peers.member_mut(from) else {
            return false;
        };
        if acts || from == me {
            peer.ignored_until = Instant::ZERO;
            return false;
        }
        if now >= peer.ignored_until && waits {
            peer.ignored_until = now.after(pause);
            self.stats.deaf = self.stats.deaf.saturating_add(1);
        }
        now < peer.ignored_until
    }

    /// Adopts a reign, hears it, ignores it, or refuses it.
    fn follow(&mut self, leader: Leader, beat: &LeaderBeat) {
        let higher = leader.term > self.highest;
        // A reign that acts has a quorum that remembers: it need not end because a voter started again.
        let too_low = beat.valid == 0 && leader.term <= self.forgotten();
        // A leader's own node follows it last, when enough others do.
        let early = self.is_voting() && leader.node == self.me && !self.is_backed(leader.term);
        let external = self.config.ownership() == Ownership::External;
        match self.following {
            _ if early => self.stats.ignored = self.stats.ignored.saturating_add(1),
            Some(following) if following.leader == leader => self.hear(beat),
            Some(following)
                if higher && !too_low && (following.leader.node == leader.node || external) =>
            {
                self.adopt(leader, beat);
            }
            // A node follows nobody else as long as it hears its leader.
            Some(_) => self.stats.ignored = self.stats.ignored.saturating_add(1),
            None if self.is_voting() && self.now < self.promised_until => {
                self.stats.ignored = self.stats.ignored.saturating_add(1);
            }
            None if self.outranks(leader, beat) => {
                self.stats.ignored = self.stats.ignored.saturating_add(1);
            }
            // A leader's own node follows it; `duel` decides between reigns.
            None if !self.is_leased() && self.reign.is_some() && leader.node != self.me => {}
            None if !too_low && (higher || self.renews(leader)) => self.adopt(leader, beat),
            None => {
                if !self.is_leased() {
                    self.hear_foreign();
                }
                self.refuse(leader);
            }
        }
    }

    /// Of two candidates that stand at once, the one with the higher term goes on, and of equal terms the older one:
    /// else each would follow the other, and both would wait until their promises are over. A reign that acts is
    /// followed whatever its term.
    fn outranks(&self, rival: Leader, beat: &LeaderBeat) -> bool {
        let (true, Some(reign)) = (self.is_voting(), self.reign) else {
            return false;
        };
        let older = |peer: &PeerSlot| peer.age() < (self.incarnation, self.me);
        let rival_is_older = self.peers.member(rival.node).is_some_and(older);
        let higher = (rival.term, rival_is_older) > (reign.term, false);
        rival.node != self.me && beat.valid == 0 && !higher
    }

    /// A beat of the leader that is followed.
    fn hear(&mut self, beat: &LeaderBeat) {
        let (now, pause) = (self.now, self.prompt_pause());
        if let Some(following) = &mut self.following {
            following.seq = beat.seq;
            following.heard = now;
            if beat.valid > 0 {
                following.acted = now;
            }
        }
        if !self.is_leased() {
            return;
        }
        self.take_grant(beat);
        // The sooner the leader hears the answer, the longer its support lasts.
        let own = self.leader().is_some_and(|leader| leader.node == self.me);
        if own || now.since(self.node_beat_sent) >= pause {
            self.node_beat_at = now;
        }
    }

    /// Whether this is the reign that was followed last, heard again after a silence.
    fn renews(&self, leader: Leader) -> bool {
        leader.term == self.highest && self.former == Some(leader.node)
    }

    fn adopt(&mut self, leader: Leader, beat: &LeaderBeat) {
        let before = self.following;
        if let Some(following) = before
            && leader.term > following.leader.term
        {
            self.lower_beat = self.lower_beat.max(following.heard);
        }
        if leader.term > self.highest {
            self.stats.terms_adopted = self.stats.terms_adopted.saturating_add(1);
            self.term_seq = self.next_node_seq();
        }
        if self.is_leased() && leader.node != self.me {
            // Its candidacy ends by that.
            self.end_reign();
        }
        self.forgotten = self.forgotten();
        self.highest = leader.term;
        self.known = self.known.max(leader.term);
        self.former = Some(leader.node);
        let acted = before.filter(|before| before.leader.node == leader.node);
        self.following = Some(Following {
            leader,
            seq: beat.seq,
            heard: self.now,
            acted: acted.map_or(self.now, |before| before.acted),
        });
        self.listen_until = Instant::ZERO;
        self.foreign_until = Instant::ZERO;
        self.hear(beat);
        self.node_beat_at = self.now;
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

    /// When the leader counts as silent. Under leases, the promise to it is over then.
    pub(super) fn silent_at(&self, following: &Following) -> Instant {
        let at = following.heard.after(self.config.support_lease());
        if self.is_leased() {
            at
        } else {
            at.max(self.resume_until)
        }
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
}
