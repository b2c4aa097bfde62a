//! What the tables have to say.

use super::{
    CoordinatorCommand,
    announce::HomesFrame,
    ledger::Ledger,
    slot::{NOBODY, Phase, flag},
};
use crate::{
    Epoch, NodeId, ShardId, micros,
    wire::{
        Control,
        control::{HandOff, Previous, RegisterAck, RegisterRefused, ShardHome},
    },
};

/// A command, or the homes in the scratch that one is made of.
#[derive(Debug)]
pub(super) enum Said {
    Command(CoordinatorCommand<'static>),
    Homes(HomesFrame),
}

impl Ledger<'_> {
    /// The next command. O(1): each loop takes something off a list.
    pub(super) fn next_said(&mut self, scratch: &mut [u8]) -> Option<Said> {
        if core::mem::take(&mut self.book.say_exhausted) {
            return Some(Said::Command(CoordinatorCommand::Exhausted));
        }
        while let Some(at) = self.book.dirty_nodes.front() {
            if let Some(command) = u16::try_from(at).ok().and_then(|node| self.node_says(node)) {
                return Some(Said::Command(command));
            }
            self.book.dirty_nodes.remove(self.nodes, at);
        }
        if !self.book.acts() {
            return None;
        }
        while let Some(shard) = self.book.dirty.front() {
            if let Some(command) = self.shard_says(shard) {
                return Some(Said::Command(command));
            }
            self.book.dirty.remove(self.shards, shard);
        }
        // Announcements to several nodes share what is in the scratch; only then others may use it.
        self.next_announcement(scratch)
            .or_else(|| self.next_map(scratch))
            .map(Said::Homes)
    }

    fn node_says(&mut self, index: u16) -> Option<CoordinatorCommand<'static>> {
        let size = self.book.told_size(self.config);
        let slot = self.node_mut(index)?;
        let (node, session) = (slot.node, slot.session);
        if core::mem::take(&mut slot.say_end_sessions) {
            return Some(CoordinatorCommand::EndSessions { node });
        }
        if let Some(last_beat_age) = slot.say_registered.take() {
            return Some(CoordinatorCommand::Registered {
                node,
                last_beat_age,
            });
        }
        if core::mem::take(&mut slot.say_other_storage) {
            let found = slot.storage_id;
            return Some(CoordinatorCommand::OtherStorage {
                node,
                expected: self.book.storage_id,
                found,
            });
        }
        if let Some((session, reason)) = slot.say_refused.take() {
            let refused = RegisterRefused { session, reason };
            return Some(send(node, Control::RegisterRefused(refused)));
        }
        if core::mem::take(&mut slot.say_ack) {
            return Some(send(
                node,
                Control::RegisterAck(RegisterAck {
                    session: session?,
                    size,
                }),
            ));
        }
        if core::mem::take(&mut slot.say_size) {
            return Some(send(node, Control::Resized(size)));
        }
        None
    }

    /// Takes one thing that a shard has to say and that is still true.
    fn shard_says(&mut self, shard: u32) -> Option<CoordinatorCommand<'static>> {
        loop {
            let slot = self.shard_mut(shard)?;
            let says = slot.take_lowest(flag::SAY)?;
            let (owner, epoch) = (slot.owner, slot.epoch);
            let (evict, evict_epoch) = (slot.evict, slot.evict_epoch);
            let said = match says {
                flag::SAY_OVERDUE if self.config.trust => self.overdue(shard, evict, evict_epoch),
                flag::SAY_OVERDUE => self.overdue(shard, owner, epoch),
                flag::SAY_GRANT => self.home_to(shard, owner),
                flag::SAY_HOME => self.home_to_asker(shard),
                flag::SAY_HANDOFF => match self.live_owner(shard) {
                    Some((owner, epoch, Phase::HandingOff)) => self.hand_off(shard, owner, epoch),
                    _ => None,
                },
                flag::SAY_EVICT => self.hand_off(shard, evict, evict_epoch),
                _ => None,
            };
            if said.is_some() {
                return said;
            }
        }
    }

    fn member_node(&self, index: u16) -> Option<NodeId> {
        self.node(index)
            .filter(|slot| slot.member)
            .map(|slot| slot.node)
    }

    fn overdue(&self, shard: u32, owner: u16, epoch: Epoch) -> Option<CoordinatorCommand<'static>> {
        let node = self.member_node(owner)?;
        let shard = ShardId(shard);
        Some(CoordinatorCommand::HandOffTimedOut { node, shard, epoch })
    }

    fn hand_off(
        &self,
        shard: u32,
        owner: u16,
        epoch: Epoch,
    ) -> Option<CoordinatorCommand<'static>> {
        let to = self.member_node(owner)?;
        let hand_off = HandOff {
            shard: ShardId(shard),
            epoch,
            drain: micros(self.config.drain),
        };
        Some(send(to, Control::HandOff(hand_off)))
    }

    fn home_to_asker(&mut self, shard: u32) -> Option<CoordinatorCommand<'static>> {
        let slot = self.shard_mut(shard)?;
        let asker = core::mem::replace(&mut slot.asker, NOBODY);
        self.home_to(shard, asker)
    }

    /// The home of a shard, for a node that is registered.
    fn home_to(&self, shard: u32, to: u16) -> Option<CoordinatorCommand<'static>> {
        let home = self.home_entry(shard)?;
        let slot = self.shard(shard)?;
        let asker = self.node(to)?;
        if !asker.member || !asker.registered {
            return None;
        }
        let home = ShardHome {
            shard: home.shard,
            epoch: home.epoch,
            node: home.node,
            session: self.node(slot.owner)?.session?,
            previous: if slot.has(flag::LAPSED) {
                Previous::Lapsed
            } else {
                Previous::Completed
            },
        };
        Some(send(asker.node, Control::ShardHome(home)))
    }
}

const fn send(to: NodeId, control: Control<'static>) -> CoordinatorCommand<'static> {
    CoordinatorCommand::Send { to, control }
}
