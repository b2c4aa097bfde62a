//! One node, single rules; and the settings.

use core::time::Duration;
use std::string::ToString;

use super::world::{World, ms, trust};
use crate::leadership::{
    ConfigError, ControlError, Leadership, LeadershipCommand, LeadershipConfig, PeerSlot, Voters,
    VotersError,
};
use crate::membership::{Member, MemberChange, MemberState, NodesFull, RemovalCause, Roles};
use crate::wire::Control;
use crate::wire::control::{KeepAlive, LeaderBeat, NodeBeat, TermRefused};
use crate::{Incarnation, Instant, Leader, NodeId, Term};

const ME: NodeId = NodeId(5);

fn at(ms: u64) -> Instant {
    Instant::from_micros(ms * 1_000)
}

fn member(node: u64, incarnation: u64) -> MemberChange {
    MemberChange::Member(Member {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        state: MemberState::Up,
        roles: Roles::NONE,
    })
}

fn removed(node: u64, incarnation: u64) -> MemberChange {
    MemberChange::Removed {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        cause: RemovalCause::Down,
    }
}

fn beat(seq: u64) -> Control<'static> {
    let (echo, valid) = (0, 0);
    Control::LeaderBeat(LeaderBeat { seq, echo, valid })
}

fn node_beat(seq: u64) -> Control<'static> {
    Control::NodeBeat(NodeBeat {
        seq,
        echo: 1,
        lapses: 0,
        types: 0,
        leaving: false,
    })
}

fn machine(config: LeadershipConfig) -> Leadership<[PeerSlot; 4]> {
    let storage = [PeerSlot::EMPTY; 4];
    let mut machine = Leadership::new(at(0), ME, Incarnation(50), config, storage).unwrap();
    machine.handle_term_floor(at(0), Term(1_000));
    machine
}

fn commands<const N: usize>(
    machine: &mut Leadership<[PeerSlot; N]>,
) -> std::vec::Vec<LeadershipCommand> {
    core::iter::from_fn(|| machine.poll_command()).collect()
}

/// Loops what the node sends to itself back.
fn settle<const N: usize>(machine: &mut Leadership<[PeerSlot; N]>, now: Instant) {
    for _ in 0..8 {
        for command in commands(machine) {
            if let LeadershipCommand::Send { to, term, control } = command
                && to == ME
            {
                machine.handle_control(now, ME, term, &control).unwrap();
            }
        }
    }
}

/// Protocol 2.4: else a node that runs for long would, after a restart of the others, lead under a term below theirs.
#[test]
fn the_floor_of_terms_grows_with_the_clock() {
    let mut machine = machine(trust().with_bootstrap(true));
    machine.handle_timeout(at(0));
    assert_eq!(machine.reign(), Some(Term(1_000)));
    machine.renew(at(10_000));
    // Two percent slower than the clock, which may be too fast.
    assert_eq!(machine.reign(), Some(Term(1_156)));
    // What was said before is older than that.
    machine.handle_term_floor(at(10_000), Term(1_100));
    machine.renew(at(20_000));
    assert_eq!(machine.reign(), Some(Term(1_313)));
}

#[test]
fn settings_name_the_field() {
    let config = trust();
    assert_eq!(config.validate(), Ok(()));
    let lan = LeadershipConfig::lan().with_voters(Voters::new(&[ME]).unwrap());
    assert_eq!(lan.validate(), Ok(()));
    let cases = [
        (lan.with_voters(Voters::NONE), "voters"),
        (config.with_beat(Duration::ZERO), "beat"),
        (config.with_support_lease(Duration::ZERO), "support_lease"),
        (config.with_support_lease(ms(2_000)), "support_lease"),
        (config.with_lease(ms(1_597)), "lease"),
        (config.with_beat(ms(400)), "lease"),
        (config.with_round_trip(ms(200)), "lease"),
        (config.with_drift(ms(81)), "drift"),
    ];
    for (config, field) in cases {
        let error = config.validate().unwrap_err();
        assert_eq!(error.field(), field);
        assert!(error.to_string().starts_with(field), "{error}");
    }
    assert_eq!(config.with_lease(ms(1_599)).validate(), Ok(()));
    assert_eq!(config.with_drift(ms(82)).validate(), Ok(()));
    let huge = config.with_lease(Duration::MAX).with_drift(Duration::MAX);
    let _ = huge.with_beat(Duration::MAX).validate();
    assert_eq!(
        Leadership::new(at(0), ME, Incarnation(1), config, [PeerSlot::EMPTY; 0]).err(),
        Some(ConfigError::Storage)
    );
}

