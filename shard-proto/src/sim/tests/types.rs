//! Hosts with several types, which share one lease.

use super::script::{Script, quiet};
use crate::sim::{Fault, HeapStore, World};

/// A host lost its lease. One of its types is registered again, the other one is stopped before it is, and starts when
/// the leader has given up waiting for it.
fn types_come_apart(seed: u64, after: u64) -> (Script, u8) {
    let config = quiet().with_types(2).with_clock_rate(0);
    let mut script = Script::steady(config, seed);
    let (leader, _) = script.leader();
    // It does not vote.
    let (host, ty) = (3, 1);
    for (from, to) in [(host, leader), (leader, host)] {
        script.fault(Fault::Cut { from, to });
    }
    script.until(4_000, |world| !has_lease(world, host));
    script.fault(Fault::StopRegion { host, ty });
    script.fault(Fault::HealAll);
    script.pass(after);
    script.fault(Fault::StartRegion { host, ty });
    (script, host)
}

fn has_lease(world: &World<HeapStore>, host: u8) -> bool {
    let machine = world.machine(host).unwrap();
    machine.leadership().lease_until().is_some()
}

/// Whoever has registered learns at once that it was in vain. If each type learned that with its next repetition, the
/// registration of one could be over whenever the other one comes.
#[test]
fn types_that_register_apart_come_together() {
    for seed in 0..10 {
        for after in [100, 1_000, 2_300, 2_600, 2_900] {
            let (mut script, host) = types_come_apart(seed, after);
            let took = script.until(10_000, |world| has_lease(world, host));
            assert!(took < 2_500, "seed {seed}, after {after} ms: {took} ms");
            script.pass(20_000);
            script.finish();
        }
    }
}
