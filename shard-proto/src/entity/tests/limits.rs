//! Bounds: how many live, who goes, how much is kept.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::{End, EntityPhase, Passivation};
use super::harness::{Host, S, config, epoch, ms};
use crate::ShardId;

/// Uses an entity; who is passivated for it ends at once. Returns who that is.
fn use_it(host: &mut Host, id: u32) -> Vec<u32> {
    host.run(&format!("{id}"));
    let mut closed = Vec::new();
    // Closed, but not ended.
    for id in 0..100 {
        let key = format!("{id}");
        if host.phase(&key) == Some(EntityPhase::Passivating) {
            host.ended(&key, End::Stopped, &[]);
            closed.push(id);
        }
    }
    closed
}

fn use_all(host: &mut Host, ids: impl IntoIterator<Item = u32>) -> Vec<u32> {
    ids.into_iter().flat_map(|id| use_it(host, id)).collect()
}

fn live(host: &Host) -> Vec<u32> {
    let lives = |id: &u32| host.phase(&format!("{id}")) == Some(EntityPhase::Running);
    (0..100).filter(lives).collect()
}

fn ten(passivation: Passivation) -> Host {
    Host::new(config().with_max_entities(10).with_passivation(passivation))
}

fn range(from: u32, to: u32) -> Vec<u32> {
    (from..=to).collect()
}

#[test]
fn the_one_used_longest_ago_goes() {
    let mut host = ten(Passivation::LeastRecentlyUsed);
    for id in 1..=20 {
        let gone = use_it(&mut host, id);
        let expected: Vec<u32> = id
            .checked_sub(10)
            .filter(|id| *id > 0)
            .into_iter()
            .collect();
        assert_eq!(gone, expected);
    }
    assert_eq!(live(&host), range(11, 20));
    // Each is used again when the one ten before it in the order of use is to go.
    for id in 1..=20 {
        let gone = use_it(&mut host, id);
        assert_eq!(gone, [if id <= 10 { id + 10 } else { id - 10 }]);
    }
    assert_eq!(host.it.stats().passivated_limit, 30);
}

#[test]
fn the_one_used_least_often_goes_and_never_the_new_one() {
    let mut host = ten(Passivation::LeastFrequentlyUsed);
    use_all(&mut host, 1..=10);
    use_all(&mut host, 1..=9);
    assert_eq!(use_it(&mut host, 11), [10]);
    assert_eq!(use_it(&mut host, 12), [11]);
    assert_eq!(use_it(&mut host, 12), []);
    assert_eq!(use_it(&mut host, 13), [1]);
}

#[test]
fn segments_protect_what_is_used_again() {
    let mut host = ten(Passivation::SegmentedLru {
        proportions: alloc::vec![0.2, 0.8],
    });
    use_all(&mut host, 1..=20);
    assert_eq!(live(&host), range(11, 20));
    assert_eq!(use_all(&mut host, 11..=20), []);
    assert_eq!(use_all(&mut host, 1..=5), [11, 12, 1, 2, 3]);
}

#[test]
fn a_burst_never_passes_twice_the_limit() {
    let mut host = Host::new(config().with_max_entities(2));
    for (at, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
        assert_eq!(host.send(key, at as u32), "kept");
    }
    assert!(host.it.is_full());
    assert_eq!(host.send("e", 9), "TooMany 9");
    assert_eq!(host.it.stats().refused_too_many, 1);
    // All four start; two of them stop after that.
    let starts = host.all();
    assert_eq!(starts.len(), 12);
    for key in ["a", "b", "c", "d"] {
        host.started(key);
    }
    // ... when they have handled what they were started for.
    assert!(host.all().is_empty());
    for key in ["a", "b", "c", "d"] {
        host.touched(key);
    }
    assert_eq!(host.all(), ["close a", "close b"]);
    assert_eq!(host.send("e", 9), "TooMany 9");
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.send("e", 9), "kept");
    assert_eq!(
        host.all(),
        ["close c", "start e", "deliver e 9", "publish e"]
    );
}

#[test]
fn what_is_started_for_a_message_handles_one() {
    let mut host = Host::new(config().with_max_entities(1));
    host.send("a", 1);
    host.send("b", 2);
    host.all();
    host.started("a");
    host.started("b");
    assert_eq!(host.send("a", 3), "mailbox 3");
    assert!(host.all().is_empty());
    host.touched("a");
    assert_eq!(host.all(), ["close a"]);
    host.ended("a", End::Stopped, &[3]);
    // It takes its place back, as soon as the other one has handled its message.
    assert_eq!(host.all(), ["start a", "deliver a 3", "publish a"]);
    host.touched("b");
    assert_eq!(host.all(), ["close b"]);
    // Who asks for it does not wait.
    host.ended("b", End::Stopped, &[]);
    host.started("a");
    host.send("c", 4);
    assert_eq!(host.all(), ["start c", "deliver c 4", "publish c"]);
    host.passivate("a");
    assert_eq!(host.all(), ["close a"]);
}

#[test]
fn what_handled_a_message_has_started_whichever_is_said_first() {
    let mut host = Host::new(config().with_max_entities(1));
    assert_eq!(host.send("a", 1), "kept");
    assert_eq!(host.all(), ["start a", "deliver a 1", "publish a"]);
    assert_eq!(host.send("b", 2), "kept");
    assert_eq!(host.all(), ["start b", "deliver b 2", "publish b"]);
    // It is to go, and nothing more will be heard of its use.
    host.touched("a");
    assert_eq!(host.all(), ["close a"]);
    host.started("a");
    assert_eq!(host.all(), [""; 0]);
    host.ended("a", End::Stopped, &[]);
    host.touched("b");
    assert_eq!(host.phase("b"), Some(EntityPhase::Running));
    host.started("b");
    assert_eq!(host.phase("b"), Some(EntityPhase::Running));
}

