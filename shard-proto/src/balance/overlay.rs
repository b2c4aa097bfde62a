//! What this client believes of each node.

use core::time::Duration;

use super::{
    Candidate, Candidates, Failure, Latency, NodeRef, Preference, Provider, StubConfig,
    select::{Selection, select},
    storage::{OverlayStorage, OverlayTables},
};
use crate::{Instant, micros};

/// What this client believes of a node besides what policies see: until when it is suspected and ejected.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    suspected: Instant,
    ejected: Instant,
    ejections: u32,
    life: u32,
    /// Whether it was eligible when that was last looked at.
    listed: bool,
}

impl Belief {
    /// Fills tables before use.
    pub const EMPTY: Self = Self {
        suspected: Instant::ZERO,
        ejected: Instant::ZERO,
        ejections: 0,
        life: 0,
        listed: false,
    };

    /// Until when it is suspected: the way to it was broken.
    #[must_use]
    pub const fn suspected_until(&self) -> Instant {
        self.suspected
    }

    /// Until when it is ejected: it failed several times in a row.
    #[must_use]
    pub const fn ejected_until(&self) -> Instant {
        self.ejected
    }

    /// When neither holds any more.
    pub(super) const fn doubted_until(&self) -> Instant {
        self.suspected.max(self.ejected)
    }
}

/// A call in flight, as the overlay counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) node: NodeRef,
    pub(super) sent: Instant,
    /// Which stay of the node in the view it is counted in.
    life: u32,
}

/// What happened to what is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Who is good or doubtful.
    pub(super) standing: bool,
    pub(super) suspected: bool,
    pub(super) ejected: bool,
    /// It would have been ejected, but too many are.
    pub(super) spared: bool,
}

/// What this client believes of each node of its view: one slot per member, in the same order.
///
/// It never changes who is a member, and nothing of it lasts: suspicion and ejection expire, latency decays, and a node
/// that left the view or restarted is forgotten.
#[derive(Clone, Debug)]
pub struct Overlay<O> {
    slots: O,
    count: usize,
    lives: u32,
    /// Calls in flight to the nodes that are listed.
    outstanding: u64,
}

impl<O: OverlayStorage> Overlay<O> {
    pub(super) const fn new(slots: O) -> Self {
        Self {
            slots,
            count: 0,
            lives: 0,
            outstanding: 0,
        }
    }

    /// How many nodes it has room for.
    pub(super) fn capacity(&mut self) -> usize {
        let tables = self.slots.tables();
        let slots = tables.candidates.len().min(tables.beliefs.len());
        slots.min(tables.eligible.len()).min(tables.hashes.len())
    }

