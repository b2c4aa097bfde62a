//! The coordinator as its node sees it.

use core::fmt;

use super::{
    ConfigError, ControlError, CoordPhase, CoordShardState, CoordinatorCommand, CoordinatorConfig,
    CoordinatorStats,
    announce::SCRATCH,
    ledger::{Book, Freed, Ledger, is_stale},
    members,
    poll::Said,
    slot::{CoordNodeSlot, CoordShardSlot, NOBODY, Phase, flag},
    stats::count,
};
use crate::{
    Home, Instant, NodeId, ShardId, Term,
    allocation::AllocationStrategy,
    earliest,
    membership::{MemberChange, NodesFull},
    table::{CoordinatorStorage, CoordinatorTables},
    wire::{
        Control, Homes,
        control::{EntityNote, ShardMapUpdate},
    },
};

/// How much one `handle_timeout` does.
const BATCH: u32 = 64;

/// Decides which node is the home of each shard of one entity type.
///
/// There is one per type on every node that may lead; the one on the leading node works, the others note who is a
/// member. See the [module](super) for how a shard changes hands.
#[derive(Clone)]
pub struct Coordinator<A, S> {
    pub(super) config: CoordinatorConfig,
    strategy: A,
    pub(super) storage: S,
    pub(super) book: Book,
    scratch: [u8; SCRATCH],
}

impl<A, S> fmt::Debug for Coordinator<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("config", &self.config)
            .field("book", &self.book)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "sim")]
impl<A: fmt::Debug, S: fmt::Debug> Coordinator<A, S> {
    /// Writes everything that decides what it does next, but for its settings.
    pub(crate) fn write_state(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut book = self.book.clone();
        book.now = Instant::ZERO;
        book.stats = CoordinatorStats::default();
        write!(out, "{:?}{:?}{book:?}", self.strategy, self.storage)
    }
}

impl<A: AllocationStrategy, S: CoordinatorStorage> Coordinator<A, S> {
    /// A coordinator of a node that does not lead yet. Empties the tables. O(shards + nodes).
    ///
    /// # Errors
    /// [`ConfigError`]: a setting, or a storage too small for the settings.
    pub fn new(
        now: Instant,
        config: CoordinatorConfig,
        strategy: A,
        mut storage: S,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let tables = storage.tables();
        let found = tables.shards.len();
        if found < config.shard_count as usize {
            return Err(ConfigError::ShardStorage {
                needed: config.shard_count,
                found,
            });
        }
        let nodes = tables.nodes.len();
        if nodes == 0 || nodes >= usize::from(NOBODY) || tables.candidates.len() < nodes {
            return Err(ConfigError::NodeStorage);
        }
        tables.nodes.fill(CoordNodeSlot::EMPTY);
        Ok(Self {
            config,
            strategy,
            storage,
            book: Book::new(now),
            scratch: [0; SCRATCH],
        })
    }

    /// This node may come to lead under a fresh term: from here on regions register and claims are taken. Homes are told
    /// from [`Self::act`] on, and what nobody claims waits for [`Self::open_barrier`]. A term that is not above the one of
    /// a reign that lasts changes nothing. O(shards + nodes).
    pub fn begin(&mut self, now: Instant, term: Term) {
        if self.book.phase != CoordPhase::Idle && term <= self.book.term {
            return;
        }
        let (mut ledger, _) = self.at(now);
        ledger.shards.fill(CoordShardSlot::EMPTY);
        ledger.forget_reign();
        ledger.book.phase = CoordPhase::Recovering;
        ledger.book.term = term;
    }

    /// A quorum supports this reign and is registered: from here on homes are told and shards handed off. Once per reign;
    /// again changes nothing. O(shards being handed off).
    pub fn act(&mut self, now: Instant) {
        if self.book.phase != CoordPhase::Recovering {
            return;
        }
        let (mut ledger, _) = self.at(now);
        ledger.book.phase = CoordPhase::Acting;
        ledger.renew_deadlines();
        ledger.try_wanted();
    }