#[test]
fn voters_are_one_three_or_five() {
    let nodes: std::vec::Vec<NodeId> = [9, 3, 7, 5, 1].map(NodeId).into();
    let cases = [(1, 1), (3, 2), (5, 3)];
    for (len, quorum) in cases {
        let voters = Voters::new(&nodes[..len]).unwrap();
        assert_eq!((voters.len(), voters.quorum()), (len, quorum));
        assert!(voters.iter().is_sorted());
        assert!(nodes[..len].iter().all(|node| voters.contains(*node)));
        assert!(!voters.contains(NodeId(0)) && !voters.contains(NodeId(8)));
        let mut turned = nodes[..len].to_vec();
        turned.reverse();
        assert_eq!(Voters::new(&turned), Ok(voters));
        assert_ne!(voters.digest(), 0);
    }
    let three = Voters::new(&nodes[..3]).unwrap();
    assert_ne!(three.digest(), Voters::new(&nodes[1..4]).unwrap().digest());
    assert_eq!(Voters::NONE.digest(), 0);
    for got in [0, 2, 4] {
        let refused = Err(VotersError::Count { got });
        assert_eq!(Voters::new(&nodes[..got]), refused);
    }
    let node = NodeId(3);
    let twice = Voters::new(&[node, NodeId(1), node]);
    assert_eq!(twice, Err(VotersError::Twice { node }));
}

#[test]
fn a_single_node_leads_at_once_and_its_own_node_follows() {
    let mut machine = machine(trust().with_bootstrap(true));
    assert_eq!(machine.poll_timeout(), Some(at(0)));
    machine.handle_timeout(at(0));
    let term = Term(1_000);
    assert_eq!(machine.reign(), Some(term));
    settle(&mut machine, at(0));
    assert_eq!(machine.leader(), Some(Leader { node: ME, term }));
    machine.handle_registered(at(1), ME, 0, 0);
    assert!(commands(&mut machine).contains(&LeadershipCommand::OpenBarrier { term }));
    // A long stop costs a node without others nothing.
    machine.handle_timeout(at(60_000));
    assert_eq!(machine.reign(), Some(term));
}

#[test]
fn a_node_that_must_not_bootstrap_never_leads_alone() {
    let mut machine = machine(trust());
    machine.handle_timeout(at(0));
    assert_eq!(machine.poll_timeout(), None);
    machine.handle_timeout(at(60_000));
    assert_eq!(machine.reign(), None);
}

#[test]
fn a_joiner_listens_before_it_leads() {
    for bootstrap in [false, true] {
        let mut machine = machine(trust().with_bootstrap(bootstrap));
        machine.handle_member(at(10), member(6, 60)).unwrap();
        machine.handle_timeout(at(10));
        assert_eq!(machine.reign(), None);
        assert_eq!(machine.poll_timeout(), Some(at(2_010)));
        machine.handle_timeout(at(2_009));
        assert_eq!(machine.reign(), None);
        machine.handle_timeout(at(2_010));
        assert_eq!(machine.reign(), Some(Term(1_031)));
    }
}

#[test]
fn a_reign_is_followed_as_long_as_it_is_heard() {
    let mut machine = machine(trust());
    let (old, young) = (NodeId(1), NodeId(9));
    machine.handle_member(at(0), member(1, 10)).unwrap();
    machine.handle_member(at(0), member(9, 90)).unwrap();
    let reign = |node, term| Some(Leader { node, term });
    machine
        .handle_control(at(1), young, Term(2_000), &beat(1))
        .unwrap();
    assert_eq!(machine.leader(), reign(young, Term(2_000)));
    // Neither an older node nor a higher term takes it away.
    machine
        .handle_control(at(2), old, Term(3_000), &beat(1))
        .unwrap();
    assert_eq!(machine.leader(), reign(young, Term(2_000)));
    // The same node under a higher term does.
    machine
        .handle_control(at(3), young, Term(2_001), &beat(2))
        .unwrap();
    assert_eq!(machine.leader(), reign(young, Term(2_001)));
    assert_eq!(machine.last_beat(), at(1));
    // Late beats and resignations change nothing.
    machine
        .handle_control(at(4), young, Term(2_000), &beat(1))
        .unwrap();
    machine
        .handle_control(at(4), young, Term(2_000), &Control::Resign)
        .unwrap();
    machine
        .handle_control(at(4), old, Term(2_001), &Control::Resign)
        .unwrap();
    assert_eq!(machine.leader(), reign(young, Term(2_001)));
    // Its resignation ends it; a beat that was overtaken does not bring it back.
    machine
        .handle_control(at(5), young, Term(2_001), &Control::Resign)
        .unwrap();
    assert_eq!(machine.leader(), None);
    machine
        .handle_control(at(6), young, Term(2_001), &beat(3))
        .unwrap();
    assert_eq!(machine.leader(), None);
    // The other one's term is too low now, then it is not.
    commands(&mut machine);
    machine
        .handle_control(at(7), old, Term(1_500), &beat(2))
        .unwrap();
    machine
        .handle_control(at(8), old, Term(1_500), &beat(3))
        .unwrap();
    assert_eq!(machine.leader(), None);
    machine
        .handle_control(at(9), old, Term(3_001), &beat(4))
        .unwrap();
    assert_eq!(machine.leader(), reign(old, Term(3_001)));
}

