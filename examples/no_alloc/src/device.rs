//! The node: leadership, a region and links, and what one says to the others.

use core::time::Duration;

use heapless::Vec;
use shard_proto::leadership::{
    ConfigError, Leadership, LeadershipCommand, LeadershipConfig, Ownership, PeerSlot, Voters,
};
use shard_proto::membership::RemovalCause;
use shard_proto::region::{Command, Region, RegionConfig, RejectReason, Route, RouteError};
use shard_proto::table::ArrayStorage;
use shard_proto::wire::control::KeepAlive;
use shard_proto::wire::{Control, Data, Envelope, Flush, Flushed};
use shard_proto::{
    EntityTypeId, Epoch, Incarnation, Instant, Leader, NodeId, Session, ShardId, Term, earliest,
    hash, micros,
};

use crate::asks::{AskError, AskKey, Asks, Event, Failure};
use crate::data::Message;
use crate::leave::Leaving;
use crate::link::{End, Link, Me};
use crate::lives::{link_to, up};
use crate::visitors::{VISITOR, Visitors};
use crate::{INBOX, LINKS, NODES, OUTBOX, QUEUE, SHARDS, Times};

type Tables = ArrayStorage<Message, SHARDS, NODES, QUEUE>;

/// Settings. All but the name, the incarnation and the seed are the same on every node of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// The node's name, unique in the cluster.
    pub name: &'a str,
    /// This life: higher than every earlier one. Without a clock: a number that is counted up and kept.
    pub incarnation: u64,
    /// 64 bits that nobody can guess: they make the names of asks.
    pub seed: u64,
    /// Name of the cluster.
    pub cluster: &'a str,
    /// Names of the nodes that vote, which this one does not.
    pub voters: &'a [&'a str],
    /// Shards of the type, at most [`SHARDS`].
    pub shards: u32,
}

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a state nobody handles must not compile"
)]
pub enum State {
    /// It takes part, as far as it is linked.
    Running,
    /// It hands its shards off.
    Leaving,
    /// It has left; what [`Device::transmit`] still has says so to the others.
    Left,
    /// This life is over: the others gave it up. Start a new one, with a higher incarnation.
    Over,
}

/// What was counted. They saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages that entities here have handled.
    pub handled: u32,
    /// Messages of others that were refused: too long, or no room for one more entity.
    pub refused: u32,
    /// Connections that were given up because there was no room for an answer.
    pub overruns: u32,
    /// Connections that were given up since the other side broke the protocol, or kept quiet.
    pub faults: u32,
    /// Control frames that were too long, and skipped.
    pub skipped: u32,
    /// Frames that nobody waits for.
    pub ignored: u32,
}

/// A node of a cluster, without its I/O. See the [crate's docs](crate).
///
/// About 40 KiB. Nothing in it grows.
#[derive(Debug)]
pub struct Device<'a> {
    pub(crate) me: Me<'a>,
    shards: u32,
    seed: u64,
    pub(crate) now: Instant,
    pub(crate) leadership: Leadership<[PeerSlot; NODES]>,
    leader: Option<Leader>,
    lease: Option<Instant>,
    pub(crate) region: Region<Message, Tables>,
    starts: u32,
    /// The region stops to begin anew as one that hosts.
    promoting: bool,
    pub(crate) links: [Link; LINKS],
    pub(crate) asks: Asks,
    pub(crate) visitors: Visitors,
    pub(crate) leaving: Option<Leaving>,
    pub(crate) state: State,
    pub(crate) arrived: u32,
    pub(crate) stats: Stats,
}

impl<'a> Device<'a> {
    /// A proxy that knows nobody: it asks entities of other nodes, and hosts nothing before [`Device::host`].
    ///
    /// `None`: a setting cannot work. Voters are 1, 3 or 5 different names.
    #[must_use]
    pub fn new(now: Instant, config: &Config<'a>) -> Option<Self> {
        let me = hash::node_id(config.name);
        let incarnation = Incarnation(config.incarnation);
        let session = Session {
            incarnation,
            ..Session::default()
        };
        let mut voters: Vec<NodeId, { Voters::CAPACITY }> = Vec::new();
        for name in config.voters {
            voters.push(hash::node_id(name)).ok()?;
        }
        let voters = Voters::new(&voters).ok()?;
        if config.shards as usize > SHARDS || config.name.len() > 64 {
            return None;
        }
        Some(Self {
            me: Me {
                name: config.name,
                node: me,
                incarnation,
                cluster: hash::cluster_id(config.cluster),
                voters: voters.digest(),
            },
            shards: config.shards,
            seed: config.seed,
            now,
            leadership: follow(now, me, incarnation, voters).ok()?,
            leader: None,
            lease: None,
            region: region(now, me, session, config.shards, config.seed)?,
            starts: 0,
            promoting: false,
            links: [const { Link::new() }; LINKS],
            asks: Asks::new(config.seed),
            visitors: Visitors::default(),
            leaving: None,
            state: State::Running,
            arrived: 0,
            stats: Stats::default(),
        })
    }