#[test]
fn what_is_kept_is_bounded() {
    let mut host = Host::new(config().with_keep(5).with_keep_per_shard(3));
    let (shard, other) = (S, ShardId(8));
    host.it.start_shard(host.now, other, epoch(1));
    let mut said: Vec<String> = Vec::new();
    for (shard, key) in [(shard, "a"), (shard, "b"), (shard, "a"), (shard, "a")] {
        said.push(host.send_to(shard, key, 1));
    }
    for key in ["x", "y", "x"] {
        said.push(host.send_to(other, key, 1));
    }
    let full = "KeepFull 1";
    assert_eq!(said, ["kept", "kept", "kept", full, "kept", "kept", full]);
    assert_eq!(host.it.stats().refused_keep_full, 2);
    host.all();
    assert_eq!(host.send("b", 1), "mailbox 1");
    // What tasks hand back is taken whatever the bounds.
    host.ended("a", End::Failed, &[1, 2, 3, 4, 5, 6]);
    assert_eq!(host.it.kept(), 6);
    assert!(host.it.is_choked(S, &"a".into()));
    // They start for their message, or have a mailbox, or are not of that shard.
    for (shard, key) in [(S, "new"), (S, "b"), (other, "a"), (other, "z")] {
        assert!(!host.it.is_choked(shard, &key.into()), "{key}");
    }
    assert_eq!(host.send("a", 7), "KeepFull 7");
    // One that starts for its message needs no room for it, but for what follows.
    assert_eq!(host.send_to(other, "z", 7), "kept");
    assert_eq!(host.send_to(other, "z", 8), "KeepFull 8");
    assert_eq!(host.all(), ["start z", "deliver z 7", "publish z"]);
}

#[test]
fn a_start_that_hangs_is_given_up_when_the_entity_is_to_go() {
    let config = config().with_max_entities(1).with_start_limit(ms(500));
    let mut host = Host::new(config);
    host.send("a", 1);
    assert_eq!(host.all(), ["start a", "deliver a 1", "publish a"]);
    // As long as nobody needs its room it may take its time.
    host.pass(ms(5000));
    assert!(host.all().is_empty());
    host.run("b");
    host.pass(ms(499));
    assert!(host.all().is_empty());
    host.pass(ms(1));
    assert_eq!(host.all(), ["close a"]);
    host.send("a", 2);
    host.ended("a", End::Stopped, &[1]);
    // It failed: its messages do not have it hang again at once.
    assert_eq!(host.phase("a"), Some(EntityPhase::Waiting));
    assert_eq!(host.it.stats().starts_given_up, 1);
    host.pass(ms(10));
    assert!(host.all().contains(&"start a".into()));
    // Somebody wants it to go, and this time it does start in time.
    host.passivate("a");
    host.pass(ms(499));
    host.started("a");
    host.pass(ms(5000));
    assert_eq!(host.it.stats().starts_given_up, 1);
    assert!(host.all().contains(&"close a".into()));
}

#[test]
fn ids_are_bounded_in_bytes() {
    let config = config().with_max_key_bytes(10).with_remember(true);
    let mut host = Host::new(config);
    host.run("12345");
    assert_eq!(host.send("123456", 1), "TooMany 1");
    host.remembered("123456");
    assert_eq!(host.it.stats().remembered_refused, 1);
    // What is known needs no more room.
    assert_eq!(host.send("12345", 2), "mailbox 2");
    host.run("abcde");
    assert_eq!(host.it.key_bytes(), 10);
    assert_eq!(host.send("x", 3), "TooMany 3");
    assert_eq!(host.it.stats().refused_key_bytes, 2);
    assert_eq!(host.it.stats().refused_too_many, 2);
    // An id takes up room until it is forgotten.
    host.ended("abcde", End::Stopped, &[]);
    assert_eq!(host.send("x", 4), "TooMany 4");
    assert_eq!(host.all(), ["record abcde false"]);
    host.recorded("abcde", false, true);
    assert_eq!(host.it.key_bytes(), 5);
    host.remembered("edcba");
    assert_eq!(host.it.queued(), 1);
    host.it.end();
    assert_eq!(host.it.key_bytes(), 0);
}

#[test]
fn nobody_goes_for_one_that_nobody_waits_for() {
    let mut host = Host::new(config().with_max_entities(2));
    host.run("a");
    host.run("b");
    host.ended("b", End::Failed, &[]);
    host.run("c");
    assert!(host.it.is_full());
    // It would start again now, but nothing is there for it.
    host.pass(ms(10));
    assert!(host.all().is_empty());
    assert_eq!(host.phase("b"), None);
    // With a message it does.
    host.ended("c", End::Failed, &[4]);
    host.run("d");
    host.pass(ms(10));
    assert_eq!(
        host.all(),
        ["close a", "start c", "deliver c 4", "publish c"]
    );
}

#[test]
fn keys_of_other_shards_and_epochs_are_refused() {
    let mut host = Host::new(config());
    assert_eq!(host.send_to(ShardId(9), "a", 1), "NotHosted 1");
    host.run("a");
    host.it.start_shard(host.now, ShardId(8), epoch(1));
    // A key is of one shard.
    assert_eq!(host.send_to(ShardId(8), "a", 1), "NotHosted 1");
    assert_eq!(host.it.stats().refused_not_hosted, 2);
}
