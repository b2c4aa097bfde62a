//! Ten thousand connections of nobody: a running cluster goes on, and its memory stays bounded.
#![cfg(target_os = "linux")]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::way::Way;
use common::{Answer, Say, World, free_address, scribes, within};
use shard_tokio::{Membership, Preset};

/// Connections at once and in all; half of them say nothing, the others garbage.
const FLOOD: usize = 10_000;
/// What they may add to this process, which is both nodes and those that flood them: the places for what arrives, with a buffer
/// each, and what the kernel and the runtime keep of connections that come and go.
const BOUND: u64 = 32 << 20;

fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

async fn flood(way: Way) {
    let seeds = common::all(2, |_| free_address());
    let world = World::new();
    let mut nodes = Vec::new();
    for (name, address) in ["a", "b"].iter().zip(&seeds) {
        let node = way.builder(name, address, &seeds).preset(Preset::Default);
        let node = node.membership(Membership::Links).start().await.unwrap();
        let scribes = scribes(&node, &world, |it| it).await;
        nodes.push((node, scribes));
    }
    for (_, scribes) in &nodes {
        scribes.ready().await.unwrap();
    }
    let (a, on_a) = &nodes[0];
    let ask = async |n: usize| {
        let entity = on_a.entity(format!("e{}", n % 50));
        let answer = within(10, "an answer", entity.ask(Say::Add(0))).await;
        assert!(matches!(answer, Ok(Answer::Sum(_))), "{answer:?}");
    };
    for n in 0..50 {
        ask(n).await;
    }
    let before = resident();
    let over = Arc::new(AtomicBool::new(false));
    let flooding = tokio::task::spawn_blocking({
        let (target, over) = (seeds[0].clone(), Arc::clone(&over));
        move || {
            let garbage = [0xee_u8; 16 * 1024];
            // What nobody closes stays open: as many at once as there are places, and the backlog.
            let mut open = std::collections::VecDeque::new();
            for n in 0..FLOOD {
                let mut stream = TcpStream::connect(&target).unwrap();
                stream
                    .set_write_timeout(Some(Duration::from_millis(100)))
                    .unwrap();
                if n % 2 == 0 {
                    // It may be closed by now.
                    let _ = stream.write_all(&garbage);
                }
                open.push_back(stream);
                if open.len() > 700 {
                    open.pop_front();
                }
            }
            over.store(true, Ordering::SeqCst);
            open
        }
    });
    let (mut asked, mut peak, mut slowest) = (0, 0, Duration::ZERO);
    while !over.load(Ordering::SeqCst) {
        let start = Instant::now();
        ask(asked).await;
        slowest = slowest.max(start.elapsed());
        asked += 1;
        peak = peak.max(resident());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let open = flooding.await.unwrap();
    for n in 0..50 {
        ask(n).await;
    }
    peak = peak.max(resident());
    let stats = a.stats().connections;
    assert!(asked > 100, "{asked}");
    assert!(stats.arrived >= FLOOD as u64, "{stats:?}");
    assert!(stats.crowded > FLOOD as u64 / 4, "{stats:?}");
    let grew = peak.saturating_sub(before);
    println!(
        "{asked} asks, the slowest took {slowest:?}; {} KiB more; {stats:?}",
        grew >> 10
    );
    assert!(grew < BOUND, "{grew} bytes");
    assert!(nodes.iter().all(|(node, _)| node.members().len() == 2));
    drop(open);
    for (node, _) in nodes.iter().rev() {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_of_nobody_over_tcp() {
    within(120, "the flood", flood(Way::Tcp)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_of_nobody_over_tls() {
    within(120, "the flood", flood(Way::tls())).await;
}
