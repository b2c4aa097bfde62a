//! Worlds in which something rare is frequent.

use core::time::Duration;

use super::fault::FaultKind;
use super::{FaultProfile, WorldConfig};
use crate::leadership::LeadershipConfig;

/// What is to be frequent in a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// Nothing more than elsewhere.
    #[default]
    Plain,
    /// Wall clocks are off by seconds, so that terms say nothing of the time. Nobody ends, since what a process forgets
    /// is made up for by its clock.
    Skewed,
    /// Much is lost, and ends are noticed at once, before promises to the dead are over.
    Lossy,
    /// Types stop and start, shards move and take long to, and what was said comes late.
    Restless,
    /// Connections break and nodes stand still all the time.
    Severed,
    /// Nodes give up what they host long before their leader takes it for free, and paths are given up before their
    /// markers can be back.
    Hasty,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Plain,
        Self::Skewed,
        Self::Lossy,
        Self::Restless,
        Self::Severed,
        Self::Hasty,
    ];

    /// Its name, for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Skewed => "skewed",
            Self::Lossy => "lossy",
            Self::Restless => "restless",
            Self::Severed => "severed",
            Self::Hasty => "hasty",
        }
    }
}

impl WorldConfig {
    /// The same world, but that something is frequent in it.
    #[must_use]
    pub fn with_shape(self, shape: Shape) -> Self {
        let ms = Duration::from_millis;
        if shape == Shape::Plain {
            return self;
        }
        // Longer than things go wrong.
        let slow = Duration::from_secs(45);
        let this = if shape == Shape::Skewed {
            self.with_detection(slow, slow)
        } else {
            self
        };
        let calm = this.bound() + Duration::from_secs(1);
        let this = this.with_phases(Duration::from_secs(40), calm);
        match shape {
            Shape::Plain => this,
            // Nobody is so slow that it is taken for gone.
            Shape::Skewed => this.with_wall_skew(Duration::from_secs(20)).with_faults(
                FaultProfile::none()
                    .with_every(ms(500))
                    .with(FaultKind::Cut, 20)
                    .with(FaultKind::Noise, 5)
                    .with(FaultKind::Pause, 20)
                    .with(FaultKind::ClockRate, 3)
                    .with(FaultKind::Suspect, 10)
                    .with(FaultKind::Move, 5),
            ),
            Shape::Lossy => this
                .with_noise(300, 50, 20, Duration::from_secs(1))
                .with_detection(ms(10), ms(150))
                .with_faults(
                    FaultProfile::none()
                        .with_every(ms(500))
                        .with(FaultKind::Cut, 10)
                        .with(FaultKind::Pause, 10)
                        .with(FaultKind::Crash, 30)
                        .with(FaultKind::Restart, 10)
                        .with(FaultKind::Remove, 5)
                        .with(FaultKind::Suspect, 5)
                        .with(FaultKind::Move, 5),
                ),
            Shape::Restless => this
                .with_noise(20, 100, 100, Duration::from_secs(3))
                .with_faults(
                    FaultProfile::none()
                        .with_every(ms(300))
                        .with(FaultKind::StopRegion, 20)
                        .with(FaultKind::Move, 20)
                        .with(FaultKind::HangStops, 10)
                        .with(FaultKind::SlowStarts, 10)
                        .with(FaultKind::Pause, 10)
                        .with(FaultKind::Cut, 10)
                        .with(FaultKind::Crash, 5),
                ),
            Shape::Severed => this
                .with_noise(50, 50, 50, Duration::from_secs(1))
                .with_faults(
                    FaultProfile::none()
                        .with_every(ms(150))
                        .with(FaultKind::Break, 20)
                        .with(FaultKind::Cut, 20)
                        .with(FaultKind::Pause, 20)
                        .with(FaultKind::SlowStarts, 5)
                        .with(FaultKind::Burst, 5)
                        .with(FaultKind::Move, 10),
                ),
            Shape::Hasty => this
                .with_leadership(LeadershipConfig::new().with_drift(ms(400)))
                .with_retry_interval(ms(15))
                .with_delay(ms(1), ms(25))
                .with_traffic(ms(10))
                .with_faults(
                    FaultProfile::none()
                        .with_every(ms(700))
                        .with(FaultKind::Cut, 30)
                        .with(FaultKind::Break, 10)
                        .with(FaultKind::Pause, 10)
                        .with(FaultKind::Crash, 5)
                        .with(FaultKind::Move, 5),
                ),
        }
    }
}
