//! Random inputs: whole worlds with a coordinator that moves shards about, and single regions that hear anything.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;

use super::world::*;
use crate::membership::{Member, MemberChange};
use crate::region::{Origin, Region, RegionConfig};
use crate::table::{ArrayStorage, HeapStorage, RegionStorage};
use crate::wire::control::{
    HandOff, Previous, RegisterAck, RegisterRefusal, RegisterRefused, ShardHome, ShardMapUpdate,
};
use crate::wire::{Control, HomeEntry, HomesBuilder, ReturnReason};
use crate::{Epoch, Incarnation, Instant, Leader, NodeId, Session, ShardId, Term, Token};

const NODES: [NodeId; 3] = [A, B, D];
const SHARDS: u32 = 2;

/// A directive that is under way; it may be lost, doubled, late.
#[derive(Clone, Copy, Debug)]
enum Directive {
    Home(ShardHome),
    HandOff(ShardId, Epoch),
    Map(HomeEntry),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allocation {
    None,
    Owned(NodeId, Epoch),
    HandingOff(NodeId, Epoch),
}

/// A coordinator that moves shards at random.
struct Mover {
    round: u32,
    shards: Vec<(Allocation, Previous)>,
    under_way: Vec<(NodeId, Directive)>,
}

impl Mover {
    fn home(&self, world: &World, shard: ShardId) -> Option<(NodeId, Directive)> {
        let (allocation, previous) = self.shards[shard.0 as usize];
        let Allocation::Owned(node, epoch) = allocation else {
            return None;
        };
        let home = ShardHome {
            shard,
            epoch,
            node,
            session: world.hosts[&node].region.session(),
            previous,
        };
        Some((node, Directive::Home(home)))
    }

    fn allocate(&mut self, world: &World, shard: ShardId, node: NodeId) {
        self.round += 1;
        self.shards[shard.0 as usize].0 = Allocation::Owned(node, epoch(self.round));
        if let Some(grant) = self.home(world, shard) {
            self.under_way.push(grant);
        }
    }

    /// Hears what regions said.
    fn hear(&mut self, world: &mut World, choice: u8) {
        for node in NODES {
            for said in world.host(node).take_said() {
                match said {
                    Said::Ask(shard) => {
                        if self.shards[shard.0 as usize].0 == Allocation::None {
                            let alive = NODES.into_iter().filter(|node| world.hosts[node].alive);
                            let alive: Vec<NodeId> = alive.collect();
                            let home = alive[usize::from(choice) % alive.len()];
                            self.allocate(world, shard, home);
                        }
                        if let Some((_, home)) = self.home(world, shard) {
                            self.under_way.push((node, home));
                        }
                    }
                    Said::Complete(shard, epoch, _) => {
                        let entry = &mut self.shards[shard.0 as usize];
                        if matches!(entry.0, Allocation::Owned(owner, of) | Allocation::HandingOff(owner, of)
                            if owner == node && of == epoch)
                        {
                            *entry = (Allocation::None, Previous::Completed);
                        }
                    }
                    Said::Register { part, parts, .. } if part + 1 == parts => {
                        world.acknowledge(node);
                    }
                    _ => {}
                }
            }
        }
    }

    fn tell(&mut self, world: &mut World, at: usize) {
        let (node, directive) = self.under_way[at];
        if !world.hosts[&node].alive {
            return;
        }
        let now = world.now;
        let region = world.region(node);
        let mut bytes = [0; 64];
        let control = match directive {
            Directive::Home(home) => Control::ShardHome(home),
            Directive::HandOff(shard, epoch) => Control::HandOff(HandOff {
                shard,
                epoch,
                drain: 8_000_000,
            }),
            Directive::Map(home) => {
                let mut homes = HomesBuilder::new(&mut bytes);
                homes.push(home).unwrap();
                Control::ShardMapUpdate(ShardMapUpdate {
                    version: 1,
                    last: true,
                    homes: homes.finish(),
                })
            }
        };
        region
            .handle_control(now, LEADER, Term(5), &control)
            .unwrap();
    }

