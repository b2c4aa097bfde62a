//! One node, single rules of section 2 of the protocol, by number.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::world::ms;
use crate::leadership::{
    Leadership, LeadershipCommand, LeadershipConfig, Ownership, PeerSlot, Voters,
};
use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::wire::Control;
use crate::wire::control::{LeaderBeat, NodeBeat, TermRefused};
use crate::{Incarnation, Instant, Leader, NodeId, Term};

const ME: NodeId = NodeId(5);
const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const HOST: NodeId = NodeId(9);

fn at(ms: u64) -> Instant {
    Instant::from_micros(1_000_000 + ms * 1_000)
}

fn seq(ms: u64) -> u64 {
    at(ms).as_micros() << 10
}

type Machine = Leadership<[PeerSlot; 6]>;

/// A voter of three, as old as `incarnation` says, that knows the others and a host; A has 10, B 20.
fn machine_of(config: LeadershipConfig, me: NodeId, incarnation: u64) -> Machine {
    let storage = [PeerSlot::EMPTY; 6];
    let mut machine =
        Leadership::new(at(0), me, Incarnation(incarnation), config, storage).unwrap();
    machine.handle_term_floor(at(0), Term(1_000));
    for (node, life) in [(A, 10), (B, 20), (HOST, 90)] {
        machine
            .handle_member(at(0), member(node, life, MemberState::Up))
            .unwrap();
    }
    machine.handle_types(at(0), 7);
    machine
}

fn config() -> LeadershipConfig {
    LeadershipConfig::new().with_voters(Voters::new(&[A, B, ME]).unwrap())
}

/// The youngest: it follows.
fn follower() -> Machine {
    machine_of(config(), ME, 50)
}

fn member(node: NodeId, life: u64, state: MemberState) -> MemberChange {
    MemberChange::Member(Member {
        node,
        incarnation: Incarnation(life),
        state,
        roles: Roles::NONE,
    })
}

fn removed(node: NodeId, life: u64) -> MemberChange {
    MemberChange::Removed {
        node,
        incarnation: Incarnation(life),
        cause: RemovalCause::Down,
    }
}

fn beat(machine: &mut Machine, ms: u64, from: NodeId, term: u64, echo: u64, valid: u64) {
    let beat = LeaderBeat {
        seq: seq(ms),
        echo,
        valid: valid * 1_000,
    };
    let _ = machine.handle_control(at(ms), from, Term(term), &Control::LeaderBeat(beat));
}

fn commands(machine: &mut Machine) -> Vec<LeadershipCommand> {
    core::iter::from_fn(|| machine.poll_command()).collect()
}

/// What was sent to a node.
fn sent(machine: &mut Machine, node: NodeId) -> Vec<Control<'static>> {
    let sent = commands(machine)
        .into_iter()
        .filter_map(|command| match command {
            LeadershipCommand::Send { to, control, .. } if to == node => Some(control),
            _ => None,
        });
    sent.collect()
}

/// Number of the node beat that the machine sends.
fn node_beat(machine: &mut Machine, to: NodeId) -> Option<u64> {
    let sent = sent(machine, to);
    sent.into_iter().find_map(|control| match control {
        Control::NodeBeat(beat) => Some(beat.seq),
        _ => None,
    })
}

/// A leader and the frames between it and the nodes that hear it.
struct Reign {
    machine: Machine,
    term: Term,
    /// Newest leader's beat to each node.
    newest: BTreeMap<NodeId, u64>,
    echo: Option<(u64, u64)>,
    said: Vec<LeadershipCommand>,
}

impl Reign {
    /// The oldest begins at 800 ms.
    fn new() -> Self {
        let mut machine = machine_of(config(), ME, 5);
        machine.handle_timeout(at(799));
        assert_eq!(machine.reign(), None, "2.3: a young voter does not lead");
        machine.handle_timeout(at(800));
        let term = machine.reign().unwrap();
        let mut reign = Self {
            machine,
            term,
            newest: BTreeMap::new(),
            echo: None,
            said: Vec::new(),
        };
        reign.pump(800);
        reign
    }

    /// Loops what it sends to itself back; keeps the rest.
    fn pump(&mut self, ms: u64) {
        while let Some(command) = self.machine.poll_command() {
            match command {
                LeadershipCommand::Send { to, term, control } if to == ME => {
                    let _ = self.machine.handle_control(at(ms), ME, term, &control);
                }
                LeadershipCommand::Send {
                    to,
                    term,
                    control: Control::LeaderBeat(beat),
                } => {
                    assert_eq!(Some(term), self.machine.reign());
                    self.newest.insert(to, beat.seq);
                    if to == A {
                        self.echo = Some((beat.echo, beat.valid));
                    }
                }
                command => self.said.push(command),
            }
        }
    }

    fn answer(&mut self, ms: u64, node: NodeId, echo: u64) {
        let beat = NodeBeat {
            seq: seq(ms),
            echo,
            lapses: 0,
            leaving: false,
            types: 7,
        };
        let _ = self
            .machine
            .handle_control(at(ms), node, self.term, &Control::NodeBeat(beat));
        self.pump(ms);
    }

