//! The state of a region beside its tables, and what every part of it needs.

use core::time::Duration;

use super::register::Registration;
use super::slot::{Agenda, Content, Life, NIL, NO_NODE, Place, ShardSlot, State, flag};
use super::stats::count;
use super::{BufferSlot, ConfigError, NodeSlot, RegionConfig, RegionStats, buffer, members};
use crate::table::RegionTables;
use crate::table::list::List;
use crate::{Epoch, Home, Instant, Leader, NodeId, Session, Token, hash};

/// Answers that the shard's slot has no room for. One more drops the oldest: the coordinator repeats itself.
const ANSWERS: usize = 16;

/// A `HandOffComplete` that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) shard: u32,
    pub(super) epoch: Epoch,
    pub(super) forced: bool,
}

/// How often a stopped region says so again.
pub(super) const DEREGISTER_AGAIN: u8 = 4;

/// Everything but the tables.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) me: NodeId,
    pub(super) session: Session,
    pub(super) config: RegionConfig,
    pub(super) stats: RegionStats,
    pub(super) now: Instant,
    /// `now` in wrapping milliseconds.
    pub(super) millis: u32,
    pub(super) leader: Option<Leader>,
    /// Until when this node may serve.
    pub(super) lease: Instant,
    /// It ran out while something was hosted, and was not renewed since.
    pub(super) lease_over: bool,
    /// ... by the clock, before `handle_lapse` said so.
    pub(super) lapse_noticed: bool,
    pub(super) last_beat: Instant,
    pub(super) registration: Registration,
    pub(super) sizing: super::size::Sizing,
    pub(super) map_version: Option<u64>,
    pub(super) stats_query: Option<Token>,
    pub(super) stopping: bool,
    /// A session ended, and something of it runs under a lease that may last.
    pub(super) halting: bool,
    /// Nothing new is buffered for now.
    pub(super) full: bool,
    pub(super) deregistered: bool,
    /// When to say it again, and how often still: it may be lost, and the node stays a member.
    pub(super) deregister_at: Option<Instant>,
    pub(super) deregister_left: u8,
    pub(super) hosted: u32,
    pub(super) flushing: u32,
    pub(super) slab: buffer::Slab,
    /// How many of the slab's slots new messages may fill.
    pub(super) bound: u32,
    pub(super) dirty: List<Agenda>,
    pub(super) retry: List<Agenda>,
    pub(super) lapse: List<Agenda>,
    pub(super) blocked: List<Agenda>,
    /// How many of `retry` have their turn now, whatever their time.
    pub(super) retry_now: u32,
    /// How many of `blocked` have their turn now.
    pub(super) wake: u32,
    pub(super) sweep: super::sweep::Sweep,
    pub(super) answers: heapless::Deque<Answer, ANSWERS>,
}

/// The low 32 bits of a point in milliseconds.
#[expect(
    clippy::cast_possible_truncation,
    reason = "wraps; compared by difference"
)]
pub(super) const fn millis(at: Instant) -> u32 {
    (at.as_micros() / 1000) as u32
}

/// A duration in milliseconds, at least one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "settings are at most a day"
)]
pub(super) fn whole_millis(duration: Duration) -> u32 {
    (duration.as_millis() as u32).max(1)
}

/// Whether wrapping milliseconds have come.
#[expect(clippy::cast_possible_wrap, reason = "wraps; 24 days either way")]
pub(super) const fn has_come(at: u32, now: u32) -> bool {
    (at.wrapping_sub(now) as i32) <= 0
}

