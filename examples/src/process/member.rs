//! A node process.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    sync::Arc,
    thread,
};

use shard_adapter::{Entity, EntityTypeBuilder, Node};
use shard_asyncstd::{AsyncStd, smol::Smol};
use shard_tokio::Tokio;
use tokio::sync::mpsc;

use super::{Event, Hosts, LEAVE, MEMBER, Orders};
use crate::{
    echo::Echo,
    failure::Failure,
    ledger::{Book, DurableLedger, Ledger},
    runtimes::{Carries, On},
};

/// The orders on the command line, if this is a node process.
#[must_use]
pub fn orders() -> Option<Result<Orders, Failure>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == MEMBER).then(|| {
        let orders = arguments.next().unwrap_or_default();
        serde_json::from_slice(orders.as_encoded_bytes()).map_err(Failure::usage)
    })
}

/// Is a node process, on this thread.
///
/// # Errors
/// It cannot start.
pub fn run_here(orders: Orders) -> Result<ExitCode, Failure> {
    match orders.on {
        On::Tokio => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(run::<Tokio>(orders)),
        On::AsyncStd => async_std::task::block_on(run::<AsyncStd>(orders)),
        On::Smol => smol::block_on(run::<Smol>(orders)),
    }
}

/// Is a node until told to leave or to stop.
async fn run<R: Carries>(orders: Orders) -> Result<ExitCode, Failure> {
    crate::log::if_asked();
    let Orders {
        name,
        seeds,
        shape,
        at,
        hosts,
        on: _,
    } = orders;
    let mut node = shape.node_on::<R>(&name, seeds)?;
    if let Some((listen, advertise)) = at {
        node = node.listen(listen).advertise(advertise);
    }
    let node = node.start().await.map_err(Failure::run)?;
    match hosts {
        Hosts::Ledgers { book, each_row } => {
            let book = Book::open(&book)?.writing_each_row(each_row);
            let book = Arc::new(book);
            let ledgers = node
                .entity_type()
                .factory(move |_key| Ledger::new(Arc::clone(&book)));
            serve(&node, ledgers.shards(shape.shards)).await
        }
        Hosts::DurableLedgers(place) => {
            let ledgers = node.event_sourced::<DurableLedger>(place.open().await?);
            serve(&node, ledgers.shards(shape.shards)).await
        }
        Hosts::Echoes { max_entities } => {
            let mut echoes = node.entity_type::<Echo>();
            if let Some(entities) = max_entities {
                echoes = echoes.max_entities(entities as usize);
            }
            serve(&node, echoes.shards(shape.shards)).await
        }
    }
}

async fn serve<R, E: Entity>(
    node: &Node<R>,
    entities: EntityTypeBuilder<E>,
) -> Result<ExitCode, Failure> {
    let entities = entities.start().await.map_err(Failure::run)?;
    say(&Event::Listens(node.address().to_owned()))?;
    let mut told = lines();
    tokio::select! {
        ready = entities.ready() => ready.map_err(Failure::run)?,
        // Whoever started it may be gone by now, and so may be the cluster.
        _ = told.recv() => {
            node.shutdown().await;
            return Ok(ExitCode::SUCCESS);
        }
    }
    say(&Event::Ready(node.address().to_owned()))?;

    let told = tokio::select! {
        told = told.recv() => told,
        () = node.stopped() => {
            say(&Event::Removed)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    if told.as_deref() == Some(LEAVE) {
        // Whoever says so knows how many voters there are.
        node.leave_forced().await.map_err(Failure::run)?;
        say(&Event::Left)?;
    } else {
        node.shutdown().await;
    }
    Ok(ExitCode::SUCCESS)
}

fn say(event: &Event) -> Result<(), Failure> {
    let line = serde_json::to_string(event).map_err(Failure::run)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Lines of stdin. A thread reads them: a blocked read must not keep the process from ending.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
