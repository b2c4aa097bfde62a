//! Tasks on any runtime: they end when they are told to, and a panic ends the task that it happens in, and no other.

use core::convert::Infallible;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};

use pin_project_lite::pin_project;
use tokio::sync::oneshot;

use crate::lock::lock;
use crate::runtime::Handle;

/// Runs code of the application; `None` if it panics.
pub(crate) fn caught<T>(code: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(code)).ok()
}

/// Polls a future of the application; `None` if it panics.
pub(crate) fn poll_caught<F: Future>(
    future: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<Option<F::Output>> {
    caught(|| future.poll(cx)).map_or(Poll::Ready(None), |poll| poll.map(Some))
}

/// Ends a task. In an allocation that whoever may do so shares with it.
#[derive(Debug, Default)]
pub(crate) struct Abort {
    aborted: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Abort {
    /// The task is polled no more, and dropped soon; at once if it does not run.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::SeqCst);
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }

    /// Whom to wake. Look whether it is aborted after this, not before.
    fn watch(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }
}

/// Where the [`Abort`] of a task is.
pub(crate) trait Abortable: Send + Sync + 'static {
    fn abort(&self) -> &Abort;
}

impl Abortable for Abort {
    fn abort(&self) -> &Abort {
        self
    }
}

/// Of a task that has nothing else to share.
#[derive(Clone, Debug)]
pub(crate) struct AbortHandle(Arc<Abort>);

impl AbortHandle {
    pub(crate) fn abort(&self) {
        self.0.abort();
    }
}

pin_project! {
    /// A future that can be aborted, and does not panic.
    struct Supervised<F, A: Abortable> {
        #[pin]
        future: Option<F>,
        abort: Arc<A>,
        // As the one that is watched: whether it is another one is asked without a lock.
        known: Option<Waker>,
    }

    impl<F, A: Abortable> PinnedDrop for Supervised<F, A> {
        fn drop(this: Pin<&mut Self>) {
            // It would keep the task's memory as long as anybody may abort it.
            lock(&this.project().abort.abort().waker).take();
        }
    }
}

impl<F: Future<Output = ()>, A: Abortable> Future for Supervised<F, A> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let abort = this.abort.abort();
        if !this
            .known
            .as_ref()
            .is_some_and(|it| it.will_wake(cx.waker()))
        {
            *this.known = Some(cx.waker().clone());
            abort.watch(cx.waker());
        }
        if !abort.is_aborted() {
            let future = this.future.as_mut().as_pin_mut();
            let polled = future.and_then(|future| caught(|| future.poll(cx)));
            if matches!(polled, Some(Poll::Pending)) {
                return Poll::Pending;
            }
        }
        let _ = caught(|| this.future.set(None));
        Poll::Ready(())
    }
}

impl Handle {
    /// Runs a future that `abort` ends.
    pub(crate) fn spawn_with<A: Abortable>(
        &self,
        abort: Arc<A>,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        self.run(Box::pin(Supervised {
            future: Some(future),
            abort,
            known: None,
        }));
    }

    /// Runs a future. Dropping what is returned does not end it.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let abort = Arc::<Abort>::default();
        self.spawn_with(Arc::clone(&abort), future);
        AbortHandle(abort)
    }

    /// Runs a future whose end somebody may wait for.
    pub(crate) fn spawn_awaited(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Ending {
        let (running, ended) = oneshot::channel();
        self.spawn(async move {
            future.await;
            drop(running);
        });
        Ending(Some(ended))
    }
}

/// The end of a task, however it ends.
#[derive(Debug)]
pub(crate) struct Ending(Option<oneshot::Receiver<Infallible>>);

impl Ending {
    pub(crate) fn is_over(&mut self) -> bool {
        let receiver = self.0.as_mut();
        let over =
            receiver.is_none_or(|it| it.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        if over {
            self.0 = None;
        }
        over
    }

    pub(crate) async fn wait(self) {
        if let Some(ended) = self.0 {
            let _ = ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closed when it is dropped.
    fn dropped() -> (oneshot::Sender<()>, oneshot::Receiver<()>) {
        oneshot::channel()
    }

    #[tokio::test]
    async fn whoever_is_aborted_is_dropped() {
        let (inside, gone) = dropped();
        let (started, begun) = oneshot::channel();
        let task = Handle::test().spawn(async move {
            let _ = started.send(());
            core::future::pending::<()>().await;
            drop(inside);
        });
        begun.await.unwrap();
        task.abort();
        assert!(gone.await.is_err());
        // Nothing of it is kept by whoever might abort it again.
        tokio::task::yield_now().await;
        assert!(lock(&task.0.waker).is_none());
    }

    #[tokio::test]
    async fn whoever_is_aborted_before_it_ran_does_not_run() {
        let (inside, gone) = dropped();
        let task = Handle::test().spawn(async move {
            let _ = inside.send(());
        });
        task.abort();
        assert!(gone.await.is_err());
    }

    #[tokio::test]
    async fn a_panic_stays_in_its_task() {
        let (inside, gone) = dropped();
        let mut ending = Handle::test().spawn_awaited(async move {
            let _inside = inside;
            panic!("as planned");
        });
        assert!(!ending.is_over());
        assert!(gone.await.is_err());
        tokio::task::yield_now().await;
        assert!(ending.is_over());
        ending.wait().await;
    }
}
