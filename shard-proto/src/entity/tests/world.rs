//! Entities among tasks, a store and callers, all of them simulated, and what must hold whatever they do.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::super::{
    Delivered, End, Entities, EntityCommand, EntityConfig, EntityPhase, EntitySlot, Refusal,
};
use super::harness::{epoch, ms};
use crate::node::EntityKey;
use crate::{Epoch, Instant, ShardId};

pub(super) const KEYS: usize = 9;
const SHARDS: usize = 3;

fn key(id: usize) -> EntityKey {
    EntityKey::new(&[id as u8])
}

fn id(key: &EntityKey) -> usize {
    usize::from(key.as_bytes()[0])
}

fn shard(id: usize) -> ShardId {
    ShardId((id % SHARDS) as u32 * 10)
}

/// A message: whose, and which one of its.
type Payload = (usize, u32);

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Handled,
    GivenBack,
    Rejected,
    Refused,
    /// Handed back by a task that had been given up.
    Reported,
}

#[derive(Debug)]
struct Task {
    slot: EntitySlot,
    id: usize,
    mailbox: VecDeque<Payload>,
    started: bool,
    published: bool,
    closed: bool,
    aborted: bool,
    /// It ended, and has not said so.
    dead: Option<End>,
    /// Its shard was abandoned.
    lost: bool,
}

/// What a task does next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Start, handle a message, or stop if it shall.
    Work,
    /// Fail, at what it is doing.
    Fail,
    /// Fail, and say so later.
    Die,
    /// Stop by itself.
    Leave,
    /// Ask to be passivated.
    Passivate,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// A message by way of the region.
    Send(usize),
    /// A message of a caller on this node: past everything, if it finds the mailbox.
    Direct(usize),
    Poll(usize),
    Act(usize, Act),
    Pass(u64),
    Start(usize),
    Stop(usize),
    Abort(usize),
    Abandon(usize),
    /// The store answers what it was told first.
    Answer(bool),
    /// All that the store knows of a shard is loaded.
    Load(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    No(Epoch),
    Yes(Epoch),
    Stopping(Epoch),
}

pub(super) struct World {
    it: Entities<Payload>,
    config: EntityConfig,
    now: Instant,
    tasks: Vec<Task>,
    shards: [Serving; SHARDS],
    /// What shards were told of aborting.
    forced: [bool; SHARDS],
    /// Who lives, as far as the store knows.
    store: [bool; KEYS],
    asked: VecDeque<(usize, Epoch, bool)>,
    sent: [u32; KEYS],
    fates: BTreeMap<Payload, Fate>,
    /// The message of each whose fate was decided last.
    last: [Option<u32>; KEYS],
    /// What is kept, by shard.
    kept: [usize; SHARDS],
}

impl World {
    pub(super) fn new(config: EntityConfig) -> Self {
        let now = Instant::from_micros(5);
        Self {
            it: Entities::new(now, config.clone()).unwrap(),
            config,
            now,
            tasks: Vec::new(),
            shards: [Serving::No(epoch(1)); SHARDS],
            forced: [false; SHARDS],
            store: [false; KEYS],
            asked: VecDeque::new(),
            sent: [0; KEYS],
            fates: BTreeMap::new(),
            last: [None; KEYS],
            kept: [0; SHARDS],
        }
    }

    fn decide(&mut self, payload: Payload, fate: Fate) {
        let before = self.fates.insert(payload, fate);
        assert_eq!(before, None, "{payload:?} ends twice, now {fate:?}");
        if !matches!(fate, Fate::Refused | Fate::Reported) {
            let last = self.last[payload.0].replace(payload.1);
            assert!(
                last < Some(payload.1),
                "{payload:?} {fate:?} after {last:?}"
            );
        }
    }

    fn task(&mut self, slot: EntitySlot) -> &mut Task {
        let task = self.tasks.iter_mut().find(|task| task.slot == slot);
        task.expect("a command for a task that is none")
    }

    fn push(&mut self, slot: EntitySlot, payload: Payload) {
        let task = self.task(slot);
        assert_eq!(task.id, payload.0);
        assert!(!task.lost && !task.closed, "{task:?} gets {payload:?}");
        if task.dead.is_none() {
            task.mailbox.push_back(payload);
            return;
        }
        assert_eq!(self.it.undelivered(self.now, slot, payload), Ok(()));
        self.kept[payload.0 % SHARDS] += 1;
    }

