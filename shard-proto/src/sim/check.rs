//! The promises.

use alloc::vec;
use alloc::vec::Vec;

use super::outage::{Cause, Outages};
use super::report::{Report, reason_index};
use super::rules::Rules;
use super::{Message, Violation, WorldConfig};
use crate::micros;
use crate::region::RejectReason;
use crate::{Epoch, Term};

/// How far two conversions between a local clock and real time may be apart, in microseconds.
const ROUNDING: u64 = 2;

/// A host, as far as the promises go.
#[derive(Clone, Copy, Debug)]
struct Host {
    life: Option<u32>,
    lease_until: u64,
    /// Grows when the lease lapsed: what was served before is served no more.
    stay: u32,
    acting_until: u64,
    paused: bool,
}

/// A life of a host.
#[derive(Clone, Debug)]
struct Life {
    host: u8,
    alive: bool,
    /// What became of its messages.
    fates: Vec<Fate>,
    /// By shard and entity: no lower number is handled any more.
    due: Vec<u32>,
    /// Messages from this one on were sent after the faults.
    calm_from: usize,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    shard: u32,
    entity: u32,
    /// The life that keeps it, plus one.
    keeper: u32,
    flags: u8,
}

const DELIVERED: u8 = 1;
/// Its caller was told.
const REPORTED: u8 = 2;
/// ... that it may have been delivered.
const PERHAPS: u8 = 4;

/// A shard that a host has started and not stopped.
#[derive(Clone, Copy, Debug)]
struct Serving {
    host: u8,
    life: u32,
    stay: u32,
    epoch: Epoch,
}

/// A shard's history.
#[derive(Clone, Debug, Default)]
struct Shard {
    /// Those that have not stopped; few.
    servings: Vec<Serving>,
    highest: Epoch,
    last_host: Option<u8>,
}

/// Totals.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    sent: u64,
    delivered: u64,
    reported: [u64; super::report::REASONS.len()],
    moves: u64,
    failovers: u64,
    reigns: u64,
}

/// Looks at all that can be seen of a world. Times are microseconds of real time; a shard is its type's number times
/// [`WorldConfig::shards`] plus its own. Calls cost O(1), except where they say otherwise.
#[derive(Clone, Debug)]
pub struct Checker {
    entities: usize,
    bound: u64,
    hosts: Vec<Host>,
    lives: Vec<Life>,
    shards: Vec<Shard>,
    /// Who acted last, and under which term.
    acting: Option<(u8, u32, Term)>,
    calm_at: Option<u64>,
    judged: bool,
    /// By host and shard: something that was sent after the faults was handled.
    reached: Vec<bool>,
    totals: Totals,
    outages: Outages,
    pub(super) rules: Rules,
}

impl Checker {
    /// Nothing has happened.
    #[must_use]
    pub fn new(config: &WorldConfig) -> Self {
        let shards = config.all_shards() as usize;
        let host = Host {
            life: None,
            lease_until: 0,
            stay: 0,
            acting_until: 0,
            paused: false,
        };
        Self {
            entities: config.entities as usize,
            bound: micros(config.bound()),
            hosts: vec![host; usize::from(config.nodes)],
            lives: Vec::new(),
            shards: vec![Shard::default(); shards],
            acting: None,
            calm_at: None,
            judged: false,
            reached: Vec::new(),
            totals: Totals::default(),
            outages: Outages::new(shards),
            rules: Rules::new(usize::from(config.nodes), shards),
        }
    }

    fn host(&mut self, host: u8) -> &mut Host {
        &mut self.hosts[usize::from(host)]
    }

    /// A life of a host began. Lives are numbered from 0. O(shards).
    pub fn began(&mut self, now: u64, host: u8, life: u32) {
        self.end(now, host);
        debug_assert_eq!(life as usize, self.lives.len(), "lives are numbered");
        self.lives.push(Life {
            host,
            alive: true,
            fates: Vec::new(),
            due: vec![0; self.shards.len() * self.entities],
            calm_from: 0,
        });
        self.rules.began(host);
        let state = self.host(host);
        state.life = Some(life);
        state.stay += 1;
    }

    /// The newest life of a host ended: it crashed, or (`left`) in good order. O(shards).
    ///
    /// # Errors
    /// [`Violation`]: it left with something undone.
    pub fn ended(&mut self, now: u64, host: u8, left: bool) -> Result<(), Violation> {
        let life = self.host(host).life;
        self.end(now, host);
        match life {
            // What it sent was delivered or reported, as if it lived.
            Some(life) if left => self.account(life),
            _ => Ok(()),
        }
    }

