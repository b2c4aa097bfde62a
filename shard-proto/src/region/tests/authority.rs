//! Who may say what: protocol 1, scenarios 1, 2 and 12.

use super::world::*;
use crate::region::{Arrival, ControlError};
use crate::wire::control::{
    GetShardHome, HandOff, Previous, RegisterAck, RememberedEntities, ShardHome, ShardMapUpdate,
    Size, StatsQuery,
};
use crate::wire::{Control, EntityIds, Homes};
use crate::{Epoch, Leader, NodeId, Token};

fn directives() -> [Control<'static>; 8] {
    let grant = |node| {
        Control::ShardHome(ShardHome {
            shard: S,
            epoch: epoch(9),
            node,
            session: session(node),
            previous: Previous::Lapsed,
        })
    };
    [
        Control::HandOff(HandOff {
            shard: S,
            epoch: epoch(1),
            drain: 0,
        }),
        grant(HOSTILE),
        grant(A),
        Control::RememberedEntities(RememberedEntities {
            shard: S,
            epoch: epoch(1),
            more: false,
            ids: EntityIds::default(),
        }),
        Control::ShardMapUpdate(ShardMapUpdate {
            version: 7,
            last: true,
            homes: Homes::EMPTY,
        }),
        Control::RegisterAck(RegisterAck {
            session: session(A),
            size: Size::default(),
        }),
        Control::StatsQuery(StatsQuery { token: Token(1) }),
        Control::Resized(Size {
            version: epoch(9),
            count: 1,
        }),
    ]
}

fn refuses(from: NodeId, of_term: u64) {
    let mut world = World::new(&[A, B]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).take_said();
    let now = world.now;
    for (count, directive) in (1..).zip(directives()) {
        let told = world
            .region(A)
            .handle_control(now, from, term(of_term), &directive);
        assert_eq!(
            told,
            Err(ControlError::NotLeading {
                adopted: Some(Leader {
                    node: LEADER,
                    term: term(5)
                }),
                found: term(of_term)
            })
        );
        assert_eq!(world.region(A).stats().refused_directives, count);
    }
    world.run();
    assert_eq!(world.host(A).take_said(), []);
    assert_eq!(world.host(A).stops, []);
    assert_eq!(world.host(A).registered.len(), 1);
    assert_eq!(world.region(A).map_version(), Some(0));
    assert_eq!(world.region(A).home(S).unwrap().epoch, epoch(1));
}

#[test]
fn s1_a_hostile_member_cannot_give_directives() {
    refuses(HOSTILE, 5);
}

#[test]
fn s12_directives_of_a_lower_term_are_dropped() {
    refuses(LEADER, 4);
}

#[test]
fn s12_directives_of_a_higher_term_are_dropped() {
    refuses(LEADER, 6);
}

#[test]
fn s1_without_a_leader_nobody_gives_directives() {
    let mut world = World::strangers(&[A], config(), 10);
    let now = world.now;
    for directive in directives() {
        let told = world
            .region(A)
            .handle_control(now, LEADER, term(5), &directive);
        assert!(told.is_err());
    }
}

#[test]
fn s2_a_hand_off_of_a_shard_that_lives_elsewhere_leaves_its_home() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], B, 2);
    world.host(A).take_said();
    world.hand_off(A, 1);
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), false)]
    );
    assert_eq!(world.region(A).home(S).unwrap().node, B);
    world.send(A);
    world.run();
    assert_eq!(world.nodes_handled(A), [B]);
}

#[test]
fn epochs_above_the_term_and_shards_out_of_range_are_refused() {
    let mut world = World::new(&[A]);
    let mut home = ShardHome {
        shard: S,
        epoch: Epoch::from_bits(u64::MAX),
        node: A,
        session: session(A),
        previous: Previous::Completed,
    };
    assert_eq!(
        world.tell(A, &Control::ShardHome(home)),
        Err(ControlError::Malformed)
    );
    home.epoch = epoch(1);
    home.shard.0 = 16;
    assert_eq!(
        world.tell(A, &Control::ShardHome(home)),
        Err(ControlError::UnknownShard)
    );
    let ask = Control::GetShardHome(GetShardHome { shard: S });
    assert_eq!(world.tell(A, &ask), Err(ControlError::Unexpected));
    assert_eq!(world.region(A).stats().refused_directives, 3);
    assert_eq!(world.region(A).hosted(), 0);
}

#[test]
fn s1_envelopes_and_markers_of_strangers_are_refused() {
    let mut world = World::new(&[A]);
    let now = world.now;
    let note = Note { from: D, number: 0 };
    let region = world.region(A);
    for from in [D, A] {
        let arrival = region.handle_envelope(now, from, S, epoch(1), note.clone());
        assert_eq!(arrival, Arrival::Refused(note.clone()));
        region.handle_flush(now, from, S, epoch(1), Token(3));
    }
    assert_eq!(region.stats().refused_envelopes, 4);
    assert_eq!(region.buffered(), 0);
    assert_eq!(region.poll_command(), None);
}

#[test]
fn stats_are_answered() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).take_said();
    let query = StatsQuery { token: Token(77) };
    world.tell(A, &Control::StatsQuery(query)).unwrap();
    assert_eq!(world.host(A).take_said(), [Said::Stats(Token(77), 1)]);
}

#[test]
fn a_bogus_epoch_of_a_hostile_member_does_not_make_the_region_ask() {
    let mut world = World::new(&[A]);
    let now = world.now;
    let note = Note {
        from: HOSTILE,
        number: 0,
    };
    let bogus = Epoch::from_bits(u64::MAX);
    let arrival = world
        .region(A)
        .handle_envelope(now, HOSTILE, S, bogus, note);
    assert_eq!(arrival, Arrival::Queued);
    world.run();
    world.pass(2000);
    assert_eq!(world.host(A).take_said(), []);
    world.hear(A, removed(HOSTILE));
    world.pass(1);
    assert_eq!(world.region(A).buffered(), 0, "reported when it is gone");
    assert_eq!(world.region(A).stats().rejected_origin_ended, 1);
}
