//! The cluster: made, run step by step, and asked.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::cluster::{Core, Running};
use super::event::What;
use super::machine::Machine;
use super::net::NOBODY;
use super::{
    Checker, ConfigError, Detectors, Failure, Fault, HeapStore, MembershipScript, News, Report,
    Schedule, Store, Strategy, Trace, Violation, WorldConfig,
};
use crate::allocation::LeastShards;
use crate::hash::{SplitMix64, mix};
use crate::leadership::Ownership;
use crate::{Home, Leader, Term, micros};

/// How often a machine may be called without the time passing.
const IDLE_CALLS: u32 = 20_000;

/// A cluster in virtual time.
pub struct World<St: Store = HeapStore> {
    pub(super) core: Core,
    pub(super) machines: Vec<Option<Machine<St>>>,
    pub(super) schedule: Schedule,
    next_fault: usize,
    /// Faults, if they were not all drawn before, so far.
    injected: Vec<(u64, Fault)>,
    pub(super) script: Box<dyn MembershipScript>,
    pub(super) script_rng: SplitMix64,
    pub(super) script_at: u64,
    pub(super) strategy: Rc<dyn Fn() -> Box<dyn Strategy>>,
    pub(super) news: Vec<(News, u32)>,
    pub(super) free_news: Vec<u32>,
    pub(super) lock: super::lock::Lock,
    started: bool,
    pub(super) calm: bool,
    pub(super) traffic_end: u64,
    end: u64,
    over: bool,
}

impl<St: Store> fmt::Debug for World<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("now", &self.core.now)
            .field("machines", &self.machines)
            .finish_non_exhaustive()
    }
}

impl<St: Store> World<St> {
    /// A world with the faults of its seed. Nothing runs yet.
    ///
    /// # Errors
    /// [`ConfigError`]: a setting that cannot work.
    pub fn new(config: WorldConfig, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        let schedule = Schedule::draw(seed, &config);
        Self::with_schedule(config, seed, schedule)
    }

    /// A world with faults of your own; everything else that is left to chance is the seed's.
    ///
    /// # Errors
    /// [`ConfigError`]: a setting that cannot work.
    pub fn with_schedule(
        config: WorldConfig,
        seed: u64,
        schedule: Schedule,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut schedule = schedule;
        schedule.faults.sort_by_key(|(at, _)| *at);
        let calm = micros(config.faulty_for) + micros(config.calm_for);
        let last = schedule.faults.last().map_or(0, |(at, _)| *at);
        let traffic_end = calm.max(last) + 1;
        // Longer than any message waits.
        let tail = config.bound();
        let script = Box::new(Detectors::new(
            seed,
            config.nodes,
            config.detection.0,
            config.detection.1,
        ));
        Ok(Self {
            machines: (0..config.nodes).map(|_| None).collect(),
            schedule,
            next_fault: 0,
            injected: Vec::new(),
            script,
            script_rng: SplitMix64::new(mix(seed ^ 0x5c21)),
            script_at: u64::MAX,
            strategy: Rc::new(|| Box::new(LeastShards::new())),
            news: Vec::new(),
            free_news: Vec::new(),
            lock: super::lock::Lock::default(),
            started: false,
            calm: false,
            traffic_end,
            end: traffic_end + micros(tail),
            over: false,
            core: Core::new(config, seed),
        })
    }

    /// Coordinators use strategies that this makes, one per type and life of a node.
    #[must_use]
    pub fn strategy(mut self, make: impl Fn() -> Box<dyn Strategy> + 'static) -> Self {
        self.strategy = Rc::new(make);
        self
    }

    /// Hosts believe what this says of each other.
    #[must_use]
    pub fn membership(mut self, script: Box<dyn MembershipScript>) -> Self {
        self.script = script;
        self
    }

    /// All hosts start, each a little later than another.
    fn start(&mut self) {
        self.started = true;
        let core = &mut self.core;
        for host in 0..core.hosts.len() {
            let at = core.hosts[host].rng.below(300_000);
            let what = What::Restart {
                host: host as u8,
                life: NOBODY,
            };
            core.events.push(at, what);
        }
        if !core.config.moves.is_zero() {
            core.events.push(micros(core.config.moves), What::Move);
        }
    }

    /// When the next thing happens.
    fn next(&self) -> (u64, Next) {
        let mut at = u64::MAX;
        let mut next = Next::Nothing;
        for (host, state) in self.core.hosts.iter().enumerate() {
            if state.wake < at {
                at = state.wake;
                next = Next::Timer(host);
            }
        }
        if self.core.events.next_at() <= at {
            at = self.core.events.next_at();
            next = Next::Event;
        }
        if let Some((fault, _)) = self.schedule.faults.get(self.next_fault)
            && *fault <= at
        {
            at = *fault;
            next = Next::Fault;
        }
        let calm = micros(self.core.config.faulty_for);
        if !self.calm && calm <= at && !matches!(next, Next::Fault if at == calm) {
            at = calm;
            next = Next::Calm;
        }
        (at, next)
    }