    /// Says again what is not done.
    fn repeat(&mut self, world: &World) {
        for shard in (0..SHARDS).map(ShardId) {
            match self.shards[shard.0 as usize].0 {
                Allocation::HandingOff(owner, epoch) => {
                    self.under_way
                        .push((owner, Directive::HandOff(shard, epoch)));
                }
                Allocation::Owned(owner, epoch) => {
                    if world.hosts[&owner].running.get(&shard.0) != Some(&epoch) {
                        let grant = self.home(world, shard).unwrap();
                        self.under_way.push(grant);
                    }
                }
                Allocation::None => {}
            }
        }
    }

    /// A node lapsed or died: its shards are free.
    fn free(&mut self, node: NodeId) {
        // Its grants of the session before are refused, whenever they come.
        for entry in &mut self.shards {
            if matches!(entry.0, Allocation::Owned(owner, _) | Allocation::HandingOff(owner, _) if owner == node)
            {
                *entry = (Allocation::None, Previous::Lapsed);
            }
        }
    }
}

/// What happens next; the numbers choose among what is possible.
type Step = (u8, u8, u8, u8);

fn act(world: &mut World, mover: &mut Mover, (kind, a, b, c): Step, faults: bool) {
    let pick = |choice: u8| NODES[usize::from(choice) % NODES.len()];
    let shard = ShardId(u32::from(c) % SHARDS);
    let node = pick(a);
    let alive = world.hosts[&node].alive;
    match kind % 24 {
        0..=4 if alive => {
            world.send_to(node, shard);
        }
        5..=8 if alive => {
            for _ in 0..=c % 8 {
                world.poll(node);
            }
        }
        9..=12 => {
            for _ in 0..=c % 4 {
                world.carry(node, pick(b));
            }
        }
        13 | 14 => {
            mover.hear(world, b);
            if !mover.under_way.is_empty() {
                let at = usize::from(a) % mover.under_way.len();
                mover.tell(world, at);
                // Some are doubled or late.
                if c % 4 != 0 {
                    mover.under_way.swap_remove(at);
                }
            }
        }
        15 => {
            if !mover.under_way.is_empty() && c % 4 == 0 {
                mover
                    .under_way
                    .swap_remove(usize::from(a) % mover.under_way.len());
            }
            mover.repeat(world);
        }
        16 => {
            let entry = &mut mover.shards[shard.0 as usize];
            if let Allocation::Owned(owner, epoch) = entry.0 {
                entry.0 = Allocation::HandingOff(owner, epoch);
                mover
                    .under_way
                    .push((owner, Directive::HandOff(shard, epoch)));
            }
        }
        17 | 18 if alive => {
            // The host gets on with what it was told.
            if let Some((shard, epoch)) = world.host(node).starts.pop() {
                world.started(node, shard, epoch);
            }
            stop_one(world, node, c % 2 == 0);
        }
        19 if alive => {
            let waiting = world.hosts[&node].mailbox.get(&shard.0);
            if waiting.is_some_and(|waiting| !waiting.is_empty()) {
                world.handle(node, shard, usize::from(b % 4));
            }
        }
        20 if alive => {
            let now = world.now;
            world
                .region(node)
                .handle_congestion(now, pick(b), c % 2 == 0);
        }
        21 => {
            let end = world.now.after(Duration::from_millis(u64::from(c)));
            world.now = end;
            let now = world.now;
            for host in world.hosts.values_mut().filter(|host| host.alive) {
                host.region.handle_timeout(now);
            }
        }
        22 => {
            if let Some((_, Directive::Home(home))) = mover.home(world, shard) {
                let entry = HomeEntry {
                    shard,
                    epoch: home.epoch,
                    node: home.node,
                };
                mover.under_way.push((node, Directive::Map(entry)));
            }
        }
        23 if faults && alive && c % 4 == 0 => fault(world, mover, node, b),
        _ => {}
    }
    world.check();
    for shard in 0..SHARDS {
        let serving = world
            .hosts
            .values()
            .filter(|host| host.running.contains_key(&shard));
        assert!(serving.count() <= 1, "two homes");
    }
}

fn fault(world: &mut World, mover: &mut Mover, node: NodeId, choice: u8) {
    let now = world.now;
    if choice.is_multiple_of(2) {
        // The lease lapsed, and the leader knows. Everything is stopped before anybody else starts.
        let lapses = world.region(node).session().lapses + 1;
        world.region(node).handle_lapse(now, lapses);
        halt(world, node);
        mover.free(node);
    } else if world.hosts.values().filter(|host| host.alive).count() > 2 {
        world.kill(node);
        world.host(node).running.clear();
        mover.free(node);
        for other in NODES.into_iter().filter(|&other| other != node) {
            if world.hosts[&other].alive {
                world
                    .region(other)
                    .handle_member(now, removed(node))
                    .unwrap();
            }
        }
    }
}

/// Stops one thing that a node was told to stop.
fn stop_one(world: &mut World, node: NodeId, forced: bool) -> bool {
    let host = world.host(node);
    let Some((shard, epoch, _)) = host.stops.pop() else {
        return false;
    };
    // It may have been told twice, and may not have started yet.
    host.stops.retain(|stop| stop.1 != epoch);
    host.starts.retain(|start| start.1 != epoch);
    world.stopped(node, shard, epoch, forced);
    true
}

/// Stops everything that a node is told to stop.
fn halt(world: &mut World, node: NodeId) {
    while world.poll(node) {}
    world.host(node).starts.clear();
    while stop_one(world, node, true) {}
    while world.poll(node) {}
}

fn new_world(queue: u32) -> (World, Mover) {
    let config = RegionConfig::new("cart")
        .with_shard_count(SHARDS)
        .with_buffer(queue / 2)
        .with_buffer_per_shard(queue / 2)
        .with_return_window(queue / 2);
    let mut world = World::with(&NODES, config, queue);
    for node in NODES {
        let host = world.host(node);
        host.prompt = false;
        host.quick = false;
    }
    let mover = Mover {
        round: 0,
        shards: vec![(Allocation::None, Previous::Completed); SHARDS as usize],
        under_way: Vec::new(),
    };
    (world, mover)
}

/// Nothing goes wrong any more: everything that waits is done with.
fn calm(world: &mut World, mover: &mut Mover) {
    for node in NODES {
        let now = world.now;
        for other in NODES {
            world.region(node).handle_congestion(now, other, false);
        }
    }
    for turn in 0..60u32 {
        for node in NODES {
            if !world.hosts[&node].alive {
                continue;
            }
            world.host(node).quick = true;
            while stop_one(world, node, false) {}
            while let Some((shard, epoch)) = world.host(node).starts.pop() {
                world.started(node, shard, epoch);
            }
            for shard in (0..SHARDS).map(ShardId) {
                world.handle(node, shard, 1000);
            }
        }
        world.run();
        mover.hear(world, 0);
        mover.repeat(world);
        for at in 0..mover.under_way.len() {
            mover.tell(world, at);
        }
        mover.under_way.clear();
        world.pass(if turn < 30 { 50 } else { 1000 });
        let is_done = |host: &Host| {
            !host.alive
                || (host.region.is_settled() || host.region.hosted() > 0)
                    && host.region.buffered() == 0
                    && host.region.flushing() == 0
        };
        if world.hosts.values().all(is_done) {
            return;
        }
    }
}

/// Numbers of each origin and shard that were handled or reported, each once.
fn accounted(world: &World) -> BTreeMap<(NodeId, u32), BTreeSet<u32>> {
    let mut seen = BTreeMap::<_, BTreeSet<u32>>::new();
    let handled = world.handled.iter().map(|(_, shard, note)| (shard, note));
    let rejected = world.hosts.values().flat_map(|host| &host.rejected);
    let rejected = rejected.map(|(shard, .., note)| (shard, note));
    for (shard, note) in handled.chain(rejected) {
        let fresh = seen
            .entry((note.from, shard.0))
            .or_default()
            .insert(note.number);
        assert!(fresh, "{note:?} of {shard:?} twice");
    }
    seen
}

/// So many cases, or what `PROPTEST_CASES` says.
fn cases(default: u32) -> u32 {
    let set = std::env::var("PROPTEST_CASES").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(default)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any::<Step>(), 50..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(96)))]

    /// Scenarios 41, 44 and 46 at random: whatever is lost, doubled and late, each message is handled once and in
    /// order, or reported.
    #[test]
    fn shards_that_move_at_random_lose_nothing(steps in steps(), queue in 6u32..80) {
        let (mut world, mut mover) = new_world(queue);
        for step in steps {
            act(&mut world, &mut mover, step, false);
        }
        calm(&mut world, &mut mover);
        let seen = accounted(&world);
        let mut missing = 0;
        for (&(from, shard), &count) in &world.numbers {
            let found = seen.get(&(from, shard)).map_or(0, BTreeSet::len);
            missing += count as usize - found;
        }
        prop_assert_eq!(missing, world.handed_back as usize);
        for host in world.hosts.values() {
            prop_assert_eq!(host.region.buffered(), 0);
            prop_assert_eq!(host.region.flushing(), 0);
            prop_assert_eq!(host.region.stats().refused_envelopes, 0);
        }
    }

    /// The same with lapses and nodes that die: order holds, nothing is handled twice, and life goes on.
    #[test]
    fn nodes_that_lapse_and_die_break_no_order(steps in steps(), queue in 6u32..80) {
        let (mut world, mut mover) = new_world(queue);
        for step in steps {
            act(&mut world, &mut mover, step, true);
        }
        calm(&mut world, &mut mover);
        let count = |world: &World| accounted(world).values().map(BTreeSet::len).sum::<usize>();
        let before = count(&world);
        let alive: Vec<NodeId> = NODES.into_iter().filter(|node| world.hosts[node].alive).collect();
        for &node in &alive {
            for shard in (0..SHARDS).map(ShardId) {
                prop_assert!(world.send_to(node, shard));
            }
        }
        calm(&mut world, &mut mover);
        // A few slots may not be enough for all at once; then some are reported.
        prop_assert_eq!(count(&world) - before, alive.len() * SHARDS as usize);
        for node in alive {
            prop_assert_eq!(world.hosts[&node].region.buffered(), 0);
            prop_assert_eq!(world.hosts[&node].region.flushing(), 0);
        }
    }
}

