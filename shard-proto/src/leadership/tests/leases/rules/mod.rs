//! One node, single rules of section 2 of the protocol, by number. Here: the node, and rules of both sides.

mod following;
mod leading;

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
