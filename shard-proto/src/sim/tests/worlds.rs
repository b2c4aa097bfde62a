//! Whole worlds with the faults of their seeds.

use alloc::boxed::Box;
use core::time::Duration;

use crate::allocation::Rendezvous;
use crate::leadership::Ownership;
use crate::sim::{
    ArrayStore, FaultKind, FaultProfile, HeapStore, Machine, Phase, Schedule, Shape, World,
    WorldConfig, minimise,
};

fn shorter(config: WorldConfig) -> WorldConfig {
    let calm = config.calm_for();
    config.with_phases(Duration::from_secs(15), calm)
}

#[test]
fn seeds_hold() {
    for seed in 0..20 {
        let world = World::<HeapStore>::new(WorldConfig::from_seed(seed), seed).unwrap();
        let report = world.run().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.delivered > 1_000, "seed {seed} delivers nothing");
    }
}

#[test]
fn seeds_hold_with_an_external_leader() {
    for seed in 0..10 {
        let config = WorldConfig::from_seed(seed).with_ownership(Ownership::External);
        let world = World::<HeapStore>::new(config, seed).unwrap();
        let report = world.run().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.delivered > 1_000, "seed {seed} delivers nothing");
    }
}

/// What was wrong with them: the world ended before a host heard that its life was over; what waited for room on a link
/// went to the next life of its receiver; so did what a host that was declared gone sent back; nobody stopped its shards
/// while a link was full; a type that started again was in an older session than the one before it.
#[test]
fn seeds_that_broke_a_promise_once() {
    let lease = [50_999, 62_516, 62_645, 62_756, 9_073_796].map(|seed| (seed, Ownership::Lease));
    for (seed, ownership) in lease.into_iter().chain([(72_575, Ownership::External)]) {
        let config = WorldConfig::from_seed(seed).with_ownership(ownership);
        let world = World::<HeapStore>::new(config, seed).unwrap();
        world.run().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// What was wrong with them: acknowledgements went over links that carry nothing, so that more came than can wait to go
/// back; a link that was full before its receiver became a member was taken for empty, and what was new overtook what
/// waited for room; markers that were repeated took the room of what goes back.
#[test]
fn hasty_seeds_that_broke_a_promise_once() {
    for seed in [8_040_021, 8_030_591, 8_040_032] {
        let config = WorldConfig::from_seed(seed).with_shape(Shape::Hasty);
        let world = World::<HeapStore>::new(config, seed).unwrap();
        world.run().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Two processes that restart at once may be a quorum that knows no term but by its clocks.
#[test]
fn clocks_apart_are_refused_where_processes_can_end() {
    let apart = WorldConfig::from_seed(1).with_wall_skew(Duration::from_secs(20));
    let refused = World::<HeapStore>::new(apart.clone(), 1).unwrap_err();
    assert_eq!(refused.field(), "wall_skew");
    let none = apart.clone().with_faults(FaultProfile::none());
    assert!(none.validate().is_ok());
    // A host that stands still for longer than others wait for it ends, too.
    let pauses = FaultProfile::none().with(FaultKind::Pause, 1);
    let pauses = apart.clone().with_faults(pauses);
    assert!(pauses.validate().is_err());
    let trust = apart.with_ownership(Ownership::Trust);
    assert!(trust.validate().is_ok());
    for seed in 0..20 {
        for shape in Shape::ALL {
            let config = WorldConfig::from_seed(seed).with_shape(shape);
            assert_eq!(config.validate(), Ok(()), "{} {seed}", shape.name());
        }
    }
    assert_eq!(WorldConfig::new().validate(), Ok(()));
    assert_eq!(WorldConfig::lan().validate(), Ok(()));
}

#[test]
fn arrays_and_the_heap_run_in_lock_step() {
    for seed in 0..50 {
        let config = shorter(WorldConfig::from_seed(seed));
        let mut heap = World::<HeapStore>::new(config.clone(), seed).unwrap();
        let mut array = World::<ArrayStore>::new(config, seed).unwrap();
        let mut steps = 0_u64;
        while heap
            .step()
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"))
        {
            assert!(array.step().unwrap());
            steps += 1;
            assert_eq!(heap.now(), array.now(), "seed {seed} step {steps}");
            assert_eq!(heap.trace(), array.trace(), "seed {seed} step {steps}");
        }
        assert!(!array.step().unwrap());
        assert_eq!(heap.report(), array.report());
    }
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    let run = || {
        let config = shorter(WorldConfig::from_seed(5));
        let mut world = World::<HeapStore>::new(config, 5).unwrap();
        while world.step().unwrap() {}
        (world.trace().hash(), world.report())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_strategy_of_ones_own() {
    for seed in 0..3 {
        let config = shorter(WorldConfig::from_seed(seed));
        let world = World::<HeapStore>::new(config, seed).unwrap();
        let world = world.strategy(|| Box::new(Rendezvous::new()));
        world.run().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn trust_breaks_a_promise_and_the_faults_for_it_are_few() {
    let trust = |seed| shorter(WorldConfig::from_seed(seed)).with_ownership(Ownership::Trust);
    let broken = (0..50).filter_map(|seed| {
        let world = World::<HeapStore>::new(trust(seed), seed).unwrap();
        world.run().err()
    });
    // Some break by the probe at the end, whatever went before.
    let found = broken.filter(|found| found.schedule.faults.len() > 60);
    let mut dropped = 0;
    for found in found.take(3) {
        let least = minimise::<HeapStore>(&trust(found.seed), &found).unwrap();
        assert_eq!(least.violation.name(), found.violation.name());
        dropped += found.schedule.faults.len() - least.schedule.faults.len();
        // It is a replay of its own.
        let schedule = least.schedule.clone();
        let again = World::<HeapStore>::with_schedule(trust(found.seed), found.seed, schedule);
        assert_eq!(again.unwrap().run().unwrap_err(), least);
    }
    assert!(dropped > 30, "{dropped}");
}

/// What is promised for after the faults is promised with everybody there: no fault that is drawn may keep a host away.
#[test]
fn after_the_faults_every_host_is_back() {
    for seed in 0..100 {
        // Those that leave seldom end before their time is up.
        let faults = FaultProfile::none()
            .with_every(Duration::from_millis(150))
            .with(FaultKind::Leave, 3)
            .with(FaultKind::Pause, 90)
            .with(FaultKind::Cut, 5)
            .with(FaultKind::HangStops, 3);
        let voters = [1, 3][seed as usize % 2];
        let config = WorldConfig::from_seed(seed)
            .with_voters(voters)
            .with_faults(faults);
        let config = config.with_probe(Duration::ZERO);
        let config = config
            .clone()
            .with_phases(Duration::from_secs(30), config.calm_for());
        let (hosts, time) = (0..config.nodes(), config.faulty_for() + config.bound());
        let mut world = World::<HeapStore>::new(config, seed).unwrap();
        world
            .run_for(time)
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        for host in hosts {
            let phase = world.machine(host).map(Machine::phase);
            assert_eq!(phase, Some(Phase::Running), "seed {seed}, host {host}");
        }
        world.run().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn without_faults_nothing_is_reported() {
    for seed in 0..5 {
        let config = shorter(WorldConfig::from_seed(seed))
            .with_faults(FaultProfile::none())
            .with_noise(0, 0, 0, Duration::ZERO)
            .with_probe(Duration::ZERO)
            .with_buffer(1024)
            .with_window(1024);
        let schedule = Schedule::draw(seed, &config);
        let world = World::<HeapStore>::with_schedule(config, seed, schedule).unwrap();
        let report = world.run().unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(report.reported.iter().sum::<u64>(), 0, "seed {seed}");
        assert_eq!(report.sent, report.delivered);
        assert!(report.moves > 0);
    }
}
