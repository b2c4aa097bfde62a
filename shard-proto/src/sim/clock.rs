//! A host's clock.

use core::time::Duration;

use crate::{Instant, micros};

/// A clock that started at zero with its host's life, and runs a little too fast or too slow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Real time and local time, from where on the rate holds.
    real: u64,
    local: u64,
    /// Local microseconds per million of real ones.
    rate: u64,
}

const MILLION: u64 = 1_000_000;

impl Clock {
    pub(super) fn new(real: u64, local: u64, ppm: i32) -> Self {
        Self {
            real,
            local,
            rate: rate(ppm),
        }
    }

    /// What it shows.
    pub(super) const fn at(&self, real: u64) -> Instant {
        let passed = real.saturating_sub(self.real);
        let (whole, part) = (passed / MILLION, passed % MILLION);
        Instant::from_micros(self.local + whole * self.rate + part * self.rate / MILLION)
    }

    /// The first moment at which it shows at least that.
    pub(super) const fn when(&self, local: Instant) -> u64 {
        let ahead = local.as_micros().saturating_sub(self.local);
        let (whole, part) = (ahead / self.rate, ahead % self.rate);
        let real = whole
            .saturating_mul(MILLION)
            .saturating_add((part * MILLION).div_ceil(self.rate));
        self.real.saturating_add(real)
    }

    pub(super) fn set_rate(&mut self, real: u64, ppm: i32) {
        self.local = self.at(real).as_micros();
        self.real = real;
        self.rate = rate(ppm);
    }

    pub(super) fn jump(&mut self, by: Duration) {
        self.local += micros(by);
    }
}

fn rate(ppm: i32) -> u64 {
    MILLION.saturating_add_signed(i64::from(ppm.clamp(-500_000, 500_000)))
}
