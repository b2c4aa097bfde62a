//! The one task that owns the core: takes the time once per turn, does what is due, then what came in, then writes
//! once to every link that has something. It decides nothing of the protocol.

mod apply;
mod commands;
mod links;
mod net;

use core::future::poll_fn;
use core::mem;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use shard_proto::membership::MemberChange;
use shard_proto::node::{
    DialId, EntityKey, Node as Core, Strategy, StreamIndex, TypeConfig, TypeIndex,
};
use shard_proto::region::ResizeError;
use shard_proto::{Epoch, Instant, ShardId, Term, earliest};
use tokio::sync::oneshot;

use crate::arrivals::Place;
use crate::ask::Asks;
use crate::body::Body;
use crate::error::{LeaveError, TypeError};
use crate::host::{Effect, Host};
use crate::lock::lock;
use crate::shared::{Input, NodeShared};
use crate::transport::{Connection, Transport};
pub(crate) use links::ConnId;
use links::Links;

/// What a handle wants of the driver.
pub(crate) enum Command {
    AddType {
        name: &'static str,
        config: TypeConfig,
        strategy: Strategy,
        make: MakeHost,
    },
    Member(MemberChange, Option<String>),
    StopType(TypeIndex, oneshot::Sender<()>),
    /// Answers whether the entity runs here.
    Passivate(TypeIndex, EntityKey, oneshot::Sender<bool>),
    /// How many shards of the type are to be used.
    Resize(TypeIndex, u32, oneshot::Sender<Result<(), ResizeError>>),
    /// `true`: also if it ends the quorum.
    Leave(oneshot::Sender<Result<(), LeaveError>>, bool),
    /// Who leads is decided elsewhere.
    Lead(Option<Term>),
    /// `None`: the last handle is gone.
    Shutdown(Option<oneshot::Sender<()>>),
}

/// Makes the host of a type once its index is known, and tells whoever waits.
pub(crate) type MakeHost =
    Box<dyn FnOnce(Result<TypeIndex, TypeError>) -> Option<Box<dyn Host>> + Send>;

/// What happens on connections.
pub(crate) enum NetEvent {
    Accepted(Connection, Place),
    Dialed(DialId, String, io::Result<Connection>),
    Read(ConnId, StreamIndex, bytes::BytesMut),
    Closed(ConnId, Option<io::Error>),
}

/// How far the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// `leave` was called.
    Leaving,
    /// `shutdown` was called: entities stop.
    Stopping {
        give_up: Instant,
    },
    /// They have stopped: the others are told.
    Parting {
        give_up: Instant,
    },
    /// Nothing left but to write what the links still have.
    Ended,
}

pub(crate) struct Driver {
    core: Core<Body>,
    /// What came in and is not looked at yet.
    batch: VecDeque<Input>,
    /// The time of this turn, or of this slice of it.
    now: Instant,
    /// Steps since the turn began.
    steps: u32,
    max_clock_ahead: Duration,
    /// When the core last heard of the wall clock.
    floor_at: Instant,
    /// The driver's own.
    waker: Waker,
    shared: Arc<NodeShared>,
    transport: Arc<dyn Transport>,
    /// By [`TypeIndex`].
    hosts: Vec<Option<Box<dyn Host>>>,
    asks: Asks,
    links: Links,
    /// Shards that run here.
    hosted: usize,
    /// When to abort the entities of stopping shards; `true`: they were, and are given up next.
    aborts: BTreeMap<(Instant, TypeIndex, ShardId), (Epoch, bool)>,
    /// Messages of one shard that left the long way in a row.
    settling: Option<(TypeIndex, ShardId, u32)>,
    effects: Vec<Effect>,
    failed_dials: HashMap<String, u32>,
    refused_connections: u64,
    phase: Phase,
    leavers: Vec<oneshot::Sender<Result<(), LeaveError>>>,
    stoppers: Vec<oneshot::Sender<()>>,
    /// Types that stop while the node goes on.
    stopping_types: Vec<(TypeIndex, oneshot::Sender<()>)>,
    stopped_types: BTreeSet<&'static str>,
    left: bool,
}

/// How often the core hears of the wall clock.
const FLOOR_INTERVAL: Duration = Duration::from_secs(1);

/// How long entities have to stop in `shutdown`, and how long the others are told about it.
const STOP: Duration = Duration::from_secs(8);
const PART: Duration = Duration::from_secs(2);
/// A turn that lasts longer looks at the clock again.
const SLICE: Duration = Duration::from_millis(5);
/// How long an aborted entity has until it is given up: it blocks its thread.
const ABORTED: Duration = Duration::from_millis(500);

