//! What a sender keeps.

use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use shard_proto::node::EntityKey;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::{GivenUp, ReliableConfig, ReliableStats, Tag};
use crate::ask::{Pool, Sweep};
use crate::body::Encoded;
use crate::clock::random_seed;
use crate::entity::Entity;
use crate::error::AskError;
use crate::lock::lock;
use crate::runtime::Handle;
use crate::shared::TypeShared;
use crate::supervise::AbortHandle;

/// Of a sender: dropped, it forgets what is kept.
pub(crate) struct Guard(pub(super) Arc<Sending>);

/// A sender, as its lanes know it.
pub(crate) struct Sending {
    id: u64,
    window: usize,
    max_messages: usize,
    max_bytes: usize,
    pub(super) timeout: Duration,
    pub(super) deadline: Option<Duration>,
    /// Waits for acknowledgements.
    pub(super) pool: Arc<Pool<u64>>,
    /// For callers that wait until fewer messages are kept.
    room: Arc<Notify>,
    flushed: Arc<Notify>,
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lanes: HashMap<EntityKey, Lane, foldhash::fast::RandomState>,
    /// No lane that is gone has used this number, or a higher one.
    floor: u64,
    stats: ReliableStats,
    /// What nobody was told yet.
    given_up: Option<GivenUp>,
    closed: bool,
}

/// The messages of one entity.
struct Lane {
    /// Number of the first one that is kept.
    base: u64,
    /// Those below were sent at least once.
    sent: u64,
    kept: VecDeque<Kept>,
    /// `None` until it is known; it is being started.
    task: Option<AbortHandle>,
    /// The task, if it waits for more to send.
    idle: Option<Waker>,
    /// For callers that wait until fewer of its messages are kept, once there was one.
    room: Option<Arc<Notify>>,
}

struct Kept {
    body: Encoded,
    since: Instant,
}

/// What became of a message.
pub(super) enum Accept {
    Taken,
    /// Taken, and nothing sends it yet.
    First,
    /// Try again after it.
    Wait(Turn),
    Closed,
}

/// A caller's place in a line, which is left when it is dropped, at the same cost however long the line is.
pub(super) type Turn = Pin<Box<OwnedNotified>>;

/// What a lane should do next.
pub(super) enum More {
    Send,
    /// Nothing is kept, and the lane is gone.
    Over,
}

impl Guard {
    pub(crate) fn new<E: Entity>(shared: &TypeShared<E>, config: ReliableConfig) -> Arc<Self> {
        let pool = Arc::new(Pool::new());
        let sweep = Arc::downgrade(&pool);
        shared.node.sweep_too(sweep as Weak<dyn Sweep>);
        Arc::new(Self(Arc::new(Sending {
            id: random_seed(),
            window: config.window,
            max_messages: config.max_messages,
            max_bytes: config.max_bytes,
            timeout: config.timeout.unwrap_or(shared.limits.ask_timeout),
            deadline: config.deadline,
            pool,
            room: Arc::default(),
            flushed: Arc::default(),
            runtime: shared.node.runtime.clone(),
            state: Mutex::new(State {
                floor: 1,
                ..State::default()
            }),
        })))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
        let lanes = mem::take(&mut state.lanes);
        drop(state);
        self.0.room.notify_waiters();
        for lane in lanes.into_values() {
            if let Some(task) = lane.task {
                task.abort();
            }
            if let Some(room) = lane.room {
                room.notify_waiters();
            }
        }
    }
}

impl Sending {
    /// Takes a message over, if there is room.
    pub(super) fn accept(&self, key: &EntityKey, body: &mut Option<Encoded>) -> Accept {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if state.closed {
            return Accept::Closed;
        }
        let size = body.as_ref().map_or(0, |body| body.as_slice().len());
        let lane = state.lanes.get_mut(key);
        if let Some(lane) = lane
            && lane.kept.len() >= self.window
        {
            return Accept::Wait(line_up(lane.room.get_or_insert_default()));
        }
        let stats = &mut state.stats;
        let crowded = stats.unacknowledged >= self.max_messages
            || (stats.bytes.saturating_add(size) > self.max_bytes && stats.unacknowledged > 0);
        if crowded {
            return Accept::Wait(line_up(&self.room));
        }
        let Some(body) = body.take() else {
            return Accept::Closed;
        };
        stats.unacknowledged += 1;
        stats.bytes += size;
        let since = self.runtime.now();
        let kept = Kept { body, since };
        if let Some(lane) = state.lanes.get_mut(key) {
            lane.kept.push_back(kept);
            if let Some(idle) = lane.idle.take() {
                idle.wake();
            }
            return Accept::Taken;
        }
        let lane = Lane {
            base: state.floor,
            sent: state.floor,
            kept: VecDeque::from([kept]),
            task: None,
            idle: None,
            room: None,
        };
        // The caller's key may lie in a buffer that somebody read.
        state.lanes.insert(EntityKey::new(key.as_bytes()), lane);
        Accept::First
    }

    /// Lets the next one in line try: for somebody who waited, and took less than there was room for.
    pub(super) fn pass_on(&self) {
        self.room.notify_one();
    }

    /// The lane of the entity has a task.
    pub(super) fn started(&self, key: &EntityKey, task: AbortHandle) {
        let mut state = lock(&self.state);
        // It may be over already, or the sender was dropped.
        if state.closed {
            task.abort();
        } else if let Some(lane) = state.lanes.get_mut(key) {
            lane.task = Some(task);
        }
    }

