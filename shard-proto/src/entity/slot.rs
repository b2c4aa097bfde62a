//! What the tables of entities are made of.

use alloc::boxed::Box;

use super::kept::Fifo;
use crate::node::EntityKey;
use crate::table::list::{Link, Linked, List, NIL};
use crate::{Epoch, Instant, ShardId};

/// Marker of the list of a shard's entities.
#[derive(Debug)]
pub(super) struct Member;

/// Marker of the lists of what has commands to give.
#[derive(Debug)]
pub(super) struct Turn;

/// Marker of lists in an order of time: running entities by last use, queued ones, free slots.
#[derive(Debug)]
pub(super) struct Order;

/// Marker of the list of shards with queued entities, and of free ones.
#[derive(Debug)]
pub(super) struct Pace;

/// What an entity does. If its shard stops, that overrides all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is free.
    Free,
    /// A message waits for the store to have it.
    Recording,
    /// Passivated; the store has not heard of it.
    Forgetting,
    /// Remembered: waits for its turn.
    Queued,
    /// Has a mailbox, or will; has not said that it started.
    Starting,
    /// Started.
    Running,
    /// Its mailbox is closed, or will be.
    Passivating,
    /// Failed; waits to be started again.
    Waiting,
    /// Failed too often.
    Parked,
}

/// Bits of [`Slot::flags`].
pub(super) mod flag {
    /// `Start` is due.
    pub(in super::super) const START: u16 = 1;
    /// It has a task: `Start` was given, and the end has not come.
    pub(in super::super) const TASK: u16 = 1 << 1;
    /// `Publish` was given.
    pub(in super::super) const PUBLISHED: u16 = 1 << 2;
    /// The policy knows it.
    pub(in super::super) const ADMITTED: u16 = 1 << 3;
    /// It is passivated once it has started, and handled what it was started for ...
    pub(in super::super) const PASSIVATE: u16 = 1 << 4;
    /// ... or has not.
    pub(in super::super) const AT_ONCE: u16 = 1 << 14;
    /// `Close` is due.
    pub(in super::super) const CLOSE: u16 = 1 << 5;
    /// `Close` was given.
    pub(in super::super) const CLOSED: u16 = 1 << 6;
    /// `Abort` was given.
    pub(in super::super) const ABORTED: u16 = 1 << 7;
    /// Its mailbox closed by itself: the end is near.
    pub(in super::super) const GONE: u16 = 1 << 8;
    /// It has not been used yet; its first use is the message that it was started for, which counted when it was
    /// admitted.
    pub(in super::super) const FRESH: u16 = 1 << 9;
    /// `Record` is due.
    pub(in super::super) const RECORD: u16 = 1 << 10;
    /// `Record` was given and not answered ...
    pub(in super::super) const ASKED: u16 = 1 << 11;
    /// ... and said that it lives.
    pub(in super::super) const ASKED_ALIVE: u16 = 1 << 12;
    /// It is remembered, for sure.
    pub(in super::super) const RECORDED: u16 = 1 << 13;
    /// Its start took too long, and is given up.
    pub(in super::super) const HUNG: u16 = 1 << 15;

    /// What belongs to one life.
    pub(in super::super) const LIFE: u16 = START
        | TASK
        | PUBLISHED
        | ADMITTED
        | PASSIVATE
        | AT_ONCE
        | CLOSE
        | CLOSED
        | ABORTED
        | GONE
        | FRESH
        | HUNG;
}

/// Failures since something went well. Most entities have none.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    /// Failures in a row.
    pub(super) streak: u32,
    /// Of them, those since `first`.
    pub(super) count: u32,
    /// Where the window for `count` begins.
    pub(super) first: Instant,
    pub(super) last: Instant,
    /// Answers of the store in a row that it did not write.
    pub(super) records: u32,
}

