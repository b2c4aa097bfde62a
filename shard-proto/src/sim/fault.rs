//! What goes wrong, and when.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::outage::Cause;
use super::{WorldConfig, draw};

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
    /// The process is started, unless it lives. One that leaves is started again once it has left, however long that
    /// takes.
    Start {
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
    /// Shards on the host take longer to start.
    SlowStarts {
        /// The host.
        host: u8,
        /// By how much.
        by: Duration,
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
    /// The host does not reach the service that decides who leads. Only with
    /// [`Ownership::External`](crate::leadership::Ownership::External).
    LockCut {
        /// The host.
        host: u8,
        /// How long.
        for_: Duration,
    },
    /// One thing happens, and it is measured how long shards are without service because of it. Whom it happens to is
    /// left to chance.
    Probe(Cause),
    /// The end of what [`Fault::Probe`] measures.
    ProbeOver,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum FaultKind {
            $($(#[$doc])* $name,)*
        }

        impl FaultKind {
            /// All of them.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$name),*];

            /// What it is called in tables.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// [`Fault::Cut`].
    Cut = "cut",
    /// [`Fault::Heal`] and [`Fault::HealAll`].
    Heal = "heal",
    /// [`Fault::Noise`].
    Noise = "noise",
    /// [`Fault::Break`].
    Break = "broken connection",
    /// [`Fault::Pause`].
    Pause = "pause",
    /// [`Fault::Crash`].
    Crash = "crash",
    /// [`Fault::Restart`].
    Restart = "restart",
    /// [`Fault::Start`].
    Start = "start",
    /// [`Fault::Leave`].
    Leave = "leave",
    /// [`Fault::StopRegion`].
    StopRegion = "region stops",
    /// [`Fault::StartRegion`].
    StartRegion = "region starts",
    /// [`Fault::ClockRate`].
    ClockRate = "clock rate",
    /// [`Fault::ClockJump`].
    ClockJump = "clock jump",
    /// [`Fault::WallJump`].
    WallJump = "wall clock jump",
    /// [`Fault::Suspect`].
    Suspect = "false suspicion",
    /// [`Fault::Remove`].
    Remove = "removed for good",
    /// [`Fault::HangStops`].
    HangStops = "hanging stops",
    /// [`Fault::SlowStarts`].
    SlowStarts = "slow starts",
    /// [`Fault::Burst`].
    Burst = "burst",
    /// [`Fault::Move`].
    Move = "move",
    /// [`Fault::LockCut`].
    LockCut = "lock out of reach",
    /// [`Fault::Probe`].
    Probe = "measured incident",
}

impl Fault {
    /// What kind of fault it is.
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        match self {
            Self::Cut { .. } => FaultKind::Cut,
            Self::Heal { .. } | Self::HealAll => FaultKind::Heal,
            Self::Noise { .. } => FaultKind::Noise,
            Self::Break { .. } => FaultKind::Break,
            Self::Pause { .. } => FaultKind::Pause,
            Self::Crash { .. } => FaultKind::Crash,
            Self::Restart { .. } => FaultKind::Restart,
            Self::Start { .. } => FaultKind::Start,
            Self::Leave { .. } => FaultKind::Leave,
            Self::StopRegion { .. } => FaultKind::StopRegion,
            Self::StartRegion { .. } => FaultKind::StartRegion,
            Self::ClockRate { .. } => FaultKind::ClockRate,
            Self::ClockJump { .. } => FaultKind::ClockJump,
            Self::WallJump { .. } => FaultKind::WallJump,
            Self::Suspect { .. } => FaultKind::Suspect,
            Self::Remove { .. } => FaultKind::Remove,
            Self::HangStops { .. } => FaultKind::HangStops,
            Self::SlowStarts { .. } => FaultKind::SlowStarts,
            Self::Burst { .. } => FaultKind::Burst,
            Self::Move { .. } => FaultKind::Move,
            Self::LockCut { .. } => FaultKind::LockCut,
            Self::Probe(_) | Self::ProbeOver => FaultKind::Probe,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Cut { from, to } => write!(f, "nothing gets from host {from} to host {to}"),
            Self::Heal { from, to } => write!(f, "host {to} hears host {from} again"),
            Self::HealAll => f.write_str("all cuts end"),
            Self::Noise {
                loss,
                duplicate,
                late,
                delay,
            } => write!(
                f,
                "of 1000 control frames {loss} are lost, {duplicate} doubled, {late} late by up to {delay:?}"
            ),
            Self::Break { a, b } => {
                write!(f, "the connection of host {a} and host {b} breaks")
            }
            Self::Pause { host, for_ } => write!(f, "host {host} stands still for {for_:?}"),
            Self::Crash { host } => write!(f, "host {host} crashes"),
            Self::Restart { host } => write!(f, "host {host} is started anew"),
            Self::Start { host } => write!(f, "host {host} is started if it is down or leaves"),
            Self::Leave { host } => write!(f, "host {host} leaves"),
            Self::StopRegion { host, ty } => write!(f, "host {host} stops type {ty}"),
            Self::StartRegion { host, ty } => write!(f, "host {host} starts type {ty} again"),
            Self::ClockRate { host, ppm } => {
                write!(f, "the clock of host {host} runs at {ppm:+} ppm")
            }
            Self::ClockJump { host, by } => {
                write!(f, "the clock of host {host} jumps ahead by {by:?}")
            }
            Self::WallJump { host, skew } => write!(
                f,
                "the wall clock of host {host} is set to {:+} ms of real time",
                skew / 1000
            ),
            Self::Suspect { by, of, for_ } => {
                write!(f, "host {by} suspects host {of} for {for_:?}")
            }
            Self::Remove { host } => write!(f, "host {host} is declared gone for good"),
            Self::HangStops { host, for_ } => {
                write!(f, "entities on host {host} do not stop for {for_:?}")
            }
            Self::SlowStarts { host, by, for_ } => {
                write!(f, "shards on host {host} start {by:?} later for {for_:?}")
            }
            Self::Burst { host, shard, count } => {
                write!(f, "host {host} sends {count} messages to shard {shard}")
            }
            Self::Move { shard } => write!(f, "shard {shard} is to move"),
            Self::LockCut { host, for_ } => {
                write!(f, "host {host} does not reach the lock for {for_:?}")
            }
            Self::Probe(cause) => write!(f, "measured: {cause}"),
            Self::ProbeOver => f.write_str("the measurement ends"),
        }
    }
}

/// A time in microseconds, as seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct At(pub(super) u64);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == u64::MAX {
            return f.write_str("for ever");
        }
        let text = alloc::format!("{}.{:06} s", self.0 / 1_000_000, self.0 % 1_000_000);
        f.pad(&text)
    }
}

/// Faults and their times, in microseconds of real time; sorted. Its `Display` says one a line.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "scripts make them")]
pub struct Schedule {
    /// Sorted by time.
    pub faults: Vec<(u64, Fault)>,
}

impl Schedule {
    /// The faults of a seed.
    #[must_use]
    pub fn draw(seed: u64, config: &WorldConfig) -> Self {
        draw::draw(seed, config)
    }

    /// From faults in any order.
    #[must_use]
    pub fn new(mut faults: Vec<(u64, Fault)>) -> Self {
        faults.sort_by_key(|(at, _)| *at);
        Self { faults }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in &self.faults {
            writeln!(f, "{:>14}  {fault}", At(*at))?;
        }
        Ok(())
    }
}
