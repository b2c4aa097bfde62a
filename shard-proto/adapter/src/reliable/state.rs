//! What a sender keeps.

use core::mem;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use shard_proto::node::EntityKey;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{GivenUp, ReliableConfig, ReliableStats, Tag};
use crate::ask::{Pool, Sweep};
use crate::body::Encoded;
use crate::clock::random_seed;
use crate::entity::Entity;
use crate::error::AskError;
use crate::shared::{TypeShared, lock};

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
    /// Callers that wait until fewer messages are kept.
    waiters: Vec<Waker>,
    flushers: Vec<Waker>,
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
    waiters: Vec<Waker>,
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
    /// The caller is woken when it may try again.
    Wait,
    Closed,
}

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
        let waiters = mem::take(&mut state.waiters);
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
        for lane in lanes.into_values() {
            if let Some(task) = lane.task {
                task.abort();
            }
            lane.waiters.into_iter().for_each(Waker::wake);
        }
    }
}

impl Sending {
    /// Takes a message over, if there is room.
    pub(super) fn accept(
        &self,
        cx: &Context<'_>,
        key: &EntityKey,
        body: &mut Option<Encoded>,
    ) -> Accept {
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
            wait(&mut lane.waiters, cx);
            return Accept::Wait;
        }
        let stats = &mut state.stats;
        let crowded = stats.unacknowledged >= self.max_messages
            || (stats.bytes.saturating_add(size) > self.max_bytes && stats.unacknowledged > 0);
        if crowded {
            wait(&mut state.waiters, cx);
            return Accept::Wait;
        }
        let Some(body) = body.take() else {
            return Accept::Closed;
        };
        stats.unacknowledged += 1;
        stats.bytes += size;
        let since = Instant::now();
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
            waiters: Vec::new(),
        };
        // The caller's key may lie in a buffer that somebody read.
        state.lanes.insert(EntityKey::new(key.as_bytes()), lane);
        Accept::First
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
        for waiter in lane.into_iter().flat_map(|lane| lane.waiters) {
            waiter.wake();
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

    /// Gives up all of an entity's.
    pub(super) fn give_up_all(&self, key: &EntityKey, error: &AskError) {
        self.remove(key, |lane| lane.kept.len(), Some(error));
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
        let mut wake = mem::take(&mut lane.waiters);
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
        wake.append(&mut state.waiters);
        if state.stats.unacknowledged == 0 {
            wake.append(&mut state.flushers);
        }
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        count
    }

    pub(super) fn poll_flushed(&self, cx: &Context<'_>) -> Poll<Result<(), GivenUp>> {
        let mut state = lock(&self.state);
        if state.stats.unacknowledged > 0 {
            wait(&mut state.flushers, cx);
            return Poll::Pending;
        }
        Poll::Ready(state.given_up.take().map_or(Ok(()), Err))
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

/// Each waiter once.
fn wait(waiters: &mut Vec<Waker>, cx: &Context<'_>) {
    if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
        waiters.push(cx.waker().clone());
    }
}