/// Any input to a region, from anybody.
#[derive(Clone, Debug)]
enum Input {
    Route(u32),
    Envelope(u64, u32, u32),
    Return(u64, u32, u32, bool),
    Flush(u64, u32, u32),
    Flushed(u64, u32, u64),
    Home(u32, u32, u64, bool, u32),
    HandOff(u32, u32),
    Map(u32, u32, u64),
    Ack(u32),
    Refused(u32, u8),
    Leader(Option<u64>),
    Lease(Option<u32>),
    Lapse(u32),
    Member(u64, u64),
    Removed(u64, u64),
    Congestion(u64, bool),
    Started(u32, u32),
    GiveBack(u32, u32, u64),
    Stopped(u32, u32, bool),
    FlushPaths,
    Stop,
    Timeout,
    Pass(u16),
    Poll(u8),
}

fn input() -> impl Strategy<Value = Input> {
    let shard = 0u32..5;
    let round = 0u32..6;
    let node = 0u64..5;
    prop_oneof![
        8 => shard.clone().prop_map(Input::Route),
        6 => (node.clone(), shard.clone(), round.clone()).prop_map(|(n, s, r)| Input::Envelope(n, s, r)),
        4 => (node.clone(), shard.clone(), round.clone(), any::<bool>())
            .prop_map(|(n, s, r, full)| Input::Return(n, s, r, full)),
        2 => (node.clone(), shard.clone(), round.clone()).prop_map(|(n, s, r)| Input::Flush(n, s, r)),
        2 => (node.clone(), shard.clone(), any::<u64>()).prop_map(|(n, s, t)| Input::Flushed(n, s, t)),
        8 => (shard.clone(), round.clone(), node.clone(), any::<bool>(), 0u32..3)
            .prop_map(|(s, r, n, lapsed, life)| Input::Home(s, r, n, lapsed, life)),
        3 => (shard.clone(), round.clone()).prop_map(|(s, r)| Input::HandOff(s, r)),
        2 => (shard.clone(), round.clone(), node.clone()).prop_map(|(s, r, n)| Input::Map(s, r, n)),
        2 => (0u32..3).prop_map(Input::Ack),
        1 => (0u32..3, any::<u8>()).prop_map(|(s, reason)| Input::Refused(s, reason)),
        1 => prop::option::of(5u64..7).prop_map(Input::Leader),
        1 => prop::option::of(any::<u32>()).prop_map(Input::Lease),
        1 => (0u32..4).prop_map(Input::Lapse),
        2 => (node.clone(), 0u64..3).prop_map(|(n, life)| Input::Member(n, life)),
        1 => (node.clone(), 0u64..3).prop_map(|(n, life)| Input::Removed(n, life)),
        2 => (node.clone(), any::<bool>()).prop_map(|(n, full)| Input::Congestion(n, full)),
        6 => (shard.clone(), round.clone()).prop_map(|(s, r)| Input::Started(s, r)),
        4 => (shard.clone(), round.clone(), node).prop_map(|(s, r, n)| Input::GiveBack(s, r, n)),
        3 => (shard, round, any::<bool>()).prop_map(|(s, r, forced)| Input::Stopped(s, r, forced)),
        1 => Just(Input::FlushPaths),
        1 => Just(Input::Timeout),
        4 => any::<u16>().prop_map(Input::Pass),
        12 => any::<u8>().prop_map(Input::Poll),
    ]
}

