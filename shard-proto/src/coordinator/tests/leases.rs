//! Ownership by lease: protocol 2.8-2.16, 5.5, 5.6; what differs from trusted membership.

use super::harness::*;
use crate::coordinator::{CoordPhase, Coordinator};
use crate::table::CoordinatorHeap;

fn leased(shards: u32) -> Bed {
    Bed::with(config(shards).with_trust(false), at_rest())
}

/// [`leased`], before a quorum supports it.
fn recovering(shards: u32) -> Bed {
    let mut bed = leased(shards);
    let storage = CoordinatorHeap::new(shards, 8);
    let config = *bed.coordinator.config();
    bed.coordinator = Coordinator::new(bed.now, config, at_rest(), storage).unwrap();
    bed.coordinator.begin(bed.now, TERM);
    bed
}

#[test]
fn r2_8_before_it_acts_it_registers_and_says_nothing_else() {
    let mut bed = recovering(4);
    let old = epoch(5, 1);
    for node in 1..=2 {
        bed.up(node);
    }
    let claims = [claim(0, old), draining(1, old)];
    bed.register_with(1, session(1), &claims).unwrap();
    bed.register(2).unwrap();
    for shard in 0..4 {
        bed.ask(2, shard).unwrap();
    }
    assert_eq!(
        bed.pass(9_000),
        [
            Out::Registered(1, 0),
            Out::Ack(1),
            Out::Registered(2, 0),
            Out::Ack(2)
        ]
    );
    assert_eq!(bed.coordinator.poll_timeout(), None);
    bed.coordinator.act(bed.now);
    assert_eq!(bed.coordinator.phase(), CoordPhase::Acting);
    let said = bed.poll();
    assert_eq!(homes(&said), [(2, 0, 1)], "what is claimed is told");
    assert_eq!(handoffs(&said), [(1, 1)]);
    assert!(!said.iter().any(|out| matches!(out, Out::Overdue(..))));
    // The drain has its whole time from here on.
    let said = bed.pass(9_900);
    assert!(!said.iter().any(|out| matches!(out, Out::Overdue(..))));
    let said = bed.pass(200);
    assert!(said.contains(&Out::Overdue(1, 1)));
    assert_eq!(bed.home(2), None, "the barrier is closed");
}

#[test]
fn r2_16_the_barrier_implies_acting_and_comes_once() {
    let mut bed = recovering(1);
    bed.up(1);
    bed.register(1).unwrap();
    bed.ask(1, 0).unwrap();
    bed.coordinator.open_barrier(bed.now);
    assert_eq!(bed.coordinator.phase(), CoordPhase::Open);
    bed.coordinator.act(bed.now);
    assert_eq!(bed.coordinator.phase(), CoordPhase::Open);
    bed.settle();
    assert_eq!(bed.home(0), Some((1, epoch(7, 1))));
}

#[test]
fn r2_16_what_a_claim_frees_before_it_acts_waits_until_it_acts() {
    let mut bed = recovering(1);
    for node in 1..=2 {
        bed.up(node);
        bed.register(node).unwrap();
    }
    let old = epoch(5, 1);
    bed.register_with(1, session(1), &[claim(0, old)]).unwrap();
    bed.complete(1, 0, old).unwrap();
    assert_eq!(bed.home(0), None);
    bed.pass(1_000);
    bed.coordinator.act(bed.now);
    bed.settle();
    assert!(bed.home(0).is_some(), "freed by its owner: no barrier");
}

#[test]
fn r5_6_who_does_not_hear_is_given_nothing() {
    let mut bed = leased(2);
    for node in 1..=2 {
        bed.up(node);
        bed.register(node).unwrap();
    }
    bed.hears(1, false);
    bed.coordinator.open_barrier(bed.now);
    for shard in 0..2 {
        bed.ask(1, shard).unwrap();
    }
    bed.settle();
    assert_eq!(bed.owned(2), [0, 2]);
    bed.hears(2, false);
    bed.removed(2);
    bed.coordinator.handle_lapsed(bed.now, crate::NodeId(2));
    bed.pass(1_000);
    assert_eq!(bed.owned(2), [0, 0], "nobody hears");
    bed.hears(1, true);
    bed.settle();
    assert_eq!(bed.owned(2), [2, 0], "at once when it does");
}
