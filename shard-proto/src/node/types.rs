//! The entity types of a node: a region and a coordinator each.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::stuck::Stuck;
use super::weight::Scales;
use super::{
    AddTypeError, Body, ConfigError, Message, Node, NodeConfig, Strategy, TypeConfig, TypeIndex,
    is_due,
};
use crate::coordinator::{ControlError, Coordinator, CoordinatorConfig, KeepShards};
use crate::leadership::Ownership;
use crate::membership::MemberChange;
use crate::region::{Region, RegionConfig, ResizeError};
use crate::table::{CoordinatorHeap, HeapStorage};
use crate::wire::{Control, ReturnReason};
use crate::{EntityTypeId, Epoch, Instant, NodeId, Session, ShardId, Term, Token, earliest, hash};

pub(super) type TypeRegion<B> = Region<Message<B>, HeapStorage<Message<B>>>;
pub(super) type TypeCoordinator = Coordinator<Strategy, CoordinatorHeap>;

/// What is wrong with a setting, by the name under which it is set here.
fn config_error(field: &'static str) -> AddTypeError {
    let (field, problem) = match field {
        "type_name" => ("name", "must have 1 to 64 bytes"),
        "shard_count" => ("shards", "must be between 1 and 4294967293"),
        "drain" => ("drain", "must be shorter than the handoff timeout"),
        "buffer" => ("buffer", "must be at least 1, also per shard"),
        "storage" => ("storage", "is out of its range"),
        interval => (interval, "must be between 1 ms and a day"),
    };
    AddTypeError::Config(ConfigError::new(field, problem))
}

/// An entity type. Never removed: its index stays valid, and its coordinator may still be needed.
pub(super) struct Kind<B> {
    pub(super) id: EntityTypeId,
    pub(super) config: TypeConfig,
    /// The application stopped it, or the node did: its region takes nothing any more.
    pub(super) stopped: bool,
    pub(super) region: TypeRegion<B>,
    pub(super) coordinator: TypeCoordinator,
    /// The barrier of this coordinator, if it opens later than the reign's.
    pub(super) barrier: Option<Instant>,
    /// Data that its link had no room for.
    pub(super) stuck: Stuck<Outgoing<B>>,
    dirty: bool,
    pub(super) scales: Scales,
    /// The node's lease waits for the registration of this type, as it was counted last.
    needed: bool,
    /// The lease was lost, and the region has not yet said what has to stop.
    lapsing: bool,
}

/// Gives a coordinator what a region says. Also: whether the region was registered, and is so no longer.
pub(super) fn tell_coordinator(
    coordinator: &mut TypeCoordinator,
    now: Instant,
    from: NodeId,
    term: Term,
    control: &Control<'_>,
) -> (Result<(), ControlError>, bool) {
    let before = coordinator.is_registered(from);
    let taken = coordinator.handle_control(now, from, term, control);
    let after = coordinator.is_registered(from);
    (taken, before && !after)
}

/// Data on its way to a link.
#[derive(Debug)]
pub(super) enum Outgoing<B> {
    Envelope {
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        message: Message<B>,
    },
    Return {
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        reason: ReturnReason,
        message: Message<B>,
    },
    Flush {
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        token: Token,
    },
    Flushed {
        to: NodeId,
        shard: ShardId,
        token: Token,
    },
}

impl<B> Outgoing<B> {
    pub(super) const fn to(&self) -> NodeId {
        match self {
            Self::Envelope { to, .. }
            | Self::Return { to, .. }
            | Self::Flush { to, .. }
            | Self::Flushed { to, .. } => *to,
        }
    }
}