#[test]
fn too_low_a_term_is_refused_once_per_beat() {
    let mut machine = machine(trust());
    machine.handle_member(at(0), member(1, 10)).unwrap();
    machine
        .handle_control(at(0), NodeId(1), Term(2_000), &beat(1))
        .unwrap();
    machine.handle_member(at(1), removed(1, 10)).unwrap();
    machine.handle_member(at(1), member(2, 20)).unwrap();
    commands(&mut machine);
    let mut refusals = 0;
    for i in 0..1_000 {
        let now = at(2 + i);
        machine
            .handle_control(now, NodeId(2), Term(1_900), &beat(1 + i))
            .unwrap();
        for command in commands(&mut machine) {
            let highest = Term(2_000);
            let control = Control::TermRefused(TermRefused { highest });
            let (to, term) = (NodeId(2), Term(1_900));
            assert_eq!(command, LeadershipCommand::Send { to, term, control });
            refusals += 1;
        }
    }
    assert!((5..=7).contains(&refusals), "{refusals}");
    // As long as that reign lives, this node does not lead beside it.
    assert_eq!(machine.reign(), None);
}

#[test]
fn silence_ends_following_and_a_newer_beat_renews_it() {
    let mut machine = machine(trust());
    machine.handle_member(at(0), member(1, 10)).unwrap();
    let beat_at = |machine: &mut Leadership<_>, ms, seq| {
        machine
            .handle_control(at(ms), NodeId(1), Term(2_000), &beat(seq))
            .unwrap();
    };
    beat_at(&mut machine, 0, 1);
    for ms in (0..800).step_by(100) {
        machine.handle_timeout(at(ms));
        assert!(machine.leader().is_some());
    }
    // Silent: this node is the next, and leads at once, above what it followed.
    machine.handle_timeout(at(800));
    assert_eq!(machine.leader(), None);
    assert_eq!(machine.reign(), Some(Term(2_001)));

    let mut machine = self::machine(trust().with_may_lead(false));
    machine.handle_member(at(0), member(1, 10)).unwrap();
    beat_at(&mut machine, 0, 1);
    for ms in (0..=800).step_by(100) {
        machine.handle_timeout(at(ms));
    }
    assert_eq!(machine.leader(), None);
    beat_at(&mut machine, 900, 1);
    assert_eq!(machine.leader(), None);
    beat_at(&mut machine, 900, 2);
    assert!(machine.leader().is_some());
}

#[test]
fn what_waited_while_a_node_was_stopped_comes_before_its_silence() {
    let mut machine = machine(trust());
    machine.handle_member(at(0), member(1, 10)).unwrap();
    machine
        .handle_control(at(0), NodeId(1), Term(2_000), &beat(1))
        .unwrap();
    machine.handle_timeout(at(0));
    // Stopped for five seconds; the deadlines are handled before the frames that waited.
    machine.handle_timeout(at(5_000));
    assert_eq!(machine.reign(), None);
    assert!(machine.leader().is_some());
    machine
        .handle_control(at(5_001), NodeId(1), Term(2_000), &beat(25))
        .unwrap();
    for ms in (5_100..=5_700).step_by(100) {
        machine.handle_timeout(at(ms));
    }
    assert!(machine.leader().is_some());
}

#[test]
fn a_leader_answers_the_first_beats_at_once() {
    let mut machine = machine(trust().with_bootstrap(true));
    machine.handle_timeout(at(0));
    settle(&mut machine, at(0));
    machine.handle_member(at(5), member(6, 60)).unwrap();
    let term = Term(1_000);
    let answer = |machine: &mut Leadership<_>| {
        commands(machine)
            .into_iter()
            .find_map(|command| match command {
                LeadershipCommand::Send {
                    to: NodeId(6),
                    control: Control::LeaderBeat(beat),
                    ..
                } => Some(beat.echo),
                _ => None,
            })
    };
    assert_eq!(answer(&mut machine), Some(0), "a new member is greeted");
    machine
        .handle_control(at(30), NodeId(6), term, &node_beat(1))
        .unwrap();
    assert_eq!(answer(&mut machine), Some(1));
    // A flood is not answered with a flood.
    let mut answers = 0;
    for i in 0..100 {
        machine
            .handle_control(at(30), NodeId(6), term, &node_beat(2 + i))
            .unwrap();
        answers += u32::from(answer(&mut machine).is_some());
    }
    assert_eq!(answers, 0);
}

