//! The task of a running entity.

use core::future::poll_fn;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::time::Instant;

use shard_proto::hash::mix;

use crate::driver::yield_once;
use crate::entity::{BoxError, Context, Entity};
use crate::error::AskError;
use crate::lease::Look;
use crate::queue::PushError;
use crate::report::Reason;
use crate::shared::{Caller, EntityStopped, Inbound, Input, Item, Seat};

/// Pause before an entity that failed is made again: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(10));

/// Why an entity does not go on.
enum End {
    /// Its mailbox is closed.
    Closed,
    /// It panicked, or did not start.
    Failed,
}

/// A seat and what was taken from its mailbox. Dropped, however the task ends, it hands back what was not handled.
struct Work<E: Entity> {
    seat: Seat<E>,
    batch: VecDeque<Item<E>>,
    /// A message is being handled.
    busy: bool,
}

/// Runs an entity until its mailbox is closed.
pub(crate) async fn run<E: Entity>(seat: Seat<E>) {
    let mut work = Work {
        seat,
        batch: VecDeque::new(),
        busy: false,
    };
    let mut failures = 0;
    loop {
        if !work.seat.lease(&mut Look::default()).await {
            return;
        }
        let (entity, end) = match work.seat.start().await {
            Ok(mut entity) => {
                let end = work.serve(&mut entity, &mut failures).await;
                (Some(entity), end)
            }
            Err(end) => (None, end),
        };
        match (end, entity) {
            (End::Closed, Some(mut entity)) => {
                work.seat.stop(&mut entity).await;
                discard(entity);
                return;
            }
            (End::Closed, None) => return,
            (End::Failed, entity) => {
                if let Some(entity) = entity {
                    discard(entity);
                }
                failures += 1;
                if work.seat.pause(failures).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Drops what is the application's.
fn discard<E>(entity: E) {
    if catch_unwind(AssertUnwindSafe(|| drop(entity))).is_err() {
        tracing::debug!("an entity panicked while it was dropped");
    }
}

/// Awaits `future`, or catches its panic.
async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)))
            .map_or(Poll::Ready(None), |poll| poll.map(Some))
    })
    .await
}

impl<E: Entity> Work<E> {
    async fn serve(&mut self, entity: &mut E, failures: &mut u32) -> End {
        let mut slice = Slice::default();
        let mut look = Look::default();
        loop {
            if self.batch.is_empty() {
                let queue = &self.seat.mailbox.queue;
                let batch = &mut self.batch;
                trim(batch);
                if !poll_fn(|cx| queue.poll_take(cx, batch)).await {
                    return End::Closed;
                }
            }
            loop {
                if !self.seat.holds_lease(&mut look) && !self.seat.lease(&mut look).await {
                    return End::Closed;
                }
                if self.seat.mailbox.queue.is_closed() {
                    return End::Closed;
                }
                let Some(item) = self.batch.pop_front() else {
                    break;
                };
                self.busy = true;
                let handled = self.seat.handle(entity, item).await;
                self.busy = false;
                if !handled {
                    return End::Failed;
                }
                *failures = 0;
                slice.step().await;
            }
        }
    }
}

impl<E: Entity> Seat<E> {
    /// Whether the node may serve its shards now.
    #[inline]
    pub(crate) fn holds_lease(&self, look: &mut Look) -> bool {
        let node = &self.shared.node;
        node.lease.is_held(&node.clock, look)
    }

    /// Waits until it may. `false`: not for this entity any more.
    #[cold]
    async fn lease(&self, look: &mut Look) -> bool {
        let node = &self.shared.node;
        poll_fn(|cx| {
            let held = node.lease.poll_held(cx, &node.clock, look);
            if self.mailbox.queue.poll_closed(cx).is_ready() {
                return Poll::Ready(false);
            }
            held.map(|()| true)
        })
        .await
    }

    async fn start(&self) -> Result<E, End> {
        let make = || (self.shared.factory)(&self.id);
        let Ok(mut entity) = catch_unwind(AssertUnwindSafe(make)) else {
            self.failed("panicked while it was made", None);
            return Err(End::Failed);
        };
        let mut cx = Context::new(self, Caller::Tell);
        let started = {
            let mut started = pin!(caught(async { entity.started(&mut cx).await }));
            // Starting is given up when the shard moves on; what it holds is dropped.
            poll_fn(|task| match started.as_mut().poll(task) {
                Poll::Ready(started) => Poll::Ready(Some(started)),
                Poll::Pending => self.mailbox.queue.poll_closed(task).map(|()| None),
            })
            .await
        };
        drop(cx);
        match started {
            Some(Some(Ok(()))) => return Ok(entity),
            Some(Some(Err(error))) => self.failed("did not start", Some(error)),
            Some(None) => self.failed("panicked while it started", None),
            None => {
                discard(entity);
                return Err(End::Closed);
            }
        }
        discard(entity);
        Err(End::Failed)
    }