/// All entity types.
pub(super) struct Types<B> {
    kinds: Vec<Kind<B>>,
    by_id: BTreeMap<EntityTypeId, TypeIndex>,
    /// The type that was looked up last.
    recent: TypeIndex,
    /// Types that may have commands.
    dirty: VecDeque<TypeIndex>,
    /// Types that are not known here, of which somebody wanted to register shards in this reign.
    pub(super) foreign: BTreeSet<EntityTypeId>,
    /// Wrapping sum of the ids of the types that are `needed`, and whether leadership knows it.
    digest: u32,
    digest_news: bool,
    /// How many types are `lapsing`.
    lapsing: u16,
    /// In this reign: when nodes received a beat of a lower term last, as their registrations said.
    beats: BTreeMap<NodeId, Instant>,
    /// In this reign: nodes that hear it.
    hears: BTreeSet<NodeId>,
}

impl<B> Types<B> {
    pub(super) const fn new() -> Self {
        Self {
            kinds: Vec::new(),
            by_id: BTreeMap::new(),
            recent: TypeIndex(0),
            dirty: VecDeque::new(),
            foreign: BTreeSet::new(),
            digest: 0,
            digest_news: false,
            lapsing: 0,
            beats: BTreeMap::new(),
            hears: BTreeSet::new(),
        }
    }

    pub(super) fn get(&self, ty: TypeIndex) -> Option<&Kind<B>> {
        self.kinds.get(usize::from(ty.0))
    }

    /// For an input: the type may have commands after it.
    pub(super) fn touch(&mut self, ty: TypeIndex) -> Option<&mut Kind<B>> {
        let kind = self.kinds.get_mut(usize::from(ty.0))?;
        if !kind.dirty {
            kind.dirty = true;
            self.dirty.push_back(ty);
        }
        Some(kind)
    }

    /// Without marking it: for what leaves no commands behind.
    pub(super) fn get_mut(&mut self, ty: TypeIndex) -> Option<&mut Kind<B>> {
        self.kinds.get_mut(usize::from(ty.0))
    }

