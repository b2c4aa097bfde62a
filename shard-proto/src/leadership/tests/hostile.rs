//! Members that lie.

use super::world::{World, ms};
use crate::Term;
use crate::leadership::ControlError;
use crate::wire::Control;
use crate::wire::control::{LeaderBeat, NodeBeat, TermRefused};

fn beat(seq: u64) -> Control<'static> {
    let (echo, valid) = (u64::MAX, u64::MAX);
    Control::LeaderBeat(LeaderBeat { seq, echo, valid })
}

#[test]
fn a_huge_term_is_refused() {
    let mut world = World::cluster(1, 4);
    world.run(ms(4_000));
    let hour = world.hosts[0].reign.unwrap().0 + 3_700 * 16;
    for (i, term) in [hour, 1 << 35, (1 << 36) - 1, 1 << 40, u64::MAX]
        .into_iter()
        .enumerate()
    {
        for to in 0..3 {
            let refused = Control::TermRefused(TermRefused {
                highest: Term(term),
            });
            let current = world.hosts[0].reign.unwrap();
            world.inject(3, to, Term(term), &beat(1_000_000 + i as u64));
            world.inject(3, to, current, &refused);
        }
    }
    for host in &world.hosts[..3] {
        assert!(
            host.errors
                .iter()
                .all(|error| *error == ControlError::TermTooHigh)
        );
        assert!(host.errors.len() >= 4);
    }
    world.run(ms(5_000));
    assert_eq!(world.agreed(), 0);
    assert_eq!(world.reigns.len(), 1);
    // Nor does it keep the others from following the next.
    world.kill(0);
    world.run(ms(5_000));
    assert_eq!(world.agreed(), 1);
}

#[test]
fn a_flood_of_refusals_costs_one_term_per_support_lease() {
    let mut world = World::cluster(2, 4);
    world.run(ms(4_000));
    for _ in 0..8_000 {
        let current = world.hosts[0].reign.unwrap();
        for ahead in [0, 1, 5] {
            let highest = Term(current.0 + ahead);
            let refused = Control::TermRefused(TermRefused { highest });
            world.inject(3, 0, current, &refused);
        }
        // Of terms that are not current, or from somebody who is lower: nothing.
        for term in [Term(current.0 - 1), Term(current.0 + 1), Term::NONE] {
            let highest = Term(current.0 + 9);
            let refused = Control::TermRefused(TermRefused { highest });
            world.inject(2, 0, term, &refused);
        }
        let highest = Term(current.0 - 1);
        let refused = Control::TermRefused(TermRefused { highest });
        world.inject(2, 0, current, &refused);
        world.run(ms(1));
    }
    let reigns = world.reigns.len();
    assert!((2..=12).contains(&reigns), "{reigns}");
    world.run(ms(3_000));
    assert_eq!(world.agreed(), 0);
}

#[test]
fn a_pretender_is_not_followed() {
    // The youngest member beats like a leader, with a term that would be believed.
    let mut world = World::cluster(3, 4);
    world.run(ms(4_000));
    let term = Term(world.hosts[0].reign.unwrap().0 + 100);
    for i in 0..5_000 {
        for to in 0..3 {
            world.inject(3, to, term, &beat(1_000_000 + i));
            world.inject(3, to, term, &Control::Resign);
        }
        world.run(ms(1));
        assert_eq!(world.leaders(), [0]);
    }
    assert_eq!(world.reigns.len(), 1);
    for i in 0..3 {
        assert_eq!(world.hosts[i].leader.unwrap().node, World::id(0));
    }
}

#[test]
fn strangers_are_not_heard() {
    let mut world = World::cluster(4, 4);
    world.run(ms(4_000));
    let term = world.hosts[0].reign.unwrap();
    for to in 0..4 {
        let node_beat = NodeBeat {
            seq: u64::MAX,
            echo: u64::MAX,
            lapses: 0,
            types: 0,
            leaving: true,
        };
        for control in [
            beat(9),
            Control::NodeBeat(node_beat),
            Control::Resign,
            Control::TermRefused(TermRefused { highest: term }),
        ] {
            world.inject(50, to, term, &control);
        }
        let errors = &world.hosts[to].errors;
        assert_eq!(errors.as_slice(), [ControlError::UnknownPeer; 4]);
    }
    world.run(ms(1_000));
    assert_eq!(world.agreed(), 0);
    assert_eq!(world.reigns.len(), 1);
}