    fn send(&mut self, id: usize) {
        let payload = (id, self.sent[id]);
        self.sent[id] += 1;
        let Serving::Yes(epoch) = self.shards[id % SHARDS] else {
            let (Serving::No(epoch) | Serving::Stopping(epoch) | Serving::Yes(epoch)) =
                self.shards[id % SHARDS];
            let delivered = self
                .it
                .deliver(self.now, shard(id), epoch, &key(id), payload);
            let reason = Refusal::NotHosted;
            assert_eq!(delivered, Delivered::Refused { reason, payload });
            return self.decide(payload, Fate::Refused);
        };
        let kept = self.kept;
        match self
            .it
            .deliver(self.now, shard(id), epoch, &key(id), payload)
        {
            Delivered::Mailbox { slot, payload } => self.push(slot, payload),
            Delivered::Kept => self.kept[id % SHARDS] += 1,
            Delivered::Refused { reason, payload } => {
                let full = kept.iter().sum::<usize>() >= self.config.keep as usize
                    || kept[id % SHARDS] >= self.config.keep_per_shard as usize;
                match reason {
                    Refusal::KeepFull => assert!(full),
                    Refusal::TooMany => assert_eq!(self.it.used(), 2 * self.config.max_entities),
                    Refusal::Parked => {
                        let phase = self.it.phase(&key(id));
                        assert_eq!(phase, Some(EntityPhase::Parked));
                    }
                    Refusal::NotHosted => panic!("it is hosted"),
                }
                self.decide(payload, Fate::Refused);
            }
        }
    }

    fn direct(&mut self, id: usize) {
        let serving = matches!(self.shards[id % SHARDS], Serving::Yes(_));
        let task = self.tasks.iter_mut().find(|task| {
            serving && task.id == id && task.published && !task.closed && task.dead.is_none()
        });
        let Some(task) = task.filter(|task| !task.lost) else {
            return self.send(id);
        };
        task.mailbox.push_back((id, self.sent[id]));
        self.sent[id] += 1;
    }

    fn carry_out(&mut self, command: EntityCommand<Payload>) {
        match command {
            EntityCommand::Start {
                slot,
                shard: at,
                epoch,
                key,
            } => {
                let id = id(&key);
                assert_eq!(at, shard(id));
                assert_eq!(self.shards[id % SHARDS], Serving::Yes(epoch));
                let twin = self.tasks.iter().find(|task| task.id == id && !task.lost);
                assert!(twin.is_none(), "{id} lives twice: {twin:?}");
                assert!(self.tasks.iter().all(|task| task.slot != slot));
                assert!(
                    self.store[id] || !self.config.remember,
                    "{id} is not remembered"
                );
                self.tasks.push(Task {
                    slot,
                    id,
                    mailbox: VecDeque::new(),
                    started: false,
                    published: false,
                    closed: false,
                    aborted: false,
                    dead: None,
                    lost: false,
                });
                let live = self.tasks.iter().filter(|task| !task.lost).count();
                assert!(live <= 2 * self.config.max_entities as usize);
            }
            EntityCommand::Deliver { slot, payload } => {
                assert!(!self.task(slot).published);
                self.kept[payload.0 % SHARDS] -= 1;
                self.push(slot, payload);
            }
            EntityCommand::Publish { slot } => {
                let task = self.task(slot);
                assert!(!task.published);
                task.published = true;
            }
            EntityCommand::Close { slot } => {
                let task = self.task(slot);
                assert!(!task.closed && !task.lost);
                task.closed = true;
            }
            EntityCommand::Abort { slot } => {
                let task = self.task(slot);
                assert!(!task.aborted && !task.lost);
                (task.aborted, task.closed) = (true, true);
                let id = task.id;
                self.forced[id % SHARDS] = true;
            }
            EntityCommand::GiveBack {
                shard: at,
                epoch,
                key,
                payload,
            } => {
                let id = id(&key);
                assert_eq!((at, id), (shard(id), payload.0));
                assert_eq!(self.shards[id % SHARDS], Serving::Stopping(epoch));
                self.kept[id % SHARDS] -= 1;
                self.decide(payload, Fate::GivenBack);
            }
            EntityCommand::Reject {
                key,
                reason,
                payload,
                ..
            } => {
                assert_eq!((id(&key), reason), (payload.0, Refusal::Parked));
                self.kept[payload.0 % SHARDS] -= 1;
                self.decide(payload, Fate::Rejected);
            }
            EntityCommand::ShardStopped {
                shard: at,
                epoch,
                forced,
            } => {
                let at = at.0 as usize / 10;
                assert_eq!(self.shards[at], Serving::Stopping(epoch));
                let task = self
                    .tasks
                    .iter()
                    .find(|task| task.id % SHARDS == at && !task.lost);
                assert!(task.is_none(), "stopped, but for {task:?}");
                assert_eq!(self.kept[at], 0);
                assert_eq!(forced, self.forced[at]);
                self.forced[at] = false;
                let next = Epoch::from_bits(epoch.to_bits() + 1);
                self.shards[at] = Serving::No(next);
                // The store's fence: later writes of the old allocation do nothing.
                self.asked.retain(|(id, _, _)| id % SHARDS != at);
            }
            EntityCommand::Record {
                shard: at,
                epoch,
                key,
                alive,
            } => {
                let id = id(&key);
                assert_eq!(at, shard(id));
                assert!(self.asked.iter().all(|(asked, _, _)| *asked != id));
                self.asked.push_back((id, epoch, alive));
            }
        }
    }