    pub(super) fn by_id(&mut self, id: EntityTypeId) -> Option<TypeIndex> {
        if self.get(self.recent).is_some_and(|kind| kind.id == id) {
            return Some(self.recent);
        }
        self.recent = *self.by_id.get(&id)?;
        Some(self.recent)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Kind<B>> {
        self.kinds.iter()
    }

    /// The indices of all types.
    pub(super) fn indices(&self) -> impl Iterator<Item = TypeIndex> + use<B> {
        let count = u16::try_from(self.kinds.len()).unwrap_or(u16::MAX);
        (0..count).map(TypeIndex)
    }

    /// All types, for an input to all of them.
    pub(super) fn touch_all(&mut self) -> impl Iterator<Item = (TypeIndex, &mut Kind<B>)> {
        let dirty = &mut self.dirty;
        let numbered = (0..=u16::MAX).map(TypeIndex).zip(&mut self.kinds);
        numbered.map(move |(ty, kind)| {
            if !core::mem::replace(&mut kind.dirty, true) {
                dirty.push_back(ty);
            }
            (ty, kind)
        })
    }

    /// The first type that may have commands.
    pub(super) fn first_dirty(&self) -> Option<TypeIndex> {
        self.dirty.front().copied()
    }

    /// The first type has no more commands.
    pub(super) fn settle(&mut self) {
        let Some(ty) = self.dirty.pop_front() else {
            return;
        };
        let Some(kind) = self.get_mut(ty) else {
            return;
        };
        kind.dirty = false;
        if core::mem::take(&mut kind.lapsing) {
            self.lapsing = self.lapsing.saturating_sub(1);
        }
        self.review(ty);
    }

    /// Counts whether the node's lease waits for the type.
    fn review(&mut self, ty: TypeIndex) {
        let Some(kind) = self.get_mut(ty) else {
            return;
        };
        let needed = kind.region.needs_registration();
        if core::mem::replace(&mut kind.needed, needed) == needed {
            return;
        }
        let id = kind.id.0;
        self.digest = if needed {
            self.digest.wrapping_add(id)
        } else {
            self.digest.wrapping_sub(id)
        };
        self.digest_news = true;
    }

    /// The sum of the ids of the types that the node's lease waits for, if it changed.
    pub(super) fn digest_news(&mut self) -> Option<u32> {
        core::mem::take(&mut self.digest_news).then_some(self.digest)
    }

    /// The lease was lost: until every region has said what has to stop, no new one may be used.
    pub(super) fn begin_lapse(&mut self) {
        self.lapsing = 0;
        for kind in &mut self.kinds {
            kind.lapsing = true;
            self.lapsing = self.lapsing.saturating_add(1);
        }
    }

    pub(super) const fn is_lapsing(&self) -> bool {
        self.lapsing > 0
    }

    /// What was known of the reign is over.
    pub(super) fn end_reign(&mut self) {
        self.foreign.clear();
        self.beats.clear();
        self.hears.clear();
    }

    pub(super) fn hear(&mut self, node: NodeId, hears: bool) {
        if hears {
            self.hears.insert(node);
        } else {
            self.hears.remove(&node);
        }
    }

    pub(super) fn note_beat(&mut self, node: NodeId, at: Instant) {
        let newest = self.beats.entry(node).or_insert(at);
        *newest = at.max(*newest);
    }

    /// The sum of the ids of the types of a node that are registered here, and its newest beat of a lower term.
    pub(super) fn registered(&self, node: NodeId) -> (u32, Option<Instant>) {
        let kinds = self.kinds.iter();
        let registered = kinds.filter(|kind| kind.coordinator.is_registered(node));
        let digest = registered.fold(0_u32, |sum, kind| sum.wrapping_add(kind.id.0));
        (digest, self.beats.get(&node).copied())
    }
}

impl<B: Body> Types<B> {
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        for (index, kind) in (0..=u16::MAX).zip(&mut self.kinds) {
            let region = is_due(kind.region.poll_timeout(), now);
            let coordinator = is_due(kind.coordinator.poll_timeout(), now);
            let barrier = is_due(kind.barrier, now);
            if region {
                kind.region.handle_timeout(now);
            }
            if coordinator {
                kind.coordinator.handle_timeout(now);
            }
            if barrier {
                kind.barrier = None;
                kind.coordinator.open_barrier(now);
            }
            if (region || coordinator || barrier) && !kind.dirty {
                kind.dirty = true;
                self.dirty.push_back(TypeIndex(index));
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.kinds.iter().fold(None, |at, kind| {
            let at = earliest(at, kind.region.poll_timeout());
            let at = earliest(at, kind.coordinator.poll_timeout());
            earliest(at, kind.barrier)
        })
    }
}

impl TypeConfig {
    fn region(&self, node: &NodeConfig, id: EntityTypeId) -> RegionConfig {
        let config = RegionConfig::new(self.name);
        #[cfg(test)]
        let config = config.with_shards_per_part(self.shards_per_part);
        config
            .with_shard_count(self.shard_count)
            .with_shard_hash(self.shard_hash.id())
            .with_proxy(self.proxy)
            .with_retry_interval(self.retry_interval)
            .with_handoff_timeout(self.handoff_timeout)
            .with_drain(self.drain)
            .with_buffer_per_shard(self.buffer_per_shard)
            // A proxy opens no store.
            .with_storage_id(if self.proxy { 0 } else { self.storage_id })
            .with_remembers(self.remembers)
            .with_used(match self.keep {
                KeepShards::First(count) => Some(count),
                _ => None,
            })
            .with_buffer(self.buffer)
            .with_return_window(node.window_frames)
            .with_lease(node.lease)
            .with_seed(hash::mix(node.seed ^ u64::from(id.0)))
    }