    /// Every lease of a predecessor is over: what nobody claims may be allocated. Once per reign; again changes nothing.
    /// Implies [`Self::act`].
    pub fn open_barrier(&mut self, now: Instant) {
        self.act(now);
        if self.book.phase != CoordPhase::Acting {
            return;
        }
        let (mut ledger, _) = self.at(now);
        ledger.book.phase = CoordPhase::Open;
        if !ledger.config.trust {
            ledger.forget_unfinished();
        }
        ledger.keep_from_start();
        ledger.candidates_changed();
    }

    /// The reign is over: everything is forgotten except the members; nothing more is sent. O(nodes).
    pub fn end(&mut self, now: Instant) {
        self.at(now).0.forget_reign();
    }

    /// Whether a node has echoed a beat that was sent within the support lease: only then it is given shards. A node is
    /// taken not to hear until this says so, unless membership is trusted. O(log nodes).
    pub fn handle_hearing(&mut self, now: Instant, node: NodeId, hears: bool) {
        self.at(now).0.handle_hearing(node, hears);
    }

    /// The view changed. Also while this node does not lead.
    ///
    /// The shards of a removed member, or of a member that starts to leave, move in batches:
    /// [`Self::handle_timeout`] is due at once.
    ///
    /// # Errors
    /// [`NodesFull`]: the member has no slot and gets no shards; state is unchanged.
    pub fn handle_member(&mut self, now: Instant, change: MemberChange) -> Result<(), NodesFull> {
        self.at(now).0.handle_member(change)
    }

    /// A control frame of a region. `from` is the authenticated peer, `term` is in the frame's header. O(log nodes), and
    /// O(claims) for a `Register`.
    ///
    /// Every handler is idempotent; a late or doubled frame is an error for which
    /// [`ControlError::is_expected`] holds.
    ///
    /// # Errors
    /// [`ControlError`]: dropped and counted, state is unchanged except for what [`ControlError::Refused`] says.
    pub fn handle_control(
        &mut self,
        now: Instant,
        from: NodeId,
        term: Term,
        control: &Control<'_>,
    ) -> Result<(), ControlError> {
        let (mut ledger, strategy) = self.at(now);
        let result = ledger.handle_control(from, term, control, strategy);
        match result {
            Ok(()) | Err(ControlError::Refused(_)) => {}
            Err(error) if error.is_expected() => count(&mut self.book.stats.ignored),
            Err(_) => count(&mut self.book.stats.dropped),
        }
        result
    }

    /// The node's lease is over for sure: its session ends, its shards are allocated anew, in batches:
    /// [`Self::handle_timeout`] is due at once. Also for a node that is no member any more: unless membership is trusted,
    /// its removal frees nothing.
    pub fn handle_lapsed(&mut self, now: Instant, node: NodeId) {
        if self.book.phase != CoordPhase::Idle {
            self.at(now).0.handle_lapsed(node);
        }
    }

    /// The lease of a life of the node that was replaced is over for sure: as [`Self::handle_lapsed`], unless the present
    /// life has registered, which freed its shards.
    pub fn handle_former_lapsed(&mut self, now: Instant, node: NodeId) {
        if self.book.phase != CoordPhase::Idle {
            self.at(now).0.handle_former_lapsed(node);
        }
    }

    /// Does a bounded batch of what is due; [`Self::poll_timeout`] stays due if more is left.
    ///
    /// The strategy's `rebalance` counts as one step, whatever it costs.
    pub fn handle_timeout(&mut self, now: Instant) {
        let (mut ledger, strategy) = self.at(now);
        if !ledger.book.acts() {
            return;
        }
        let budget = ledger.vacate(BATCH, strategy);
        let budget = ledger.drain_leaving(budget);
        let budget = ledger.repeat(budget);
        let budget = ledger.give_up_overdue(budget, strategy);
        let budget = ledger.place_wanted(budget, strategy);
        ledger.keep(budget, strategy);
        if !ledger.book.changed.is_empty() && ledger.book.announce_at <= ledger.book.now {
            ledger.announce_now();
        }
        ledger.rebalance(strategy);
    }