    /// Whether the entity survived.
    async fn handle(&self, entity: &mut E, item: Item<E>) -> bool {
        let mut cx = Context::new(self, item.caller);
        let message = match item.message {
            Inbound::Value(message) => Ok(message),
            Inbound::Encoded(encoded) => encoded.decode(),
            Inbound::Long(long) => long.0.decode(),
        };
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                cx.refuse();
                self.report(Reason::Codec);
                tracing::warn!(
                    entity_type = E::TYPE,
                    id = &*self.id,
                    %error,
                    "a message cannot be decoded"
                );
                return true;
            }
        };
        if caught(async { entity.handle(message, &mut cx).await })
            .await
            .is_some()
        {
            cx.handled();
            return true;
        }
        drop(cx);
        self.report(Reason::Panicked);
        self.failed("panicked", None);
        false
    }

    async fn stop(&self, entity: &mut E) {
        let mut cx = Context::new(self, Caller::Tell);
        if caught(async { entity.stopped(&mut cx).await })
            .await
            .is_none()
        {
            self.failed("panicked while it stopped", None);
        }
    }

    /// Waits before the entity is made again; an error if its mailbox is closed meanwhile.
    async fn pause(&self, failures: u32) -> Result<(), ()> {
        let pause = PAUSE.0.saturating_mul(1 << (failures - 1).min(10));
        // Half fixed, half random, so that what failed together does not come back together.
        let chance = mix(self.epoch.to_bits() ^ u64::from(failures) ^ address(self)) % 512;
        let pause = pause.min(PAUSE.1).mul_f64((512 + chance) as f64 / 1024.0);
        let mut sleep = pin!(tokio::time::sleep(pause));
        poll_fn(|cx| {
            if sleep.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            self.mailbox.queue.poll_closed(cx).map(|()| Err(()))
        })
        .await
    }

    fn report(&self, reason: Reason) {
        self.shared.report(self.shard, &self.key, reason);
    }

    fn failed(&self, what: &'static str, error: Option<BoxError>) {
        let error = error.map(tracing::field::display);
        tracing::warn!(
            entity_type = E::TYPE,
            id = &*self.id,
            shard = self.shard.0,
            error,
            "an entity {what}; it is made again after a pause"
        );
    }
}

/// Lets other tasks run when the entity has had its share. Counting messages would not do: what handles a message
/// in no time has to keep up with a driver that delivers thousands per turn.
#[derive(Default)]
struct Slice {
    handled: u32,
    began: Option<Instant>,
}

impl Slice {
    /// Messages between looks at the clock.
    const STEP: u32 = 64;
    const SHARE: Duration = Duration::from_micros(200);

    async fn step(&mut self) {
        self.handled += 1;
        if self.handled < Self::STEP {
            return;
        }
        self.handled = 0;
        let now = Instant::now();
        let began = *self.began.get_or_insert(now);
        if now.duration_since(began) >= Self::SHARE {
            yield_once().await;
            self.began = None;
        }
    }
}

fn address<T>(value: &T) -> u64 {
    core::ptr::from_ref(value).addr() as u64
}

/// Gives back what a burst took.
fn trim<T>(batch: &mut VecDeque<T>) {
    const KEEP: usize = 256;
    if batch.capacity() > 4 * KEEP {
        batch.shrink_to(KEEP);
    }
}

impl<E: Entity> Drop for Work<E> {
    fn drop(&mut self) {
        if self.busy {
            // Aborted, or its runtime is going down.
            self.seat.report(Reason::Aborted);
        }
        let seat = &self.seat;
        seat.mailbox.queue.close();
        let mut rest = mem::take(&mut self.batch);
        rest.append(&mut seat.mailbox.queue.take_rest());
        let stopped = Input::Stopped(Box::new(EntityStopped {
            ty: seat.shared.index,
            shard: seat.shard,
            opening: seat.mailbox.opening,
            key: seat.key.clone(),
            rest: Box::new(rest),
        }));
        if let Err(PushError::Closed(Input::Stopped(stopped))) =
            seat.shared.node.inbox.push(stopped, usize::MAX)
            && let Ok(rest) = stopped.rest.downcast::<VecDeque<Item<E>>>()
        {
            // The node has ended: nobody else reports them.
            for item in *rest {
                seat.report(Reason::Stopped);
                if let Caller::Ask(responder) = item.caller {
                    responder.fail(AskError::Stopped);
                }
            }
        }
    }
}
