//! How often something went wrong, so that what others cause does not fill the log.

use core::time::Duration;
use std::collections::HashMap;

use shard_proto::{Instant, NodeId};

use crate::arrivals::host;

/// How often connections failed, per host, node and reason.
#[derive(Default)]
pub(crate) struct Faults {
    counts: HashMap<(String, Option<NodeId>, &'static str), u64>,
    until: Instant,
}

impl Faults {
    /// Counts anew after it.
    const PERIOD: Duration = Duration::from_secs(3600);
    /// Different ones in a period; others share a count. Whoever connects chooses the names.
    const LIMIT: usize = 256;

    /// One more: how often it was in this period. To be told of if that is a power of two.
    pub(crate) fn count(
        &mut self,
        peer: &str,
        node: Option<NodeId>,
        reason: &'static str,
        now: Instant,
    ) -> u64 {
        if now >= self.until {
            self.counts.clear();
            self.until = now.after(Self::PERIOD);
        }
        // The port is another one each time.
        let key = (host(peer), node, reason);
        let is_full = self.counts.len() >= Self::LIMIT && !self.counts.contains_key(&key);
        let key = if is_full { Default::default() } else { key };
        let count = self.counts.entry(key).or_default();
        *count += 1;
        *count
    }
}
