//! The end of a node: leaving in good order, or being told that it is over.

use core::time::Duration;

use super::{AskFailure, Body, Node, NodeCommand};
use crate::Instant;
use crate::membership::MemberState;

/// After the last shard is gone: how long the node waits for what others may still send it, that it has to send back.
const LINGER: Duration = Duration::from_millis(200);

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Leaving {
        /// Then it stops, whatever is left.
        deadline: Instant,
        /// Since when nothing is hosted, buffered, or on its way, and what had been received by then.
        quiet: Option<(Instant, u64)>,
        /// Its types were stopped: nobody is there to take over.
        stopped: bool,
    },
    Left,
    /// The others say that this life is over; entities are still stopping.
    Removing,
    Removed,
}

impl Phase {
    pub(super) const fn is_running(self) -> bool {
        matches!(self, Self::Running)
    }

    /// Part of the cluster.
    pub(super) const fn is_member(self) -> bool {
        matches!(self, Self::Running | Self::Leaving { .. })
    }

    pub(super) const fn takes_messages(self) -> bool {
        self.is_member()
    }

    pub(super) fn poll_timeout(self) -> Option<Instant> {
        match self {
            Self::Leaving {
                deadline, quiet, ..
            } => {
                let quiet = quiet.map(|(since, _)| since.after(LINGER));
                crate::earliest(Some(deadline), quiet)
            }
            _ => None,
        }
    }
}

impl<B: Body> Node<B> {
    /// Leaves the cluster: resigns, hands every shard off, waits until what it had sent has arrived; at most
    /// for the deadline of the config. [`NodeCommand::Left`] says when it is done. Idempotent.
    ///
    /// The last node of a cluster, and one whose members all leave, hands nothing over: its types stop at once.
    pub fn leave(&mut self, now: Instant) {
        let now = self.advance(now);
        if !self.phase.is_running() {
            return;
        }
        self.phase = Phase::Leaving {
            deadline: now.after(self.config.leave_deadline),
            quiet: None,
            stopped: false,
        };
        self.links.set_leaving(now);
        self.leadership.leave(now);
        self.lead_dirty = true;
        self.set_leaving(self.me.node);
        self.pump_links();
    }

    /// Whether [`Node::leave`] was called.
    pub const fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving { .. } | Phase::Left)
    }

    /// Takes the next step towards the end, if it is time. Whether there was one.
    pub(super) fn check_leave(&mut self) -> bool {
        let now = self.now;
        match self.phase {
            Phase::Leaving {
                deadline,
                quiet,
                stopped,
            } => {
                let due = now >= deadline;
                if !stopped && (due || !self.has_successor()) {
                    self.phase = Phase::Leaving {
                        deadline,
                        quiet: None,
                        stopped: true,
                    };
                    self.stop_types(now);
                    return true;
                }
                if !self.is_drained() {
                    // After the deadline only entities that are still stopping are waited for.
                    if due && self.hosts_nothing() {
                        return self.finish_leave();
                    }
                    if quiet.is_some() {
                        self.set_quiet(None);
                    }
                    return false;
                }
                let seen = self.links.stats().data_in;
                match quiet {
                    _ if due || !self.has_linked() => self.finish_leave(),
                    Some((since, then)) if then == seen => {
                        now >= since.after(LINGER) && self.finish_leave()
                    }
                    _ => {
                        self.set_quiet(Some((now, seen)));
                        false
                    }
                }
            }
            Phase::Removing if self.hosts_nothing() => {
                self.phase = Phase::Removed;
                self.out.push_back(NodeCommand::Removed);
                true
            }
            _ => false,
        }
    }

    fn set_quiet(&mut self, news: Option<(Instant, u64)>) {
        if let Phase::Leaving { quiet, .. } = &mut self.phase {
            *quiet = news;
        }
    }

    fn finish_leave(&mut self) -> bool {
        self.phase = Phase::Left;
        let now = self.now;
        self.stop_types(now);
        self.asks.fail_all(AskFailure::Stopped);
        self.links.goodbye(now);
        self.pump_links();
        self.out.push_back(NodeCommand::Left);
        true
    }

    /// Whether anybody is there who could lead, and take shards over.
    fn has_successor(&self) -> bool {
        let me = self.me.node;
        self.members.iter().any(|entry| {
            let member = entry.member;
            member.node != me && member.state != MemberState::Leaving
        })
    }

    fn has_linked(&self) -> bool {
        self.links.peers().any(|peer| self.links.is_up(peer))
    }

    fn hosts_nothing(&self) -> bool {
        let mut kinds = self.types.iter();
        kinds.all(|kind| kind.region.hosted() == 0)
    }

    /// Nothing is hosted, buffered, unflushed or unacknowledged, and nobody here waits for an answer.
    fn is_drained(&self) -> bool {
        let mut kinds = self.types.iter();
        let settled = kinds.all(|kind| kind.region.is_settled() && kind.stuck.is_none());
        settled
            && self.asks.len() == 0
            && self.lost.is_empty()
            && self.links.peers().all(|peer| self.links.flushed(peer))
    }
}
