//! What a leader may do with whose support, and how a reign ends: 2.5, 2.8 to 2.11, 2.16 to 2.18, and lapses.

use super::*;

#[test]
fn a_leaders_own_node_follows_last() {
    // 2.5
    let mut reign = Reign::new();
    reign.timeout(1_000);
    assert_eq!(reign.machine.leader(), None, "nobody else follows");
    reign.answer(1_010, HOST, reign.newest[&HOST]);
    assert_eq!(reign.machine.leader(), None, "a host does not count");
    reign.answer(1_020, A, reign.newest[&A]);
    let term = reign.term;
    assert_eq!(reign.machine.leader(), Some(Leader { node: ME, term }));

    // Until then it may adopt another's term, and its candidacy ends by that.
    let mut reign = Reign::new();
    let term = reign.term.0;
    beat(&mut reign.machine, 900, A, term + 1, 0, 0);
    reign.pump(900);
    assert_eq!(reign.machine.reign(), None);
    assert_eq!(reign.machine.leader().map(|leader| leader.node), Some(A));
    assert!(reign.says(&LeadershipCommand::End));
}

#[test]
fn of_two_that_stand_at_once_one_goes_on() {
    // 2.5: the higher term, of equal ones the older node; one that acts is followed by anybody.
    let cases = [
        (1, 0, A, true),
        (0, 0, B, false),
        (-1, 0, A, false),
        (-1, 1_000, B, true),
    ];
    for (higher, valid, rival, follows) in cases {
        let mut reign = Reign::new();
        let term = reign.term.0.saturating_add_signed(higher);
        beat(&mut reign.machine, 900, rival, term, 0, valid);
        let leader = reign.machine.leader().map(|leader| leader.node);
        assert_eq!(leader, follows.then_some(rival), "{higher} {valid}");
        assert_eq!(reign.machine.reign().is_none(), follows);
    }
}

#[test]
fn a_leader_acts_with_echoes_and_registrations_of_a_quorum() {
    // 2.8: who echoed, who registered; and whether it acts.
    let cases: [(&[NodeId], &[NodeId], bool); 7] = [
        (&[A], &[A, ME], true),
        (&[A, B], &[A, B], true),
        (&[A, B], &[A], false),
        (&[A], &[ME], false),
        (&[], &[A, B, ME], false),
        (&[HOST], &[HOST, ME, A], false),
        (&[A], &[A, HOST], false),
    ];
    for (echoes, registers, acts) in cases {
        let mut reign = Reign::new();
        for node in echoes {
            reign.answer(805, *node, reign.newest[node]);
        }
        for node in registers {
            reign.register(810, *node, 800);
        }
        let command = LeadershipCommand::Act { term: reign.term };
        assert_eq!(reign.says(&command), acts, "{echoes:?} {registers:?}");
        assert_eq!(reign.machine.acting_until().is_some(), acts);
    }
}

#[test]
fn support_lasts_from_when_the_echoed_beat_was_sent() {
    // 2.8, 2.17
    let mut reign = Reign::acting();
    // A beat that was never sent counts for nothing.
    reign.answer(1_100, A, reign.newest[&A] + 1);
    assert_eq!(reign.machine.acting_until(), Some(at(1_500)));
    reign.timeout(1_010);
    reign.answer(1_200, A, reign.newest[&A]);
    assert_eq!(reign.machine.acting_until(), Some(at(1_800)));
    let term = reign.term;
    reign.machine.handle_timeout(at(1_799));
    assert_eq!(reign.machine.reign(), Some(term));
    // Over: whatever comes in, the reign ends before it is looked at.
    reign.answer(1_800, A, reign.newest[&A]);
    assert!(reign.says(&LeadershipCommand::End));
    let fresh = reign.machine.reign().unwrap();
    assert!(fresh > term);
    assert_eq!(reign.machine.acting_until(), None);
    // Without a quorum for S: a fresh one again.
    reign.timeout(2_599);
    assert_eq!(reign.machine.reign(), Some(fresh));
    reign.timeout(2_600);
    assert!(reign.machine.reign().unwrap() > fresh);
}