    fn coordinator(&self, node: &NodeConfig) -> CoordinatorConfig {
        let role = if self.role.is_empty() {
            0
        } else {
            hash::role_id(&self.role)
        };
        CoordinatorConfig::new(self.name)
            .with_shard_count(self.shard_count)
            .with_shard_hash(self.shard_hash.id())
            .with_role(role)
            .with_retry_interval(self.retry_interval)
            .with_rebalance_interval(self.rebalance_interval)
            .with_handoff_timeout(self.handoff_timeout)
            .with_drain(self.drain)
            .with_keep(self.keep)
            .with_storage_mismatch(self.storage_mismatch)
            .with_trust(node.ownership == Ownership::Trust)
    }
}

impl<B: Body> Node<B> {
    /// Starts an entity type here: its region registers, and hosts unless it is a proxy. Started again after
    /// [`Node::stop_type`] and the end of all it hosted, it has the same [`TypeIndex`] in a new session.
    ///
    /// Takes memory for the shard tables (about 100 bytes a shard) and the buffer's slots at once.
    ///
    /// # Errors
    /// See [`AddTypeError`]; the state is unchanged.
    pub fn add_type(
        &mut self,
        now: Instant,
        config: TypeConfig,
        strategy: Strategy,
    ) -> Result<TypeIndex, AddTypeError> {
        let now = self.advance(now);
        if !self.phase.is_running() {
            return Err(AddTypeError::Leaving);
        }
        let id = hash::entity_type_id(config.name);
        let known = self.types.by_id.get(&id).copied();
        let old = known.and_then(|ty| self.types.get(ty));
        let session = match old {
            Some(kind) if kind.config.name != config.name => return Err(AddTypeError::Collision),
            Some(kind) if !kind.stopped => return Err(AddTypeError::Duplicate),
            Some(kind) if !kind.region.is_settled() => {
                return Err(AddTypeError::Stopping);
            }
            Some(kind) => kind.region.session().started_again(),
            None => Session {
                incarnation: self.me.incarnation,
                ..Session::default()
            },
        };
        let ty = match known {
            Some(ty) => ty,
            None => self.next_type()?,
        };
        let region = self.new_region(now, &config, id, session)?;
        let coordinator = self.new_coordinator(now, &config, strategy)?;
        match self.types.get_mut(ty) {
            Some(kind) => {
                // A coordinator that leads knows who hosts what; the new one would not.
                if kind.coordinator.term().is_none() {
                    kind.coordinator = coordinator;
                }
                kind.region = region;
                kind.scales = Scales::new(config.buffer_bytes);
                kind.config = config;
                kind.stopped = false;
            }
            None => {
                self.types.kinds.push(Kind {
                    id,
                    scales: Scales::new(config.buffer_bytes),
                    config,
                    stopped: false,
                    region,
                    coordinator,
                    barrier: None,
                    stuck: Stuck::new(),
                    dirty: false,
                    needed: false,
                    lapsing: false,
                });
                self.types.by_id.insert(id, ty);
            }
        }
        self.introduce(now, ty);
        Ok(ty)
    }

    fn next_type(&self) -> Result<TypeIndex, AddTypeError> {
        let count = self.types.kinds.len();
        let index = u16::try_from(count).map_err(|_| AddTypeError::TooMany)?;
        if index >= self.config.max_types.min(u16::MAX - 1) {
            return Err(AddTypeError::TooMany);
        }
        Ok(TypeIndex(index))
    }

    /// Room for members, and as many lives that have ended.
    fn slots(&self) -> u16 {
        self.config
            .max_nodes
            .saturating_mul(2)
            .clamp(2, u16::MAX - 1)
    }

    fn new_region(
        &self,
        now: Instant,
        config: &TypeConfig,
        id: EntityTypeId,
        session: Session,
    ) -> Result<TypeRegion<B>, AddTypeError> {
        let storage = HeapStorage::new(config.shard_count, self.slots(), config.buffer);
        let settings = config.region(&self.config, id);
        Region::new(now, self.me.node, session, settings, storage)
            .map_err(|error| config_error(error.field()))
    }

    fn new_coordinator(
        &self,
        now: Instant,
        config: &TypeConfig,
        strategy: Strategy,
    ) -> Result<TypeCoordinator, AddTypeError> {
        let storage = CoordinatorHeap::new(config.shard_count, self.slots());
        let settings = config.coordinator(&self.config);
        Coordinator::new(now, settings, strategy, storage)
            .map_err(|error| config_error(error.field()))
    }

