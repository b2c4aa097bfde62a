//! Tasks of either runtime, and timers of async-io.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use async_io::Timer;
use shard_adapter::runtime::{Executor, Sleep};
use shard_adapter::transport::BoxFuture;

/// An executor, by what spawns on it.
pub(crate) struct Tasks(pub(crate) fn(BoxFuture<'static, ()>));

impl Executor for Tasks {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        (self.0)(future);
    }

    fn sleep(&self, after: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Alarm(Timer::after(after)))
    }
}

struct Alarm(Timer);

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl Sleep for Alarm {
    fn reset(mut self: Pin<&mut Self>, after: Duration) {
        self.0.set_after(after);
    }
}