/// Applies an input and writes down what came of it.
fn apply<S: RegionStorage<u32>>(
    region: &mut Region<u32, S>,
    now: &mut Instant,
    number: u32,
    input: &Input,
) -> String {
    let at = *now;
    let round = |round: u32| epoch(round);
    let life = |lapses: u32| Session {
        incarnation: Incarnation(1000),
        lapses,
        starts: 0,
    };
    let hear = |region: &mut Region<u32, S>, control: &Control<'_>| {
        format!("{:?}", region.handle_control(at, LEADER, Term(5), control))
    };
    match *input {
        Input::Route(shard) => format!("{:?}", region.route(at, ShardId(shard), number)),
        Input::Envelope(from, shard, r) => format!(
            "{:?}",
            region.handle_envelope(at, NodeId(from), ShardId(shard), round(r), number)
        ),
        Input::Return(from, shard, r, full) => {
            let reason = if full {
                ReturnReason::Full
            } else {
                ReturnReason::Moved
            };
            let back =
                region.handle_return(at, NodeId(from), ShardId(shard), round(r), reason, number);
            format!("{back:?}")
        }
        Input::Flush(from, shard, r) => {
            region.handle_flush(
                at,
                NodeId(from),
                ShardId(shard),
                round(r),
                Token(u64::from(number)),
            );
            String::new()
        }
        Input::Flushed(from, shard, token) => format!(
            "{}",
            region.handle_flushed(at, NodeId(from), ShardId(shard), Token(token))
        ),
        Input::Home(shard, r, node, lapsed, lapses) => {
            let session = if node == A.0 {
                life(lapses)
            } else {
                Session {
                    incarnation: Incarnation(u64::from(lapses)),
                    lapses: 0,
                    starts: 0,
                }
            };
            let previous = if lapsed {
                Previous::Lapsed
            } else {
                Previous::Completed
            };
            let home = ShardHome {
                shard: ShardId(shard),
                epoch: round(r),
                node: NodeId(node),
                session,
                previous,
            };
            hear(region, &Control::ShardHome(home))
        }
        Input::HandOff(shard, r) => {
            let hand_off = HandOff {
                shard: ShardId(shard),
                epoch: round(r),
                drain: 1000,
            };
            hear(region, &Control::HandOff(hand_off))
        }
        Input::Map(shard, r, node) => {
            let mut bytes = [0; 64];
            let mut homes = HomesBuilder::new(&mut bytes);
            let entry = HomeEntry {
                shard: ShardId(shard),
                epoch: round(r),
                node: NodeId(node),
            };
            homes.push(entry).unwrap();
            let update = ShardMapUpdate {
                version: u64::from(number),
                last: true,
                homes: homes.finish(),
            };
            hear(region, &Control::ShardMapUpdate(update))
        }
        Input::Ack(lapses) => {
            let session = life(lapses);
            hear(region, &Control::RegisterAck(RegisterAck { session }))
        }
        Input::Refused(lapses, reason) => {
            let reason = match reason % 4 {
                0 => RegisterRefusal::SessionEnded,
                1 => RegisterRefusal::UnknownType,
                2 => RegisterRefusal::Full,
                _ => RegisterRefusal::Claims,
            };
            let session = life(lapses);
            let refused = RegisterRefused { session, reason };
            hear(region, &Control::RegisterRefused(refused))
        }
        Input::Leader(term) => {
            let leader = term.map(|term| Leader {
                node: LEADER,
                term: Term(term),
            });
            region.handle_leader(at, leader);
            String::new()
        }
        Input::Lease(until) => {
            let until = until.map(|until| {
                if until % 2 == 0 {
                    Instant::FAR_FUTURE
                } else {
                    at.after(Duration::from_micros(u64::from(until % 500_000)))
                }
            });
            region.handle_lease(at, until);
            String::new()
        }
        Input::Lapse(lapses) => {
            region.handle_lapse(at, lapses);
            String::new()
        }
        Input::Member(node, incarnation) => {
            let change = Member {
                node: NodeId(node),
                incarnation: Incarnation(incarnation),
                ..member(B)
            };
            format!(
                "{:?}",
                region.handle_member(at, MemberChange::Member(change))
            )
        }
        Input::Removed(node, incarnation) => {
            let change = MemberChange::Removed {
                node: NodeId(node),
                incarnation: Incarnation(incarnation),
                cause: crate::membership::RemovalCause::Left,
            };
            format!("{:?}", region.handle_member(at, change))
        }
        Input::Congestion(node, congested) => {
            region.handle_congestion(at, NodeId(node), congested);
            String::new()
        }
        Input::Started(shard, r) => {
            region.handle_shard_started(at, ShardId(shard), round(r));
            String::new()
        }
        Input::GiveBack(shard, r, node) => {
            let origin = if node == A.0 {
                Origin::Local
            } else {
                Origin::Remote(NodeId(node))
            };
            let given = region.give_back(at, ShardId(shard), round(r), origin, number);
            format!("{given:?}")
        }
        Input::Stopped(shard, r, forced) => {
            region.handle_shard_stopped(at, ShardId(shard), round(r), forced);
            String::new()
        }
        Input::FlushPaths => {
            region.flush_paths(at);
            String::new()
        }
        Input::Stop => {
            region.stop(at);
            String::new()
        }
        Input::Timeout => {
            region.handle_timeout(at);
            String::new()
        }
        Input::Pass(millis) => {
            *now = now.after(Duration::from_micros(u64::from(millis) * 37));
            region.handle_timeout(*now);
            format!("{:?}", region.poll_timeout())
        }
        Input::Poll(count) => (0..count % 16)
            .map_while(|_| Some(format!("{:?};", region.poll_command()?)))
            .collect(),
    }
}

