//! What may happen next in a state.

use core::fmt;
use core::time::Duration;

/// Something that may happen. Hosts are numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// A control frame arrives, the `at`-th of those on their way; it stays on its way, too, if `again`.
    Control {
        from: u8,
        to: u8,
        at: u8,
        again: bool,
    },
    /// The oldest data frame arrives.
    Data {
        from: u8,
        to: u8,
    },
    /// The time passes to the next deadline, and this host handles it.
    Timer {
        host: u8,
    },
    /// A host hears of another, or of itself.
    News {
        host: u8,
        of: u8,
    },
    /// A shard runs.
    Started {
        host: u8,
        shard: u8,
    },
    /// Nothing of a shard runs any more.
    Stopped {
        host: u8,
        shard: u8,
    },
    /// A caller sends.
    Send {
        host: u8,
        shard: u8,
    },
    /// A shard is to be moved.
    Move {
        shard: u8,
    },
    Pause {
        host: u8,
    },
    Wake {
        host: u8,
    },
    Crash {
        host: u8,
    },
    Begin {
        host: u8,
    },
    Leave {
        host: u8,
    },
    /// Somebody takes a host for unreachable, and sees his error later.
    Suspect {
        by: u8,
        of: u8,
    },
    /// A host that works is declared gone for good.
    Remove {
        of: u8,
    },
    /// Everything goes well for a while, but a host is cut off, or stands still.
    Pass {
        time: Duration,
        without: Option<(u8, Without)>,
    },
}

/// What is wrong with a host while the time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Without {
    /// Nothing gets through to it or from it.
    Cut,
    /// It stands still.
    Frozen,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Control {
                from, to, again, ..
            } => {
                let how = if again {
                    "arrives, not for the last time"
                } else {
                    "arrives"
                };
                write!(f, "control {from} -> {to} {how}")
            }
            Self::Data { from, to } => write!(f, "data {from} -> {to} arrives"),
            Self::Timer { host } => write!(f, "a timer of {host} is due"),
            Self::News { host, of } => write!(f, "{host} hears news of {of}"),
            Self::Started { host, shard } => write!(f, "shard {shard} runs on {host}"),
            Self::Stopped { host, shard } => write!(f, "shard {shard} has stopped on {host}"),
            Self::Send { host, shard } => write!(f, "{host} sends a message to shard {shard}"),
            Self::Move { shard } => write!(f, "shard {shard} is to be moved"),
            Self::Pause { host } => write!(f, "{host} stands still"),
            Self::Wake { host } => write!(f, "{host} goes on"),
            Self::Crash { host } => write!(f, "{host} is killed"),
            Self::Begin { host } => write!(f, "{host} starts"),
            Self::Leave { host } => write!(f, "{host} leaves"),
            Self::Suspect { by, of } => write!(f, "{by} takes {of} for unreachable"),
            Self::Remove { of } => write!(f, "{of} is declared gone for good"),
            Self::Pass { time, without } => {
                write!(f, "{} ms pass", time.as_millis())?;
                match without {
                    Some((host, Without::Cut)) => write!(f, " in which {host} is cut off"),
                    Some((host, Without::Frozen)) => write!(f, " in which {host} stands still"),
                    None => Ok(()),
                }
            }
        }
    }
}