    fn poll(&mut self) -> bool {
        let Some(command) = self.it.poll_command() else {
            return false;
        };
        self.it.validate();
        self.carry_out(command);
        true
    }

    fn end_task(&mut self, at: usize, end: End) {
        let task = self.tasks.remove(at);
        let rest = task.mailbox.len();
        match self.it.ended(self.now, task.slot, end, task.mailbox) {
            Ok(()) => {
                assert!(!task.lost);
                self.kept[task.id % SHARDS] += rest;
            }
            Err(rest) => {
                assert!(task.lost, "its life should be known");
                for payload in rest {
                    self.decide(payload, Fate::Reported);
                }
            }
        }
    }

    fn handle_one(&mut self, at: usize) -> bool {
        let payload = self.tasks[at].mailbox.pop_front();
        if let Some(payload) = payload {
            self.decide(payload, Fate::Handled);
        }
        payload.is_some()
    }

    /// Whether it did something.
    fn act(&mut self, at: usize, act: Act) -> bool {
        let now = self.now;
        let task = &mut self.tasks[at];
        let slot = task.slot;
        if let Some(end) = task.dead {
            self.end_task(at, end);
            return true;
        }
        if task.aborted || task.lost {
            self.end_task(at, End::Aborted);
            return true;
        }
        match act {
            Act::Work if task.closed => self.end_task(at, End::Stopped),
            Act::Work if !task.started => {
                task.started = true;
                self.it.started(now, slot);
            }
            Act::Work => {
                if !self.handle_one(at) {
                    return false;
                }
                self.it.touched(now, slot);
            }
            Act::Fail => {
                if task.started {
                    self.handle_one(at);
                }
                self.end_task(at, End::Failed);
            }
            Act::Die => task.dead = Some(End::Failed),
            Act::Leave => self.end_task(at, End::Stopped),
            Act::Passivate => self.it.passivate(now, slot),
        }
        true
    }