impl Machine {
    /// Empties the tables.
    pub(super) fn new<P>(
        now: Instant,
        me: NodeId,
        session: Session,
        config: RegionConfig,
        t: &mut RegionTables<'_, P>,
    ) -> Result<Self, ConfigError> {
        let capacity = u32::try_from(t.buffer.len()).unwrap_or(u32::MAX);
        if t.shards.len() < config.shard_count as usize {
            return Err(ConfigError::ShardStorage {
                needed: config.shard_count,
                found: t.shards.len(),
            });
        }
        if t.nodes.len() >= usize::from(NO_NODE) {
            return Err(ConfigError::NodeStorage);
        }
        if capacity == 0 || capacity >= NIL.saturating_sub(1) {
            return Err(ConfigError::BufferStorage);
        }
        t.shards.fill(ShardSlot::EMPTY);
        t.nodes.fill(NodeSlot::EMPTY);
        t.buffer.fill_with(|| BufferSlot::EMPTY);
        Ok(Self {
            me,
            session,
            config,
            stats: RegionStats::default(),
            now,
            millis: millis(now),
            leader: None,
            lease: Instant::ZERO,
            lease_over: false,
            lapse_noticed: false,
            last_beat: now,
            registration: Registration::default(),
            sizing: super::size::Sizing::default(),
            map_version: None,
            stats_query: None,
            stopping: false,
            halting: false,
            full: false,
            deregistered: false,
            deregister_at: None,
            deregister_left: DEREGISTER_AGAIN,
            hosted: 0,
            flushing: 0,
            slab: buffer::Slab::new(capacity),
            bound: config.buffer.min(capacity),
            dirty: List::new(),
            retry: List::new(),
            lapse: List::new(),
            blocked: List::new(),
            retry_now: 0,
            wake: 0,
            sweep: super::sweep::Sweep::default(),
            answers: heapless::Deque::new(),
        })
    }

    /// The point that wrapping milliseconds mean.
    pub(super) fn instant_of(&self, at: u32) -> Instant {
        if has_come(at, self.millis) {
            return self.now;
        }
        let ahead = u64::from(at.wrapping_sub(self.millis));
        let micros = (self.now.as_micros() / 1000)
            .saturating_add(ahead)
            .saturating_mul(1000);
        Instant::from_micros(micros)
    }

    /// Takes the time. A lease that is over is noticed before anything else.
    pub(super) fn advance<P>(&mut self, t: &mut RegionTables<'_, P>, now: Instant) {
        if now > self.now {
            self.now = now;
            self.millis = millis(now);
        }
        if self.hosted > 0 && !self.lease_over && self.now >= self.lease {
            self.lease_over = true;
            self.lapse_noticed = true;
            let lapses = self.session.lapses.saturating_add(1);
            self.lapse(t, lapses);
        }
    }

    /// See [`Region::handle_leader`](super::Region::handle_leader).
    pub(super) fn adopt(&mut self, leader: Option<Leader>) {
        if self.leader == leader {
            return;
        }
        self.leader = leader;
        self.map_version = None;
        self.stats_query = None;
        self.restart_registration();
        if leader.is_some() {
            self.sweep_outdated();
        }
    }

    /// See [`Region::handle_lease`](super::Region::handle_lease).
    pub(super) fn take_lease<P>(&mut self, t: &mut RegionTables<'_, P>, until: Option<Instant>) {
        self.lease = until.unwrap_or(Instant::ZERO);
        self.lease_over &= !self.has_lease();
        self.advance(t, self.now);
    }

    /// See [`Region::handle_lapse`](super::Region::handle_lapse).
    pub(super) fn handle_lapse<P>(&mut self, t: &mut RegionTables<'_, P>, lapses: u32) {
        let is_known = core::mem::take(&mut self.lapse_noticed);
        let next = self.session.lapses.saturating_add(u32::from(!is_known));
        self.lapse(t, lapses.max(next));
    }

    /// See [`Region::is_settled`](super::Region::is_settled).
    pub(super) const fn is_settled(&self) -> bool {
        self.hosted == 0
            && self.slab.used() == 0
            && self.flushing == 0
            && self.dirty.is_empty()
            && (!self.stopping || self.deregistered)
    }

    /// See [`Region::needs_registration`](super::Region::needs_registration).
    pub(super) const fn needs_registration(&self) -> bool {
        let deregistered = self.stopping && self.deregistered;
        self.hosted > 0 || !(deregistered || self.registration.is_unwanted())
    }

