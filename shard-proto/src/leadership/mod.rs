//! Who coordinates, under which term.
//!
//! One [`Leadership`] runs on every node. It answers three questions for the layers above: *who coordinates, under
//! which term* ([`LeadershipCommand::Adopt`]), *until when may this node serve* ([`LeadershipCommand::Lease`],
//! [`LeadershipCommand::Lapsed`]), and *does this node coordinate* ([`LeadershipCommand::Begin`],
//! [`LeadershipCommand::Act`], [`LeadershipCommand::OpenBarrier`], [`LeadershipCommand::End`]).
//!
//! ```text
//! as a node    nobody ── beat of a higher term ──▶ following ── silence, resignation, removal ──▶ nobody
//!              no lease ── echo of its beat ──▶ lease ── until it is over ──▶ lapsed, no lease
//! as a leader  no reign ── named, and nobody followed ──▶ recovering ── support of a quorum ──▶ acting ──▶ open
//!              recovering, acting ── refused, support lost ──▶ recovering under a higher term
//!              recovering, acting ── yields, follows another, leaves, removed ──▶ no reign
//! ```
//!
//! # Under [`Ownership::Lease`]
//!
//! * A voter that hears its leader is bound to it for `support_lease` from each beat. A leader acts until
//!   `support_lease - drift` after it *sent* the newest beats that a quorum of voters echoed, so no two act at once.
//! * A node serves until at most `lease` after it *sent* the newest beat that the leader echoed, and the leader echoes
//!   only while it acts, with a limit that lies `lease - support_lease` behind its support. So every lease of a reign
//!   is over `lease + drift` after its last supporters heard of it: then the barrier of the next one opens.
//! * Numbers of beats say when they were sent, so an echo tells that without a table.
//! * What is over by `now` is over before an input is looked at: each `handle_*` begins with that.
//!
//! # Under [`Ownership::Trust`]
//!
//! * The oldest eligible member of the view leads, by `(incarnation, node)`. Eligible: up, not leaving, and not known
//!   to keep quiet. One that is named and not heard for [`LeadershipConfig::patience`] counts as quiet, and the next
//!   one is named; it counts again with its next beat. A leader counts as silent `support_lease` after its newest
//!   beat. (This names the next leader under leases too, among the voters.)
//! * A node that follows a leader and hears its beats follows nobody else, whatever the view says. A node that comes
//!   in therefore never takes a reign over, also if its clock is behind and it looks older than all.
//! * A node that comes in listens for [`LeadershipConfig::patience`] from when it knows another member, before it may
//!   lead.
//! * A leader takes a term that is higher than every term it knows or took before, and not below the floor that the
//!   adapter gave. Nodes answer a beat whose term is too low with `TermRefused`; the leader then goes on under a higher
//!   one.
//! * Two reigns that meet (their nodes did not see each other before): the younger leader resigns, the older stays.
//!   So that a reign with followers does not fall to a leader without any, a younger one that is followed holds out
//!   for `support_lease`, and an older one that nobody follows gives way after two beats, unless its node and the other
//!   have only just met.
//! * A leader that was stopped for longer than `support_lease` gives its reign up and listens for two beats, since
//!   another may lead by now.
//!
//! A node begins to lead from [`Leadership::handle_timeout`] only, so that everything the adapter knew before counts.
//!
//! Under [`Ownership::External`] nodes follow the highest token at once, and the holder acts at once; leases and the
//! barrier are as under `Lease`. Whoever says that the lease outside is held must say so when it is not, in time.

mod clock;
mod command;
mod config;
mod error;
mod follow;
mod grant;
mod lead;
mod lease;
mod name;
mod peer;
mod poll;
mod support;
#[cfg(test)]
mod tests;
mod trust;
mod view;
mod voters;

use clock::sent_at;
pub use command::LeadershipCommand;
pub use config::{ConfigError, LeadershipConfig, Ownership};
pub use error::ControlError;
use follow::Following;
use lead::Reign;
pub use peer::PeerSlot;
use peer::Peers;
pub use voters::{Voters, VotersError};

use crate::membership::{MemberChange, MemberState, NodesFull};
use crate::wire::Control;
use crate::{Incarnation, Instant, Leader, NodeId, Term};

/// Counters of a [`Leadership`]. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeadershipStats {
    /// Terms this node took.
    pub terms_taken: u64,
    /// Reigns this node followed, its own included.
    pub terms_adopted: u64,
    /// Reigns this node gave up because another leader stays.
    pub yielded: u64,
    /// Frames with a term that is more than an hour above the floor.
    pub terms_too_high: u64,
    /// Beats answered with a refusal.
    pub refused: u64,
    /// Reigns of this node that lost their support.
    pub support_lost: u64,
    /// Leaders this node stopped to follow since they heard nobody.
    pub deaf: u64,
    /// Frames that came late, twice, or for another reign. Harmless.
    pub ignored: u64,
}

