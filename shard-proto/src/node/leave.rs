//! The end of a node: leaving in good order, or being told that it is over.

use core::time::Duration;

use super::{AskFailure, Body, LeaveError, Node, NodeCommand};
use crate::Instant;
use crate::leadership::{Ownership, Voters};
use crate::membership::{Member, MemberState, RemovalCause};
use crate::wire::Kind;

/// After the last shard is gone: how long the node waits for what others may still send it, that it has to send back.
const LINGER: Duration = Duration::from_millis(200);

/// How often a leaving node looks whether it can go.
const LOOK: Duration = Duration::from_millis(20);

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Leaving(Leaving),
    Left,
    /// The others say that this life is over; entities are still stopping.
    Removing(RemovalCause),
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
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

impl Phase {
    pub(super) const fn is_running(self) -> bool {
        matches!(self, Self::Running)
    }

    /// Part of the cluster.
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
}

impl<B: Body> Node<B> {
    /// Leaves the cluster: resigns, hands every shard off, waits until what it had sent has arrived; at most
    /// for the deadline of the config. [`NodeCommand::Left`] says when it is done. Idempotent.
    ///
    /// Without anybody to take over its types stop at once: the last node of a cluster, all of whose members leave, and
    /// under leases one in which no voter is left to lead, or no majority of them.
    ///
    /// # Errors
    /// Without `force`, and under leases: [`LeaveError::EndsQuorum`] if the voters that remain were no majority. The
    /// state is unchanged.
    pub fn leave(&mut self, now: Instant, force: bool) -> Result<(), LeaveError> {
        let now = self.advance(now);
        if !self.phase.is_running() {
            return Ok(());
        }
        if !force && self.leadership.leave_ends_quorum() && self.has_company() {
            let voters = self.leadership.config().voters();
            return Err(LeaveError::EndsQuorum {
                voters_up: self.voters_up(voters),
                quorum: voters.quorum(),
            });
        }
        self.phase = Phase::Leaving(Leaving {
            deadline: now.after(self.config.leave_deadline),
            look_at: now,
            quiet: None,
            stopped: false,
            closing: false,
            sent: 0,
        });
        self.links.set_leaving(now);
        if let Some(gossip) = &mut self.gossip {
            gossip.begin_leave(now);
        }
        self.pump_gossip();
        self.leadership.leave(now);
        self.lead_dirty = true;
        self.set_leaving(self.me.node);
        self.pump_links();
        Ok(())
    }

    /// Other nodes that host, or wait, would notice that nobody leads any more.
    fn has_company(&self) -> bool {
        let me = self.me.node;
        self.members.iter().any(|entry| entry.member.node != me)
    }

    /// Voters but for this node that are up, and stay.
    fn voters_up(&self, voters: Voters) -> usize {
        let members = self.members.iter().map(|entry| entry.member);
        let stays = |member: &Member| {
            member.node != self.me.node
                && voters.contains(member.node)
                && member.state == MemberState::Up
        };
        members.filter(stays).count()
    }

