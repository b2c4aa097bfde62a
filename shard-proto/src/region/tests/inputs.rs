//! Single regions that hear anything, from anybody; on the heap and in arrays at once.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use core::time::Duration;

use proptest::prelude::*;

use super::random::cases;
use super::world::*;
use crate::membership::{Member, MemberChange};
use crate::region::{Origin, Region, RegionConfig};
use crate::table::{ArrayStorage, HeapStorage, RegionStorage};
use crate::wire::control::{
    HandOff, Previous, RegisterAck, RegisterRefusal, RegisterRefused, ShardHome, ShardMapUpdate,
    Size,
};
use crate::wire::{Control, HomeEntry, HomesBuilder, ReturnReason};
use crate::{Incarnation, Instant, Leader, NodeId, Session, ShardId, Term, Token};

/// Any input to a region, from anybody.
#[derive(Clone, Debug)]
enum Input {
    Route(u32),
    Envelope(u64, u32, u32),
    Return(u64, u32, u32, bool),
    Flush(u64, u32, u32),
    Flushed(u64, u32, u64),
    Home(u32, u32, u64, bool, u32),
    HandOff(u32, u32),
    Map(u32, u32, u64),
    Ack(u32),
    Refused(u32, u8),
    Leader(Option<u64>),
    Lease(Option<u32>),
    Lapse(u32),
    Member(u64, u64),
    Removed(u64, u64),
    Congestion(u64, bool),
    Started(u32, u32),
    GiveBack(u32, u32, u64),
    Stopped(u32, u32, bool),
    FlushPaths,
    Stop,
    Timeout,
    Pass(u16),
    Poll(u8),
}

fn input() -> impl Strategy<Value = Input> {
    let shard = 0u32..5;
    let round = 0u32..6;
    let node = 0u64..5;
    prop_oneof![
        8 => shard.clone().prop_map(Input::Route),
        6 => (node.clone(), shard.clone(), round.clone()).prop_map(|(n, s, r)| Input::Envelope(n, s, r)),
        4 => (node.clone(), shard.clone(), round.clone(), any::<bool>())
            .prop_map(|(n, s, r, full)| Input::Return(n, s, r, full)),
        2 => (node.clone(), shard.clone(), round.clone()).prop_map(|(n, s, r)| Input::Flush(n, s, r)),
        2 => (node.clone(), shard.clone(), any::<u64>()).prop_map(|(n, s, t)| Input::Flushed(n, s, t)),
        8 => (shard.clone(), round.clone(), node.clone(), any::<bool>(), 0u32..3)
            .prop_map(|(s, r, n, lapsed, life)| Input::Home(s, r, n, lapsed, life)),
        3 => (shard.clone(), round.clone()).prop_map(|(s, r)| Input::HandOff(s, r)),
        2 => (shard.clone(), round.clone(), node.clone()).prop_map(|(s, r, n)| Input::Map(s, r, n)),
        2 => (0u32..3).prop_map(Input::Ack),
        1 => (0u32..3, any::<u8>()).prop_map(|(s, reason)| Input::Refused(s, reason)),
        1 => prop::option::of(5u64..7).prop_map(Input::Leader),
        1 => prop::option::of(any::<u32>()).prop_map(Input::Lease),
        1 => (0u32..4).prop_map(Input::Lapse),
        2 => (node.clone(), 0u64..3).prop_map(|(n, life)| Input::Member(n, life)),
        1 => (node.clone(), 0u64..3).prop_map(|(n, life)| Input::Removed(n, life)),
        2 => (node.clone(), any::<bool>()).prop_map(|(n, full)| Input::Congestion(n, full)),
        6 => (shard.clone(), round.clone()).prop_map(|(s, r)| Input::Started(s, r)),
        4 => (shard.clone(), round.clone(), node).prop_map(|(s, r, n)| Input::GiveBack(s, r, n)),
        3 => (shard, round, any::<bool>()).prop_map(|(s, r, forced)| Input::Stopped(s, r, forced)),
        1 => Just(Input::FlushPaths),
        1 => Just(Input::Timeout),
        4 => any::<u16>().prop_map(Input::Pass),
        12 => any::<u8>().prop_map(Input::Poll),
    ]
}