    /// Tells a new type what the others know already.
    fn introduce(&mut self, now: Instant, ty: TypeIndex) {
        let foreign = self
            .types
            .get(ty)
            .is_some_and(|kind| self.types.foreign.contains(&kind.id));
        let (leader, lease, reign) = (self.leader, self.lease, self.reign);
        let last_beat = self.leadership.last_beat();
        let late = self.config.lease.saturating_add(self.config.drift);
        let hears: Vec<_> = self.types.hears.iter().copied().collect();
        let Some(kind) = self.types.touch(ty) else {
            return;
        };
        for entry in self.members.iter() {
            let change = MemberChange::Member(entry.member);
            // Both tables have room for as many nodes as the list of members.
            let _ = kind.coordinator.handle_member(now, change);
            let _ = kind.region.handle_member(now, change);
        }
        for peer in self.links.peers() {
            if self.links.is_congested(peer)
                && let Some(node) = self.links.node(peer)
            {
                kind.region.handle_congestion(now, node, true);
            }
        }
        kind.region.handle_last_beat(last_beat);
        kind.region.handle_lease(now, lease);
        kind.region.handle_leader(now, leader);
        if let Some(reign) = reign
            && kind.coordinator.term().is_none()
        {
            kind.coordinator.begin(now, reign.term);
            for node in hears {
                kind.coordinator.handle_hearing(now, node, true);
            }
            if reign.acts {
                kind.coordinator.act(now);
            }
            if reign.open && foreign {
                // Somebody hosts shards of this type, and was refused until now: give it time to claim them. Under
                // leases it cannot have one any more, since it was not registered.
                kind.barrier = Some(now.after(late));
            } else if reign.open {
                kind.coordinator.open_barrier(now);
            }
        }
        self.types.review(ty);
        self.say_types();
    }

    /// Stops a type here, without handing its shards over: `StopShard` for each, buffered messages are rejected,
    /// its shards get other homes at once. Idempotent.
    pub fn stop_type(&mut self, now: Instant, ty: TypeIndex) {
        let now = self.advance(now);
        if let Some(kind) = self.types.touch(ty)
            && !kind.stopped
        {
            kind.stopped = true;
            kind.region.stop(now);
        }
    }

    /// Stops every type: the node leaves alone, or is no member any more.
    pub(super) fn stop_types(&mut self, now: Instant) {
        for (_, kind) in self.types.touch_all() {
            if !kind.stopped {
                kind.stopped = true;
                kind.region.stop(now);
            }
        }
    }

    /// How many shards of a type are used, as far as this node has heard: all, but for [`KeepShards::First`]. Also: whether
    /// this node asks for another number.
    pub fn used_shards(&self, ty: TypeIndex) -> Option<(u32, bool)> {
        let region = &self.types.get(ty)?.region;
        Some((region.used(), region.is_resizing()))
    }

    /// Asks the coordinator to use another number of a type's shards ([`Region::resize`]). `Ok(false)`: no such type.
    ///
    /// # Errors
    /// [`ResizeError`]; the state is unchanged.
    pub fn resize_type(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        count: u32,
    ) -> Result<bool, ResizeError> {
        let now = self.advance(now);
        let Some(kind) = self.types.touch(ty) else {
            return Ok(false);
        };
        kind.region.resize(now, count)?;
        Ok(true)
    }

    /// The index of a type that was added, by its name.
    pub fn type_index(&self, name: &str) -> Option<TypeIndex> {
        let ty = *self.types.by_id.get(&hash::entity_type_id(name))?;
        let kind = self.types.get(ty)?;
        (kind.config.name == name).then_some(ty)
    }

    /// The shard of an entity, by the settings of its type: what [`Node::send`] wants. `None`: no such type. O(length of
    /// the id).
    pub fn shard(&self, ty: TypeIndex, id: &[u8]) -> Option<ShardId> {
        let config = &self.types.get(ty)?.config;
        Some(config.shard_hash.shard(id, config.shard_count))
    }

    /// The id of a type on the wire.
    pub fn entity_type(&self, ty: TypeIndex) -> Option<EntityTypeId> {
        self.types.get(ty).map(|kind| kind.id)
    }
}
