//! From "so many shards of each node" to the shards themselves.

use heapless::Vec;

use super::{Candidate, Placement, Placements, shards};
use crate::{NodeId, ShardId};

/// How many moves are put in order before they are proposed.
const BATCH: usize = 128;

type Batch = Vec<(u32, NodeId, ShardId), BATCH>;

/// Proposes, for each candidate, its `scratch` lowest-numbered shards that are not in flight.
///
/// They are proposed in the order of `rank`, which is called once for each of them (lowest shard of a node first), then
/// of the node, then of the shard; exactly so up to [`BATCH`] moves, and batch by batch beyond. One pass over the table,
/// which ends when every quota is met: O(shards × log nodes). Reorders the candidates.
pub(super) fn propose(
    candidates: &mut [Candidate],
    table: &mut dyn Placements,
    mut rank: impl FnMut(&mut Candidate) -> u32,
) {
    candidates.sort_unstable_by_key(|candidate| (candidate.scratch == 0, candidate.slot));
    let givers = candidates.partition_point(|candidate| candidate.scratch > 0);
    let givers = candidates.get_mut(..givers).unwrap_or_default();
    let mut unmet = givers.len();
    let mut batch = Batch::new();
    for shard in shards(table) {
        if unmet == 0 {
            break;
        }
        let Placement::On(owner) = table.placement(shard) else {
            continue;
        };
        let Ok(at) = givers.binary_search_by_key(&owner, |giver| giver.slot) else {
            continue;
        };
        let Some(giver) = givers.get_mut(at).filter(|giver| giver.scratch > 0) else {
            continue;
        };
        giver.scratch = giver.scratch.saturating_sub(1);
        unmet = unmet.saturating_sub(usize::from(giver.scratch == 0));
        let ranked = (rank(giver), giver.node, shard);
        if let Err(ranked) = batch.push(ranked) {
            flush(&mut batch, table);
            // Cannot fail: the batch was just emptied.
            let _ = batch.push(ranked);
        }
    }
    flush(&mut batch, table);
}

fn flush(batch: &mut Batch, table: &mut dyn Placements) {
    batch.sort_unstable();
    for (_, _, shard) in batch.iter() {
        table.propose(*shard);
    }
    batch.clear();
}
