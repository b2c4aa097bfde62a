//! What memory grows with. In a process of its own: others would be measured, too.
#![cfg(target_os = "linux")]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use common::{Peer, Say, World, free_address, within};

/// An entity with a long id keeps its id, not what was read from the connection together with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_ids_do_not_keep_what_was_read_with_them() {
    const ENTITIES: u64 = 200;
    fn resident() -> u64 {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
    within(60, "long ids", async {
        let world = World::new();
        let seeds = common::all(2, |_| free_address());
        let a = Peer::start("a", &seeds[0], &seeds[..1], &world).await;
        let p = Peer::proxy("p", &seeds[1], &seeds[..1], &world).await;
        a.scribes.ready().await.unwrap();
        p.scribes.ready().await.unwrap();
        let sink = p.scribes.entity("sink");
        let blob = vec![7; 150_000];
        sink.ask(Say::Blob(blob.clone())).await.unwrap();
        let before = resident();
        for n in 0..ENTITIES {
            let entity = p.scribes.entity(format!("{n:050}"));
            let (one, other) =
                tokio::join!(entity.ask(Say::Add(1)), sink.ask(Say::Blob(blob.clone())));
            one.unwrap();
            other.unwrap();
        }
        let more = resident().saturating_sub(before);
        assert!(more < ENTITIES * 60_000, "{more} bytes");
    })
    .await;
}