/// Terms and beats of one node. See the [module](self).
///
/// `S` is the room for nodes, this one included: an array, a borrowed slice, or a boxed one. It bounds the cluster;
/// [`NodesFull`] says when it is too small. A slot takes about 200 bytes.
///
/// ```
/// use core::time::Duration;
/// use shard_proto::leadership::{Leadership, LeadershipCommand, LeadershipConfig, Ownership, PeerSlot};
/// use shard_proto::{Incarnation, Instant, NodeId, Term};
///
/// let config = LeadershipConfig::new()
///     .with_ownership(Ownership::Trust)
///     .with_bootstrap(true);
/// let storage = [PeerSlot::EMPTY; 8];
/// let now = Instant::ZERO;
/// let mut alone = Leadership::new(now, NodeId(1), Incarnation(7), config, storage)?;
/// alone.handle_term_floor(now, Term(1_000));
/// alone.handle_timeout(now);
/// assert_eq!(alone.poll_command(), Some(LeadershipCommand::Begin { term: Term(1_000) }));
/// # Ok::<(), shard_proto::leadership::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Leadership<S = [PeerSlot; 64]> {
    me: NodeId,
    incarnation: Incarnation,
    config: LeadershipConfig,
    stats: LeadershipStats,
    now: Instant,
    wake: Option<Instant>,
    peers: Peers<S>,
    /// Highest term known or taken.
    known: Term,
    /// What the adapter said, and when.
    floor: Option<(Term, Instant)>,
    /// Highest term adopted; nothing lower is obeyed.
    highest: Term,
    /// What a former life may have supported, once this one follows; see `forgotten()`.
    forgotten: Term,
    following: Option<Following>,
    /// A promise to a leader that is gone lasts until then.
    promised_until: Instant,
    /// Whom `highest` belongs to.
    former: Option<NodeId>,
    /// When the newest beat of a term below `highest` arrived.
    lower_beat: Instant,
    /// Who should lead, and since when it is waited for.
    named: Option<(NodeId, Instant)>,
    /// Another member was known once.
    joined: bool,
    /// Do not lead before; something may be heard until then.
    listen_until: Instant,
    /// Support nobody and do not lead before: a predecessor may have promised.
    quiet_until: Instant,
    /// After this node was stopped: what was sent meanwhile may still arrive until then.
    resume_until: Instant,
    /// A reign that this node cannot follow lives, at least until then.
    foreign_until: Instant,
    /// What needs a registration.
    types: u32,
    leaving: bool,
    removed: bool,
    reign: Option<Reign>,
    /// When to look for nodes whose leases are over.
    lapse_scan_at: Instant,
    /// Of the newest beats; never restart.
    leader_seq: u64,
    node_seq: u64,
    /// Beats of this node under the adopted term have this number or a higher one.
    term_seq: u64,
    node_beat_sent: Instant,
    lease_until: Option<Instant>,
    lapses: u32,
    node_beat_at: Instant,
    node_beat_due: bool,
    told: poll::Told,
}

