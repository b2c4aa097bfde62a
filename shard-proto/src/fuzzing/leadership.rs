//! The leadership of one node in two storages, between peers that say anything.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use core::time::Duration;

use super::feed::Feed;
use crate::leadership::{
    Leadership, LeadershipCommand, LeadershipConfig, Ownership, PeerSlot, Voters,
};
use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::wire::Control;
use crate::wire::control::{LeaderBeat, NodeBeat, TermRefused};
use crate::{Incarnation, Instant, Leader, NodeId, Term};

const ME: NodeId = NodeId(1);
const NODES: u64 = 4;
const SLOTS: usize = 6;
const FLOOR: Term = Term(1_000);

struct World {
    now: Instant,
    heap: Leadership<Box<[PeerSlot]>>,
    array: Leadership<[PeerSlot; SLOTS]>,
    ownership: Ownership,
    lives: BTreeMap<u64, u64>,
    /// As commands said.
    reign: Option<Term>,
    acts: bool,
    open: bool,
    taken: Term,
    adopted: Option<Leader>,
    lease: Option<Instant>,
    lapses: u32,
    /// Numbers of beats that were sent to peers, and to leaders.
    sent: BTreeMap<(bool, u64), u64>,
    newest: u64,
    term_of_others: Term,
}

/// Beats, refusals, registrations, members and time in any order.
///
/// Both storages answer alike; terms grow; a reign begins, acts, opens and ends in this order; nobody is followed under
/// a lower term than before; a lease is never longer than its setting, and its end is told; numbers of beats grow;
/// commands and deadlines come to an end.
pub fn leadership_ops(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    let mut world = World::new(&mut feed);
    while !feed.is_empty() {
        world.step(&mut feed);
        world.check();
    }
    let now = world.now;
    both!(world, leadership => leadership.leave(now));
    world.drain();
    world.check();
    assert_eq!(world.reign, None, "a node that left leads");
}

impl World {
    fn new(feed: &mut Feed<'_>) -> Self {
        let now = Instant::from_micros(5_000_000);
        let ownership = feed.pick(&[
            Ownership::Lease,
            Ownership::Lease,
            Ownership::Trust,
            Ownership::External,
        ]);
        let voters = [NodeId(1), NodeId(2), NodeId(3)];
        let voters = &voters[usize::from(feed.byte() > 220)..];
        let voters = Voters::new(if voters.len() == 3 {
            voters
        } else {
            &voters[..1]
        });
        let config = LeadershipConfig::new()
            .with_ownership(ownership)
            .with_voters(voters.expect("one or three"))
            .with_bootstrap(feed.flag());
        let heap = vec![PeerSlot::EMPTY; SLOTS].into_boxed_slice();
        let life = Incarnation(100);
        let mut world = Self {
            now,
            heap: Leadership::new(now, ME, life, config, heap).expect("the settings are good"),
            array: Leadership::new(now, ME, life, config, [PeerSlot::EMPTY; SLOTS])
                .expect("the settings are good"),
            ownership,
            lives: (1..=NODES).map(|node| (node, 100 + node % 3)).collect(),
            reign: None,
            acts: false,
            open: false,
            taken: Term::NONE,
            adopted: None,
            lease: None,
            lapses: 0,
            sent: BTreeMap::new(),
            newest: 0,
            term_of_others: FLOOR,
        };
        world.lives.insert(1, 100);
        both!(world, leadership => leadership.handle_term_floor(now, FLOOR));
        for node in 2..=NODES {
            world.member(node, MemberState::Up);
        }
        both!(world, leadership => leadership.handle_types(now, 7));
        world.drain();
        world
    }

    fn member(&mut self, node: u64, state: MemberState) {
        let now = self.now;
        let change = MemberChange::Member(Member {
            node: NodeId(node),
            incarnation: Incarnation(self.lives[&node]),
            state,
            roles: Roles::NONE,
        });
        let _ = both!(self, leadership => leadership.handle_member(now, change));
    }

