//! Which kinds of faults are drawn.

use core::time::Duration;

use super::fault::FaultKind;

/// Which faults are drawn, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultProfile {
    every: Duration,
    weights: [u16; FaultKind::ALL.len()],
}

impl FaultProfile {
    /// Everything that the protocol promises to survive, something about every 1.5 s; each seed has its own pace.
    #[must_use]
    pub const fn new() -> Self {
        Self::none()
            .with(FaultKind::Cut, 16)
            .with(FaultKind::Noise, 6)
            .with(FaultKind::Break, 6)
            .with(FaultKind::Pause, 16)
            .with(FaultKind::Crash, 10)
            .with(FaultKind::Restart, 5)
            .with(FaultKind::Leave, 6)
            .with(FaultKind::StopRegion, 3)
            .with(FaultKind::ClockRate, 4)
            .with(FaultKind::ClockJump, 2)
            .with(FaultKind::WallJump, 3)
            .with(FaultKind::Suspect, 5)
            .with(FaultKind::Remove, 2)
            .with(FaultKind::HangStops, 4)
            .with(FaultKind::SlowStarts, 3)
            .with(FaultKind::Burst, 5)
            .with(FaultKind::Move, 12)
            .with(FaultKind::LockCut, 10)
    }

    /// Nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            every: Duration::from_millis(1500),
            weights: [0; FaultKind::ALL.len()],
        }
    }

    /// How often a kind is drawn, in relation to the others; 0: never. What ends a fault (a heal, a start) comes with
    /// it.
    #[must_use]
    pub const fn with(mut self, kind: FaultKind, weight: u16) -> Self {
        self.weights[kind as usize] = weight;
        self
    }

    /// How long it takes from one fault to the next, on average. Default 1.5 s; a seed makes it half or three times as
    /// long.
    #[must_use]
    pub const fn with_every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// See [`FaultProfile::with`].
    #[must_use]
    pub const fn weight(&self, kind: FaultKind) -> u16 {
        self.weights[kind as usize]
    }

    /// See [`FaultProfile::with_every`].
    #[must_use]
    pub const fn every(&self) -> Duration {
        self.every
    }

    pub(super) fn total(&self) -> u64 {
        self.weights.iter().map(|weight| u64::from(*weight)).sum()
    }
}

impl Default for FaultProfile {
    fn default() -> Self {
        Self::new()
    }
}
