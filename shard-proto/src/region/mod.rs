//! The part of a node that routes messages and hosts shards of one entity type.
//!
//! A [`Region`] has one slot per shard. What it is to a shard ([`ShardPhase`]) and where messages go:
//!
//! ```text
//!            message                ShardHome: another node
//!  Unknown ───────────► Asking ────────────────────────────► Remote
//!     ▲                  │  ▲  the home moved, or has ended     │
//!     │                  │  └──────────────────────────────────┤
//!     │ stopped, nothing │ ShardHome: this node               │
//!     │ is buffered      ▼                                      ▼
//!  Draining ◄──────── Starting ◄────────────────────────────────┘
//!     ▲                  │ started
//!     └── HandOff ──── Active
//! ```
//!
//! Messages of one origin to one shard keep their order through all of it. Messages of this node's callers are sent
//! down one path (node and epoch) at a time: when the shard moves, the region stops sending, takes back what returns,
//! and goes on only when the old home has answered a marker.
//!
//! Inputs are [`Region::route`] and the `handle_*` functions, outputs are [`Region::poll_command`] and
//! [`Region::poll_timeout`]; any interleaving is legal, but commands and what inputs return must be carried out in
//! the order they were given in.

mod buffer;
mod command;
mod config;
mod directive;
mod error;
mod hosting;
mod inbound;
mod machine;
mod members;
mod path;
mod poll;
mod register;
mod route;
mod size;
mod slot;
mod stats;
mod sweep;
#[cfg(all(test, feature = "alloc"))]
mod tests;
#[cfg(all(any(test, feature = "_fuzzing"), feature = "alloc"))]
mod validate;

use core::marker::PhantomData;

pub use command::{Arrival, Command, Origin, RejectReason, Route};
pub use config::{ConfigError, RegionConfig};
pub use error::{ControlError, ReturnError, RouteError};
pub use size::ResizeError;
pub use slot::{BufferSlot, NodeSlot, ShardSlot};
pub use stats::RegionStats;

use machine::Machine;
use slot::State;

use crate::membership::{MemberChange, NodesFull};
use crate::table::RegionStorage;
use crate::wire::{Control, ReturnReason};
use crate::{Epoch, Home, Instant, Leader, NodeId, Session, ShardId, Term, Token};

/// What a region is to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a phase nobody handles must not compile"
)]
pub enum ShardPhase {
    /// Its home is not known, and nothing here needs it.
    Unknown,
    /// Its home is not known; messages wait, and the coordinator is asked.
    Asking,
    /// It lives on another node.
    Remote,
    /// Granted to this node; it starts.
    Starting,
    /// Served here.
    Active,
    /// It stops here.
    Draining,
}

/// One region, see the [module](self).
#[derive(Clone, Debug)]
pub struct Region<P, S> {
    storage: S,
    machine: Machine,
    scratch: register::Scratch,
    payload: PhantomData<fn() -> P>,
}

#[cfg(feature = "sim")]
impl<P, S: core::fmt::Debug> Region<P, S> {
    /// Writes everything that decides what it does next.
    pub(crate) fn write_state(&self, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let mut machine = self.machine.clone();
        machine.now = Instant::ZERO;
        machine.millis = 0;
        machine.stats = RegionStats::default();
        write!(out, "{machine:?}{:?}", self.storage)
    }
}

/// Whose messages of a shard are meant.
#[cfg(feature = "alloc")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Of callers on this node.
    Here,
    /// Of other nodes.
    Others,
}

impl<P, S: RegionStorage<P>> Region<P, S> {
    /// Makes a region of the node `me` and empties its storage. `session` is the node's incarnation and zeros; where a
    /// region of the type ran in this process before, [`Session::started_again`] of the last session of that one.
    ///
    /// Nothing happens until a leader ([`Region::handle_leader`]) and a lease ([`Region::handle_lease`]) are known,
    /// and other nodes are unknown until [`Region::handle_member`]. O(storage).
    ///
    /// # Errors
    /// [`ConfigError`]: a setting is out of range, or the storage too small for it.
    pub fn new(
        now: Instant,
        me: NodeId,
        session: Session,
        config: RegionConfig,
        storage: S,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut storage = storage;
        let machine = Machine::new(now, me, session, config, &mut storage.tables())?;
        Ok(Self {
            storage,
            machine,
            scratch: [0; 1024],
            payload: PhantomData,
        })
    }