    /// When to call [`Self::handle_timeout`]. A time that has passed: now. O(1).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let book = &self.book;
        if !book.acts() {
            return None;
        }
        if !book.vacating.is_empty() || !book.leaving.is_empty() || book.is_keeping(&self.config) {
            return Some(book.now);
        }
        let shards = self.storage.shards();
        let slot = |shard: Option<u32>| shards.get(shard? as usize);
        let retry = slot(book.retry.front()).map(|slot| book.time_of(slot.retry_at));
        let overdue = slot(book.deadlines.front()).map(|slot| book.time_of(slot.deadline));
        let announce = (!book.announcing && !book.changed.is_empty()).then_some(book.announce_at);
        let at = earliest(retry, overdue);
        let at = earliest(at, announce);
        let at = earliest(at, book.wanted_at);
        earliest(at, book.rebalance_at)
    }

    /// What the node shall do next; poll until `None`. O(1).
    pub fn poll_command(&mut self) -> Option<CoordinatorCommand<'_>> {
        if self.book.phase == CoordPhase::Idle {
            return None;
        }
        let tables = self.storage.tables();
        let mut ledger = ledger(&self.config, &mut self.book, tables);
        match ledger.next_said(&mut self.scratch)? {
            Said::Command(command) => Some(command),
            Said::Homes(frame) => {
                let bytes = self.scratch.get(..frame.len).unwrap_or(&[]);
                Some(CoordinatorCommand::Send {
                    to: frame.to,
                    control: Control::ShardMapUpdate(ShardMapUpdate {
                        version: frame.version,
                        last: frame.last,
                        homes: Homes::from_bytes(bytes),
                    }),
                })
            }
        }
    }

    /// Where a shard lives; `None` while it has no home, or is being handed off. O(1).
    #[must_use]
    pub fn home(&self, shard: ShardId) -> Option<Home> {
        let slot = self.live(shard)?;
        let node = self.storage.nodes().get(usize::from(slot.owner))?.node;
        (slot.phase() == Phase::Allocated).then_some(Home {
            node,
            epoch: slot.epoch,
        })
    }

    /// State of a shard; `None` out of range, or while there is no reign. O(1).
    #[must_use]
    pub fn shard_state(&self, shard: ShardId) -> Option<CoordShardState> {
        if self.book.phase == CoordPhase::Idle || shard.0 >= self.config.shard_count {
            return None;
        }
        let state = self.live(shard).map(|slot| match slot.phase() {
            Phase::Unallocated => CoordShardState::Unallocated,
            Phase::HandingOff => CoordShardState::HandingOff,
            Phase::Allocated => CoordShardState::Allocated {
                started: slot.has(flag::STARTED),
            },
        });
        Some(state.unwrap_or(CoordShardState::Unallocated))
    }

    /// The slot of a shard, unless it belongs to a session that has ended.
    fn live(&self, shard: ShardId) -> Option<&CoordShardSlot> {
        let slot = self.storage.shards().get(shard.0 as usize)?;
        let leads = self.book.phase != CoordPhase::Idle && shard.0 < self.config.shard_count;
        (leads && !is_stale(slot, self.storage.nodes())).then_some(slot)
    }

    /// How many shards a node owns, those being handed off included. O(log nodes).
    #[must_use]
    pub fn owned_by(&self, node: NodeId) -> u32 {
        let nodes = self.storage.nodes();
        members::find(nodes, self.book.order_len, node)
            .and_then(|index| nodes.get(usize::from(index)))
            .map_or(0, |slot| slot.owned.len().saturating_add(slot.moving.len()))
    }

    /// Whether a node's region is registered in this reign. O(log nodes).
    #[must_use]
    pub fn is_registered(&self, node: NodeId) -> bool {
        let nodes = self.storage.nodes();
        members::find(nodes, self.book.order_len, node)
            .and_then(|index| nodes.get(usize::from(index)))
            .is_some_and(|slot| slot.registered)
    }

    /// What this coordinator is doing.
    #[must_use]
    pub const fn phase(&self) -> CoordPhase {
        self.book.phase
    }

    /// The reign, while there is one.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        (self.book.phase != CoordPhase::Idle).then_some(self.book.term)
    }

    /// How many shards are used: the shard count, unless the type is [`KeepShards::First`](super::KeepShards::First).
    #[must_use]
    pub const fn used_shards(&self) -> u32 {
        self.book.used(&self.config)
    }

    /// How many shards are being handed off.
    #[must_use]
    pub const fn moves_in_flight(&self) -> u32 {
        self.book.in_flight
    }

    /// What was counted since [`Self::new`].
    #[must_use]
    pub const fn stats(&self) -> &CoordinatorStats {
        &self.book.stats
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &CoordinatorConfig {
        &self.config
    }

    /// The strategy, for instance to change what is pinned. Call [`Self::rebalance`] afterwards.
    pub const fn strategy_mut(&mut self) -> &mut A {
        &mut self.strategy
    }

    /// Lets the strategy look for moves at the next [`Self::handle_timeout`], which is due at once.
    pub fn rebalance(&mut self, now: Instant) {
        let (ledger, _) = self.at(now);
        ledger.book.rebalance_at = Some(ledger.book.now);
    }

    /// Everything, for an input at `now`; time does not run backwards.
    fn at(&mut self, now: Instant) -> (Ledger<'_>, &mut dyn AllocationStrategy) {
        self.book.now = self.book.now.max(now);
        let tables = self.storage.tables();
        (
            ledger(&self.config, &mut self.book, tables),
            &mut self.strategy,
        )
    }
}

