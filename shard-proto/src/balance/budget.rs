//! How many retries a service may get.

use core::cell::Cell;

use crate::{Instant, micros};

/// Tokens for retries of all calls to a service: each call adds a part of one, each retry takes one.
///
/// A [`Stub`](super::Stub) has a [`RetryBudget`] of its own unless it is given another one. Stubs of one service share
/// one by reference: `&Cell<RetryBudget>` in one thread, and with the feature `std` `&Mutex<RetryBudget>` and
/// `Arc<Mutex<RetryBudget>>`.
pub trait Budget {
    /// A call starts.
    fn deposit(&mut self, now: Instant);

    /// A call wants to be tried again. `false`: it must not be, and fails.
    fn withdraw(&mut self, now: Instant) -> bool;
}

/// A bucket of tokens that calls and time fill.
///
/// When all calls fail, the service sees at most `1 + ratio` times as many as callers make, and the tokens of time besides,
/// instead of as many times as there are attempts. The latter are each stub's own: where clients are many and make fewer
/// calls than that allows for, it is the number of attempts that bounds retries, unless
/// [`RetryBudget::with_per_second`] is lower. After Finagle's `RetryBudget`
/// (<https://twitter.github.io/finagle/guide/Clients.html>), whose defaults these are: a fifth of the calls, 10
/// retries per second besides, and tokens that last for ten seconds of that; gRPC throttles retries in a similar way
/// (<https://github.com/grpc/proposal/blob/master/A6-client-retries.md#throttling-retry-attempts-and-hedged-rpcs>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// In millionths of a token, as are the others.
    tokens: u64,
    per_call: u64,
    most: u64,
    /// Tokens per second are millionths per microsecond.
    per_second: u32,
    at: Instant,
}

const TOKEN: u64 = 1_000_000;

impl RetryBudget {
    /// Full, with the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            tokens: 100 * TOKEN,
            per_call: TOKEN / 5,
            most: 100 * TOKEN,
            per_second: 10,
            at: Instant::ZERO,
        }
    }

    /// How many percent of a token each call adds. Default 20; what is above 100 counts as 100.
    #[must_use]
    pub const fn with_percent(self, percent: u32) -> Self {
        let percent = if percent > 100 { 100 } else { percent };
        let per_call = (percent as u64).saturating_mul(TOKEN / 100);
        Self { per_call, ..self }
    }

    /// How many tokens each second adds, so that a service with few calls may be retried. Default 10.
    #[must_use]
    pub const fn with_per_second(self, tokens: u32) -> Self {
        Self {
            per_second: tokens,
            ..self
        }
    }

    /// How many tokens there can be, and are in the beginning. Default 100. 0: no retries.
    #[must_use]
    pub const fn with_capacity(self, tokens: u32) -> Self {
        let most = (tokens as u64).saturating_mul(TOKEN);
        Self {
            tokens: most,
            most,
            ..self
        }
    }

    /// Whole tokens, as of the last call or retry.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens / TOKEN
    }

    fn fill(&mut self, now: Instant, more: u64) {
        let gained = micros(now.since(self.at)).saturating_mul(self.per_second.into());
        self.at = self.at.max(now);
        let tokens = self.tokens.saturating_add(gained).saturating_add(more);
        self.tokens = tokens.min(self.most);
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget for RetryBudget {
    fn deposit(&mut self, now: Instant) {
        self.fill(now, self.per_call);
    }

    fn withdraw(&mut self, now: Instant) -> bool {
        self.fill(now, 0);
        match self.tokens.checked_sub(TOKEN) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}

impl<B: Budget + Copy> Budget for &Cell<B> {
    fn deposit(&mut self, now: Instant) {
        let mut budget = self.get();
        budget.deposit(now);
        self.set(budget);
    }

    fn withdraw(&mut self, now: Instant) -> bool {
        let mut budget = self.get();
        let may = budget.withdraw(now);
        self.set(budget);
        may
    }
}

/// A panic of another thread leaves tokens that are counted right.
#[cfg(feature = "std")]
fn lock<B>(budget: &std::sync::Mutex<B>) -> std::sync::MutexGuard<'_, B> {
    budget
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(feature = "std")]
impl<B: Budget> Budget for &std::sync::Mutex<B> {
    fn deposit(&mut self, now: Instant) {
        lock(self).deposit(now);
    }

    fn withdraw(&mut self, now: Instant) -> bool {
        lock(self).withdraw(now)
    }
}

#[cfg(feature = "std")]
impl<B: Budget> Budget for alloc::sync::Arc<std::sync::Mutex<B>> {
    fn deposit(&mut self, now: Instant) {
        lock(self).deposit(now);
    }

    fn withdraw(&mut self, now: Instant) -> bool {
        lock(self).withdraw(now)
    }
}
