//! Everything of a world but its processes.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::around::HostSink;
use super::clock::Clock;
use super::event::{Events, What};
use super::machine::{Body, DataFrame, Unsent};
use super::net::{Flight, NOBODY, Net};
use super::{Checker, Message, Report, Trace, Violation, WorldConfig};
use crate::hash::{SplitMix64, mix};
use crate::leadership::Ownership;
use crate::node::link::{HARD_WINDOWS, HARD_WINDOWS_BACK};
use crate::region::Origin;
use crate::{Epoch, Incarnation, Instant, NodeId, ShardId, Term, micros};

/// How long an acknowledgement waits for something to travel with.
pub(super) const ACK_DELAY: u64 = 10_000;

/// What runs of a shard on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Running {
    #[default]
    No,
    Starting,
    Yes,
    Stopping,
}

/// A shard on a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosted {
    pub(super) running: Running,
    pub(super) epoch: Epoch,
    /// Names the event that ends its state.
    pub(super) stamp: u32,
    /// When that is.
    pub(super) ends_at: u64,
    pub(super) forced: bool,
    /// Not handled yet.
    pub(super) mailbox: VecDeque<(Origin, Message)>,
    pub(super) busy: bool,
}

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) node: NodeId,
    pub(super) alive: bool,
    pub(super) life: u32,
    pub(super) incarnation: Incarnation,
    pub(super) clock: Clock,
    pub(super) ppm: i32,
    /// Of the wall clock against real time.
    pub(super) skew: i64,
    /// The highest term a former life knew.
    pub(super) known_term: Term,
    pub(super) asleep: bool,
    pub(super) paused_until: u64,
    pub(super) pauses: u32,
    pub(super) hang_until: u64,
    pub(super) slow_until: u64,
    pub(super) slow_by: u64,
    pub(super) leaving: bool,
    /// It is to start again when it has left.
    pub(super) returns: bool,
    /// When its machine is to be called.
    pub(super) wake: u64,
    /// How often it was called without the time passing.
    pub(super) idle_calls: u32,
    pub(super) lease_until: Option<Instant>,
    pub(super) lease_real: u64,
    pub(super) acting: Option<(Term, Instant)>,
    pub(super) acting_real: u64,
    /// Of other hosts: the life it has a link to, a member most often, and the newest that it knows to be over, plus one.
    pub(super) knows: Vec<u32>,
    pub(super) ended: Vec<u32>,
    pub(super) hosted: Vec<Hosted>,
    pub(super) messages: u64,
    pub(super) rng: SplitMix64,
    pub(super) traffic: SplitMix64,
    /// Next shard of the round that reaches all of them.
    pub(super) cursor: u32,
    pub(super) lock_until: u64,
    pub(super) lock_cut_until: u64,
}

impl Host {
    /// It goes on with [`What::Wake`], before all else.
    pub(super) const fn is_paused(&self) -> bool {
        self.asleep
    }
}

/// Everything of a world but its processes.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: WorldConfig,
    pub(super) seed: u64,
    pub(super) now: u64,
    pub(super) events: Events,
    pub(super) net: Net,
    pub(super) hosts: Vec<Host>,
    /// Of each life, its host.
    pub(super) lives: Vec<(u8, Incarnation)>,
    pub(super) checker: Checker,
    pub(super) trace: Trace,
    pub(super) report: Report,
    pub(super) violation: Option<Violation>,
    /// Of 1000: lost, doubled, late; and by how much.
    pub(super) noise: (u16, u16, u16, u64),
    pub(super) rng: SplitMix64,
    pub(super) scratch: Vec<u8>,
    /// A link's window may be full.
    pub(super) filled: bool,
}