    fn end(&mut self, now: u64, host: u8) {
        let state = self.host(host);
        let life = state.life.take();
        state.lease_until = 0;
        state.acting_until = 0;
        state.paused = false;
        if let Some(life) = life {
            self.lives[life as usize].alive = false;
            self.outages.host_down(now, host);
        }
    }

    /// A host handles nothing from now on. O(shards).
    pub fn paused(&mut self, now: u64, host: u8) {
        self.host(host).paused = true;
        self.outages.host_down(now, host);
    }

    /// A host goes on, and serves what it still may. O(shards).
    pub fn resumed(&mut self, now: u64, host: u8) {
        self.host(host).paused = false;
        for (index, shard) in self.shards.iter().enumerate() {
            let serves =
                |serving: &Serving| serving.host == host && Self::lasts(&self.hosts, serving, now);
            if shard.servings.iter().any(serves) {
                self.outages.back(now, index, host);
            }
        }
    }

    /// A caller on `host` sends.
    pub fn sent(&mut self, now: u64, host: u8, shard: u32, message: Message) {
        let _ = host;
        self.totals.sent += 1;
        self.outages.wanted(now, shard as usize);
        if let Some(life) = self.lives.get_mut(message.origin as usize) {
            debug_assert_eq!(message.number as usize, life.fates.len(), "numbered");
            life.fates.push(Fate {
                shard,
                entity: message.entity,
                ..Fate::default()
            });
        }
    }

    fn fate(&mut self, shard: u32, message: Message) -> Result<&mut Fate, Violation> {
        let number = usize::try_from(message.number).unwrap_or(usize::MAX);
        self.lives
            .get_mut(message.origin as usize)
            .and_then(|life| life.fates.get_mut(number))
            .filter(|fate| fate.shard == shard && fate.entity == message.entity)
            .ok_or(Violation::NeverSent { shard, message })
    }

    /// A region of this life keeps a message now: if the life ends, the message may end with it.
    ///
    /// # Errors
    /// [`Violation`]: nobody sent such a message.
    pub fn accepted(&mut self, life: u32, shard: u32, message: Message) -> Result<(), Violation> {
        self.fate(shard, message)?.keeper = life + 1;
        Ok(())
    }

    /// An entity on `host` handles a message.
    ///
    /// # Errors
    /// [`Violation`]: it must not.
    pub fn delivered(
        &mut self,
        now: u64,
        host: u8,
        shard: u32,
        epoch: Epoch,
        message: Message,
    ) -> Result<(), Violation> {
        self.totals.delivered += 1;
        let at = now.saturating_sub(ROUNDING);
        let serves = self.shards[shard as usize].servings.iter().any(|serving| {
            serving.epoch == epoch && serving.host == host && Self::lasts(&self.hosts, serving, at)
        });
        if !serves {
            return Err(Violation::NotServing {
                shard,
                host,
                epoch,
                message,
            });
        }
        let fate = self.fate(shard, message)?;
        let before = fate.flags;
        fate.flags |= DELIVERED;
        if before & DELIVERED != 0 {
            return Err(Violation::DeliveredTwice {
                shard,
                host,
                message,
            });
        }
        if before & REPORTED != 0 && before & PERHAPS == 0 {
            return Err(Violation::DeliveredAndReported { shard, message });
        }
        let entities = self.entities;
        let life = &mut self.lives[message.origin as usize];
        let due = &mut life.due[shard as usize * entities + message.entity as usize];
        if message.number < u64::from(*due) {
            return Err(Violation::OutOfOrder {
                shard,
                host,
                message,
                due: u64::from(*due),
            });
        }
        *due = message.number as u32 + 1;
        if self.calm_at.is_some() && life.alive && message.number as usize >= life.calm_from {
            let index = usize::from(life.host) * self.shards.len() + shard as usize;
            self.reached[index] = true;
        }
        Ok(())
    }

    /// A host reports that a message was not, or perhaps, delivered. `at_origin`: to its caller.
    ///
    /// # Errors
    /// [`Violation`]: it was delivered, or reported before.
    pub fn reported(
        &mut self,
        now: u64,
        host: u8,
        shard: u32,
        message: Message,
        reason: RejectReason,
        at_origin: bool,
    ) -> Result<(), Violation> {
        let _ = (now, host);
        self.totals.reported[reason_index(reason)] += 1;
        let fate = self.fate(shard, message)?;
        if !at_origin {
            // Its caller hears nothing of it.
            return Ok(());
        }
        let before = fate.flags;
        let perhaps = reason == RejectReason::PerhapsDelivered;
        fate.flags |= REPORTED | if perhaps { PERHAPS } else { 0 };
        if before & REPORTED != 0 {
            return Err(Violation::ReportedTwice { shard, message });
        }
        if before & DELIVERED != 0 && !perhaps {
            return Err(Violation::DeliveredAndReported { shard, message });
        }
        Ok(())
    }

