//! What a runtime gives a node: whoever writes an adapter implements [`Runtime`].
//!
//! A runtime runs futures and counts time, and no more: that a task ends when it is told to, and that one that panics
//! takes nothing else along, is seen to by the shared code, the same for all.

use core::cell::Cell;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use crate::transport::{BoxFuture, Transport};

/// A timer that can be set again.
pub trait Sleep: Future<Output = ()> + Send {
    /// Is over `after` from now, whether it was over before or not. Whoever polled it is woken only if they poll again.
    fn reset(self: Pin<&mut Self>, after: Duration);
}

/// Runs the tasks of a node, and counts its time.
pub trait Executor: Send + Sync + 'static {
    /// Runs a future in the background, to its end. It does not panic.
    fn spawn(&self, future: BoxFuture<'static, ()>);

    /// A timer that is over `after` from now, and not before.
    fn sleep(&self, after: Duration) -> Pin<Box<dyn Sleep>>;

    /// The time that [`Executor::sleep`] goes by. Default: [`Instant::now`].
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Ready if the calling task may go on, although it has not waited for anything; else it is woken when it is its turn
    /// again. Asked for every few messages. Default: pending, once, every 128 calls of a thread.
    fn poll_proceed(&self, cx: &mut Context<'_>) -> Poll<()> {
        const CALLS: u8 = 128;
        thread_local! {
            static LEFT: Cell<u8> = const { Cell::new(CALLS) };
        }
        let left = LEFT.get().checked_sub(1);
        LEFT.set(left.unwrap_or(CALLS));
        if left.is_some() {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What a [`Node`](crate::Node) is named after: where it runs, and what it does unless it is told otherwise.
pub trait Runtime: Default + Send + Sync + 'static {
    /// Where a node's tasks run, whoever starts them. Asked for when the node is started, where it is.
    fn executor(&self) -> Arc<dyn Executor>;

    /// How nodes reach each other unless they are told.
    fn transport(&self) -> Arc<dyn Transport>;
}

/// The executor of a node, for everything that belongs to it.
#[derive(Clone)]
pub(crate) struct Handle(Arc<dyn Executor>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) const fn new(executor: Arc<dyn Executor>) -> Self {
        Self(executor)
    }

    /// For unit tests.
    #[cfg(test)]
    pub(crate) fn test() -> Self {
        Self::new(Test.executor())
    }

    /// Only what is supervised is run: see [`crate::supervise`].
    pub(crate) fn run(&self, future: BoxFuture<'static, ()>) {
        self.0.spawn(future);
    }

    pub(crate) fn sleep(&self, after: Duration) -> Pin<Box<dyn Sleep>> {
        self.0.sleep(after)
    }

    pub(crate) fn now(&self) -> Instant {
        self.0.now()
    }

    pub(crate) fn poll_proceed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_proceed(cx)
    }

    /// `None`: the time is over. A future that is ready wins.
    pub(crate) async fn timeout<F: Future>(&self, after: Duration, future: F) -> Option<F::Output> {
        let over = self.sleep(after);
        tokio::select! {
            biased;
            value = future => Some(value),
            () = over => None,
        }
    }
}

/// What the unit tests run on.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Test;

#[cfg(test)]
mod test {
    use super::*;

    struct Timer(Pin<Box<tokio::time::Sleep>>);

    impl Future for Timer {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            self.0.as_mut().poll(cx)
        }
    }

    impl Sleep for Timer {
        fn reset(mut self: Pin<&mut Self>, after: Duration) {
            let at = tokio::time::Instant::now() + after;
            self.0.as_mut().reset(at);
        }
    }

    impl Executor for Test {
        fn spawn(&self, future: BoxFuture<'static, ()>) {
            tokio::spawn(future);
        }

        fn sleep(&self, after: Duration) -> Pin<Box<dyn Sleep>> {
            Box::pin(Timer(Box::pin(tokio::time::sleep(after))))
        }
    }

    impl Runtime for Test {
        fn executor(&self) -> Arc<dyn Executor> {
            Arc::new(Self)
        }

        fn transport(&self) -> Arc<dyn Transport> {
            Arc::new(crate::transport::MemoryTransport::new())
        }
    }

    /// An executor that says nothing of turns.
    struct Defaults;

    impl Executor for Defaults {
        fn spawn(&self, _: BoxFuture<'static, ()>) {}

        fn sleep(&self, after: Duration) -> Pin<Box<dyn Sleep>> {
            Test.sleep(after)
        }
    }

    #[test]
    fn whoever_goes_on_for_long_lets_others_run() {
        let mut cx = Context::from_waker(core::task::Waker::noop());
        let mut proceed = || Defaults.poll_proceed(&mut cx);
        let pending = (0..1290).filter(|_| proceed().is_pending());
        assert_eq!(pending.count(), 10);
    }
}
