//! The end of a process: leaving in good order, or being told that it is over. The rules are those of the node.

use super::{Machine, Sink};
use crate::Instant;
use crate::node::departure::{self, Leaving, Standing, Step};
use crate::sim::Store;

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It takes part.
    Running,
    /// It leaves.
    Leaving,
    /// It has left.
    Left,
    /// The others say that this life is over; entities are still stopping.
    Removing,
    /// Nothing runs any more.
    Removed,
}

impl Phase {
    /// The process is to end.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Left | Self::Removed)
    }
}

impl From<departure::Phase> for Phase {
    fn from(phase: departure::Phase) -> Self {
        match phase {
            departure::Phase::Running => Self::Running,
            departure::Phase::Leaving(_) => Self::Leaving,
            departure::Phase::Left => Self::Left,
            departure::Phase::Removing(_) => Self::Removing,
            departure::Phase::Removed => Self::Removed,
        }
    }
}

impl<St: Store> Machine<St> {
    /// Leaves the cluster. `force`: even if too few voters stay. Whether it leaves.
    pub fn leave(&mut self, now: Instant, force: bool, sink: &mut impl Sink) -> bool {
        let now = self.enter(now, sink);
        if !self.life.is_running() {
            return false;
        }
        if !force
            && self.leadership.leave_ends_quorum()
            && departure::has_company(self.me.node, self.members.iter())
        {
            return false;
        }
        let deadline = now.after(self.leave_deadline());
        self.life = departure::Phase::Leaving(Leaving::new(now, deadline));
        self.leadership.leave(now);
        self.lead_dirty = true;
        self.set_leaving(self.me.node);
        true
    }

    /// Takes the next step towards the end, if it is time. Whether there was one.
    pub(super) fn check_leave(&mut self, sink: &mut impl Sink) -> bool {
        match self.life {
            departure::Phase::Leaving(mut leaving) => {
                let step = leaving.look(self.now, &self.standing(sink));
                self.life = departure::Phase::Leaving(leaving);
                match step {
                    Step::Wait => return false,
                    Step::StopTypes => self.stop_types(),
                    Step::FlushPaths => self.flush_paths(),
                    Step::Finish => {
                        self.life = departure::Phase::Left;
                        self.drop_all_stuck(sink);
                    }
                }
                true
            }
            departure::Phase::Removing(_) if self.hosts_nothing() => {
                self.life = departure::Phase::Removed;
                self.drop_all_stuck(sink);
                true
            }
            _ => false,
        }
    }

    fn standing(&self, sink: &impl Sink) -> Standing {
        let (me, voters) = (self.me.node, self.leadership.config().voters());
        let (sent, arrived) = self.counts();
        let led = self.leader.is_some();
        let mut kinds = self.kinds.iter();
        Standing {
            has_successor: departure::has_successor(
                me,
                self.config.ownership,
                voters,
                self.members.iter(),
            ),
            hosts_nothing: self.hosts_nothing(),
            at_rest: kinds.all(|kind| {
                departure::is_at_rest(&kind.region, led, kind.stopped) && kind.stuck.is_empty()
            }),
            flushed: sink.is_flushed(),
            linked: sink.is_linked(),
            arrived,
            sent,
        }
    }

    /// Messages sent to others, and messages of others that were delivered or sent back.
    pub(super) fn counts(&self) -> (u64, u64) {
        let kinds = self.kinds.iter();
        kinds.fold((0, 0), |(sent, arrived), kind| {
            (sent + kind.sent, arrived + kind.arrived)
        })
    }

    fn flush_paths(&mut self) {
        for kind in &mut self.kinds {
            kind.region.flush_paths(self.now);
            kind.dirty = true;
        }
    }

    fn hosts_nothing(&self) -> bool {
        self.kinds.iter().all(|kind| kind.region.hosted() == 0)
    }
}
