//! Until when this node may serve its shards: written by the driver, looked at by every entity before each message,
//! so that nothing is served by a node whose driver is stuck, or which slept through the end of its lease.

use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll};

use shard_proto::Instant;

use crate::clock::{Clock, Tick};
use crate::shared::Waiters;

/// No lease is needed.
const TRUST: u64 = u64::MAX;

pub(crate) struct Lease {
    /// In microseconds of the node's clock.
    until: AtomicU64,
    /// Entities that found it over.
    waiters: Waiters,
}

/// When an entity read the clock last. Reading it takes 23 ns, reading the kernel's tick 3 ns: while the tick is the
/// same and the end is not near, no other look is needed.
#[derive(Debug, Default)]
pub(crate) struct Look {
    tick: Option<Tick>,
    now: u64,
}

/// Longer than a tick of any kernel.
const NEAR: u64 = 20_000;

impl Lease {
    /// Not held yet.
    pub(crate) fn new() -> Self {
        Self {
            until: AtomicU64::new(0),
            waiters: Waiters::default(),
        }
    }

    /// Of a node that needs none.
    pub(crate) fn trust() -> Self {
        Self {
            until: AtomicU64::new(TRUST),
            waiters: Waiters::default(),
        }
    }

    /// For the driver, which has closed the mailboxes that a lapse stops before it says that there is a new one.
    pub(crate) fn set(&self, until: Option<Instant>) {
        if self.until.load(Ordering::Relaxed) == TRUST {
            return;
        }
        let until = until.map_or(0, |until| until.as_micros().min(TRUST - 1));
        self.until.store(until, Ordering::Release);
        self.waiters.wake();
    }

    /// Whether it is held now. Look after this, not before it, whether the mailbox is closed: who sees the lease that
    /// follows a lapse then also sees the end of the mailbox.
    #[inline]
    pub(crate) fn is_held(&self, clock: &Clock, look: &mut Look) -> bool {
        let until = self.until.load(Ordering::Acquire);
        until == TRUST || look.is_before(clock, until)
    }

    /// Ready when it is held.
    pub(crate) fn poll_held(
        &self,
        cx: &mut Context<'_>,
        clock: &Clock,
        look: &mut Look,
    ) -> Poll<()> {
        if self.is_held(clock, look) {
            return Poll::Ready(());
        }
        self.waiters.register(cx);
        if self.is_held(clock, look) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Look {
    #[inline]
    fn is_before(&mut self, clock: &Clock, until: u64) -> bool {
        let tick = clock.tick();
        if tick.is_none() || tick != self.tick || self.now.saturating_add(NEAR) >= until {
            self.tick = tick;
            self.now = clock.now().as_micros();
        }
        self.now < until
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;
    use core::time::Duration;

    use super::*;

    #[test]
    fn it_ends_to_the_microsecond_and_is_never_held_before() {
        let clock = Clock::new();
        let lease = Lease::new();
        let mut look = Look::default();
        assert!(!lease.is_held(&clock, &mut look));
        let until = clock.now().after(Duration::from_millis(60));
        lease.set(Some(until));
        let mut looks = 0;
        loop {
            let before = clock.now();
            let held = lease.is_held(&clock, &mut look);
            let after = clock.now();
            // It was asked between the two.
            assert!(if held { before < until } else { after >= until });
            if !held {
                break;
            }
            looks += 1;
        }
        assert!(looks > 100);
        lease.set(Some(until.after(Duration::from_secs(60))));
        assert!(lease.is_held(&clock, &mut look));
        lease.set(None);
        assert!(!lease.is_held(&clock, &mut look));
    }

    #[test]
    fn a_look_before_a_pause_does_not_count_after_it() {
        let clock = Clock::new();
        let lease = Lease::new();
        let mut look = Look::default();
        lease.set(Some(clock.now().after(Duration::from_millis(200))));
        assert!(lease.is_held(&clock, &mut look));
        std::thread::sleep(Duration::from_millis(220));
        assert!(!lease.is_held(&clock, &mut look));
    }

    #[test]
    fn trust_needs_none() {
        let lease = Lease::trust();
        lease.set(None);
        assert!(lease.is_held(&Clock::new(), &mut Look::default()));
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        use std::sync::Arc;
        let lease = Arc::new(Lease::new());
        let clock = Clock::new();
        let waiting = tokio::spawn({
            let lease = Arc::clone(&lease);
            async move {
                let mut look = Look::default();
                poll_fn(|cx| lease.poll_held(cx, &clock, &mut look)).await;
            }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        lease.set(Some(clock.now().after(Duration::from_secs(60))));
        waiting.await.unwrap();
    }
}
