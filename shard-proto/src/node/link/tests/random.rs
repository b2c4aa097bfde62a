//! Random cuts, reconnects, partial reads: what is delivered is what was sent, in order, exactly once.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Op {
    Send {
        host: usize,
        shard: u8,
        count: u8,
        size: u16,
    },
    Control {
        host: usize,
    },
    /// A host's bytes go to its connections.
    Flush {
        host: usize,
    },
    Arrive {
        end: usize,
        stream: u8,
        bytes: u16,
    },
    Cut,
    /// One end notices a break at once, the other when it is told, or by silence.
    HalfCut {
        end: usize,
    },
    Pass {
        ms: u16,
    },
    Timeout {
        host: usize,
    },
    Connect,
}

fn op() -> impl Strategy<Value = Op> {
    let host = 0..2usize;
    prop_oneof![
        6 => (host.clone(), 0..SHARDS, 1..40u8, 0..3000u16)
            .prop_map(|(host, shard, count, size)| Op::Send { host, shard, count, size }),
        1 => host.clone().prop_map(|host| Op::Control { host }),
        6 => host.clone().prop_map(|host| Op::Flush { host }),
        8 => (host.clone(), 0..5u8, any::<u16>())
            .prop_map(|(end, stream, bytes)| Op::Arrive { end, stream, bytes }),
        2 => Just(Op::Cut),
        1 => host.clone().prop_map(|end| Op::HalfCut { end }),
        3 => (0..400u16).prop_map(|ms| Op::Pass { ms }),
        2 => host.prop_map(|host| Op::Timeout { host }),
        3 => Just(Op::Connect),
    ]
}

const SHARDS: u8 = 4;

/// Of what each host sent, per shard.
type Next = [[u64; SHARDS as usize]; 2];

fn apply(world: &mut World, op: Op, next: &mut Next) {
    let newest = world.pipes.len().checked_sub(1);
    match op {
        Op::Send {
            host,
            shard,
            count,
            size,
        } => {
            let next = &mut next[host][usize::from(shard)];
            let shard = ShardId(shard.into());
            // Long ones and short ones, behind one another.
            for size in (0..count).map(|at| usize::from(size) >> (at % 4 * 3)) {
                if world.send_to(host, 1 - host, shard, *next, size).is_ok() {
                    *next += 1;
                }
            }
        }
        Op::Control { host } => {
            world.control(host, 1 - host, 0);
        }
        Op::Flush { host } => world.collect(host),
        Op::Arrive { end, stream, bytes } => {
            for pipe in 0..world.pipes.len() {
                match stream % world.streams {
                    0 => world.arrive(pipe, end, bytes.into()),
                    lane => world.arrive_on(pipe, end, lane, bytes.into()),
                }
            }
        }
        Op::Cut => {
            if let Some(pipe) = newest {
                world.cut(pipe);
            }
        }
        Op::HalfCut { end } => {
            if let Some(pipe) = newest {
                world.cut_end(pipe, end);
            }
        }
        Op::Pass { ms: by } => world.now = world.now.after(ms(by.into())),
        Op::Timeout { host } => world.hosts[host].links.handle_timeout(world.now),
        Op::Connect => {
            if !world.dials.is_empty() {
                world.connect(0);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases(120)))]

    #[test]
    fn exactly_once_in_order(
        ops in proptest::collection::vec(op(), 1..150),
        both_dial in any::<bool>(),
        window in 1..200u32,
        lanes in (1..4u8, 1..4u8),
        streams in any::<bool>(),
        fragment in prop_oneof![64..2000u32, Just(1u32 << 16)],
    ) {
        let names = lower_first("a", "b");
        let mut world = World::with(&names, |host, config| LinkConfig {
            window_frames: window,
            lanes: if host == 0 { lanes.0 } else { lanes.1 },
            fragment,
            ..config
        });
        if streams {
            world.streams = 1 + lanes.0.max(lanes.1);
        }
        world.introduce(0, 1);
        if both_dial {
            let address = world.hosts[0].links.me.address.clone();
            world.hosts[1].links.add_seed(world.now, &address);
        }
        let mut next = Next::default();
        for op in ops {
            apply(&mut world, op, &mut next);
            for host in [0, 1] {
                for got in world.hosts[host].by_shard.values() {
                    prop_assert_eq!(got, &numbers(got.len() as u64));
                }
            }
        }
        // Then nothing breaks any more.
        world.advance(ms(15_000));
        for host in [0, 1] {
            for (shard, sent) in (0..).zip(next[1 - host]) {
                let got = world.hosts[host].by_shard.get(&(world.node(1 - host), shard));
                prop_assert_eq!(got.map_or(0, |got| got.len()) as u64, sent);
            }
            let slot = world.slot(host, 1 - host).unwrap();
            prop_assert!(world.hosts[host].links.flushed(slot));
            prop_assert!(!world.hosts[host].links.is_congested(slot));
            prop_assert!(world.is_up(host, 1 - host));
        }
        prop_assert_eq!(world.open().len(), 1);
        for host in &world.hosts {
            prop_assert!(!host.heard.iter().any(|heard| matches!(
                heard,
                Heard::Fault(fault) if fault.is_news()
            )), "{:?}", host.heard);
        }
    }

    /// Nothing that arrives makes a link panic, or grow beyond its bounds.
    #[test]
    fn noise(bytes in proptest::collection::vec(any::<u8>(), 0..400), up in any::<bool>(), cut in 0..400usize) {
        let mut raw = if up { raw::Raw::up() } else { raw::Raw::new(|config| config) };
        let _ = raw.bytes(&bytes);
        // Noise behind something sensible.
        let mut raw = raw::Raw::new(|config| config);
        let mut sensible = raw::encoded(&Control::Hello(raw::hello("b")));
        sensible.extend_from_slice(&raw::encoded(&raw::welcome(&[0; 8])));
        sensible.extend_from_slice(&raw::data(0, 100));
        sensible.truncate(cut);
        sensible.extend_from_slice(&bytes);
        let _ = raw.bytes(&sensible);
        raw.host.links.handle_timeout(raw.now.after(ms(60_000)));
        raw.host.links.handle_timeout(raw.now.after(ms(120_000)));
    }
}
