//! Waiting for an answer: reusable slots, so that an ask costs no allocation and no timer.
//!
//! A slot belongs to the asker while it waits. Whoever shall answer holds the slot and the number of the ask; once the
//! asker is gone (answered, out of time, dropped) the number is over and a late answer is ignored. One sweep for all
//! slots, every [`TICK`], looks at deadlines. An asker does not read the clock: its time begins when a sweep first
//! meets it, so that a sweep that is late makes an ask longer, never shorter.

use core::any::Any;
use core::cell::Cell;
use core::fmt;
use core::mem;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard};

use shard_proto::Instant;

use crate::body::Encoded;
use crate::error::AskError;
use crate::lock::lock;
use crate::message::Message;

/// How often deadlines are looked at.
pub(crate) const TICK: Duration = Duration::from_millis(25);

pub(crate) struct Slot<R> {
    state: Mutex<State<R>>,
    /// 0 while nobody waits; a timeout, marked by [`FRESH`], until a sweep comes by; then the deadline. In microseconds.
    /// Written under the lock.
    time: AtomicU64,
}

/// No sweep has met the ask.
const FRESH: u64 = 1 << 63;

/// When an ask ends.
fn deadline(time: u64, now: Instant) -> Instant {
    if time & FRESH == 0 {
        Instant::from_micros(time)
    } else {
        now.after(Duration::from_micros(time & !FRESH))
    }
}

struct State<R> {
    number: u64,
    answer: Option<Result<Given<R>, AskError>>,
    asker: Option<Waker>,
}

enum Given<R> {
    Value(R),
    Encoded(Encoded),
}

impl<R> Slot<R> {
    fn new() -> Self {
        Self {
            state: Mutex::new(State {
                number: 0,
                answer: None,
                asker: None,
            }),
            time: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        lock(&self.state)
    }

    fn resolve(&self, number: u64, answer: Result<Given<R>, AskError>) {
        let mut state = self.lock();
        if state.number != number || state.answer.is_some() {
            return;
        }
        state.answer = Some(answer);
        let asker = state.asker.take();
        drop(state);
        if let Some(asker) = asker {
            asker.wake();
        }
    }

    fn sweep(&self, now: u64, clock: &dyn Fn() -> Instant) {
        let nothing = |time| time == 0 || (now < time && time < FRESH);
        if nothing(self.time.load(Ordering::Relaxed)) {
            return;
        }
        let state = self.lock();
        // It may be another ask by now.
        let time = self.time.load(Ordering::Relaxed);
        if nothing(time) {
            return;
        }
        if time & FRESH == 0 {
            let number = state.number;
            drop(state);
            self.resolve(number, Err(AskError::Timeout));
        } else {
            // It may have begun after this sweep did.
            let deadline = deadline(time, clock()).as_micros();
            self.time
                .store(deadline.clamp(1, FRESH - 1), Ordering::Relaxed);
        }
    }
}

/// Who shall answer. Dropped without an answer, it says so to the asker.
pub(crate) struct Responder<R> {
    slot: Option<Arc<Slot<R>>>,
    number: u64,
}

impl<R> Responder<R> {
    pub(crate) fn answer(mut self, value: R) {
        if let Some(slot) = self.slot.take() {
            slot.resolve(self.number, Ok(Given::Value(value)));
        }
    }

    pub(crate) fn fail(mut self, error: AskError) {
        if let Some(slot) = self.slot.take() {
            slot.resolve(self.number, Err(error));
        }
    }
}

impl<R: Send + 'static> Responder<R> {
    pub(crate) fn erase(mut self) -> Option<Pending> {
        let slot = self.slot.take()?;
        Some(Pending {
            time: slot.time.load(Ordering::Relaxed),
            slot,
            number: self.number,
        })
    }
}

impl<R> Drop for Responder<R> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.resolve(self.number, Err(AskError::PerhapsDelivered));
        }
    }
}

/// A responder whose type the driver does not know.
pub(crate) struct Pending {
    slot: Arc<dyn AnySlot>,
    number: u64,
    /// As of its slot.
    time: u64,
}

trait AnySlot: Send + Sync {
    fn resolve_encoded(&self, number: u64, answer: Result<Encoded, AskError>);
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<R: Send + 'static> AnySlot for Slot<R> {
    fn resolve_encoded(&self, number: u64, answer: Result<Encoded, AskError>) {
        self.resolve(number, answer.map(Given::Encoded));
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Pending {
    pub(crate) fn resolve(self, answer: Result<Encoded, AskError>) {
        self.slot.resolve_encoded(self.number, answer);
    }

    /// Never earlier than the ask's timeout, if `now` is not earlier than the ask.
    pub(crate) fn deadline(&self, now: Instant) -> Instant {
        deadline(self.time, now)
    }

    /// With its type again, for an entity on this node. `None` if it is of another type.
    pub(crate) fn typed<R: Send + 'static>(self) -> Option<Responder<R>> {
        let slot = self.slot.into_any().downcast::<Slot<R>>().ok()?;
        Some(Responder {
            slot: Some(slot),
            number: self.number,
        })
    }
}

/// Slots of one entity type. Striped, so that askers on different threads do not share a free list.
pub(crate) struct Pool<R> {
    free: Vec<Stripe<R>>,
    all: Mutex<Vec<Arc<Slot<R>>>>,
}

/// On its own cache line.
#[repr(align(64))]
struct Stripe<R>(Mutex<Vec<Arc<Slot<R>>>>);

fn stripe_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}

