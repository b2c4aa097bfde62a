//! One process: leadership, and a region and a coordinator per entity type, composed as in a node, without links.

mod copy;
mod leave;
mod members;
mod poll;
mod sink;
mod watch;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

pub use leave::{Leaving, Phase};
use members::Members;
pub use sink::{Body, DataFrame, Note, Sink, Unsent};

use super::config::type_name;
use super::moving::Moving;
use super::{Deed, Message, Store, Strategy, WorldConfig};
use crate::coordinator::{Coordinator, CoordinatorConfig};
use crate::leadership::{Leadership, Ownership};
use crate::membership::{Member, MemberChange, MemberState, Roles};
use crate::region::{Arrival, Origin, Region, RegionConfig, RejectReason, ReturnError, Route};
use crate::wire::control::{RegisterRefusal, RegisterRefused};
use crate::wire::{Control, ReturnReason};
use crate::{
    EntityTypeId, Epoch, Incarnation, Instant, Leader, NodeId, Session, ShardId, Term, earliest,
    hash,
};

/// An entity type of a process.
pub(super) struct Kind<St: Store> {
    id: EntityTypeId,
    /// Its first shard among those of all types.
    base: u32,
    starts: u32,
    stopped: bool,
    region: Region<Message, St::Region>,
    coordinator: Coordinator<Moving, St::Coordinator>,
    /// Data that its link had no room for.
    stuck: Option<(NodeId, DataFrame)>,
    dirty: bool,
}

/// How far a reign is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Begun,
    Acting,
    Open,
}

/// A process.
pub struct Machine<St: Store> {
    config: WorldConfig,
    now: Instant,
    me: Member,
    leadership: Leadership<St::Peers>,
    lead_dirty: bool,
    leader: Option<Leader>,
    lease: Option<Instant>,
    reign: Option<(Term, Stage)>,
    members: Members,
    kinds: Vec<Kind<St>>,
    /// In this reign: when nodes received a beat of a lower term last, as their registrations said.
    beats: Vec<(NodeId, Instant)>,
    /// The sum of the types that the lease waits for, as leadership knows it.
    types: Option<u32>,
    phase: Phase,
    /// Data that came in, for a leave to see that nothing does any more.
    arrived: u64,
}