    /// Does what comes next. `false`: it is over.
    ///
    /// # Errors
    /// [`Violation`]: a promise is broken.
    pub fn step(&mut self) -> Result<bool, Violation> {
        if !self.started {
            self.start();
        }
        if self.over {
            return Ok(false);
        }
        let (at, next) = self.next();
        if at >= self.end {
            return self.finish();
        }
        self.core.now = self.core.now.max(at);
        self.core.report.steps += 1;
        match next {
            Next::Nothing => return self.finish(),
            Next::Calm => {
                self.calm = true;
                self.core.checker.calm(at);
            }
            Next::Fault => {
                let (_, fault) = self.schedule.faults[self.next_fault];
                self.next_fault += 1;
                self.apply(fault);
            }
            Next::Timer(host) => self.timer(host),
            Next::Event => {
                if let Some((_, what)) = self.core.events.pop() {
                    self.happen(what);
                }
            }
        }
        let tick = self.core.checker.tick(self.core.now);
        self.core.check(tick);
        match self.core.violation.take() {
            Some(violation) => {
                self.over = true;
                Err(violation)
            }
            None => Ok(true),
        }
    }

    fn finish(&mut self) -> Result<bool, Violation> {
        self.over = true;
        self.core.now = self.core.now.max(self.end.min(self.next().0));
        self.core.checker.finish(self.core.now)?;
        Ok(false)
    }

    /// Nothing is under way any more.
    fn is_at_rest(&self) -> bool {
        let links = self.core.net.links.iter();
        let mut links = links.filter(|link| link.from_life != NOBODY);
        // Who is to hear that its life is over has nothing of it any more: others have dropped what was its.
        self.news.len() == self.free_news.len()
            && links.all(|link| link.queue.is_empty())
            && self.core.hosts.iter().all(|host| {
                host.hosted
                    .iter()
                    .all(|hosted| hosted.mailbox.is_empty() && hosted.running != Running::Stopping)
            })
            && self.machines.iter().flatten().all(|machine| {
                (0..self.core.config.types).all(|ty| {
                    machine
                        .region(ty)
                        .is_none_or(|region| region.buffered() == 0 && region.flushing() == 0)
                })
            })
    }

    fn timer(&mut self, host: usize) {
        let local = self.core.local(host);
        let floor = Term(self.wall(host) / super::life::TERM_UNIT);
        let before = self.core.trace.count();
        if let Some(machine) = &mut self.machines[host] {
            machine.handle_term_floor(local, floor, &mut self.core.sink(host));
            machine.handle_timeout(local, &mut self.core.sink(host));
        }
        self.after(host);
        let state = &mut self.core.hosts[host];
        if state.wake > self.core.now || self.core.trace.count() != before {
            state.idle_calls = 0;
        } else {
            state.idle_calls += 1;
            if state.idle_calls > IDLE_CALLS {
                self.core
                    .fail_timer(host, "a timer is due again and again, and nothing happens");
            }
        }
        if self.core.now >= self.traffic_end && self.is_at_rest() {
            self.end = self.core.now;
        }
    }

    /// After every input of a process: what it wants is done, and what is known of it brought up to date.
    pub(super) fn after(&mut self, host: usize) {
        let local = self.core.local(host);
        let Some(machine) = &mut self.machines[host] else {
            return;
        };
        loop {
            machine.pump(local, &mut self.core.sink(host));
            if !core::mem::take(&mut self.core.filled) {
                break;
            }
            for to in 0..self.core.hosts.len() {
                if self.core.fills(host, to) {
                    let node = self.core.hosts[to].node;
                    machine.handle_congestion(local, node, true, &mut self.core.sink(host));
                }
            }
        }
        self.core.set_lease(host, machine.lease_until());
        let mut acting = machine.acting_until();
        if let Some((_, until)) = &mut acting {
            // With a lock from outside nobody else knows when it is over.
            *until = self.core.outside_until(host, *until);
        }
        let acts = self.core.set_acting(host, acting);
        let lead = machine.leadership();
        let (leader, taken, term) = (lead.leader(), lead.stats().terms_taken, lead.reign());
        let led = self.core.checker.led(host as u8, leader, taken, term);
        self.core.check(led);
        if machine.phase().is_over() {
            return self.end_life(host);
        }
        let state = &mut self.core.hosts[host];
        state.wake = machine
            .poll_timeout()
            .map_or(u64::MAX, |at| state.clock.when(at))
            .max(self.core.now);
        if let Some((term, until)) = acts
            && self.core.config.ownership == Ownership::Lease
        {
            self.check_promises(host, term, until);
        }
    }

