//! A simulated cluster, with faults that the bytes choose.

use alloc::vec::Vec;
use core::time::Duration;

use super::feed::Feed;
use crate::leadership::Ownership;
use crate::sim::{Fault, HeapStore, Schedule, World, WorldConfig, minimise};

/// More faults are not looked at.
const MOST: usize = 60;
const MS: u64 = 1_000;

/// A small cluster in virtual time, whose faults come as the bytes say; then they end.
///
/// Every promise that the simulator checks holds, whatever happens when.
pub fn world(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    let nodes = 3 + feed.below(3) as u8;
    let types = 1 + feed.below(8) as u8 / 7;
    let shards = 1 + feed.below(6);
    let base = if feed.flag() {
        WorldConfig::lan()
    } else {
        WorldConfig::new()
    };
    let storm = Duration::from_secs(12);
    let config = base
        .with_nodes(nodes)
        .with_voters(3)
        .with_types(types)
        .with_shards(shards)
        .with_ownership(Ownership::Lease)
        .with_buffer(feed.pick(&[512, 8, 64]))
        .with_window(feed.pick(&[512, 8, 64]))
        .with_traffic(Duration::from_millis(feed.pick(&[40, 100])))
        .with_moves(Duration::from_millis(feed.pick(&[1_000, 5_000, 0])))
        .with_phases(storm, Duration::from_secs(36))
        .with_probe(Duration::ZERO);
    let seed = u64::from(feed.byte());
    let mut faults = Vec::new();
    let (mut at, end) = (0, 12_000 * MS);
    while !feed.is_empty() && faults.len() < MOST && at < end {
        // Many things within a beat, or a pause.
        let pause = u64::from(feed.byte());
        at += if pause < 200 {
            pause * MS
        } else {
            (pause - 199) * 100 * MS
        };
        if let Some(fault) = fault(&mut feed, &config)
            && at < end
        {
            faults.push((at, fault));
        }
    }
    calm(&config, end, &mut faults);
    let world = World::<HeapStore>::with_schedule(config.clone(), seed, Schedule::new(faults));
    let world = world.expect("the settings are good");
    if let Err(failure) = world.run() {
        let least = minimise::<HeapStore>(&config, &failure).expect("the settings are good");
        panic!("{failure}\nwith\n{}in\n{config:#?}", least.schedule);
    }
}

/// Something that the protocol promises to survive.
fn fault(feed: &mut Feed<'_>, config: &WorldConfig) -> Option<Fault> {
    let nodes = u32::from(config.nodes());
    let host = feed.below(nodes) as u8;
    let other = ((u32::from(host) + 1 + feed.below(nodes - 1)) % nodes) as u8;
    let shard = feed.below(config.all_shards());
    let ty = feed.below(u32::from(config.types())) as u8;
    let length = u64::from(feed.byte());
    let for_ = Duration::from_millis(length * length / 8);
    Some(match feed.below(24) {
        0..=2 => Fault::Cut {
            from: host,
            to: other,
        },
        3 | 4 => Fault::Heal {
            from: host,
            to: other,
        },
        5 => Fault::HealAll,
        6 => Fault::Noise {
            loss: feed.byte().into(),
            duplicate: feed.byte().into(),
            late: feed.byte().into(),
            delay: for_.min(Duration::from_secs(3)),
        },
        7 => Fault::Break { a: host, b: other },
        8..=10 => Fault::Pause { host, for_ },
        11 => Fault::Crash { host },
        12 => Fault::Restart { host },
        13 => Fault::Start { host },
        14 => Fault::Leave { host },
        15 => Fault::StopRegion { host, ty },
        16 => Fault::StartRegion { host, ty },
        17 => Fault::ClockRate {
            host,
            ppm: (feed.byte() as i32 - 128) * 115,
        },
        // A voter's promise would end early.
        18 if host >= config.voters() => Fault::ClockJump { host, by: for_ },
        18 | 19 => Fault::Suspect {
            by: host,
            of: other,
            for_,
        },
        20 => Fault::HangStops { host, for_ },
        21 => Fault::SlowStarts {
            host,
            by: for_ / 4,
            for_,
        },
        22 => Fault::Burst {
            host,
            shard,
            count: u32::from(feed.byte()) * 2,
        },
        _ => Fault::Move { shard },
    })
}

/// Everything is undone.
fn calm(config: &WorldConfig, at: u64, faults: &mut Vec<(u64, Fault)>) {
    faults.push((at, Fault::HealAll));
    faults.push((
        at,
        Fault::Noise {
            loss: 0,
            duplicate: 0,
            late: 0,
            delay: Duration::ZERO,
        },
    ));
    for host in 0..config.nodes() {
        // One that leaves may take longer.
        let leaves = faults
            .iter()
            .any(|(_, fault)| *fault == Fault::Leave { host });
        faults.push((
            at,
            if leaves {
                Fault::Restart { host }
            } else {
                Fault::Start { host }
            },
        ));
        for ty in 0..config.types() {
            faults.push((at, Fault::StartRegion { host, ty }));
        }
        let for_ = Duration::ZERO;
        faults.push((at, Fault::HangStops { host, for_ }));
    }
}