#[test]
fn a_beat_is_echoed_if_its_node_is_registered_and_hears() {
    // 2.10, 2.9
    let mut reign = Reign::acting();
    reign.timeout(1_010);
    let (echo, valid) = reign.echo.unwrap();
    assert_eq!(echo, seq(805));
    // Remaining support, and L - S.
    assert_eq!(valid, (1_500 - 1_010 + 1_200) * 1_000);
    // A type that is not registered yet.
    let newest = reign.newest[&A];
    reign.answer(1_100, A, newest);
    reign.answer(1_100, B, reign.newest[&B]);
    reign.machine.handle_registered(at(1_110), A, 6, 0);
    reign.timeout(1_210);
    assert_eq!(reign.echo.unwrap().0, 0);
    assert!(reign.echo.unwrap().1 > 0, "it acts, for all that");
    reign.register(1_220, A, 0);
    reign.timeout(1_420);
    assert_eq!(reign.echo.unwrap().0, seq(1_100));
    // A node that is not heard any more is not heard of: it echoes old beats.
    for ms in (1_500..2_300).step_by(100) {
        reign.timeout(ms);
        reign.answer(ms, B, reign.newest[&B]);
        reign.answer(ms, A, newest);
    }
    assert_eq!(reign.echo.unwrap().0, 0);
    let (node, hears) = (A, false);
    assert!(reign.says(&LeadershipCommand::Hearing { node, hears }));
}

/// Keeps the reign going with B's help.
fn go_on(reign: &mut Reign, from: u64, to: u64) {
    for ms in (from..to).step_by(100) {
        reign.timeout(ms);
        reign.answer(ms, B, reign.newest[&B]);
    }
}

#[test]
fn a_node_lapses_after_its_last_echoed_beat() {
    // 2.11, 5.5, 6.1
    enum Then {
        Nothing,
        Ended,
        Removed,
        Replaced,
        RegistersAgain,
    }
    for (then, lapses) in [
        (Then::Nothing, true),
        (Then::Ended, true),
        (Then::Removed, true),
        (Then::Replaced, true),
        (Then::RegistersAgain, false),
    ] {
        let former = matches!(then, Then::Replaced);
        let lapsed = LeadershipCommand::NodeLapsed { node: A, former };
        let mut reign = Reign::acting();
        reign.timeout(1_010);
        reign.answer(1_100, A, reign.newest[&A]);
        go_on(&mut reign, 1_100, 1_400);
        assert_eq!(reign.echo.unwrap().0, seq(1_100));
        let mut from = 1_400;
        match then {
            Then::Nothing => {}
            Then::Ended => {
                reign.machine.end_sessions(at(1_400), A);
                // It sends beats, but gets no echo any more.
                go_on(&mut reign, 1_400, 1_700);
                reign.answer(1_700, A, reign.newest[&A]);
                reign.echo = None;
                go_on(&mut reign, 1_800, 2_100);
                from = 2_100;
                assert_eq!(reign.echo.unwrap().0, 0);
            }
            Then::Removed => reign
                .machine
                .handle_member(at(1_400), removed(A, 10))
                .unwrap(),
            Then::Replaced => {
                let change = member(A, 11, MemberState::Up);
                reign.machine.handle_member(at(1_400), change).unwrap();
            }
            Then::RegistersAgain => {
                go_on(&mut reign, 1_400, 3_150);
                from = 3_150;
                reign.register(3_150, A, 0);
            }
        }
        go_on(&mut reign, from, 3_190);
        reign.timeout(3_199);
        assert!(!reign.says(&lapsed));
        reign.timeout(3_200);
        assert_eq!(reign.says(&lapsed), lapses);
        let mut again = reign.said.iter().filter(|command| **command == lapsed);
        assert!(again.nth(1).is_none());
    }
}

