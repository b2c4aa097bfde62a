//! Entity types of a process: their settings, how they stop and start again, and what leadership knows of them.

use super::{Machine, Sink};
use crate::coordinator::CoordinatorConfig;
use crate::leadership::Ownership;
use crate::membership::MemberChange;
use crate::region::{Region, RegionConfig};
use crate::sim::config::type_name;
use crate::sim::{Message, Store};
use crate::{Instant, NodeId, Session, hash};

impl<St: Store> Machine<St> {
    pub(super) fn new_region(
        &self,
        now: Instant,
        ty: u8,
        session: Session,
        seed: u64,
    ) -> Option<Region<Message, St::Region>> {
        let config = &self.config;
        let settings = RegionConfig::new(type_name(ty))
            .with_shard_count(config.shards)
            .with_retry_interval(config.retry_interval)
            .with_handoff_timeout(config.handoff_timeout)
            .with_drain(config.drain)
            .with_lease(config.leadership.lease())
            .with_buffer(config.buffer)
            .with_buffer_per_shard(config.buffer)
            .with_return_window(config.window)
            .with_seed(hash::mix(seed ^ u64::from(ty)));
        let storage = St::region(config.shards, config.buffer + config.window);
        Region::new(now, self.me.node, session, settings, storage).ok()
    }

    pub(super) fn coordinator_config(&self, ty: u8) -> CoordinatorConfig {
        let config = &self.config;
        CoordinatorConfig::new(type_name(ty))
            .with_shard_count(config.shards)
            .with_retry_interval(config.retry_interval)
            .with_rebalance_interval(config.rebalance_interval)
            .with_handoff_timeout(config.handoff_timeout)
            .with_drain(config.drain)
            .with_trust(config.ownership == Ownership::Trust)
    }

    /// Stops a type here, without handing its shards over.
    pub fn stop_type(&mut self, now: Instant, ty: u8, sink: &mut impl Sink) {
        let now = self.enter(now, sink);
        if let Some(kind) = self.kinds.get_mut(usize::from(ty))
            && !kind.stopped
        {
            kind.stopped = true;
            kind.region.stop(now);
            kind.dirty = true;
        }
        self.tell_types();
    }

    pub(super) fn stop_types(&mut self) {
        for kind in &mut self.kinds {
            if !kind.stopped {
                kind.stopped = true;
                kind.region.stop(self.now);
                kind.dirty = true;
            }
        }
        self.tell_types();
    }

    /// Starts a stopped type again, once nothing of it runs. Whether it was started.
    pub fn start_type(&mut self, now: Instant, ty: u8, seed: u64, sink: &mut impl Sink) -> bool {
        let now = self.enter(now, sink);
        let Some(kind) = self.kinds.get(usize::from(ty)) else {
            return false;
        };
        if !kind.stopped || !kind.region.is_settled() || !self.life.is_running() {
            return false;
        }
        let session = kind.region.session().started_again();
        let Some(mut region) = self.new_region(now, ty, session, seed) else {
            return false;
        };
        for member in self.members.iter() {
            let _ = region.handle_member(now, MemberChange::Member(member));
            if sink.is_congested(member.node) {
                region.handle_congestion(now, member.node, true);
            }
        }
        region.handle_last_beat(self.leadership.last_beat());
        region.handle_lease(now, self.lease);
        region.handle_leader(now, self.leader);
        let kind = &mut self.kinds[usize::from(ty)];
        kind.region = region;
        kind.stopped = false;
        kind.dirty = true;
        self.tell_types();
        true
    }

    /// Whether a type was stopped here.
    #[must_use]
    pub fn is_stopped(&self, ty: u8) -> bool {
        let kind = self.kinds.get(usize::from(ty));
        kind.is_some_and(|kind| kind.stopped)
    }

    /// Says which types must be registered for the lease.
    pub(super) fn tell_types(&mut self) {
        let needed = self.kinds.iter();
        let needed = needed.filter(|kind| kind.region.needs_registration());
        let types = needed.fold(0_u32, |sum, kind| sum.wrapping_add(kind.id.0));
        if self.types != Some(types) {
            self.types = Some(types);
            self.leadership.handle_types(self.now, types);
            self.lead_dirty = true;
        }
    }

    /// Tells leadership which types of a node are registered here.
    pub(super) fn say_registered(&mut self, node: NodeId) {
        if self.reign.is_none() {
            return;
        }
        let registered = self.kinds.iter();
        let registered = registered.filter(|kind| kind.coordinator.is_registered(node));
        let types = registered.fold(0_u32, |sum, kind| sum.wrapping_add(kind.id.0));
        let beat = self.beats.iter().find(|(other, _)| *other == node);
        let beat = beat.map_or(self.now, |(_, at)| *at);
        let age = crate::micros(self.now.since(beat));
        self.leadership
            .handle_registered(self.now, node, types, age);
        self.lead_dirty = true;
    }
}
