//! What goes wrong, and when.

use alloc::vec::Vec;
use core::time::Duration;

use super::WorldConfig;

/// Something that goes wrong (or right again). Hosts are numbered from 0; a shard is its type's number times
/// [`WorldConfig::shards`] plus its own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing gets from one host to another; the other way is left as it is.
    Cut {
        /// Who sends.
        from: u8,
        /// Who hears nothing.
        to: u8,
    },
    /// Ends a cut.
    Heal {
        /// Who sends.
        from: u8,
        /// Who hears it again.
        to: u8,
    },
    /// Ends all cuts.
    HealAll,
    /// Control frames are lost, doubled and delayed, until the next `Noise`.
    Noise {
        /// How many of 1000 are lost.
        loss: u16,
        /// How many of 1000 come twice.
        duplicate: u16,
        /// How many of 1000 are late.
        late: u16,
        /// By how much at most.
        delay: Duration,
    },
    /// The connection of two hosts breaks and is made again: control on its way is lost, data is sent again.
    Break {
        /// One.
        a: u8,
        /// The other.
        b: u8,
    },
    /// The host does nothing for a while, and does not know of it.
    Pause {
        /// The host.
        host: u8,
        /// How long.
        for_: Duration,
    },
    /// The process ends without a word.
    Crash {
        /// The host.
        host: u8,
    },
    /// The process is started (after its end, if it lives).
    Restart {
        /// The host.
        host: u8,
    },
    /// The node leaves in good order, and its process ends.
    Leave {
        /// The host.
        host: u8,
    },
    /// The host stops its region of a type.
    StopRegion {
        /// The host.
        host: u8,
        /// The type's number.
        ty: u8,
    },
    /// The host starts it again.
    StartRegion {
        /// The host.
        host: u8,
        /// The type's number.
        ty: u8,
    },
    /// The host's clock runs at another rate.
    ClockRate {
        /// The host.
        host: u8,
        /// Millionths faster than real time; slower if negative.
        ppm: i32,
    },
    /// The host's clock jumps forward. Leases cannot hold against it.
    ClockJump {
        /// The host.
        host: u8,
        /// By how much.
        by: Duration,
    },
    /// The host's wall clock, the floor of its terms, is set.
    WallJump {
        /// The host.
        host: u8,
        /// Microseconds against real time.
        skew: i64,
    },
    /// A host believes another to be unreachable.
    Suspect {
        /// Who believes it.
        by: u8,
        /// Of whom.
        of: u8,
        /// How long.
        for_: Duration,
    },
    /// The node is declared gone for good, though it lives.
    Remove {
        /// The host.
        host: u8,
    },
    /// Entities on the host do not stop when they are told to.
    HangStops {
        /// The host.
        host: u8,
        /// How long.
        for_: Duration,
    },
    /// A caller sends many messages at once.
    Burst {
        /// Where the caller is.
        host: u8,
        /// To which shard.
        shard: u32,
        /// How many.
        count: u32,
    },
    /// The coordinator is to move a shard.
    Move {
        /// The shard.
        shard: u32,
    },
}

/// Which faults are drawn, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultProfile {}

/// Faults and their times, in microseconds of real time; sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Sorted by time.
    pub faults: Vec<(u64, Fault)>,
}

impl Schedule {
    /// The faults of a seed.
    #[must_use]
    pub fn draw(seed: u64, config: &WorldConfig) -> Self {
        let _ = (seed, config);
        Self::default()
    }
}
