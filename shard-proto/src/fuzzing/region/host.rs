//! What hosts a region's shards, and what is seen from outside.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use super::super::feed::Feed;
use super::{Place, QUEUE, World};
use crate::region::{Command, Origin};
use crate::{Epoch, ShardId};

impl World {
    pub(super) fn started(&mut self, shard: ShardId, epoch: Epoch) {
        let now = self.now;
        self.running.insert(shard.0, epoch);
        both!(self, region => region.handle_shard_started(now, shard, epoch));
    }

    /// The host is done with something that it was told to stop.
    pub(super) fn stop_one(&mut self, feed: &mut Feed<'_>) {
        if let Some((shard, epoch)) = self.stops.pop() {
            self.stopped(shard, epoch, feed.flag());
        } else if feed.byte() < 60
            && let Some((shard, epoch)) = self.running.pop_first()
        {
            // It cannot go on.
            self.running.insert(shard, epoch);
            self.stopped(ShardId(shard), epoch, true);
        }
    }

    pub(super) fn stopped(&mut self, shard: ShardId, epoch: Epoch, forced: bool) {
        let now = self.now;
        self.stops.retain(|stop| *stop != (shard, epoch));
        self.starts.retain(|start| *start != (shard, epoch));
        if self.running.get(&shard.0) == Some(&epoch) {
            self.running.remove(&shard.0);
            for (origin, message) in self.mailbox.remove(&shard.0).unwrap_or_default() {
                let taken =
                    both!(self, region => region.give_back(now, shard, epoch, origin, message));
                self.places[message as usize] = Place::Inside;
                if let Err(message) = taken {
                    self.out(message, Place::Gone);
                }
            }
        }
        both!(self, region => region.handle_shard_stopped(now, shard, epoch, forced));
    }

    pub(super) fn deliver(&mut self, shard: ShardId, epoch: Epoch, origin: Origin, message: u32) {
        self.out(message, Place::Gone);
        assert_eq!(
            self.running.get(&shard.0),
            Some(&epoch),
            "delivered where nothing runs"
        );
        let mailbox = self.mailbox.entry(shard.0).or_default();
        mailbox.push_back((origin, message));
    }

    pub(super) fn timeout(&mut self) {
        let now = self.now;
        for _ in 0..1_000 {
            both!(self, region => region.handle_timeout(now));
            self.check();
            self.drain();
            if self.heap.poll_timeout().is_none_or(|at| at > now) {
                return;
            }
        }
        panic!("a deadline stays due");
    }

    pub(super) fn drain(&mut self) {
        for _ in 0..2_000 {
            if !self.poll() {
                return;
            }
        }
        panic!("commands never end");
    }

    /// Carries out one command.
    pub(super) fn poll(&mut self) -> bool {
        let (heap, array) = (self.heap.poll_command(), self.array.poll_command());
        assert_eq!(heap, array, "the storages differ");
        let Some(command) = heap else {
            return false;
        };
        match command {
            Command::Send { control, .. } => {
                let text: String = format!("{control:?}");
                assert!(text.len() < 10_000);
            }
            Command::Forward {
                to,
                shard,
                epoch,
                payload,
            } => {
                self.out(payload, Place::Sent(to, shard, epoch));
            }
            Command::Return { payload, .. } | Command::Reject { payload, .. } => {
                self.out(payload, Place::Gone);
            }
            Command::Flush {
                to, shard, token, ..
            } => {
                // Markers are repeated; each belongs to one path.
                let before = self.tokens.insert(token.0, (to, shard));
                assert!(
                    before.is_none_or(|path| path == (to, shard)),
                    "a token came twice"
                );
                self.flushes.push((to, shard, token));
            }
            Command::Deliver {
                shard,
                epoch,
                origin,
                payload,
            } => {
                self.deliver(shard, epoch, origin, payload);
            }
            Command::StartShard { shard, epoch } => {
                assert!(!self.running.contains_key(&shard.0), "starts beside itself");
                let waits = |start: &(ShardId, Epoch)| start.0 == shard;
                assert!(!self.starts.iter().any(waits), "starts beside itself");
                let served = self.served.entry(shard.0).or_default();
                assert!(epoch > *served, "an epoch came back");
                *served = epoch;
                self.starts.push((shard, epoch));
            }
            Command::StopShard { shard, epoch, .. } => {
                self.stops.retain(|stop| *stop != (shard, epoch));
                self.stops.push((shard, epoch));
            }
            Command::Open { shard, epoch } => {
                assert_eq!(self.running.get(&shard.0), Some(&epoch));
            }
            Command::Flushed { .. }
            | Command::HomeChanged { .. }
            | Command::Registered { .. }
            | Command::Refused { .. } => {}
        }
        true
    }

    pub(super) fn inside(&self) -> u32 {
        let inside = self.places.iter().filter(|place| **place == Place::Inside);
        inside.count() as u32
    }

    pub(super) fn check(&mut self) {
        self.heap.validate();
        self.array.validate();
        assert!(self.inside() <= self.heap.buffered(), "a message vanished");
        assert!(self.heap.buffered() <= QUEUE as u32);
        let facts = |hosted, flushing, timeout| (hosted, flushing, timeout);
        assert_eq!(
            facts(
                self.heap.hosted(),
                self.heap.flushing(),
                self.heap.poll_timeout()
            ),
            facts(
                self.array.hosted(),
                self.array.flushing(),
                self.array.poll_timeout()
            ),
        );
        assert_eq!(self.heap.stats(), self.array.stats());
    }

    /// The region stops, and lets go of everything.
    pub(super) fn finish(&mut self) {
        self.drain();
        let now = self.now;
        both!(self, region => region.stop(now));
        self.check();
        for _ in 0..200 {
            self.drain();
            while let Some((shard, epoch)) = self.stops.pop() {
                self.stopped(shard, epoch, false);
                self.drain();
            }
            while let Some((from, shard, token)) = self.flushes.pop() {
                let now = self.now;
                both!(self, region => region.handle_flushed(now, from, shard, token));
            }
            self.check();
            if self.heap.buffered() == 0 && self.heap.hosted() == 0 {
                break;
            }
            self.now = self.now.after(Duration::from_secs(1));
            self.timeout();
        }
        assert_eq!(self.inside(), 0, "messages stay behind");
        assert_eq!((self.heap.buffered(), self.heap.hosted()), (0, 0));
        assert_eq!(self.running.len(), 0, "something runs on");
    }
}
