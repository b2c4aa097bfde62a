//! Entities and what they said, in short words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::super::{
    Delivered, End, Entities, EntityCommand, EntityConfig, EntityPhase, EntitySlot,
};
use crate::node::EntityKey;
use crate::{Epoch, Instant, ShardId, Term};

pub(super) const S: ShardId = ShardId(7);

pub(super) fn epoch(round: u32) -> Epoch {
    Epoch::new(Term(1), round).unwrap()
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) struct Host {
    pub(super) it: Entities<u32>,
    pub(super) now: Instant,
}

pub(super) fn config() -> EntityConfig {
    EntityConfig::new().with_seed(42)
}

impl Host {
    /// With the shard [`S`] served under epoch 1.
    pub(super) fn new(config: EntityConfig) -> Self {
        let mut host = Self::idle(config);
        host.it.start_shard(host.now, S, epoch(1));
        host
    }

    pub(super) fn idle(config: EntityConfig) -> Self {
        let now = Instant::from_micros(1_000_000);
        let it = Entities::new(now, config).unwrap();
        Self { it, now }
    }

    pub(super) fn send(&mut self, key: &str, payload: u32) -> String {
        self.send_to(S, key, payload)
    }

    pub(super) fn send_to(&mut self, shard: ShardId, key: &str, payload: u32) -> String {
        let key = EntityKey::from(key);
        let delivered = self.it.deliver(self.now, shard, epoch(1), &key, payload);
        self.it.validate();
        match delivered {
            Delivered::Mailbox { payload, .. } => format!("mailbox {payload}"),
            Delivered::Kept => "kept".to_string(),
            Delivered::Refused { reason, payload } => format!("{reason:?} {payload}"),
        }
    }

    fn name(&self, slot: EntitySlot) -> String {
        let slot = &self.it.slots[slot.index as usize];
        slot.key.to_string()
    }

    /// The next command.
    pub(super) fn say(&mut self) -> Option<String> {
        let command = self.it.poll_command()?;
        self.it.validate();
        Some(match command {
            EntityCommand::Start { slot, key, .. } => {
                assert_eq!(self.it.find(&key), Some(slot));
                format!("start {key}")
            }
            EntityCommand::Deliver { slot, payload } => {
                format!("deliver {} {payload}", self.name(slot))
            }
            EntityCommand::Publish { slot } => format!("publish {}", self.name(slot)),
            EntityCommand::Close { slot } => format!("close {}", self.name(slot)),
            EntityCommand::Abort { slot } => format!("abort {}", self.name(slot)),
            EntityCommand::GiveBack { key, payload, .. } => format!("back {key} {payload}"),
            EntityCommand::Reject {
                key,
                reason,
                payload,
                ..
            } => {
                format!("reject {key} {payload} {reason:?}")
            }
            EntityCommand::ShardStopped { shard, forced, .. } => {
                let forced = if forced { " forced" } else { "" };
                format!("stopped {shard}{forced}")
            }
            EntityCommand::Record { key, alive, .. } => format!("record {key} {alive}"),
        })
    }

    /// All commands there are.
    pub(super) fn all(&mut self) -> Vec<String> {
        core::iter::from_fn(|| self.say()).collect()
    }

    pub(super) fn life(&self, key: &str) -> EntitySlot {
        self.it.find(&EntityKey::from(key)).expect("it lives")
    }

    pub(super) fn phase(&self, key: &str) -> Option<EntityPhase> {
        self.it.phase(&EntityKey::from(key))
    }

    pub(super) fn started(&mut self, key: &str) {
        let life = self.life(key);
        self.it.started(self.now, life);
        self.it.validate();
    }

    pub(super) fn touched(&mut self, key: &str) {
        let life = self.life(key);
        self.it.touched(self.now, life);
        self.it.validate();
    }

    pub(super) fn passivate(&mut self, key: &str) {
        let life = self.life(key);
        self.it.passivate(self.now, life);
        self.it.validate();
    }

    pub(super) fn ended(&mut self, key: &str, end: End, rest: &[u32]) {
        let life = self.life(key);
        assert!(self.it.ended(self.now, life, end, rest.to_vec()).is_ok());
        self.it.validate();
    }

    pub(super) fn recorded(&mut self, key: &str, alive: bool, done: bool) {
        let key = EntityKey::from(key);
        self.it.recorded(self.now, S, epoch(1), &key, alive, done);
        self.it.validate();
    }

    pub(super) fn remembered(&mut self, key: &str) {
        self.it
            .remembered(self.now, S, epoch(1), EntityKey::from(key));
        self.it.validate();
    }

    pub(super) fn stop(&mut self) {
        self.it.stop_shard(self.now, S, epoch(1));
        self.it.validate();
    }

    /// Lets time pass, and says so.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.it.handle_timeout(self.now);
        self.it.validate();
    }

    /// How long until something is due.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.it.poll_timeout().map(|at| at.since(self.now))
    }

    /// Sends a message, has the entity started, and handles the message.
    pub(super) fn run(&mut self, key: &str) {
        let mut payload = Some(0);
        if self.send(key, 0) == "kept" {
            payload = None;
            while let Some(said) = self.say() {
                if said == format!("start {key}") {
                    self.started(key);
                } else if said == format!("record {key} true") {
                    self.recorded(key, true, true);
                } else if said == format!("deliver {key} 0") {
                    payload = Some(0);
                }
            }
        }
        assert_eq!(payload, Some(0), "{key} did not get its message");
        self.touched(key);
    }
}
