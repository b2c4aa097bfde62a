//! The cluster.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::time::Duration;

use super::{
    Checker, ConfigError, Failure, Fault, HeapStore, MembershipScript, Report, Schedule, Store,
    Strategy, Trace, Violation, WorldConfig,
};
use crate::{Home, Term};

/// A cluster in virtual time.
pub struct World<St: Store = HeapStore> {
    config: WorldConfig,
    seed: u64,
    schedule: Schedule,
    now: u64,
    checker: Checker,
    trace: Trace,
    report: Report,
    store: PhantomData<St>,
}

impl<St: Store> World<St> {
    /// A world with the faults of its seed. Nothing runs yet.
    ///
    /// # Errors
    /// [`ConfigError`]: a setting that cannot work.
    pub fn new(config: WorldConfig, seed: u64) -> Result<Self, ConfigError> {
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
        Ok(Self {
            checker: Checker::new(&config),
            trace: Trace::new(config.text),
            config,
            seed,
            schedule,
            now: 0,
            report: Report::default(),
            store: PhantomData,
        })
    }

    /// Coordinators use strategies that this makes, one per type and life of a node.
    #[must_use]
    pub fn strategy(self, make: impl Fn() -> Box<dyn Strategy> + 'static) -> Self {
        let _ = make;
        self
    }

    /// Hosts believe what this says of each other.
    #[must_use]
    pub fn membership(self, script: Box<dyn MembershipScript>) -> Self {
        let _ = script;
        self
    }

    /// Does what comes next. `false`: it is over.
    ///
    /// # Errors
    /// [`Violation`]: a promise is broken.
    pub fn step(&mut self) -> Result<bool, Violation> {
        Ok(false)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`Failure`]: a promise was broken.
    pub fn run(mut self) -> Result<Report, Failure> {
        loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return Ok(self.report),
                Err(violation) => return Err(self.failure(violation)),
            }
        }
    }

    /// Runs for so long.
    ///
    /// # Errors
    /// [`Violation`]: a promise is broken.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Violation> {
        let _ = time;
        Ok(())
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
        let _ = limit;
        Ok(reached(self))
    }

    /// What is to be printed of a violation.
    pub fn failure(&self, violation: Violation) -> Failure {
        Failure {
            seed: self.seed,
            violation,
            at: self.now,
            schedule: self.schedule.clone(),
        }
    }

    /// Lets something go wrong now.
    ///
    /// # Errors
    /// [`Violation`]: a promise is broken by it.
    pub fn inject(&mut self, fault: Fault) -> Result<(), Violation> {
        let _ = fault;
        Ok(())
    }

    /// A caller on a host sends a message to an entity of a shard.
    ///
    /// # Errors
    /// [`Violation`]: a promise is broken by it.
    pub fn send(&mut self, host: u8, shard: u32, entity: u32) -> Result<(), Violation> {
        let _ = (host, shard, entity);
        Ok(())
    }

    /// The home of a shard, as the acting leader has recorded it.
    pub fn home(&self, shard: u32) -> Option<Home> {
        let _ = shard;
        None
    }

    /// The host that serves a shard: on which it was started, not stopped, and whose lease is not over.
    pub fn serving(&self, shard: u32) -> Option<u8> {
        let _ = shard;
        None
    }

    /// The host that acts as the leader.
    pub fn acting(&self) -> Option<(u8, Term)> {
        None
    }

    /// Real time in microseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// All that could be seen.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What was counted.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The settings.
    pub fn config(&self) -> &WorldConfig {
        &self.config
    }

    /// What was promised so far.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }
}
