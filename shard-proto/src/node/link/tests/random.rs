//! Random cuts, reconnects, partial reads: what is delivered is what was sent, in order, exactly once.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Op {
    Send {
        host: usize,
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
        6 => (host.clone(), 1..40u8, 0..3000u16)
            .prop_map(|(host, count, size)| Op::Send { host, count, size }),
        1 => host.clone().prop_map(|host| Op::Control { host }),
        6 => host.clone().prop_map(|host| Op::Flush { host }),
        8 => (host.clone(), any::<u16>()).prop_map(|(end, bytes)| Op::Arrive { end, bytes }),
        2 => Just(Op::Cut),
        1 => host.clone().prop_map(|end| Op::HalfCut { end }),
        3 => (0..400u16).prop_map(|ms| Op::Pass { ms }),
        2 => host.prop_map(|host| Op::Timeout { host }),
        3 => Just(Op::Connect),
    ]
}

fn apply(world: &mut World, op: Op, next: &mut [u64; 2]) {
    let newest = world.pipes.len().checked_sub(1);
    match op {
        Op::Send { host, count, size } => {
            for _ in 0..count {
                if world
                    .send_sized(host, 1 - host, next[host], size.into())
                    .is_ok()
                {
                    next[host] += 1;
                }
            }
        }
        Op::Control { host } => {
            world.control(host, 1 - host, 0);
        }
        Op::Flush { host } => world.collect(host),
        Op::Arrive { end, bytes } => {
            for pipe in 0..world.pipes.len() {
                world.arrive(pipe, end, bytes.into());
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
    ) {
        let names = lower_first("a", "b");
        let mut world = World::with(&names, |_, config| LinkConfig {
            window_frames: window,
            ..config
        });
        world.introduce(0, 1);
        if both_dial {
            let address = world.hosts[0].links.me.address.clone();
            world.hosts[1].links.add_seed(world.now, &address);
        }
        let mut next = [0; 2];
        for op in ops {
            apply(&mut world, op, &mut next);
            for host in [0, 1] {
                let got = world.hosts[host].from(world.node(1 - host));
                prop_assert_eq!(&got, &numbers(got.len() as u64));
            }
        }
        // Then nothing breaks any more.
        world.advance(ms(15_000));
        for host in [0, 1] {
            let got = world.hosts[host].from(world.node(1 - host));
            prop_assert_eq!(got, numbers(next[1 - host]));
            let slot = world.slot(host, 1 - host).unwrap();
            prop_assert!(world.hosts[host].links.flushed(slot));
            prop_assert!(!world.hosts[host].links.is_congested(slot));
            prop_assert!(world.is_up(host, 1 - host));
        }
        prop_assert_eq!(world.open().len(), 1);
        for host in &world.hosts {
            prop_assert!(!host.heard.iter().any(|heard| matches!(
                heard,
                Heard::Fault(LinkFault::Gap { .. } | LinkFault::Frame(_) | LinkFault::Ack { .. })
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