    /// Routes a message of a caller on this node: deliver it here, send it, or forget it, since the region keeps it
    /// until a command says what to do. O(1).
    ///
    /// # Errors
    /// [`RouteError`] hands the message back; state is unchanged.
    pub fn route(
        &mut self,
        now: Instant,
        shard: ShardId,
        payload: P,
    ) -> Result<Route<P>, RouteError<P>> {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.route(t, shard, payload)
    }

    /// Takes an `Envelope` of another node. One for an unknown shard, or of no member, is [`Arrival::Refused`]. O(1).
    pub fn handle_envelope(
        &mut self,
        now: Instant,
        from: NodeId,
        shard: ShardId,
        epoch: Epoch,
        payload: P,
    ) -> Arrival<P> {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.envelope(t, from, shard, epoch, payload)
    }

    /// Takes back a message that this node sent. With [`ReturnReason::Moved`] it is buffered in front of what was
    /// not sent yet, behind what came back before. O(1).
    ///
    /// # Errors
    /// [`ReturnError`] hands the message back: report it to its caller, unless it is unexpected.
    pub fn handle_return(
        &mut self,
        now: Instant,
        from: NodeId,
        shard: ShardId,
        epoch: Epoch,
        reason: ReturnReason,
        payload: P,
    ) -> Result<(), ReturnError<P>> {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine
            .come_back(t, from, shard, epoch, reason, payload)
    }

    /// Takes back a message for `to` that never left this node: the life it was for is over, which the region is told
    /// next. It is buffered in front of what was not sent yet, behind what came back before. O(1).
    ///
    /// # Errors
    /// As [`Region::handle_return`].
    pub fn take_back(
        &mut self,
        now: Instant,
        to: NodeId,
        shard: ShardId,
        epoch: Epoch,
        payload: P,
    ) -> Result<(), ReturnError<P>> {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.take_back(t, to, shard, epoch, payload)
    }

