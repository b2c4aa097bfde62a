//! Telling regions where shards live: changes to everybody, the whole map to who is new.

use super::{
    ledger::Ledger,
    slot::{NOBODY, Phase},
};
use crate::{
    NodeId, ShardId,
    table::list::NIL,
    wire::{HomeEntry, HomesBuilder},
};

/// Room for one frame of homes.
pub(super) const SCRATCH: usize = 2048;
/// Changes that are sorted for a frame; what ascends behind them fits too.
const SORTED: usize = 64;
/// Most homes of one frame, and most shards looked at for one.
const FRAME_SHARDS: u32 = 4096;

/// A frame of homes that was written into the scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HomesFrame {
    pub(super) to: NodeId,
    pub(super) version: u64,
    pub(super) last: bool,
    pub(super) len: usize,
}

impl Ledger<'_> {
    /// A shard has another home than before. The first change after a quiet time goes out at once.
    pub(super) fn announce(&mut self, shard: u32) {
        self.book.version = self.book.version.saturating_add(1);
        self.book.changed.push_back(self.shards, shard);
        if self.book.now >= self.book.announce_at {
            self.announce_now();
        }
    }

    /// Sends the changes out; the next ones wait for an interval.
    pub(super) fn announce_now(&mut self) {
        self.book.announcing = true;
        self.book.announce_at = self.book.now.after(self.config.announce_interval);
    }

    /// The next frame of changes for the next node, if there is one.
    pub(super) fn next_announcement(&mut self, scratch: &mut [u8]) -> Option<HomesFrame> {
        loop {
            if self.book.frame_next == NOBODY && !self.write_changes(scratch) {
                return None;
            }
            let at = self.book.frame_next;
            let Some(node) = self.node(at) else {
                self.book.frame_next = NOBODY;
                continue;
            };
            let (to, told) = (node.node, node.member && node.registered);
            self.book.frame_next = at.saturating_add(1);
            if told {
                return Some(HomesFrame {
                    to,
                    version: self.book.frame_version,
                    last: true,
                    len: self.book.frame_len,
                });
            }
        }
    }

    /// Writes the next changes into the scratch. `false` if there are none to send now.
    fn write_changes(&mut self, scratch: &mut [u8]) -> bool {
        while self.book.announcing {
            self.book.frame_len = self.write_frame(scratch);
            self.book.frame_version = self.book.version;
            self.book.announcing = !self.book.changed.is_empty();
            if self.book.frame_len > 0 {
                self.book.frame_next = 0;
                return true;
            }
        }
        false
    }

    /// Takes changes off their list, as many as fit; the answer is their length in bytes.
    fn write_frame(&mut self, scratch: &mut [u8]) -> usize {
        let mut entries = heapless::Vec::<HomeEntry, SORTED>::new();
        while !entries.is_full() {
            let Some(shard) = self.book.changed.pop_front(self.shards) else {
                break;
            };
            if let Some(entry) = self.home_entry(shard) {
                let _ = entries.push(entry);
            }
        }
        entries.sort_unstable_by_key(|entry| entry.shard);
        let mut homes = HomesBuilder::new(scratch);
        for entry in &entries {
            // Cannot fail: the scratch has room for as many runs.
            let _ = homes.push(*entry);
        }
        let mut last = entries.last().map(|entry| entry.shard);
        for _ in 0..FRAME_SHARDS {
            let Some(shard) = self.book.changed.front() else {
                break;
            };
            if let Some(entry) = self.home_entry(shard) {
                if Some(entry.shard) <= last || homes.push(entry).is_err() {
                    break;
                }
                last = Some(entry.shard);
            }
            self.book.changed.pop_front(self.shards);
        }
        homes.finish().as_bytes().len()
    }

    /// The next frame of the full map, for whoever is to get one.
    pub(super) fn next_map(&mut self, scratch: &mut [u8]) -> Option<HomesFrame> {
        let at = self.book.mapping.rotate(self.nodes)?;
        let index = u16::try_from(at).ok()?;
        let node = self.node(index)?;
        let (to, first) = (node.node, node.map_next);
        let count = self.config.shard_count;
        // An empty map is one empty frame.
        let first = if self.book.allocated == 0 {
            count
        } else {
            first
        };
        let end = first.saturating_add(FRAME_SHARDS).min(count);
        let mut homes = HomesBuilder::new(scratch);
        let mut next = first;
        while next < end {
            if let Some(entry) = self.home_entry(next)
                && homes.push(entry).is_err()
            {
                break;
            }
            next = next.saturating_add(1);
        }
        let last = next >= count;
        if last {
            self.book.mapping.remove(self.nodes, at);
        }
        if let Some(node) = self.node_mut(index) {
            node.map_next = if last { NIL } else { next };
        }
        Some(HomesFrame {
            to,
            version: self.book.version,
            last,
            len: homes.finish().as_bytes().len(),
        })
    }

    /// The home of a shard, as everybody may know it.
    pub(super) fn home_entry(&self, shard: u32) -> Option<HomeEntry> {
        let (owner, epoch, phase) = self.live_owner(shard)?;
        let home = self.node(owner)?;
        (phase == Phase::Allocated && home.member).then_some(HomeEntry {
            shard: ShardId(shard),
            epoch,
            node: home.node,
        })
    }
}