impl Core {
    pub(super) fn new(config: WorldConfig, seed: u64) -> Self {
        let count = usize::from(config.nodes);
        let shards = config.all_shards() as usize;
        let mut rng = SplitMix64::new(mix(seed ^ 0x3e7));
        let hosts = (0..config.nodes)
            .map(|host| {
                let mut own = SplitMix64::new(mix(seed ^ (u64::from(host) << 32) ^ 0xb0e5));
                let most = u64::from(config.clock_rate);
                let ppm = own.below(2 * most + 1) as i32 - most as i32;
                let most = micros(config.wall_skew);
                let skew = own.below(2 * most + 1) as i64 - most as i64;
                Host {
                    node: WorldConfig::node(host),
                    alive: false,
                    life: NOBODY,
                    incarnation: Incarnation(0),
                    clock: Clock::new(0, 0, ppm),
                    ppm,
                    skew,
                    known_term: Term::NONE,
                    asleep: false,
                    paused_until: 0,
                    pauses: 0,
                    hang_until: 0,
                    slow_until: 0,
                    slow_by: 0,
                    leaving: false,
                    returns: false,
                    wake: u64::MAX,
                    idle_calls: 0,
                    lease_until: None,
                    lease_real: 0,
                    acting: None,
                    acting_real: 0,
                    knows: alloc::vec![NOBODY; count],
                    ended: alloc::vec![0; count],
                    hosted: alloc::vec![Hosted::default(); shards],
                    messages: 0,
                    traffic: SplitMix64::new(own.next_u64()),
                    rng: own,
                    cursor: 0,
                    lock_until: 0,
                    lock_cut_until: 0,
                }
            })
            .collect();
        let noise = (
            config.loss,
            config.duplicate,
            config.late,
            micros(config.late_by),
        );
        Self {
            checker: Checker::new(&config),
            trace: Trace::new(config.text),
            report: Report::default(),
            net: Net::new(count),
            seed,
            now: 0,
            events: Events::default(),
            hosts,
            lives: Vec::new(),
            violation: None,
            noise,
            rng: SplitMix64::new(rng.next_u64()),
            scratch: alloc::vec![0; 4096],
            filled: false,
            config,
        }
    }

    /// Keeps the first promise that is broken.
    pub(super) fn check(&mut self, result: Result<(), Violation>) {
        if let Err(violation) = result
            && self.violation.is_none()
        {
            self.violation = Some(violation);
        }
    }

    pub(super) fn fail_timer(&mut self, host: usize, what: &str) {
        self.check(Err(Violation::Timer {
            host: host as u8,
            what: String::from(what),
        }));
    }

    pub(super) fn host_of(&self, node: NodeId) -> Option<usize> {
        self.hosts.iter().position(|host| host.node == node)
    }

    /// The number of a node's life.
    pub(super) fn life_of(&self, host: usize, incarnation: Incarnation) -> Option<u32> {
        let life = (host as u8, incarnation);
        let at = self.lives.iter().rposition(|other| *other == life)?;
        Some(at as u32)
    }

    /// What a host's clock shows.
    pub(super) fn local(&self, host: usize) -> Instant {
        self.hosts[host].clock.at(self.now)
    }

    /// A number of a shard among those of all types.
    pub(super) fn flat(&self, ty: u8, shard: ShardId) -> usize {
        (u32::from(ty) * self.config.shards + shard.0) as usize
    }

    /// ... and back.
    pub(super) fn place(&self, shard: u32) -> (u8, ShardId) {
        (
            (shard / self.config.shards) as u8,
            ShardId(shard % self.config.shards),
        )
    }

    fn delay(&mut self) -> u64 {
        let (least, most) = (micros(self.config.delay.0), micros(self.config.delay.1));
        least + self.rng.below(most - least + 1)
    }

    fn chance(&mut self, of_1000: u16) -> bool {
        of_1000 > 0 && self.rng.below(1000) < u64::from(of_1000)
    }

    pub(super) fn of(rng: &mut SplitMix64, most: Duration) -> u64 {
        rng.below(micros(most) + 1)
    }

    /// A frame for the front of a link's queue arrives, if there is one.
    pub(super) fn arm(&mut self, link: usize) {
        let now = self.now;
        let state = &mut self.net.links[link];
        if state.armed || state.cut {
            return;
        }
        let Some(front) = state.queue.front() else {
            return;
        };
        let at = front.arrives.max(state.down_until).max(now);
        state.armed = true;
        state.stamp += 1;
        let stamp = state.stamp;
        let link = link as u16;
        self.events.push(at, What::Data { link, stamp });
    }

    /// What a host sends from now on goes to this life of the other one.
    pub(super) fn send_data(
        &mut self,
        from: usize,
        to: usize,
        frame: DataFrame,
    ) -> Result<(), Unsent> {
        let (from_life, to_life) = (self.hosts[from].life, self.hosts[from].knows[to]);
        if to_life == NOBODY {
            return Err(Unsent::NoPeer);
        }
        let arrives = self.now + self.delay();
        let window = self.config.window as usize;
        let index = self.net.index(from, to);
        let back = self.net.index(to, from);
        let acknowledges = !self.net.links[back].cut;
        let now = self.now;
        let link = &mut self.net.links[index];
        if link.from_life != from_life || link.to_life != to_life {
            link.reset();
            link.from_life = from_life;
            link.to_life = to_life;
        }
        if acknowledges {
            link.acknowledge(now.saturating_sub(ACK_DELAY));
        }
        let windows = match frame.body {
            Body::Return(..) => HARD_WINDOWS_BACK,
            _ => HARD_WINDOWS,
        };
        if link.unacknowledged() as u64 >= u64::from(self.config.window) * windows {
            return Err(Unsent::Full);
        }
        let arrives = arrives.max(link.last_arrival);
        link.last_arrival = arrives;
        let gone = !link.cut && link.down_until <= now;
        link.queue.push_back(Flight {
            frame,
            sent_at: now,
            arrives,
            gone,
        });
        self.filled |= !link.congested && link.unacknowledged() >= window;
        self.arm(index);
        Ok(())
    }

