//! Who lives is written down.

use alloc::format;
use alloc::vec::Vec;

use super::super::{End, EntityConfig, EntityPhase, StartRate};
use super::harness::{Host, S, config, epoch, ms};
use crate::ShardId;
use crate::node::EntityKey;

fn remembering() -> EntityConfig {
    config().with_remember(true)
}

#[test]
fn a_start_waits_for_the_store() {
    let mut host = Host::new(remembering());
    host.send("a", 1);
    assert_eq!(host.phase("a"), Some(EntityPhase::Recording));
    assert_eq!(host.all(), ["record a true"]);
    assert_eq!(host.send("a", 2), "kept");
    assert!(host.all().is_empty());
    host.recorded("a", true, true);
    let said = ["start a", "deliver a 1", "deliver a 2", "publish a"];
    assert_eq!(host.all(), said);
    // Said twice, it is not heard.
    host.recorded("a", true, false);
    assert_eq!(host.phase("a"), Some(EntityPhase::Starting));
}

#[test]
fn a_store_that_fails_is_asked_again() {
    let mut host = Host::new(remembering());
    host.run("b");
    host.send("a", 1);
    host.all();
    let mut last = ms(0);
    for _ in 0..5 {
        host.recorded("a", true, false);
        assert!(host.all().is_empty());
        let pause = host.wait().unwrap();
        assert!(pause > last, "{pause:?} after {last:?}");
        host.pass(pause);
        last = pause;
        assert_eq!(host.all(), ["record a true"]);
    }
    assert_eq!(host.it.stats().record_failures, 5);
    // What runs is untouched.
    assert_eq!(host.send("b", 1), "mailbox 1");
    host.recorded("a", true, true);
    assert_eq!(host.all()[0], "start a");
}

#[test]
fn what_is_remembered_and_failed_too_often_starts_again_after_the_window() {
    let restarts = remembering()
        .with_max_entities(1)
        .with_restarts(0, ms(1000));
    let mut host = Host::new(restarts);
    host.run("a");
    for rest in [&[][..], &[1]] {
        host.ended("a", End::Failed, rest);
        assert_eq!(host.phase("a"), Some(EntityPhase::Parked));
        host.pass(ms(999));
        assert_eq!(host.phase("a"), Some(EntityPhase::Parked));
        if !rest.is_empty() {
            // Its window is over before what it had is rejected.
            host.pass(ms(1));
            assert_eq!(host.all(), ["reject a 1 Parked", "start a", "publish a"]);
            continue;
        }
        host.pass(ms(1));
        assert_eq!(host.all(), ["start a", "publish a"]);
        host.started("a");
    }
}

#[test]
fn what_is_remembered_and_parked_waits_for_room() {
    let restarts = remembering()
        .with_max_entities(1)
        .with_restarts(0, ms(1000));
    let mut host = Host::new(restarts);
    host.run("a");
    host.ended("a", End::Failed, &[]);
    for key in ["b", "c"] {
        host.send(key, 1);
        host.all();
    }
    host.pass(ms(1000));
    assert_eq!(host.phase("a"), Some(EntityPhase::Parked));
    let pause = host.wait();
    assert!(pause.is_some(), "it is not forgotten");
}

#[test]
fn a_passivated_entity_is_forgotten() {
    let mut host = Host::new(remembering());
    host.run("a");
    host.passivate("a");
    assert_eq!(host.all(), ["close a"]);
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.phase("a"), Some(EntityPhase::Forgetting));
    assert_eq!(host.all(), ["record a false"]);
    host.recorded("a", false, false);
    let pause = host.wait().unwrap();
    host.pass(pause);
    assert_eq!(host.all(), ["record a false"]);
    // An answer to something else is not heard.
    host.recorded("a", true, true);
    assert_eq!(host.phase("a"), Some(EntityPhase::Forgetting));
    host.recorded("a", false, true);
    assert_eq!(host.phase("a"), None);
    assert_eq!(host.it.used(), 0);
}

#[test]
fn a_crashed_one_is_not() {
    let mut host = Host::new(remembering().with_restarts(1, ms(60_000)));
    host.run("a");
    host.ended("a", End::Failed, &[]);
    host.pass(ms(10));
    assert_eq!(host.all(), ["start a", "publish a"]);
    host.ended("a", End::Failed, &[]);
    assert_eq!(host.phase("a"), Some(EntityPhase::Parked));
    host.pass(ms(60_000));
    assert_eq!(host.all(), ["start a", "publish a"]);
    host.ended("a", End::Stopped, &[]);
    host.all();
    host.recorded("a", false, true);
    // Nor one that crashed on its way out.
    host.run("b");
    host.passivate("b");
    host.all();
    host.ended("b", End::Failed, &[]);
    assert!(host.all().is_empty());
    assert_eq!(host.it.used(), 0);
}

#[test]
fn a_message_for_one_that_is_being_forgotten() {
    // Before the store is told: it need not know.
    let mut host = Host::new(remembering());
    host.run("a");
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.send("a", 1), "kept");
    assert_eq!(host.all(), ["start a", "deliver a 1", "publish a"]);
    // After that: told again, once it has answered.
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.all(), ["record a false"]);
    assert_eq!(host.send("a", 2), "kept");
    assert!(host.all().is_empty());
    host.recorded("a", false, true);
    assert_eq!(host.all(), ["record a true"]);
    host.recorded("a", true, true);
    assert_eq!(host.all(), ["start a", "deliver a 2", "publish a"]);
    // Nobody knows what the store has.
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.all(), ["record a false"]);
    host.recorded("a", false, false);
    assert_eq!(host.send("a", 3), "kept");
    let pause = host.wait().unwrap();
    host.pass(pause);
    assert_eq!(host.all(), ["record a true"]);
}