    /// Whether there should be a connection now: make one, or close the one there is.
    #[must_use]
    pub fn wants(&self, link: usize) -> bool {
        let ended = matches!(self.state, State::Left | State::Over);
        self.links
            .get(link)
            .is_some_and(|it| it.is_wanted(self.now) && !(ended && it.has_written()))
    }

    /// A connection was made.
    pub fn connected(&mut self, now: Instant, link: usize) {
        self.advance(now);
        if let Some(link) = self.links.get_mut(link) {
            link.connected(now, &self.me);
        }
    }

    /// The connection is gone, or it could not be made.
    pub fn closed(&mut self, now: Instant, link: usize) {
        self.advance(now);
        if let Some(link) = self.links.get_mut(link) {
            link.closed(now);
        }
    }

    /// Takes bytes that came in on a connection.
    pub fn receive(&mut self, now: Instant, link: usize, bytes: &[u8]) {
        self.advance(now);
        let mut frame = [0; INBOX];
        let mut rest = bytes;
        while !rest.is_empty() && self.wants(link) {
            let Some(it) = self.links.get_mut(link) else {
                return;
            };
            let taken = it.take(rest);
            rest = rest.get(taken..).unwrap_or(&[]);
            while let Some(it) = self.links.get_mut(link)
                && let Some(heard) = it.next(now, &self.me, &mut frame)
            {
                self.hear(link, heard, &frame);
            }
        }
        self.pump();
    }

    /// Fills `out` with bytes to write to a connection; none: there are no more. Write all of them, or close it.
    pub fn transmit(&mut self, now: Instant, link: usize, out: &mut Vec<u8, OUTBOX>) {
        self.advance(now);
        out.clear();
        if let Some(link) = self.links.get_mut(link) {
            link.transmit(self.now, out);
        }
    }

