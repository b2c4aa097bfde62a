//! Shards that stop.

use super::super::{End, EntityPhase, StartRate};
use super::harness::{Host, S, config, epoch, ms};
use crate::ShardId;

#[test]
fn a_shard_with_nothing_running_stops_at_once() {
    let mut host = Host::new(config());
    host.run("a");
    host.ended("a", End::Stopped, &[]);
    host.stop();
    assert_eq!(host.all(), ["stopped 7"]);
    // Asked again, it is said again.
    host.stop();
    assert_eq!(host.all(), ["stopped 7"]);
    assert!(host.it.shards.iter().all(|shard| !shard.is_stopping()));
}

#[test]
fn everything_goes_back_in_order() {
    let mut host = Host::new(config());
    host.run("a");
    host.run("b");
    host.run("waits");
    host.ended("waits", End::Failed, &[11]);
    host.send("waits", 12);
    host.passivate("b");
    assert_eq!(host.say().unwrap(), "close b");
    host.send("b", 33);
    host.send("new", 21);
    host.stop();
    assert_eq!(host.send("a", 5), "NotHosted 5");
    let said = ["close a", "back waits 11", "back waits 12", "back new 21"];
    assert_eq!(host.all(), said);
    assert_eq!(host.phase("a"), Some(EntityPhase::Stopping));
    host.ended("b", End::Stopped, &[31, 32]);
    let said = ["back b 31", "back b 32", "back b 33"];
    assert_eq!(host.all(), said);
    host.ended("a", End::Failed, &[1]);
    assert_eq!(host.all(), ["back a 1", "stopped 7"]);
    assert_eq!(host.it.used(), 0);
    assert_eq!(host.it.stats().given_back, 7);
}

#[test]
fn a_shard_stops_once_it_is_asked_again_and_again() {
    let mut host = Host::new(config());
    host.run("a");
    for _ in 0..3 {
        host.stop();
    }
    assert_eq!(host.all(), ["close a"]);
    host.stop();
    assert!(host.all().is_empty());
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.all(), ["stopped 7"]);
}

#[test]
fn nothing_starts_in_a_shard_that_stops() {
    let mut host = Host::new(config().with_remember(true).with_passivate_after(ms(1000)));
    host.run("idle");
    host.run("failed");
    host.ended("failed", End::Failed, &[1]);
    host.run("forgotten");
    host.ended("forgotten", End::Stopped, &[]);
    host.send("recording", 2);
    assert_eq!(
        host.all(),
        ["record forgotten false", "record recording true"]
    );
    host.remembered("queued");
    host.stop();
    host.pass(ms(10_000));
    host.recorded("recording", true, true);
    host.recorded("forgotten", false, true);
    host.started("idle");
    host.touched("idle");
    host.passivate("idle");
    let said = ["close idle", "back failed 1", "back recording 2"];
    assert_eq!(host.all(), said);
    assert_eq!(host.it.stats().passivated_idle, 0);
    host.ended("idle", End::Stopped, &[]);
    // A handed-off entity is not forgotten.
    assert_eq!(host.all(), ["stopped 7"]);
}

#[test]
fn a_start_that_was_not_given_is_none() {
    let mut host = Host::new(config());
    host.send("a", 1);
    host.send("b", 2);
    assert_eq!(host.say().unwrap(), "start a");
    host.stop();
    assert_eq!(host.all(), ["close a", "back b 2"]);
    // The task had nothing; what is kept is given back once it ended.
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.all(), ["back a 1", "stopped 7"]);
}

#[test]
fn a_load_is_cancelled_before_the_shard_is_stopped() {
    // Ids are still being loaded; nothing has started.
    let mut host = Host::idle(
        config()
            .with_remember(true)
            .with_start_rate(StartRate::AtOnce),
    );
    for key in ["a", "b", "c"] {
        host.remembered(key);
    }
    assert_eq!(host.send("a", 1), "NotHosted 1");
    host.stop();
    assert_eq!(host.all(), ["stopped 7"]);
    assert_eq!(host.it.queued(), 0);
    // ... and some have.
    host.it.start_shard(host.now, S, epoch(2));
    host.it.remembered(host.now, S, epoch(2), "a".into());
    host.it.remembered(host.now, S, epoch(2), "b".into());
    assert_eq!(host.say().unwrap(), "start a");
    host.it.stop_shard(host.now, S, epoch(2));
    assert_eq!(host.all(), ["close a"]);
    assert_eq!(host.it.live(S), 1);
    // Only now that the start has really been cancelled.
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.all(), ["stopped 7"]);
}

