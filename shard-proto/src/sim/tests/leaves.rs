//! Hosts that leave while a link of theirs is full.

use super::script::{Script, ms, quiet};
use crate::sim::Fault;

/// A host leaves, and another one, to which it has sent and which has sent to it, hears nothing of it: its messages
/// wait for room, and so do the answers to the other's markers. Its type was started again while the link was full.
fn leaving_unheard(seed: u64) -> (Script, u8, u8) {
    let config = quiet()
        .with_shards(32)
        .with_window(1)
        .with_detection(ms(60_000), ms(60_000));
    let mut script = Script::steady(config, seed);
    let (leader, _) = script.leader();
    let leaves = script.follower();
    let deaf = script.another(&[leader, leaves]);
    let (left, heard) = (script.served_by(leaves), script.served_by(deaf));
    for _ in 0..2 {
        for shard in &left {
            script.send(deaf, *shard, 0).unwrap();
            script.pass(50);
        }
        script.send(leaves, heard[0], 0).unwrap();
        script.pass(50);
    }
    script.fault(Fault::Cut {
        from: leaves,
        to: deaf,
    });
    script.send(leaves, heard[0], 0).unwrap();
    script.pass(10);
    let (host, ty) = (leaves, 0);
    script.fault(Fault::StopRegion { host, ty });
    script.pass(3_000);
    script.fault(Fault::StartRegion { host, ty });
    script.pass(3_000);
    for _ in 0..10 {
        script.send(leaves, heard[0], 0).unwrap();
    }
    script.pass(10);
    script.fault(Fault::Leave { host: leaves });
    (script, leaves, deaf)
}

#[test]
fn what_waits_for_a_full_link_is_reported_when_the_time_to_leave_is_up() {
    for seed in 0..20 {
        let (mut script, leaves, deaf) = leaving_unheard(seed);
        script.pass(19_000);
        assert!(script.machine(leaves).is_some(), "it did not wait");
        // That nothing is lost is checked at its end.
        script.pass(3_000);
        assert!(script.machine(leaves).is_none());
        script.fault(Fault::Heal {
            from: leaves,
            to: deaf,
        });
        script.pass(10_000);
        script.finish();
    }
}

#[test]
fn what_waits_for_a_full_link_goes_out_before_a_host_has_left() {
    for seed in 0..20 {
        let (mut script, leaves, deaf) = leaving_unheard(seed);
        script.pass(5_000);
        script.fault(Fault::Heal {
            from: leaves,
            to: deaf,
        });
        script.until(10_000, |world| world.machine(leaves).is_none());
        script.pass(5_000);
        script.finish();
    }
}