    /// A leader acts only as long as a quorum of the voters supports nobody else: they promised, are too young to, or
    /// dead.
    fn check_promises(&mut self, host: usize, term: Term, until: u64) {
        let node = self.core.hosts[host].node;
        let voters = usize::from(self.core.config.voters);
        let promised = (0..voters).filter(|voter| {
            let Some(machine) = &self.machines[*voter] else {
                return true;
            };
            let keeps = machine.leadership().keeps_to(Leader { node, term });
            keeps.is_some_and(|keeps| self.core.hosts[*voter].clock.when(keeps) + 2 >= until)
        });
        let (now, promised) = (self.core.now, promised.count() as u8);
        let kept = Checker::promised(now, host as u8, term, until, promised, voters as u8);
        self.core.check(kept);
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`Failure`]: a promise was broken.
    pub fn run(mut self) -> Result<Report, Failure> {
        loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return Ok(self.report()),
                Err(violation) => return Err(self.failure(violation)),
            }
        }
    }

    /// Runs for so long.
    ///
    /// # Errors
    /// [`Violation`]: a promise is broken.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Violation> {
        self.run_until(time, |_| false).map(|_| ())
    }

    /// Runs until `reached`, for so long at most. Whether it was reached.
    ///
    /// # Errors
    /// [`Violation`]: a promise is broken.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut reached: impl FnMut(&Self) -> bool,
    ) -> Result<bool, Violation> {
        if !self.started {
            self.start();
        }
        let until = self.core.now.saturating_add(micros(limit));
        self.end = self.end.max(until + 1);
        self.traffic_end = self.traffic_end.max(until + 1);
        loop {
            if reached(self) {
                return Ok(true);
            }
            if self.over || self.next().0 > until {
                self.core.now = until;
                return Ok(false);
            }
            self.step()?;
        }
    }

    /// What is to be printed of a violation.
    pub fn failure(&self, violation: Violation) -> Failure {
        let mut schedule = self.schedule.clone();
        schedule.faults.extend_from_slice(&self.injected);
        schedule.faults.sort_by_key(|(at, _)| *at);
        Failure {
            seed: self.core.seed,
            violation,
            at: self.core.now,
            schedule,
        }
    }

    /// Lets something go wrong now.
    ///
    /// # Errors
    /// [`Violation`]: a promise is broken by it.
    pub fn inject(&mut self, fault: Fault) -> Result<(), Violation> {
        if !self.started {
            self.start();
        }
        self.injected.push((self.core.now, fault));
        self.apply(fault);
        self.core.violation.take().map_or(Ok(()), Err)
    }

    /// A caller on a host sends a message to an entity of a shard; nothing happens if the host is not up, or there is
    /// no such shard or entity.
    ///
    /// # Errors
    /// [`Violation`]: a promise is broken by it.
    pub fn send(&mut self, host: u8, shard: u32, entity: u32) -> Result<(), Violation> {
        let config = &self.core.config;
        if host < config.nodes && shard < config.all_shards() && entity < config.entities {
            self.send_one(usize::from(host), shard, entity);
        }
        self.core.violation.take().map_or(Ok(()), Err)
    }

    /// The home of a shard, as the acting leader has recorded it.
    pub fn home(&self, shard: u32) -> Option<Home> {
        let (host, _) = self.acting()?;
        let (ty, place) = self.core.place(shard);
        let machine = self.machines[usize::from(host)].as_ref()?;
        machine.coordinator(ty)?.home(place)
    }

    /// The host that serves a shard: on which it was started, not stopped, and whose lease is not over.
    pub fn serving(&self, shard: u32) -> Option<u8> {
        let now = self.core.now;
        let serves = |host: &super::cluster::Host| {
            let hosted = host.hosted.get(shard as usize);
            host.alive
                && host.lease_real > now
                && hosted.is_some_and(|hosted| hosted.running != Running::No)
        };
        let at = self.core.hosts.iter().position(serves)?;
        Some(at as u8)
    }

    /// The host that acts as the leader.
    pub fn acting(&self) -> Option<(u8, Term)> {
        let now = self.core.now;
        let mut hosts = self.core.hosts.iter().enumerate();
        hosts.find_map(|(at, host)| {
            let (term, _) = host.acting?;
            (host.alive && host.acting_real > now).then_some((at as u8, term))
        })
    }

    /// The process of a host, if it is up.
    pub fn machine(&self, host: u8) -> Option<&Machine<St>> {
        self.machines.get(usize::from(host))?.as_ref()
    }

    /// Real time in microseconds.
    pub fn now(&self) -> u64 {
        self.core.now
    }

    /// All that could be seen.
    pub fn trace(&self) -> &Trace {
        &self.core.trace
    }

    /// What was counted.
    pub fn report(&self) -> Report {
        let mut report = self.core.report.clone();
        report.time = self.core.now;
        self.core.checker.fill(&mut report);
        report
    }

    /// The settings.
    pub fn config(&self) -> &WorldConfig {
        &self.core.config
    }

    /// What was promised so far.
    pub fn checker(&self) -> &Checker {
        &self.core.checker
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Fault,
    Calm,
    Event,
    Timer(usize),
}
