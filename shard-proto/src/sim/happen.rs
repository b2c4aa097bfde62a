//! What the events of a world do: frames arrive, entities start, handle and stop, callers send, the script is asked.

use super::cluster::{ACK_DELAY, Running};
use super::event::What;
use super::machine::{Body, Sink};
use super::net::NOBODY;
use super::{Message, Store, World};
use crate::micros;
use crate::region::{Origin, RejectReason};
use crate::wire::Frame;

impl<St: Store> World<St> {
    pub(super) fn happen(&mut self, what: What) {
        match what {
            What::Control { frame } => self.control(frame),
            What::Data { link, stamp } => self.data(usize::from(link), stamp),
            What::Room { link } => self.room(usize::from(link)),
            What::Started { host, shard, stamp } => {
                self.shard_started(usize::from(host), usize::from(shard), stamp);
            }
            What::Stopped { host, shard, stamp } => {
                self.shard_stopped(usize::from(host), usize::from(shard), stamp);
            }
            What::Handle { host, shard, stamp } => {
                self.handle(usize::from(host), usize::from(shard), stamp);
            }
            What::Traffic { host, life } => self.traffic(usize::from(host), life),
            What::News { news } => self.tell(news),
            What::Wake { host, stamp } => self.wake(usize::from(host), stamp),
            What::Restart { host, life } => {
                let state = &self.core.hosts[usize::from(host)];
                if !state.alive && state.life == life {
                    self.begin_life(usize::from(host));
                }
            }
            What::StartType { host, ty, life } => self.start_type(usize::from(host), ty, life),
            What::Script => self.tick_script(),
            What::Lock { host, life } => self.look_for_lock(usize::from(host), life),
            What::Move => {
                let all = u64::from(self.core.config.all_shards());
                let shard = self.script_rng.below(all) as u32;
                self.move_shard(shard);
                let every = 2 * micros(self.core.config.moves);
                let at = self.core.now + 1 + self.script_rng.below(every);
                if !self.calm {
                    self.core.events.push(at, What::Move);
                }
            }
        }
    }

    /// Does it later if the host stands still.
    fn defers(&mut self, host: usize, what: What) -> bool {
        let state = &self.core.hosts[host];
        let paused = state.is_paused();
        if paused {
            let until = state.paused_until.max(self.core.now);
            self.core.events.push(until, what);
        }
        paused
    }

    fn control(&mut self, at: u32) {
        let flight = self.core.net.take(at);
        let link = usize::from(flight.link);
        let (from, to) = self.core.net.ends(link);
        let state = &self.core.net.links[link];
        let receiver = &self.core.hosts[to];
        let arrives = !state.cut
            && state.connection == flight.connection
            && receiver.alive
            && receiver.life == flight.to_life
            && receiver.ended[from] <= flight.from_life;
        if arrives && receiver.is_paused() {
            let until = receiver.paused_until.max(self.core.now);
            self.core.net.put(at, flight);
            return self.core.events.push(until, What::Control { frame: at });
        }
        if arrives {
            self.meet(to, from, flight.from_life);
            let local = self.core.local(to);
            let node = self.core.hosts[from].node;
            if let Some(machine) = &mut self.machines[to]
                && let Ok(frame) = Frame::decode_exact(&flight.bytes, 1 << 20)
                && let Ok(control) = frame.control()
            {
                let (ty, term) = (frame.header.entity_type, frame.header.term());
                let sink = &mut self.core.sink(to);
                machine.handle_control(local, node, ty, term, &control, sink);
            }
            self.after(to);
        }
        self.core.net.release(at, flight);
    }

    /// Something of a life arrives: a former one is over. What is to go back has a way, whether it is a member or not.
    fn meet(&mut self, host: usize, other: usize, life: u32) {
        let known = self.core.hosts[host].knows[other];
        if known == life {
            return;
        }
        if known != NOBODY {
            self.end_pair(host, other, known);
        }
        self.core.hosts[host].knows[other] = life;
    }

