//! Random worlds with a coordinator that moves shards about.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;

use super::world::*;
use crate::region::RegionConfig;
use crate::wire::control::{HandOff, Previous, ShardHome, ShardMapUpdate};
use crate::wire::{Control, HomeEntry, HomesBuilder};
use crate::{Epoch, NodeId, ShardId, Term};

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
    match kind % 25 {
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
        24 if alive => {
            // As before a leave; it goes on all the same.
            let now = world.now;
            world.region(node).flush_paths(now);
        }
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
pub(super) fn stop_one(world: &mut World, node: NodeId, forced: bool) -> bool {
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
pub(super) fn accounted(world: &World) -> BTreeMap<(NodeId, u32), BTreeSet<u32>> {
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
pub(super) fn cases(default: u32) -> u32 {
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
