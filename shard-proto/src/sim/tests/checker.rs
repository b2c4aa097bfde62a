//! Each promise, broken by hand.

use crate::region::RejectReason;
use crate::sim::{Cause, Checker, Message, Report, Violation, WorldConfig};
use crate::{Epoch, Term};

const S: u64 = 1_000_000;

pub(super) fn epoch(term: u64, round: u32) -> Epoch {
    Epoch::new(Term(term), round).unwrap()
}

fn config() -> WorldConfig {
    WorldConfig::new()
        .with_nodes(3)
        .with_shards(4)
        .with_entities(2)
}

/// Three hosts, the first of which sent messages 0 to 3 to entity 1 of shard 2. Leases until 10 s.
pub(super) fn checker() -> Checker {
    let mut checker = Checker::new(&config());
    for host in 0..3 {
        checker.began(0, host, u32::from(host));
        checker.lease(0, host, 10 * S).unwrap();
    }
    for number in 0..4 {
        checker.sent(S, 0, 2, message(number));
    }
    checker
}

fn message(number: u64) -> Message {
    Message {
        origin: 0,
        entity: 1,
        number,
    }
}

/// Host 1 serves shard 2.
fn serving() -> Checker {
    let mut checker = checker();
    checker.serving_began(S, 1, 2, epoch(5, 1)).unwrap();
    checker
}

pub(super) fn name<T>(result: Result<T, Violation>) -> &'static str {
    result.map_or_else(|violation| violation.name(), |_| "nothing")
}

#[test]
fn what_is_allowed() {
    let mut checker = serving();
    for number in [0, 2] {
        checker
            .delivered(2 * S, 1, 2, epoch(5, 1), message(number))
            .unwrap();
    }
    // A message may be missing, if that is reported.
    checker
        .reported(2 * S, 0, 2, message(1), RejectReason::BufferFull, true)
        .unwrap();
    // A move: stopped there before it starts here.
    checker.serving_ended(3 * S, 1, 2, epoch(5, 1)).unwrap();
    checker.serving_began(3 * S, 2, 2, epoch(5, 2)).unwrap();
    checker
        .delivered(4 * S, 2, 2, epoch(5, 2), message(3))
        .unwrap();
    // A lease that is over entitles another, although nobody knows what became of the host.
    checker.lease(5 * S, 0, 20 * S).unwrap();
    checker.serving_began(10 * S, 0, 2, epoch(5, 3)).unwrap();
    // One reign after the other.
    checker.acting(S, 0, Term(5), 2 * S).unwrap();
    checker.acting(2 * S, 0, Term(5), 3 * S).unwrap();
    checker.acting(3 * S, 1, Term(6), 4 * S).unwrap();
    checker.not_acting(3 * S, 1).unwrap();
    checker.acting(3 * S, 2, Term(7), 4 * S).unwrap();
    checker.finish(20 * S).unwrap();
    let mut report = Report::default();
    checker.fill(&mut report);
    assert_eq!((report.sent, report.delivered, report.moves), (4, 3, 2));
    assert_eq!(report.reported[0], 1);
    assert_eq!((report.failovers, report.reigns), (2, 3));
}

#[test]
fn two_leaders() {
    let mut checker = checker();
    checker.acting(S, 0, Term(5), 3 * S).unwrap();
    let second = checker.acting(2 * S, 1, Term(6), 4 * S);
    assert_eq!(name(second), "two leaders");
}

#[test]
fn two_leaders_the_first_of_which_goes_on() {
    let mut checker = checker();
    checker.acting(S, 0, Term(5), 2 * S).unwrap();
    checker.acting(2 * S, 1, Term(6), 4 * S).unwrap();
    let again = checker.acting(3 * S, 0, Term(5), 5 * S);
    assert_eq!(name(again), "two leaders");
}

#[test]
fn a_leader_that_stands_still_acts_until_its_support_is_over() {
    let mut checker = checker();
    checker.acting(S, 0, Term(5), 3 * S).unwrap();
    checker.paused(S, 0);
    assert_eq!(
        name(checker.acting(2 * S, 1, Term(6), 4 * S)),
        "two leaders"
    );
}

#[test]
fn a_leader_that_crashed_does_not_act() {
    let mut checker = checker();
    checker.acting(S, 0, Term(5), 3 * S).unwrap();
    checker.ended(S, 0, false).unwrap();
    checker.acting(2 * S, 1, Term(6), 4 * S).unwrap();
}