    fn data(&mut self, link: usize, stamp: u32) {
        let (from, to) = self.core.net.ends(link);
        let state = &mut self.core.net.links[link];
        if !state.armed || state.stamp != stamp {
            return;
        }
        let receiver = &self.core.hosts[to];
        if receiver.is_paused() {
            let (until, link) = (receiver.paused_until.max(self.core.now), link as u16);
            return self.core.events.push(until, What::Data { link, stamp });
        }
        state.armed = false;
        let (from_life, to_life) = (state.from_life, state.to_life);
        let heard = receiver.alive
            && receiver.life == to_life
            && receiver.ended[from] <= from_life
            && !state.cut;
        if !heard {
            return;
        }
        if state.queue.front().is_some_and(|flight| !flight.gone) {
            for flight in &mut state.queue {
                flight.gone = true;
            }
        }
        let Some(flight) = state.queue.pop_front() else {
            return;
        };
        let now = self.core.now;
        state.arrived.push_back((now, flight.frame));
        let window = self.core.config.window as usize;
        if state.congested && state.queue.len() <= window / 2 {
            let link = link as u16;
            self.core.events.push(now + 12_000, What::Room { link });
        }
        let back = self.core.net.index(to, from);
        self.core.net.links[back].acknowledge(flight.sent_at);
        self.meet(to, from, from_life);
        let flat = self.core.flat(flight.frame.ty, flight.frame.shard) as u32;
        let accepted = match flight.frame.body {
            Body::Envelope(message) => self.core.checker.accepted(to_life, flat, message),
            Body::Return(_, message) if message.origin == to_life => {
                self.core.checker.accepted(to_life, flat, message)
            }
            _ => Ok(()),
        };
        self.core.check(accepted);
        let local = self.core.local(to);
        let node = self.core.hosts[from].node;
        if let Some(machine) = &mut self.machines[to] {
            machine.handle_data(local, node, flight.frame, &mut self.core.sink(to));
        }
        self.after(to);
        self.core.arm(link);
    }

    fn room(&mut self, link: usize) {
        let (from, to) = self.core.net.ends(link);
        if self.defers(from, What::Room { link: link as u16 }) {
            return;
        }
        let now = self.core.now;
        let window = self.core.config.window as usize;
        let back = self.core.net.index(to, from);
        let acknowledges = !self.core.net.links[back].cut;
        let state = &mut self.core.net.links[link];
        if acknowledges {
            state.acknowledge(now.saturating_sub(ACK_DELAY));
        }
        if !state.congested
            || state.unacknowledged() > window / 2
            || state.from_life != self.core.hosts[from].life
        {
            return;
        }
        state.congested = false;
        let local = self.core.local(from);
        let node = self.core.hosts[to].node;
        if let Some(machine) = &mut self.machines[from] {
            machine.handle_congestion(local, node, false, &mut self.core.sink(from));
        }
        self.after(from);
    }

    fn shard_started(&mut self, host: usize, shard: usize, stamp: u32) {
        let what = What::Started {
            host: host as u8,
            shard: shard as u16,
            stamp,
        };
        if self.core.hosts[host].hosted[shard].stamp != stamp || self.defers(host, what) {
            return;
        }
        let hosted = &mut self.core.hosts[host].hosted[shard];
        if hosted.running != Running::Starting {
            return;
        }
        hosted.running = Running::Yes;
        let epoch = hosted.epoch;
        let (ty, place) = self.core.place(shard as u32);
        let local = self.core.local(host);
        if let Some(machine) = &mut self.machines[host] {
            machine.shard_started(local, ty, place, epoch, &mut self.core.sink(host));
        }
        self.after(host);
    }

