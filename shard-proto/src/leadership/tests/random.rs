//! Random faults, then calm: exactly one leader, which everybody follows.

use proptest::prelude::*;

use super::world::{World, ms};
use crate::membership::RemovalCause;

#[derive(Clone, Debug)]
enum Fault {
    Run(u64),
    Stop(usize),
    Go(usize),
    Cut(usize, usize),
    Heal,
    Kill(usize, u64),
    KillUnnoticed(usize),
    Restart(usize),
    Noise(u64, u64, u64),
}

const NODES: usize = 5;

fn fault() -> impl Strategy<Value = Fault> {
    let node = 0..NODES;
    prop_oneof![
        6 => (1u64..3_000).prop_map(Fault::Run),
        1 => node.clone().prop_map(Fault::Stop),
        1 => node.clone().prop_map(Fault::Go),
        2 => (node.clone(), node.clone()).prop_map(|(a, b)| Fault::Cut(a, b)),
        1 => Just(Fault::Heal),
        1 => (node.clone(), 0u64..1_000).prop_map(|(i, within)| Fault::Kill(i, within)),
        1 => node.clone().prop_map(Fault::KillUnnoticed),
        2 => node.prop_map(Fault::Restart),
        1 => (0u64..500, 0u64..500, 0u64..700).prop_map(|(l, d, t)| Fault::Noise(l, d, t)),
    ]
}

fn cause(world: &mut World, fault: &Fault) {
    match *fault {
        Fault::Run(time) => world.run(ms(time)),
        Fault::Stop(i) => world.hosts[i].stopped = true,
        Fault::Go(i) => world.hosts[i].stopped = false,
        Fault::Cut(a, b) => {
            world.cut.insert((a, b));
        }
        Fault::Heal => world.cut.clear(),
        Fault::Kill(i, within) => {
            if world.hosts[i].alive {
                world.kill(i);
                let gone = world.gone(i, RemovalCause::Down);
                world.spread(i, gone, within);
            }
        }
        Fault::KillUnnoticed(i) => world.kill(i),
        Fault::Restart(i) => {
            if !world.hosts[i].alive {
                world.restart(i);
                know_each_other(world);
            }
        }
        Fault::Noise(loss, doubled, delay) => {
            (world.loss, world.doubled, world.delay) = (loss, doubled, (1, 1 + delay));
        }
    }
}

fn know_each_other(world: &mut World) {
    let alive: std::vec::Vec<usize> = (0..NODES).filter(|i| world.hosts[*i].alive).collect();
    world.introduce(&alive);
}

fn calm_down(world: &mut World) {
    world.cut.clear();
    (world.loss, world.doubled, world.delay) = (0, 0, (1, 10));
    // A node that starts alone does not lead; two do.
    for i in 0..2 {
        if !world.hosts[i].alive {
            world.restart(i);
        }
    }
    for i in 0..NODES {
        world.hosts[i].stopped = false;
        if !world.hosts[i].alive {
            let gone = world.gone(i, RemovalCause::Down);
            world.spread(i, gone, 500);
        }
    }
    know_each_other(world);
    world.run(ms(15_000));
    let leader = world.agreed();
    let reigns = world.reigns.len();
    world.run(ms(20_000));
    assert_eq!(world.agreed(), leader);
    assert_eq!(world.reigns.len(), reigns, "the lead goes on moving");
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: crate::testing::cases(48),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn one_leader_after_any_faults(
        seed in any::<u64>(),
        skews in prop::array::uniform5(-3i64..4),
        faults in prop::collection::vec(fault(), 0..40),
    ) {
        let mut world = World::cluster(seed, NODES);
        for (host, skew) in world.hosts.iter_mut().zip(skews) {
            host.skew = skew;
        }
        for fault in &faults {
            cause(&mut world, fault);
        }
        calm_down(&mut world);
    }
}
