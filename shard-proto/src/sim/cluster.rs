//! Everything of a world but its processes.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::clock::Clock;
use super::event::{Events, What};
use super::machine::{Body, DataFrame, Note, Sink, Unsent};
use super::net::{Flight, NOBODY, Net};
use super::{Checker, Deed, Message, Report, Trace, Violation, WorldConfig};
use crate::hash::{SplitMix64, mix};
use crate::leadership::Ownership;
use crate::region::{Origin, RejectReason};
use crate::wire::{Control, HEADER_LEN, ReturnReason};
use crate::{EntityTypeId, Epoch, Incarnation, Instant, NodeId, ShardId, Term, micros};

/// How long an acknowledgement waits for something to travel with.
const ACK_DELAY: u64 = 10_000;
/// How many windows of data are taken at most.
const HARD_WINDOWS: usize = 4;
/// Messages a slow entity keeps.
const MAILBOX: usize = 64;

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
    fn send_data(&mut self, from: usize, to: usize, frame: DataFrame) -> Result<(), Unsent> {
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
        // What goes back is bounded by what the other side may have on its way.
        let bounded = matches!(frame.body, Body::Envelope(_) | Body::Flush(_));
        if bounded && link.unacknowledged() >= window * HARD_WINDOWS {
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
    fn send_control(&mut self, from: usize, to: usize, len: usize) {
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
        HostSink { core: self, host }
    }
}

/// The world around one process.
pub(super) struct HostSink<'a> {
    core: &'a mut Core,
    host: usize,
}

impl HostSink<'_> {
    /// The life of a node that this host has a link to.
    pub(super) fn life_behind(&self, node: NodeId) -> Option<u32> {
        let other = self.core.host_of(node)?;
        Some(self.core.hosts[self.host].knows[other])
    }

    fn watch_path(&mut self, to: usize, frame: &DataFrame) {
        let to_life = self.core.hosts[self.host].knows[to];
        let (host, shard) = (
            self.host as u8,
            self.core.flat(frame.ty, frame.shard) as u32,
        );
        let checker = &mut self.core.checker;
        match frame.body {
            Body::Envelope(_) => {
                let kept = checker.forwarded(host, shard, to_life, frame.epoch);
                self.core.check(kept);
            }
            Body::Flush(_) => checker.marked(host, shard, to_life, frame.epoch),
            Body::Return(..) | Body::Flushed(_) => {}
        }
    }

    fn stop_at(&mut self, shard: usize, at: u64, forced: bool) {
        let host = self.host as u8;
        let hosted = &mut self.core.hosts[self.host].hosted[shard];
        hosted.stamp += 1;
        hosted.ends_at = at;
        hosted.forced = forced;
        let what = What::Stopped {
            host,
            shard: shard as u16,
            stamp: hosted.stamp,
        };
        self.core.events.push(at, what);
    }
}

