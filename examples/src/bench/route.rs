//! The core alone.

use core::hint::black_box;

use shard_proto::{
    Epoch, Incarnation, Instant, Leader, NodeId, Session, ShardId, Term,
    membership::{Member, MemberChange, MemberState, Roles},
    region::{Region, RegionConfig, Route},
    table::HeapStorage,
    wire::{
        Control,
        control::{Previous, RegisterAck, ShardHome},
    },
};

use crate::{
    failure::Failure,
    figures::{Figure, Size, figure},
    floor::timed,
};

const SHARDS: u32 = 256;

/// `route` to 256 shards that live on another node.
pub(super) fn route(size: Size) -> Result<Vec<Figure>, Failure> {
    let messages = size.of(50_000_000);
    let mut region = region().ok_or_else(|| Failure::run("a region could not be set up"))?;
    let now = Instant::from_micros(1);
    let (remote, took) = timed(|| {
        let mut remote = 0_u64;
        for number in 0..messages {
            // Not in order, as shards of entities are not.
            let shard = ShardId((number.wrapping_mul(0x9E37_79B9) >> 8) as u32 % SHARDS);
            let route = region.route(now, black_box(shard), number);
            remote += u64::from(matches!(black_box(route), Ok(Route::Remote { .. })));
        }
        remote
    });
    if remote != messages {
        return Err(Failure::run("a home is not known"));
    }
    let nanos = took.as_secs_f64() * 1e9 / messages as f64;
    Ok(vec![figure("route_ns", nanos)])
}

/// A region of node 1 that knows node 2 as the home of every shard.
fn region() -> Option<Region<u64, HeapStorage<u64>>> {
    let now = Instant::ZERO;
    let session = Session::default();
    let config = RegionConfig::new("bench").with_shard_count(SHARDS);
    let storage = HeapStorage::new(SHARDS, 8, config.buffer() + SHARDS);
    let mut region = Region::new(now, NodeId(1), session, config, storage).ok()?;
    for node in [1, 2] {
        let change = MemberChange::Member(Member {
            node: NodeId(node),
            incarnation: Incarnation(node - 1),
            state: MemberState::Up,
            roles: Roles::NONE,
        });
        region.handle_member(now, change).ok()?;
    }
    let (node, term) = (NodeId(2), Term(1));
    region.handle_leader(now, Some(Leader { node, term }));
    region.handle_lease(now, Some(Instant::FAR_FUTURE));
    let registered = Control::RegisterAck(RegisterAck {
        session,
        size: Default::default(),
    });
    region.handle_control(now, node, term, &registered).ok()?;
    for shard in (0..SHARDS).map(ShardId) {
        region.route(now, shard, 0).ok()?;
        let home = Control::ShardHome(ShardHome {
            shard,
            epoch: Epoch::new(term, shard.0 + 1)?,
            node,
            session: Session {
                incarnation: Incarnation(1),
                ..session
            },
            previous: Previous::Completed,
        });
        region.handle_control(now, node, term, &home).ok()?;
    }
    while region.poll_command().is_some() {}
    Some(region)
}
