//! What a voter forgot in a restart.

use crate::leadership::{
    Leadership, LeadershipCommand, LeadershipConfig, Ownership, PeerSlot, Voters,
};
use crate::membership::{Member, MemberChange, MemberState, Roles};
use crate::wire::Control;
use crate::wire::control::{LeaderBeat, TermRefused};
use crate::{Incarnation, Instant, Leader, NodeId, Term};

fn beat(seq: u64, valid: u64) -> Control<'static> {
    let echo = 0;
    Control::LeaderBeat(LeaderBeat { seq, echo, valid })
}

type Voter = Leadership<[PeerSlot; 4]>;

/// A voter of three that has just started, whose clock says term 1000.
fn restarted() -> (Instant, Voter) {
    let nodes = [NodeId(1), NodeId(2), NodeId(3)];
    let config = LeadershipConfig::new()
        .with_ownership(Ownership::Lease)
        .with_voters(Voters::new(&nodes).unwrap());
    let start = Instant::from_micros(1_000_000);
    let slots = [PeerSlot::EMPTY; 4];
    let mut voter = Leadership::new(start, nodes[2], Incarnation(9), config, slots).unwrap();
    voter.handle_term_floor(start, Term(1_000));
    for node in [nodes[0], nodes[1]] {
        let member = Member {
            node,
            incarnation: Incarnation(1),
            state: MemberState::Up,
            roles: Roles::NONE,
        };
        voter
            .handle_member(start, MemberChange::Member(member))
            .unwrap();
    }
    // 800 ms of quiet start, and 1/16 s per term.
    (start.after(config.support_lease()), voter)
}

/// What a voter answers to a beat of the first one.
fn answer(
    voter: &mut Voter,
    now: Instant,
    term: u64,
    control: &Control<'_>,
) -> Option<LeadershipCommand> {
    let told = voter.handle_control(now, NodeId(1), Term(term), control);
    told.unwrap();
    core::iter::from_fn(|| voter.poll_command()).find(|command| match command {
        LeadershipCommand::Send { control, .. } => matches!(control, Control::TermRefused(_)),
        LeadershipCommand::Adopt(leader) => leader.is_some(),
        _ => false,
    })
}

fn adopted(term: u64) -> LeadershipCommand {
    let (node, term) = (NodeId(1), Term(term));
    LeadershipCommand::Adopt(Some(Leader { node, term }))
}

#[test]
fn a_voter_that_started_again_supports_no_term_below_its_floor() {
    let (now, mut voter) = restarted();
    match answer(&mut voter, now, 1_011, &beat(1, 0)) {
        Some(LeadershipCommand::Send { to, term, control }) => {
            assert_eq!((to, term), (NodeId(1), Term(1_011)));
            let highest = Term(1_011);
            assert_eq!(control, Control::TermRefused(TermRefused { highest }));
        }
        other => panic!("{other:?}"),
    }
    let took = answer(&mut voter, now, 1_012, &beat(2, 0));
    assert_eq!(took, Some(adopted(1_012)));
}

/// Else every restart of a voter would end a reign that is older than it.
#[test]
fn a_voter_that_started_again_follows_a_reign_that_acts() {
    let (now, mut voter) = restarted();
    let took = answer(&mut voter, now, 900, &beat(1, 1_000));
    assert_eq!(took, Some(adopted(900)));
}

/// The reign that it followed may have ended, and its node stands again under a term that others have left behind.
#[test]
fn a_voter_that_started_again_follows_no_candidacy_below_its_floor_later() {
    let (now, mut voter) = restarted();
    answer(&mut voter, now, 900, &beat(1, 1_000));
    assert_eq!(answer(&mut voter, now, 1_011, &beat(2, 0)), None);
    let took = answer(&mut voter, now, 1_012, &beat(3, 0));
    assert_eq!(took, Some(adopted(1_012)));
}