#[test]
fn what_does_not_stop_is_aborted() {
    let mut host = Host::new(config());
    assert_eq!(host.it.abort_shard(host.now, S, epoch(1)), 0);
    for key in ["a", "b", "c"] {
        host.run(key);
    }
    assert_eq!(host.it.abort_shard(host.now, S, epoch(1)), 0);
    host.stop();
    assert_eq!(host.all(), ["close a", "close b", "close c"]);
    host.ended("b", End::Stopped, &[]);
    assert_eq!(host.it.abort_shard(host.now, S, epoch(2)), 0);
    assert_eq!(host.it.abort_shard(host.now, S, epoch(1)), 2);
    assert_eq!(host.all(), ["abort a", "abort c"]);
    // Nothing is said before they are really gone: no owner beside a live one.
    host.ended("a", End::Aborted, &[1]);
    assert_eq!(host.all(), ["back a 1"]);
    host.ended("c", End::Stopped, &[]);
    assert_eq!(host.all(), ["stopped 7 forced"]);
    assert_eq!(host.it.stats().aborted, 2);
}

#[test]
fn an_abort_before_anything_was_closed() {
    let mut host = Host::new(config());
    host.run("a");
    host.stop();
    assert_eq!(host.it.abort_shard(host.now, S, epoch(1)), 1);
    assert_eq!(host.all(), ["abort a"]);
}

#[test]
fn what_does_not_even_end_is_given_up() {
    let mut host = Host::new(config());
    host.run("a");
    host.run("b");
    host.passivate("a");
    host.all();
    host.send("a", 1);
    let life = host.life("a");
    host.stop();
    host.all();
    host.it.abort_shard(host.now, S, epoch(1));
    host.all();
    host.ended("b", End::Aborted, &[]);
    host.it.abandon_shard(host.now, S, epoch(1));
    host.it.validate();
    assert_eq!(host.it.ended(host.now, life, End::Aborted, [7]), Err([7]));
    assert_eq!(host.all(), ["back a 1", "stopped 7 forced"]);
    assert_eq!(host.it.running(), 0);
    assert_eq!(host.it.stats().abandoned, 1);
    // It may come back under a new epoch; what the old task says is not heard.
    host.it.start_shard(host.now, S, epoch(2));
    assert_eq!(host.it.ended(host.now, life, End::Aborted, [7]), Err([7]));
    let key = "a".into();
    let _ = host.it.deliver(host.now, S, epoch(2), &key, 3);
    assert_eq!(host.it.ended(host.now, life, End::Aborted, [7]), Err([7]));
    assert_eq!(host.all(), ["start a", "deliver a 3", "publish a"]);
    assert_eq!(host.it.ended(host.now, life, End::Aborted, [7]), Err([7]));
}

#[test]
fn an_earlier_allocation_stops_first() {
    let mut host = Host::new(config());
    host.run("a");
    host.it.start_shard(host.now, S, epoch(2));
    assert_eq!(host.send("a", 1), "mailbox 1");
    host.it.stop_shard(host.now, S, epoch(2));
    assert_eq!(host.send("a", 1), "mailbox 1");
    host.stop();
    host.it.start_shard(host.now, S, epoch(2));
    assert_eq!(host.all(), ["close a"]);
    host.ended("a", End::Stopped, &[]);
    assert_eq!(host.all(), ["stopped 7"]);
    host.it.start_shard(host.now, S, epoch(2));
    assert!(host.it.served_shard(S, epoch(2)).is_some());
}

#[test]
fn other_shards_go_on() {
    let mut host = Host::new(config());
    let other = ShardId(8);
    host.it.start_shard(host.now, other, epoch(1));
    host.run("a");
    host.send("b", 1);
    host.send_to(other, "x", 2);
    host.stop();
    let said = host.all();
    assert!(said.contains(&"start x".into()) && said.contains(&"deliver x 2".into()));
    assert_eq!(host.send_to(other, "x", 3), "mailbox 3");
    // Neither waits for the other.
    for payload in 0..50 {
        host.send_to(other, "y", payload);
    }
    host.ended("a", End::Stopped, &[1, 2, 3]);
    let said: alloc::vec::Vec<_> = (0..9).filter_map(|_| host.say()).collect();
    assert!(said.contains(&"stopped 7".into()), "{said:?}");
    assert!(said.contains(&"start y".into()), "{said:?}");
}
