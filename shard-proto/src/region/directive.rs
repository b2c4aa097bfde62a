//! Control frames of the coordinator.

use core::time::Duration;

use super::machine::{Answer, Machine};
use super::slot::{ShardSlot, State, flag};
use super::stats::count;
use super::{ControlError, members};
use crate::table::RegionTables;
use crate::wire::Control;
use crate::wire::control::{HandOff, Previous, ShardHome, ShardMapUpdate};
use crate::{Epoch, Incarnation, Leader, NodeId, Term};

/// A home that the coordinator names.
#[derive(Clone, Copy, Debug)]
struct Named {
    node: NodeId,
    epoch: Epoch,
    /// Of a `ShardHome`; a map update does not say.
    incarnation: Option<Incarnation>,
    previous: Option<Previous>,
}

impl Machine {
    /// See [`Region::handle_control`](super::Region::handle_control).
    pub(super) fn control<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        from: NodeId,
        term: Term,
        control: &Control<'_>,
    ) -> Result<(), ControlError> {
        let taken = self.obey(t, from, term, control);
        if taken.is_err() {
            count(&mut self.stats.refused_directives);
        }
        taken
    }

    fn obey<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        from: NodeId,
        term: Term,
        control: &Control<'_>,
    ) -> Result<(), ControlError> {
        if self.leader != Some(Leader { node: from, term }) {
            return Err(ControlError::NotLeading {
                adopted: self.leader,
                found: term,
            });
        }
        match control {
            Control::RegisterAck(ack) => {
                self.resized(ack.size, term)?;
                self.acknowledged(*ack);
            }
            Control::Resized(size) => self.resized(*size, term)?,
            Control::RegisterRefused(refused) => self.refused(t, *refused),
            Control::ShardHome(home) => self.shard_home(t, term, home)?,
            Control::HandOff(hand_off) => self.hand_off(t, term, hand_off)?,
            Control::ShardMapUpdate(update) => self.map_update(t, term, update)?,
            Control::StatsQuery(query) => self.stats_query = Some(query.token),
            Control::RememberedEntities(remembered) => {
                self.check(remembered.shard.0, remembered.epoch, term)?;
            }
            _ => return Err(ControlError::Unexpected),
        }
        Ok(())
    }

    fn check(&self, shard: u32, epoch: Epoch, term: Term) -> Result<u32, ControlError> {
        if self.stopping {
            Err(ControlError::Stopped)
        } else if shard >= self.config.shard_count {
            Err(ControlError::UnknownShard)
        } else if epoch.term() > term {
            Err(ControlError::Malformed)
        } else {
            Ok(shard)
        }
    }

    fn shard_home<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        term: Term,
        home: &ShardHome,
    ) -> Result<(), ControlError> {
        let index = self.check(home.shard.0, home.epoch, term)?;
        if home.node == self.me {
            self.granted(t, index, home);
            if home.previous == Previous::Lapsed && self.owns(t, index, home.epoch) {
                self.note_lapsed(t, index);
            }
        } else {
            let named = Named {
                node: home.node,
                epoch: home.epoch,
                incarnation: Some(home.session.incarnation),
                previous: Some(home.previous),
            };
            self.elsewhere(t, index, named);
        }
        Ok(())
    }

    fn map_update<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        term: Term,
        update: &ShardMapUpdate<'_>,
    ) -> Result<(), ControlError> {
        if self.stopping {
            return Err(ControlError::Stopped);
        }
        update
            .homes
            .validate(self.config.shard_count)
            .map_err(|_| ControlError::Malformed)?;
        if update.homes.iter().any(|home| home.epoch.term() > term) {
            return Err(ControlError::Malformed);
        }
        for home in update.homes.iter() {
            // A grant is a `ShardHome`; nothing else is.
            if home.node != self.me {
                let named = Named {
                    node: home.node,
                    epoch: home.epoch,
                    incarnation: None,
                    previous: None,
                };
                self.elsewhere(t, home.shard.0, named);
            }
        }
        if update.last {
            let before = self.map_version;
            self.map_version = before.max(Some(update.version));
            if before.is_none() {
                self.has_map();
            }
        }
        Ok(())
    }

    /// A `ShardHome` that names this region.
    fn granted<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, home: &ShardHome) {
        let epoch = home.epoch;
        let is_mine = home.session == self.session && self.may_host();
        let has_lease = self.has_lease();
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        if slot.state.is_owned() && slot.epoch == epoch {
            if slot.state == State::Active {
                slot.set(flag::STARTED);
                self.touch(t.shards, index);
            }
            return;
        }
        if !is_mine || epoch < slot.bar {
            count(&mut self.stats.refused_grants);
            self.refuse(t, index, epoch);
        } else if !has_lease {
            count(&mut self.stats.dropped_grants);
        } else if slot.state.is_owned() {
            // What runs is stopped first; the grant is repeated.
            self.raise_bar(t, index, epoch);
            self.retire(t, index, self.abort_at(self.config.drain));
        } else {
            self.take(t, index, epoch);
        }
    }

    fn owns<P>(&self, t: &RegionTables<'_, P>, index: u32, epoch: Epoch) -> bool {
        let slot = t.shards.get(index as usize);
        slot.is_some_and(|slot| slot.state.is_owned() && slot.epoch == epoch)
    }

    /// An epoch that is not served here: nothing at or below it will be. What is held under a lower one stops first.
    fn refuse<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, epoch: Epoch) {
        self.raise_floor(t, index, epoch);
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        if slot.state.is_owned() && slot.epoch < epoch {
            slot.set(flag::ANSWER_FLOOR);
            self.retire(t, index, self.abort_at(self.config.drain));
        } else {
            self.answer(t.shards, index, epoch);
        }
    }

    fn answer(&mut self, shards: &mut [ShardSlot], index: u32, epoch: Epoch) {
        let Some(slot) = shards.get_mut(index as usize) else {
            return;
        };
        if slot.state != State::None || (slot.has(flag::COMPLETE) && slot.epoch != epoch) {
            self.answer_aside(Answer {
                shard: index,
                epoch,
                forced: false,
            });
            return;
        }
        slot.epoch = epoch;
        slot.set(flag::COMPLETE);
        self.touch(shards, index);
    }

    fn take<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, epoch: Epoch) {
        self.leave_home(t, index);
        self.keep_answer(t.shards, index);
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        slot.epoch = epoch;
        slot.state = State::Starting;
        slot.set(flag::START | flag::HOME);
        slot.clear(flag::ASK | flag::OPENED | flag::VOID | flag::ANSWER_FLOOR);
        self.hosted = self.hosted.saturating_add(1);
        count(&mut self.stats.grants);
        self.raise_bar(t, index, epoch);
        self.reread(t, index);
        self.touch(t.shards, index);
    }

    fn hand_off<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        term: Term,
        hand_off: &HandOff,
    ) -> Result<(), ControlError> {
        let index = self.check(hand_off.shard.0, hand_off.epoch, term)?;
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return Err(ControlError::UnknownShard);
        };
        if !slot.state.is_owned() || slot.epoch != hand_off.epoch {
            self.refuse(t, index, hand_off.epoch);
        } else if slot.state != State::Draining {
            count(&mut self.stats.handoffs);
            let abort_at = self.abort_at(Duration::from_micros(hand_off.drain));
            self.retire(t, index, abort_at);
        }
        Ok(())
    }

    /// A home that is not this region.
    fn elsewhere<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, named: Named) {
        self.leave_ended(t, index);
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        let is_lapsed = named.previous == Some(Previous::Lapsed);
        if slot.state.is_owned() {
            if named.epoch > slot.epoch {
                // Another node may serve it by now.
                self.raise_bar(t, index, named.epoch);
                self.retire(t, index, self.now);
            }
            return;
        }
        if slot.state == State::Remote && slot.epoch == named.epoch {
            if named.previous.is_some() || !slot.has(flag::FLUSHING) {
                slot.clear(flag::UNCONFIRMED);
            }
            // The epoch before that of the home: not of a path that is flushed as before a leave, and used again.
            if is_lapsed && !slot.flushes_home() {
                self.note_lapsed(t, index);
            }
            return;
        }
        // A map does not say which life it names: not one that is known to have ended, again.
        if named.epoch < slot.bar || (named.epoch == slot.bar && named.incarnation.is_none()) {
            return;
        }
        self.raise_bar(t, index, named.epoch);
        self.leave_home(t, index);
        let home = members::find_member(t.nodes, named.node).filter(|&home| {
            named.incarnation.is_none_or(|incarnation| {
                t.nodes
                    .get(usize::from(home))
                    .is_some_and(|node| node.incarnation == incarnation)
            })
        });
        // Otherwise membership is behind, or the coordinator is: the region goes on asking.
        if let Some(home) = home {
            self.keep_answer(t.shards, index);
            self.settle_in(t, index, home, named);
        }
        if is_lapsed {
            self.note_lapsed(t, index);
        }
    }

    fn settle_in<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, home: u16, named: Named) {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        slot.state = State::Remote;
        slot.node = home;
        slot.epoch = named.epoch;
        slot.set(flag::HOME);
        slot.clear(flag::UNCONFIRMED | flag::ASK);
        if named.previous.is_none() && slot.has(flag::FLUSHING) {
            // How the epoch before it ended is not known yet.
            slot.set(flag::UNCONFIRMED | flag::ASK);
        }
        if !slot.has(flag::FLUSHING) {
            slot.sent = 0;
        }
        self.reread(t, index);
        self.touch(t.shards, index);
    }
}
