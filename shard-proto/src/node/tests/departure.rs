//! When a process that leaves may go.

use core::time::Duration;

use crate::leadership::{Ownership, Voters};
use crate::membership::{Member, MemberState, Roles};
use crate::node::departure::{Leaving, Standing, Step, has_successor};
use crate::{Incarnation, Instant, NodeId};

const START: Instant = Instant::from_micros(5_000_000);

fn at(ms: u64) -> Instant {
    START.after(Duration::from_millis(ms))
}

fn leaving() -> Leaving {
    Leaving::new(START, at(20_000))
}

/// Everything is done.
const DONE: Standing = Standing {
    has_successor: true,
    hosts_nothing: true,
    at_rest: true,
    flushed: true,
    linked: true,
    arrived: 7,
    sent: 3,
};

/// One whose paths are being flushed since 200 ms after the start.
fn closing() -> Leaving {
    let mut leaving = leaving();
    assert_eq!(leaving.look(at(0), &DONE), Step::Wait);
    assert_eq!(leaving.look(at(200), &DONE), Step::FlushPaths);
    leaving
}

#[test]
fn it_waits_for_what_others_may_still_send() {
    let mut leaving = leaving();
    let hosts = Standing {
        hosts_nothing: false,
        ..DONE
    };
    assert_eq!(leaving.look(at(0), &hosts), Step::Wait);
    assert_eq!(leaving.look(at(300), &DONE), Step::Wait);
    let more = Standing { arrived: 8, ..DONE };
    assert_eq!(leaving.look(at(450), &more), Step::Wait);
    assert_eq!(leaving.look(at(649), &more), Step::Wait);
    assert_eq!(leaving.look(at(650), &more), Step::FlushPaths);
    assert_eq!(leaving.look(at(650), &more), Step::Finish);
}

#[test]
fn it_does_not_wait_for_nobody() {
    let alone = Standing {
        linked: false,
        ..DONE
    };
    assert_eq!(leaving().look(at(0), &alone), Step::FlushPaths);
}

#[test]
fn it_flushes_again_what_it_sent_meanwhile() {
    let mut leaving = closing();
    for unfinished in [
        Standing {
            at_rest: false,
            ..DONE
        },
        Standing {
            flushed: false,
            ..DONE
        },
    ] {
        assert_eq!(leaving.look(at(220), &unfinished), Step::Wait);
    }
    let mut standing = DONE;
    for sent in [4, 9] {
        standing.sent = sent;
        assert_eq!(leaving.look(at(300), &standing), Step::FlushPaths);
    }
    assert_eq!(leaving.look(at(300), &standing), Step::Finish);
}

#[test]
fn its_time_is_up() {
    let stuck = Standing {
        at_rest: false,
        flushed: false,
        ..DONE
    };
    let mut leaving = closing();
    assert_eq!(leaving.look(at(19_999), &stuck), Step::Wait);
    assert_eq!(leaving.look(at(20_000), &stuck), Step::StopTypes);
    let hosts = Standing {
        hosts_nothing: false,
        ..stuck
    };
    assert_eq!(leaving.look(at(20_001), &hosts), Step::Wait);
    assert_eq!(leaving.look(at(20_002), &stuck), Step::Finish);
}

#[test]
fn without_a_successor_types_stop_at_once() {
    let last = Standing {
        has_successor: false,
        ..DONE
    };
    let mut leaving = leaving();
    assert_eq!(leaving.look(at(0), &last), Step::StopTypes);
    assert_eq!(leaving.look(at(0), &last), Step::Wait);
}

#[test]
fn who_takes_over() {
    use MemberState::{Leaving, Up};
    let voters = [NodeId(1), NodeId(2), NodeId(3)];
    let voters = Voters::new(&voters).unwrap();
    let successor = |ownership, states: &[(u64, MemberState)]| {
        let members = states.iter().map(|(node, state)| Member {
            node: NodeId(*node),
            incarnation: Incarnation(1),
            state: *state,
            roles: Roles::NONE,
        });
        has_successor(NodeId(1), ownership, voters, members)
    };
    for (states, trust, lease) in [
        (&[(1, Leaving)][..], false, false),
        (&[(1, Leaving), (2, Leaving)], false, false),
        (&[(1, Leaving), (9, Up)], true, false),
        (&[(1, Leaving), (2, Up)], true, true),
        (&[(2, Up)], true, false),
        (&[(1, Leaving), (2, Leaving), (9, Up)], true, false),
    ] {
        assert_eq!(successor(Ownership::Trust, states), trust, "{states:?}");
        assert_eq!(successor(Ownership::External, states), trust, "{states:?}");
        assert_eq!(successor(Ownership::Lease, states), lease, "{states:?}");
    }
}
