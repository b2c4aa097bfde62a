//! The world around one process: what it sends goes to the network, what it starts and stops takes its time, and the
//! checker and the trace see all of it.

use alloc::format;
use alloc::string::String;

use super::cluster::{ACK_DELAY, Core, Running};
use super::event::What;
use super::machine::{Body, DataFrame, Note, Sink, Unsent};
use super::{Deed, Message, Violation};
use crate::hash::mix;
use crate::region::{Origin, RejectReason};
use crate::wire::{Control, HEADER_LEN, ReturnReason};
use crate::{EntityTypeId, Epoch, Instant, NodeId, ShardId, Term};

/// Messages a slow entity keeps.
const MAILBOX: usize = 64;

/// The world around one process.
pub(super) struct HostSink<'a> {
    core: &'a mut Core,
    host: usize,
}

impl<'a> HostSink<'a> {
    pub(super) fn new(core: &'a mut Core, host: usize) -> Self {
        Self { core, host }
    }
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
            Body::Flush(token) => checker.marked(host, shard, to_life, frame.epoch, token),
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
        let sent = match frame.body {
            // What a life left behind is not the next one's.
            Body::Return(_, message) if self.core.hosts[from].knows[to] != message.origin => {
                Err(Unsent::NoPeer)
            }
            _ => self.core.send_data(from, to, frame),
        };
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

    fn deliver(
        &mut self,
        ty: u8,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message,
    ) -> bool {
        let flat = self.core.flat(ty, shard);
        let (now, host) = (self.core.now, self.host);
        let life = self.core.hosts[host].life;
        let slow = mix(self.core.seed ^ flat as u64) & 3 == 0;
        if !slow {
            self.core.handled(host, flat, epoch, message);
            return true;
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
            self.core.check(Err(Violation::Table { host, what }));
            return true;
        }
        if hosted.mailbox.len() >= MAILBOX {
            return false;
        }
        hosted.mailbox.push_back((origin, message));
        if !hosted.busy {
            self.core.handle_next(host, flat);
        }
        true
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

    fn is_congested(&self, node: NodeId) -> bool {
        let (core, from) = (&*self.core, self.host);
        core.host_of(node).is_some_and(|to| {
            let link = &core.net.links[core.net.index(from, to)];
            let pair = (core.hosts[from].life, core.hosts[from].knows[to]);
            link.congested && (link.from_life, link.to_life) == pair
        })
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

    fn is_linked(&self) -> bool {
        let (core, from) = (&*self.core, self.host);
        (0..core.hosts.len()).any(|to| {
            let life = core.hosts[from].knows[to];
            let other = &core.hosts[to];
            let ways = [core.net.index(from, to), core.net.index(to, from)];
            let mut ways = ways.into_iter().map(|way| &core.net.links[way]);
            other.alive
                && other.life == life
                && ways.all(|link| !link.cut && link.down_until <= core.now)
        })
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
