//! What the node tells its adapter, and what its parts tell each other.

use super::control::put_control;
use super::send::Put;
use super::types::{Outgoing, tell_coordinator};
use super::{Body, Message, Node, NodeCommand, TypeIndex, Warning, count};
use crate::coordinator::CoordinatorCommand;
use crate::region::{Command, Origin, RejectReason};
use crate::{Epoch, Instant, NodeId, ShardId, Term};

/// What a type's region or coordinator wants, free of what it borrows.
enum Step<B> {
    /// It was done; there may be more.
    Again,
    /// Nothing more.
    Settled,
    Put(Outgoing<B>),
    Command(NodeCommand<B>),
    Deliver {
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message<B>,
    },
    Reject {
        shard: ShardId,
        origin: Origin,
        reason: RejectReason,
        message: Message<B>,
    },
    Registered {
        node: NodeId,
        last_beat_age: u64,
    },
    /// A registration that was complete is so no longer.
    Unregistered(NodeId),
    EndSessions(NodeId),
    TimedOut {
        node: NodeId,
        shard: ShardId,
        epoch: Epoch,
    },
    OtherStorage {
        node: NodeId,
        expected: u64,
        found: u64,
    },
    Exhausted,
}

impl<B: Body> Node<B> {
    /// Whether a command about a shard may be waiting, which is to be done before the next delivery. Cheaper than an
    /// idle [`Node::poll_command`], for the hot path between deliveries; other commands can wait for the end of a batch.
    #[inline]
    pub fn has_shard_commands(&self) -> bool {
        !self.out.is_empty() || self.types.first_dirty().is_some()
    }

    /// What to do next. O(1) when there is nothing.
    pub fn poll_command(&mut self) -> Option<NodeCommand<B>> {
        self.pump_links();
        self.pump_gossip();
        loop {
            if self.lead_dirty {
                self.poll_leadership();
                continue;
            }
            if let Some(command) = self.poll_lease() {
                return Some(command);
            }
            if let Some(command) = self.out.pop_front() {
                return Some(command);
            }
            if let Some(command) = self.poll_news() {
                return Some(command);
            }
            let Some(ty) = self.types.first_dirty() else {
                if self.check_leave() {
                    continue;
                }
                return None;
            };
            if let Some(command) = self.poll_type(ty) {
                return Some(command);
            }
        }
    }

    fn poll_news(&mut self) -> Option<NodeCommand<B>> {
        if self.leader_news {
            self.leader_news = false;
            return Some(NodeCommand::Leader(self.leader));
        }
        if let Some(member) = self.members.poll_changed() {
            return Some(NodeCommand::MemberUp(member));
        }
        if let Some((key, reason)) = self.asks.poll_failed() {
            if reason == super::AskFailure::Timeout {
                count(&mut self.stats.asks_timed_out);
            }
            return Some(NodeCommand::AskFailed { key, reason });
        }
        self.poll_lost()
    }

    /// One step of a type that may have commands.
    fn poll_type(&mut self, ty: TypeIndex) -> Option<NodeCommand<B>> {
        let now = self.now;
        match self.step(ty) {
            Step::Again => None,
            Step::Settled => {
                self.types.settle();
                self.say_types();
                None
            }
            Step::Put(outgoing) => {
                self.put_or_wait(now, ty, outgoing);
                None
            }
            Step::Command(command) => Some(command),
            Step::Deliver {
                shard,
                epoch,
                origin,
                message,
            } => Some(self.deliver(ty, shard, epoch, origin, message)),
            Step::Reject {
                shard,
                origin,
                reason,
                message,
            } => match self.reject(ty, shard, origin, reason, message) {
                Put::Done(command) => command,
                Put::Wait(_) => None,
            },
            Step::Registered {
                node,
                last_beat_age,
            } => {
                // A leader whose clock is younger than the beat takes it for newer than it is, which is safe.
                let beat = now.as_micros().saturating_sub(last_beat_age);
                self.types.note_beat(node, Instant::from_micros(beat));
                self.say_registered(node);
                None
            }
            Step::Unregistered(node) => {
                self.say_registered(node);
                None
            }
            Step::EndSessions(node) => {
                self.leadership.end_sessions(now, node);
                self.lead_dirty = true;
                None
            }
            Step::TimedOut { node, shard, epoch } => {
                Some(NodeCommand::Warn(Warning::HandOffTimedOut {
                    ty,
                    node,
                    shard,
                    epoch,
                }))
            }
            Step::OtherStorage {
                node,
                expected,
                found,
            } => Some(NodeCommand::Warn(Warning::OtherStorage {
                ty,
                node,
                expected,
                found,
            })),
            Step::Exhausted => {
                self.leadership.renew(now);
                self.lead_dirty = true;
                None
            }
        }
    }

