//! Time as the core sees it: a number of microseconds that the adapter supplies.

use core::time::Duration;

/// A point in time: microseconds since an arbitrary origin that the adapter chose.
///
/// The core has no clock. Every input takes `now` as its first argument, and every state machine clamps it to be
/// monotonic, so a clock that runs backwards delays timers and does nothing worse. Arithmetic saturates.
///
/// Adapters should use a clock that counts suspend (`CLOCK_BOOTTIME` on Linux).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the adapter's clock.
    pub const ZERO: Self = Self(0);
    /// Later than every deadline.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// A point `micros` microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// `self + duration`, at most [`Instant::FAR_FUTURE`].
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// How long `earlier` lies before `self`; zero if it does not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The later of two points.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.0 >= other.0 { self } else { other }
    }

    /// The earlier of two points.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.0 <= other.0 { self } else { other }
    }
}

/// Whole microseconds of a duration, saturating at `u64::MAX` (584 000 years).
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the branch before it excludes values above u64::MAX"
)]
pub const fn micros(duration: Duration) -> u64 {
    let micros = duration.as_micros();
    if micros > u64::MAX as u128 {
        u64::MAX
    } else {
        micros as u64
    }
}

/// The earlier of two optional deadlines.
#[must_use]
pub const fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (Some(a), None) => Some(a),
        (None, b) => b,
    }
}