#[test]
fn the_barrier_waits_for_registrations_or_for_the_lease() {
    for registers in [false, true] {
        let mut machine = machine(trust().with_bootstrap(true));
        machine.handle_timeout(at(0));
        machine.handle_member(at(0), member(6, 60)).unwrap();
        settle(&mut machine, at(0));
        machine.handle_registered(at(1), ME, 0, 0);
        assert!(!machine.is_open());
        if registers {
            machine
                .handle_control(at(2), NodeId(6), Term(1_000), &node_beat(1))
                .unwrap();
            machine.handle_registered(at(2), NodeId(6), 0, 0);
            machine.handle_registered(at(2), NodeId(77), 0, 0);
            assert!(machine.is_open());
            // Once over, it stays over.
            machine.end_sessions(at(3), NodeId(6));
            assert!(machine.is_open());
        } else {
            let mut now = 0;
            while now < 2_099 {
                now = machine.poll_timeout().unwrap().as_micros() / 1_000;
                machine.handle_timeout(at(now));
            }
            assert_eq!(now, 2_100);
            assert!(machine.is_open());
        }
    }
}

#[test]
fn removed_incarnations_stay_removed() {
    let mut machine = machine(trust());
    machine.handle_member(at(0), member(1, 10)).unwrap();
    machine.handle_member(at(1), removed(1, 10)).unwrap();
    let unknown = Err(ControlError::UnknownPeer);
    let hear = |machine: &mut Leadership<_>, seq| {
        machine.handle_control(at(2), NodeId(1), Term(2_000), &beat(seq))
    };
    for late in [member(1, 10), member(1, 9)] {
        machine.handle_member(at(2), late).unwrap();
        assert_eq!(hear(&mut machine, 1), unknown);
    }
    machine.handle_member(at(3), member(1, 11)).unwrap();
    assert_eq!(hear(&mut machine, 1), Ok(()));
    // A late removal of the older life is nothing; a newer life ends what was followed.
    machine.handle_member(at(4), removed(1, 10)).unwrap();
    assert!(machine.leader().is_some());
    machine.handle_member(at(5), member(1, 12)).unwrap();
    assert_eq!(machine.leader(), None);
    assert_eq!(hear(&mut machine, 1), Ok(()), "numbers begin anew");
}

#[test]
fn a_full_table_says_so_and_forgets_the_removed_first() {
    let mut machine = machine(trust());
    for node in 1..4 {
        machine.handle_member(at(0), member(node, node)).unwrap();
    }
    assert_eq!(machine.handle_member(at(0), member(9, 9)), Err(NodesFull));
    machine.handle_member(at(0), removed(2, 2)).unwrap();
    assert_eq!(machine.handle_member(at(0), member(9, 9)), Ok(()));
    assert_eq!(machine.handle_member(at(0), removed(77, 1)), Ok(()));
    let heard = machine.handle_control(at(1), NodeId(9), Term(2_000), &beat(1));
    assert_eq!(heard, Ok(()));
}

#[test]
fn other_frames_are_not_for_leadership() {
    let mut machine = machine(trust());
    let frame = Control::KeepAlive(KeepAlive { leaving: false });
    assert_eq!(
        machine.handle_control(at(0), ME, Term::NONE, &frame),
        Err(ControlError::Unexpected)
    );
}

#[test]
fn a_used_up_term_is_renewed() {
    let mut machine = machine(trust().with_bootstrap(true));
    machine.handle_timeout(at(0));
    settle(&mut machine, at(0));
    machine.renew(at(10));
    let begins = LeadershipCommand::Begin { term: Term(1_001) };
    let commands = commands(&mut machine);
    assert_eq!(commands[0], LeadershipCommand::End);
    assert_eq!(commands[1], begins);
    machine.handle_timeout(at(210));
    settle(&mut machine, at(210));
    assert_eq!(machine.leader().unwrap().term, Term(1_001));
}

#[test]
fn a_node_declared_removed_stops_leading() {
    let mut world = World::cluster(1, 3);
    world.run(ms(5_000));
    assert_eq!(world.agreed(), 0);
    let gone = world.gone(0, RemovalCause::Down);
    world.tell(0, gone);
    assert_eq!(world.hosts[0].reign, None);
    world.run(ms(10_000));
    assert!(!world.leaders().contains(&0));
}
