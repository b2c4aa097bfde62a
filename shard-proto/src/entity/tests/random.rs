//! Any inputs in any order.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::super::{EntityConfig, Passivation, StartRate};
use super::harness::ms;
use super::world::{Act, KEYS, Op, World};

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => Just(Act::Work),
        2 => Just(Act::Fail),
        1 => Just(Act::Die),
        1 => Just(Act::Leave),
        1 => Just(Act::Passivate),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (0..KEYS).prop_map(Op::Send),
        8 => (0..KEYS).prop_map(Op::Direct),
        20 => (1usize..8).prop_map(Op::Poll),
        25 => (0usize..8, act()).prop_map(|(at, act)| Op::Act(at, act)),
        8 => (0u64..60).prop_map(Op::Pass),
        5 => (0usize..3).prop_map(Op::Start),
        2 => (0usize..3).prop_map(Op::Stop),
        1 => (0usize..3).prop_map(Op::Abort),
        1 => (0usize..3).prop_map(Op::Abandon),
        8 => prop::bool::weighted(0.7).prop_map(Op::Answer),
        3 => (0usize..3).prop_map(Op::Load),
    ]
}

fn config() -> impl Strategy<Value = EntityConfig> {
    let passivation = prop_oneof![
        Just(Passivation::LeastRecentlyUsed),
        Just(Passivation::LeastFrequentlyUsed),
        Just(Passivation::SegmentedLru {
            proportions: vec![0.4, 0.6]
        }),
    ];
    let rate = prop_oneof![
        Just(StartRate::AtOnce),
        Just(StartRate::PerInterval {
            count: 2,
            interval: ms(20)
        }),
    ];
    let idle = prop_oneof![3 => Just(ms(100)), 1 => Just(ms(0))];
    (
        passivation,
        rate,
        idle,
        1u32..6,
        0u32..4,
        any::<bool>(),
        any::<u64>(),
    )
        .prop_map(|(passivation, rate, idle, max, restarts, remember, seed)| {
            EntityConfig::new()
                .with_passivation(passivation)
                .with_start_rate(rate)
                .with_passivate_after(idle)
                .with_max_entities(max)
                .with_restarts(restarts, ms(200))
                .with_pause(ms(4), ms(60))
                .with_remember(remember)
                .with_keep(12)
                .with_keep_per_shard(7)
                .with_seed(seed)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::testing::cases(128), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_doubled_or_left_waiting(
        config in config(),
        ops in prop::collection::vec(op(), 0..400),
    ) {
        let mut world = World::new(config);
        for shard in 0..3 {
            world.step(Op::Start(shard));
        }
        for op in ops {
            world.step(op);
        }
        world.settle();
    }

    #[test]
    fn polled_at_once_or_late_makes_no_difference_to_what_holds(
        config in config(),
        ops in prop::collection::vec(op(), 0..200),
        late in any::<bool>(),
    ) {
        let mut world = World::new(config);
        world.step(Op::Start(0));
        let ops: Vec<_> = ops.into_iter().filter(|op| !late || !matches!(op, Op::Poll(_))).collect();
        for op in ops {
            world.step(op);
            if !late {
                world.step(Op::Poll(1000));
            }
        }
        world.settle();
    }
}
