//! The life cycle of the entities of one type on one node: who has a task, who may have none, what waits meanwhile.
//!
//! A [`Region`](crate::region::Region) says which shards run here; [`Entities`] says which entities of them do. Who
//! embeds it spawns tasks and stops them, puts messages into their mailboxes, and decides nothing. What an entity does:
//!
//! ```text
//!  remembered ──► Queued ─────────────┐ its turn, or a message         ended, with messages left
//!                                     ▼                          ┌───────────────────────────────┐
//!  a message ──► Recording ───────► Starting ──► Running ──► Passivating ──► Forgetting ──► (gone)│
//!                the store has it     ▲  │          │  idle, too many, asked                     │
//!                                     │  └── failed ┴──► Waiting ──► Parked ──► (gone)           │
//!                                     │    a pause ◄───────┘  too often                          │
//!                                     └──────────────────────────────────────────────────────────┘
//! ```
//!
//! `Recording` and `Forgetting` are for types whose entities are remembered: a store knows who lives, so that they start
//! again wherever their shard goes. Passivated entities are forgotten; handed off, crashed and killed ones are not.
//!
//! Only what starts or runs has a mailbox. In all other states messages are kept here, in order, within bounds; what a
//! task had not handled when it ended comes in front of them. Every message is delivered, given back, rejected or
//! refused, once. When the shard stops, that overrides everything else: mailboxes are closed, and all goes back.
//!
//! Inputs have the time first, outputs are [`Entities::poll_command`] and [`Entities::poll_timeout`]; any interleaving
//! is legal, but commands and what inputs return must be carried out in the order they were given in. Every operation
//! is O(1), except where it says something else, and touches nobody else's entity but the one that is passivated.
//!
//! ```
//! use core::time::Duration;
//! use std::collections::VecDeque;
//!
//! use shard_proto::entity::{Delivered, End, Entities, EntityCommand, EntityConfig};
//! use shard_proto::node::EntityKey;
//! use shard_proto::{Epoch, Instant, ShardId, Term};
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let mut now = Instant::ZERO;
//! let config = EntityConfig::new().with_passivate_after(Duration::from_secs(60));
//! let mut entities = Entities::new(now, config)?;
//! let (shard, epoch) = (ShardId(3), Epoch::new(Term(1), 1).expect("small numbers"));
//! entities.start_shard(now, shard, epoch);
//!
//! // The first message starts the entity, and waits until it has a mailbox.
//! let key = EntityKey::from("user-42");
//! assert_eq!(entities.deliver(now, shard, epoch, &key, "hello"), Delivered::Kept);
//! let mut mailbox = VecDeque::new();
//! let mut life = None;
//! while let Some(command) = entities.poll_command() {
//!     match command {
//!         EntityCommand::Start { slot, .. } => life = Some(slot), // spawn the task
//!         EntityCommand::Deliver { payload, .. } => mailbox.push_back(payload),
//!         EntityCommand::Publish { .. } => {} // callers of this node find the mailbox from now on
//!         other => panic!("{other:?}"),
//!     }
//! }
//! let slot = life.expect("it starts");
//! entities.started(now, slot); // the task is ready
//! assert_eq!(mailbox.pop_front(), Some("hello")); // ... and handles its message
//! entities.touched(now, slot);
//!
//! // The next one goes straight to the mailbox.
//! let delivered = entities.deliver(now, shard, epoch, &key, "again");
//! assert_eq!(delivered, Delivered::Mailbox { slot, payload: "again" });
//!
//! // Nothing more for a minute: it is passivated. What comes meanwhile is kept, and starts it anew.
//! now = entities.poll_timeout().expect("it may become idle");
//! assert_eq!(now, Instant::ZERO.after(Duration::from_secs(60)));
//! entities.handle_timeout(now);
//! assert_eq!(entities.poll_command(), Some(EntityCommand::Close { slot }));
//! assert_eq!(entities.deliver(now, shard, epoch, &key, "late"), Delivered::Kept);
//! let rest: [&str; 0] = []; // all that was in the mailbox was handled
//! assert!(entities.ended(now, slot, End::Stopped, rest).is_ok());
//! let command = entities.poll_command();
//! assert!(matches!(command, Some(EntityCommand::Start { slot: next, .. }) if next != slot));
//!
//! // The shard moves on: everything stops, and what was not handled goes back.
//! entities.stop_shard(now, shard, epoch);
//! let Some(EntityCommand::Close { slot }) = entities.poll_command() else { panic!() };
//! assert!(entities.ended(now, slot, End::Stopped, rest).is_ok());
//! let back = EntityCommand::GiveBack { shard, epoch, key, payload: "late" };
//! assert_eq!(entities.poll_command(), Some(back));
//! let stopped = EntityCommand::ShardStopped { shard, epoch, forced: false };
//! assert_eq!(entities.poll_command(), Some(stopped));
//! # Ok(())
//! # }
//! ```

