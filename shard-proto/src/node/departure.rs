//! When a process that leaves may go: decided here for the node and for the process of the simulator.

use core::time::Duration;

use crate::leadership::{Ownership, Voters};
use crate::membership::{Member, MemberState, RemovalCause};
use crate::region::Region;
use crate::table::RegionStorage;
use crate::{Instant, NodeId};

/// After the last shard is gone: how long a process waits for what others may still send it, that it has to send back.
const LINGER: Duration = Duration::from_millis(200);

/// How often a leaving process looks whether it can go.
const LOOK: Duration = Duration::from_millis(20);

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    Leaving(Leaving),
    Left,
    /// The others say that this life is over; entities are still stopping.
    Removing(RemovalCause),
    Removed,
}

impl Phase {
    pub(crate) const fn is_running(self) -> bool {
        matches!(self, Self::Running)
    }

    /// Part of the cluster.
    pub(crate) const fn is_member(self) -> bool {
        matches!(self, Self::Running | Self::Leaving(_))
    }

    pub(crate) const fn takes_messages(self) -> bool {
        match self {
            Self::Running => true,
            Self::Leaving(leaving) => !leaving.closing,
            _ => false,
        }
    }

    pub(crate) const fn poll_timeout(self) -> Option<Instant> {
        match self {
            Self::Leaving(leaving) => Some(leaving.look_at),
            _ => None,
        }
    }
}

/// How far a leave is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// Then it stops, whatever is left.
    deadline: Instant,
    /// When to look again.
    look_at: Instant,
    /// Since when nothing is hosted and nothing arrives for it, and how much had arrived by then.
    quiet: Option<(Instant, u64)>,
    /// Its types were stopped: nobody is there to take over.
    stopped: bool,
    /// Nothing more is taken from callers here; what was taken is brought to its end.
    closing: bool,
    /// Messages sent by the time all paths were flushed last.
    sent: u64,
}

/// What a leaving process knows of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// [`has_successor`].
    pub(crate) has_successor: bool,
    pub(crate) hosts_nothing: bool,
    /// [`is_at_rest`] for all types, and nobody here waits for an answer.
    pub(crate) at_rest: bool,
    /// Everything it sent was acknowledged.
    pub(crate) flushed: bool,
    /// Somebody is there from whom something may come.
    pub(crate) linked: bool,
    /// Messages of others that were delivered here or sent back, so far.
    pub(crate) arrived: u64,
    /// Messages sent to others so far.
    pub(crate) sent: u64,
}

/// What a leaving process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wait,
    /// Stop all types, without handing their shards over.
    StopTypes,
    /// Flush the paths in use.
    FlushPaths,
    /// Report what is left, and go.
    Finish,
}

impl Leaving {
    pub(crate) const fn new(now: Instant, deadline: Instant) -> Self {
        Self {
            deadline,
            look_at: now,
            quiet: None,
            stopped: false,
            closing: false,
            sent: 0,
        }
    }

    /// The next step.
    pub(crate) fn look(&mut self, now: Instant, standing: &Standing) -> Step {
        if now >= self.look_at {
            self.look_at = now.after(LOOK);
        }
        let due = now >= self.deadline;
        if !self.stopped && (due || !standing.has_successor) {
            self.stopped = true;
            return Step::StopTypes;
        }
        if !standing.hosts_nothing {
            self.quiet = None;
            return Step::Wait;
        }
        // After the deadline only entities that are still stopping are waited for.
        if due {
            return Step::Finish;
        }
        if self.closing {
            if !standing.at_rest || !standing.flushed {
                return Step::Wait;
            }
            // What was buffered, or came back, until now went out by paths that are not flushed: it may come back yet.
            if self.sent != standing.sent {
                return self.flush(standing);
            }
            return Step::Finish;
        }
        let quiet = match self.quiet {
            _ if !standing.linked => true,
            Some((since, arrived)) if arrived == standing.arrived => now >= since.after(LINGER),
            _ => {
                self.quiet = Some((now, standing.arrived));
                false
            }
        };
        if !quiet {
            return Step::Wait;
        }
        self.closing = true;
        self.flush(standing)
    }

    fn flush(&mut self, standing: &Standing) -> Step {
        self.sent = standing.sent;
        Step::FlushPaths
    }
}

/// Whether a region keeps a leaving process from going: it hosts, buffers or flushes. `led`: the process follows a
/// leader. `stopped`: the type was stopped.
pub(crate) fn is_at_rest<P, S: RegionStorage<P>>(
    region: &Region<P, S>,
    led: bool,
    stopped: bool,
) -> bool {
    // Without a leader nobody can be told that a region has stopped.
    let settled = region.is_settled() || (!led && stopped && region.buffered() == 0);
    settled && region.hosted() == 0
}

/// Whether anybody among the members is there who could lead, and take shards over.
pub(crate) fn has_successor(
    me: NodeId,
    ownership: Ownership,
    voters: Voters,
    members: impl Iterator<Item = Member>,
) -> bool {
    let leases = ownership == Ownership::Lease;
    let (mut votes, mut stay) = (0_usize, false);
    for member in members.filter(|member| !leases || voters.contains(member.node)) {
        // Those that leave still vote.
        votes = votes.saturating_add(1);
        stay |= member.node != me && member.state != MemberState::Leaving;
    }
    stay && (!leases || votes >= voters.quorum())
}

/// Whether other members, which host or wait, would notice that nobody leads any more.
pub(crate) fn has_company(me: NodeId, mut members: impl Iterator<Item = Member>) -> bool {
    members.any(|member| member.node != me)
}