    fn register(&mut self, ms: u64, node: NodeId, age: u64) {
        let age = age * 1_000;
        self.machine.handle_registered(at(ms), node, 7, age);
        self.pump(ms);
    }

    fn timeout(&mut self, ms: u64) {
        self.machine.handle_timeout(at(ms));
        self.pump(ms);
    }

    /// Acts from 810 ms on, with A; supported until 1500.
    fn acting() -> Self {
        let mut reign = Self::new();
        reign.answer(805, A, reign.newest[&A]);
        reign.register(808, A, 800);
        reign.register(810, ME, 810);
        assert_eq!(reign.machine.acting_until(), Some(at(1_500)));
        reign
    }

    fn says(&self, command: &LeadershipCommand) -> bool {
        self.said.contains(command)
    }
}

#[test]
fn only_voters_lead_and_are_followed() {
    // 2.1, settings
    let mut host = machine_of(config(), HOST, 1);
    for ms in (0..20_000).step_by(100) {
        host.handle_timeout(at(ms));
    }
    assert_eq!(host.reign(), None);
    let mut machine = follower();
    beat(&mut machine, 900, HOST, 2_000, 0, 0);
    assert_eq!(machine.leader(), None);
    beat(&mut machine, 901, A, 1_999, 0, 0);
    assert_eq!(machine.leader().map(|leader| leader.node), Some(A));
}

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

#[test]
fn a_connection_that_is_made_anew_carries_beats_at_once() {
    // 2.9
    let mut machine = follower();
    beat(&mut machine, 1_000, A, 2_000, 0, 0);
    assert!(node_beat(&mut machine, A).is_some());
    machine.handle_linked(at(1_001), B);
    assert_eq!(node_beat(&mut machine, A), None);
    machine.handle_linked(at(1_001), A);
    assert!(node_beat(&mut machine, A).is_some());
    let mut reign = Reign::acting();
    let before = reign.newest.clone();
    reign.machine.handle_linked(at(811), A);
    reign.pump(811);
    assert!(reign.newest[&A] > before[&A]);
    assert_eq!(reign.newest[&B], before[&B]);
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

#[test]
fn a_leave_that_ends_the_quorum_is_known() {
    // 2.18: state of A and B, and whether this node may not go.
    let (up, leaving) = (MemberState::Up, MemberState::Leaving);
    let cases = [
        (up, up, false),
        (up, leaving, true),
        (MemberState::Unreachable, up, true),
        (leaving, leaving, true),
    ];
    for (a, b, ends) in cases {
        let mut machine = follower();
        machine.handle_member(at(0), member(A, 10, a)).unwrap();
        machine.handle_member(at(0), member(B, 20, b)).unwrap();
        assert_eq!(machine.leave_ends_quorum(), ends, "{a:?} {b:?}");
    }
    assert!(!machine_of(config(), HOST, 50).leave_ends_quorum());
    let mut machine = follower();
    machine.handle_member(at(0), removed(A, 10)).unwrap();
    assert!(machine.leave_ends_quorum());
}

#[test]
fn a_lease_outside_decides() {
    // 2.19
    let config = LeadershipConfig::new().with_ownership(Ownership::External);
    let mut machine = machine_of(config, ME, 5);
    machine.handle_timeout(at(10_000));
    assert_eq!(machine.reign(), None);
    let token = Term(7);
    machine.handle_external(at(10_000), Some(token));
    let said = commands(&mut machine);
    assert_eq!(said[0], LeadershipCommand::Begin { term: token });
    assert_eq!(said[1], LeadershipCommand::Act { term: token });
    assert_eq!(machine.acting_until(), Some(Instant::FAR_FUTURE));
    machine.handle_timeout(at(12_099));
    assert!(!machine.is_open());
    machine.handle_timeout(at(12_100));
    assert!(machine.is_open());
    // Told again; a token from before; lost; the same token again.
    for (told, reign) in [
        (Some(token), Some(token)),
        (Some(Term(6)), Some(token)),
        (None, None),
        (Some(token), None),
        (Some(Term(8)), Some(Term(8))),
    ] {
        machine.handle_external(at(12_200), told);
        assert_eq!(machine.reign(), reign);
    }
    // Nobody is promised anything: a higher token is followed at once, and ends this reign.
    beat(&mut machine, 12_300, HOST, 9, 0, 2_000);
    assert_eq!(machine.reign(), None);
    assert_eq!(machine.leader().map(|leader| leader.node), Some(HOST));
    beat(&mut machine, 12_310, A, 10, 0, 2_000);
    assert_eq!(machine.leader().map(|leader| leader.node), Some(A));
    let sent = node_beat(&mut machine, A).unwrap();
    beat(&mut machine, 12_400, A, 10, sent, 2_000);
    assert_eq!(machine.lease_until(), Some(at(14_310)));
}

#[test]
fn settings_leave_room_for_a_beat() {
    let tight = config().with_support_lease(ms(300));
    assert_eq!(tight.validate().unwrap_err().field(), "support_lease");
    assert_eq!(config().with_support_lease(ms(301)).validate(), Ok(()));
}
