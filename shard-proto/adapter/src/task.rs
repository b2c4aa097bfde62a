//! The task of a running entity: `started`, its messages, `stopped`. Whether it is made again decides the core.

use core::future::poll_fn;
use core::mem;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use shard_proto::entity::End;

use crate::body;
use crate::driver::yield_once;
use crate::entity::{BoxError, Context, Entity, Wish};
use crate::error::AskError;
use crate::lease::Look;
use crate::queue::PushError;
use crate::reliable::{Tag, Verdict};
use crate::report::Reason;
use crate::shared::{Caller, Inbound, Input, Item, Mailbox, Seat, TypeShared};
use crate::supervise::{caught, poll_caught};

/// A task ended. What it took and did not handle comes in front of what is in its mailbox.
pub(crate) struct Ended<E: Entity> {
    pub(crate) mailbox: Arc<Mailbox<E>>,
    pub(crate) end: End,
    pub(crate) taken: VecDeque<Item<E>>,
}

/// A seat and what was taken from its mailbox. Dropped, however the task ends, it hands back what was not handled.
pub(crate) struct Work<E: Entity> {
    seat: Seat<E>,
    batch: VecDeque<Item<E>>,
    /// A message is being handled.
    busy: bool,
    end: End,
}

/// Runs an entity until its mailbox is closed, or it fails.
#[expect(
    clippy::manual_async_fn,
    reason = "what an async fn is given takes up room twice"
)]
pub(crate) fn run<E: Entity>(mut work: Work<E>) -> impl Future<Output = ()> + Send {
    async move { work.live().await }
}

/// Drops what is the application's.
fn discard<E>(entity: E) {
    if caught(|| drop(entity)).is_none() {
        tracing::debug!("an entity panicked while it was dropped");
    }
}

impl<E: Entity> Work<E> {
    pub(crate) const fn new(seat: Seat<E>) -> Self {
        Self {
            seat,
            batch: VecDeque::new(),
            busy: false,
            end: End::Aborted,
        }
    }

    async fn live(&mut self) {
        if !Box::pin(self.seat.lease(&mut Look::default())).await {
            self.end = End::Stopped;
            return;
        }
        // Starting and stopping are boxed: an idle entity shall not pay for them.
        let (mut entity, leaving) = match Box::pin(self.seat.start()).await {
            Ok(started) => started,
            Err(end) => {
                self.end = end;
                return;
            }
        };
        let started = Input::Started(self.seat.shared.index, self.seat.mailbox.slot);
        self.seat.tell(started);
        // The driver, which that woke, waits for this thread: it must not wait for the first message as well.
        yield_once().await;
        let end = self.serve(&mut entity, leaving).await;
        if end == End::Stopped {
            Box::pin(self.seat.stop(&mut entity)).await;
        }
        discard(entity);
        self.end = end;
    }

    /// `leaving`: it wants to be passivated.
    async fn serve(&mut self, entity: &mut E, mut leaving: bool) -> End {
        let mut slice = Slice::default();
        let mut look = Look::default();
        loop {
            slice.step().await;
            let Some(item) = self.next(leaving).await else {
                break;
            };
            let held = self.seat.holds_lease(&mut look);
            if !held || self.seat.mailbox.queue.is_closed() {
                // Back at once: it may be aborted while it waits.
                self.batch.push_front(item);
                if held || !Box::pin(self.seat.lease(&mut look)).await {
                    return End::Stopped;
                }
                continue;
            }
            let Some((mut cx, message)) = self.seat.open(item) else {
                // Else one that was started for this would be there for ever.
                self.seat.used();
                continue;
            };
            self.busy = true;
            let survived = {
                // Pinned where it is made: moved, it would take up twice the room.
                let mut handling = pin!(caught(|| entity.handle(message, &mut cx)));
                poll_fn(|task| match handling.as_mut().as_pin_mut() {
                    Some(handling) => poll_caught(handling, task),
                    None => Poll::Ready(None),
                })
                .await
                .is_some()
            };
            self.busy = false;
            match self.seat.handled(cx, survived) {
                Some(wants_to_leave) => leaving |= wants_to_leave,
                None => return End::Failed,
            }
            self.seat.used();
            if leaving {
                break;
            }
        }
        let mailbox = &self.seat.mailbox;
        if !mailbox.queue.is_closed() {
            // The core says when: until the mailbox is closed callers may put something in, which it has to see.
            let index = self.seat.shared.index;
            self.seat.tell(Input::Passivate(index, mailbox.slot));
            poll_fn(|cx| mailbox.queue.poll_closed(cx)).await;
        }
        End::Stopped
    }