    /// Whether a serving entitles its host to anything at `at`.
    fn lasts(hosts: &[Host], serving: &Serving, at: u64) -> bool {
        let host = &hosts[usize::from(serving.host)];
        host.life == Some(serving.life) && host.stay == serving.stay && at < host.lease_until
    }

    /// A host was told to start a shard. It serves until it has stopped, or its lease is over.
    ///
    /// # Errors
    /// [`Violation`]: it must not.
    pub fn serving_began(
        &mut self,
        now: u64,
        host: u8,
        shard: u32,
        epoch: Epoch,
    ) -> Result<(), Violation> {
        let hosts = &self.hosts;
        let me = hosts[usize::from(host)];
        let Some(life) = me.life else { return Ok(()) };
        let slot = &mut self.shards[shard as usize];
        slot.servings
            .retain(|serving| hosts[usize::from(serving.host)].life == Some(serving.life));
        for serving in &slot.servings {
            if serving.life == life {
                return Err(Violation::StartedBesideItself {
                    shard,
                    host,
                    running: serving.epoch,
                    epoch,
                });
            }
            if Self::lasts(hosts, serving, now) {
                return Err(Violation::TwoHomes {
                    shard,
                    first: (serving.host, serving.epoch),
                    until: hosts[usize::from(serving.host)].lease_until,
                    second: (host, epoch),
                });
            }
        }
        if now >= me.lease_until.saturating_add(ROUNDING) {
            return Err(Violation::StartedWithoutLease { shard, host, epoch });
        }
        if epoch <= slot.highest {
            return Err(Violation::EpochNotGrowing {
                shard,
                host,
                epoch,
                highest: slot.highest,
            });
        }
        slot.highest = epoch;
        if slot.last_host.is_some_and(|last| last != host) {
            self.totals.moves += 1;
        }
        slot.last_host = Some(host);
        slot.servings.push(Serving {
            host,
            life,
            stay: me.stay,
            epoch,
        });
        Ok(())
    }

    /// A shard that was started takes messages: its region opened it.
    pub fn opened(&mut self, now: u64, host: u8, shard: u32) {
        if !self.host(host).paused {
            self.outages.back(now, shard as usize, host);
        }
    }

    /// Nothing of the shard runs any more.
    ///
    /// # Errors
    /// None yet.
    pub fn serving_ended(
        &mut self,
        now: u64,
        host: u8,
        shard: u32,
        epoch: Epoch,
    ) -> Result<(), Violation> {
        let life = self.host(host).life;
        self.shards[shard as usize]
            .servings
            .retain(|serving| Some(serving.life) != life || serving.epoch != epoch);
        self.outages.shard_down(now, shard as usize, host, true);
        Ok(())
    }

    /// Until when a host may serve; not after `now`: not at all. It may come earlier than said before only by a change
    /// of its clock. What was served when a lease ended is served no more under a later one.
    ///
    /// # Errors
    /// None yet.
    pub fn lease(&mut self, now: u64, host: u8, until: u64) -> Result<(), Violation> {
        let state = self.host(host);
        let old = state.lease_until;
        state.lease_until = until;
        let lapsed = until <= now || now > old.saturating_add(ROUNDING);
        if lapsed && old > 0 {
            state.stay += 1;
            self.outages.host_down(old.min(now), host);
        }
        Ok(())
    }

    /// A host leads until then; until then whether it stands still or not.
    ///
    /// # Errors
    /// [`Violation`]: another one does, too, or its term is too low.
    pub fn acting(&mut self, now: u64, host: u8, term: Term, until: u64) -> Result<(), Violation> {
        let Some(life) = self.host(host).life else {
            return Ok(());
        };
        if until <= now {
            return self.not_acting(now, host);
        }
        if self.acting != Some((host, life, term)) {
            if let Some((other, _, before)) = self.acting {
                let last = self.host(other).acting_until;
                if other != host && now < last {
                    return Err(Violation::TwoLeaders {
                        first: (other, before),
                        until: last,
                        second: (host, term),
                    });
                }
                if term <= before {
                    return Err(Violation::TermNotGrowing {
                        host,
                        term,
                        highest: before,
                    });
                }
                self.totals.failovers += u64::from(other != host);
            }
            self.totals.reigns += 1;
            self.acting = Some((host, life, term));
        }
        self.host(host).acting_until = until;
        Ok(())
    }