    /// Whether [`Node::leave`] was called.
    pub const fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving(_) | Phase::Left)
    }

    /// Takes the next step towards the end, if it is time. Whether there was one.
    pub(super) fn check_leave(&mut self) -> bool {
        match self.phase {
            Phase::Leaving(leaving) => {
                let (leaving, step) = self.look(leaving);
                if let Phase::Leaving(old) = &mut self.phase {
                    *old = leaving;
                }
                step
            }
            Phase::Removing(cause) if self.hosts_nothing() => {
                self.phase = Phase::Removed;
                self.report_unacknowledged();
                self.out.push_back(NodeCommand::Removed { cause });
                true
            }
            _ => false,
        }
    }

    fn look(&mut self, mut leaving: Leaving) -> (Leaving, bool) {
        let now = self.now;
        if now >= leaving.look_at {
            leaving.look_at = now.after(LOOK);
        }
        let due = now >= leaving.deadline;
        if !leaving.stopped && (due || !self.has_successor()) {
            leaving.stopped = true;
            self.stop_types(now);
            return (leaving, true);
        }
        if !self.hosts_nothing() {
            leaving.quiet = None;
            return (leaving, false);
        }
        // After the deadline only entities that are still stopping are waited for.
        if due {
            return (leaving, self.finish_leave());
        }
        if leaving.closing {
            if !self.is_at_rest() || !self.is_flushed() {
                return (leaving, false);
            }
            if leaving.sent == self.stats.sent {
                return (leaving, self.finish_leave());
            }
            // What was buffered until now went out by paths that are not flushed.
            self.flush_paths(&mut leaving);
            return (leaving, true);
        }
        let arrived = self.stats.received.saturating_add(self.stats.returned);
        match leaving.quiet {
            _ if !self.has_linked() => {}
            Some((since, then)) if then == arrived => {
                if now < since.after(LINGER) {
                    return (leaving, false);
                }
            }
            _ => {
                leaving.quiet = Some((now, arrived));
                return (leaving, false);
            }
        }
        leaving.closing = true;
        self.flush_paths(&mut leaving);
        (leaving, true)
    }

    fn flush_paths(&mut self, leaving: &mut Leaving) {
        leaving.sent = self.stats.sent;
        for (_, kind) in self.types.touch_all() {
            kind.region.flush_paths(self.now);
        }
    }

    /// Nobody will know what became of it. Comes before the word that this node is over.
    fn report_unacknowledged(&mut self) {
        for (node, unacked) in self.links.unacknowledged() {
            self.drop_stuck(node);
            let envelopes = unacked.filter(|frame| frame.header.kind == Kind::ENVELOPE);
            self.lost.extend(envelopes.map(|frame| (node, frame)));
        }
        while let Some(command) = self.poll_lost() {
            self.out.push_back(command);
        }
    }

    fn finish_leave(&mut self) -> bool {
        self.phase = Phase::Left;
        let now = self.now;
        self.stop_types(now);
        self.asks.fail_all(AskFailure::Stopped);
        if let Some(gossip) = &mut self.gossip {
            gossip.leave(now);
        }
        self.pump_gossip();
        self.report_unacknowledged();
        self.links.goodbye(now);
        self.pump_links();
        self.out.push_back(NodeCommand::Left);
        true
    }

    /// Whether anybody is there who could lead, and take shards over.
    fn has_successor(&self) -> bool {
        let me = self.me.node;
        let members = || self.members.iter().map(|entry| entry.member);
        let stays = |member: &Member| member.node != me && member.state != MemberState::Leaving;
        if self.config.ownership != Ownership::Lease {
            return members().any(|member| stays(&member));
        }
        // Those that leave still vote.
        let voters = self.leadership.config().voters();
        let vote = members().filter(|member| voters.contains(member.node));
        members().any(|member| stays(&member) && voters.contains(member.node))
            && vote.count() >= voters.quorum()
    }

    fn has_linked(&self) -> bool {
        self.links.peers().any(|peer| self.links.is_up(peer))
    }

    fn hosts_nothing(&self) -> bool {
        let mut kinds = self.types.iter();
        kinds.all(|kind| kind.region.hosted() == 0)
    }

    /// Nothing is hosted, buffered or unflushed, and nobody here waits for an answer.
    fn is_at_rest(&self) -> bool {
        let led = self.leader.is_some();
        let mut kinds = self.types.iter();
        let settled = kinds.all(|kind| {
            let region = &kind.region;
            // Without a leader nobody can be told that a region has stopped.
            let settled = region.is_settled() || (!led && kind.stopped && region.buffered() == 0);
            settled && region.hosted() == 0 && kind.stuck.is_empty()
        });
        settled && self.asks.len() == 0 && self.lost.is_empty()
    }

    fn is_flushed(&self) -> bool {
        self.links.peers().all(|peer| self.links.flushed(peer))
    }
}