    /// Mostly one that is in use.
    fn term(&mut self, feed: &mut Feed<'_>) -> Term {
        match feed.below(8) {
            0 => {
                self.term_of_others = self.term_of_others.max(self.taken).next();
                self.term_of_others
            }
            1 => Term(feed.number() & Term::MAX.0),
            2 => self.term_of_others,
            _ => self.reign.unwrap_or(self.term_of_others),
        }
    }

    /// Mostly a number that was sent.
    fn number(&mut self, leads: bool, node: u64, feed: &mut Feed<'_>) -> u64 {
        let sent = self.sent.get(&(leads, node)).copied().unwrap_or_default();
        match feed.below(8) {
            0 => feed.number(),
            1 => sent.saturating_sub(feed.number()),
            _ => sent,
        }
    }

    fn step(&mut self, feed: &mut Feed<'_>) {
        let now = self.now;
        let node = 1 + u64::from(feed.below(NODES as u32 + 1));
        let from = NodeId(node);
        match feed.below(20) {
            0..=4 => {
                let (term, echo) = (self.term(feed), self.number(true, node, feed));
                self.newest += 1 + u64::from(feed.byte() / 250) * feed.number() % 1_000_000;
                let beat = Control::NodeBeat(NodeBeat {
                    seq: if feed.byte() < 230 {
                        self.newest
                    } else {
                        feed.number()
                    },
                    echo,
                    lapses: 0,
                    leaving: feed.byte() > 250,
                    types: feed.pick(&[7, 7, 7, 0]),
                });
                let _ =
                    both!(self, leadership => leadership.handle_control(now, from, term, &beat));
            }
            5..=9 => {
                let (term, echo) = (self.term(feed), self.number(false, node, feed));
                self.newest += 1;
                let beat = Control::LeaderBeat(LeaderBeat {
                    seq: if feed.byte() < 230 {
                        self.newest
                    } else {
                        feed.number()
                    },
                    echo,
                    valid: feed.pick(&[1_900_000, 0, 1_200_000, u64::MAX]),
                });
                let _ =
                    both!(self, leadership => leadership.handle_control(now, from, term, &beat));
            }
            10 => {
                let (term, highest) = (self.term(feed), self.term(feed));
                let refused = Control::TermRefused(TermRefused { highest });
                let _ =
                    both!(self, leadership => leadership.handle_control(now, from, term, &refused));
            }
            11 => {
                let term = self.term(feed);
                let _ = both!(self, leadership => leadership.handle_control(now, from, term, &Control::Resign));
            }
            12 => {
                let (types, age) = (feed.pick(&[7, 7, 0, 9]), feed.number());
                both!(self, leadership => leadership.handle_registered(now, from, types, age));
            }
            13 => match feed.below(4) {
                0 => {
                    both!(self, leadership => leadership.end_sessions(now, from));
                }
                1 => {
                    let term = self.term(feed);
                    let _ =
                        both!(self, leadership => leadership.handle_higher_term(now, from, term));
                }
                2 => {
                    both!(self, leadership => leadership.renew(now));
                }
                _ => {
                    let token = (feed.byte() < 200).then(|| self.term(feed));
                    both!(self, leadership => leadership.handle_external(now, token));
                }
            },
            14 => self.membership(node, feed),
            15 => {
                let types = feed.pick(&[7, 0, 9]);
                both!(self, leadership => leadership.handle_types(now, types));
            }
            _ => {
                let by = if feed.byte() < 200 {
                    feed.number() % 300
                } else {
                    feed.number() % 10_000
                };
                self.now = now.after(Duration::from_millis(by));
                self.timeout();
            }
        }
        if feed.byte() < 200 {
            self.drain();
        }
    }

