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
    started(9)
}

fn started(incarnation: u64) -> (Instant, Voter) {
    let nodes = [NodeId(1), NodeId(2), NodeId(3)];
    let config = LeadershipConfig::new()
        .with_ownership(Ownership::Lease)
        .with_voters(Voters::new(&nodes).unwrap());
    let start = Instant::from_micros(1_000_000);
    let slots = [PeerSlot::EMPTY; 4];
    let mut voter =
        Leadership::new(start, nodes[2], Incarnation(incarnation), config, slots).unwrap();
    voter.handle_term_floor(start, Term(1_000));
    for node in [nodes[0], nodes[1]] {
        let member = Member {
            node,
            incarnation: Incarnation(2),
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

/// Else rivals raise their terms past each other, and past what the clock says after a restart of them all.
#[test]
fn refusals_raise_no_term_above_the_clock() {
    let (now, mut voter) = started(1);
    voter.handle_timeout(now);
    let refuse = |voter: &mut Voter, at: Instant, from: u64, highest: u64| {
        let (from, highest) = (NodeId(from), Term(highest));
        let refused = voter.reign().unwrap();
        let control = Control::TermRefused(TermRefused { highest });
        voter.handle_control(at, from, refused, &control).unwrap();
        voter.reign().unwrap().0
    };
    let lease = voter.config().support_lease();
    let later = now.after(lease * 3 / 4);
    assert_eq!(refuse(&mut voter, now, 1, 1_012), 1_012, "too early");
    // What is not above the clock does not have to wait.
    assert_eq!(refuse(&mut voter, later, 1, 1_013), 1_021);
    let early = now.after(lease * 5 / 4);
    assert_eq!(refuse(&mut voter, early, 2, 1_040), 1_021, "too early");
    // But it counts once the clock is there, or would be waited for no longer.
    while voter.reign().unwrap() == Term(1_021) {
        let at = voter.poll_timeout().unwrap();
        voter.handle_timeout(at);
        while voter.poll_command().is_some() {}
    }
    assert_eq!(voter.reign(), Some(Term(1_041)));
}

#[test]
fn a_candidate_waits_until_the_clock_has_come_to_its_term() {
    // The clock, which may be two percent too fast, says so 41/16 s after the start, or nothing is waited for longer than 4 S.
    for (term, waits_ms) in [(1_040, 2_614), (1_900, 1_600 + 3_200)] {
        let (now, mut voter) = started(1);
        let start = now.as_micros() - 800_000;
        let took = answer(&mut voter, now, term, &beat(1, 0));
        assert_eq!(took, Some(adopted(term)));
        let mut begins = None;
        while begins.is_none() {
            let at = voter.poll_timeout().unwrap();
            voter.handle_timeout(at);
            while voter.poll_command().is_some() {}
            begins = voter.reign().map(|reign| (at.as_micros() - start, reign));
        }
        let (at, reign) = begins.unwrap();
        assert_eq!((at / 1_000, reign), (waits_ms, Term(term + 1)));
    }
}
