use alloc::vec::Vec;

use super::super::asks::Asks;
use super::super::{Ask, AskFailure, AskKey};
use crate::Instant;
use crate::hash::SplitMix64;

fn ask(key: u64, deadline: u64) -> Ask {
    Ask {
        key: AskKey(key),
        deadline: Instant::from_micros(deadline),
    }
}

fn failed(asks: &mut Asks) -> Vec<(u64, AskFailure)> {
    let mut failed = Vec::new();
    while let Some((key, reason)) = asks.poll_failed() {
        failed.push((key.0, reason));
    }
    failed
}

fn expire(asks: &mut Asks, now: u64) {
    while asks.poll_timeout().is_some_and(|at| at.as_micros() <= now) {
        asks.expire(Instant::from_micros(now));
    }
}

#[test]
fn only_the_asked_peer_answers_and_once() {
    let mut asks = Asks::new(Instant::ZERO, 7, 8);
    let correlation = asks.insert(ask(1, 5_000_000)).unwrap();
    assert_eq!(asks.answered(correlation, 3), None);
    asks.sent(correlation, 3);
    assert_eq!(asks.answered(correlation, 4), None);
    assert_eq!(asks.answered(correlation ^ 1, 3), None);
    assert_eq!(asks.answered(correlation, 3), Some(ask(1, 5_000_000)));
    assert_eq!(asks.answered(correlation, 3), None);
    assert_eq!(asks.poll_timeout(), None);
    assert_eq!(asks.len(), 0);
}

#[test]
fn what_came_back_waits_for_another_peer() {
    let mut asks = Asks::new(Instant::ZERO, 7, 8);
    let correlation = asks.insert(ask(1, 5_000_000)).unwrap();
    asks.sent(correlation, 3);
    assert_eq!(asks.came_back(correlation, 4), None);
    assert!(asks.came_back(correlation, 3).is_some());
    asks.peer_ended(3);
    assert!(failed(&mut asks).is_empty());
    asks.sent(correlation, 4);
    asks.peer_ended(4);
    assert_eq!(failed(&mut asks), [(1, AskFailure::PerhapsDelivered)]);
    assert_eq!(asks.take(correlation), None);
}

#[test]
fn the_limit_holds_and_slots_are_used_again() {
    let mut asks = Asks::new(Instant::ZERO, 7, 2);
    let first = asks.insert(ask(1, 1)).unwrap();
    asks.insert(ask(2, 2)).unwrap();
    assert_eq!(asks.insert(ask(3, 3)), None);
    assert!(asks.take(first).is_some());
    assert!(asks.insert(ask(3, 3)).is_some());
    expire(&mut asks, 10_000);
    let mut keys: Vec<_> = failed(&mut asks).iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    assert_eq!(keys, [2, 3]);
}

#[test]
fn deadlines_are_never_early_and_a_tick_late_at_most() {
    let mut random = SplitMix64::new(42);
    let start = 123_456_789;
    let mut asks = Asks::new(Instant::from_micros(start), 1, 10_000);
    let mut deadlines = Vec::new();
    for key in 0..5_000 {
        let deadline = start + random.below(60_000_000);
        deadlines.push(deadline);
        let correlation = asks.insert(ask(key, deadline)).unwrap();
        if key % 7 == 0 {
            assert!(asks.take(correlation).is_some());
        }
    }
    let mut now = start;
    let mut seen = 0;
    while let Some(at) = asks.poll_timeout() {
        now = now.max(at.as_micros());
        expire(&mut asks, now);
        for (key, reason) in failed(&mut asks) {
            seen += 1;
            let deadline = deadlines[key as usize];
            assert!(key % 7 != 0 && reason == AskFailure::Timeout);
            assert!((deadline..=deadline + (1 << 13)).contains(&now));
        }
        now += random.below(3_000);
    }
    assert_eq!(seen, 5_000 - 5_000_usize.div_ceil(7));
}

#[test]
fn a_long_sleep_expires_all_that_is_due() {
    let mut asks = Asks::new(Instant::ZERO, 1, 100);
    for key in 0..50 {
        asks.insert(ask(key, key * 1_000_000)).unwrap();
    }
    expire(&mut asks, 30_500_000);
    assert_eq!(failed(&mut asks).len(), 31);
    asks.fail_all(AskFailure::Stopped);
    assert_eq!(failed(&mut asks).len(), 19);
    assert_eq!(asks.poll_timeout(), None);
}
