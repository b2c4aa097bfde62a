//! One process: leadership, and a region and a coordinator per entity type, composed as in a node, without links.

mod copy;
mod data;
mod leave;
mod members;
mod outlet;
mod poll;
mod sink;
mod types;
mod watch;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

pub use leave::Phase;
use members::Members;
pub use sink::{Body, DataFrame, Note, Sink, Unsent};

use super::config::type_name;
use super::moving::Moving;
use super::{Message, Store, Strategy, WorldConfig};
use crate::coordinator::Coordinator;
use crate::leadership::Leadership;
use crate::membership::{Member, MemberState, Roles};
use crate::node::departure;
use crate::node::stuck::{Outlet, Stuck, most_waiting};
use crate::region::Region;
use crate::wire::Control;
use crate::wire::control::{RegisterRefusal, RegisterRefused};
use crate::{
    EntityTypeId, Epoch, Incarnation, Instant, Leader, NodeId, Session, ShardId, Term, earliest,
    hash,
};

/// An entity type of a process.
pub(super) struct Kind<St: Store> {
    id: EntityTypeId,
    /// Its first shard among those of all types.
    base: u32,
    stopped: bool,
    region: Region<Message, St::Region>,
    coordinator: Coordinator<Moving, St::Coordinator>,
    /// Data that its link had no room for.
    stuck: Stuck<(NodeId, DataFrame)>,
    most_waiting: usize,
    /// Messages that were sent to others, and messages of others that were delivered or sent back.
    sent: u64,
    arrived: u64,
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
    life: departure::Phase,
}

impl<St: Store> core::fmt::Debug for Machine<St> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Machine")
            .field("me", &self.me)
            .field("leader", &self.leader)
            .field("lease", &self.lease)
            .field("reign", &self.reign)
            .field("life", &self.life)
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
            life: departure::Phase::Running,
        };
        let session = Session {
            incarnation,
            ..Session::default()
        };
        for ty in 0..config.types {
            let region = machine.new_region(now, ty, session, seed)?;
            let settings = machine.coordinator_config(ty);
            let storage = St::coordinator(config.shards);
            machine.kinds.push(Kind {
                id: hash::entity_type_id(type_name(ty)),
                base: u32::from(ty) * config.shards,
                stopped: false,
                region,
                coordinator: Coordinator::new(now, settings, Moving::new(strategy()), storage)
                    .ok()?,
                stuck: Stuck::new(),
                most_waiting: most_waiting(config.buffer, config.window, config.shards),
                sent: 0,
                arrived: 0,
                dirty: true,
            });
        }
        machine.tell_types();
        Some(machine)
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
        let mut at = earliest(self.leadership.poll_timeout(), self.life.poll_timeout());
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
            | Control::Resized(_)
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
        self.life.into()
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
}

fn is_due(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| at <= now)
}