    /// What policies see of each member, eligible or not.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        let candidates = self.slots.candidates();
        candidates.get(..self.count).unwrap_or(candidates)
    }

    /// What else is believed of each member.
    #[must_use]
    pub fn beliefs(&self) -> &[Belief] {
        let beliefs = self.slots.beliefs();
        beliefs.get(..self.count).unwrap_or(beliefs)
    }

    /// Lists who is eligible.
    pub(super) fn select(
        &mut self,
        now: Instant,
        members: &[Provider],
        tried: &[NodeRef],
        preference: &Preference,
    ) -> Selection {
        let OverlayTables {
            candidates,
            beliefs,
            eligible,
            hashes,
        } = self.slots.tables();
        let selection = select(now, members, beliefs, tried, preference, eligible);
        for belief in beliefs.iter_mut() {
            belief.listed = false;
        }
        self.outstanding = 0;
        for (hash, at) in hashes.iter_mut().zip(eligible).take(selection.count) {
            let Some((candidate, belief)) = candidates
                .get(usize::from(*at))
                .zip(beliefs.get_mut(usize::from(*at)))
            else {
                continue;
            };
            *hash = candidate.hash();
            belief.listed = true;
            self.outstanding = self
                .outstanding
                .saturating_add(candidate.outstanding.into());
        }
        selection
    }

    /// Those that were listed last.
    pub(super) fn listed(&self, selection: Selection, generation: u64) -> Candidates<'_> {
        let nodes = self.candidates();
        // Everybody is: no need to go by the list.
        let all = selection.count == nodes.len();
        let list = self.slots.eligible().get(..selection.count);
        Candidates::some(
            nodes,
            list.filter(|_| !all),
            self.slots.hashes().get(..selection.count),
            self.outstanding,
            generation,
        )
    }

    /// Brings the slots in line with a view that has no more members than there are slots. O(n).
    pub(super) fn follow(&mut self, members: &[Provider], half_life: Duration) {
        let count = self.count;
        let tables = self.slots.tables();
        let (candidates, beliefs) = (tables.candidates, tables.beliefs);
        // Both lists are sorted. First those that stay move to the front, then, from the end, to their places.
        let (mut kept, mut member) = (0_usize, members.iter().peekable());
        for at in 0..count {
            let Some((candidate, belief)) = pair(candidates, beliefs, at) else {
                break;
            };
            while member
                .next_if(|member| member.node.node < candidate.node.node)
                .is_some()
            {}
            if member
                .peek()
                .is_some_and(|member| member.node == candidate.node)
            {
                set(candidates, beliefs, kept, candidate, belief);
                kept = kept.saturating_add(1);
            }
        }
        for (at, member) in members.iter().enumerate().rev() {
            let last = kept
                .checked_sub(1)
                .and_then(|last| Some((last, pair(candidates, beliefs, last)?)));
            let (candidate, belief) = match last {
                Some((last, (candidate, belief))) if candidate.node == member.node => {
                    kept = last;
                    (candidate, belief)
                }
                _ => {
                    self.lives = self.lives.wrapping_add(1);
                    let life = self.lives;
                    (
                        Candidate::new(member.node).with_latency(Latency::new(half_life)),
                        Belief {
                            life,
                            ..Belief::EMPTY
                        },
                    )
                }
            };
            let candidate = candidate.with_weight(member.weight);
            set(candidates, beliefs, at, candidate, belief);
        }
        self.count = members.len();
    }

    fn find(&mut self, node: NodeRef) -> Option<(&mut Candidate, &mut Belief)> {
        let at = self
            .candidates()
            .binary_search_by_key(&node, |candidate| candidate.node)
            .ok()?;
        let tables = self.slots.tables();
        Some((tables.candidates.get_mut(at)?, tables.beliefs.get_mut(at)?))
    }

    /// Counts a call to a node. `None`: it is no member.
    pub(super) fn send(&mut self, now: Instant, node: NodeRef) -> Option<Flight> {
        let (candidate, belief) = self.find(node)?;
        candidate.outstanding = candidate.outstanding.saturating_add(1);
        let (life, listed) = (belief.life, belief.listed);
        self.outstanding = self.outstanding.saturating_add(listed.into());
        Some(Flight {
            node,
            sent: now,
            life,
        })
    }

    /// No longer counts a call, of which nothing was learned.
    pub(super) fn abandon(&mut self, flight: Flight) {
        self.land(flight);
    }

    fn land(&mut self, flight: Flight) -> Option<(&mut Candidate, &mut Belief)> {
        let (candidate, belief) = self.find(flight.node)?;
        if belief.life != flight.life {
            return None;
        }
        candidate.outstanding = candidate.outstanding.saturating_sub(1);
        let listed = belief.listed;
        self.outstanding = self.outstanding.saturating_sub(listed.into());
        self.find(flight.node)
    }

    /// A node answered.
    pub(super) fn answered(&mut self, now: Instant, flight: Flight) -> Change {
        let mut change = Change::default();
        if let Some((candidate, belief)) = self.land(flight) {
            candidate.latency.observe(now, now.since(flight.sent));
            candidate.failures = 0;
            change.standing = belief.doubted_until() > now;
            belief.suspected = Instant::ZERO;
            belief.ejected = belief.ejected.min(now);
        }
        change
    }

    /// An attempt failed.
    pub(super) fn failed(
        &mut self,
        now: Instant,
        flight: Flight,
        failure: Failure,
        config: &StubConfig,
    ) -> Change {
        let mut change = Change::default();
        let Some((candidate, belief)) = self.land(flight) else {
            return change;
        };
        if failure.cause() != super::Cause::Nested {
            let took = now.since(flight.sent).max(config.failure_penalty);
            candidate.latency.observe(now, took);
        }
        if failure.suspicious() {
            change.suspected = belief.suspected <= now;
            belief.suspected = belief.suspected.max(now.after(config.suspicion));
        }
        if failure.unhealthy() {
            candidate.failures = candidate.failures.saturating_add(1);
            if candidate.failures >= config.eject_after && belief.ejected <= now {
                change.ejected = self.eject(now, flight.node, config);
                change.spared = !change.ejected;
            }
        }
        change.standing = change.suspected || change.ejected;
        change
    }

    fn ejected(&self, now: Instant) -> usize {
        let ejected = self.beliefs().iter().filter(|belief| belief.ejected > now);
        ejected.count()
    }

    /// How many nodes may be ejected: at least one of two or more, and never all.
    fn most_ejected(&self, config: &StubConfig) -> usize {
        let percent = usize::try_from(config.eject_percent).unwrap_or(100);
        let share = self.count.saturating_mul(percent.min(100)) / 100;
        share.max(1).min(self.count.saturating_sub(1))
    }

    /// Takes back those that would be back first, if more are ejected than may be of the nodes that are left. O(n) for
    /// each of them.
    pub(super) fn spare(&mut self, now: Instant, config: &StubConfig) {
        let most = self.most_ejected(config);
        for _ in most..self.ejected(now) {
            let count = self.count;
            let beliefs = self.slots.tables().beliefs.iter_mut().take(count);
            let first = beliefs
                .filter(|belief| belief.ejected > now)
                .min_by_key(|belief| belief.ejected);
            if let Some(belief) = first {
                belief.ejected = now;
            }
        }
    }

    /// Ejects a node, unless that would be too many. O(n).
    fn eject(&mut self, now: Instant, node: NodeRef, config: &StubConfig) -> bool {
        if self.ejected(now) >= self.most_ejected(config) {
            return false;
        }
        let Some((_, belief)) = self.find(node) else {
            return false;
        };
        // A node that was good for as long as it was ejected starts over.
        let before = config.ejection.saturating_mul(belief.ejections);
        if now.since(belief.ejected) > before {
            belief.ejections = 0;
        }
        belief.ejections = belief.ejections.saturating_add(1);
        let time = config.ejection.saturating_mul(belief.ejections);
        let time = time.min(config.ejection_max.max(config.ejection));
        belief.ejected = now.after(Duration::from_micros(micros(time)));
        true
    }
}

fn pair(candidates: &[Candidate], beliefs: &[Belief], at: usize) -> Option<(Candidate, Belief)> {
    Some((*candidates.get(at)?, *beliefs.get(at)?))
}

fn set(
    candidates: &mut [Candidate],
    beliefs: &mut [Belief],
    at: usize,
    candidate: Candidate,
    belief: Belief,
) {
    if let (Some(to), Some(and)) = (candidates.get_mut(at), beliefs.get_mut(at)) {
        (*to, *and) = (candidate, belief);
    }
}
