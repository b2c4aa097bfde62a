//! What happens in a simulated world.

use shard_proto::balance::Failure;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Act(usize),
    Tick,
    /// A client makes a call, and the next one later.
    Call(u32),
    /// A call reaches a node.
    Reach {
        call: usize,
        generation: u32,
        attempt: u8,
        node: usize,
        incarnation: u64,
    },
    /// A worker is done.
    Done {
        call: usize,
        generation: u32,
        attempt: u8,
        node: usize,
        epoch: u32,
    },
    /// An answer reaches a client.
    Answer {
        call: usize,
        generation: u32,
        attempt: u8,
        client: u32,
        answer: Answer,
    },
    /// A call's time is over.
    Timeout {
        call: usize,
        generation: u32,
    },
    /// A client may want to ask for a view.
    Refresh(u32),
    /// It is told.
    View(u32),
}

/// What a client hears of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Good,
    Refused,
    Reset,
    Busy,
    Leaving,
}

impl Answer {
    pub(super) const fn outcome(self) -> Result<(), Failure> {
        match self {
            Self::Good => Ok(()),
            Self::Refused => Err(Failure::refused()),
            Self::Reset => Err(Failure::reset()),
            Self::Busy => Err(Failure::busy()),
            Self::Leaving => Err(Failure::leaving()),
        }
    }

    /// Whether the node said something, a newer view among it.
    pub(super) const fn carries_view(self) -> bool {
        matches!(self, Self::Good | Self::Busy | Self::Leaving)
    }
}
