//! Random inputs, with regions that answer as regions do, or lose what they are told.

use alloc::collections::BTreeMap;
use alloc::{vec, vec::Vec};

use proptest::prelude::*;

use super::harness::*;
use crate::{
    Epoch, Incarnation, NodeId, Session, Term,
    allocation::LeastShards,
    coordinator::{CoordPhase, CoordShardState},
    membership::{Member, MemberChange, MemberState, RemovalCause, Roles},
    wire::Claim,
};

const NODES: u64 = 4;
const SHARDS: u32 = 6;

#[derive(Clone, Debug)]
enum Op {
    State(u64, MemberState),
    Removed(u64),
    Restarted(u64),
    /// The region registers what it holds; `true`: in parts.
    Register(u64, bool),
    /// Only the first of two parts arrives.
    Unfinished(u64),
    /// The region's lease lapsed: a new session, nothing held.
    Relapse(u64),
    /// It goes on with what it holds under a new session.
    Renewed(u64),
    Junk(u64, Vec<(u32, u64, u32, bool)>),
    Ask(u64, u32),
    Complete(u64, u32, u64, u32),
    Started(u64, u32, u64, u32),
    Deregister(u64),
    Lapsed(u64),
    OpenBarrier,
    NewReign,
    Rebalance,
    /// Time passes; bit `n` of the mask loses the `n`-th command modulo 64.
    Pass(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let node = || 1..=NODES;
    let shard = || 0..SHARDS + 1;
    let state = prop_oneof![
        4 => Just(MemberState::Up),
        1 => Just(MemberState::Joining),
        1 => Just(MemberState::Unreachable),
        1 => Just(MemberState::Leaving),
    ];
    let junk = prop::collection::vec((0..SHARDS + 1, 5_u64..8, 0..20_u32, any::<bool>()), 0..4);
    prop_oneof![
        3 => (node(), state).prop_map(|(node, state)| Op::State(node, state)),
        1 => node().prop_map(Op::Removed),
        1 => node().prop_map(Op::Restarted),
        6 => (node(), any::<bool>()).prop_map(|(node, parts)| Op::Register(node, parts)),
        1 => node().prop_map(Op::Unfinished),
        1 => node().prop_map(Op::Relapse),
        1 => node().prop_map(Op::Renewed),
        2 => (node(), junk).prop_map(|(node, claims)| Op::Junk(node, claims)),
        8 => (node(), shard()).prop_map(|(node, shard)| Op::Ask(node, shard)),
        1 => (node(), shard(), 5_u64..9, 0..20_u32).prop_map(|(n, s, t, r)| Op::Complete(n, s, t, r)),
        1 => (node(), shard(), 5_u64..9, 0..20_u32).prop_map(|(n, s, t, r)| Op::Started(n, s, t, r)),
        1 => node().prop_map(Op::Deregister),
        1 => node().prop_map(Op::Lapsed),
        3 => Just(Op::OpenBarrier),
        1 => Just(Op::NewReign),
        1 => Just(Op::Rebalance),
        8 => (0..3_000_u64, prop_oneof![Just(0), any::<u64>()]).prop_map(|(ms, lost)| Op::Pass(ms, lost)),
        2 => (8_000..12_000_u64, any::<u64>()).prop_map(|(ms, lost)| Op::Pass(ms, lost)),
    ]
}

/// A region as the coordinator sees it.
struct Region {
    session: Session,
    state: Option<MemberState>,
    held: BTreeMap<u32, Epoch>,
}

struct World {
    bed: Bed,
    trust: bool,
    regions: BTreeMap<u64, Region>,
    /// Highest epoch that was ever a shard's home.
    newest: BTreeMap<u32, Epoch>,
}

impl World {
    fn new(trust: bool) -> Self {
        let strategy = LeastShards::new().with_max_simultaneous(2);
        let bed = Bed::with(config(SHARDS).with_trust(trust), strategy);
        let region = |node| {
            let region = Region {
                session: session(node),
                state: None,
                held: BTreeMap::new(),
            };
            (node, region)
        };
        Self {
            bed,
            trust,
            regions: (1..=NODES).map(region).collect(),
            newest: BTreeMap::new(),
        }
    }

    fn region(&mut self, node: u64) -> &mut Region {
        self.regions.get_mut(&node).unwrap()
    }