fn small() -> RegionConfig {
    RegionConfig::new("cart")
        .with_shard_count(4)
        .with_buffer(9)
        .with_buffer_per_shard(5)
        .with_return_window(3)
        .with_seed(5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    #[test]
    fn anything_may_be_said_to_a_region_and_its_tables_agree(
        inputs in prop::collection::vec(input(), 0..300),
        stops in any::<bool>(),
    ) {
        let mut now = at(5000);
        let start = Session { incarnation: Incarnation(1000), lapses: 0, starts: 0 };
        let storage = HeapStorage::new(4, 3, 12);
        let mut heap = Region::new(now, A, start, small(), storage).unwrap();
        let storage = ArrayStorage::<u32, 4, 3, 12>::new();
        let mut array = Region::new(now, A, start, small(), storage).unwrap();
        let mut entered = 0u32;
        let mut first = vec![
            Input::Lease(Some(0)),
            Input::Leader(Some(5)),
            Input::Member(2, 1),
            Input::Member(3, 1),
            Input::Ack(0),
        ];
        first.extend(inputs);
        if stops {
            first.push(Input::Stop);
            for shard in 0..4 {
                first.extend((0..6).map(|round| Input::Stopped(shard, round, false)));
            }
            first.push(Input::Pass(1));
            first.extend([Input::Poll(15), Input::Poll(15), Input::Poll(15), Input::Poll(15)]);
        }
        for (number, input) in (0..).zip(&first) {
            let mut same = now;
            let trace = apply(&mut heap, &mut now, number, input);
            let other = apply(&mut array, &mut same, number, input);
            prop_assert_eq!(trace, other);
            prop_assert_eq!(heap.poll_timeout(), array.poll_timeout());
            heap.validate();
            entered += 1;
        }
        prop_assert_eq!(entered as usize, first.len());
        if stops {
            prop_assert_eq!(heap.buffered(), 0);
            prop_assert_eq!(heap.hosted(), 0);
            prop_assert!(heap.is_settled());
        }
    }
}
