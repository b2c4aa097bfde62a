//! The leader's side: reigns, rivals, registrations.

use super::{ControlError, Leadership, PeerSlot, peer::Followed, peer::Led};
use crate::membership::MemberState;
use crate::wire::control::NodeBeat;
use crate::{Instant, NodeId, Term};

/// This node leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reign {
    pub(super) term: Term,
    pub(super) began: Instant,
    /// Since when this node leads without a break, under this term and those before it.
    since: Instant,
    /// The barrier is over; it stays over.
    pub(super) open: bool,
    /// When the next beats are due.
    pub(super) beat_at: Instant,
}

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// Begins a reign under a term that nobody had; one that there was is over.
    pub(super) fn begin(&mut self) {
        let floor = self.floor.map_or(Term::NONE, |(floor, _)| floor);
        let term = self.known.next().max(floor);
        if term <= self.known {
            // Terms are used up: there is no reign after this one.
            self.end_reign();
            return;
        }
        self.known = term;
        self.stats.terms_taken = self.stats.terms_taken.saturating_add(1);
        self.reign = Some(Reign {
            term,
            began: self.now,
            since: self.reign.map_or(self.now, |reign| reign.since),
            open: false,
            beat_at: self.now,
        });
        for peer in self.peers.all_mut() {
            peer.rival_since = None;
            peer.resign = None;
            peer.hears = false;
        }
        self.named = None;
    }

    /// Ends the reign, if there is one, and frees its followers.
    pub(super) fn end_reign(&mut self) {
        let Some(reign) = self.reign.take() else {
            return;
        };
        let me = self.me;
        for peer in self.peers.all_mut() {
            peer.beat_due = false;
            if peer.is_member() && peer.node != me {
                peer.resign = Some(reign.term);
                self.told.mail = true;
            }
        }
        // Its own node hears it at once.
        self.handle_resign(me, reign.term);
        if let Some(peer) = self.peers.member_mut(me) {
            peer.quiet = false;
        }
    }

    /// Whether any other node follows this reign.
    fn is_followed(&self, reign: &Reign) -> bool {
        let since = self.config.support_lease();
        self.peers.members().any(|peer| {
            peer.node != self.me
                && peer.followed.is_some_and(|followed| {
                    followed.term == reign.term && self.now.since(followed.at) <= since
                })
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

    pub(super) fn handle_node_beat(&mut self, from: NodeId, term: Term, beat: &NodeBeat) {
        let reign = self.reign.filter(|reign| reign.term == term);
        let (now, interval) = (self.now, self.config.beat());
        let Some(peer) = self.peers.member_mut(from) else {
            return;
        };
        let late = peer
            .followed
            .is_some_and(|followed| beat.seq <= followed.seq);
        let Some(reign) = reign.filter(|_| !late) else {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return;
        };
        peer.followed = Some(Followed {
            term,
            seq: beat.seq,
            at: now,
            types: beat.types,
        });
        self.told.mail |= !peer.hears;
        peer.leaving |= beat.leaving;
        // While it gathers its followers, a leader answers at once, but no flood of beats with a flood of its own.
        if !reign.open && now.since(peer.beat_at).saturating_mul(10) >= interval {
            peer.beat_due = true;
            self.told.mail = true;
        }
    }

    pub(super) fn handle_refused(
        &mut self,
        from: NodeId,
        refused: Term,
        highest: Term,
    ) -> Result<(), ControlError> {
        if self.reign().is_none_or(|term| term != refused) || highest < refused {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return Ok(());
        }
        self.check_term(highest)?;
        let (now, pause) = (self.now, self.config.support_lease());
        let Some(peer) = self.peers.member_mut(from) else {
            return Err(ControlError::UnknownPeer);
        };
        if peer.heeded_at.is_some_and(|at| now.since(at) < pause) {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return Ok(());
        }
        peer.heeded_at = Some(now);
        self.known = self.known.max(highest);
        self.begin();
        Ok(())
    }

    pub(super) fn barrier_at(&self, reign: &Reign) -> Instant {
        let wait = self.config.lease().saturating_add(self.config.drift());
        reign.began.after(wait)
    }

    /// Opens the barrier once every member that can claim shards has registered, or none of the claims can matter.
    pub(super) fn check_barrier(&mut self) {
        let Some(reign) = self.reign.filter(|reign| !reign.open) else {
            return;
        };
        let all = self
            .peers
            .members()
            .all(|peer| peer.state == Some(MemberState::Joining) || peer.is_registered(reign.term));
        if (all || self.now >= self.barrier_at(&reign))
            && let Some(reign) = &mut self.reign
        {
            reign.open = true;
        }
    }

    /// Marks the beats that are due.
    pub(super) fn make_beats(&mut self) {
        let (now, beat) = (self.now, self.config.beat());
        if let Some(reign) = &mut self.reign
            && now >= reign.beat_at
        {
            reign.beat_at = now.after(beat);
            for peer in self.peers.all_mut() {
                peer.beat_due = peer.is_member();
            }
            self.told.mail = true;
        }
        if self.following.is_some() && now >= self.node_beat_at {
            self.node_beat_at = now.after(beat);
            self.node_beat_due = true;
        }
    }
}