mod alarms;
mod command;
mod config;
mod cycle;
mod deliver;
mod kept;
mod keys;
mod passivation;
mod poll;
mod shards;
mod slot;
mod stats;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod validate;

use alloc::vec::Vec;
use core::fmt;

pub use command::{Delivered, End, EntityCommand, EntitySlot, Refusal};
pub use config::{ConfigError, EntityConfig, StartRate};
pub use passivation::Passivation;
pub use stats::EntityStats;

use alarms::Alarms;
use cycle::Because;
use kept::{Fifo, Kept};
use keys::Index;
use passivation::Policy;
use slot::{Order, Pace, Shard, Slot, State, Turn, flag};
use stats::count;

use crate::hash::SplitMix64;
use crate::node::EntityKey;
use crate::table::list::{List, NIL};
use crate::{Epoch, Instant, ShardId, earliest};

/// How many due entities one [`Entities::handle_timeout`] takes on, of those that are idle and of those that wait.
const BATCH: u32 = 256;

/// What an entity does, for people who look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntityPhase {
    /// Its start, or its new start, is being written to the store.
    Recording,
    /// Passivated; that is being written to the store.
    Forgetting,
    /// Remembered; waits for its turn to be started.
    Queued,
    /// It has, or is about to have, a mailbox; it has not said that it started.
    Starting,
    /// It started.
    Running,
    /// It stops, since it is idle, or there are too many, or somebody asked for it.
    Passivating,
    /// Its shard stops.
    Stopping,
    /// It failed, and waits to be started again.
    Waiting,
    /// It failed too often.
    Parked,
}

/// The entities of one type on one node. See the [module](self).
///
/// `P` is what goes into a mailbox; it is not looked into. Memory: about 120 bytes for each entity that lives or waits,
/// a payload and a few bytes for each message that is kept. Tables do not shrink, but are used again.
pub struct Entities<P> {
    config: EntityConfig,
    stats: EntityStats,
    now: Instant,
    random: SplitMix64,
    slots: Vec<Slot>,
    free: List<Order>,
    index: Index,
    /// Where generations of new slots begin.
    first_generation: u32,
    shards: Vec<Shard>,
    free_shards: List<Pace>,
    shard_index: Index,
    kept: Kept<P>,
    policy: Policy,
    alarms: Alarms,
    /// Running entities, the one that was used longest ago first; none if they are never idle.
    idle: List<Order>,
    /// Parked entities for which nothing is kept, the one that was parked longest ago first.
    at_rest: List<Order>,
    /// Entities with something to say.
    dirty: List<Turn>,
    /// Stopping shards with something to say.
    dirty_shards: List<Turn>,
    shards_first: bool,
    /// Served shards with queued entities.
    pacing: List<Pace>,
    queued: u32,
    tasks: u32,
    /// Of all slots that are in use.
    key_bytes: u64,
    /// How many queued entities may start until `window_ends`.
    allowance: u32,
    window_ends: Instant,
}