/// Applies an input and writes down what came of it.
fn apply<S: RegionStorage<u32>>(
    region: &mut Region<u32, S>,
    now: &mut Instant,
    number: u32,
    input: &Input,
) -> String {
    let at = *now;
    let round = |round: u32| epoch(round);
    let life = |lapses: u32| Session {
        incarnation: Incarnation(1000),
        lapses,
        starts: 0,
    };
    let hear = |region: &mut Region<u32, S>, control: &Control<'_>| {
        format!("{:?}", region.handle_control(at, LEADER, Term(5), control))
    };
    match *input {
        Input::Route(shard) => format!("{:?}", region.route(at, ShardId(shard), number)),
        Input::Envelope(from, shard, r) => format!(
            "{:?}",
            region.handle_envelope(at, NodeId(from), ShardId(shard), round(r), number)
        ),
        Input::Return(from, shard, r, full) => {
            let reason = if full {
                ReturnReason::Full
            } else {
                ReturnReason::Moved
            };
            let back =
                region.handle_return(at, NodeId(from), ShardId(shard), round(r), reason, number);
            format!("{back:?}")
        }
        Input::Flush(from, shard, r) => {
            region.handle_flush(
                at,
                NodeId(from),
                ShardId(shard),
                round(r),
                Token(u64::from(number)),
            );
            String::new()
        }
        Input::Flushed(from, shard, token) => format!(
            "{}",
            region.handle_flushed(at, NodeId(from), ShardId(shard), Token(token))
        ),
        Input::Home(shard, r, node, lapsed, lapses) => {
            let session = if node == A.0 {
                life(lapses)
            } else {
                Session {
                    incarnation: Incarnation(u64::from(lapses)),
                    lapses: 0,
                    starts: 0,
                }
            };
            let previous = if lapsed {
                Previous::Lapsed
            } else {
                Previous::Completed
            };
            let home = ShardHome {
                shard: ShardId(shard),
                epoch: round(r),
                node: NodeId(node),
                session,
                previous,
            };
            hear(region, &Control::ShardHome(home))
        }
        Input::HandOff(shard, r) => {
            let hand_off = HandOff {
                shard: ShardId(shard),
                epoch: round(r),
                drain: 1000,
            };
            hear(region, &Control::HandOff(hand_off))
        }
        Input::Map(shard, r, node) => {
            let mut bytes = [0; 64];
            let mut homes = HomesBuilder::new(&mut bytes);
            let entry = HomeEntry {
                shard: ShardId(shard),
                epoch: round(r),
                node: NodeId(node),
            };
            homes.push(entry).unwrap();
            let update = ShardMapUpdate {
                version: u64::from(number),
                last: true,
                homes: homes.finish(),
            };
            hear(region, &Control::ShardMapUpdate(update))
        }
        Input::Ack(lapses) => {
            let session = life(lapses);
            hear(
                region,
                &Control::RegisterAck(RegisterAck {
                    session,
                    size: Size::default(),
                }),
            )
        }
        Input::Refused(lapses, reason) => {
            let reason = match reason % 4 {
                0 => RegisterRefusal::SessionEnded,
                1 => RegisterRefusal::UnknownType,
                2 => RegisterRefusal::Full,
                _ => RegisterRefusal::Claims,
            };
            let session = life(lapses);
            let refused = RegisterRefused { session, reason };
            hear(region, &Control::RegisterRefused(refused))
        }
        Input::Leader(term) => {
            let leader = term.map(|term| Leader {
                node: LEADER,
                term: Term(term),
            });
            region.handle_leader(at, leader);
            String::new()
        }
        Input::Lease(until) => {
            let until = until.map(|until| {
                if until % 2 == 0 {
                    Instant::FAR_FUTURE
                } else {
                    at.after(Duration::from_micros(u64::from(until % 500_000)))
                }
            });
            region.handle_lease(at, until);
            String::new()
        }
        Input::Lapse(lapses) => {
            region.handle_lapse(at, lapses);
            String::new()
        }
        Input::Member(node, incarnation) => {
            let change = Member {
                node: NodeId(node),
                incarnation: Incarnation(incarnation),
                ..member(B)
            };
            format!(
                "{:?}",
                region.handle_member(at, MemberChange::Member(change))
            )
        }
        Input::Removed(node, incarnation) => {
            let change = MemberChange::Removed {
                node: NodeId(node),
                incarnation: Incarnation(incarnation),
                cause: crate::membership::RemovalCause::Left,
            };
            format!("{:?}", region.handle_member(at, change))
        }
        Input::Congestion(node, congested) => {
            region.handle_congestion(at, NodeId(node), congested);
            String::new()
        }
        Input::Started(shard, r) => {
            region.handle_shard_started(at, ShardId(shard), round(r));
            String::new()
        }
        Input::GiveBack(shard, r, node) => {
            let origin = if node == A.0 {
                Origin::Local
            } else {
                Origin::Remote(NodeId(node))
            };
            let given = region.give_back(at, ShardId(shard), round(r), origin, number);
            format!("{given:?}")
        }
        Input::Stopped(shard, r, forced) => {
            region.handle_shard_stopped(at, ShardId(shard), round(r), forced);
            String::new()
        }
        Input::FlushPaths => {
            region.flush_paths(at);
            String::new()
        }
        Input::Stop => {
            region.stop(at);
            String::new()
        }
        Input::Timeout => {
            region.handle_timeout(at);
            String::new()
        }
        Input::Pass(millis) => {
            *now = now.after(Duration::from_micros(u64::from(millis) * 37));
            region.handle_timeout(*now);
            format!("{:?}", region.poll_timeout())
        }
        Input::Poll(count) => (0..count % 16)
            .map_while(|_| Some(format!("{:?};", region.poll_command()?)))
            .collect(),
    }
}