#[cfg(feature = "sim")]
impl<S: Clone + core::fmt::Debug> Leadership<S> {
    /// Writes everything that decides what it does next.
    pub(crate) fn write_state(&self, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let mut state = self.clone();
        state.now = Instant::ZERO;
        state.stats = LeadershipStats::default();
        write!(out, "{state:?}")
    }
}

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// A node that follows nobody and knows nobody. [`Leadership::poll_timeout`] is due at once.
    ///
    /// # Errors
    /// [`ConfigError`], as [`LeadershipConfig::validate`] or for storage without a slot.
    pub fn new(
        now: Instant,
        me: NodeId,
        incarnation: Incarnation,
        config: LeadershipConfig,
        storage: S,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut peers = Peers::new(storage);
        peers
            .put(PeerSlot::new(me, incarnation, Some(MemberState::Up), now))
            .map_err(|NodesFull| ConfigError::Storage)?;
        let leased = config.ownership() != Ownership::Trust;
        let votes = config.ownership() == Ownership::Lease && config.voters().contains(me);
        Ok(Self {
            me,
            incarnation,
            config,
            stats: LeadershipStats::default(),
            now,
            wake: Some(now),
            peers,
            known: Term::NONE,
            floor: None,
            highest: Term::NONE,
            forgotten: Term::NONE,
            following: None,
            promised_until: Instant::ZERO,
            former: None,
            lower_beat: now,
            named: None,
            joined: false,
            listen_until: Instant::ZERO,
            quiet_until: if votes {
                now.after(config.support_lease())
            } else {
                Instant::ZERO
            },
            resume_until: Instant::ZERO,
            foreign_until: Instant::ZERO,
            types: 0,
            leaving: false,
            removed: false,
            reign: None,
            lapse_scan_at: Instant::FAR_FUTURE,
            leader_seq: 0,
            node_seq: 0,
            term_seq: 0,
            node_beat_sent: Instant::ZERO,
            lease_until: (!leased).then_some(Instant::FAR_FUTURE),
            lapses: 0,
            node_beat_at: now,
            node_beat_due: false,
            told: poll::Told::default(),
        })
    }

    /// The lowest term this node may take: the wall clock in 1/16 s, or a persisted number. Call it before the first
    /// [`Leadership::handle_timeout`], and again from time to time, every second or so: it grows with `now`, but two
    /// percent slower, as that clock may be too fast. One that is lower than what it has grown to is ignored.
    ///
    /// Terms of others that are more than an hour above it are refused. Without a floor there is no such limit.
    pub fn handle_term_floor(&mut self, now: Instant, floor: Term) {
        self.advance(now);
        if self.floor().is_none_or(|old| old < floor) {
            self.floor = Some((floor.min(Term::MAX), self.now));
        }
    }

    /// The view changed. Changes about removed or older incarnations are ignored.
    ///
    /// # Errors
    /// [`NodesFull`]: the node is not taken in, state is unchanged.
    pub fn handle_member(&mut self, now: Instant, change: MemberChange) -> Result<(), NodesFull> {
        self.advance(now);
        let result = match change {
            MemberChange::Member(member) if member.node == self.me => {
                self.see_myself(&member);
                Ok(())
            }
            MemberChange::Member(member) => self.see(&member),
            MemberChange::Removed {
                node, incarnation, ..
            } => {
                self.remove(node, incarnation);
                Ok(())
            }
        };
        self.settle(false);
        result
    }

    /// A `LeaderBeat`, `NodeBeat`, `TermRefused` or `Resign` of the authenticated peer `from` (which may be this
    /// node), with the term of its header. Late and duplicate ones change nothing.
    ///
    /// # Errors
    /// [`ControlError`]; state is unchanged.
    pub fn handle_control(
        &mut self,
        now: Instant,
        from: NodeId,
        term: Term,
        control: &Control<'_>,
    ) -> Result<(), ControlError> {
        self.advance(now);
        let result = self.dispatch(from, term, control);
        self.settle(false);
        result
    }

    /// A connection with a node was made, perhaps anew: beats that were on the old one are lost, so under leases the
    /// next ones do not wait for their time. A connection that breaks again and again carries at least these.
    pub fn handle_linked(&mut self, now: Instant, node: NodeId) {
        self.advance(now);
        if self.is_leased() {
            self.greet(node);
        }
        self.settle(false);
    }

    fn dispatch(
        &mut self,
        from: NodeId,
        term: Term,
        control: &Control<'_>,
    ) -> Result<(), ControlError> {
        if self.peers.member(from).is_none() {
            return Err(ControlError::UnknownPeer);
        }
        match control {
            Control::LeaderBeat(beat) => self.handle_leader_beat(from, term, beat),
            Control::NodeBeat(beat) => {
                self.handle_node_beat(from, term, beat);
                Ok(())
            }
            Control::TermRefused(refusal) => self.handle_refused(from, term, refusal.highest),
            Control::Resign => {
                self.handle_resign(from, term);
                Ok(())
            }
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Types of this node that need a registration with the coordinator: the wrapping sum of their
    /// [`EntityTypeId`](crate::EntityTypeId)s. It goes out with this node's beats; a leader echoes them, and so grants a
    /// lease, only once it has the same sum registered.
    pub fn handle_types(&mut self, now: Instant, types: u32) {
        self.advance(now);
        // Said at once: a type that was just started waits for its registration to count.
        self.node_beat_due |= self.types != types && self.following.is_some();
        self.types = types;
        self.settle(false);
    }

    /// A node registered with this node's coordinators, for its current reign: `types` is the wrapping sum of the
    /// [`EntityTypeId`](crate::EntityTypeId)s of its types that are registered now, `last_beat_age` (in microseconds)
    /// is what the registration said. It counts as complete when the node's newest beat says the same sum. Idempotent.
    pub fn handle_registered(
        &mut self,
        now: Instant,
        node: NodeId,
        types: u32,
        last_beat_age: u64,
    ) {
        self.advance(now);
        self.take_registration(node, types, last_beat_age);
        self.settle(false);
    }

    /// The sessions of a node's regions end (protocol 5.5): it counts as not registered until all its types have
    /// registered again. Without that, [`LeadershipCommand::NodeLapsed`] comes when its lease is surely over.
    pub fn end_sessions(&mut self, now: Instant, node: NodeId) {
        self.advance(now);
        self.end_registration(node);
        self.settle(false);
    }

    /// A `Register` for a higher term than that of this node's reign arrived from `from`: its node has followed
    /// another, so the reign goes on under a term above it, at most once per `support_lease` and peer.
    ///
    /// # Errors
    /// [`ControlError`]; state is unchanged.
    pub fn handle_higher_term(
        &mut self,
        now: Instant,
        from: NodeId,
        term: Term,
    ) -> Result<(), ControlError> {
        self.advance(now);
        let result = match self.reign() {
            Some(reign) if term > reign => self.handle_refused(from, reign, term),
            _ => Ok(()),
        };
        self.settle(false);
        result
    }

    /// The lease outside says that this node leads under `token` (a number that grows with each holder), or that it
    /// does not: say the latter before another can hold it, or two act. A token that is not above every term this node
    /// knows is ignored. [`Ownership::External`] only; otherwise ignored.
    pub fn handle_external(&mut self, now: Instant, token: Option<Term>) {
        self.advance(now);
        if self.config.ownership() == Ownership::External {
            match token {
                Some(term) if self.reign().is_some_and(|reign| reign == term) => {}
                Some(term) if term > self.known && term <= Term::MAX && !self.leaving => {
                    if !self.removed {
                        self.begin_under(term);
                    }
                }
                Some(_) => self.stats.ignored = self.stats.ignored.saturating_add(1),
                None => self.end_reign(),
            }
        }
        self.settle(false);
    }

    /// Whether this node is a voter without which fewer than a majority of the voters are up and not leaving.
    /// [`Ownership::Lease`] only.
    #[must_use]
    pub fn leave_ends_quorum(&self) -> bool {
        let voters = self.config.voters();
        if !self.is_voting() || !voters.contains(self.me) {
            return false;
        }
        let others = voters.iter().filter(|node| *node != self.me);
        let up = others
            .filter_map(|node| self.peers.member(node))
            .filter(|peer| peer.state == Some(MemberState::Up) && !peer.leaving)
            .count();
        up < voters.quorum()
    }

    /// Ends the reign, if there is one, and goes on under a fresh term as soon as this node is named: for a coordinator
    /// that used up the rounds of its term.
    pub fn renew(&mut self, now: Instant) {
        self.advance(now);
        if self.reign.is_some() {
            self.begin();
        }
        self.settle(false);
    }

    /// This node leaves: it resigns if it leads, and never leads again. Idempotent.
    pub fn leave(&mut self, now: Instant) {
        self.advance(now);
        self.leaving = true;
        self.end_reign();
        self.settle(false);
    }

    /// Does what is due, and begins to lead if this node is to.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.settle(true);
    }

    /// When to call [`Leadership::handle_timeout`]. O(1).
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.wake
    }

    /// The reign this node follows.
    #[must_use]
    pub fn leader(&self) -> Option<Leader> {
        self.following.map(|following| following.leader)
    }

    /// The term under which this node leads.
    #[must_use]
    pub fn reign(&self) -> Option<Term> {
        self.reign.map(|reign| reign.term)
    }

    /// Whether the barrier of this node's reign is over.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.reign.is_some_and(|reign| reign.open)
    }

    /// Until when this node acts as leader, by its own clock; `None` if it does not. Under [`Ownership::Trust`]
    /// [`Instant::FAR_FUTURE`] during a reign.
    #[must_use]
    pub fn acting_until(&self) -> Option<Instant> {
        self.reign.filter(|reign| reign.acts)?.support
    }

    /// Until when this node may serve, by its own clock; `None` if it may not. Under [`Ownership::Trust`]
    /// [`Instant::FAR_FUTURE`].
    #[must_use]
    pub const fn lease_until(&self) -> Option<Instant> {
        self.lease_until
    }

    /// How often this node's lease lapsed.
    #[must_use]
    pub const fn lapses(&self) -> u32 {
        self.lapses
    }

    /// When the newest beat of a term lower than the adopted one arrived; the start of this node if there was none.
    /// Registrations carry its age.
    #[must_use]
    pub const fn last_beat(&self) -> Instant {
        self.lower_beat
    }

    /// This node.
    #[must_use]
    pub const fn me(&self) -> NodeId {
        self.me
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &LeadershipConfig {
        &self.config
    }

    /// The counters.
    #[must_use]
    pub const fn stats(&self) -> &LeadershipStats {
        &self.stats
    }
}
