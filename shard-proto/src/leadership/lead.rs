//! The leader's side: reigns begin and end, and what nodes answer to their beats.

use core::time::Duration;

use super::{ControlError, Leadership, Ownership, PeerSlot, peer::Followed, sent_at};
use crate::wire::control::NodeBeat;
use crate::{Instant, NodeId, Term};

/// This node leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reign {
    pub(super) term: Term,
    pub(super) began: Instant,
    /// Since when this node leads without a break, under this term and those before it.
    pub(super) since: Instant,
    /// Beats of this reign have this number or a higher one.
    pub(super) first_seq: u64,
    /// It was supported, and acts since.
    pub(super) acts: bool,
    /// What was refused before it acted does not count: such refusals arrive until then.
    pub(super) heeds_from: Instant,
    /// Until when it is supported.
    pub(super) support: Option<Instant>,
    /// When the barrier is over.
    pub(super) barrier: Option<Instant>,
    /// The barrier is over; it stays over.
    pub(super) open: bool,
    /// When the next beats are due.
    pub(super) beat_at: Instant,
}

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// Begins a reign under a term that nobody had; one that there was is over.
    pub(super) fn begin(&mut self) {
        // As of now: nodes that knew the terms since may have forgotten them in a restart.
        let floor = self.floor().unwrap_or(Term::NONE);
        let term = self.known.next().max(floor);
        // A lease outside gives the next term; and terms can be used up.
        if term <= self.known || self.config.ownership() == Ownership::External {
            self.end_reign();
            return;
        }
        self.begin_under(term);
    }

    pub(super) fn begin_under(&mut self, term: Term) {
        self.known = term;
        self.stats.terms_taken = self.stats.terms_taken.saturating_add(1);
        let acts = !self.is_voting();
        let wait = self.config.lease().saturating_add(self.config.drift());
        self.reign = Some(Reign {
            term,
            began: self.now,
            since: self.reign.map_or(self.now, |reign| reign.since),
            first_seq: self.next_leader_seq(),
            acts,
            heeds_from: Instant::ZERO,
            support: acts.then_some(Instant::FAR_FUTURE),
            barrier: acts.then_some(self.now.after(wait)),
            open: false,
            beat_at: self.now,
        });
        for peer in self.peers.all_mut() {
            peer.forget_reign();
            peer.resign = None;
        }
        self.lapse_scan_at = Instant::FAR_FUTURE;
        self.named = None;
    }

    /// Ends the reign, if there is one, and frees its followers.
    pub(super) fn end_reign(&mut self) {
        let Some(reign) = self.reign.take() else {
            return;
        };
        let me = self.me;
        for peer in self.peers.all_mut() {
            peer.forget_reign();
            if peer.is_member() && peer.node != me {
                peer.resign = Some(reign.term);
                self.told.mail = true;
            }
        }
        self.lapse_scan_at = Instant::FAR_FUTURE;
        // Its own node hears it at once.
        self.handle_resign(me, reign.term);
        if let Some(peer) = self.peers.member_mut(me) {
            peer.quiet = false;
        }
    }

    pub(super) fn handle_node_beat(&mut self, from: NodeId, term: Term, beat: &NodeBeat) {
        let reign = self.reign.filter(|reign| reign.term == term);
        let (now, pause) = (self.now, self.prompt_pause());
        let leased = self.is_leased();
        let Some(peer) = self.peers.member_mut(from) else {
            return;
        };
        let late = peer
            .followed
            .is_some_and(|followed| beat.seq <= followed.seq);
        let forged = leased && beat.echo > peer.sent;
        let Some(reign) = reign.filter(|_| !late && !forged) else {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return;
        };
        let before = peer.followed(term).and_then(|followed| followed.echo);
        let echo = (beat.echo >= reign.first_seq).then(|| sent_at(beat.echo));
        peer.followed = Some(Followed {
            term,
            seq: beat.seq,
            at: now,
            echo: before.max(echo),
            types: beat.types,
        });
        if leased && beat.types == 0 {
            // It hosts nothing, and has nothing to register: what it heard of others it heard before this.
            peer.registered = (term, 0);
            peer.lower_beat.get_or_insert(now);
        }
        peer.counted |= peer.is_registered(term);
        peer.leaving |= beat.leaving;
        // While it gathers its followers, a leader answers at once, but no flood of beats with a flood of its own.
        let gathers = if leased {
            !reign.acts || (!peer.granted && peer.is_registered(term))
        } else {
            !reign.open
        };
        if gathers && now.since(peer.beat_at) >= pause {
            peer.beat_due = true;
        }
        self.told.mail |= peer.beat_due || !peer.told_hears;
        if self.is_voting() {
            self.count_support();
            self.count_barrier();
            self.court_myself(term);
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
        let external = self.config.ownership() == Ownership::External;
        // A quorum follows already. Who has just started does as soon as the reign acts; others refuse it again then.
        let backed = self.reign.is_some_and(|reign| {
            let follows = !reign.acts && reign.support > Some(now);
            self.is_voting() && (follows || now < reign.heeds_from)
        });
        let known = self.known.max(highest);
        let hasty = self
            .reign
            .is_some_and(|reign| self.is_voting() && now < self.term_ready_at(known, reign.began));
        if hasty {
            // It counts when the next term is taken.
            self.known = known;
        }
        let Some(peer) = self.peers.member_mut(from) else {
            return Err(ControlError::UnknownPeer);
        };
        // The lease outside has the last word.
        if backed || hasty || external || peer.heeded_at.is_some_and(|at| now.since(at) < pause) {
            self.stats.ignored = self.stats.ignored.saturating_add(1);
            return Ok(());
        }
        peer.heeded_at = Some(now);
        self.known = self.known.max(highest);
        self.begin();
        Ok(())
    }

    /// Opens the barrier once none of the claims that are missing can matter.
    pub(super) fn check_barrier(&mut self) {
        let Some(reign) = self.reign.filter(|reign| reign.acts && !reign.open) else {
            return;
        };
        let over = reign.barrier.is_some_and(|at| self.now >= at);
        let all = !self.is_leased() && self.all_registered(&reign);
        if (all || over)
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
            // Under leases, beats are answered when they come; this is for those that do not.
            let rest = if self.is_leased() {
                Duration::from_micros(crate::micros(beat) >> 1)
            } else {
                Duration::ZERO
            };
            self.node_beat_at = now.after(beat.saturating_add(rest));
            self.node_beat_due = true;
        }
    }

    /// Says at once what is due to a node later.
    pub(super) fn greet(&mut self, node: NodeId) {
        if self.leader().is_some_and(|leader| leader.node == node) {
            self.node_beat_at = self.now;
        }
        if self.reign.is_some()
            && let Some(peer) = self.peers.member_mut(node)
            && peer.is_member()
        {
            peer.beat_due = true;
            self.told.mail = true;
        }
    }

    /// The least time between two beats to one peer that are not on the beat.
    pub(super) const fn prompt_pause(&self) -> Duration {
        Duration::from_micros(crate::micros(self.config.beat()) / 10)
    }
}