    /// The next message. `None`: there is none any more, or none yet and the entity does not want to wait for it.
    async fn next(&mut self, leaving: bool) -> Option<Item<E>> {
        if let Some(item) = self.batch.pop_front() {
            return Some(item);
        }
        poll_fn(|cx| {
            let taken = self.seat.mailbox.queue.poll_take(cx, &mut self.batch);
            if taken.is_pending() {
                trim(&mut self.batch);
                if leaving {
                    return Poll::Ready(None);
                }
            }
            taken
        })
        .await
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

    /// The entity, and whether it wants to be passivated.
    async fn start(&self) -> Result<(E, bool), End> {
        let make = || (self.shared.factory)(self.id());
        let Some(mut entity) = caught(make) else {
            self.failed("panicked while it was made", None);
            return Err(End::Failed);
        };
        let mut cx = Context::new(self, Caller::Tell);
        let started = {
            let mut started = pin!(async { entity.started(&mut cx).await });
            // Starting is given up when the shard moves on; what it holds is dropped.
            poll_fn(|task| match poll_caught(started.as_mut(), task) {
                Poll::Ready(started) => Poll::Ready(Some(started)),
                Poll::Pending => self.mailbox.queue.poll_closed(task).map(|()| None),
            })
            .await
        };
        let end = match (started, cx.handled()) {
            (Some(Some(Ok(()))), Wish::Fail(error)) | (Some(Some(Err(error))), _) => {
                self.failed("did not start", Some(error));
                End::Failed
            }
            (Some(Some(Ok(()))), wish) => {
                return Ok((entity, matches!(wish, Wish::Passivate)));
            }
            (Some(None), _) => {
                self.failed("panicked while it started", None);
                End::Failed
            }
            (None, _) => End::Stopped,
        };
        discard(entity);
        Err(end)
    }

    fn verdict(&self, tag: Tag) -> Verdict {
        self.shared.senders.verdict(self.mailbox.slot, tag)
    }

    /// What the entity is given. `None`: it cannot be decoded, which is reported, or is not to be handled.
    fn open(&self, item: Item<E>) -> Option<(Context<'_, E>, E::Message)> {
        let skip = match &item.caller {
            Caller::Tracked(tracked) => match self.verdict(tracked.tag) {
                Verdict::Handle => Tag::LEN,
                Verdict::Answer(next) => {
                    item.caller.acknowledge(next, &self.shared.node);
                    return None;
                }
            },
            _ => 0,
        };
        let cx = Context::new(self, item.caller);
        let message = match item.message {
            Inbound::Value(message) => Ok(message),
            Inbound::Encoded(encoded) => encoded.decode_after(skip),
            Inbound::Long(long) => long.0.decode_after(skip),
        };
        match message {
            Ok(message) => Some((cx, message)),
            Err(error) => {
                cx.undecoded();
                self.report(Reason::Codec);
                tracing::warn!(
                    entity_type = E::TYPE,
                    id = self.id(),
                    %error,
                    "a message cannot be decoded"
                );
                None
            }
        }
    }

    /// Whether the entity wants to leave; `None`: it failed.
    fn handled(&self, cx: Context<'_, E>, survived: bool) -> Option<bool> {
        if !survived {
            drop(cx);
            self.report(Reason::Panicked);
            self.failed("panicked", None);
            return None;
        }
        match cx.handled() {
            Wish::Go => Some(false),
            Wish::Passivate => Some(true),
            Wish::Fail(error) => {
                self.report(Reason::Failed);
                self.failed("failed", Some(error));
                None
            }
        }
    }

    async fn stop(&self, entity: &mut E) {
        let mut cx = Context::new(self, Caller::Tell);
        let stopped = {
            let mut stopping = pin!(async { entity.stopped(&mut cx).await });
            poll_fn(|task| poll_caught(stopping.as_mut(), task)).await
        };
        match (stopped, cx.handled()) {
            (None, _) => self.complain("panicked while it stopped", None),
            (Some(()), Wish::Fail(error)) => self.complain("failed while it stopped", Some(error)),
            _ => {}
        }
    }

    fn report(&self, reason: Reason) {
        let mailbox = &self.mailbox;
        self.shared.report(mailbox.shard, &mailbox.key, reason);
    }

    fn failed(&self, what: &str, error: Option<BoxError>) {
        self.complain(
            &format!("{what}; unless that is too often, it is made again after a pause"),
            error,
        );
    }

    fn complain(&self, what: &str, error: Option<BoxError>) {
        let error = error.map(tracing::field::display);
        tracing::warn!(
            entity_type = E::TYPE,
            id = self.id(),
            shard = self.mailbox.shard.0,
            error,
            "an entity {what}"
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

/// For an entity that goes idle: gives back what a burst took, and a buffer so small that it is quickly had again.
fn trim<T>(batch: &mut VecDeque<T>) {
    const SMALL: usize = 8;
    const KEEP: usize = 256;
    if batch.capacity() <= SMALL {
        *batch = VecDeque::new();
    } else if batch.capacity() > 4 * KEEP {
        batch.shrink_to(KEEP);
    }
}

impl<E: Entity> Drop for Work<E> {
    fn drop(&mut self) {
        let seat = &self.seat;
        seat.shared.senders.forget(seat.mailbox.slot);
        if self.busy {
            // Aborted, or its runtime is going down.
            seat.report(Reason::Aborted);
        }
        let ended = Input::Ended(
            seat.shared.index,
            Box::new(Ended {
                mailbox: Arc::clone(&seat.mailbox),
                end: self.end,
                taken: mem::take(&mut self.batch),
            }),
        );
        if let Err(PushError::Closed(Input::Ended(_, ended))) =
            seat.shared.node.inbox.push(ended, usize::MAX)
            && let Ok(ended) = ended.downcast::<Ended<E>>()
        {
            // The node has ended: nobody else reports them.
            seat.shared.forsake(*ended);
        }
    }
}

impl<E: Entity> Ended<E> {
    /// What the entity had not handled, in order. Nothing goes into its mailbox any more.
    pub(crate) fn rest(self) -> VecDeque<Item<E>> {
        self.mailbox.queue.close();
        let mut rest = self.taken;
        rest.append(&mut self.mailbox.queue.take_rest());
        rest
    }
}

impl<E: Entity> TypeShared<E> {
    /// Reports what an entity had not handled when the node ended.
    pub(crate) fn forsake(&self, ended: Ended<E>) {
        let mailbox = Arc::clone(&ended.mailbox);
        for item in ended.rest() {
            self.report(mailbox.shard, &mailbox.key, Reason::Stopped);
            item.caller.fail(AskError::Stopped);
            // The driver may be the one who does this.
            body::discard(item.message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Small(u64);

    impl Entity for Small {
        const TYPE: &'static str = "small";
        type Message = u64;
        type Reply = u64;

        fn create(_id: &str) -> Self {
            Self(0)
        }

        async fn handle(&mut self, add: u64, cx: &mut Context<'_, Self>) {
            self.0 += add;
            cx.reply(self.0);
        }
    }

    fn size_of_result<A, B>(_: impl FnOnce(A) -> B) -> usize {
        size_of::<B>()
    }

    /// Every idle entity costs this.
    #[test]
    fn an_entity_is_small() {
        assert!(size_of_result(run::<Small>) <= 320);
        assert!(size_of::<Mailbox<Small>>() <= 208);
    }
}