impl<R: Send + 'static> Pool<R> {
    pub(crate) fn new() -> Self {
        let stripes = std::thread::available_parallelism().map_or(1, |n| n.get().min(64));
        Self {
            free: (0..stripes)
                .map(|_| Stripe(Mutex::new(Vec::new())))
                .collect(),
            all: Mutex::new(Vec::new()),
        }
    }

    fn stripe(&self) -> MutexGuard<'_, Vec<Arc<Slot<R>>>> {
        let stripe = &self.free[stripe_of_this_thread() % self.free.len()];
        lock(&stripe.0)
    }

    /// Begins to wait: at least for `timeout`, and for two ticks more at most, if ticks are on time.
    pub(crate) fn wait<P: AsRef<Self>>(
        pool: P,
        timeout: Duration,
    ) -> (Waiting<P, R>, Responder<R>) {
        let this = pool.as_ref();
        let free = this.stripe().pop();
        let slot = free.unwrap_or_else(|| {
            let slot = Arc::new(Slot::new());
            lock(&this.all).push(Arc::clone(&slot));
            slot
        });
        let number = {
            let mut state = slot.lock();
            state.number += 1;
            let micros = shard_proto::micros(timeout).min(FRESH - 1);
            slot.time.store(FRESH | micros, Ordering::Relaxed);
            state.number
        };
        let responder = Responder {
            slot: Some(Arc::clone(&slot)),
            number,
        };
        let waiting = Waiting {
            slot: Some(slot),
            pool,
        };
        (waiting, responder)
    }

    /// Slots are kept: there are as many as asks ever waited at once.
    fn put_back(&self, slot: Arc<Slot<R>>) {
        self.stripe().push(slot);
    }
}

/// What has deadlines.
pub(crate) trait Sweep: Send + Sync {
    /// `now` is what the clock shows.
    fn sweep(&self, now: Instant, clock: &dyn Fn() -> Instant);
}

impl<R: Send + 'static> Sweep for Pool<R> {
    fn sweep(&self, now: Instant, clock: &dyn Fn() -> Instant) {
        for slot in lock(&self.all).iter() {
            slot.sweep(now.as_micros(), clock);
        }
    }
}

impl<R> AsRef<Self> for Pool<R> {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// An answer that is on its way, from [`EntityRef::begin_ask`](crate::EntityRef::begin_ask). Dropping it abandons the
/// answer, not the message.
#[must_use = "futures do nothing unless polled"]
pub struct Answer<R: Message>(Waiting<Arc<Pool<R>>, R>);

impl<R: Message> Answer<R> {
    pub(crate) const fn new(waiting: Waiting<Arc<Pool<R>>, R>) -> Self {
        Self(waiting)
    }
}

impl<R: Message> Future for Answer<R> {
    type Output = Result<R, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<R: Message> fmt::Debug for Answer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

/// The asker's side: a future of the answer.
pub(crate) struct Waiting<P: AsRef<Pool<R>>, R: Send + 'static> {
    slot: Option<Arc<Slot<R>>>,
    pool: P,
}

impl<P: AsRef<Pool<R>>, R: Send + 'static> Unpin for Waiting<P, R> {}

impl<P: AsRef<Pool<R>>, R: Message> Future for Waiting<P, R> {
    type Output = Result<R, AskError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(slot) = &self.slot else {
            return Poll::Ready(Err(AskError::NoReply));
        };
        let mut state = slot.lock();
        let Some(answer) = state.answer.take() else {
            match &mut state.asker {
                Some(asker) => asker.clone_from(cx.waker()),
                asker => *asker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        };
        drop(state);
        Poll::Ready(answer.and_then(|answer| match answer {
            Given::Value(value) => Ok(value),
            Given::Encoded(encoded) => encoded.decode().map_err(AskError::Answer),
        }))
    }
}

impl<P: AsRef<Pool<R>>, R: Send + 'static> Drop for Waiting<P, R> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else {
            return;
        };
        let mut state = slot.lock();
        state.number += 1;
        slot.time.store(0, Ordering::Relaxed);
        // Dropped outside the lock: they are the application's.
        let answer = state.answer.take();
        let asker = state.asker.take();
        drop(state);
        drop((answer, asker));
        self.pool.as_ref().put_back(slot);
    }
}

