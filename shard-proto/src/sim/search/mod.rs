//! A small cluster in every order of events.
//!
//! [`World`](super::World) draws what happens; [`Search`] tries everything that may happen, in clusters of two or three
//! hosts with one or two shards, for a bounded number of events. It runs the processes that worlds run: the real state
//! machines of leadership, regions and coordinators, and control frames as bytes.
//!
//! A **state** is: the processes; control and data on their way; news of membership that hosts have not heard; what
//! runs of each shard on each host; who stands still; and what the promises look back on (servings, the highest epoch
//! and term, what became of each message). States are told apart by 64-bit numbers made of all of that, so one in
//! some 10^19 pairs is taken for equal that is not.
//!
//! The search is breadth first, from prepared [`Situation`]s, so that a violation is found with the fewest events, and
//! interesting places are near. In each state it tries, as the [`Budget`] of the path allows:
//!
//! - any control frame on its way arrives, once or once more. Frames of a pair arrive in any order; a frame that is
//!   never chosen is a lost one. Of a kind, the two newest of a pair are kept; older ones count as lost.
//! - the next data frame of a pair arrives: in order and never lost, as links promise, while both lives last.
//! - the time passes to the next deadline of a process, and that process (or one whose deadline is at most 5 ms
//!   later, before it) handles it. Processes that stand still miss theirs. Everything else takes no time: a frame, a
//!   start, a stop take any time, since deadlines may pass before them.
//! - a host hears the next of what there is to hear about another, starts or stops a shard, stands still, goes on (its
//!   deadlines come first then), is killed, starts, leaves, is suspected, is declared gone for good while it lives.
//! - somebody sends; a shard is to be moved.
//! - a longer time passes in which all goes well but for one host that is cut off or stands still, so that leases run
//!   out within one event. The promises are checked in between.
//!
//! In every state: at most one host acts as leader, under growing terms; at most one host serves a shard, under growing
//! epochs; messages keep their order and none is handled twice; each one is somewhere, or was handled or reported, or
//! may have died with a process; every process waits for something. From some states it is tried whether, once nothing
//! goes wrong any more, every host reaches every shard.
//!
//! What is left out: clocks keep one rate each (0, +1.9 % and -1.9 %); entities handle messages at once; buffers and
//! windows do not fill; there is one entity type; a drain is not aborted by its host in time, but as late as it likes;
//! times are not shifted, so equal situations at different times count as different states. What is not found within
//! the depth is not proven absent.

mod choice;
mod explore;
mod prepare;
mod print;
mod promises;
mod state;
mod step;
mod store;
mod surroundings;

pub use explore::{Explored, Found, Search};
pub use prepare::Situation;

/// A fault of what is around the processes, for the search to find. A search that finds none proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plant {
    /// Host 1 lets its entities go on after its lease, until its process has noticed.
    ServesOn,
    /// Data of a link arrives newest first.
    Overtakes,
    /// Control is given to whatever life of a host is there.
    WrongLife,
    /// The clock of host 1 loses 30 %, where leases stand 2 %.
    SlowClock,
}

/// How often something may happen on a path, beyond what follows by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "made by callers, and has nothing to hide"
)]
pub struct Budget {
    /// A control frame arrives and stays on its way.
    pub duplicates: u8,
    /// A caller sends.
    pub sends: u8,
    /// A shard is to be moved.
    pub moves: u8,
    /// A host stands still.
    pub pauses: u8,
    /// A host is killed.
    pub crashes: u8,
    /// A host starts again.
    pub starts: u8,
    /// A host leaves.
    pub leaves: u8,
    /// A host takes another for unreachable.
    pub suspicions: u8,
    /// A host is declared gone for good.
    pub removals: u8,
    /// A longer time passes.
    pub passes: u8,
}

impl Budget {
    /// Nothing.
    pub const NONE: Self = Self {
        duplicates: 0,
        sends: 0,
        moves: 0,
        pauses: 0,
        crashes: 0,
        starts: 0,
        leaves: 0,
        suspicions: 0,
        removals: 0,
        passes: 0,
    };

    /// Each once, what callers do twice.
    pub const SOME: Self = Self {
        duplicates: 1,
        sends: 2,
        moves: 1,
        pauses: 1,
        crashes: 1,
        starts: 1,
        leaves: 1,
        suspicions: 1,
        removals: 1,
        passes: 2,
    };
}

impl Default for Budget {
    fn default() -> Self {
        Self::SOME
    }
}