impl Driver {
    pub(crate) fn new(
        core: Core<Body>,
        shared: Arc<NodeShared>,
        transport: Arc<dyn Transport>,
        max_clock_ahead: Duration,
    ) -> Self {
        Self {
            core,
            batch: VecDeque::new(),
            now: shared.clock.now(),
            steps: 0,
            max_clock_ahead,
            floor_at: Instant::ZERO,
            waker: Waker::noop().clone(),
            links: Links::new(Arc::clone(&shared)),
            shared,
            transport,
            hosts: Vec::new(),
            asks: Asks::default(),
            hosted: 0,
            aborts: BTreeMap::new(),
            settling: None,
            effects: Vec::new(),
            failed_dials: HashMap::new(),
            refused_connections: 0,
            phase: Phase::Running,
            leavers: Vec::new(),
            stoppers: Vec::new(),
            stopping_types: Vec::new(),
            stopped_types: BTreeSet::new(),
            left: false,
        }
    }

    pub(crate) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut sleep = shared.runtime.sleep(Duration::ZERO);
        let mut armed = None;
        loop {
            shared.inbox.take(&mut self.batch);
            poll_fn(|cx| {
                self.turn(cx);
                Poll::Ready(())
            })
            .await;
            if self.phase == Phase::Ended {
                break;
            }
            let deadline = self.deadline();
            if deadline != armed {
                armed = deadline;
                if let Some(deadline) = deadline {
                    let after = deadline.since(shared.clock.now());
                    sleep.as_mut().reset(after.min(LONGEST));
                }
            }
            poll_fn(|cx| {
                let input = shared.inbox.poll_ready(cx).is_ready();
                let due = armed.is_some() && sleep.as_mut().poll(cx).is_ready();
                if due {
                    armed = None;
                }
                if self.links.poll(cx) || input || due {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            // Whoever is ready to run may have something for this turn: one write then carries it all.
            yield_once().await;
        }
        self.links.finish(&mut self.core).await;
        // What is left to do is done when this is dropped.
    }

    fn deadline(&self) -> Option<Instant> {
        let abort = self.aborts.keys().next().map(|(at, ..)| *at);
        let give_up = match self.phase {
            Phase::Stopping { give_up } | Phase::Parting { give_up } => Some(give_up),
            _ => None,
        };
        let own = earliest(earliest(abort, give_up), self.links.deadline());
        let hosts = self.hosts.iter().flatten();
        let entities = hosts.map(|host| host.deadline()).fold(None, earliest);
        earliest(earliest(self.core.poll_timeout(), entities), own)
    }

    /// One turn: what is due first, so that no flood of input delays it.
    fn turn(&mut self, cx: &mut Context<'_>) {
        self.now = self.shared.clock.now();
        self.waker.clone_from(cx.waker());
        self.expire();
        while let Some(input) = self.batch.pop_front() {
            self.input(input);
            if self.step() {
                self.commands();
            }
        }
        for (id, stream) in self.links.released(self.now) {
            self.read_on(id, stream);
        }
        self.commands();
        self.settle_all();
        self.advance();
        self.write();
        self.links.write_unblocked(&mut self.core, cx);
        for (index, host) in (0..).map(TypeIndex).zip(&self.hosts) {
            if let Some(host) = host {
                host.turned(self.core.buffered(index));
                if let Some((used, asking)) = self.core.used_shards(index) {
                    host.sized(used, asking);
                }
            }
        }
    }

    fn write(&mut self) {
        // First, so that whoever hears of something finds it counted.
        *lock(&self.shared.stats) = *self.core.stats();
        let mut cx = Context::from_waker(&self.waker);
        while let Some(link) = self.core.links_to_flush() {
            self.links.write(link, &mut self.core, &mut cx);
        }
    }

    /// After each piece of work that a turn may have thousands of: a long turn does what comes due meanwhile, so that
    /// this node's beats are not late, and others do not take its shards away. Whether that may have left commands.
    #[inline]
    fn step(&mut self) -> bool {
        const STEPS: u32 = 64;
        self.steps = self.steps.wrapping_add(1);
        self.steps.is_multiple_of(STEPS) && self.look_up()
    }

    /// Does what is due if the clock has gone on.
    #[cold]
    fn look_up(&mut self) -> bool {
        let now = self.shared.clock.now();
        if now.since(self.now) < SLICE {
            return false;
        }
        self.now = now;
        if self.core.poll_timeout().is_some_and(|at| at <= now) {
            self.core.handle_timeout(now);
            // Beats are on their way with the first; whoever called goes on with the rest.
            if let Some(command) = self.core.poll_command() {
                self.obey(command);
            }
        }
        self.write();
        true
    }

    fn expire(&mut self) {
        /// Batches per turn; the core leaves a due deadline if there is more.
        const BATCHES: usize = 64;
        if self.now.since(self.floor_at) >= FLOOR_INTERVAL {
            self.floor_at = self.now;
            self.core
                .handle_term_floor(self.now, crate::clock::term_floor());
            let limit = crate::clock::incarnation_limit(self.max_clock_ahead);
            self.core.handle_incarnation_limit(self.now, limit);
        }
        for _ in 0..BATCHES {
            if self.core.poll_timeout().is_none_or(|at| at > self.now) {
                break;
            }
            self.core.handle_timeout(self.now);
            self.commands();
        }
        self.commands();
        for index in (0..).map(TypeIndex).take(self.hosts.len()) {
            for _ in 0..BATCHES {
                let now = self.now;
                let due = self.host(index).and_then(|host| host.deadline());
                if due.is_none_or(|at| at > now) {
                    break;
                }
                self.with_host(index, |host, desk| host.expire(desk));
                self.commands();
            }
        }
        while let Some(entry) = self.aborts.first_entry() {
            let (at, ty, shard) = *entry.key();
            if at > self.now {
                break;
            }
            let (epoch, aborted) = entry.remove();
            self.abort(ty, shard, epoch, aborted);
            self.commands();
        }
    }

    /// Goes on with the end of types and of the node.
    fn advance(&mut self) {
        let now = self.now;
        for (ty, stopper) in mem::take(&mut self.stopping_types) {
            match self.host(ty) {
                Some(host) if host.is_hosting() => self.stopping_types.push((ty, stopper)),
                Some(host) => {
                    host.end(now);
                    let _ = stopper.send(());
                }
                None => {}
            }
        }
        if let Phase::Stopping { give_up } = self.phase
            && (self.hosted == 0 || give_up <= self.now)
        {
            // Nothing is left to hand over: this only tells the others.
            let _ = self.core.leave(self.now, true);
            self.phase = Phase::Parting {
                give_up: self.now.after(PART),
            };
            self.commands();
        }
        if let Phase::Parting { give_up } = self.phase
            && give_up <= self.now
        {
            self.phase = Phase::Ended;
        }
    }

    fn host(&mut self, ty: TypeIndex) -> Option<&mut Box<dyn Host>> {
        self.hosts.get_mut(usize::from(ty.0))?.as_mut()
    }

    /// A message of this node left the long way. Counted together with those before it, if they are of one shard.
    fn settle(&mut self, ty: TypeIndex, shard: ShardId) {
        match &mut self.settling {
            Some((last, same, count)) if *last == ty && *same == shard => *count += 1,
            _ => {
                self.settle_all();
                self.settling = Some((ty, shard, 1));
            }
        }
    }

    fn settle_all(&mut self) {
        if let Some((ty, shard, count)) = self.settling.take()
            && let Some(gate) = self.host(ty).and_then(|host| host.gate(shard))
        {
            gate.settle(count);
        }
    }

    /// Closes everything. What waits is told.
    fn close(&mut self) {
        self.shared.end();
        for host in self.hosts.iter_mut().flatten() {
            host.end(self.now);
        }
        let mut rest = mem::take(&mut self.batch);
        rest.append(&mut self.shared.inbox.take_rest());
        for input in rest {
            self.discard(input);
        }
        self.settle_all();
        self.asks.fail_all();
        self.shared.reports.end();
        *lock(&self.shared.stats) = *self.core.stats();
        for leaver in mem::take(&mut self.leavers) {
            let _ = leaver.send(if self.left {
                Ok(())
            } else {
                Err(LeaveError::Stopped)
            });
        }
        for stopper in mem::take(&mut self.stoppers) {
            let _ = stopper.send(());
        }
    }
}

impl Drop for Driver {
    /// At the end of the node; also if it comes early, because the runtime goes down or the driver panics: callers on
    /// other runtimes must not wait for it.
    fn drop(&mut self) {
        self.close();
    }
}

/// As long as a timer is ever set.
const LONGEST: Duration = Duration::from_secs(3600);

/// Lets every task run that is ready now.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        // Woken while it runs, a task goes behind those that are ready.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
