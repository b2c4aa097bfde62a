//! Reading who lived in a shard.

use core::time::Duration;
use std::sync::Arc;

use shard_proto::node::EntityKey;
use shard_proto::{Epoch, ShardId};

use super::{Ledger, ReadEnd, Told, add};
use crate::store::StoreError;
use crate::supervise::AbortHandle;

/// Ids that are read at once.
const PAGE: usize = 1000;
/// The first pause after a failure, and the longest; doubles.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(10));

/// Says, however the reading ends, that nothing of it goes on.
struct Reading {
    ledger: Arc<Ledger>,
    shard: ShardId,
    epoch: Epoch,
    end: ReadEnd,
}

impl Drop for Reading {
    fn drop(&mut self) {
        let told = Told::Read(self.end);
        self.ledger.tell(self.shard, self.epoch, told);
    }
}

pub(super) fn spawn(ledger: Arc<Ledger>, shard: ShardId, epoch: Epoch) -> AbortHandle {
    let reading = Reading {
        ledger,
        shard,
        epoch,
        end: ReadEnd::Cancelled,
    };
    let runtime = reading.ledger.node.runtime.clone();
    runtime.spawn(async move {
        let end = reading.read().await;
        reading.ended(end);
    })
}

impl Reading {
    fn ended(mut self, end: ReadEnd) {
        self.end = end;
    }

    async fn read(&self) -> ReadEnd {
        let ledger = &self.ledger;
        let (mut after, mut pause) = (None::<Box<str>>, PAUSE.0);
        let mut turn = None;
        loop {
            if turn.is_none() {
                let Ok(next) = ledger.reads.acquire().await else {
                    return ReadEnd::Cancelled;
                };
                turn = Some(next);
            }
            let entity_type = Arc::clone(&ledger.entity_type);
            let page = ledger
                .store
                .load(entity_type, self.shard, self.epoch, after.clone(), PAGE)
                .await;
            match page {
                // A short page may be followed by others.
                Ok(ids) => {
                    let Some(last) = ids.last() else {
                        add(&ledger.counters.shards_read, 1);
                        return ReadEnd::All;
                    };
                    after = Some(last.clone());
                    pause = PAUSE.0;
                    add(&ledger.counters.ids_read, ids.len());
                    let keys = ids.iter().map(|id| EntityKey::from(&**id)).collect();
                    ledger.tell(self.shard, self.epoch, Told::Page(keys));
                }
                Err(error @ StoreError::Fenced { .. }) => {
                    ledger.fenced(self.shard, self.epoch, &error);
                    return ReadEnd::Fenced;
                }
                Err(error) => {
                    let failures = add(&ledger.counters.read_failures, 1);
                    if failures.is_power_of_two() {
                        tracing::warn!(
                            entity_type = &*ledger.entity_type,
                            shard = self.shard.0,
                            store = ledger.store.describe(),
                            failures,
                            "cannot read who lives in a shard, which is not served until that works: {error}"
                        );
                    }
                    // Others may be read meanwhile.
                    turn = None;
                    ledger.node.runtime.sleep(pause).await;
                    pause = pause.saturating_mul(2).min(PAUSE.1);
                }
            }
        }
    }
}