/// The driver's asks that wait for other nodes, by the key under which the core knows them.
#[derive(Default)]
pub(crate) struct Asks {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

struct Entry {
    number: u32,
    pending: Option<Pending>,
}

impl Asks {
    pub(crate) fn insert(&mut self, pending: Pending) -> shard_proto::node::AskKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                number: 0,
                pending: None,
            });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.number = entry.number.wrapping_add(1);
        entry.pending = Some(pending);
        shard_proto::node::AskKey(u64::from(entry.number) << 32 | u64::from(index))
    }

    pub(crate) fn remove(&mut self, key: shard_proto::node::AskKey) -> Option<Pending> {
        let index = key.0 as u32;
        let entry = self.entries.get_mut(index as usize)?;
        if u64::from(entry.number) != key.0 >> 32 {
            return None;
        }
        let pending = mem::take(&mut entry.pending)?;
        self.free.push(index);
        Some(pending)
    }

    /// Nobody will answer any more.
    pub(crate) fn fail_all(&mut self) {
        for pending in self.entries.drain(..).filter_map(|entry| entry.pending) {
            pending.resolve(Err(AskError::Stopped));
        }
        self.free.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_micros(100);

    fn sweep(pool: &Pool<u64>, micros: u64) {
        let now = Instant::from_micros(micros);
        pool.sweep(now, &|| now);
    }

    fn is_waiting<P: AsRef<Pool<u64>>>(waiting: &Waiting<P, u64>) -> bool {
        let slot = waiting.slot.as_ref().unwrap();
        slot.lock().answer.is_none()
    }

    #[tokio::test]
    async fn an_answer_arrives_and_the_slot_is_used_again() {
        let pool = Pool::<u64>::new();
        for n in 0..10 {
            let (waiting, responder) = Pool::wait(&pool, TIMEOUT);
            responder.answer(n);
            assert_eq!(waiting.await, Ok(n));
        }
        assert_eq!(pool.all.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_late_answer_does_not_reach_the_next_ask() {
        let pool = Pool::<u64>::new();
        let (waiting, late) = Pool::wait(&pool, TIMEOUT);
        drop(waiting);
        let (waiting, responder) = Pool::wait(&pool, TIMEOUT);
        late.answer(1);
        responder.answer(2);
        assert_eq!(waiting.await, Ok(2));
    }

    #[tokio::test]
    async fn deadlines_and_dropped_responders_end_the_wait() {
        let pool = Pool::<u64>::new();
        let (early, _kept) = Pool::wait(&pool, TIMEOUT);
        let (late, responder) = Pool::wait(&pool, TIMEOUT * 2);
        sweep(&pool, 1);
        sweep(&pool, 101);
        assert_eq!(early.await, Err(AskError::Timeout));
        drop(responder);
        assert_eq!(late.await, Err(AskError::PerhapsDelivered));
    }

    /// Whatever sweeps do, whoever asks waits at least for its timeout.
    #[tokio::test]
    async fn a_late_sweep_ends_no_ask_early() {
        let pool = Pool::<u64>::new();
        sweep(&pool, 1_000);
        let (waiting, responder) = Pool::wait(&pool, TIMEOUT);
        let pending = responder.erase().unwrap();
        // Nobody has looked since long before the ask, which may have begun just now.
        sweep(&pool, 9_000);
        assert!(is_waiting(&waiting));
        sweep(&pool, 9_099);
        assert!(is_waiting(&waiting));
        sweep(&pool, 9_100);
        assert_eq!(waiting.await, Err(AskError::Timeout));
        // The core is told no earlier a time.
        let now = Instant::from_micros(9_000);
        assert_eq!(pending.deadline(now), now.after(TIMEOUT));
    }

    /// A sweep reads the clock before it comes to an ask that began meanwhile, in a slot that had another deadline.
    #[tokio::test]
    async fn an_ask_that_begins_during_a_sweep_has_its_time() {
        let pool = Pool::<u64>::new();
        drop(Pool::wait(&pool, TIMEOUT));
        let (waiting, _responder) = Pool::wait(&pool, TIMEOUT);
        let clock = || Instant::from_micros(5_000);
        pool.sweep(Instant::from_micros(1_000), &clock);
        sweep(&pool, 5_099);
        assert!(is_waiting(&waiting));
        sweep(&pool, 5_100);
        assert_eq!(waiting.await, Err(AskError::Timeout));
    }

    #[tokio::test]
    async fn the_longest_timeout_is_one() {
        let pool = Pool::<u64>::new();
        let (waiting, _responder) = Pool::wait(&pool, Duration::MAX);
        for micros in [1_000, FRESH - 2] {
            sweep(&pool, micros);
            assert!(is_waiting(&waiting));
        }
    }

    #[tokio::test]
    async fn the_driver_finds_asks_by_key_once() {
        let (pool, mut asks) = (Pool::<u64>::new(), Asks::default());
        let (waiting, responder) = Pool::wait(&pool, TIMEOUT);
        let key = asks.insert(responder.erase().unwrap());
        let pending = asks.remove(key).unwrap();
        assert!(asks.remove(key).is_none());
        assert!(
            Pool::wait(&pool, TIMEOUT)
                .1
                .erase()
                .unwrap()
                .typed::<u8>()
                .is_none()
        );
        pending.typed::<u64>().unwrap().answer(5);
        assert_eq!(waiting.await, Ok(5));
    }
}