fn small() -> RegionConfig {
    RegionConfig::new("cart")
        .with_shard_count(4)
        .with_buffer(9)
        .with_buffer_per_shard(5)
        .with_return_window(3)
        .with_seed(5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    #[test]
    fn anything_may_be_said_to_a_region_and_its_tables_agree(
        inputs in prop::collection::vec(input(), 0..300),
        stops in any::<bool>(),
    ) {
        let mut now = at(5000);
        let start = Session { incarnation: Incarnation(1000), lapses: 0, starts: 0 };
        let storage = HeapStorage::new(4, 3, 12);
        let mut heap = Region::new(now, A, start, small(), storage).unwrap();
        let storage = ArrayStorage::<u32, 4, 3, 12>::new();
        let mut array = Region::new(now, A, start, small(), storage).unwrap();
        let mut entered = 0u32;
        let mut first = vec![
            Input::Lease(Some(0)),
            Input::Leader(Some(5)),
            Input::Member(2, 1),
            Input::Member(3, 1),
            Input::Ack(0),
        ];
        first.extend(inputs);
        if stops {
            first.push(Input::Stop);
            for shard in 0..4 {
                first.extend((0..6).map(|round| Input::Stopped(shard, round, false)));
            }
            first.push(Input::Pass(1));
            first.extend([Input::Poll(15), Input::Poll(15), Input::Poll(15), Input::Poll(15)]);
        }
        for (number, input) in (0..).zip(&first) {
            let mut same = now;
            let trace = apply(&mut heap, &mut now, number, input);
            let other = apply(&mut array, &mut same, number, input);
            prop_assert_eq!(trace, other);
            prop_assert_eq!(heap.poll_timeout(), array.poll_timeout());
            heap.validate();
            entered += 1;
        }
        prop_assert_eq!(entered as usize, first.len());
        if stops {
            prop_assert_eq!(heap.buffered(), 0);
            prop_assert_eq!(heap.hosted(), 0);
            prop_assert!(heap.is_settled());
        }
    }
}
