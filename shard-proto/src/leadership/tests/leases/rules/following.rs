//! Whom a node follows, whom it promised to, and how long its lease lasts: 2.2, 2.3, 2.5, 2.7, 2.9, 2.12.

use super::*;

#[test]
fn a_young_voter_ignores_beats_a_young_host_does_not() {
    // 2.3
    let mut machine = follower();
    beat(&mut machine, 799, A, 2_000, 0, 0);
    assert_eq!(machine.leader(), None);
    beat(&mut machine, 800, A, 2_000, 0, 0);
    assert!(machine.leader().is_some());
    let mut host = machine_of(config(), HOST, 90);
    beat(&mut host, 1, A, 2_000, 0, 0);
    assert!(host.leader().is_some());
}

#[test]
fn a_promise_binds_until_it_is_over_or_resigned() {
    // 2.5, 2.7, 2.18: what frees it, and when B is followed.
    enum Frees {
        Time,
        Resign,
        WrongResign,
        Removal,
        Replacement,
    }
    let cases = [
        (Frees::Time, 1_800),
        (Frees::Resign, 1_200),
        (Frees::WrongResign, 1_800),
        // Membership can be wrong.
        (Frees::Removal, 1_800),
        (Frees::Replacement, 1_800),
    ];
    for (frees, expected) in cases {
        let mut machine = follower();
        beat(&mut machine, 1_000, A, 2_000, 0, 0);
        let _ = match frees {
            Frees::Time => Ok(()),
            Frees::Resign | Frees::WrongResign => {
                let term = if matches!(frees, Frees::Resign) {
                    2_000
                } else {
                    1_999
                };
                let resign = machine.handle_control(at(1_150), A, Term(term), &Control::Resign);
                resign.map_err(|_| crate::membership::NodesFull)
            }
            Frees::Removal => machine.handle_member(at(1_150), removed(A, 10)),
            Frees::Replacement => machine.handle_member(at(1_150), member(A, 11, MemberState::Up)),
        };
        let mut followed = None;
        for ms in (1_200..2_500).step_by(100) {
            beat(&mut machine, ms, B, 2_005, 0, 0);
            if machine.leader().is_some_and(|leader| leader.node == B) {
                followed = followed.or(Some(ms));
            }
        }
        assert_eq!(followed, Some(expected));
    }
}

#[test]
fn too_low_a_term_is_refused_once_the_promise_is_over() {
    // 2.5
    for host in [false, true] {
        let me = if host { HOST } else { ME };
        let mut machine = machine_of(config(), me, 50);
        beat(&mut machine, 1_000, A, 2_000, 0, 0);
        commands(&mut machine);
        let highest = Term(2_000);
        let refusal = Control::TermRefused(TermRefused { highest });
        beat(&mut machine, 1_100, B, 1_500, 0, 0);
        assert_eq!(sent(&mut machine, B), [], "bound to A");
        beat(&mut machine, 1_801, B, 1_500, 0, 0);
        assert_eq!(sent(&mut machine, B), [refusal]);
        // The same term from another is refused, too; from the same node it is heard again.
        beat(&mut machine, 2_100, B, 2_000, 0, 0);
        assert_eq!(machine.leader(), None);
        beat(&mut machine, 2_200, A, 2_000, 0, 0);
        assert_eq!(
            machine.leader(),
            Some(Leader {
                node: A,
                term: highest
            })
        );
    }
}

#[test]
fn the_lease_lasts_from_when_the_echoed_beat_was_sent() {
    // 2.9, 2.12
    // (echoed how much above the beat that was sent, valid) and for how long from its sending.
    let cases = [
        (0, 5_000, Some(2_000)),
        (0, 1_400, Some(1_400)),
        (0, 0, None),
        (1, 5_000, None),
        (-1_000_000_000, 5_000, None),
    ];
    for (off, valid, lasts) in cases {
        let mut machine = follower();
        beat(&mut machine, 1_000, A, 2_000, 0, 0);
        let sent = node_beat(&mut machine, A).unwrap();
        assert_eq!(sent, seq(1_000));
        beat(
            &mut machine,
            1_300,
            A,
            2_000,
            sent.saturating_add_signed(off),
            valid,
        );
        let until = lasts.map(|lasts| at(1_000 + lasts));
        assert_eq!(machine.lease_until(), until);
        let Some(until) = until else { continue };
        assert!(commands(&mut machine).contains(&LeadershipCommand::Lease(Some(until))));
        // An older echo shortens nothing; a later input finds it lapsed before it is looked at.
        beat(&mut machine, 1_400, A, 2_000, sent, 100);
        assert_eq!(machine.lease_until(), Some(until));
        machine.handle_timeout(Instant::from_micros(until.as_micros() - 1));
        assert_eq!(machine.lapses(), 0);
        commands(&mut machine);
        let late = (until.as_micros() - at(0).as_micros()) / 1_000;
        beat(&mut machine, late, A, 2_000, sent, valid);
        assert_eq!((machine.lapses(), machine.lease_until()), (1, None));
        let first = commands(&mut machine);
        assert_eq!(first[0], LeadershipCommand::Lapsed { lapses: 1 });
        assert_eq!(first[1], LeadershipCommand::Lease(None));
    }
}

#[test]
fn an_echo_of_another_term_grants_nothing() {
    // 2.9
    let mut machine = follower();
    beat(&mut machine, 1_000, A, 2_000, 0, 0);
    let sent = node_beat(&mut machine, A).unwrap();
    beat(&mut machine, 1_100, A, 2_001, sent, 5_000);
    assert_eq!(machine.lease_until(), None);
    let sent = node_beat(&mut machine, A).unwrap();
    beat(&mut machine, 1_200, A, 2_001, sent, 5_000);
    assert_eq!(machine.lease_until(), Some(at(3_100)));
}

#[test]
fn a_leader_that_hears_nobody_is_left() {
    // 2.2: followed for 2 S + 2 beats and S more, ignored for 4 S, or until it acts.
    let mut machine = follower();
    let mut left = None;
    for ms in (1_000..20_000).step_by(200) {
        machine.handle_timeout(at(ms));
        // It takes fresh terms all the time.
        beat(&mut machine, ms, A, 2_000 + ms / 800, 0, 0);
        if machine.leader().is_none() {
            left = left.or(Some(ms));
        }
        if ms == 4_000 {
            break;
        }
    }
    assert_eq!(left, Some(3_600));
    assert_eq!(machine.stats().deaf, 1);
    let mut acts = machine.clone();
    beat(&mut acts, 4_100, A, 3_000, 0, 1_000);
    assert_eq!(acts.leader().map(|leader| leader.node), Some(A));
    for (ms, follows) in [(5_900, false), (6_300, true)] {
        beat(&mut machine, ms, A, 3_000, 0, 0);
        assert_eq!(machine.leader().is_some(), follows, "{ms}");
    }
}