    /// A host does not lead any more.
    ///
    /// # Errors
    /// None yet.
    pub fn not_acting(&mut self, now: u64, host: u8) -> Result<(), Violation> {
        let _ = now;
        self.host(host).acting_until = 0;
        Ok(())
    }

    /// The last fault is over: from here on all must come to rest. O(hosts × shards).
    pub fn calm(&mut self, now: u64) {
        self.calm_at = Some(now);
        self.judged = false;
        self.reached = vec![false; self.hosts.len() * self.shards.len()];
        for life in &mut self.lives {
            life.calm_from = life.fates.len();
        }
    }

    /// After every step. O(1), but once O(hosts × shards).
    ///
    /// # Errors
    /// [`Violation`]: the faults ended long ago, and a shard is out of reach still.
    pub fn tick(&mut self, now: u64) -> Result<(), Violation> {
        match self.calm_at {
            Some(calm) if !self.judged && now >= calm.saturating_add(self.bound) => {
                self.judged = true;
                self.judge(now - calm)
            }
            _ => Ok(()),
        }
    }

    /// Whether something that was sent after the last [`Checker::calm`] came from every host that lives to every
    /// shard. O(hosts × shards).
    #[must_use]
    pub fn is_recovered(&self) -> bool {
        self.calm_at.is_some() && self.judge(0).is_ok()
    }

    fn judge(&self, waited: u64) -> Result<(), Violation> {
        let shards = self.shards.len();
        for (origin, rows) in self.reached.chunks_exact(shards.max(1)).enumerate() {
            if self.hosts[origin].life.is_none() {
                continue;
            }
            if let Some(shard) = rows.iter().position(|reached| !reached) {
                return Err(Violation::NoService {
                    shard: shard as u32,
                    origin: origin as u8,
                    waited,
                });
            }
        }
        Ok(())
    }

    /// The end: traffic has ceased for longer than any message takes. O(everything sent).
    ///
    /// # Errors
    /// [`Violation`]: something was lost.
    pub fn finish(&mut self, now: u64) -> Result<(), Violation> {
        self.tick(now)?;
        self.outages.probe_over(now);
        for life in 0..self.lives.len() {
            if self.lives[life].alive {
                self.account(life as u32)?;
            }
        }
        Ok(())
    }

    /// Every message of a life was delivered or reported, or died with a node that had accepted it.
    fn account(&self, origin: u32) -> Result<(), Violation> {
        let life = &self.lives[origin as usize];
        for (number, fate) in life.fates.iter().enumerate() {
            if fate.flags & (DELIVERED | REPORTED) != 0 {
                continue;
            }
            let keeper = fate.keeper.checked_sub(1);
            let keeper = keeper.and_then(|keeper| self.lives.get(keeper as usize));
            // Who left did not wait for what others had accepted.
            let excused = |keeper: &Life| !keeper.alive || !life.alive;
            if fate.keeper != origin + 1 && keeper.is_some_and(excused) {
                continue;
            }
            return Err(Violation::Lost {
                shard: fate.shard,
                message: Message {
                    origin,
                    entity: fate.entity,
                    number: number as u64,
                },
                origin: life.host,
                kept_by: keeper.map(|keeper| keeper.host),
            });
        }
        Ok(())
    }

    /// Something goes wrong. O(1), once O(shards).
    pub fn disturbed(&mut self, now: u64) {
        self.outages.disturb(now);
    }

    /// From now on missing service is due to `cause`. What `victims` serve now is affected by it, the rest should not
    /// be. O(shards).
    pub fn probe(&mut self, now: u64, cause: Cause, victims: &[u8]) {
        self.outages.probe(now, cause, victims);
    }

    /// What [`Checker::probe`] began is over. O(shards).
    pub fn probe_over(&mut self, now: u64) {
        self.outages.probe_over(now);
    }

    /// Adds what was counted to a report.
    pub fn fill(&self, report: &mut Report) {
        report.sent += self.totals.sent;
        report.delivered += self.totals.delivered;
        report.moves += self.totals.moves;
        report.failovers += self.totals.failovers;
        report.reigns += self.totals.reigns;
        for (total, more) in report.reported.iter_mut().zip(self.totals.reported) {
            *total += more;
        }
        for (total, more) in report.outages.iter_mut().zip(self.outages.by_cause()) {
            total.merge(more);
        }
    }
}