    pub(super) fn has_lease(&self) -> bool {
        self.now < self.lease
    }

    /// Whether grants may be taken at all.
    pub(super) const fn may_host(&self) -> bool {
        !self.config.proxy && !self.stopping && !self.registration.is_refused()
    }

    /// Of the marker on a path; the same as long as one flush of it lasts, another for the next.
    pub(super) fn token(&self, shard: u32, node: NodeId, epoch: Epoch, flush: u8) -> Token {
        let seed = hash::mix(self.config.seed ^ u64::from(shard) ^ (u64::from(flush) << 32));
        Token(hash::mix(
            hash::mix(seed ^ node.0) ^ epoch.to_bits().rotate_left(17),
        ))
    }

    /// Takes a shard out of the list it is in.
    pub(super) fn unlink(&mut self, shards: &mut [ShardSlot], index: u32) {
        let Some(slot) = shards.get_mut(index as usize) else {
            return;
        };
        let place = core::mem::replace(&mut slot.place, Place::Idle);
        match place {
            Place::Idle => {}
            Place::Dirty => {
                self.dirty.remove(shards, index);
            }
            Place::Retry => {
                self.retry.remove(shards, index);
                self.retry_now = self.retry_now.min(self.retry.len());
            }
            Place::Lapse => {
                self.lapse.remove(shards, index);
            }
            Place::Blocked => {
                self.blocked.remove(shards, index);
                self.wake = self.wake.min(self.blocked.len());
            }
        }
    }

    /// The shard may have commands to give.
    pub(super) fn touch(&mut self, shards: &mut [ShardSlot], index: u32) {
        if shards
            .get(index as usize)
            .is_none_or(|slot| slot.place == Place::Dirty)
        {
            return;
        }
        self.unlink(shards, index);
        if self.dirty.push_back(shards, index)
            && let Some(slot) = shards.get_mut(index as usize)
        {
            slot.place = Place::Dirty;
        }
    }