    /// The message behind so many that are on their way, as it travels.
    pub(super) fn next(&self, key: &EntityKey, flying: usize) -> Option<(Tag, Encoded)> {
        let mut state = lock(&self.state);
        let lane = state.lanes.get_mut(key)?;
        let kept = lane.kept.get(flying)?;
        let tag = Tag {
            sender: self.id,
            seq: lane.base + flying as u64,
            base: lane.base,
        };
        let body = kept.body.clone();
        let again = tag.seq < lane.sent;
        lane.sent = lane.sent.max(tag.seq + 1);
        if again {
            state.stats.sent_again += 1;
        }
        drop(state);
        Some((tag, Encoded::joined(&tag.to_bytes(), body.as_slice())))
    }

    /// Ready when there is more to send than what is on its way.
    pub(super) fn poll_more(&self, cx: &Context<'_>, key: &EntityKey, flying: usize) -> Poll<More> {
        let mut state = lock(&self.state);
        let Some(lane) = state.lanes.get_mut(key) else {
            return Poll::Ready(More::Over);
        };
        if lane.kept.len() > flying {
            return Poll::Ready(More::Send);
        }
        if flying > 0 {
            lane.idle = Some(cx.waker().clone());
            return Poll::Pending;
        }
        // Under the lock: what comes after this finds no lane, and begins another one behind these numbers.
        let base = lane.base;
        state.floor = state.floor.max(base);
        let lane = state.lanes.remove(key);
        drop(state);
        if let Some(room) = lane.and_then(|lane| lane.room) {
            room.notify_waiters();
        }
        Poll::Ready(More::Over)
    }

    /// The entity takes `next` as the next: what is below was handled. Returns how many that concerns.
    pub(super) fn acknowledge(&self, key: &EntityKey, next: u64) -> usize {
        self.remove(
            key,
            |lane| {
                // Nobody can have handled what was never sent.
                let count = next.min(lane.sent).saturating_sub(lane.base);
                usize::try_from(count).unwrap_or(usize::MAX)
            },
            None,
        )
    }

    /// Gives up the first message, or with a deadline all that are older. Returns how many.
    pub(super) fn give_up(
        &self,
        key: &EntityKey,
        older: Option<Instant>,
        error: &AskError,
    ) -> usize {
        self.remove(
            key,
            |lane| {
                older.map_or(1, |older| {
                    let kept = lane.kept.iter();
                    kept.take_while(|kept| kept.since <= older).count()
                })
            },
            Some(error),
        )
    }

    /// Gives up all of an entity's, for good: whoever waits is to see that.
    pub(super) fn give_up_all(&self, key: &EntityKey, error: &AskError) {
        self.remove(key, |lane| lane.kept.len(), Some(error));
        let state = lock(&self.state);
        let room = state.lanes.get(key).and_then(|lane| lane.room.clone());
        drop(state);
        if let Some(room) = room {
            room.notify_waiters();
        }
        self.room.notify_waiters();
    }

    fn remove(
        &self,
        key: &EntityKey,
        count: impl FnOnce(&Lane) -> usize,
        error: Option<&AskError>,
    ) -> usize {
        let mut state = lock(&self.state);
        let Some(lane) = state.lanes.get_mut(key) else {
            return 0;
        };
        let count = count(lane).min(lane.kept.len());
        if count == 0 {
            return 0;
        }
        let room = lane.room.clone();
        lane.base += count as u64;
        lane.sent = lane.sent.max(lane.base);
        let gone: Vec<_> = lane.kept.drain(..count).collect();
        let bytes: usize = gone.iter().map(|kept| kept.body.as_slice().len()).sum();
        let messages = count as u64;
        let stats = &mut state.stats;
        stats.unacknowledged -= count;
        stats.bytes -= bytes;
        if let Some(error) = error {
            stats.given_up += messages;
            let before = state.given_up.as_ref().map_or(0, |it| it.messages);
            state.given_up = Some(GivenUp {
                messages: before + messages,
                error: error.clone(),
            });
        } else {
            stats.acknowledged += messages;
        }
        let flushed = state.stats.unacknowledged == 0;
        drop(state);
        // As many as there are places: all of a long line would come for nothing, each time.
        for _ in 0..count {
            if let Some(room) = &room {
                room.notify_one();
            }
            self.room.notify_one();
        }
        if flushed {
            self.flushed.notify_waiters();
        }
        count
    }

    /// What became of all, or until when to wait for that.
    pub(super) fn flushed(&self) -> Result<Result<(), GivenUp>, Turn> {
        let mut state = lock(&self.state);
        if state.stats.unacknowledged > 0 {
            return Err(line_up(&self.flushed));
        }
        Ok(state.given_up.take().map_or(Ok(()), Err))
    }

    pub(super) fn stats(&self) -> ReliableStats {
        lock(&self.state).stats
    }

    pub(super) const fn window(&self) -> usize {
        self.window
    }

    /// For jitter.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }
}

/// Under the lock: whatever happens after that wakes it.
fn line_up(line: &Arc<Notify>) -> Turn {
    let mut turn = Box::pin(Arc::clone(line).notified_owned());
    turn.as_mut().enable();
    turn
}
