//! All shards of a node move while their entities are asked.

use core::{fmt::Write as _, num::NonZeroU32, time::Duration};
use std::time::Instant;

use shard_tokio::{
    EntityType,
    proto::{allocation::LeastShards, hash::node_id},
};

use super::runtime;
use crate::{
    failure::Failure,
    feed::Feed,
    figures::{Figure, Size, figure},
    input::{Columns, Input},
    ledger::{Ledger, Shelf, read_books},
    map::MapWatch,
    process::{Child, Hosts, Orders, within},
    progress::Progress,
    runtimes::On,
    shape::Shape,
    verdict::Verdict,
};

const SHARDS: u32 = 1024;
const IN_FLIGHT: NonZeroU32 = NonZeroU32::new(128).unwrap();

/// 1 024 shards, an entity in each, live on one node; it leaves, and they move to another one.
pub(super) fn move_1024(size: Size) -> Result<Vec<Figure>, Failure> {
    let rounds = match size {
        Size::Full => 300,
        Size::Quick => 20,
    };
    runtime()?.block_on(moving(rounds))
}

async fn moving(rounds: u32) -> Result<Vec<Figure>, Failure> {
    let shelf = Shelf::new()?;
    // This process leads, so that what is measured is moving alone.
    let node = Shape::trusting(SHARDS)
        .node("bench", Vec::new())?
        .start()
        .await
        .map_err(Failure::run)?;
    let ledgers = node
        .entity_type::<Ledger>()
        .shards(SHARDS)
        // Shards are to move when their node leaves, and not before.
        .strategy(LeastShards::new().with_threshold(u32::MAX))
        .proxy()
        .start()
        .await
        .map_err(Failure::run)?;
    within("the type is ready", ledgers.ready())
        .await?
        .map_err(Failure::run)?;
    let watch = MapWatch::start(ledgers.shard_map_changes());
    let spawn = |name: &str| {
        Child::spawn(&Orders {
            name: name.to_owned(),
            seeds: vec![node.address().to_owned()],
            shape: Shape::trusting(SHARDS),
            at: None,
            hosts: Hosts::Ledgers {
                book: shelf.book(name),
                each_row: false,
            },
            on: On::Tokio,
        })
    };

    let mut old = spawn("old")?;
    old.ready().await?;
    let input = input(&ledgers, rounds)?;
    let mut feed = Feed::new(&input, &ledgers, "", Progress::hidden(), IN_FLIGHT);
    feed.at_full_speed(SHARDS as usize).await?;
    let mut new = spawn("new")?;
    new.ready().await?;
    feed.at_full_speed(2 * SHARDS as usize).await?;

    let begun = Instant::now();
    old.leave();
    let mut moved = Duration::ZERO;
    let all_moved = async {
        while watch.hosts().of(node_id("new")) < SHARDS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        moved = begun.elapsed();
        Ok(())
    };
    feed.at_full_speed_until(async { within("all shards have moved", all_moved).await? })
        .await?;
    feed.at_full_speed(input.len()).await?;
    feed.all_answered().await?;
    let fed = feed.finish();
    if let Some(error) = fed.first_error {
        return Err(Failure::run(error));
    }
    old.ended().await?;
    new.stop();
    new.ended().await?;
    node.shutdown().await;
    let verdict = Verdict::new(&input, read_books(&shelf.books())?, &fed.failed);
    Ok(vec![
        figure("move_1024_s", moved.as_secs_f64()),
        figure("move_lost", verdict.lost as f64),
        figure("move_reordered", verdict.reordered as f64),
        figure("move_duplicated", verdict.duplicated as f64),
    ])
}

/// Rows that go round all shards, one entity in each.
fn input(ledgers: &EntityType<Ledger>, rounds: u32) -> Result<Input, Failure> {
    let mut keys = vec![None; SHARDS as usize];
    let mut missing = keys.len();
    for number in 0_u64.. {
        if missing == 0 {
            break;
        }
        let key = format!("k{number}");
        let slot = &mut keys[ledgers.shard_of(&key).0 as usize];
        if slot.is_none() {
            *slot = Some(key);
            missing -= 1;
        }
    }
    let mut text = "key\n".to_owned();
    for _ in 0..rounds {
        for key in keys.iter().flatten() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key}");
        }
    }
    let columns = Columns {
        key: "key".to_owned(),
        sums: Vec::new(),
    };
    Input::read(text.as_bytes(), "rows", &columns)
}