    fn membership(&mut self, node: u64, feed: &mut Feed<'_>) {
        if !(2..=NODES).contains(&node) {
            return;
        }
        let now = self.now;
        match feed.below(4) {
            0 => {
                let change = MemberChange::Removed {
                    node: NodeId(node),
                    incarnation: Incarnation(self.lives[&node]),
                    cause: RemovalCause::Down,
                };
                let _ = both!(self, leadership => leadership.handle_member(now, change));
            }
            1 => {
                *self.lives.entry(node).or_default() += 1;
                self.member(node, MemberState::Up);
            }
            2 => self.member(node, MemberState::Unreachable),
            _ => self.member(node, MemberState::Up),
        }
    }

    fn timeout(&mut self) {
        let now = self.now;
        for _ in 0..100 {
            both!(self, leadership => leadership.handle_timeout(now));
            self.drain();
            if self.heap.poll_timeout().is_none_or(|at| at > now) {
                return;
            }
        }
        panic!("a deadline stays due");
    }

    fn drain(&mut self) {
        for _ in 0..1_000 {
            let (heap, array) = (self.heap.poll_command(), self.array.poll_command());
            assert_eq!(heap, array, "the storages differ");
            match heap {
                Some(command) => self.carry_out(command),
                None => return,
            }
        }
        panic!("commands never end");
    }

    fn carry_out(&mut self, command: LeadershipCommand) {
        match command {
            LeadershipCommand::Begin { term } => {
                assert_eq!(self.reign, None, "a reign begins within another");
                assert!(term > self.taken, "a term was taken twice");
                self.taken = term;
                self.reign = Some(term);
                (self.acts, self.open) = (false, false);
            }
            LeadershipCommand::Act { term } => {
                assert_eq!((self.reign, self.acts), (Some(term), false));
                self.acts = true;
            }
            LeadershipCommand::OpenBarrier { term } => {
                assert_eq!(
                    (self.reign, self.acts, self.open),
                    (Some(term), true, false)
                );
                self.open = true;
            }
            LeadershipCommand::End => {
                assert!(self.reign.take().is_some());
            }
            LeadershipCommand::Adopt(leader) => {
                if let (Some(new), Some(old)) = (leader, self.adopted) {
                    assert!(new.term >= old.term, "a lower term is followed");
                    let other = new.term == old.term && new.node != old.node;
                    assert!(!other, "a term of two nodes");
                }
                self.adopted = leader.or(self.adopted);
            }
            LeadershipCommand::Lease(until) => {
                if let (Some(until), Ownership::Lease | Ownership::External) =
                    (until, self.ownership)
                {
                    let most = self.now.after(self.heap.config().lease());
                    assert!(until <= most, "a lease is too long");
                }
                self.lease = until;
            }
            LeadershipCommand::Lapsed { lapses } => {
                assert!(lapses > self.lapses);
                self.lapses = lapses;
            }
            LeadershipCommand::Send { to, term, control } => {
                let (leads, seq) = match control {
                    Control::LeaderBeat(beat) => {
                        assert_eq!(Some(term), self.heap.reign());
                        (true, beat.seq)
                    }
                    Control::NodeBeat(beat) => (false, beat.seq),
                    _ => return,
                };
                let last = self.sent.insert((leads, to.0), seq).unwrap_or_default();
                assert!(seq > last, "a number of a beat came twice");
            }
            _ => {}
        }
    }

    fn check(&self) {
        assert_eq!(self.heap.poll_timeout(), self.array.poll_timeout());
        assert_eq!(self.heap.stats(), self.array.stats());
        assert_eq!(self.heap.leader(), self.array.leader());
        assert_eq!(self.heap.reign(), self.array.reign());
        assert_eq!(self.heap.lease_until(), self.array.lease_until());
        assert_eq!(self.heap.acting_until(), self.array.acting_until());
        if self.ownership == Ownership::Lease
            && let Some(until) = self.heap.acting_until()
        {
            let lease = self.heap.config().support_lease();
            assert!(until <= self.now.after(lease), "support lasts too long");
        }
        assert!(self.heap.reign().is_none_or(|term| term >= self.taken));
    }
}