impl<St: Store> core::fmt::Debug for Machine<St> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Machine")
            .field("me", &self.me)
            .field("leader", &self.leader)
            .field("lease", &self.lease)
            .field("reign", &self.reign)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl<St: Store> Machine<St> {
    /// A process that knows nobody. `None`: the settings do not fit, which [`WorldConfig::validate`] would have said.
    #[must_use]
    pub fn new(
        now: Instant,
        node: NodeId,
        incarnation: Incarnation,
        config: &WorldConfig,
        seed: u64,
        strategy: &dyn Fn() -> Box<dyn Strategy>,
    ) -> Option<Self> {
        let me = Member {
            node,
            incarnation,
            state: MemberState::Up,
            roles: Roles::NONE,
        };
        let lead = config.leadership_config();
        let leadership = Leadership::new(now, node, incarnation, lead, St::peers()).ok()?;
        let mut machine = Self {
            config: config.clone(),
            now,
            me,
            leadership,
            lead_dirty: true,
            leader: None,
            lease: None,
            reign: None,
            members: Members::new(me),
            kinds: Vec::with_capacity(usize::from(config.types)),
            beats: Vec::with_capacity(usize::from(config.nodes)),
            types: None,
            phase: Phase::Running,
            arrived: 0,
        };
        for ty in 0..config.types {
            let region = machine.new_region(now, ty, 0, seed)?;
            let settings = machine.coordinator_config(ty);
            let storage = St::coordinator(config.shards);
            machine.kinds.push(Kind {
                id: hash::entity_type_id(type_name(ty)),
                base: u32::from(ty) * config.shards,
                starts: 0,
                stopped: false,
                region,
                coordinator: Coordinator::new(now, settings, Moving::new(strategy()), storage)
                    .ok()?,
                stuck: None,
                dirty: true,
            });
        }
        machine.tell_types();
        Some(machine)
    }

    fn new_region(
        &self,
        now: Instant,
        ty: u8,
        starts: u32,
        seed: u64,
    ) -> Option<Region<Message, St::Region>> {
        let config = &self.config;
        let session = Session {
            incarnation: self.me.incarnation,
            lapses: self.leadership.lapses(),
            starts,
        };
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

    fn coordinator_config(&self, ty: u8) -> CoordinatorConfig {
        let config = &self.config;
        CoordinatorConfig::new(type_name(ty))
            .with_shard_count(config.shards)
            .with_retry_interval(config.retry_interval)
            .with_rebalance_interval(config.rebalance_interval)
            .with_handoff_timeout(config.handoff_timeout)
            .with_drain(config.drain)
            .with_trust(config.ownership == Ownership::Trust)
    }

    /// Takes the time. Where a lease is over, that comes before whatever else is due.
    fn enter(&mut self, now: Instant, sink: &mut impl Sink) -> Instant {
        self.now = self.now.max(now);
        let guard = earliest(
            self.leadership.lease_until(),
            self.leadership.acting_until(),
        );
        if guard.is_some_and(|guard| guard <= self.now) {
            self.leadership.handle_timeout(self.now);
            self.lead_dirty = true;
            self.follow_all(sink);
        }
        self.now
    }

    /// See [`Leadership::handle_term_floor`].
    pub fn handle_term_floor(&mut self, now: Instant, floor: Term, sink: &mut impl Sink) {
        let now = self.enter(now, sink);
        self.leadership.handle_term_floor(now, floor);
        self.lead_dirty = true;
    }

    /// See [`Leadership::handle_external`].
    pub fn handle_external(&mut self, now: Instant, token: Option<Term>, sink: &mut impl Sink) {
        let now = self.enter(now, sink);
        self.leadership.handle_external(now, token);
        self.lead_dirty = true;
    }

    /// What is due.
    pub fn handle_timeout(&mut self, now: Instant, sink: &mut impl Sink) {
        let now = self.enter(now, sink);
        if is_due(self.leadership.poll_timeout(), now) {
            self.leadership.handle_timeout(now);
            self.lead_dirty = true;
            self.follow_all(sink);
        }
        for kind in &mut self.kinds {
            if is_due(kind.region.poll_timeout(), now) {
                kind.region.handle_timeout(now);
                kind.dirty = true;
            }
            if is_due(kind.coordinator.poll_timeout(), now) {
                kind.coordinator.handle_timeout(now);
                kind.dirty = true;
            }
        }
        self.check_leave(sink);
    }

    /// When [`Machine::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let mut at = earliest(self.leadership.poll_timeout(), self.phase.poll_timeout());
        for kind in &self.kinds {
            at = earliest(at, kind.region.poll_timeout());
            at = earliest(at, kind.coordinator.poll_timeout());
        }
        at
    }

    /// A control frame of a member; of others it is dropped.
    pub fn handle_control(
        &mut self,
        now: Instant,
        from: NodeId,
        entity_type: EntityTypeId,
        term: Term,
        control: &Control<'_>,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        if !self.members.has(from) {
            return;
        }
        match control {
            Control::LeaderBeat(_)
            | Control::NodeBeat(_)
            | Control::TermRefused(_)
            | Control::Resign => {
                // What it does not take is late, or of another reign.
                let _ = self.leadership.handle_control(now, from, term, control);
                self.lead_dirty = true;
            }
            _ => self.handle_typed(now, from, entity_type, term, control, sink),
        }
    }

    fn handle_typed(
        &mut self,
        now: Instant,
        from: NodeId,
        entity_type: EntityTypeId,
        term: Term,
        control: &Control<'_>,
        sink: &mut impl Sink,
    ) {
        if matches!(control, Control::Register(_)) && self.reign.is_some_and(|(own, _)| own < term)
        {
            let _ = self.leadership.handle_higher_term(now, from, term);
            self.lead_dirty = true;
        }
        let mut kinds = (0..).zip(&mut self.kinds);
        let Some((ty, kind)) = kinds.find(|(_, kind)| kind.id == entity_type) else {
            if let Control::Register(register) = control
                && self.reign.is_some_and(|(own, _)| own == term)
            {
                let refused = Control::RegisterRefused(RegisterRefused {
                    session: register.session,
                    reason: RegisterRefusal::UnknownType,
                });
                sink.control(from, entity_type, term, &refused);
            }
            return;
        };
        kind.dirty = true;
        match control {
            Control::RegisterAck(_)
            | Control::RegisterRefused(_)
            | Control::ShardHome(_)
            | Control::HandOff(_)
            | Control::ShardMapUpdate(_)
            | Control::RememberedEntities(_)
            | Control::StatsQuery(_) => {
                let _ = kind.region.handle_control(now, from, term, control);
            }
            _ => {
                let mut watched = watch::Watched::<St> {
                    coordinator: &mut kind.coordinator,
                    ty,
                    base: kind.base,
                };
                if watched.tell(now, from, term, control, sink) {
                    self.say_registered(from);
                }
            }
        }
    }

    /// A data frame of another process.
    pub fn handle_data(
        &mut self,
        now: Instant,
        from: NodeId,
        frame: DataFrame,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        self.arrived += 1;
        let DataFrame {
            ty,
            shard,
            epoch,
            body,
        } = frame;
        let Some(kind) = self.kinds.get_mut(usize::from(ty)) else {
            return;
        };
        match body {
            Body::Envelope(message) => {
                let arrival = kind
                    .region
                    .handle_envelope(now, from, shard, epoch, message);
                let (reason, message) = match arrival {
                    Arrival::Deliver(message) => {
                        return sink.deliver(ty, shard, epoch, Origin::Remote(from), message);
                    }
                    Arrival::Queued => {
                        kind.dirty = true;
                        return;
                    }
                    Arrival::Return { reason, payload } => (reason, payload),
                    Arrival::Refused(message) => (ReturnReason::Full, message),
                };
                let back = DataFrame {
                    body: Body::Return(reason, message),
                    ..frame
                };
                if sink.data(from, back).is_err() {
                    let origin = Origin::Remote(from);
                    sink.reject(ty, shard, origin, RejectReason::OriginEnded, message);
                }
            }
            Body::Return(reason, message) => {
                kind.dirty = true;
                let taken = kind
                    .region
                    .handle_return(now, from, shard, epoch, reason, message);
                let reason = match taken {
                    Ok(()) => return,
                    Err(ReturnError::Full(_)) => RejectReason::BufferFull,
                    Err(ReturnError::PathGivenUp(_)) => RejectReason::PathGivenUp,
                    Err(ReturnError::Stopped(_)) => RejectReason::Stopped,
                    // What the type had sent before it was stopped and started again.
                    Err(ReturnError::Unexpected(_)) if kind.starts > 0 => RejectReason::Stopped,
                    Err(ReturnError::Unexpected(_)) => return sink.note(Note::UnexpectedReturn),
                };
                sink.reject(ty, shard, Origin::Local, reason, message);
            }
            Body::Flush(token) => {
                kind.dirty = true;
                kind.region.handle_flush(now, from, shard, epoch, token);
            }
            Body::Flushed(token) => {
                kind.dirty = true;
                if kind.region.handle_flushed(now, from, shard, token) {
                    let shard = kind.base + shard.0;
                    sink.deed(Deed::PathFlushed { shard });
                }
            }
        }
    }

    /// A caller here sends a message. It is reported if it is not taken.
    pub fn route(
        &mut self,
        now: Instant,
        ty: u8,
        shard: ShardId,
        message: Message,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        let taken = self.phase.takes_messages();
        let Some(kind) = self.kinds.get_mut(usize::from(ty)).filter(|_| taken) else {
            return sink.reject(ty, shard, Origin::Local, RejectReason::Stopped, message);
        };
        match kind.region.route(now, shard, message) {
            Ok(Route::Local { epoch, payload }) => {
                sink.deliver(ty, shard, epoch, Origin::Local, payload);
            }
            Ok(Route::Remote { to, epoch, payload }) => {
                let frame = DataFrame {
                    ty,
                    shard,
                    epoch,
                    body: Body::Envelope(payload),
                };
                if sink.data(to, frame).is_err() {
                    let reason = RejectReason::BufferFull;
                    sink.reject(ty, shard, Origin::Local, reason, payload);
                }
            }
            Ok(Route::Queued) => kind.dirty = true,
            Err(_) => {
                let reason = RejectReason::BufferFull;
                sink.reject(ty, shard, Origin::Local, reason, message);
            }
        }
    }

    /// A message that never left this process, and whose receiver has ended. Whether it was taken back.
    pub fn take_back(
        &mut self,
        now: Instant,
        to: NodeId,
        frame: DataFrame,
        sink: &mut impl Sink,
    ) -> bool {
        let now = self.enter(now, sink);
        let (Body::Envelope(message), Some(kind)) =
            (frame.body, self.kinds.get_mut(usize::from(frame.ty)))
        else {
            return false;
        };
        kind.dirty = true;
        kind.region
            .take_back(now, to, frame.shard, frame.epoch, message)
            .is_ok()
    }

    /// The link to a node has no room, or has room again.
    pub fn handle_congestion(
        &mut self,
        now: Instant,
        node: NodeId,
        congested: bool,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        for kind in &mut self.kinds {
            kind.region.handle_congestion(now, node, congested);
            kind.dirty = true;
        }
    }

    /// A shard runs.
    pub fn shard_started(
        &mut self,
        now: Instant,
        ty: u8,
        shard: ShardId,
        epoch: Epoch,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        if let Some(kind) = self.kinds.get_mut(usize::from(ty)) {
            kind.region.handle_shard_started(now, shard, epoch);
            kind.dirty = true;
        }
    }

    /// A message that a stopping shard has not handled.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a region is told, and a sink"
    )]
    pub fn give_back(
        &mut self,
        now: Instant,
        ty: u8,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        if let Some(kind) = self.kinds.get_mut(usize::from(ty)) {
            kind.dirty = true;
            if kind
                .region
                .give_back(now, shard, epoch, origin, message)
                .is_err()
            {
                // Its caller is told where it is.
                let body = Body::Return(ReturnReason::Full, message);
                let back = DataFrame {
                    ty,
                    shard,
                    epoch,
                    body,
                };
                let told = match origin {
                    Origin::Local => false,
                    Origin::Remote(node) => sink.data(node, back).is_ok(),
                };
                if !told {
                    sink.reject(ty, shard, origin, RejectReason::BufferFull, message);
                }
            }
        }
    }

    /// Nothing of a shard runs any more.
    pub fn shard_stopped(
        &mut self,
        now: Instant,
        ty: u8,
        shard: ShardId,
        epoch: Epoch,
        forced: bool,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        if let Some(kind) = self.kinds.get_mut(usize::from(ty)) {
            kind.region.handle_shard_stopped(now, shard, epoch, forced);
            kind.dirty = true;
        }
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
        if !kind.stopped || !kind.region.is_settled() || !self.phase.is_running() {
            return false;
        }
        let starts = kind.starts + 1;
        let Some(mut region) = self.new_region(now, ty, starts, seed) else {
            return false;
        };
        for member in self.members.iter() {
            let _ = region.handle_member(now, MemberChange::Member(member));
        }
        region.handle_last_beat(self.leadership.last_beat());
        region.handle_lease(now, self.lease);
        region.handle_leader(now, self.leader);
        let kind = &mut self.kinds[usize::from(ty)];
        kind.region = region;
        kind.starts = starts;
        kind.stopped = false;
        kind.dirty = true;
        self.tell_types();
        true
    }

    /// The coordinator, if it works, is to move a shard in its next round.
    pub fn want_move(&mut self, now: Instant, ty: u8, shard: ShardId, sink: &mut impl Sink) {
        let now = self.enter(now, sink);
        if let Some(kind) = self.kinds.get_mut(usize::from(ty)) {
            kind.coordinator.strategy_mut().want(shard);
            kind.coordinator.rebalance(now);
        }
    }

    /// The reign this process follows.
    #[must_use]
    pub fn leader(&self) -> Option<Leader> {
        self.leader
    }

    /// Until when it may serve, by its own clock.
    #[must_use]
    pub fn lease_until(&self) -> Option<Instant> {
        self.leadership.lease_until()
    }

    /// The term under which it leads, and until when, by its own clock.
    #[must_use]
    pub fn acting_until(&self) -> Option<(Term, Instant)> {
        self.leadership.reign().zip(self.leadership.acting_until())
    }

    /// Where it is in its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether a type was stopped here.
    #[must_use]
    pub fn is_stopped(&self, ty: u8) -> bool {
        let kind = self.kinds.get(usize::from(ty));
        kind.is_some_and(|kind| kind.stopped)
    }

    /// Leadership.
    #[must_use]
    pub fn leadership(&self) -> &Leadership<St::Peers> {
        &self.leadership
    }

    /// The region of a type.
    #[must_use]
    pub fn region(&self, ty: u8) -> Option<&Region<Message, St::Region>> {
        Some(&self.kinds.get(usize::from(ty))?.region)
    }

    /// The coordinator of a type.
    #[must_use]
    pub fn coordinator(&self, ty: u8) -> Option<&Coordinator<Moving, St::Coordinator>> {
        Some(&self.kinds.get(usize::from(ty))?.coordinator)
    }

    /// What this process believes of the others, and of itself.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.members.iter()
    }

    /// How long a leave may take.
    pub(super) fn leave_deadline(&self) -> Duration {
        self.config.handoff_timeout * 2
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

fn is_due(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| at <= now)
}
