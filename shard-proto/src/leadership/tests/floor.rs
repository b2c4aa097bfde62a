//! What a voter forgot in a restart.

use crate::leadership::{
    Leadership, LeadershipCommand, LeadershipConfig, Ownership, PeerSlot, Voters,
};
use crate::membership::{Member, MemberChange, MemberState, Roles};
use crate::wire::Control;
use crate::wire::control::LeaderBeat;
use crate::{Incarnation, Instant, Leader, NodeId, Term};

fn beat(seq: u64) -> Control<'static> {
    Control::LeaderBeat(LeaderBeat {
        seq,
        echo: 0,
        valid: 0,
    })
}

#[test]
fn a_voter_that_started_again_supports_no_term_below_its_floor() {
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
    let later = start.after(config.support_lease());
    let said = |voter: &mut Leadership<[PeerSlot; 4]>, term: u64, seq: u64| {
        let told = voter.handle_control(later, nodes[0], Term(term), &beat(seq));
        told.unwrap();
        core::iter::from_fn(|| voter.poll_command()).find(|command| match command {
            LeadershipCommand::Send { control, .. } => matches!(control, Control::TermRefused(_)),
            LeadershipCommand::Adopt(leader) => leader.is_some(),
            _ => false,
        })
    };
    match said(&mut voter, 1_011, 1) {
        Some(LeadershipCommand::Send { to, term, .. }) => {
            assert_eq!((to, term), (nodes[0], Term(1_011)));
        }
        other => panic!("{other:?}"),
    }
    let (node, term) = (nodes[0], Term(1_012));
    let adopted = LeadershipCommand::Adopt(Some(Leader { node, term }));
    assert_eq!(said(&mut voter, 1_012, 2), Some(adopted));
}