    /// Does what is due. Call it when [`Device::poll_timeout`] says, and after each round of the other inputs.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.leadership.handle_timeout(self.now);
        self.region.handle_timeout(self.now);
        self.asks.expire(self.now);
        for index in 0..LINKS {
            let Some(link) = self.links.get_mut(index) else {
                continue;
            };
            if link.expire(self.now) {
                self.end(index, End::Fault);
            } else if link.down_for(self.now) >= Times::GONE && link.peer.is_some() {
                self.forget(index, RemovalCause::Down);
            }
        }
        self.pump();
    }

    /// When [`Device::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let links = self.links.iter().map(Link::poll_timeout);
        let mut at = links.fold(self.leadership.poll_timeout(), earliest);
        at = earliest(at, self.region.poll_timeout());
        at = earliest(at, self.asks.poll_timeout());
        earliest(at, self.leaving.map(Leaving::poll_timeout))
    }

    /// Asks an entity. One event says what became of it.
    ///
    /// # Errors
    /// [`AskError`]: nothing changed.
    pub fn ask(
        &mut self,
        now: Instant,
        id: &str,
        message: &[u8],
        timeout: Duration,
    ) -> Result<AskKey, AskError> {
        self.advance(now);
        self.pump();
        let stops = self.leaving.is_some_and(Leaving::is_closing) || self.promoting;
        if self.state == State::Over || self.state == State::Left || stops {
            return Err(AskError::Stopped);
        }
        if !self.has_room() || self.asks.is_full() {
            return Err(AskError::Busy);
        }
        let shard = hash::entity_shard(id.as_bytes(), self.shards);
        let message = Message::new(id.as_bytes(), message).ok_or(AskError::TooLong)?;
        let deadline = self.now.after(timeout);
        let (key, correlation) = self.asks.insert(deadline).ok_or(AskError::Busy)?;
        let message = Message {
            correlation,
            ..message
        };
        match self.region.route(self.now, shard, message) {
            Ok(Route::Local { epoch, payload }) => self.deliver(shard, epoch, None, &payload),
            Ok(Route::Remote { to, epoch, payload }) => self.envelope(to, shard, epoch, &payload),
            Ok(Route::Queued) => {}
            Err(error) => {
                self.asks.remove(key);
                return Err(match error {
                    RouteError::Stopped(_) => AskError::Stopped,
                    _ => AskError::Busy,
                });
            }
        }
        self.pump();
        Ok(key)
    }

    /// What became of an ask.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.asks.poll()
    }

    /// Begins to host: the proxy's region stops, and one that hosts registers. `false`: asks are waiting, or it does
    /// already; nothing changed.
    pub fn host(&mut self, now: Instant) -> bool {
        self.advance(now);
        let can = self.starts == 0 && self.asks.is_empty() && self.state == State::Running;
        if can && !self.promoting {
            self.promoting = true;
            self.region.stop(self.now);
            self.pump();
        }
        can
    }

    /// Hands everything over and leaves, until [`State::Left`].
    pub fn leave(&mut self, now: Instant) {
        self.advance(now);
        if self.state == State::Running {
            self.state = State::Leaving;
            self.leaving = Some(Leaving::new(self.now));
            self.leadership.leave(self.now);
            for link in &mut self.links {
                link.leaving = true;
                if link.is_up() {
                    link.say(&Control::KeepAlive(KeepAlive { leaving: true }));
                }
            }
            self.pump();
        }
    }

    /// Where it is in its life.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// How many shards are hosted here.
    #[must_use]
    pub fn hosted(&self) -> u32 {
        self.region.hosted()
    }

    /// Whether the leading node knows it, as a host or as a proxy.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.region.is_registered() && !self.promoting
    }

    /// Whether it is, or is about to be, more than a proxy.
    #[must_use]
    pub const fn is_host(&self) -> bool {
        self.starts > 0
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let skipped = self.links.iter().map(|link| link.skipped);
        Stats {
            skipped: skipped.fold(0, u32::saturating_add),
            ..self.stats
        }
    }

    /// Takes the time. What this node may do no longer ends first.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.lease.is_some_and(|until| until <= self.now) {
            self.leadership.handle_timeout(self.now);
            self.pump();
        }
    }

    /// Whether every link has room for what a command may want.
    pub(crate) fn has_room(&self) -> bool {
        self.links.iter().all(Link::has_room)
    }

    /// Lets the parts talk until none has anything to say, or a window is full.
    pub(crate) fn pump(&mut self) {
        loop {
            while let Some(command) = self.leadership.poll_command() {
                self.follow(command);
            }
            while self.has_room() && self.obey() {}
            for link in &self.links {
                if let Some((node, _)) = link.peer {
                    let full = link.window.is_half_full();
                    self.region.handle_congestion(self.now, node, full);
                }
            }
            let needed = self.region.needs_registration();
            let types = if needed {
                hash::entity_type_id(VISITOR).0
            } else {
                0
            };
            self.leadership.handle_types(self.now, types);
            let promoted = self.promote();
            let stepped = self.step_leave();
            if !promoted && !stepped {
                return;
            }
        }
    }

    /// The proxy's region has stopped: another one begins, in a session of its own.
    fn promote(&mut self) -> bool {
        if !self.promoting || !self.region.is_settled() {
            return false;
        }
        let session = self.region.session().started_again();
        let Some(region) = region(self.now, self.me.node, session, self.shards, self.seed) else {
            return false;
        };
        self.promoting = false;
        self.starts = 1;
        self.region = region;
        for (node, incarnation) in self.links.iter().filter_map(|link| link.peer) {
            let _ = self.region.handle_member(self.now, up(node, incarnation));
        }
        self.region.handle_last_beat(self.leadership.last_beat());
        self.region.handle_lease(self.now, self.lease);
        self.region.handle_leader(self.now, self.leader);
        true
    }

    /// What leadership wants. This node never leads.
    fn follow(&mut self, command: LeadershipCommand) {
        let now = self.now;
        match command {
            LeadershipCommand::Send { to, term, control } => {
                if let Some(link) = link_to(&mut self.links, to) {
                    link.put(EntityTypeId(0), term, &control);
                }
            }
            LeadershipCommand::Adopt(leader) => {
                self.leader = leader;
                self.region.handle_last_beat(self.leadership.last_beat());
                self.region.handle_leader(now, leader);
            }
            LeadershipCommand::Lease(until) => {
                self.lease = until;
                self.region.handle_lease(now, until);
            }
            LeadershipCommand::Lapsed { lapses } => self.region.handle_lapse(now, lapses),
            LeadershipCommand::Begin { .. }
            | LeadershipCommand::Act { .. }
            | LeadershipCommand::Hearing { .. }
            | LeadershipCommand::OpenBarrier { .. }
            | LeadershipCommand::End
            | LeadershipCommand::NodeLapsed { .. } => {}
        }
    }

    /// One thing that the region wants. Whether there was one.
    fn obey(&mut self) -> bool {
        let now = self.now;
        let Some(command) = self.region.poll_command() else {
            return false;
        };
        match command {
            Command::Send { to, control } => {
                let term = self.leader.map_or(Term::NONE, |leader| leader.term);
                if let Some(link) = link_to(&mut self.links, to) {
                    link.put(hash::entity_type_id(VISITOR), term, &control);
                }
            }
            Command::Forward {
                to,
                shard,
                epoch,
                payload,
            } => {
                self.envelope(to, shard, epoch, &payload);
            }
            Command::Return {
                to,
                shard,
                epoch,
                reason,
                payload,
            } => {
                self.put_back(to, shard, epoch, reason, &payload);
            }
            Command::Flush {
                to,
                shard,
                epoch,
                token,
            } => {
                self.put(to, epoch, &Data::Flush(Flush { shard, token }));
            }
            Command::Flushed { to, shard, token } => {
                self.put(to, Epoch::NONE, &Data::Flushed(Flushed { shard, token }));
            }
            Command::Deliver {
                shard,
                epoch,
                origin,
                payload,
            } => {
                self.deliver(shard, epoch, Some(origin), &payload);
            }
            Command::StartShard { shard, epoch } => {
                self.region.handle_shard_started(now, shard, epoch);
            }
            Command::StopShard { shard, epoch, .. } => {
                self.visitors.stop(shard);
                self.region.handle_shard_stopped(now, shard, epoch, false);
            }
            Command::Reject {
                reason, payload, ..
            } => {
                self.asks.fail(payload.correlation, failure(reason));
            }
            Command::Open { .. }
            | Command::HomeChanged { .. }
            | Command::Registered { .. }
            | Command::Refused { .. } => {}
        }
        true
    }

    fn envelope(&mut self, to: NodeId, shard: ShardId, epoch: Epoch, message: &Message) {
        let envelope = Data::Envelope(Envelope {
            shard,
            correlation: message.correlation,
            id: &message.id,
            payload: &message.body,
        });
        if !self.put(to, epoch, &envelope) {
            self.asks.fail(message.correlation, Failure::Undelivered);
        }
    }
}

