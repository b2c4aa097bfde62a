//! Restarts, pauses, parking.

use alloc::format;
use alloc::vec::Vec;

use super::super::{End, EntityPhase};
use super::harness::{Host, config, ms};

#[test]
fn a_failed_entity_starts_again_with_what_was_left() {
    let mut host = Host::new(config());
    host.run("a");
    host.run("b");
    host.ended("a", End::Failed, &[2, 3]);
    assert_eq!(host.phase("a"), Some(EntityPhase::Waiting));
    assert_eq!(host.send("a", 4), "kept");
    assert!(host.all().is_empty());
    let pause = host.wait().unwrap();
    assert!(pause >= ms(5) && pause <= ms(10), "{pause:?}");
    host.pass(pause);
    let said = [
        "start a",
        "deliver a 2",
        "deliver a 3",
        "deliver a 4",
        "publish a",
    ];
    assert_eq!(host.all(), said);
    // Its neighbour is untouched.
    assert_eq!(host.send("b", 1), "mailbox 1");
    assert_eq!(host.it.stats().restarts, 1);
    assert_eq!(host.it.stats().failures, 1);
}

#[test]
fn pauses_double_and_differ() {
    let mut host = Host::new(config().with_restarts(100, ms(60_000)));
    let keys: Vec<_> = (0..20).map(|key| format!("{key}")).collect();
    for key in &keys {
        host.run(key);
    }
    for failure in 0..14u32 {
        let mut pauses = Vec::new();
        for key in &keys {
            host.ended(key, End::Failed, &[]);
            let slot = host
                .it
                .slots
                .iter()
                .find(|slot| slot.key == crate::node::EntityKey::from(&**key));
            pauses.push(slot.unwrap().at.since(host.now));
        }
        let full = ms(10 * (1 << failure.min(20))).min(ms(10_000));
        assert!(
            pauses
                .iter()
                .all(|pause| *pause >= full / 2 && *pause <= full)
        );
        pauses.sort();
        pauses.dedup();
        assert!(
            pauses.len() > 10,
            "what failed together comes back together"
        );
        host.pass(full);
        host.all();
    }
}

#[test]
fn a_success_is_forgiven() {
    // Used after it started.
    let mut host = Host::new(config().with_restarts(2, ms(60_000)));
    host.run("a");
    for _ in 0..10 {
        host.ended("a", End::Failed, &[1]);
        let pause = host.wait().unwrap();
        assert!(pause <= ms(10), "{pause:?}");
        host.pass(pause);
        host.all();
        host.started("a");
        host.touched("a");
    }
    // Only started: not a success.
    for _ in 0..3 {
        assert_ne!(host.phase("a"), Some(EntityPhase::Parked));
        host.ended("a", End::Failed, &[1]);
        host.pass(ms(1000));
        host.all();
        if host.phase("a") == Some(EntityPhase::Starting) {
            host.started("a");
        }
    }
    assert_eq!(host.phase("a"), Some(EntityPhase::Parked));

    // Without failure for the whole window.
    let mut host = Host::new(config().with_restarts(2, ms(60_000)));
    host.run("a");
    for _ in 0..10 {
        host.ended("a", End::Failed, &[1]);
        let pause = host.wait().unwrap();
        assert!(pause <= ms(10), "{pause:?}");
        host.pass(pause);
        host.all();
        host.started("a");
        host.pass(ms(60_000));
    }
    assert_eq!(host.it.stats().parked, 0);
}

#[test]
fn what_fails_too_often_is_parked_until_a_message_after_the_window() {
    let mut host = Host::new(config().with_restarts(2, ms(60_000)));
    host.send("a", 1);
    for _ in 0..2 {
        assert_eq!(host.all()[0], "start a");
        host.ended("a", End::Failed, &[1]);
        host.pass(ms(100));
    }
    assert_eq!(host.all()[0], "start a");
    host.ended("a", End::Failed, &[1, 2]);
    assert_eq!(host.phase("a"), Some(EntityPhase::Parked));
    assert_eq!(host.send("a", 3), "Parked 3");
    assert_eq!(host.all(), ["reject a 1 Parked", "reject a 2 Parked"]);
    assert_eq!(host.send("a", 4), "Parked 4");
    assert_eq!(host.it.stats().parked, 1);
    assert_eq!(host.it.stats().refused_parked, 4);
    host.pass(ms(59_999));
    assert_eq!(host.send("a", 5), "Parked 5");
    assert_eq!(host.wait(), Some(ms(1)));
    // Also if nobody has said yet that the time is over.
    host.now = host.now.after(ms(1));
    assert_eq!(host.send("a", 6), "kept");
    assert_eq!(host.all(), ["start a", "deliver a 6", "publish a"]);
    // It has its restarts back.
    host.ended("a", End::Failed, &[]);
    assert_eq!(host.phase("a"), Some(EntityPhase::Waiting));
}