fn ledger<'a>(
    config: &'a CoordinatorConfig,
    book: &'a mut Book,
    tables: CoordinatorTables<'a>,
) -> Ledger<'a> {
    let shards = tables
        .shards
        .get_mut(..config.shard_count as usize)
        .unwrap_or(&mut []);
    Ledger {
        config,
        book,
        shards,
        nodes: tables.nodes,
        candidates: tables.candidates,
    }
}

impl Ledger<'_> {
    /// Members stay.
    fn forget_reign(&mut self) {
        let hears = self.config.trust;
        for node in &mut *self.nodes {
            node.forget_reign(hears);
        }
        self.book.forget_reign();
    }

    fn handle_control(
        &mut self,
        from: NodeId,
        term: Term,
        control: &Control<'_>,
        strategy: &mut dyn AllocationStrategy,
    ) -> Result<(), ControlError> {
        if self.book.phase == CoordPhase::Idle {
            return Err(ControlError::NotLeading);
        }
        if term != self.book.term {
            return Err(ControlError::Term {
                current: self.book.term,
                found: term,
            });
        }
        let from = self.member(from).ok_or(ControlError::NotMember)?;
        match control {
            Control::Register(part) => self.register(from, part),
            Control::Deregister(what) => self.deregister(from, *what),
            Control::GetShardHome(what) => {
                if !self.node(from).is_some_and(|node| node.registered) {
                    return Err(ControlError::NotRegistered);
                }
                self.get_shard_home(from, what.shard, strategy)
            }
            Control::ShardStarted(what) => self.shard_started(from, *what),
            Control::HandOffComplete(what) => self.hand_off_complete(from, *what, strategy),
            Control::Resize(what) => self.resize(from, *what),
            Control::EntityStarted(note) | Control::EntityStopped(note) => {
                self.entity_note(from, note)
            }
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Has no effect. Who lives is written by the owner of a shard to a store that every node can read, under the
    /// shard's epoch, and refused by it under a lower one: nobody else can, and no leader has to keep it. The frames stay
    /// reserved for stores that a coordinator keeps.
    fn entity_note(&self, from: u16, note: &EntityNote<'_>) -> Result<(), ControlError> {
        match self.live_owner(note.shard.0) {
            Some((owner, epoch, _)) if owner == from && epoch == note.epoch => Ok(()),
            _ => Err(ControlError::NotOwner),
        }
    }

    /// Claims of registrations that were not completed until the barrier: no lease was extended for them, and those of
    /// predecessors are over.
    fn forget_unfinished(&mut self) {
        for index in 0..u16::try_from(self.nodes.len()).unwrap_or(NOBODY) {
            let unfinished = self.node(index).is_some_and(|node| {
                !node.registered && (node.session > node.ended || !node.was_registered)
            });
            if unfinished {
                self.end_session(index, Freed::Lapsed);
                if let Some(node) = self.node_mut(index) {
                    node.session = None;
                }
                self.vacated(index);
            }
        }
    }
}
