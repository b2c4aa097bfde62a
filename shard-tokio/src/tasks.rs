//! Tasks and timers of tokio.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::sync::Arc;

use shard_adapter::runtime::{Executor, Runtime, Sleep};
use shard_adapter::transport::{BoxFuture, Transport};
use tokio::runtime::Handle;
use tokio::task::coop;
use tokio::time::{self, Instant};

use crate::transport::TcpTransport;

/// Runs nodes on the runtime of tokio that they are started on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tokio;

impl Runtime for Tokio {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(Tasks(Handle::current()))
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(TcpTransport::new())
    }
}

/// The runtime of a node. It may be another one than that of whoever calls.
struct Tasks(Handle);

impl Executor for Tasks {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.0.spawn(future);
    }

    fn sleep(&self, after: Duration) -> Pin<Box<dyn Sleep>> {
        let _inside = self.0.enter();
        Box::pin(Timer(Box::pin(time::sleep(after))))
    }

    fn now(&self) -> std::time::Instant {
        let _inside = self.0.enter();
        Instant::now().into_std()
    }

    fn poll_proceed(&self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(coop::poll_proceed(cx)).made_progress();
        Poll::Ready(())
    }
}

struct Timer(Pin<Box<time::Sleep>>);

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Sleep for Timer {
    fn reset(mut self: Pin<&mut Self>, after: Duration) {
        self.0.as_mut().reset(Instant::now() + after);
    }
}