#[test]
fn remembered_entities_start_at_a_rate() {
    let rate = StartRate::PerInterval {
        count: 3,
        interval: ms(100),
    };
    let mut host = Host::idle(remembering().with_start_rate(rate));
    for key in 0..8 {
        host.remembered(&format!("{key}"));
    }
    // Not before the shard is served.
    assert!(host.all().is_empty());
    assert_eq!(host.wait(), None);
    host.it.start_shard(host.now, S, epoch(1));
    assert_eq!(host.it.queued(), 8);
    let starts = |host: &mut Host| {
        let said = host.all();
        let starts = said.iter().filter_map(|said| said.strip_prefix("start "));
        starts.map(alloc::string::String::from).collect::<Vec<_>>()
    };
    assert_eq!(starts(&mut host), ["0", "1", "2"]);
    assert_eq!(host.wait(), Some(ms(100)));
    // A message does not wait for it, and does not count.
    assert_eq!(host.send("7", 1), "kept");
    assert_eq!(host.send("new", 1), "kept");
    assert_eq!(starts(&mut host), ["7"]);
    host.recorded("new", true, true);
    assert_eq!(starts(&mut host), ["new"]);
    host.pass(ms(100));
    assert_eq!(starts(&mut host), ["3", "4", "5"]);
    host.pass(ms(100));
    assert_eq!(starts(&mut host), ["6"]);
    assert_eq!(host.it.queued(), 0);
    assert_eq!(host.it.stats().starts_remembered, 7);
    // All of them live for the store: none is told.
    host.remembered("6");
    assert!(host.all().is_empty());
}

#[test]
fn live_traffic_comes_before_remembered_entities() {
    let mut host = Host::new(remembering().with_start_rate(StartRate::AtOnce));
    for key in 0..1000 {
        host.remembered(&format!("{key}"));
    }
    assert_eq!(host.say().unwrap(), "start 0");
    host.send("500", 9);
    host.send("live", 1);
    assert_eq!(host.say().unwrap(), "publish 0");
    let next = [host.say().unwrap(), host.say().unwrap()];
    assert_eq!(next, ["start 500", "record live true"]);
    assert_eq!(host.say().unwrap(), "deliver 500 9");
    host.all();
    assert_eq!(host.it.running(), 1000);
}

#[test]
fn shards_take_turns_in_starting() {
    let mut host = Host::new(remembering().with_start_rate(StartRate::AtOnce));
    for shard in [S, ShardId(8)] {
        host.it.start_shard(host.now, shard, epoch(1));
        for key in 0..3 {
            let key = EntityKey::from(&*format!("{shard}-{key}"));
            host.it.remembered(host.now, shard, epoch(1), key);
        }
    }
    let said = host.all();
    let starts: Vec<_> = said
        .iter()
        .filter_map(|said| said.strip_prefix("start "))
        .collect();
    assert_eq!(starts, ["7-0", "8-0", "7-1", "8-1", "7-2", "8-2"]);
}

#[test]
fn remembered_entities_wait_for_room() {
    let config = remembering().with_max_entities(2);
    let mut host = Host::new(config.with_start_rate(StartRate::AtOnce));
    host.run("a");
    for key in ["b", "c", "d", "e"] {
        host.remembered(key);
    }
    assert_eq!(host.it.stats().remembered_refused, 2);
    assert_eq!(host.all(), ["start b", "publish b"]);
    assert_eq!(host.it.queued(), 1);
    // Nobody goes for them ...
    host.started("b");
    host.pass(ms(1000));
    assert!(host.all().is_empty());
    // ... until there is room, or a message.
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.all(), ["record a false", "start c", "publish c"]);
    host.remembered("d");
    host.send("d", 1);
    assert_eq!(
        host.all(),
        ["close b", "start d", "deliver d 1", "publish d"]
    );
    // A failed one waits for room, too.
    host.ended("c", End::Failed, &[]);
    host.recorded("a", false, true);
    host.send("e", 1);
    host.all();
    host.recorded("e", true, true);
    host.all();
    host.pass(ms(10));
    assert_eq!(host.phase("c"), Some(EntityPhase::Queued));
}

#[test]
fn ids_of_other_allocations_are_not_taken() {
    let mut host = Host::new(remembering());
    let key = || EntityKey::from("a");
    host.it.remembered(host.now, S, epoch(2), key());
    host.stop();
    host.it.remembered(host.now, S, epoch(1), key());
    assert_eq!(host.it.stats().remembered_refused, 2);
    assert_eq!(host.all(), ["stopped 7"]);
}

#[test]
fn an_id_that_is_remembered_while_its_start_is_written() {
    let mut host = Host::new(remembering());
    host.send("a", 1);
    host.remembered("a");
    assert_eq!(host.all(), ["start a", "deliver a 1", "publish a"]);
    host.send("b", 1);
    assert_eq!(host.all(), ["record b true"]);
    // What is under way is waited for.
    host.remembered("b");
    assert!(host.all().is_empty());
    host.recorded("b", true, true);
    assert_eq!(host.all()[0], "start b");
}
