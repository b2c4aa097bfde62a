//! How long a frame takes. Not run by default: `cargo test --release -p shard-proto --all-features speed -- --ignored`.

use std::println;
use std::time::Instant as Clock;

use super::*;

#[test]
#[ignore = "a measurement"]
fn speed() {
    let mut world = World::pair();
    let slot = world.slot(0, 1).unwrap();
    let back = world.slot(1, 0).unwrap();
    let (a, b) = (world.pipes[0].ends[0].1, world.pipes[0].ends[1].1);
    let payload = [7u8; 64];
    // The best round: what the machine does besides is none of a link's business.
    let (mut out, mut inn) = (Duration::MAX, Duration::MAX);
    let (batch, rounds) = (1000u64, 2000u64);
    let mut inbox = BytesMut::with_capacity(1 << 20);
    let mut acks = BytesMut::new();
    for _ in 0..rounds {
        let links = &mut world.hosts[0].links;
        let start = Clock::now();
        for _ in 0..batch {
            links
                .data(world.now, slot, FLOW, 64, |out, slot| {
                    put(out, slot, &payload)
                })
                .unwrap();
        }
        let mut chunks = Vec::new();
        while let Some(link) = links.poll_dirty() {
            assert_eq!(link, a);
            chunks.extend(core::iter::from_fn(|| Some(links.poll_transmit(link)?.1)));
        }
        out = out.min(start.elapsed());
        for chunk in chunks {
            inbox.extend_from_slice(&chunk);
        }
        let links = &mut world.hosts[1].links;
        let start = Clock::now();
        let mut got = 0;
        while let Some(incoming) = links
            .read(world.now, b, StreamIndex::CONTROL, &mut inbox)
            .unwrap()
        {
            core::hint::black_box(&incoming);
            got += 1;
        }
        inn = inn.min(start.elapsed());
        assert_eq!(got, batch);
        inbox = BytesMut::with_capacity(1 << 20);
        links
            .data(world.now, back, FLOW, 64, |out, slot| {
                put(out, slot, &payload)
            })
            .unwrap();
        while let Some(link) = links.poll_dirty() {
            while let Some((_, bytes)) = links.poll_transmit(link) {
                acks.extend_from_slice(&bytes);
            }
        }
        let links = &mut world.hosts[0].links;
        while links
            .read(world.now, a, StreamIndex::CONTROL, &mut acks)
            .unwrap()
            .is_some()
        {}
    }
    println!(
        "write {} ns, read {} ns a frame",
        out.as_nanos() as u64 / batch,
        inn.as_nanos() as u64 / batch
    );
}
