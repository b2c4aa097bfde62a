//! The built-in membership: each host has a failure detector of its own, and they gossip.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::membership::{ClusterView, Happened, MembershipScript, News};
use crate::hash::{SplitMix64, mix};
use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::{Incarnation, micros};

/// How often detectors look.
const EVERY: u64 = 100_000;
/// How long good news takes at most.
const QUICK: u64 = 200_000;

/// What one host believes of another.
#[derive(Clone, Copy, Debug)]
struct Belief {
    known: Option<(Incarnation, MemberState)>,
    /// This life and those before it were removed for good.
    removed: Incarnation,
    /// Nothing was heard since then; it counts as unreachable, and is removed, when these come.
    silent: Option<Silence>,
    suspect_until: u64,
    /// The newest news about it arrives then.
    told_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Silence {
    unreachable_at: u64,
    /// If its life has ended, and if it has not.
    remove_dead_at: u64,
    remove_live_at: u64,
}

const NOTHING: Belief = Belief {
    known: None,
    removed: Incarnation(0),
    silent: None,
    suspect_until: 0,
    told_at: 0,
};

/// Failure detectors that notice a silent host after a while that differs from seed to seed, and tell each other whom
/// they removed for good.
#[derive(Clone, Debug)]
pub struct Detectors {
    hosts: usize,
    /// `by * hosts + of`.
    beliefs: Vec<Belief>,
    rng: SplitMix64,
    detection: (u64, u64),
    /// A host is heard if others hear it.
    indirect: bool,
    /// A host that lives but was not heard for long is removed for good.
    removes_live: bool,
    next: u64,
}

impl Detectors {
    /// Detectors of so many hosts that take at least and at most so long to notice that a host is silent.
    #[must_use]
    pub fn new(seed: u64, hosts: u8, least: Duration, most: Duration) -> Self {
        let mut rng = SplitMix64::new(mix(seed ^ 0xde7e));
        let hosts = usize::from(hosts);
        Self {
            hosts,
            beliefs: vec![NOTHING; hosts * hosts],
            detection: (micros(least), micros(most)),
            indirect: rng.below(2) == 0,
            removes_live: rng.below(4) == 0,
            next: rng.below(EVERY),
            rng,
        }
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.rng.below(most.saturating_sub(least) + 1)
    }

    fn belief(&mut self, by: usize, of: usize) -> &mut Belief {
        &mut self.beliefs[by * self.hosts + of]
    }

    fn talk(view: &ClusterView<'_>, a: usize, b: usize) -> bool {
        a == b || !(view.is_cut(a as u8, b as u8) || view.is_cut(b as u8, a as u8))
    }

    /// Whether `by` gets to know that the other process works.
    fn hears(&self, view: &ClusterView<'_>, by: usize, of: usize) -> bool {
        if Self::talk(view, by, of) {
            return true;
        }
        let helps = |by_way: usize| {
            let host = &view.hosts[by_way];
            host.alive
                && !host.paused
                && Self::talk(view, by, by_way)
                && Self::talk(view, by_way, of)
        };
        self.indirect && (0..self.hosts).any(helps)
    }

    fn tell(&mut self, now: u64, by: usize, of: usize, change: MemberChange, news: &mut Vec<News>) {
        let late = if by == of {
            0
        } else {
            self.between(1_000, QUICK)
        };
        let belief = self.belief(by, of);
        // News about one host come in order.
        let at = (now + late).max(belief.told_at + 1);
        belief.told_at = at;
        news.push(News {
            at,
            host: by as u8,
            change,
        });
    }

    fn say_member(
        &mut self,
        view: &ClusterView<'_>,
        by: usize,
        of: usize,
        state: MemberState,
        news: &mut Vec<News>,
    ) {
        let life = &view.hosts[of];
        let incarnation = life.incarnation;
        let belief = self.belief(by, of);
        if belief.known == Some((incarnation, state)) {
            return;
        }
        belief.known = Some((incarnation, state));
        let member = Member {
            node: life.node,
            incarnation,
            state,
            roles: Roles::NONE,
        };
        self.tell(view.now, by, of, MemberChange::Member(member), news);
    }

    fn remove(
        &mut self,
        view: &ClusterView<'_>,
        by: usize,
        of: usize,
        cause: RemovalCause,
        news: &mut Vec<News>,
    ) {
        let belief = self.belief(by, of);
        belief.silent = None;
        let Some((incarnation, _)) = belief.known.take() else {
            return;
        };
        belief.removed = belief.removed.max(incarnation);
        let change = MemberChange::Removed {
            node: view.hosts[of].node,
            incarnation,
            cause,
        };
        self.tell(view.now, by, of, change, news);
    }