#[test]
fn the_barrier_waits_for_the_leases_that_a_quorum_may_know_of() {
    // 2.16: ages in ms of the registrations at 810, and when the barrier opens: the quorum-th smallest instant.
    let cases: [(&[(NodeId, u64)], u64); 4] = [
        (&[(A, 800), (ME, 810)], 2_110),
        (&[(A, 100), (ME, 810)], 2_810),
        (&[(A, 100), (ME, 810), (B, 500)], 2_410),
        (&[(A, 100), (HOST, 800), (ME, 300)], 2_810),
    ];
    for (registered, opens) in cases {
        let mut reign = Reign::new();
        for (node, age) in registered {
            if *node != ME {
                reign.answer(810, *node, reign.newest[node]);
            }
            reign.register(810, *node, *age);
        }
        let mut opened = None;
        for ms in (820..4_000).step_by(10) {
            reign.timeout(ms);
            reign.answer(ms, A, reign.newest[&A]);
            let term = reign.term;
            if reign.says(&LeadershipCommand::OpenBarrier { term }) {
                opened = opened.or(Some(ms));
                // Once over, it stays over.
                reign.register(ms, B, 0);
                assert!(reign.machine.is_open());
            }
        }
        assert_eq!(opened, Some(opens), "{registered:?}");
    }
}

#[test]
fn a_refusal_or_a_higher_registration_ends_the_reign_once_per_lease_and_peer() {
    // 2.17
    for by_register in [false, true] {
        let mut reign = Reign::acting();
        let term = reign.term;
        let refuse = |reign: &mut Reign, ms, from, current: Term, highest| {
            let result = if by_register {
                reign.machine.handle_higher_term(at(ms), from, highest)
            } else {
                let refusal = Control::TermRefused(TermRefused { highest });
                reign
                    .machine
                    .handle_control(at(ms), from, current, &refusal)
            };
            reign.pump(ms);
            result.unwrap();
        };
        refuse(&mut reign, 900, B, Term(term.0 - 1), Term(term.0 - 1));
        assert_eq!(reign.machine.reign(), Some(term));
        // Not above what the clock says.
        let above = Term(term.0 + 2);
        // Refused before it acted.
        refuse(&mut reign, 900, B, term, above);
        assert_eq!(reign.machine.reign(), Some(term));
        refuse(&mut reign, 1_150, B, term, above);
        let fresh = reign.machine.reign().unwrap();
        assert!(fresh > above);
        refuse(&mut reign, 1_350, B, fresh, fresh.next());
        assert_eq!(reign.machine.reign(), Some(fresh));
        refuse(&mut reign, 1_350, A, fresh, fresh.next());
        assert!(reign.machine.reign().unwrap() > fresh.next());
        // An hour ahead is not believed.
        let far = Term(term.0 + 3_700 * 16);
        let current = reign.machine.reign().unwrap();
        let refusal = Control::TermRefused(TermRefused { highest: far });
        let refused = reign
            .machine
            .handle_control(at(1_960), HOST, current, &refusal);
        assert!(refused.is_err());
    }
}

#[test]
fn a_leaving_leader_resigns_after_it_stopped_acting() {
    // 2.18
    let mut reign = Reign::acting();
    reign.machine.leave(at(900));
    assert_eq!(reign.machine.acting_until(), None);
    reign.pump(900);
    let end = reign
        .said
        .iter()
        .position(|said| *said == LeadershipCommand::End);
    let (to, term, control) = (A, reign.term, Control::Resign);
    let resign = LeadershipCommand::Send { to, term, control };
    let resigned = reign.said.iter().position(|said| *said == resign);
    assert!(end.unwrap() < resigned.unwrap());
    reign.timeout(20_000);
    assert_eq!(reign.machine.reign(), None);
}