    /// The shard has no commands to give: where it waits from here on.
    pub(super) fn settle<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) {
        self.unlink(t.shards, index);
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        let is_armed = core::mem::take(&mut slot.armed);
        let (place, list) = if slot.has(flag::FLUSHING) && slot.has(flag::LAPSED) {
            (Place::Lapse, &mut self.lapse)
        } else if slot.has(flag::FLUSHING) || slot.wants_home() {
            // What interrupts the wait does not prolong it.
            if !is_armed {
                let interval = whole_millis(self.config.retry_interval);
                slot.due = self.millis.wrapping_add(interval);
            }
            slot.armed = true;
            (Place::Retry, &mut self.retry)
        } else if slot.state == State::Remote && slot.local != NIL {
            (Place::Blocked, &mut self.blocked)
        } else {
            return;
        };
        slot.place = place;
        let due = slot.due;
        // One that was interrupted may be due before the others; it is at most an interval late.
        let is_first = place != Place::Blocked
            && list
                .front()
                .and_then(|first| t.shards.get(first as usize))
                .is_some_and(|first| first.due != due && has_come(due, first.due));
        if is_first {
            list.push_front(t.shards, index);
        } else {
            list.push_back(t.shards, index);
        }
    }

    /// What is known of the shard has changed: what other nodes sent is judged again.
    pub(super) fn reread<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        // While it drains, the cursor is the place for what is given back.
        if slot.state == State::Draining {
            return;
        }
        slot.clear(flag::NEWS);
        if slot.remote != NIL {
            buffer::rewind(t.buffer, slot.remote);
            self.touch(t.shards, index);
        }
    }

    /// A directive named the epoch: no grant below it is taken from here on.
    pub(super) fn raise_bar<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, epoch: Epoch) {
        if let Some(slot) = t.shards.get_mut(index as usize)
            && slot.bar < epoch
        {
            slot.bar = epoch;
            self.reread(t, index);
        }
    }

    /// The epoch was given up, answered for or refused: nothing at or below it is taken from here on.
    pub(super) fn raise_floor<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, epoch: Epoch) {
        let above = Epoch::from_bits(epoch.to_bits().saturating_add(1));
        self.raise_bar(t, index, above);
    }

    /// Frees a buffer slot that is in no list.
    pub(super) fn unbuffer<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        index: u32,
    ) -> Option<BufferSlot<P>> {
        let held = self.slab.empty(t.buffer, index)?;
        if held.origin != NO_NODE {
            members::let_go(t.nodes, held.origin);
        }
        Some(held)
    }

    /// Buffers something of another node at the end of the shard's list.
    pub(super) fn buffer_remote<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        index: u32,
        origin: u16,
        epoch: Epoch,
        content: Content<P>,
    ) -> Result<(), Content<P>> {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return Err(content);
        };
        let filled = BufferSlot {
            content,
            epoch,
            origin,
            ..BufferSlot::EMPTY
        };
        let at = match self.slab.fill(t.buffer, filled) {
            Ok(at) => at,
            Err(filled) => return Err(filled.content),
        };
        slot.remote = buffer::push_back(t.buffer, slot.remote, at);
        members::hold(t.nodes, origin);
        Ok(())
    }

    /// How many buffer slots a shard has.
    pub(super) fn buffered<P>(t: &RegionTables<'_, P>, slot: &ShardSlot) -> u32 {
        buffer::len(t.buffer, slot.local).saturating_add(buffer::len(t.buffer, slot.remote))
    }

    /// Whether another new message fits.
    pub(super) fn has_room<P>(&self, t: &RegionTables<'_, P>, slot: &ShardSlot) -> bool {
        !self.full
            && self.slab.used() < self.bound
            && Self::buffered(t, slot) < self.config.buffer_per_shard
    }

    /// Whether another message that came back, or a marker, fits.
    pub(super) fn has_room_above<P>(&self, t: &RegionTables<'_, P>, slot: &ShardSlot) -> bool {
        let limit = self
            .config
            .buffer_per_shard
            .saturating_add(self.config.return_window);
        Self::buffered(t, slot) < limit
    }

    /// A `HandOffComplete` that does not go through the shard's slot.
    pub(super) fn answer_aside(&mut self, answer: Answer) {
        if self.answers.is_full() {
            self.answers.pop_front();
        }
        // It has room now.
        let _ = self.answers.push_back(answer);
    }

    /// Makes `slot.epoch` free for a home: an answer that is due with it is kept aside.
    pub(super) fn keep_answer(&mut self, shards: &mut [ShardSlot], index: u32) {
        let Some(slot) = shards.get_mut(index as usize) else {
            return;
        };
        if slot.has(flag::COMPLETE) {
            let answer = Answer {
                shard: index,
                epoch: slot.epoch,
                forced: slot.has(flag::FORCED),
            };
            slot.clear(flag::COMPLETE | flag::FORCED);
            self.answer_aside(answer);
        }
    }

    /// The home in use, as others shall see it.
    pub(super) fn home_of(&self, nodes: &[NodeSlot], slot: &ShardSlot) -> Option<Home> {
        let node = match slot.state {
            State::None => return None,
            State::Starting | State::Active | State::Draining => self.me,
            State::Remote => {
                let home = nodes.get(usize::from(slot.node))?;
                if home.life != Life::Member {
                    return None;
                }
                home.node
            }
        };
        Some(Home {
            node,
            epoch: slot.epoch,
        })
    }

    /// Counts a message that goes to an entity here.
    pub(super) const fn count_delivery(&mut self) {
        count(&mut self.stats.delivered);
    }
}

/// Whether the incarnation in a node slot is a member.
pub(super) fn is_member(nodes: &[NodeSlot], index: u16) -> bool {
    nodes
        .get(usize::from(index))
        .is_some_and(|slot| slot.life == Life::Member)
}
