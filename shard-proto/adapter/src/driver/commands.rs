//! What the core wants done.

use shard_proto::membership::RemovalCause;
use shard_proto::node::{AskFailure, NodeCommand, TypeIndex, Warning};
use shard_proto::region::{Origin, RejectReason};
use shard_proto::{Epoch, Instant, ShardId};

use crate::body::Body;
use crate::entity::status_error;
use crate::error::AskError;
use crate::host::From;
use crate::lock::lock;
use crate::node::Member;

use super::{Driver, Phase};

impl Driver {
    pub(super) fn commands(&mut self) {
        while let Some(command) = self.core.poll_command() {
            self.obey(command);
            self.step();
        }
    }

    pub(super) fn obey(&mut self, command: NodeCommand<Body>) {
        match command {
            NodeCommand::Dial { dial, address } => self.dial(dial, address),
            NodeCommand::Close { link, reason } => {
                tracing::debug!(peer = self.links.peer(link), reason, "closing a link");
                self.links.close(link, &mut self.core);
            }
            NodeCommand::Deliver {
                ty,
                shard,
                epoch,
                origin,
                message,
                reply,
                pending,
            } => {
                let from = match origin {
                    Origin::Local => {
                        let ask = message.ask.and_then(|ask| self.asks.remove(ask.key));
                        From::Local(ask)
                    }
                    Origin::Remote(node) => From::Remote(node, message.sender, reply),
                };
                self.deliver(ty, shard, epoch, from, message);
                if pending {
                    self.settle(ty, shard);
                }
            }
            NodeCommand::Handed { ty, shard } => self.settle(ty, shard),
            NodeCommand::Reject {
                ty,
                shard,
                origin,
                reason,
                message,
                pending,
            } => {
                if let Some(ask) = message.ask.and_then(|ask| self.asks.remove(ask.key)) {
                    ask.resolve(Err(ask_error(reason)));
                }
                // A tracked one comes again.
                if origin == Origin::Local && !message.tracked {
                    self.report(ty, shard, &message.id, reason.into());
                }
                if pending {
                    self.settle(ty, shard);
                }
            }
            NodeCommand::AskFailed { key, reason } => {
                if let Some(ask) = self.asks.remove(key) {
                    ask.resolve(Err(match reason {
                        AskFailure::Timeout => AskError::Timeout,
                        AskFailure::PerhapsDelivered => AskError::PerhapsDelivered,
                        AskFailure::Stopped => AskError::Stopped,
                        _ => status_error(u8::MAX),
                    }));
                }
            }
            NodeCommand::StartShard { ty, shard, epoch } => self.start_shard(ty, shard, epoch),
            NodeCommand::Open { ty, shard, epoch } => {
                if let Some(host) = self.host(ty) {
                    host.open(shard, epoch);
                }
            }
            NodeCommand::StopShard {
                ty,
                shard,
                epoch,
                abort_at,
            } => self.stop_shard(ty, shard, epoch, abort_at),
            NodeCommand::HomeChanged { ty, shard, home } => {
                if let Some(host) = self.host(ty) {
                    host.home_changed(shard, home);
                }
            }
            NodeCommand::Registered { ty, term } => {
                if let Some(host) = self.host(ty) {
                    tracing::debug!(entity_type = host.name(), term = term.0, "registered");
                    host.registered();
                }
            }
            NodeCommand::TypeRefused { ty, reason } => {
                if let Some(host) = self.host(ty) {
                    let error = host.refused(reason);
                    tracing::error!(entity_type = host.name(), "{error}");
                }
            }
            NodeCommand::MemberUp(member) => {
                tracing::info!(
                    node = member.node.0,
                    address = self.core.member_address(member.node),
                    state = ?member.state,
                    "member"
                );
                self.publish_members();
            }
            NodeCommand::MemberGone { node, cause, .. } => {
                let node = node.0;
                match cause {
                    RemovalCause::Left => tracing::info!(node, "a member left"),
                    RemovalCause::Down => tracing::warn!(node, "a member was declared down"),
                    RemovalCause::Replaced => tracing::info!(node, "a member started anew"),
                }
                self.publish_members();
            }
            NodeCommand::Leader(leader) => {
                tracing::debug!(?leader, "following a leader");
                *lock(&self.shared.leader) = leader;
            }
            NodeCommand::Lease(until) => self.lease(until),
            NodeCommand::Left => {
                self.left = true;
                self.phase = Phase::Ended;
            }
            NodeCommand::Removed { cause } => {
                let node = &self.shared.name;
                if cause == RemovalCause::Replaced {
                    tracing::error!(
                        node,
                        "a newer incarnation of this node has started: this one stops"
                    );
                } else {
                    tracing::error!(
                        node,
                        "the others declared this node down: it stops; start it again"
                    );
                }
                self.phase = Phase::Ended;
            }
            NodeCommand::Warn(warning) => self.warn(&warning),
        }
    }