    pub(super) fn step(&mut self, op: Op) {
        match op {
            Op::Send(id) => self.send(id),
            Op::Direct(id) => self.direct(id),
            Op::Poll(times) => {
                let _ = (0..times).take_while(|_| self.poll()).count();
            }
            Op::Act(at, act) => {
                if !self.tasks.is_empty() {
                    self.act(at % self.tasks.len(), act);
                }
            }
            Op::Pass(millis) => {
                self.now = self.now.after(ms(millis));
                if self.it.poll_timeout().is_some_and(|at| at <= self.now) {
                    self.it.handle_timeout(self.now);
                }
            }
            Op::Start(at) => {
                if let Serving::No(epoch) = self.shards[at] {
                    self.it.start_shard(self.now, shard(at), epoch);
                    self.shards[at] = Serving::Yes(epoch);
                }
            }
            Op::Stop(at) => {
                let (Serving::No(epoch) | Serving::Yes(epoch) | Serving::Stopping(epoch)) =
                    self.shards[at];
                self.it.stop_shard(self.now, shard(at), epoch);
                self.shards[at] = Serving::Stopping(epoch);
            }
            Op::Abort(at) => {
                let (Serving::No(epoch) | Serving::Yes(epoch) | Serving::Stopping(epoch)) =
                    self.shards[at];
                let aborted = self.it.abort_shard(self.now, shard(at), epoch);
                let live = self.tasks.iter();
                let live = live
                    .filter(|task| task.id % SHARDS == at && !task.lost)
                    .count();
                let stops = matches!(self.shards[at], Serving::Stopping(_));
                assert_eq!(aborted, if stops { live } else { 0 });
            }
            Op::Abandon(at) => {
                let Serving::Stopping(epoch) = self.shards[at] else {
                    return;
                };
                self.it.abandon_shard(self.now, shard(at), epoch);
                for task in &mut self.tasks {
                    if task.id % SHARDS == at && !task.lost {
                        task.lost = true;
                        self.forced[at] = true;
                    }
                }
            }
            Op::Answer(done) => {
                if let Some((id, epoch, alive)) = self.asked.pop_front() {
                    if done {
                        self.store[id] = alive;
                    }
                    self.it
                        .recorded(self.now, shard(id), epoch, &key(id), alive, done);
                }
            }
            Op::Load(at) => {
                let (Serving::No(epoch) | Serving::Yes(epoch) | Serving::Stopping(epoch)) =
                    self.shards[at];
                // While it is served, what is under way could be loaded halfway.
                let served = matches!(self.shards[at], Serving::Yes(_)) && !self.asked.is_empty();
                for id in (0..KEYS).filter(|id| id % SHARDS == at && !served) {
                    if self.store[id] || !self.config.remember {
                        self.it.remembered(self.now, shard(id), epoch, key(id));
                    }
                }
            }
        }
        self.it.validate();
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.it.kept(), self.kept.iter().sum::<usize>());
        let live = self.tasks.iter().filter(|task| !task.lost);
        assert_eq!(self.it.running(), live.count());
    }

    /// From now on everything goes well: all must come to its end, and nobody may stay.
    pub(super) fn settle(&mut self) {
        for at in 0..SHARDS {
            // What was loaded for a shard that was never served is given up.
            if matches!(self.shards[at], Serving::No(_)) {
                self.step(Op::Stop(at));
            }
        }
        let end = self.now.after(Duration::from_secs(3600));
        for _ in 0..10_000 {
            while self.poll() {}
            self.it.validate();
            let mut moved = false;
            while !self.asked.is_empty() {
                self.step(Op::Answer(true));
                moved = true;
            }
            for at in (0..self.tasks.len()).rev() {
                moved |= self.act(at, Act::Work);
            }
            self.it.validate();
            if moved {
                continue;
            }
            let Some(at) = self.it.poll_timeout() else {
                break;
            };
            self.now = self.now.max(at);
            assert!(self.now < end, "timers without end");
            self.it.handle_timeout(self.now);
        }
        self.check();
        assert_eq!(self.it.kept(), 0, "messages that nobody wakes");
        for task in &self.tasks {
            assert!(task.mailbox.is_empty(), "{task:?}");
        }
        for at in self.shards {
            assert!(!matches!(at, Serving::Stopping(_)), "a shard does not stop");
        }
        let sent: usize = self.sent.iter().map(|sent| *sent as usize).sum();
        assert_eq!(self.fates.len(), sent, "a message is lost");
        assert!(self.it.queued() == 0 || self.it.is_full());
        if !self.config.passivate_after.is_zero() {
            assert_eq!(self.it.used(), 0, "somebody stays");
            let parked = (0..KEYS).find(|id| self.it.phase(&key(*id)).is_some());
            assert!(parked.is_none() || self.it.queued() > 0, "{parked:?} stays");
            assert!(self.tasks.is_empty());
        }
    }
}