impl<P> fmt::Debug for Entities<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entities")
            .field("now", &self.now)
            .field("tasks", &self.tasks)
            .field("queued", &self.queued)
            .field("kept", &self.kept())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<P> Entities<P> {
    /// None.
    ///
    /// # Errors
    /// The setting that is out of range.
    pub fn new(now: Instant, config: EntityConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut random = SplitMix64::new(config.seed);
        let (keys, shards) = (random.next_u64(), random.next_u64());
        let allowance = match config.start_rate {
            StartRate::AtOnce => NIL,
            StartRate::PerInterval { .. } => 0,
        };
        Ok(Self {
            policy: Policy::new(&config.passivation, config.max_entities),
            config,
            stats: EntityStats::default(),
            now,
            random,
            slots: Vec::new(),
            free: List::new(),
            index: Index::new(keys),
            first_generation: 0,
            shards: Vec::new(),
            free_shards: List::new(),
            shard_index: Index::new(shards),
            kept: Kept::new(),
            alarms: Alarms::default(),
            idle: List::new(),
            at_rest: List::new(),
            dirty: List::new(),
            dirty_shards: List::new(),
            shards_first: false,
            pacing: List::new(),
            queued: 0,
            tasks: 0,
            key_bytes: 0,
            allowance,
            window_ends: now,
        })
    }

    /// The shard runs here from now on, under that epoch; no entity of it does. Ignored while an earlier allocation of
    /// it has not stopped.
    pub fn start_shard(&mut self, now: Instant, shard: ShardId, epoch: Epoch) {
        self.tick(now);
        self.serve(shard, epoch);
    }

    /// An id that lived when the shard was served last: it is started when the shard is served and its turn has come
    /// ([`EntityConfig::with_start_rate`]), while less than `max_entities` live. A message starts it at once.
    ///
    /// May be said before the shard is served, and while it is; what is known already is not changed. A shard that was
    /// only loaded has to be stopped like any other. Ids beyond `max_entities` that wait, and of a shard that stops or
    /// has another epoch, are counted and not taken: a message starts those, too. Polling and timeouts may have more.
    pub fn remembered(&mut self, now: Instant, shard: ShardId, epoch: Epoch, key: EntityKey) {
        self.tick(now);
        self.remember(shard, epoch, &key);
    }

    /// The shard stops: nothing starts any more, mailboxes are closed, what is kept and what tasks hand back is given
    /// back. [`EntityCommand::ShardStopped`] follows when nothing of it runs, at once if nothing does, also for a shard
    /// that is not known. O(1); commands do the work.
    pub fn stop_shard(&mut self, now: Instant, shard: ShardId, epoch: Epoch) {
        self.tick(now);
        self.halt(shard, epoch);
    }

    /// Has everything aborted that still has a task, if the shard stops. Returns how many. O(1); commands do the work.
    pub fn abort_shard(&mut self, now: Instant, shard: ShardId, epoch: Epoch) -> usize {
        self.tick(now);
        let Some(index) = self.held_shard(shard, epoch) else {
            return 0;
        };
        match self.shards.get_mut(index as usize) {
            Some(slot) if slot.is_stopping() => {
                slot.aborting = true;
                let tasks = slot.tasks;
                self.review(index);
                tasks as usize
            }
            _ => 0,
        }
    }

    /// Gives up what has not even ended by being aborted: `ShardStopped{forced: true}` follows, behind what is kept.
    /// What such a task says later is not taken. O(1); commands do the work.
    pub fn abandon_shard(&mut self, now: Instant, shard: ShardId, epoch: Epoch) {
        self.tick(now);
        let Some(index) = self.held_shard(shard, epoch) else {
            return;
        };
        self.halt(shard, epoch);
        if let Some(slot) = self.shards.get_mut(index as usize) {
            slot.abandoned = true;
            let tasks = core::mem::take(&mut slot.tasks);
            slot.forced |= tasks > 0;
            self.tasks = self.tasks.saturating_sub(tasks);
            let abandoned = &mut self.stats.abandoned;
            *abandoned = abandoned.saturating_add(u64::from(tasks));
        }
    }

    /// The entity is ready for messages. Ignored for a life that is over.
    pub fn started(&mut self, now: Instant, slot: EntitySlot) {
        self.tick(now);
        let starts = |slot: &&Slot| slot.state == State::Starting;
        if self.serving_life(slot).filter(starts).is_some() {
            self.begin_running(slot.index);
        }
    }

    /// The task of an entity ended. `rest` is what was in its mailbox and not handled, in order; it comes in front of
    /// what is kept, whatever the bounds. O(length of the rest).
    ///
    /// `Stopped`: it was passivated, whoever wished it, and starts anew if messages are left for it. `Failed` and
    /// `Aborted`: it is started again after a pause, or parked.
    ///
    /// # Errors
    /// The rest, if that life is not known any more: its shard was abandoned. Nobody else reports it.
    pub fn ended<I: IntoIterator<Item = P>>(
        &mut self,
        now: Instant,
        slot: EntitySlot,
        end: End,
        rest: I,
    ) -> Result<(), I> {
        self.tick(now);
        let Some(at) = self.life(slot).map(|slot| slot.shard) else {
            return Err(rest);
        };
        let index = slot.index;
        let (mut kept, mut len) = (Fifo::EMPTY, 0u32);
        for payload in rest {
            self.kept.push_back(&mut kept, payload);
            len = len.saturating_add(1);
        }
        self.stats.handed_back = self.stats.handed_back.saturating_add(u64::from(len));
        if let Some(slot) = self.slots.get_mut(index as usize) {
            self.kept.append(&mut kept, slot.kept);
            slot.kept = kept;
        }
        self.tasks = self.tasks.saturating_sub(1);
        if let Some(shard) = self.shards.get_mut(at as usize) {
            shard.kept = shard.kept.saturating_add(len);
            shard.tasks = shard.tasks.saturating_sub(1);
        }
        if end == End::Failed {
            count(&mut self.stats.failures);
        }
        if self.is_stopping(index) {
            self.halted(index);
        } else {
            self.end_life(index, end);
        }
        Ok(())
    }

    /// The entity handled something since this was said last. Counts as a use, and as a success of one that had failed.
    /// It has started, then, whether or not that was said before.
    pub fn touched(&mut self, now: Instant, slot: EntitySlot) {
        self.started(now, slot);
        let runs = |slot: &&Slot| slot.state == State::Running;
        if self.serving_life(slot).filter(runs).is_none() {
            return;
        }
        self.used_now(slot.index);
        let index = slot.index;
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        slot.trouble = None;
        let fresh = slot.has(flag::FRESH);
        slot.clear(flag::FRESH);
        if slot.has(flag::PASSIVATE) {
            self.close(index);
        } else if !fresh {
            self.policy.touch(index);
        }
    }

    /// Has it stop as if it were idle: after its start if it starts. Ignored for a life that is over.
    pub fn passivate(&mut self, now: Instant, slot: EntitySlot) {
        self.tick(now);
        let is_it =
            |it: &&Slot| it.generation == slot.generation && it.has(flag::TASK | flag::START);
        if self.slot(slot.index).filter(is_it).is_some() {
            self.passivate_for(slot.index, Because::Asked);
        }
    }

    /// The present life of an entity, if it has a task or is about to. O(length of the id).
    #[must_use]
    pub fn find(&self, key: &EntityKey) -> Option<EntitySlot> {
        let index = self.index.entity(&self.slots, key)?;
        let slot = self.slot(index)?;
        let generation = slot.generation;
        slot.has(flag::TASK | flag::START)
            .then_some(EntitySlot { index, generation })
    }

    /// What an entity does; `None` if nothing is known of it. O(length of the id).
    #[must_use]
    pub fn phase(&self, key: &EntityKey) -> Option<EntityPhase> {
        let index = self.index.entity(&self.slots, key)?;
        if self.is_stopping(index) {
            return Some(EntityPhase::Stopping);
        }
        match self.slot(index)?.state {
            State::Free => None,
            State::Recording => Some(EntityPhase::Recording),
            State::Forgetting => Some(EntityPhase::Forgetting),
            State::Queued => Some(EntityPhase::Queued),
            State::Starting => Some(EntityPhase::Starting),
            State::Running => Some(EntityPhase::Running),
            State::Passivating => Some(EntityPhase::Passivating),
            State::Waiting => Some(EntityPhase::Waiting),
            State::Parked => Some(EntityPhase::Parked),
        }
    }

    /// The answer to [`EntityCommand::Record`]: the store has it, or (`done: false`) could not write it and is asked
    /// again after a pause. Ignored if nobody waits for it.
    pub fn recorded(
        &mut self,
        now: Instant,
        shard: ShardId,
        epoch: Epoch,
        key: &EntityKey,
        alive: bool,
        done: bool,
    ) {
        self.tick(now);
        let Some(at) = self.served_shard(shard, epoch) else {
            return;
        };
        let Some(index) = self.index.entity(&self.slots, key) else {
            return;
        };
        let waits = self.slot(index).is_some_and(|slot| {
            slot.shard == at && slot.has(flag::ASKED) && slot.has(flag::ASKED_ALIVE) == alive
        });
        if waits {
            self.answer(index, alive, done);
        }
    }

    /// The node ended: forgets everything, messages included, and says nothing. O(entities).
    pub fn end(&mut self) {
        let generations = self.slots.iter().map(|slot| slot.generation);
        let last = generations.max().unwrap_or(self.first_generation);
        self.first_generation = last.wrapping_add(1);
        self.policy = Policy::new(&self.config.passivation, self.config.max_entities);
        self.slots = Vec::new();
        self.shards = Vec::new();
        self.kept = Kept::new();
        self.alarms = Alarms::default();
        self.index.clear();
        self.shard_index.clear();
        (self.free, self.free_shards) = (List::new(), List::new());
        (self.idle, self.at_rest, self.pacing) = (List::new(), List::new(), List::new());
        (self.dirty, self.dirty_shards) = (List::new(), List::new());
        (self.queued, self.tasks, self.key_bytes) = (0, 0, 0);
    }

    /// What to do next. O(1) amortised; poll until `None` after every input.
    pub fn poll_command(&mut self) -> Option<EntityCommand<P>> {
        self.next_command()
    }

    /// When to call [`Entities::handle_timeout`] next. Changes with every input and command.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.idle.front().and_then(|index| self.slot(index));
        let idle = oldest.map(|slot| slot.at.after(self.config.passivate_after));
        let alarm = self.alarms.first(&self.slots).map(|(_, at)| at);
        let starts = !self.pacing.is_empty()
            && self.allowance == 0
            && !self.policy.is_full()
            && self.has_room();
        earliest(earliest(idle, alarm), starts.then_some(self.window_ends))
    }

    /// Takes on a bounded number of those whose time has come; more leave a deadline that is due.
    ///
    /// Say [`Entities::touched`] first for what was used meanwhile.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.tick(now);
        self.refill();
        for _ in 0..BATCH {
            let Some(index) = self.idle.front() else {
                break;
            };
            let used = self.slot(index).map_or(now, |slot| slot.at);
            if used.after(self.config.passivate_after) > now {
                break;
            }
            // What belongs to a stopping shard stops anyway.
            self.idle.remove(&mut self.slots, index);
            self.passivate_for(index, Because::Idle);
        }
        for _ in 0..BATCH {
            let Some((index, _)) = self.alarms.first(&self.slots).filter(|(_, at)| *at <= now)
            else {
                break;
            };
            self.alarms.remove(&mut self.slots, index);
            self.wake(index);
        }
    }

    /// How many tasks there are: started, and not ended.
    #[must_use]
    pub const fn running(&self) -> usize {
        self.tasks as usize
    }

    /// The same for one shard.
    #[must_use]
    pub fn live(&self, shard: ShardId) -> usize {
        let index = self.find_shard(shard);
        let slot = index.and_then(|at| self.shards.get(at as usize));
        slot.map_or(0, |slot| slot.tasks as usize)
    }

    /// How many messages are kept.
    #[must_use]
    pub const fn kept(&self) -> usize {
        self.kept.used() as usize
    }

    /// How many remembered entities wait for their turn.
    #[must_use]
    pub const fn queued(&self) -> usize {
        self.queued as usize
    }

    /// How many bytes the ids of those entities have that are known here.
    #[must_use]
    pub const fn key_bytes(&self) -> u64 {
        self.key_bytes
    }

    /// Whether another entity costs one that lives its place: say [`Entities::touched`] for what was used before it is
    /// started, so that the right one goes.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.policy.is_full()
    }

    /// Whether more have a task than may stay: some stop, or do once they were used. Say [`Entities::touched`] now and
    /// then, so that those go.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.tasks > self.policy.len()
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> &EntityStats {
        &self.stats
    }
}