#[test]
fn terms_grow() {
    let mut checker = checker();
    checker.acting(S, 0, Term(5), 2 * S).unwrap();
    checker.ended(S, 0, false).unwrap();
    checker.began(2 * S, 0, 3);
    let same = checker.acting(2 * S, 0, Term(5), 4 * S);
    assert_eq!(name(same), "term not growing");
}

#[test]
fn two_homes() {
    let mut checker = serving();
    let second = checker.serving_began(9 * S, 2, 2, epoch(5, 2));
    assert_eq!(name(second), "two homes");
}

#[test]
fn a_home_that_stands_still_serves_until_its_lease_is_over() {
    let mut checker = serving();
    checker.paused(2 * S, 1);
    let second = checker.clone().serving_began(9 * S, 2, 2, epoch(5, 2));
    assert_eq!(name(second), "two homes");
    checker.lease(9 * S, 2, 20 * S).unwrap();
    checker.serving_began(10 * S, 2, 2, epoch(5, 2)).unwrap();
}

#[test]
fn a_lease_that_comes_back_does_not_entitle_to_what_was_served_before() {
    let mut checker = serving();
    checker.sent(S, 0, 2, message(4));
    // It never said that it lapsed.
    checker.lease(11 * S, 1, 20 * S).unwrap();
    let late = checker.delivered(12 * S, 1, 2, epoch(5, 1), message(0));
    assert_eq!(name(late), "not serving");
}

#[test]
fn a_home_serves_no_more_after_a_lapse() {
    let mut checker = serving();
    checker.lease(3 * S, 1, 3 * S).unwrap();
    let late = checker
        .clone()
        .delivered(3 * S, 1, 2, epoch(5, 1), message(0));
    assert_eq!(name(late), "not serving");
    checker.serving_began(4 * S, 2, 2, epoch(5, 2)).unwrap();
}

#[test]
fn epochs_grow() {
    let mut checker = serving();
    checker.serving_ended(2 * S, 1, 2, epoch(5, 1)).unwrap();
    for lower in [epoch(5, 1), epoch(4, 9)] {
        let again = checker.clone().serving_began(3 * S, 2, 2, lower);
        assert_eq!(name(again), "epoch not growing");
    }
    // Also over a restart of all.
    for host in 0..3 {
        checker.ended(3 * S, host, false).unwrap();
        checker.began(4 * S, host, 3 + u32::from(host));
        checker.lease(4 * S, host, 10 * S).unwrap();
    }
    let again = checker.serving_began(5 * S, 2, 2, epoch(1, 1));
    assert_eq!(name(again), "epoch not growing");
}

#[test]
fn nothing_starts_beside_itself() {
    let mut checker = serving();
    checker.lease(2 * S, 1, 2 * S).unwrap();
    checker.lease(3 * S, 1, 9 * S).unwrap();
    let again = checker.serving_began(3 * S, 1, 2, epoch(5, 2));
    assert_eq!(name(again), "started beside itself");
}

#[test]
fn nothing_starts_without_a_lease() {
    let mut checker = checker();
    let late = checker.serving_began(11 * S, 1, 2, epoch(5, 1));
    assert_eq!(name(late), "started without lease");
}

#[test]
fn nothing_is_handled_where_it_is_not_served() {
    let (right, wrong) = (epoch(5, 1), epoch(5, 2));
    for (at, host, shard, epoch) in [
        (2 * S, 0, 2, right),
        (2 * S, 1, 2, wrong),
        (10 * S + 3, 1, 2, right),
    ] {
        let handled = serving().delivered(at, host, shard, epoch, message(0));
        assert_eq!(name(handled), "not serving");
    }
    let mut stopped = serving();
    stopped.serving_ended(2 * S, 1, 2, right).unwrap();
    let handled = stopped.delivered(2 * S, 1, 2, right, message(0));
    assert_eq!(name(handled), "not serving");
}

#[test]
fn order() {
    let mut checker = serving();
    let now = 2 * S;
    checker
        .delivered(now, 1, 2, epoch(5, 1), message(2))
        .unwrap();
    let late = checker.delivered(now, 1, 2, epoch(5, 1), message(1));
    assert_eq!(name(late), "out of order");
}

