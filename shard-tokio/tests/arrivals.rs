//! Connections that arrive and do not say who they are.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;

use common::{builder, free_address, until, within};
use shard_tokio::Membership;

/// Whether the other side closes the connection.
fn closed(mut stream: TcpStream, after: Duration) -> bool {
    stream.set_read_timeout(Some(after)).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test]
async fn few_at_once_and_not_for_long() {
    within(60, "arrivals", async {
        let seeds = common::all(2, |_| free_address());
        let a = builder("a", &seeds[0], &seeds)
            .membership(Membership::Links)
            .max_arrivals(100, 4)
            .arrival_timeout(Duration::from_secs(2));
        let a = a.start().await.unwrap();
        // Those that say nothing take the places.
        let mut silent: Vec<_> = (0..4)
            .map(|_| TcpStream::connect(&seeds[0]).unwrap())
            .collect();
        until(|| a.stats().connections.arrived == 4).await;
        let late: Vec<_> = (0..6)
            .map(|_| TcpStream::connect(&seeds[0]).unwrap())
            .collect();
        until(|| a.stats().connections.crowded == 6).await;
        for stream in late {
            assert!(blocking(|| closed(stream, Duration::from_secs(1))).await);
        }
        // Half of a header keeps nobody longer.
        silent[1].write_all(b"SH").unwrap();
        for stream in silent {
            assert!(blocking(|| closed(stream, Duration::from_secs(10))).await);
        }
        // A node that was in their way comes back and is let in, and then takes none of the places.
        let b = builder("b", &seeds[1], &seeds).membership(Membership::Links);
        let b = b.start().await.unwrap();
        until(|| a.members().len() == 2 && b.members().len() == 2).await;
        let before = a.stats().connections;
        let silent: Vec<_> = (0..4)
            .map(|_| TcpStream::connect(&seeds[0]).unwrap())
            .collect();
        until(|| a.stats().connections.arrived >= before.arrived + 4).await;
        assert_eq!(a.stats().connections.crowded, before.crowded);
        drop(silent);
        b.shutdown().await;
        a.shutdown().await;
    })
    .await;
}