    /// Takes a marker of another node; a [`Command::Flushed`] answers it behind everything that came before. O(1).
    pub fn handle_flush(
        &mut self,
        now: Instant,
        from: NodeId,
        shard: ShardId,
        epoch: Epoch,
        token: Token,
    ) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.flush(t, from, shard, epoch, token);
    }

    /// Takes the answer to a marker. Whether it was outstanding; if not, it was ignored and counted. O(1).
    pub fn handle_flushed(
        &mut self,
        now: Instant,
        from: NodeId,
        shard: ShardId,
        token: Token,
    ) -> bool {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.flushed(t, from, shard, token)
    }

    /// Takes a control frame of a coordinator, with the term of its header. A copy of a frame, or a late one, changes
    /// nothing. O(1), except a map update: O(homes in it).
    ///
    /// # Errors
    /// [`ControlError`]: the frame was dropped; state is unchanged.
    pub fn handle_control(
        &mut self,
        now: Instant,
        from: NodeId,
        term: Term,
        control: &Control<'_>,
    ) -> Result<(), ControlError> {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.control(t, from, term, control)
    }

    /// The term that this node adopted, and from whom; `None`: nobody coordinates. The region registers for it, and
    /// asks again for every home that it learnt under another.
    pub fn handle_leader(&mut self, now: Instant, leader: Option<Leader>) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.adopt(leader);
    }

    /// Until when this node may serve. `None`: not at all; what is hosted is given up as in [`Region::handle_lapse`].
    /// Pass [`Instant::FAR_FUTURE`] where there are no leases.
    pub fn handle_lease(&mut self, now: Instant, until: Option<Instant>) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.take_lease(t, until);
    }

    /// The node's lease lapsed, for the `lapses`-th time: entities are stopped at once, shards given up, and the
    /// region registers again under a newer session. O(shards).
    pub fn handle_lapse(&mut self, now: Instant, lapses: u32) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.handle_lapse(t, lapses);
    }

    /// When the newest beat of a lower term than the adopted one arrived. Before the first call it is taken to be
    /// when the region was made.
    pub fn handle_last_beat(&mut self, at: Instant) {
        self.machine.last_beat = at;
    }

    /// A change of the cluster's view. The removal of this node's own incarnation is a lapse.
    ///
    /// # Errors
    /// [`NodesFull`]; state is unchanged.
    pub fn handle_member(&mut self, now: Instant, change: MemberChange) -> Result<(), NodesFull> {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        match change {
            MemberChange::Member(member) => self.machine.member(t, member.node, member.incarnation),
            MemberChange::Removed {
                node, incarnation, ..
            } => {
                self.machine.removed(t, node, incarnation);
                Ok(())
            }
        }
    }

    /// The link to `node` has no room, or has room again: meanwhile messages to it are buffered here.
    pub fn handle_congestion(&mut self, now: Instant, node: NodeId, congested: bool) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.congestion(t, node, congested);
    }

    /// Whether new messages are buffered as far as there is room for their number, which they are at first. The owner
    /// of the payloads knows what else limits them; meanwhile the buffer counts as full. What comes back is taken.
    #[inline]
    pub const fn keep_new(&mut self, keep: bool) {
        self.machine.full = !keep;
    }

    /// The message of that source that the shard's buffer took last. O(1).
    #[cfg(feature = "alloc")]
    pub(crate) fn newest_of(&mut self, shard: ShardId, source: Source) -> Option<&mut P> {
        let t = self.storage.tables();
        let slot = t.shards.get(shard.0 as usize)?;
        let tail = match source {
            Source::Here => slot.local,
            Source::Others => slot.remote,
        };
        buffer::message_mut(t.buffer, tail)
    }

    /// The host started a shard ([`Command::StartShard`]). Anything but the answer to the newest one is ignored.
    pub fn handle_shard_started(&mut self, now: Instant, shard: ShardId, epoch: Epoch) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.started(t, shard, epoch);
    }

    /// Takes a message back that an entity of a stopping shard has not handled: between [`Command::StopShard`] and
    /// [`Region::handle_shard_stopped`], in the order the messages were delivered in. It goes in front of what was
    /// buffered since. O(1).
    ///
    /// # Errors
    /// The message, if no buffer slot is left or the shard does not stop under this epoch: report it.
    pub fn give_back(
        &mut self,
        now: Instant,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        payload: P,
    ) -> Result<(), P> {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.give_back(t, shard, epoch, origin, payload)
    }

    /// Nothing of the shard runs any more, and nothing more will be given back. `forced`: something was aborted.
    ///
    /// Also for a shard that was not told to stop, if it cannot start or go on: it is given up.
    pub fn handle_shard_stopped(
        &mut self,
        now: Instant,
        shard: ShardId,
        epoch: Epoch,
        forced: bool,
    ) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.stopped(t, shard, epoch, forced);
    }

    /// Stops the region for good: entities are stopped, what is buffered for this node's callers is reported, what
    /// other nodes sent goes back to them, and once nothing runs any more, the coordinator is told. O(shards).
    ///
    /// Go on polling until [`Region::is_settled`].
    pub fn stop(&mut self, now: Instant) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.stop(t);
    }

    /// Begins to flush every path that this region used, as before the node's links are closed. O(shards).
    ///
    /// Go on polling until [`Region::is_settled`].
    pub fn flush_paths(&mut self, now: Instant) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.flush_paths(t);
    }

    /// Handles a bounded number of due timers; more may be due at once after it.
    pub fn handle_timeout(&mut self, now: Instant) {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.timeout(t);
    }

    /// When [`Region::handle_timeout`] is to be called. O(1).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.machine.next_timeout(self.storage.shards())
    }

    /// What to do next; call until `None`. O(1) amortised.
    pub fn poll_command(&mut self) -> Option<Command<'_, P>> {
        if let Some(news) = self.machine.registration_news() {
            return Some(news);
        }
        let t = &mut self.storage.tables();
        if let Some(leader) = self.machine.register_due() {
            let part = self.machine.register_part(t.shards, &mut self.scratch);
            return Some(Command::Send {
                to: leader.node,
                control: Control::Register(part),
            });
        }
        self.machine.next_command(t)
    }

    /// The home that is used for a shard.
    pub fn home(&self, shard: ShardId) -> Option<Home> {
        let slot = self.slot(shard)?;
        self.machine.home_of(self.storage.nodes(), slot)
    }

    /// What the region is to a shard. `None`: no such shard.
    pub fn phase(&self, shard: ShardId) -> Option<ShardPhase> {
        let slot = self.slot(shard)?;
        let has_home = self.machine.home_of(self.storage.nodes(), slot).is_some();
        Some(match slot.state {
            State::Starting => ShardPhase::Starting,
            State::Active => ShardPhase::Active,
            State::Draining => ShardPhase::Draining,
            State::Remote if has_home => ShardPhase::Remote,
            State::Remote => ShardPhase::Asking,
            State::None if slot.wants_home() => ShardPhase::Asking,
            State::None => ShardPhase::Unknown,
        })
    }

    /// Shards that start, are served or stop here.
    pub fn hosted(&self) -> u32 {
        self.machine.hosted
    }

    /// Buffered messages and markers.
    pub fn buffered(&self) -> u32 {
        self.machine.slab.used()
    }

    /// Paths that are being flushed.
    pub fn flushing(&self) -> u32 {
        self.machine.flushing
    }

    /// How many of the shards are used, the first ones, as far as this node has heard.
    pub fn used(&self) -> u32 {
        self.machine.used()
    }

    /// Asks the coordinator to use the first `count` shards, and goes on asking until it says that it does. It hands
    /// shards off that are not used any more, and gives others homes. Of two nodes that ask at once, the later one wins.
    /// The new number outlives the coordinator, as long as one region that has heard of it lives.
    ///
    /// # Errors
    /// [`ResizeError`]; state is unchanged.
    pub fn resize(&mut self, now: Instant, count: u32) -> Result<(), ResizeError> {
        let t = &mut self.storage.tables();
        self.machine.advance(t, now);
        self.machine.resize(count)
    }

    /// Whether the coordinator has not yet taken what [`Region::resize`] asks for.
    pub fn is_resizing(&self) -> bool {
        self.machine.is_resizing()
    }

    /// Whether the adopted leader's coordinator has confirmed the registration.
    pub fn is_registered(&self) -> bool {
        self.machine.registration.confirmed
    }

    /// Whether the coordinator has to know this region before the node's lease may last: not once it was deregistered,
    /// nor while it is refused and hosts nothing.
    pub fn needs_registration(&self) -> bool {
        self.machine.needs_registration()
    }

    /// Version of the newest map that the adopted leader's coordinator sent to its end, if one has.
    pub fn map_version(&self) -> Option<u64> {
        self.machine.map_version
    }

    /// Whether nothing is hosted, buffered or being flushed, and, after [`Region::stop`], the coordinator was told.
    pub fn is_settled(&self) -> bool {
        self.machine.is_settled()
    }

    /// Counters.
    pub fn stats(&self) -> &RegionStats {
        &self.machine.stats
    }

    /// The session it registers with.
    pub fn session(&self) -> Session {
        self.machine.session
    }

    /// The settings.
    pub fn config(&self) -> &RegionConfig {
        &self.machine.config
    }

    fn slot(&self, shard: ShardId) -> Option<&ShardSlot> {
        let slot = self.storage.shards().get(shard.0 as usize)?;
        (shard.0 < self.machine.config.shard_count).then_some(slot)
    }
}