    fn shard_stopped(&mut self, host: usize, shard: usize, stamp: u32) {
        let what = What::Stopped {
            host: host as u8,
            shard: shard as u16,
            stamp,
        };
        if self.core.hosts[host].hosted[shard].stamp != stamp || self.defers(host, what) {
            return;
        }
        let now = self.core.now;
        let hosted = &mut self.core.hosts[host].hosted[shard];
        let (epoch, forced) = (hosted.epoch, hosted.forced);
        hosted.running = Running::No;
        let undone = core::mem::take(&mut hosted.mailbox);
        let ended = self
            .core
            .checker
            .serving_ended(now, host as u8, shard as u32, epoch);
        self.core.check(ended);
        let (ty, place) = self.core.place(shard as u32);
        let local = self.core.local(host);
        if let Some(machine) = &mut self.machines[host] {
            let mut sink = self.core.sink(host);
            for (origin, message) in undone {
                // What the message's life left behind is not the next one's.
                if let Origin::Remote(node) = origin
                    && sink.life_behind(node) != Some(message.origin)
                {
                    let reason = RejectReason::OriginEnded;
                    sink.reject(ty, place, origin, reason, message);
                    continue;
                }
                machine.give_back(local, ty, place, epoch, origin, message, &mut sink);
            }
            machine.shard_stopped(local, ty, place, epoch, forced, &mut sink);
        }
        self.after(host);
    }

    fn handle(&mut self, host: usize, shard: usize, stamp: u32) {
        let what = What::Handle {
            host: host as u8,
            shard: shard as u16,
            stamp,
        };
        let hosted = &self.core.hosts[host].hosted[shard];
        if hosted.stamp != stamp || hosted.running != Running::Yes || self.defers(host, what) {
            return;
        }
        // An entity looks before each message whether it still may handle it.
        if self.core.hosts[host].lease_real <= self.core.now {
            return;
        }
        let hosted = &mut self.core.hosts[host].hosted[shard];
        hosted.busy = false;
        let epoch = hosted.epoch;
        if let Some((_, message)) = hosted.mailbox.pop_front() {
            let more = !hosted.mailbox.is_empty();
            self.core.handled(host, shard, epoch, message);
            if more {
                self.core.handle_next(host, shard);
            }
        }
    }

    fn traffic(&mut self, host: usize, life: u32) {
        let state = &self.core.hosts[host];
        if !state.alive || state.life != life || self.core.now >= self.traffic_end {
            return;
        }
        let what = What::Traffic {
            host: host as u8,
            life,
        };
        if self.defers(host, what) {
            return;
        }
        let all = self.core.config.all_shards();
        let every = micros(self.core.config.traffic);
        let state = &mut self.core.hosts[host];
        let entity = state.traffic.below(u64::from(self.core.config.entities)) as u32;
        let shard = if self.calm {
            state.cursor = (state.cursor + 1) % all;
            state.cursor
        } else {
            state.traffic.below(u64::from(all)) as u32
        };
        let at = self.core.now + 1 + state.traffic.below(2 * every);
        self.core.events.push(at, what);
        self.send_one(host, shard, entity);
    }

    pub(super) fn send_one(&mut self, host: usize, shard: u32, entity: u32) {
        let state = &mut self.core.hosts[host];
        if !state.alive || state.is_paused() {
            return;
        }
        let message = Message {
            origin: state.life,
            entity,
            number: state.messages,
        };
        state.messages += 1;
        let now = self.core.now;
        self.core.checker.sent(now, host as u8, shard, message);
        let (ty, place) = self.core.place(shard);
        let local = self.core.local(host);
        if let Some(machine) = &mut self.machines[host] {
            machine.route(local, ty, place, message, &mut self.core.sink(host));
        }
        self.after(host);
    }

    pub(super) fn tick_script(&mut self) {
        self.script_at = u64::MAX;
        self.ask_script(|script, view, news| script.tick(view, news));
    }

    /// When the script wants to be asked again.
    pub(super) fn arm_script(&mut self) {
        if let Some(at) = self.script.next_tick()
            && at < self.script_at
        {
            self.script_at = at;
            let at = at.max(self.core.now);
            self.core.events.push(at, What::Script);
        }
    }
}
