//! The promises.

use super::{Message, Violation, WorldConfig};
use crate::region::RejectReason;
use crate::{Epoch, Term};

/// Looks at all that can be seen of a world. Times are microseconds of real time; a shard is its type's number times
/// [`WorldConfig::shards`] plus its own.
#[derive(Clone, Debug)]
pub struct Checker {}

impl Checker {
    /// Nothing has happened.
    #[must_use]
    pub fn new(config: &WorldConfig) -> Self {
        let _ = config;
        Self {}
    }

    /// A life of a host began. Lives are numbered from 0.
    pub fn began(&mut self, now: u64, host: u8, life: u32) {
        let _ = (now, host, life);
    }

    /// The newest life of a host ended: it crashed, or (`left`) in good order.
    pub fn ended(&mut self, now: u64, host: u8, left: bool) -> Result<(), Violation> {
        let _ = (now, host, left);
        Ok(())
    }

    /// A caller on `host` sends.
    pub fn sent(&mut self, now: u64, host: u8, shard: u32, message: Message) {
        let _ = (now, host, shard, message);
    }

    /// An entity on `host` handles a message.
    pub fn delivered(
        &mut self,
        now: u64,
        host: u8,
        shard: u32,
        epoch: Epoch,
        message: Message,
    ) -> Result<(), Violation> {
        let _ = (now, host, shard, epoch, message);
        Ok(())
    }

    /// A host reports that a message was not, or perhaps, delivered. `at_origin`: to its caller.
    pub fn reported(
        &mut self,
        now: u64,
        host: u8,
        shard: u32,
        message: Message,
        reason: RejectReason,
        at_origin: bool,
    ) -> Result<(), Violation> {
        let _ = (now, host, shard, message, reason, at_origin);
        Ok(())
    }

    /// A host was told to start a shard. It serves until it has stopped, or its lease is over.
    pub fn serving_began(
        &mut self,
        now: u64,
        host: u8,
        shard: u32,
        epoch: Epoch,
    ) -> Result<(), Violation> {
        let _ = (now, host, shard, epoch);
        Ok(())
    }

    /// Nothing of the shard runs any more.
    pub fn serving_ended(
        &mut self,
        now: u64,
        host: u8,
        shard: u32,
        epoch: Epoch,
    ) -> Result<(), Violation> {
        let _ = (now, host, shard, epoch);
        Ok(())
    }

    /// Until when a host may serve; not after `now`: not at all. It may come earlier than said before only by a change
    /// of its clock.
    pub fn lease(&mut self, now: u64, host: u8, until: u64) -> Result<(), Violation> {
        let _ = (now, host, until);
        Ok(())
    }

    /// A host leads until then; until then whether it stands still or not.
    pub fn acting(&mut self, now: u64, host: u8, term: Term, until: u64) -> Result<(), Violation> {
        let _ = (now, host, term, until);
        Ok(())
    }

    /// A host does not lead any more.
    pub fn not_acting(&mut self, now: u64, host: u8) -> Result<(), Violation> {
        let _ = (now, host);
        Ok(())
    }

    /// The last fault is over: from here on all must come to rest.
    pub fn calm(&mut self, now: u64) {
        let _ = now;
    }

    /// After every step.
    pub fn tick(&mut self, now: u64) -> Result<(), Violation> {
        let _ = now;
        Ok(())
    }

    /// The end: traffic has ceased for longer than any message takes.
    pub fn finish(&mut self, now: u64) -> Result<(), Violation> {
        let _ = now;
        Ok(())
    }
}
