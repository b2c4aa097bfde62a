//! Starting, being idle, stopping.

use alloc::vec::Vec;
use core::time::Duration;

use super::super::slot::Slot;
use super::super::{ConfigError, End, EntityConfig, EntityPhase, Passivation, StartRate};
use super::harness::{Host, config, ms};
use crate::node::EntityKey;
use crate::{ShardId, micros};

#[test]
#[cfg(target_pointer_width = "64")]
fn a_slot_is_small() {
    assert_eq!(size_of::<Slot>(), 104);
}

#[test]
fn kept_messages_are_in_the_mailbox_before_callers_find_it() {
    let mut host = Host::new(config());
    assert_eq!(host.send("a", 1), "kept");
    assert_eq!(host.send("a", 2), "kept");
    assert_eq!(host.say().unwrap(), "start a");
    // It has a mailbox by now, but what is kept comes first.
    assert_eq!(host.send("a", 3), "kept");
    let rest = ["deliver a 1", "deliver a 2", "deliver a 3", "publish a"];
    assert_eq!(host.all(), rest);
    assert_eq!(host.send("a", 4), "mailbox 4");
    host.started("a");
    assert_eq!(host.send("a", 5), "mailbox 5");
    assert!(host.all().is_empty());
    assert_eq!(host.it.kept(), 0);
}

#[test]
fn entities_take_turns() {
    let mut host = Host::new(config());
    for (key, payload) in [("a", 1), ("a", 2), ("b", 3)] {
        host.send(key, payload);
    }
    let said = [
        "start a",
        "start b",
        "deliver a 1",
        "deliver b 3",
        "deliver a 2",
        "publish b",
        "publish a",
    ];
    assert_eq!(host.all(), said);
}

#[test]
fn what_is_not_used_is_passivated() {
    let mut host = Host::new(config().with_passivate_after(ms(1000)));
    host.run("a");
    host.pass(ms(400));
    host.run("b");
    host.pass(ms(400));
    host.touched("a");
    host.run("c");
    // Messages that the core sees are uses, too.
    host.pass(ms(100));
    assert_eq!(host.send("c", 1), "mailbox 1");
    assert_eq!(host.wait(), Some(ms(500)));
    host.pass(ms(500));
    assert_eq!(host.all(), ["close b"]);
    assert_eq!(host.phase("b"), Some(EntityPhase::Passivating));
    host.ended("b", End::Stopped, &[]);
    assert_eq!(host.phase("b"), None);
    host.pass(ms(400));
    assert_eq!(host.all(), ["close a"]);
    assert_eq!(host.wait(), Some(ms(100)));
    assert_eq!(host.it.stats().passivated_idle, 2);
    assert_eq!(host.it.running(), 2);
    assert_eq!(host.it.live(super::harness::S), 2);
    assert_eq!(host.it.live(ShardId(1)), 0);
}

#[test]
fn never_is_a_way_to_be_idle() {
    let mut host = Host::new(config().with_passivate_after(Duration::ZERO));
    host.run("a");
    assert_eq!(host.wait(), None);
    host.pass(ms(1_000_000_000));
    assert!(host.all().is_empty());
}

#[test]
fn idle_entities_are_taken_on_in_batches() {
    let mut host = Host::new(config().with_passivate_after(ms(1000)));
    for key in 0..300 {
        host.run(&alloc::format!("{key}"));
    }
    host.pass(ms(1000));
    assert_eq!(host.all().len(), 256);
    assert_eq!(host.wait(), Some(ms(0)));
    host.pass(ms(0));
    assert_eq!(host.all().len(), 44);
}

#[test]
fn a_passivated_entity_with_messages_starts_anew() {
    let mut host = Host::new(config());
    host.run("a");
    let first = host.life("a");
    host.passivate("a");
    // Nobody was told to close the mailbox: callers may still find it.
    assert_eq!(host.send("a", 2), "mailbox 2");
    assert_eq!(host.all(), ["close a"]);
    assert_eq!(host.send("a", 3), "kept");
    assert_eq!(host.send("a", 4), "kept");
    host.ended("a", End::Stopped, &[1, 2]);
    let said = [
        "start a",
        "deliver a 1",
        "deliver a 2",
        "deliver a 3",
        "deliver a 4",
        "publish a",
    ];
    assert_eq!(host.all(), said);
    let second = host.life("a");
    assert_eq!(second.index, first.index);
    assert_eq!(second.generation, first.generation + 1);
    // What the first life still says is not heard.
    host.it.started(host.now, first);
    assert_eq!(host.phase("a"), Some(EntityPhase::Starting));
    assert_eq!(host.it.ended(host.now, first, End::Failed, [9]), Err([9]));
    assert_eq!(host.it.undelivered(host.now, first, 9), Err(9));
    host.it.passivate(host.now, first);
    assert_eq!(host.it.stats().passivated_asked, 1);
    assert_eq!(host.it.stats().handed_back, 2);
}