impl Sink for HostSink<'_> {
    fn control(
        &mut self,
        to: NodeId,
        entity_type: EntityTypeId,
        term: Term,
        control: &Control<'_>,
    ) {
        let Some(to) = self.core.host_of(to) else {
            return;
        };
        let Ok(len) = control.encode(entity_type, term, 1, &mut self.core.scratch) else {
            let what = format!("{control:?} cannot be encoded");
            let host = self.host as u8;
            return self.core.check(Err(Violation::Table { host, what }));
        };
        let hash = hash_bytes(&self.core.scratch[..len]);
        let from = self.host;
        let now = self.core.now;
        self.core
            .trace
            .add([now, (from << 8 | to) as u64, hash], || {
                format!("{now} {from} -> {to} term {term} {control:?}")
            });
        debug_assert!(len >= HEADER_LEN, "a frame has a header");
        self.core.send_control(from, to, len);
    }

    fn data(&mut self, to: NodeId, frame: DataFrame) -> Result<(), Unsent> {
        let to = self.core.host_of(to).ok_or(Unsent::NoPeer)?;
        let (now, from) = (self.core.now, self.host);
        let sent = self.core.send_data(from, to, frame);
        if sent.is_ok() {
            self.watch_path(to, &frame);
        }
        let hash = hash_data(&frame);
        self.core
            .trace
            .add([now, 0x10000 | (from << 8 | to) as u64, hash], || {
                format!("{now} {from} -> {to} {frame:?} {sent:?}")
            });
        sent
    }

    fn start(&mut self, ty: u8, shard: ShardId, epoch: Epoch) {
        let flat = self.core.flat(ty, shard);
        let (now, host) = (self.core.now, self.host);
        self.core
            .trace
            .add([now, flat as u64, epoch.to_bits()], || {
                format!("{now} {host} starts shard {flat} under {epoch}")
            });
        let began = self
            .core
            .checker
            .serving_began(now, host as u8, flat as u32, epoch);
        self.core.check(began);
        let most = self.core.config.start_delay;
        let state = &mut self.core.hosts[host];
        let mut at = now + Core::of(&mut state.rng, most);
        if state.slow_until > now {
            at += state.slow_by;
        }
        let hosted = &mut state.hosted[flat];
        hosted.running = Running::Starting;
        hosted.epoch = epoch;
        hosted.stamp += 1;
        hosted.busy = false;
        hosted.mailbox.clear();
        let what = What::Started {
            host: host as u8,
            shard: flat as u16,
            stamp: hosted.stamp,
        };
        self.core.events.push(at, what);
    }

    fn open(&mut self, ty: u8, shard: ShardId, _epoch: Epoch) {
        let flat = self.core.flat(ty, shard);
        let (now, host) = (self.core.now, self.host as u8);
        self.core.checker.opened(now, host, flat as u32);
    }

    fn lease(&mut self, until: Option<Instant>) {
        self.core.set_lease(self.host, until);
    }

    fn stop(&mut self, ty: u8, shard: ShardId, epoch: Epoch, abort_at: Instant) {
        let flat = self.core.flat(ty, shard);
        let (now, host) = (self.core.now, self.host);
        let most = self.core.config.stop_delay;
        let state = &mut self.core.hosts[host];
        let abort = state.clock.when(abort_at).max(now);
        self.core.trace.add([now, !(flat as u64), abort], || {
            format!("{now} {host} stops shard {flat} under {epoch}, aborts at {abort}")
        });
        let hosted = &mut state.hosted[flat];
        if hosted.epoch != epoch || hosted.running == Running::No {
            let what = format!("told to stop shard {flat} under {epoch}, which does not run");
            let host = host as u8;
            return self.core.check(Err(Violation::Table { host, what }));
        }
        // Some entities cannot be aborted.
        let stubborn = mix(self.core.seed ^ flat as u64) & 7 == 5;
        if hosted.running == Running::Stopping {
            if abort < hosted.ends_at && !stubborn {
                self.stop_at(flat, abort, true);
            }
            return;
        }
        hosted.running = Running::Stopping;
        hosted.busy = false;
        let takes = state.hang_until.saturating_sub(now);
        let at = (now + takes).saturating_add(Core::of(&mut state.rng, most));
        if at < abort || stubborn {
            self.stop_at(flat, at, at >= abort);
        } else {
            self.stop_at(flat, abort, true);
        }
    }

    fn deliver(&mut self, ty: u8, shard: ShardId, epoch: Epoch, origin: Origin, message: Message) {
        let flat = self.core.flat(ty, shard);
        let (now, host) = (self.core.now, self.host);
        let life = self.core.hosts[host].life;
        let slow = mix(self.core.seed ^ flat as u64) & 3 == 0;
        if !slow {
            return self.core.handled(host, flat, epoch, message);
        }
        let kept = self.core.checker.accepted(life, flat as u32, message);
        self.core.check(kept);
        let state = &mut self.core.hosts[host];
        let hosted = &mut state.hosted[flat];
        if hosted.running != Running::Yes || hosted.epoch != epoch {
            let handled = self
                .core
                .checker
                .delivered(now, host as u8, flat as u32, epoch, message);
            self.core.check(handled);
            let what = format!("a message for shard {flat} under {epoch}, which does not run");
            let host = host as u8;
            return self.core.check(Err(Violation::Table { host, what }));
        }
        if hosted.mailbox.len() >= MAILBOX {
            match origin {
                Origin::Local => {
                    self.reject(ty, shard, origin, RejectReason::BufferFull, message);
                }
                // Its life may be over.
                Origin::Remote(node) if self.life_behind(node) != Some(message.origin) => {
                    self.reject(ty, shard, origin, RejectReason::OriginEnded, message);
                }
                Origin::Remote(node) => {
                    let back = DataFrame {
                        ty,
                        shard,
                        epoch,
                        body: Body::Return(ReturnReason::Full, message),
                    };
                    if self.data(node, back).is_err() {
                        self.reject(ty, shard, origin, RejectReason::OriginEnded, message);
                    }
                }
            }
            return;
        }
        hosted.mailbox.push_back((origin, message));
        if !hosted.busy {
            self.core.handle_next(host, flat);
        }
    }

    fn reject(
        &mut self,
        ty: u8,
        shard: ShardId,
        origin: Origin,
        reason: RejectReason,
        message: Message,
    ) {
        let flat = self.core.flat(ty, shard);
        let (now, host) = (self.core.now, self.host);
        self.core
            .trace
            .add([now, flat as u64 | 1 << 40, message.number], || {
                format!("{now} {host} reports {message} to shard {flat}: {reason:?} {origin:?}")
            });
        let own = origin == Origin::Local;
        let reported =
            self.core
                .checker
                .reported(now, host as u8, flat as u32, message, reason, own);
        self.core.check(reported);
    }

    fn note(&mut self, note: Note) {
        let (now, host) = (self.core.now, self.host);
        if matches!(note, Note::UnexpectedReturn) {
            let host = host as u8;
            let what = String::from("a return of what was not sent");
            self.core.check(Err(Violation::Table { host, what }));
        }
        self.core.trace.add([now, host as u64, 0x4e07e], || {
            format!("{now} {host} {note:?}")
        });
    }

    fn has_filled(&self) -> bool {
        self.core.filled
    }

    fn deed(&mut self, deed: Deed) {
        let (host, mut deed) = (self.host as u8, deed);
        if let Deed::Claims {
            shard,
            epoch,
            stops,
        } = &mut deed
        {
            let hosted = &self.core.hosts[self.host].hosted[*shard as usize];
            *stops = hosted.running == Running::Stopping && hosted.epoch == *epoch;
        }
        let kept = self.core.checker.deed(host, deed);
        self.core.check(kept);
    }

    fn is_flushed(&self) -> bool {
        // Acknowledgements travel alone if nothing else goes their way.
        let then = self.core.now.saturating_sub(2 * ACK_DELAY);
        self.core.net.is_flushed(self.host, then)
    }
}

impl Core {
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

/// Bytes as a number.
fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = bytes.len() as u64;
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    for byte in rest {
        hash = hash.rotate_left(8) ^ u64::from(*byte);
    }
    mix(hash)
}

fn hash_data(frame: &DataFrame) -> u64 {
    let (kind, a, b) = match frame.body {
        Body::Envelope(message) => (1, u64::from(message.origin), message.number),
        Body::Return(reason, message) => (
            2 + u64::from(reason == ReturnReason::Full),
            u64::from(message.origin),
            message.number,
        ),
        Body::Flush(token) => (4, token.0, 0),
        Body::Flushed(token) => (5, token.0, 0),
    };
    mix(frame.epoch.to_bits() ^ kind) ^ mix(a ^ u64::from(frame.shard.0) << 32) ^ b
}