    fn deliver(
        &mut self,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        mut message: Message<B>,
    ) -> NodeCommand<B> {
        let pending = message.pending;
        message.pending = false;
        let reply = match origin {
            Origin::Local => {
                self.release(&mut message);
                count(&mut self.stats.local);
                None
            }
            Origin::Remote(node) => {
                count(&mut self.stats.received);
                Self::reply_to(node, &message)
            }
        };
        NodeCommand::Deliver {
            ty,
            shard,
            epoch,
            origin,
            message,
            reply,
            pending,
        }
    }

    /// Asks coordinator and region of a type for one thing. Control is written, or given to the other one, here.
    fn step(&mut self, ty: TypeIndex) -> Step<B> {
        let (now, me) = (self.now, self.me.node);
        let leader = self.leader;
        let Some(kind) = self.types.get_mut(ty) else {
            return Step::Settled;
        };
        let id = kind.id;
        let term = kind.coordinator.term();
        if let Some(command) = kind.coordinator.poll_command() {
            return match command {
                CoordinatorCommand::Send { to, control } => {
                    let Some(term) = term else {
                        return Step::Again;
                    };
                    if to == me {
                        // What a region does not take of its own coordinator is late, no more.
                        let _ = kind.region.handle_control(now, me, term, &control);
                        return Step::Again;
                    }
                    let peer = self.links.slot(to);
                    let (links, stats) = (&mut self.links, &mut self.stats);
                    put_control(links, stats, now, peer, id, term, &control);
                    Step::Again
                }
                CoordinatorCommand::Registered {
                    node,
                    last_beat_age,
                } => Step::Registered {
                    node,
                    last_beat_age,
                },
                CoordinatorCommand::EndSessions { node } => Step::EndSessions(node),
                CoordinatorCommand::HandOffTimedOut { node, shard, epoch } => {
                    Step::TimedOut { node, shard, epoch }
                }
                CoordinatorCommand::OtherStorage {
                    node,
                    expected,
                    found,
                } => Step::OtherStorage {
                    node,
                    expected,
                    found,
                },
                CoordinatorCommand::Exhausted => Step::Exhausted,
            };
        }
        let Some(command) = kind.region.poll_command() else {
            return Step::Settled;
        };
        match command {
            Command::Send { to, control } => {
                let term = leader.map_or(Term::NONE, |leader| leader.term);
                if to == me {
                    let (_, unregistered) =
                        tell_coordinator(&mut kind.coordinator, now, me, term, &control);
                    return if unregistered {
                        Step::Unregistered(me)
                    } else {
                        Step::Again
                    };
                }
                let peer = self.links.slot(to);
                let (links, stats) = (&mut self.links, &mut self.stats);
                put_control(links, stats, now, peer, id, term, &control);
                Step::Again
            }
            Command::Forward {
                to,
                shard,
                epoch,
                payload,
            } => Step::Put(Outgoing::Envelope {
                to,
                shard,
                epoch,
                message: payload,
            }),
            Command::Return {
                to,
                shard,
                epoch,
                reason,
                payload,
            } => Step::Put(Outgoing::Return {
                to,
                shard,
                epoch,
                reason,
                message: payload,
            }),
            Command::Flush {
                to,
                shard,
                epoch,
                token,
            } => Step::Put(Outgoing::Flush {
                to,
                shard,
                epoch,
                token,
            }),
            Command::Flushed { to, shard, token } => {
                Step::Put(Outgoing::Flushed { to, shard, token })
            }
            Command::Deliver {
                shard,
                epoch,
                origin,
                payload,
            } => Step::Deliver {
                shard,
                epoch,
                origin,
                message: payload,
            },
            Command::Reject {
                shard,
                origin,
                reason,
                payload,
            } => Step::Reject {
                shard,
                origin,
                reason,
                message: payload,
            },
            Command::StartShard { shard, epoch } => {
                Step::Command(NodeCommand::StartShard { ty, shard, epoch })
            }
            Command::Open { shard, epoch } => Step::Command(NodeCommand::Open { ty, shard, epoch }),
            Command::StopShard {
                shard,
                epoch,
                abort_at,
            } => Step::Command(NodeCommand::StopShard {
                ty,
                shard,
                epoch,
                abort_at,
            }),
            Command::HomeChanged { shard, home } => {
                Step::Command(NodeCommand::HomeChanged { ty, shard, home })
            }
            Command::Registered { term } => Step::Command(NodeCommand::Registered { ty, term }),
            Command::Refused { reason } => Step::Command(NodeCommand::TypeRefused { ty, reason }),
        }
    }
}