const fn failure(reason: RejectReason) -> Failure {
    match reason {
        RejectReason::PerhapsDelivered => Failure::PerhapsDelivered,
        _ => Failure::Undelivered,
    }
}

fn follow(
    now: Instant,
    me: NodeId,
    incarnation: Incarnation,
    voters: Voters,
) -> Result<Leadership<[PeerSlot; NODES]>, ConfigError> {
    let config = LeadershipConfig::new()
        .with_ownership(Ownership::Lease)
        .with_voters(voters)
        .with_may_lead(false);
    Leadership::new(now, me, incarnation, config, [PeerSlot::EMPTY; NODES])
}

/// A region. The first one is a proxy.
fn region(
    now: Instant,
    me: NodeId,
    session: Session,
    shards: u32,
    seed: u64,
) -> Option<Region<Message, Tables>> {
    let half = u32::try_from(QUEUE / 2).unwrap_or(1);
    let config = RegionConfig::new(VISITOR)
        .with_shard_count(shards)
        .with_proxy(session.starts == 0)
        .with_buffer(half)
        .with_buffer_per_shard(half)
        .with_return_window(half)
        .with_seed(hash::mix(seed ^ micros(Duration::from_secs(1))));
    Region::new(now, me, session, config, Tables::new()).ok()
}
