//! How long a node takes to answer, weighted towards now.

use core::time::Duration;

use crate::{Instant, micros};

/// A moving average of latencies that rises at once and falls by half per half-life.
///
/// An answer slower than the average replaces it; a faster one counts the more the longer ago the last one was. Without
/// answers it decays, so that a node which was slow gets another chance. This is the "peak" average of Finagle's
/// `PeakEwma` load metric (Twitter, <https://twitter.github.io/finagle/guide/Clients.html>).
///
/// Half-lives are powers of two microseconds, so that nothing divides; between two of them the decay is interpolated,
/// with an error below 0.6 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    at: Instant,
    micros: u32,
    half_life: u8,
}

impl Latency {
    /// Nothing is known, with the default half-life.
    pub const UNKNOWN: Self = Self::new(Self::DEFAULT_HALF_LIFE);
    /// The default half-life, 4.19 seconds.
    pub const DEFAULT_HALF_LIFE: Duration = Duration::from_micros(1 << 22);

    /// Nothing is known. The half-life is rounded down to a power of two microseconds, from 1 µs to 2^63 µs.
    #[must_use]
    pub const fn new(half_life: Duration) -> Self {
        let half_life = match micros(half_life).checked_ilog2() {
            #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
            Some(log) => log as u8,
            None => 0,
        };
        Self {
            at: Instant::ZERO,
            micros: 0,
            half_life,
        }
    }

    /// Takes in how long an answer took, from 1 µs to 71 minutes. O(1).
    pub fn observe(&mut self, now: Instant, took: Duration) {
        let took = u32::try_from(micros(took)).unwrap_or(u32::MAX).max(1);
        let now = now.max(self.at);
        let age = micros(now.since(self.at));
        self.micros = if took >= self.micros {
            took
        } else {
            // took + (average - took) * 2^(-age/half-life)
            let above = self.micros.saturating_sub(took);
            took.saturating_add(decayed(above, age, self.half_life))
        };
        self.at = now;
    }

    /// The average as of now, in microseconds. 0: nothing is known, or not any more.
    #[must_use]
    pub fn micros(&self, now: Instant) -> u32 {
        decayed(self.micros, micros(now.since(self.at)), self.half_life)
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// `value * 2^(-age / 2^half_life)`, rounded down.
fn decayed(value: u32, age: u64, half_life: u8) -> u32 {
    const ONE: u64 = 1 << 16;
    let half_life = u32::from(half_life);
    let halvings = age.checked_shr(half_life).unwrap_or(0);
    let Some(value) = u32::try_from(halvings)
        .ok()
        .and_then(|halvings| value.checked_shr(halvings))
    else {
        return 0;
    };
    // The part of a half-life that is left, in 1/65536.
    let part = age ^ halvings.wrapping_shl(half_life);
    let part = match half_life.checked_sub(16) {
        Some(shift) => part.wrapping_shr(shift),
        None => part.wrapping_shl(16_u32.saturating_sub(half_life)),
    };
    // 2^-x is about 1 - 0.6565 x + 0.1565 x² from 0 to 1, and exact at both ends.
    let square = part.wrapping_mul(part) >> 16;
    let factor = ONE
        .saturating_sub(part.wrapping_mul(43_024) >> 16)
        .saturating_add(square.wrapping_mul(10_256) >> 16);
    let product = u64::from(value).wrapping_mul(factor) >> 16;
    u32::try_from(product).unwrap_or(u32::MAX)
}