    /// `by` looks at `of`.
    fn look(&mut self, view: &ClusterView<'_>, by: usize, of: usize, news: &mut Vec<News>) {
        let (watcher, life) = (view.hosts[by], view.hosts[of]);
        if !watcher.alive || watcher.paused {
            return;
        }
        let now = view.now;
        if life.alive && !life.paused && self.hears(view, by, of) {
            let belief = self.belief(by, of);
            belief.silent = None;
            if belief.removed >= life.incarnation {
                self.say_removed(view, by, of, news);
                return;
            }
            let state = if life.leaving {
                MemberState::Leaving
            } else if belief.suspect_until > now {
                MemberState::Unreachable
            } else {
                MemberState::Up
            };
            self.say_member(view, by, of, state, news);
            return;
        }
        let Some((incarnation, state)) = self.belief(by, of).known else {
            return;
        };
        let silence = match self.belief(by, of).silent {
            Some(silence) => silence,
            None => {
                let (least, most) = self.detection;
                let unreachable_at = now + self.between(least, most);
                let silence = Silence {
                    unreachable_at,
                    remove_dead_at: unreachable_at + self.between(200_000, 8_000_000),
                    remove_live_at: unreachable_at + self.between(3_000_000, 12_000_000),
                };
                self.belief(by, of).silent = Some(silence);
                silence
            }
        };
        let lives = life.alive && life.incarnation == incarnation;
        let remove = if lives {
            self.removes_live && now >= silence.remove_live_at
        } else {
            now >= silence.remove_dead_at
        };
        if remove {
            self.remove(view, by, of, RemovalCause::Down, news);
        } else if now >= silence.unreachable_at && state != MemberState::Unreachable {
            self.belief(by, of).known = Some((incarnation, MemberState::Unreachable));
            let member = Member {
                node: life.node,
                incarnation,
                state: MemberState::Unreachable,
                roles: Roles::NONE,
            };
            self.tell(now, by, of, MemberChange::Member(member), news);
        }
    }

    /// `by` hears from a life that it removed, and lets it know.
    fn say_removed(&mut self, view: &ClusterView<'_>, by: usize, of: usize, news: &mut Vec<News>) {
        let own = self.belief(of, of);
        if by == of || own.removed >= view.hosts[of].incarnation {
            return;
        }
        own.removed = view.hosts[of].incarnation;
        let at = view.now + self.between(1_000, 3_000_000);
        news.push(News {
            at,
            host: of as u8,
            change: MemberChange::Removed {
                node: view.hosts[of].node,
                incarnation: view.hosts[of].incarnation,
                cause: RemovalCause::Down,
            },
        });
    }

    /// Removals for good get around.
    fn gossip(&mut self, view: &ClusterView<'_>, news: &mut Vec<News>) {
        for of in 0..self.hosts {
            for by in 0..self.hosts {
                let Some((incarnation, _)) = self.belief(by, of).known else {
                    continue;
                };
                let watcher = view.hosts[by];
                if by == of || !watcher.alive || watcher.paused {
                    continue;
                }
                let knows = (0..self.hosts).any(|other| {
                    let host = &view.hosts[other];
                    other != of
                        && host.alive
                        && !host.paused
                        && Self::talk(view, by, other)
                        && self.beliefs[other * self.hosts + of].removed >= incarnation
                });
                if knows {
                    self.remove(view, by, of, RemovalCause::Down, news);
                }
            }
        }
    }
}

impl MembershipScript for Detectors {
    fn happened(
        &mut self,
        view: &mut ClusterView<'_>,
        host: u8,
        what: Happened,
        news: &mut Vec<News>,
    ) {
        let of = usize::from(host);
        match what {
            Happened::Started => {
                for other in 0..self.hosts {
                    *self.belief(of, other) = NOTHING;
                }
                self.say_member(view, of, of, MemberState::Up, news);
                for other in 0..self.hosts {
                    self.look(view, of, other, news);
                    self.look(view, other, of, news);
                }
            }
            Happened::Leaving => {
                for by in 0..self.hosts {
                    self.look(view, by, of, news);
                }
            }
            Happened::Left => {
                for by in 0..self.hosts {
                    let watcher = view.hosts[by];
                    if by != of && watcher.alive && Self::talk(view, by, of) {
                        self.remove(view, by, of, RemovalCause::Left, news);
                    }
                }
            }
            Happened::Suspected { by, until } => {
                let by = usize::from(by);
                let belief = self.belief(by, of);
                belief.suspect_until = belief.suspect_until.max(until);
                self.look(view, by, of, news);
            }
            Happened::Removed => {
                for by in 0..self.hosts {
                    if by != of && view.hosts[by].alive {
                        self.remove(view, by, of, RemovalCause::Down, news);
                    }
                }
            }
            // Noticed at the next look.
            _ => {}
        }
    }

    fn next_tick(&self) -> Option<u64> {
        Some(self.next)
    }

    fn tick(&mut self, view: &mut ClusterView<'_>, news: &mut Vec<News>) {
        self.next = view.now + EVERY;
        for by in 0..self.hosts {
            for of in 0..self.hosts {
                if by != of {
                    self.look(view, by, of, news);
                }
            }
        }
        self.gossip(view, news);
    }
}