    fn lease(&mut self, until: Option<Instant>) {
        if until.is_none() && self.hosted > 0 {
            tracing::warn!(
                node = self.shared.name,
                shards = self.hosted,
                "the lease is over, because no leading node was heard or this process was paused: shards stop here"
            );
        }
        self.shared.lease.set(until);
    }

    fn start_shard(&mut self, ty: TypeIndex, shard: ShardId, epoch: Epoch) {
        let started = self.with_host(ty, |host, desk| host.start(desk, shard, epoch));
        if started.is_some() {
            self.hosted += 1;
        }
        // Otherwise the host says so when it knows who lives there.
        if started.unwrap_or(true) {
            self.core.shard_started(self.now, ty, shard, epoch);
        }
    }

    fn stop_shard(&mut self, ty: TypeIndex, shard: ShardId, epoch: Epoch, abort_at: Instant) {
        let stopping = self.with_host(ty, |host, desk| host.stop(desk, shard, epoch));
        if stopping != Some(true) {
            if stopping.is_none() {
                self.core.shard_stopped(self.now, ty, shard, epoch, false);
            }
        } else if abort_at <= self.now {
            // The lease is over: not even a message that is being handled goes on here.
            self.abort_now(ty, shard, epoch);
        } else {
            self.aborts.insert((abort_at, ty, shard), (epoch, false));
        }
    }

    fn publish_members(&self) {
        *lock(&self.shared.members) = self
            .core
            .members()
            .map(|member| Member {
                node: member.node,
                incarnation: member.incarnation,
                state: member.state,
                address: self.core.member_address(member.node).map(str::to_owned),
            })
            .collect();
    }

    fn warn(&mut self, warning: &Warning) {
        match warning {
            Warning::NotTheLeader { peer, ty, term } => tracing::warn!(
                peer = peer.0,
                address = self.core.member_address(*peer),
                entity_type = self.type_name(*ty),
                term = term.0,
                "ignored a directive of a node that does not lead"
            ),
            Warning::Unexpected { peer, ty, what } => tracing::warn!(
                peer = peer.0,
                address = self.core.member_address(*peer),
                entity_type = self.type_name(*ty),
                "ignored what a node may not send: {what}"
            ),
            Warning::UnknownType { peer, name } => tracing::error!(
                peer = peer.0,
                "a node wants to register entity type \"{name}\", which is not started here, on the leading node: \
                 start it on every node that may lead, as a proxy at least"
            ),
            Warning::HandOffTimedOut {
                ty, node, shard, ..
            } => tracing::warn!(
                node = node.0,
                entity_type = self.type_name(Some(*ty)),
                shard = shard.0,
                "handoff timed out"
            ),
            Warning::OtherStorage {
                ty,
                node,
                expected,
                found,
            } => tracing::warn!(
                node = node.0,
                entity_type = self.type_name(Some(*ty)),
                "a node opened store {found:016x}, the others use {expected:016x}{}; every node must open the same \
                 store, a file per node is not one store",
                self.own_place(*ty)
            ),
            Warning::NodesFull { node } => tracing::warn!(
                node = node.0,
                "no room for another node: raise the setting `max_nodes`"
            ),
            Warning::Unacknowledged { node, frames, .. } => tracing::warn!(
                node = node.0,
                frames,
                "a node ended with messages that it had not acknowledged; they were perhaps delivered"
            ),
            other => tracing::warn!("{other:?}"),
        }
    }

    /// Where this node keeps the state of a type.
    fn own_place(&self, ty: TypeIndex) -> String {
        let host = self.hosts.get(usize::from(ty.0)).and_then(Option::as_ref);
        match host.map_or("", |host| host.place()) {
            "" => String::new(),
            place => format!(" (the leading node: {place})"),
        }
    }

    pub(super) fn type_name(&self, ty: Option<TypeIndex>) -> &'static str {
        let host = ty.and_then(|ty| self.hosts.get(usize::from(ty.0))?.as_ref());
        host.map_or("?", |host| host.name())
    }
}

fn ask_error(reason: RejectReason) -> AskError {
    match reason {
        RejectReason::BufferFull => AskError::BufferFull,
        RejectReason::Stopped => AskError::Stopped,
        RejectReason::PerhapsDelivered => AskError::PerhapsDelivered,
        reason => AskError::Undelivered(reason),
    }
}
