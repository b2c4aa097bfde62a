//! Who coordinates and until when this node may serve, passed on to its parts.

use super::control::put_control;
use super::{Body, Node, NodeCommand};
use crate::leadership::LeadershipCommand;
use crate::{Instant, NodeId, Term};

/// This node leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reign {
    pub(super) term: Term,
    pub(super) acts: bool,
    pub(super) open: bool,
}

impl<B: Body> Node<B> {
    /// Until when entities of this node may handle messages; [`Instant::FAR_FUTURE`] under
    /// [`Ownership::Trust`](crate::leadership::Ownership::Trust). Ends with `now` at the latest: whoever holds on to
    /// what it said compares it with the clock.
    pub const fn lease_until(&self) -> Option<Instant> {
        self.lease
    }

    /// How often this node lost its lease.
    pub const fn lapses(&self) -> u32 {
        self.leadership.lapses()
    }

    /// The lease outside says that this node leads, under the token of the lease, or that it does not; under
    /// [`Ownership::External`](crate::leadership::Ownership::External), otherwise ignored. Say `None` before the lease
    /// outside can end. Idempotent.
    pub fn handle_external(&mut self, now: Instant, token: Option<Term>) {
        let now = self.advance(now);
        self.leadership.handle_external(now, token);
        self.lead_dirty = true;
    }

    /// Takes the time; a clock that runs backwards stands still. What this node may do no longer ends first, before
    /// the input that comes at that time.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        if self.now >= self.guard {
            self.check_leases();
        }
        self.now
    }

    #[cold]
    fn check_leases(&mut self) {
        self.leadership.handle_timeout(self.now);
        self.lead_dirty = true;
        while self.lead_dirty {
            self.poll_leadership();
        }
    }

    /// One thing that leadership wants; or it wants nothing more.
    pub(super) fn poll_leadership(&mut self) {
        if let Some(command) = self.leadership.poll_command() {
            self.follow(command);
            return;
        }
        self.lead_dirty = false;
        let until = |until: Option<Instant>| until.unwrap_or(Instant::FAR_FUTURE);
        self.guard =
            until(self.leadership.lease_until()).min(until(self.leadership.acting_until()));
    }

    /// What the adapter has to know of the lease, before anything else.
    pub(super) fn poll_lease(&mut self) -> Option<NodeCommand<B>> {
        // A loss is told even if there is a new lease by now.
        if core::mem::take(&mut self.lease_lost) {
            self.lease_news = self.lease.is_some();
            return Some(NodeCommand::Lease(None));
        }
        if !self.lease_news || (self.lease.is_some() && self.types.is_lapsing()) {
            return None;
        }
        self.lease_news = false;
        Some(NodeCommand::Lease(self.lease))
    }

    /// Carries out what leadership wants.
    fn follow(&mut self, command: LeadershipCommand) {
        let now = self.now;
        match command {
            LeadershipCommand::Send { to, term, control } if to == self.me.node => {
                // Of this node to itself: only its own reign, nothing to refuse.
                let _ = self.leadership.handle_control(now, to, term, &control);
            }
            LeadershipCommand::Send { to, term, control } => {
                let (peer, none) = (self.links.slot(to), crate::EntityTypeId(0));
                let (links, stats) = (&mut self.links, &mut self.stats);
                put_control(links, stats, now, peer, none, term, &control);
            }
            LeadershipCommand::Adopt(leader) => {
                self.leader = leader;
                self.leader_news = true;
                let last_beat = self.leadership.last_beat();
                for (_, kind) in self.types.touch_all() {
                    kind.region.handle_last_beat(last_beat);
                    kind.region.handle_leader(now, leader);
                }
            }
            LeadershipCommand::Lease(until) => {
                self.lease = until;
                self.lease_news = true;
                self.lease_lost |= until.is_none();
                for (_, kind) in self.types.touch_all() {
                    kind.region.handle_lease(now, until);
                }
            }
            LeadershipCommand::Lapsed { lapses } => {
                self.stats.lapses = lapses.into();
                self.types.begin_lapse();
                for (_, kind) in self.types.touch_all() {
                    kind.region.handle_lapse(now, lapses);
                }
            }
            LeadershipCommand::Begin { term } => self.begin_reign(term),
            LeadershipCommand::Act { .. } => {
                if let Some(reign) = &mut self.reign {
                    reign.acts = true;
                }
                for (_, kind) in self.types.touch_all() {
                    kind.coordinator.act(now);
                }
            }
            LeadershipCommand::Hearing { node, hears } => {
                self.types.hear(node, hears);
                for (_, kind) in self.types.touch_all() {
                    kind.coordinator.handle_hearing(now, node, hears);
                }
            }
            LeadershipCommand::OpenBarrier { .. } => {
                if let Some(reign) = &mut self.reign {
                    reign.open = true;
                }
                for (_, kind) in self.types.touch_all() {
                    kind.coordinator.open_barrier(now);
                }
            }
            LeadershipCommand::End => {
                self.reign = None;
                self.types.end_reign();
                for (_, kind) in self.types.touch_all() {
                    kind.barrier = None;
                    kind.coordinator.end(now);
                }
            }
            LeadershipCommand::NodeLapsed { node, former } => {
                for (_, kind) in self.types.touch_all() {
                    if former {
                        kind.coordinator.handle_former_lapsed(now, node);
                    } else {
                        kind.coordinator.handle_lapsed(now, node);
                    }
                }
            }
        }
    }

    fn begin_reign(&mut self, term: Term) {
        let now = self.now;
        self.reign = Some(Reign {
            term,
            acts: false,
            open: false,
        });
        self.types.end_reign();
        for (_, kind) in self.types.touch_all() {
            kind.barrier = None;
            kind.coordinator.begin(now, term);
        }
    }

    /// Tells leadership which of this node's types its lease waits for.
    pub(super) fn say_types(&mut self) {
        if let Some(digest) = self.types.digest_news() {
            self.leadership.handle_types(self.now, digest);
            self.lead_dirty = true;
        }
    }

    /// Tells leadership which types of a node are registered with this node's coordinators.
    pub(super) fn say_registered(&mut self, node: NodeId) {
        if self.reign.is_none() {
            return;
        }
        let (digest, beat) = self.types.registered(node);
        let age = self.now.since(beat.unwrap_or(self.now));
        let age = crate::micros(age);
        self.leadership
            .handle_registered(self.now, node, digest, age);
        self.lead_dirty = true;
    }
}
