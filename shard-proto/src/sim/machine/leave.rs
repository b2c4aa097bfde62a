//! The end of a process: leaving in good order, or being told that it is over.

use core::time::Duration;

use super::{Machine, Sink};
use crate::Instant;
use crate::sim::Store;

/// After the last shard is gone: how long it waits for what others may still send it, that it has to send back.
const LINGER: Duration = Duration::from_millis(200);

/// How often a leaving process looks whether it can go.
const LOOK: Duration = Duration::from_millis(20);

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It takes part.
    Running,
    /// It leaves.
    Leaving(Leaving),
    /// It has left.
    Left,
    /// The others say that this life is over; entities are still stopping.
    Removing,
    /// Nothing runs any more.
    Removed,
}

/// How far a leave is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    deadline: Instant,
    look_at: Instant,
    /// Since when nothing is hosted and nothing arrives, and how much had arrived by then.
    quiet: Option<(Instant, u64)>,
    stopped: bool,
    closing: bool,
}

impl Phase {
    pub(super) const fn is_running(self) -> bool {
        matches!(self, Self::Running)
    }

    pub(super) const fn is_member(self) -> bool {
        matches!(self, Self::Running | Self::Leaving(_))
    }

    pub(super) const fn takes_messages(self) -> bool {
        match self {
            Self::Running => true,
            Self::Leaving(leaving) => !leaving.closing,
            _ => false,
        }
    }

    pub(super) const fn poll_timeout(self) -> Option<Instant> {
        match self {
            Self::Leaving(leaving) => Some(leaving.look_at),
            _ => None,
        }
    }

    /// The process is to end.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Left | Self::Removed)
    }
}

impl<St: Store> Machine<St> {
    /// Leaves the cluster. `force`: even if too few voters stay. Whether it leaves.
    pub fn leave(&mut self, now: Instant, force: bool, sink: &mut impl Sink) -> bool {
        let now = self.enter(now, sink);
        if !self.phase.is_running() || (!force && self.leadership.leave_ends_quorum()) {
            return false;
        }
        self.phase = Phase::Leaving(Leaving {
            deadline: now.after(self.leave_deadline()),
            look_at: now,
            quiet: None,
            stopped: false,
            closing: false,
        });
        self.leadership.leave(now);
        self.lead_dirty = true;
        self.set_leaving(self.me.node);
        true
    }

    /// Takes the next step towards the end, if it is time. Whether there was one.
    pub(super) fn check_leave(&mut self, sink: &mut impl Sink) -> bool {
        match self.phase {
            Phase::Leaving(leaving) => {
                let (leaving, step) = self.look(leaving, sink);
                if let Phase::Leaving(old) = &mut self.phase {
                    *old = leaving;
                }
                step
            }
            Phase::Removing if self.hosts_nothing() => {
                self.phase = Phase::Removed;
                true
            }
            _ => false,
        }
    }

    fn look(&mut self, mut leaving: Leaving, sink: &mut impl Sink) -> (Leaving, bool) {
        let now = self.now;
        if now >= leaving.look_at {
            leaving.look_at = now.after(LOOK);
        }
        let due = now >= leaving.deadline;
        if !leaving.stopped && (due || !self.has_successor()) {
            leaving.stopped = true;
            self.stop_types();
            return (leaving, true);
        }
        if !self.hosts_nothing() {
            leaving.quiet = None;
            return (leaving, false);
        }
        if due {
            self.phase = Phase::Left;
            return (leaving, true);
        }
        if leaving.closing {
            let done = self.is_at_rest() && sink.is_flushed();
            if done {
                self.phase = Phase::Left;
            }
            return (leaving, done);
        }
        match leaving.quiet {
            Some((since, then)) if then == self.arrived => {
                if now < since.after(LINGER) {
                    return (leaving, false);
                }
            }
            _ => {
                leaving.quiet = Some((now, self.arrived));
                return (leaving, false);
            }
        }
        leaving.closing = true;
        for kind in &mut self.kinds {
            kind.region.flush_paths(now);
            kind.dirty = true;
        }
        (leaving, true)
    }

    fn hosts_nothing(&self) -> bool {
        self.kinds.iter().all(|kind| kind.region.hosted() == 0)
    }

    /// Nothing is hosted, buffered or unflushed.
    fn is_at_rest(&self) -> bool {
        let led = self.leader.is_some();
        self.kinds.iter().all(|kind| {
            let region = &kind.region;
            // Without a leader nobody can be told that a region has stopped.
            let settled = region.is_settled() || (!led && kind.stopped && region.buffered() == 0);
            settled && region.hosted() == 0 && kind.stuck.is_none()
        })
    }
}