#[test]
fn a_parked_entity_costs_nothing_later() {
    let mut host = Host::new(config().with_restarts(0, ms(1000)));
    host.run("a");
    host.run("b");
    host.ended("a", End::Failed, &[]);
    host.ended("b", End::Failed, &[1]);
    host.pass(ms(1000));
    assert_eq!(host.phase("a"), None);
    // This one still has something to say.
    assert_eq!(host.phase("b"), Some(EntityPhase::Parked));
    assert_eq!(host.send("b", 2), "Parked 2");
    assert_eq!(host.all(), ["reject b 1 Parked"]);
    assert_eq!(host.phase("b"), None);
    assert_eq!(host.it.used(), 0);
}

#[test]
fn parked_entities_keep_nobody_from_starting() {
    let restarts = config().with_max_entities(2).with_restarts(0, ms(60_000));
    let mut host = Host::new(restarts);
    for (key, rest) in [("a", &[][..]), ("b", &[1]), ("c", &[]), ("d", &[])] {
        host.run(key);
        host.ended(key, End::Failed, rest);
        host.all();
    }
    // As many stay parked as may live; who was parked first is forgotten first.
    let parked = |host: &Host| {
        let keys = ["a", "b", "c", "d"].into_iter();
        keys.filter(|key| host.phase(key) == Some(EntityPhase::Parked))
            .collect::<Vec<_>>()
    };
    assert_eq!(parked(&host), ["c", "d"]);
    assert_eq!(host.it.stats().parked_forgotten, 2);
    assert_eq!(host.send("d", 2), "Parked 2");
    assert_eq!(host.it.used(), 0);
    // All the room there is goes to others, the forgotten one among them.
    for key in ["e", "f", "g", "a"] {
        assert_eq!(host.send(key, 0), "kept");
    }
    assert_eq!(host.send("h", 0), "TooMany 0");
    host.all();
    // What is parked is still, also while it has to wait for room.
    assert_eq!(host.send("c", 2), "Parked 2");
    host.now = host.now.after(ms(60_000));
    assert_eq!(host.send("c", 2), "TooMany 2");
    host.ended("e", End::Failed, &[]);
    assert_eq!(parked(&host), ["d"]);
    assert_eq!(host.send("d", 2), "kept");
    assert_eq!(host.all(), ["start d", "deliver d 2", "publish d"]);
}

#[test]
fn what_is_rejected_for_a_parked_entity_comes_before_it_rests() {
    let mut host = Host::new(config().with_max_entities(1).with_restarts(0, ms(1000)));
    host.run("a");
    host.ended("a", End::Failed, &[1, 2]);
    assert_eq!(host.it.used(), 1);
    assert_eq!(host.say().unwrap(), "reject a 1 Parked");
    assert_eq!(host.it.used(), 1);
    assert_eq!(host.say().unwrap(), "reject a 2 Parked");
    assert_eq!(host.it.used(), 0);
    // Its shard stops: it goes with it.
    host.stop();
    assert_eq!(host.all(), ["stopped 7"]);
    assert_eq!(host.phase("a"), None);
}

#[test]
fn slow_failures_are_not_too_many() {
    let mut host = Host::new(config().with_restarts(2, ms(1000)));
    host.send("a", 1);
    for _ in 0..20 {
        assert_eq!(host.all()[0], "start a");
        host.pass(ms(600));
        host.ended("a", End::Failed, &[1]);
        assert_eq!(host.phase("a"), Some(EntityPhase::Waiting));
        let pause = host.wait().unwrap();
        host.pass(pause);
    }
}

#[test]
fn an_entity_that_fails_while_it_stops_is_gone() {
    let mut host = Host::new(config());
    host.run("a");
    host.passivate("a");
    host.all();
    host.ended("a", End::Failed, &[]);
    assert_eq!(host.phase("a"), None);
    // With messages left it is a failure like any other.
    host.run("b");
    host.passivate("b");
    host.all();
    host.ended("b", End::Failed, &[1]);
    assert_eq!(host.phase("b"), Some(EntityPhase::Waiting));
}

#[test]
fn a_killed_task_is_a_failure() {
    let mut host = Host::new(config());
    host.run("a");
    host.ended("a", End::Aborted, &[]);
    assert_eq!(host.phase("a"), Some(EntityPhase::Waiting));
}