#[test]
fn order_holds_across_homes() {
    let mut checker = serving();
    checker
        .delivered(2 * S, 1, 2, epoch(5, 1), message(2))
        .unwrap();
    checker.serving_ended(3 * S, 1, 2, epoch(5, 1)).unwrap();
    checker.serving_began(3 * S, 2, 2, epoch(5, 2)).unwrap();
    let late = checker.delivered(4 * S, 2, 2, epoch(5, 2), message(1));
    assert_eq!(name(late), "out of order");
}

#[test]
fn nothing_is_handled_twice() {
    let mut checker = serving();
    let mut handle = || checker.delivered(2 * S, 1, 2, epoch(5, 1), message(0));
    handle().unwrap();
    assert_eq!(name(handle()), "delivered twice");
}

#[test]
fn what_is_reported_is_not_handled() {
    let mut checker = serving();
    checker
        .reported(S, 0, 2, message(0), RejectReason::PathGivenUp, true)
        .unwrap();
    let handled = checker.delivered(2 * S, 1, 2, epoch(5, 1), message(0));
    assert_eq!(name(handled), "delivered and reported");

    let mut checker = serving();
    checker
        .delivered(2 * S, 1, 2, epoch(5, 1), message(0))
        .unwrap();
    // "Perhaps" is true.
    let perhaps = RejectReason::PerhapsDelivered;
    checker
        .clone()
        .reported(2 * S, 0, 2, message(0), perhaps, true)
        .unwrap();
    let reported = checker.reported(2 * S, 0, 2, message(0), RejectReason::Stopped, true);
    assert_eq!(name(reported), "delivered and reported");
}

#[test]
fn nothing_is_reported_twice() {
    let mut checker = checker();
    let mut report =
        |at_origin| checker.reported(S, 0, 2, message(0), RejectReason::BufferFull, at_origin);
    report(false).unwrap();
    report(true).unwrap();
    assert_eq!(name(report(true)), "reported twice");
}

#[test]
fn nothing_comes_from_nowhere() {
    let mut checker = serving();
    let mut handle = |message| checker.delivered(2 * S, 1, 2, epoch(5, 1), message);
    assert_eq!(name(handle(message(9))), "never sent");
    let stranger = Message {
        origin: 7,
        ..message(0)
    };
    assert_eq!(name(handle(stranger)), "never sent");
    let elsewhere = Message {
        entity: 0,
        ..message(0)
    };
    assert_eq!(name(handle(elsewhere)), "never sent");
}

#[test]
fn nothing_is_lost() {
    let mut checker = serving();
    for number in 0..3 {
        checker
            .delivered(2 * S, 1, 2, epoch(5, 1), message(number))
            .unwrap();
    }
    assert_eq!(name(checker.clone().finish(3 * S)), "lost");
    // Nobody is told who is not there any more.
    let mut crashed = checker.clone();
    crashed.ended(3 * S, 0, false).unwrap();
    crashed.finish(3 * S).unwrap();
    // But who leaves is told before.
    assert_eq!(name(checker.clone().ended(3 * S, 0, true)), "lost");
    // A report to somebody else is none.
    let reason = RejectReason::OriginEnded;
    checker
        .reported(2 * S, 1, 2, message(3), reason, false)
        .unwrap();
    assert_eq!(name(checker.clone().finish(3 * S)), "lost");
    // Kept by a node that lives.
    checker.accepted(2, 2, message(3)).unwrap();
    assert_eq!(name(checker.clone().finish(3 * S)), "lost");
    // It died with the node that had it.
    checker.ended(3 * S, 2, false).unwrap();
    checker.clone().finish(3 * S).unwrap();
    // It came back before.
    checker.accepted(0, 2, message(3)).unwrap();
    assert_eq!(name(checker.finish(3 * S)), "lost");
}

