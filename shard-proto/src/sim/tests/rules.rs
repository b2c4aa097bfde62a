//! Each rule, broken by hand.

use super::checker::{checker, epoch, name};
use crate::sim::{Checker, Deed};
use crate::{Incarnation, Leader, NodeId, Session, Term, Token};

const S: u64 = 1_000_000;

/// Host 0 leads under term 5, and its coordinators have begun.
fn leading() -> Checker {
    let mut checker = checker();
    checker.led(0, None, 1, Some(Term(5))).unwrap();
    checker.deed(0, Deed::Begins).unwrap();
    checker
}

fn session(lapses: u32) -> Session {
    Session {
        incarnation: Incarnation(7),
        lapses,
        starts: 0,
    }
}

fn acknowledges(lapses: u32) -> Deed {
    Deed::Acknowledges {
        ty: 0,
        to: NodeId(9),
        session: session(lapses),
    }
}

#[test]
fn a_lower_or_equal_term_of_another_is_not_followed() {
    let leader = |node, term| {
        let (node, term) = (NodeId(node), Term(term));
        Some(Leader { node, term })
    };
    let mut checker = checker();
    for next in [leader(1, 5), None, leader(1, 5), leader(2, 6)] {
        checker.led(0, next, 0, None).unwrap();
    }
    for next in [leader(1, 5), leader(1, 6)] {
        let led = checker.clone().led(0, next, 0, None);
        assert_eq!(name(led), "follows lower");
    }
    // Its next life knows nothing of that.
    checker.began(S, 0, 3);
    checker.led(0, leader(1, 5), 0, None).unwrap();
}

#[test]
fn no_term_is_taken_twice() {
    let mut checker = checker();
    checker.led(0, None, 1, Some(Term(5))).unwrap();
    checker.led(0, None, 1, Some(Term(5))).unwrap();
    checker.led(0, None, 2, Some(Term(6))).unwrap();
    for term in [5, 6] {
        let led = checker.clone().led(0, None, 3, Some(Term(term)));
        assert_eq!(name(led), "term twice");
    }
}

#[test]
fn a_registration_is_for_the_term_of_the_reign() {
    let term = Term(4);
    let taken = leading().deed(0, Deed::TakesOther { term });
    assert_eq!(name(taken), "other term");
}

#[test]
fn a_session_does_not_come_back() {
    let mut checker = leading();
    checker.deed(0, acknowledges(1)).unwrap();
    checker.deed(0, acknowledges(1)).unwrap();
    let ends = |session| Deed::EndsSession {
        ty: 0,
        of: NodeId(9),
        session,
    };
    for over in [ends(None), ends(Some(session(1))), acknowledges(2)] {
        let mut checker = checker.clone();
        checker.deed(0, over).unwrap();
        let back = checker.clone().deed(0, acknowledges(1));
        assert_eq!(name(back), "session back");
        checker.deed(0, acknowledges(2)).unwrap();
        // The next reign knows nothing of it.
        checker.deed(0, Deed::Begins).unwrap();
        checker.deed(0, acknowledges(1)).unwrap();
    }
}

#[test]
fn nobody_is_told_the_old_home() {
    let (shard, to) = (2, NodeId(9));
    let mut checker = leading();
    let names = |round| Deed::Names {
        shard,
        epoch: epoch(5, round),
        to,
    };
    checker.deed(0, names(1)).unwrap();
    let hands_off = Deed::HandsOff {
        shard,
        epoch: epoch(5, 1),
    };
    checker.deed(0, hands_off).unwrap();
    assert_eq!(name(checker.clone().deed(0, names(1))), "old home");
    checker.deed(0, names(2)).unwrap();
}

#[test]
fn no_claim_is_believed_late() {
    let believes = Deed::BelievesLate {
        shard: 2,
        epoch: epoch(4, 1),
        of: NodeId(9),
    };
    assert_eq!(name(leading().deed(0, believes)), "late claim");
}

#[test]
fn a_path_is_not_used_again() {
    let mut checker = checker();
    checker.forwarded(0, 2, 1, epoch(5, 1)).unwrap();
    checker.marked(0, 2, 1, epoch(5, 1), Token(7));
    let again = checker.forwarded(0, 2, 1, epoch(5, 1));
    assert_eq!(name(again), "path again");
    // Other paths, and this one when its marker is back.
    checker.forwarded(0, 2, 2, epoch(5, 1)).unwrap();
    checker.forwarded(0, 2, 1, epoch(5, 2)).unwrap();
    let mut restarted = checker.clone();
    restarted.type_started(0, 0..4);
    restarted.forwarded(0, 2, 1, epoch(5, 1)).unwrap();
    checker.deed(0, Deed::PathFlushed { shard: 2 }).unwrap();
    checker.forwarded(0, 2, 1, epoch(5, 1)).unwrap();
}

#[test]
fn what_stops_is_not_claimed_as_served() {
    let claims = |stops| Deed::Claims {
        shard: 2,
        epoch: epoch(5, 1),
        stops,
    };
    let mut checker = checker();
    checker.deed(1, claims(false)).unwrap();
    assert_eq!(name(checker.deed(1, claims(true))), "plain claim");
}

#[test]
fn a_leader_acts_with_promises_of_a_quorum() {
    let acts = |promised, voters| Checker::promised(S, 0, Term(5), 2 * S, promised, voters);
    for (promised, voters) in [(1, 1), (2, 3), (3, 5)] {
        acts(promised, voters).unwrap();
        assert_eq!(name(acts(promised - 1, voters)), "no promise");
    }
}
