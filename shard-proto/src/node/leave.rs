//! The end of a node: leaving in good order, or being told that it is over.

use super::departure::{self, Leaving, Phase, Standing, Step};
use super::{AskFailure, Body, LeaveError, Node, NodeCommand};
use crate::Instant;
use crate::leadership::Voters;
use crate::membership::{Member, MemberState};
use crate::wire::Kind;

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
        let deadline = now.after(self.config.leave_deadline);
        self.phase = Phase::Leaving(Leaving::new(now, deadline));
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

    fn has_company(&self) -> bool {
        let members = self.members.iter().map(|entry| entry.member);
        departure::has_company(self.me.node, members)
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
            Phase::Leaving(mut leaving) => {
                let step = leaving.look(self.now, &self.standing());
                self.phase = Phase::Leaving(leaving);
                match step {
                    Step::Wait => return false,
                    Step::StopTypes => self.stop_types(self.now),
                    Step::FlushPaths => self.flush_paths(),
                    Step::Finish => self.finish_leave(),
                }
                true
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

    fn standing(&self) -> Standing {
        let stats = &self.stats;
        Standing {
            has_successor: self.has_successor(),
            hosts_nothing: self.hosts_nothing(),
            at_rest: self.is_at_rest(),
            flushed: self.is_flushed(),
            linked: self.has_linked(),
            arrived: stats.received.saturating_add(stats.returned),
            sent: stats.sent,
        }
    }

    fn flush_paths(&mut self) {
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

    fn finish_leave(&mut self) {
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
    }

    fn has_successor(&self) -> bool {
        let voters = self.leadership.config().voters();
        let members = self.members.iter().map(|entry| entry.member);
        departure::has_successor(self.me.node, self.config.ownership, voters, members)
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
            departure::is_at_rest(&kind.region, led, kind.stopped) && kind.stuck.is_empty()
        });
        settled && self.asks.len() == 0 && self.lost.is_empty()
    }

    fn is_flushed(&self) -> bool {
        self.links.peers().all(|peer| self.links.flushed(peer))
    }
}