#[test]
fn every_host_reaches_every_shard_after_the_faults() {
    let mut checker = checker();
    let bound = config().bound().as_micros() as u64;
    let calm = 2 * S;
    checker.calm(calm);
    let end = calm + bound;
    for host in 0..3_u8 {
        checker.lease(calm, host, u64::MAX).unwrap();
    }
    for shard in 0..4 {
        checker.serving_began(calm, 1, shard, epoch(5, 1)).unwrap();
    }
    // Every pair but one. What was sent before does not count.
    checker
        .delivered(calm, 1, 2, epoch(5, 1), message(3))
        .unwrap();
    let mut numbers = [4, 0, 0];
    for host in 0..3_u8 {
        for shard in 0..4 {
            if (host, shard) == (0, 2) {
                continue;
            }
            let number = &mut numbers[usize::from(host)];
            let message = Message {
                origin: u32::from(host),
                entity: 0,
                number: *number,
            };
            *number += 1;
            checker.sent(calm, host, shard, message);
            checker
                .delivered(calm, 1, shard, epoch(5, 1), message)
                .unwrap();
        }
    }
    checker.tick(end - 1).unwrap();
    assert!(!checker.is_recovered());
    assert_eq!(name(checker.clone().tick(end)), "no service");
    // Who is not there does not count.
    let mut gone = checker.clone();
    gone.ended(end - 1, 0, false).unwrap();
    gone.tick(end).unwrap();
    let last = message(numbers[0]);
    checker.sent(end - 1, 0, 2, last);
    checker.delivered(end - 1, 1, 2, epoch(5, 1), last).unwrap();
    assert!(checker.is_recovered());
    checker.tick(end).unwrap();
}

fn outages(checker: &Checker) -> Report {
    let mut report = Report::default();
    checker.fill(&mut report);
    report
}

#[test]
fn missing_service_is_measured_from_when_it_is_wanted() {
    let mut checker = serving();
    checker.opened(2 * S, 1, 2);
    // From the first message to the start.
    assert_eq!(outages(&checker).outage(Cause::ColdStart).worst, S);
    checker.serving_began(2 * S, 2, 3, epoch(5, 1)).unwrap();
    checker.opened(2 * S, 2, 3);
    checker.probe(3 * S, Cause::Crash, &[1]);
    checker.ended(3 * S, 1, false).unwrap();
    checker.sent(3 * S + 5, 0, 2, message(4));
    checker.sent(4 * S, 0, 2, message(5));
    checker.serving_began(5 * S, 2, 2, epoch(5, 2)).unwrap();
    checker.opened(5 * S, 2, 2);
    checker.probe_over(6 * S);
    let report = outages(&checker);
    let crash = report.outage(Cause::Crash);
    assert_eq!((crash.tried, crash.count, crash.worst), (1, 1, 2 * S - 5));
    assert_eq!(crash.worst_of_others, 0);
}

#[test]
fn a_start_that_is_disturbed_is_no_cold_start() {
    let mut checker = serving();
    checker.disturbed(2 * S);
    checker.opened(3 * S, 1, 2);
    let report = outages(&checker);
    assert_eq!(report.outage(Cause::ColdStart).worst, 0);
    assert_eq!(report.outage(Cause::Storm).worst, S);
}

#[test]
fn service_of_others_is_measured_apart() {
    let mut checker = serving();
    checker.opened(2 * S, 1, 2);
    checker.probe(3 * S, Cause::Pause, &[0]);
    let mut moved = checker.clone();
    checker.lease(3 * S, 1, 3 * S).unwrap();
    moved.serving_ended(3 * S, 1, 2, epoch(5, 1)).unwrap();
    for (checker, others) in [(&mut checker, 2 * S), (&mut moved, 0)] {
        checker.sent(4 * S, 0, 2, message(4));
        // It never comes back.
        checker.probe_over(6 * S);
        let report = outages(checker);
        let pause = report.outage(Cause::Pause);
        assert_eq!((pause.count, pause.worst_of_others), (0, others));
    }
}

#[test]
fn a_pause_is_an_outage_until_the_host_goes_on() {
    let mut checker = serving();
    checker.opened(2 * S, 1, 2);
    checker.probe(3 * S, Cause::Pause, &[1]);
    checker.paused(3 * S, 1);
    checker.sent(3 * S, 0, 2, message(4));
    checker.resumed(4 * S, 1);
    // Its lease is over when it wakes up from the second.
    checker.paused(5 * S, 1);
    checker.sent(5 * S, 0, 2, message(5));
    checker.resumed(11 * S, 1);
    checker.probe_over(12 * S);
    let report = outages(&checker);
    let pause = report.outage(Cause::Pause);
    assert_eq!((pause.count, pause.worst), (2, 7 * S));
}