    fn set_state(&mut self, node: u64, state: MemberState) {
        let region = self.region(node);
        region.state = Some(state);
        let member = Member {
            node: NodeId(node),
            incarnation: region.session.incarnation,
            state,
            roles: Roles::NONE,
        };
        self.bed.change(MemberChange::Member(member));
    }

    /// The process ends; the next one has a new incarnation.
    fn restart(&mut self, node: u64) {
        let region = self.region(node);
        region.held.clear();
        region.session = Session {
            incarnation: Incarnation(region.session.incarnation.0 + 1),
            lapses: 0,
            starts: 0,
        };
    }

    fn claims(&self, node: u64) -> Vec<Claim> {
        let held = &self.regions[&node].held;
        held.iter()
            .map(|(shard, epoch)| claim(*shard, *epoch))
            .collect()
    }

    fn register(&mut self, node: u64, parts: bool) {
        let (session, claims) = (self.regions[&node].session, self.claims(node));
        let refused = if parts {
            let (first, second) = claims.split_at(claims.len() / 2);
            let first = self.bed.register_part(node, session, first, 0, 2);
            first.and(self.bed.register_part(node, session, second, 1, 2))
        } else {
            self.bed.register_with(node, session, &claims)
        };
        let ended = crate::wire::control::RegisterRefusal::SessionEnded;
        if refused == Err(crate::coordinator::ControlError::Refused(ended)) {
            self.relapse(node);
        }
    }

    fn relapse(&mut self, node: u64) {
        let region = self.region(node);
        region.session = next(region.session);
        region.held.clear();
    }

    fn deliver(&mut self, said: Vec<Out>, lost: u64) {
        for (at, out) in said.into_iter().enumerate() {
            if lost >> (at % 64) & 1 == 1 {
                continue;
            }
            match out {
                Out::Home {
                    to,
                    shard,
                    node,
                    epoch,
                    session,
                    ..
                } if to == node => {
                    let region = self.region(to);
                    let newer = region.held.get(&shard).is_none_or(|held| *held <= epoch);
                    if region.session == session && newer {
                        region.held.insert(shard, epoch);
                        let _ = self.bed.started(to, shard, epoch);
                    }
                }
                Out::HandOff { to, shard, epoch } => {
                    let region = self.region(to);
                    if region.held.get(&shard).is_some_and(|held| *held <= epoch) {
                        region.held.remove(&shard);
                    }
                    let _ = self.bed.complete(to, shard, epoch);
                }
                Out::EndSessions(node) if !self.trust => {
                    // Its lease runs out, then leadership is sure of it.
                    self.relapse(node);
                    self.bed
                        .coordinator
                        .handle_lapsed(self.bed.now, NodeId(node));
                }
                _ => {}
            }
        }
    }

    fn pass(&mut self, ms: u64, lost: u64) {
        let end = ms / 50;
        for _ in 0..end {
            let said = self.bed.pass(50);
            self.deliver(said, lost);
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::State(node, state) => self.set_state(node, state),
            Op::Removed(node) | Op::Restarted(node) => {
                let restarted = matches!(op, Op::Restarted(_));
                let incarnation = self.regions[&node].session.incarnation;
                self.restart(node);
                self.region(node).state = None;
                if restarted {
                    self.set_state(node, MemberState::Up);
                } else {
                    self.bed.change(MemberChange::Removed {
                        node: NodeId(node),
                        incarnation,
                        cause: RemovalCause::Down,
                    });
                }
            }
            Op::Register(node, parts) => self.register(node, parts),
            Op::Unfinished(node) => {
                let (session, claims) = (self.regions[&node].session, self.claims(node));
                let _ = self.bed.register_part(node, session, &claims, 0, 2);
            }
            Op::Relapse(node) => self.relapse(node),
            Op::Renewed(node) => {
                let region = self.region(node);
                region.session = next(region.session);
            }
            Op::Junk(node, mut claims) => {
                claims.sort_unstable();
                claims.dedup_by_key(|claim| claim.0);
                let claims: Vec<_> = claims
                    .into_iter()
                    .map(|(shard, term, round, draining)| Claim {
                        draining,
                        ..claim(shard, epoch(term, round))
                    })
                    .collect();
                let session = self.regions[&node].session;
                let _ = self.bed.register_with(node, session, &claims);
            }
            Op::Ask(node, shard) => {
                let _ = self.bed.ask(node, shard);
            }
            Op::Complete(node, shard, term, round) => {
                let held = self.regions[&node].held.get(&shard).copied();
                let named = held.unwrap_or(epoch(term, round));
                self.region(node).held.remove(&shard);
                let _ = self.bed.complete(node, shard, named);
            }
            Op::Started(node, shard, term, round) => {
                let _ = self.bed.started(node, shard, epoch(term, round));
            }
            Op::Deregister(node) => {
                let session = self.regions[&node].session;
                let _ = self.bed.deregister(node, session);
                let region = self.region(node);
                region.held.clear();
                region.session.starts += 1;
            }
            Op::Lapsed(node) => {
                self.bed
                    .coordinator
                    .handle_lapsed(self.bed.now, NodeId(node));
                self.relapse(node);
            }
            Op::OpenBarrier => self.bed.coordinator.open_barrier(self.bed.now),
            Op::NewReign => self.new_reign(),
            Op::Rebalance => self.bed.coordinator.rebalance(self.bed.now),
            Op::Pass(ms, lost) => self.pass(ms, lost),
        }
        self.bed.check();
    }

