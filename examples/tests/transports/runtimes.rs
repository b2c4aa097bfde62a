//! The runtimes, and how a node's part of one is dropped.

use core::cell::RefCell;
use core::future::pending;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use shard_adapter::Transport;
use shard_adapter::runtime::{Executor, Runtime, Sleep};
use shard_adapter::transport::BoxFuture;
use shard_asyncstd::async_std::AsyncStd;
use shard_asyncstd::smol::Smol;
use shard_tokio::Tokio;
use tokio::sync::watch;

/// A runtime that runs a test.
pub trait On: Runtime {
    fn block_on<F: Future>(test: F) -> F::Output;

    /// The same for QUIC.
    fn quinn() -> Arc<dyn quinn::Runtime>;
}

impl On for Tokio {
    fn block_on<F: Future>(test: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        runtime.unwrap().block_on(test)
    }

    fn quinn() -> Arc<dyn quinn::Runtime> {
        Arc::new(quinn::TokioRuntime)
    }
}

impl On for AsyncStd {
    fn block_on<F: Future>(test: F) -> F::Output {
        async_std::task::block_on(test)
    }

    fn quinn() -> Arc<dyn quinn::Runtime> {
        Arc::new(quinn::AsyncStdRuntime)
    }
}

impl On for Smol {
    fn block_on<F: Future>(test: F) -> F::Output {
        smol::block_on(test)
    }

    fn quinn() -> Arc<dyn quinn::Runtime> {
        Arc::new(quinn::SmolRuntime)
    }
}

/// Ends everything that a node runs, where it is.
#[derive(Clone)]
pub struct End(Arc<watch::Sender<bool>>);

impl End {
    pub fn now(&self) {
        self.0.send_replace(true);
    }
}

/// A part of a runtime that can be dropped as if it were one: each node has its own.
pub struct Mortal<R> {
    runtime: R,
    end: End,
}

thread_local! {
    static MADE: RefCell<Option<End>> = const { RefCell::new(None) };
}

impl<R> Mortal<R> {
    /// The end of the one that was made last on this thread.
    pub fn end() -> End {
        MADE.take().expect("one was made")
    }
}

impl<R: Runtime> Default for Mortal<R> {
    fn default() -> Self {
        let end = End(Arc::new(watch::Sender::new(false)));
        MADE.set(Some(end.clone()));
        Self {
            runtime: R::default(),
            end,
        }
    }
}

impl<R: Runtime> Runtime for Mortal<R> {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(Tasks {
            executor: self.runtime.executor(),
            end: self.end.0.subscribe(),
        })
    }

    fn transport(&self) -> Arc<dyn Transport> {
        self.runtime.transport()
    }
}

struct Tasks {
    executor: Arc<dyn Executor>,
    end: watch::Receiver<bool>,
}

impl Executor for Tasks {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        let mut end = self.end.clone();
        self.executor.spawn(Box::pin(async move {
            let ended = async {
                if end.wait_for(|end| *end).await.is_err() {
                    pending().await
                }
            };
            tokio::select! {
                () = future => {}
                () = ended => {}
            }
        }));
    }

    fn sleep(&self, after: Duration) -> Pin<Box<dyn Sleep>> {
        self.executor.sleep(after)
    }

    fn now(&self) -> Instant {
        self.executor.now()
    }

    fn poll_proceed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.executor.poll_proceed(cx)
    }
}
