//! What the sharded entities make of this machine: the rows of `bench`.

mod large;
mod local;
mod many;
mod moving;
mod remote;
mod route;

use core::ops::Range;
use std::sync::Arc;

use shard_tokio::{EntityRef, EntityType};
use tokio::runtime::{Builder, Runtime};

use crate::{
    echo::{Call, Echo},
    failure::Failure,
    figures::{Measure, Row},
    floor::{channel, tcp},
};

/// All rows, in the order in which they are measured.
pub const ROWS: &[Row] = &[
    Row {
        name: "route",
        title: "route of a known home",
        floor: None,
        ours: Some(route::route),
        target: Some(("route_ns", 15.0)),
    },
    row("local_tell", "tell, same node", channel::tell, local::tell)
        .with_target("local_tell_per_s", 8e6),
    row("local_ask", "ask, same node", channel::ask, local::ask),
    row(
        "local_ask_128",
        "ask, same node, 128 in flight",
        channel::ask_128,
        local::ask_128,
    )
    .with_target("local_ask_128_per_s", 1.5e6),
    row("remote_ask", "ask, other process", tcp::ask, remote::ask),
    row(
        "remote_ask_128",
        "ask, other process, 128 in flight",
        tcp::ask_128,
        remote::ask_128,
    )
    .with_target("remote_ask_128_per_s", 5e5),
    row(
        "tls_ask_128",
        "ask, other process, 128 in flight, TLS",
        tcp::ask_128,
        remote::tls_ask_128,
    )
    .with_target("tls_ask_128_per_s", 3e5),
    Row {
        name: "tls_handshakes",
        title: "connections over TLS, one core each side",
        floor: None,
        ours: Some(remote::tls_handshakes),
        target: None,
    },
    row(
        "quic_ask_128",
        "ask, other process, 128 in flight, QUIC",
        tcp::ask_128,
        remote::quic_ask_128,
    )
    .with_target("quic_ask_128_per_s", 1.5e5),
    Row {
        name: "quic_handshakes",
        title: "connections over QUIC, one core each side",
        floor: None,
        ours: Some(remote::quic_handshakes),
        target: None,
    },
    row(
        "remote_tell",
        "tell, other process, in order",
        tcp::one_way,
        remote::tell,
    )
    .with_target("remote_tell_per_s", 3e6),
    row(
        "asks_1m",
        "1 M asks, 1 000 entities, two nodes",
        tcp::million_asks,
        remote::million_asks,
    )
    .with_target("asks_1m_s", 2.0),
    row(
        "first_touch",
        "first touch of 10 000 entities",
        channel::spawn,
        remote::first_touch,
    )
    .with_target("first_touch_per_s", 20_000.0),
    Row {
        name: "large",
        title: "small asks beside messages of 64 MiB",
        floor: None,
        ours: Some(large::large),
        target: Some(("large_over_idle", 3.0)),
    },
    Row {
        name: "quic_large",
        title: "small asks beside messages of 64 MiB, QUIC",
        floor: None,
        ours: Some(large::quic_large),
        target: Some(("quic_large_over_idle", 3.0)),
    },
    Row {
        name: "move_1024",
        title: "1 024 shards moved under load",
        floor: None,
        ours: Some(moving::move_1024),
        target: Some(("move_1024_s", 2.0)),
    },
    Row {
        name: "memory",
        title: "1 M entities on one node",
        floor: None,
        ours: Some(many::memory),
        target: None,
    },
    Row {
        name: "admission",
        title: "a new entity at the limit",
        floor: None,
        ours: Some(many::admission),
        target: None,
    },
    Row {
        name: "wake_up",
        title: "a thread wakes another",
        floor: Some(channel::park),
        ours: None,
        target: None,
    },
];

const fn row(name: &'static str, title: &'static str, floor: Measure, ours: Measure) -> Row {
    Row {
        name,
        title,
        floor: Some(floor),
        ours: Some(ours),
        target: None,
    }
}

fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// So many asks, by as many tasks as may be in flight, spread over entities.
async fn asks(
    echoes: &EntityType<Echo>,
    entities: u64,
    asks: u64,
    in_flight: u64,
) -> Result<(), Failure> {
    ask_all(numbered(echoes, 0..entities), asks, in_flight).await
}

fn numbered(echoes: &EntityType<Echo>, numbers: Range<u64>) -> Arc<[EntityRef<Echo>]> {
    numbers
        .map(|number| echoes.entity(format!("e-{number}")))
        .collect()
}

async fn ask_all(
    entities: Arc<[EntityRef<Echo>]>,
    asks: u64,
    in_flight: u64,
) -> Result<(), Failure> {
    let tasks: Vec<_> = (0..in_flight)
        .map(|task| {
            let entities = Arc::clone(&entities);
            tokio::spawn(async move {
                let mine = (task..asks).step_by(usize::try_from(in_flight).unwrap_or(1));
                for number in mine {
                    let at = (number % entities.len() as u64) as usize;
                    check(number, entities[at].ask(Call::Echo(number)).await)?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(Failure::run)??;
    }
    Ok(())
}

fn check<E: core::fmt::Display>(number: u64, answer: Result<u64, E>) -> Result<(), Failure> {
    match answer {
        Ok(answer) if answer == number => Ok(()),
        Ok(answer) => Err(Failure::run(format!("{answer} is the answer to {number}"))),
        Err(error) => Err(Failure::run(error)),
    }
}

/// Tells of one caller to one entity, and whether all came in order.
async fn tells(entity: EntityRef<Echo>, tells: u64) -> Result<(), Failure> {
    let told = tokio::spawn(async move {
        for number in 0..tells {
            entity
                .tell(Call::Count(number))
                .await
                .map_err(Failure::run)?;
        }
        check(tells, entity.ask(Call::Counted).await)
    });
    told.await.map_err(Failure::run)?
}