#[test]
fn a_starting_entity_is_passivated_once_it_has_started() {
    let mut host = Host::new(config());
    host.send("a", 1);
    assert_eq!(host.all(), ["start a", "deliver a 1", "publish a"]);
    host.passivate("a");
    host.passivate("a");
    assert!(host.all().is_empty());
    assert_eq!(host.send("a", 2), "mailbox 2");
    host.started("a");
    assert_eq!(host.all(), ["close a"]);
    assert_eq!(host.it.stats().passivated_asked, 1);
    // Also when it has not even been started.
    host.remembered("b");
    assert_eq!(host.say().unwrap(), "start b");
    host.passivate("b");
    assert_eq!(host.all(), ["publish b"]);
    host.started("b");
    assert_eq!(host.all(), ["close b"]);
}

#[test]
fn an_entity_may_stop_by_itself() {
    let mut host = Host::new(config());
    host.run("a");
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.phase("a"), None);
    host.run("b");
    host.ended("b", End::Stopped, &[5]);
    assert_eq!(host.all(), ["start b", "deliver b 5", "publish b"]);
}

#[test]
fn what_finds_the_mailbox_closed_keeps_its_place() {
    let mut host = Host::new(config());
    for payload in 1..=3 {
        host.send("a", payload);
    }
    assert_eq!(host.say().unwrap(), "start a");
    assert_eq!(host.say().unwrap(), "deliver a 1");
    assert_eq!(host.say().unwrap(), "deliver a 2");
    // The task is gone; it had taken 1.
    let life = host.life("a");
    assert_eq!(host.it.undelivered(host.now, life, 2), Ok(()));
    host.it.validate();
    assert!(host.all().is_empty());
    assert_eq!(host.send("a", 4), "kept");
    host.ended("a", End::Stopped, &[1]);
    let said = [
        "start a",
        "deliver a 1",
        "deliver a 2",
        "deliver a 3",
        "deliver a 4",
        "publish a",
    ];
    assert_eq!(host.all(), said);
}

#[test]
fn slots_are_used_again() {
    let mut host = Host::new(config());
    let mut seen = Vec::new();
    for key in ["a", "b", "c"] {
        host.run(key);
        let life = host.life(key);
        assert!(!seen.contains(&life));
        assert_eq!(life.index, 0);
        seen.push(life);
        host.ended(key, End::Stopped, &[]);
    }
    // ... also after everything was forgotten.
    host.run("d");
    host.it.end();
    host.it.validate();
    assert!(host.all().is_empty());
    assert_eq!(host.send("d", 1), "NotHosted 1");
    host.it
        .start_shard(host.now, super::harness::S, super::harness::epoch(1));
    host.run("e");
    assert!(!seen.contains(&host.life("e")));
}

#[test]
fn time_does_not_run_backwards() {
    let mut host = Host::new(config().with_passivate_after(ms(1000)));
    host.run("a");
    let before = host.now;
    host.pass(ms(600));
    host.touched("a");
    host.now = before;
    host.touched("a");
    assert_eq!(host.it.poll_timeout(), Some(before.after(ms(1600))));
}

#[test]
fn a_key_of_any_length_is_found() {
    let mut host = Host::new(config());
    for len in [0, 1, 7, 8, 9, 16, 38, 39, 1000] {
        let key = "k".repeat(len);
        assert_eq!(host.send(&key, 1), "kept", "{len}");
        assert_eq!(host.it.find(&EntityKey::from(&*key)), Some(host.life(&key)));
    }
    assert_eq!(host.all().len(), 9 * 3);
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let day = EntityConfig::MAX_INTERVAL;
    let more = day + ms(1);
    let bad = |count, interval| StartRate::PerInterval { count, interval };
    let proportions = alloc::vec![0.5, 0.6];
    let cases = [
        (
            config().with_passivate_after(more),
            ConfigError::PassivateAfter,
        ),
        (config().with_max_entities(0), ConfigError::MaxEntities),
        (
            config().with_max_entities(1 << 29),
            ConfigError::MaxEntities,
        ),
        (
            config().with_passivation(Passivation::SegmentedLru { proportions }),
            ConfigError::Proportions,
        ),
        (config().with_keep(0), ConfigError::Keep),
        (config().with_keep(u32::MAX), ConfigError::Keep),
        (config().with_keep_per_shard(0), ConfigError::KeepPerShard),
        (config().with_pause(ms(0), ms(1)), ConfigError::Pause),
        (config().with_pause(ms(2), ms(1)), ConfigError::Pause),
        (config().with_pause(ms(2), more), ConfigError::Pause),
        (config().with_restarts(1, ms(0)), ConfigError::RestartWindow),
        (
            config().with_start_rate(bad(0, day)),
            ConfigError::StartRate,
        ),
        (
            config().with_start_rate(bad(1, more)),
            ConfigError::StartRate,
        ),
    ];
    for (config, error) in cases {
        assert_eq!(config.validate(), Err(error));
        let said = alloc::string::ToString::to_string(&error);
        assert!(said.starts_with(error.field()), "{said}");
    }
    assert_eq!(config().with_passivate_after(day).validate(), Ok(()));
    assert!(micros(day) > 0);
}