    fn new_reign(&mut self) {
        self.bed.coordinator.end(self.bed.now);
        self.bed.check();
        self.bed.term = Term(self.bed.term.0 + 1);
        self.bed.coordinator.begin(self.bed.now, self.bed.term);
        self.bed.coordinator.act(self.bed.now);
    }

    /// What must hold whatever happened.
    fn check(&mut self, before: &[Option<(u64, Epoch)>]) {
        let mut owned = BTreeMap::<u64, u32>::new();
        for shard in 0..SHARDS {
            let home = self.bed.home(shard);
            let Some((node, held)) = home else {
                continue;
            };
            *owned.entry(node).or_default() += 1;
            let is_new = home != before[shard as usize];
            if is_new && held.term() == self.bed.term {
                let newest = self.newest.get(&shard).copied().unwrap_or(Epoch::NONE);
                if held > newest {
                    let region = &self.regions[&node];
                    assert!(region.state == Some(MemberState::Up) || !self.is_fresh(shard));
                } else {
                    assert_eq!(held, newest, "an epoch came back");
                }
            }
            let newest = self.newest.entry(shard).or_default();
            *newest = held.max(*newest);
        }
        for node in 1..=NODES {
            let all = self.bed.coordinator.owned_by(NodeId(node));
            assert!(all >= owned.get(&node).copied().unwrap_or(0));
        }
    }

    /// Granted, and nobody has answered: so it was allocated by the last input.
    fn is_fresh(&self, shard: u32) -> bool {
        self.bed.state(shard) == CoordShardState::Allocated { started: false }
    }

    /// Faults stop: everybody is up, hears everything, registers and asks.
    fn calm_down(&mut self) {
        for node in 1..=NODES {
            self.set_state(node, MemberState::Up);
        }
        self.bed.coordinator.open_barrier(self.bed.now);
        for round in 0..8 {
            for node in 1..=NODES {
                self.register(node, round % 2 == 1);
                for shard in 0..SHARDS {
                    let _ = self.bed.ask(node, shard);
                }
            }
            self.pass(3_000, 0);
        }
    }

    fn check_calm(&self) {
        assert_eq!(self.bed.coordinator.phase(), CoordPhase::Open);
        assert_eq!(self.bed.coordinator.moves_in_flight(), 0);
        for shard in 0..SHARDS {
            let (node, held) = self.bed.home(shard).expect("every shard has a home");
            assert_eq!(
                self.bed.state(shard),
                CoordShardState::Allocated { started: true }
            );
            for (other, region) in &self.regions {
                let expected = (*other == node).then_some(held);
                assert_eq!(
                    region.held.get(&shard).copied(),
                    expected,
                    "shard {shard} on {other}"
                );
            }
        }
        let owned = self.bed.owned(NODES);
        assert!(owned.iter().max().unwrap() - owned.iter().min().unwrap() <= 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::testing::cases(64), max_shrink_iters: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn any_inputs_keep_the_tables_and_calm_gives_every_shard_one_home(
        trust in any::<bool>(),
        ops in prop::collection::vec(op(), 0..120),
    ) {
        let mut world = World::new(trust);
        for op in ops {
            let before: Vec<_> = (0..SHARDS).map(|shard| world.bed.home(shard)).collect();
            world.apply(op);
            world.check(&before);
        }
        world.calm_down();
        world.check_calm();
    }
}