    /// Whether a link's sender shall be told that its window is full.
    pub(super) fn fills(&mut self, from: usize, to: usize) -> bool {
        let window = self.config.window as usize;
        let link = self.net.link(from, to);
        let fills = !link.congested && link.unacknowledged() >= window;
        link.congested |= fills;
        fills
    }

    /// Sends bytes as they are, or not, or twice.
    pub(super) fn send_control(&mut self, from: usize, to: usize, len: usize) {
        let (from_life, to_life) = (self.hosts[from].life, self.hosts[from].knows[to]);
        let link = self.net.index(from, to);
        let now = self.now;
        let (loss, duplicate, late, late_by) = self.noise;
        let lost = self.chance(loss);
        let state = &self.net.links[link];
        if lost || to_life == NOBODY || state.cut || state.down_until > now {
            return;
        }
        let copies = 1 + u8::from(self.chance(duplicate));
        for _ in 0..copies {
            let mut at = now + self.delay();
            if self.chance(late) {
                at += self.rng.below(late_by + 1);
            }
            let bytes = &self.scratch[..len];
            let frame = self.net.keep(link, from_life, to_life, bytes);
            self.events.push(at, What::Control { frame });
        }
    }

    pub(super) fn sink(&mut self, host: usize) -> HostSink<'_> {
        HostSink::new(self, host)
    }

    /// Until when a host may serve.
    pub(super) fn set_lease(&mut self, host: usize, until: Option<Instant>) {
        let state = &mut self.hosts[host];
        let real = until.map_or(0, |until| state.clock.when(until));
        if state.lease_until == until && state.lease_real == real {
            return;
        }
        state.lease_until = until;
        state.lease_real = real;
        let now = self.now;
        self.trace.add([now, host as u64 | 3 << 40, real], || {
            format!("{now} {host} may serve until {real}")
        });
        let set = self.checker.lease(now, host as u8, real);
        self.check(set);
    }

    /// Until when a host may lead, if that is decided outside.
    pub(super) fn outside_until(&self, host: usize, until: Instant) -> Instant {
        if self.config.ownership == Ownership::External {
            let state = &self.hosts[host];
            until.min(state.clock.at(state.lock_until))
        } else {
            until
        }
    }

    /// Under which term a host leads, and until when.
    /// Returns when it changed, and it leads.
    pub(super) fn set_acting(
        &mut self,
        host: usize,
        acting: Option<(Term, Instant)>,
    ) -> Option<(Term, u64)> {
        let state = &mut self.hosts[host];
        let real = acting.map_or(0, |(_, until)| state.clock.when(until));
        if state.acting == acting && state.acting_real == real {
            return None;
        }
        state.acting = acting;
        state.acting_real = real;
        let now = self.now;
        let set = match acting {
            Some((term, _)) => self.checker.acting(now, host as u8, term, real),
            None => self.checker.not_acting(now, host as u8),
        };
        self.check(set);
        acting.map(|(term, _)| (term, real))
    }

    /// An entity handles a message now.
    pub(super) fn handled(&mut self, host: usize, shard: usize, epoch: Epoch, message: Message) {
        let now = self.now;
        self.trace
            .add([now, shard as u64 | 2 << 40, message.number], || {
                format!("{now} {host} handles {message} to shard {shard} under {epoch}")
            });
        let handled = self
            .checker
            .delivered(now, host as u8, shard as u32, epoch, message);
        self.check(handled);
    }

    /// When a slow entity handles its next message.
    pub(super) fn handle_next(&mut self, host: usize, shard: usize) {
        let most = self.config.stop_delay / 8;
        let state = &mut self.hosts[host];
        let at = self.now + Self::of(&mut state.rng, most);
        let hosted = &mut state.hosted[shard];
        hosted.busy = true;
        let what = What::Handle {
            host: host as u8,
            shard: shard as u16,
            stamp: hosted.stamp,
        };
        self.events.push(at, what);
    }
}