/// An entity.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: EntityKey,
    /// `Running`: last use. With an alarm: when it goes off. `Parked`: until when.
    pub(super) at: Instant,
    pub(super) trouble: Option<Box<Trouble>>,
    pub(super) generation: u32,
    /// Index of its shard.
    pub(super) shard: u32,
    member: Link,
    turn: Link,
    pub(super) order: Link,
    /// Place among the alarms.
    pub(super) alarm: u32,
    pub(super) kept: Fifo,
    pub(super) flags: u16,
    pub(super) state: State,
}

impl Slot {
    pub(super) fn free(generation: u32) -> Self {
        Self {
            key: EntityKey::new(&[]),
            at: Instant::ZERO,
            trouble: None,
            generation,
            shard: NIL,
            member: Link::UNLINKED,
            turn: Link::UNLINKED,
            order: Link::UNLINKED,
            alarm: NIL,
            kept: Fifo::EMPTY,
            flags: 0,
            state: State::Free,
        }
    }

    pub(super) const fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    pub(super) const fn set(&mut self, flags: u16) {
        self.flags |= flags;
    }

    pub(super) const fn clear(&mut self, flags: u16) {
        self.flags &= !flags;
    }

    /// Whether a message may go to its mailbox now, past nothing that is kept. As long as nobody was told to close it,
    /// it must: callers that find the mailbox may put later ones there.
    pub(super) const fn takes(&self) -> bool {
        let open = match self.state {
            State::Starting | State::Running => true,
            State::Passivating => self.has(flag::CLOSE),
            _ => false,
        };
        open && self.has(flag::TASK) && !self.has(flag::GONE) && self.kept.is_empty()
    }

    /// Whether it has something to say, unless its shard stops.
    pub(super) const fn is_due(&self) -> bool {
        match self.state {
            State::Starting | State::Running => {
                self.has(flag::START)
                    || (!self.has(flag::GONE)
                        && (!self.kept.is_empty() || !self.has(flag::PUBLISHED)))
            }
            State::Passivating => self.has(flag::CLOSE),
            State::Recording | State::Forgetting => self.has(flag::RECORD),
            State::Parked => !self.kept.is_empty(),
            State::Free | State::Queued | State::Waiting => false,
        }
    }
}

/// What a shard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The slot is free.
    Free,
    /// Its ids are known, or some; nothing starts.
    Loading,
    Serving,
    Stopping,
}

/// A shard that something is known of.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) epoch: Epoch,
    pub(super) shard: ShardId,
    pub(super) members: List<Member>,
    pub(super) queued: List<Order>,
    turn: Link,
    pace: Link,
    /// `Stopping`: how many of the first members are to be looked at; perhaps more than there are.
    pub(super) todo: u32,
    /// Messages kept for its entities.
    pub(super) kept: u32,
    /// Its entities that have a task.
    pub(super) tasks: u32,
    pub(super) phase: Phase,
    /// What has not stopped is aborted ...
    pub(super) aborting: bool,
    /// ... or given up.
    pub(super) abandoned: bool,
    /// That concerned something.
    pub(super) forced: bool,
}

impl Shard {
    pub(super) const FREE: Self = Self {
        epoch: Epoch::NONE,
        shard: ShardId(0),
        members: List::new(),
        queued: List::new(),
        turn: Link::UNLINKED,
        pace: Link::UNLINKED,
        todo: 0,
        kept: 0,
        tasks: 0,
        phase: Phase::Free,
        aborting: false,
        abandoned: false,
        forced: false,
    };

    pub(super) const fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping)
    }
}

macro_rules! linked {
    ($slot:ty, $class:ty, $field:ident) => {
        impl Linked<$class> for $slot {
            fn link(&self) -> &Link {
                &self.$field
            }

            fn link_mut(&mut self) -> &mut Link {
                &mut self.$field
            }
        }
    };
}

linked!(Slot, Member, member);
linked!(Slot, Turn, turn);
linked!(Slot, Order, order);
linked!(Shard, Turn, turn);
linked!(Shard, Pace, pace);
