//! What may happen in a state, and what it does.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::Plant;
use super::choice::{Choice, Without};
use super::state::{Flight, Running, State};
use super::surroundings::describe;
use crate::membership::{MemberChange, MemberState, RemovalCause};
use crate::sim::Violation;
use crate::wire::Frame;
use crate::{ShardId, micros};

/// How late a timer may be, compared to those of other hosts, if its host does not stand still.
const LATE: u64 = 5_000;
/// How long a frame takes where all goes well.
const DELAY: u64 = 1_000;
/// Most rounds in which all goes well.
const ROUNDS: u32 = 100_000;

impl State {
    /// Everything that may happen. What cannot arrive any more is forgotten before.
    pub(super) fn choices(&mut self) -> Vec<Choice> {
        let count = self.hosts.len();
        let mut choices = Vec::new();
        for from in 0..count {
            for to in 0..count {
                self.forget(from, to);
                self.arrivals(from, to, &mut choices);
            }
        }
        let next = self.next_wake();
        for (host, state) in (0_u8..).zip(&self.hosts) {
            let awake = state.is_awake();
            if awake && state.wake != u64::MAX && state.wake <= next.saturating_add(LATE) {
                choices.push(Choice::Timer { host });
            }
            if state.is_up() && state.paused {
                choices.push(Choice::Wake { host });
            }
            for (shard, hosted) in (0_u8..).zip(&state.hosted) {
                match hosted.running {
                    Running::Starting if awake => choices.push(Choice::Started { host, shard }),
                    Running::Stopping if awake => choices.push(Choice::Stopped { host, shard }),
                    _ => {}
                }
            }
            for (of, news) in (0_u8..).zip(&state.news) {
                if awake && !news.is_empty() {
                    choices.push(Choice::News { host, of });
                }
            }
        }
        self.interventions(&mut choices);
        choices
    }

    /// Control that cannot arrive any more.
    fn forget(&mut self, from: usize, to: usize) {
        let receiver = &self.hosts[to];
        let (up, life, ended) = (receiver.is_up(), receiver.life, receiver.ended[from]);
        let anything = self.plant == Some(Plant::WrongLife);
        let link = self.link_mut(from, to);
        if !anything {
            link.control
                .retain(|flight| up && flight.to_life == life && ended <= flight.from_life);
        }
    }

    fn arrivals(&self, from: usize, to: usize, choices: &mut Vec<Choice>) {
        let receiver = &self.hosts[to];
        if !receiver.is_awake() {
            return;
        }
        let link = self.link(from, to);
        let (from_host, to_host) = (from as u8, to as u8);
        for at in 0..link.control.len() as u8 {
            for again in [false, true] {
                if !again || self.left.duplicates > 0 {
                    choices.push(Choice::Control {
                        from: from_host,
                        to: to_host,
                        at,
                        again,
                    });
                }
            }
        }
        if self.hears(from, to) {
            choices.push(Choice::Data {
                from: from_host,
                to: to_host,
            });
        }
    }

    /// Whether the next data of a link can arrive.
    fn hears(&self, from: usize, to: usize) -> bool {
        let (receiver, link) = (&self.hosts[to], self.link(from, to));
        receiver.is_awake()
            && !link.data.is_empty()
            && receiver.life == link.to_life
            && receiver.ended[from] <= link.from_life
    }

    fn next_wake(&self) -> u64 {
        let awake = self.hosts.iter().filter(|host| host.is_awake());
        awake.map(|host| host.wake).min().unwrap_or(u64::MAX)
    }

    /// What is done to hosts, or asked of them, as often as it may be.
    fn interventions(&self, choices: &mut Vec<Choice>) {
        let left = self.left;
        let shards = 0..self.config.shards as u8;
        for (host, state) in (0_u8..).zip(&self.hosts) {
            let mut may = |left: u8, choice: Choice| {
                if left > 0 {
                    choices.push(choice);
                }
            };
            if !state.is_up() {
                may(left.starts, Choice::Begin { host });
                continue;
            }
            may(left.crashes, Choice::Crash { host });
            if !state.paused {
                for shard in shards.clone() {
                    may(left.sends, Choice::Send { host, shard });
                }
                may(left.pauses, Choice::Pause { host });
                if !state.leaving {
                    may(left.leaves, Choice::Leave { host });
                }
            }
            may(left.removals, Choice::Remove { of: host });
            for by in 0..self.hosts.len() as u8 {
                if by != host && self.hosts[usize::from(by)].is_up() {
                    may(left.suspicions, Choice::Suspect { by, of: host });
                }
            }
            for how in [Without::Cut, Without::Frozen] {
                let time = self.lapse();
                let without = Some((host, how));
                may(left.passes, Choice::Pass { time, without });
            }
        }
        if left.moves > 0 {
            choices.extend(shards.map(|shard| Choice::Move { shard }));
        }
        if left.passes > 0 {
            let time = self.config.leadership.beat();
            choices.push(Choice::Pass {
                time,
                without: None,
            });
        }
    }

    /// After so long without a word every lease of a host is over, here and there.
    pub(super) fn lapse(&self) -> Duration {
        let leadership = &self.config.leadership;
        let all = leadership.lease() + leadership.drift();
        all + all / 20 + leadership.beat()
    }

    /// Does it.
    pub(super) fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Control {
                from,
                to,
                at,
                again,
            } => {
                let (from, to, at) = (usize::from(from), usize::from(to), usize::from(at));
                self.left.duplicates -= u8::from(again);
                let control = &mut self.link_mut(from, to).control;
                let flight = if again {
                    control[at].clone()
                } else {
                    control.remove(at)
                };
                self.control(from, to, &flight);
            }
            Choice::Data { from, to } => self.data(usize::from(from), usize::from(to)),
            Choice::Timer { host } => self.timer(usize::from(host)),
            Choice::News { host, of } => self.hear(usize::from(host), usize::from(of)),
            Choice::Started { host, shard } => self.started(usize::from(host), usize::from(shard)),
            Choice::Stopped { host, shard } => self.stopped(usize::from(host), usize::from(shard)),
            Choice::Send { host, shard } => {
                self.left.sends -= 1;
                self.send(usize::from(host), usize::from(shard));
            }
            Choice::Move { shard } => {
                self.left.moves -= 1;
                self.want_move(u32::from(shard));
            }
            Choice::Pause { host } => {
                self.left.pauses -= 1;
                self.hosts[usize::from(host)].paused = true;
            }
            Choice::Wake { host } => self.wake(usize::from(host)),
            Choice::Crash { host } => {
                self.left.crashes -= 1;
                self.end_life(usize::from(host));
            }
            Choice::Begin { host } => {
                self.left.starts -= 1;
                self.begin_life(usize::from(host));
            }
            Choice::Leave { host } => {
                self.left.leaves -= 1;
                self.leave(usize::from(host));
            }
            Choice::Suspect { by, of } => {
                self.left.suspicions -= 1;
                let (by, of) = (usize::from(by), usize::from(of));
                for state in [MemberState::Unreachable, MemberState::Up] {
                    let change = MemberChange::Member(self.member(of, state));
                    self.say(by, of, change);
                }
            }
            Choice::Remove { of } => {
                self.left.removals -= 1;
                let of = usize::from(of);
                let change = self.removed(of, RemovalCause::Down);
                for host in 0..self.hosts.len() {
                    self.say(host, of, change);
                }
            }
            Choice::Pass { time, without } => {
                self.left.passes -= 1;
                self.pass(time, without);
            }
        }
        self.check_all();
    }

    fn control(&mut self, from: usize, to: usize, flight: &Flight) {
        self.meet(to, from, flight.from_life);
        let node = self.hosts[from].node;
        let Ok(frame) = Frame::decode_exact(&flight.bytes, 1 << 20) else {
            return;
        };
        let Ok(control) = frame.control() else {
            return;
        };
        let (ty, term) = (frame.header.entity_type, frame.header.term());
        self.input(to, |machine, local, sink| {
            machine.handle_control(local, node, ty, term, &control, sink);
        });
    }

    fn data(&mut self, from: usize, to: usize) {
        let overtakes = self.plant == Some(Plant::Overtakes);
        let link = self.link_mut(from, to);
        let from_life = link.from_life;
        let frame = if overtakes {
            link.data.pop_back()
        } else {
            link.data.pop_front()
        };
        let Some(frame) = frame else {
            return;
        };
        self.meet(to, from, from_life);
        let node = self.hosts[from].node;
        self.input(to, |machine, local, sink| {
            machine.handle_data(local, node, frame, sink);
        });
    }

    fn timer(&mut self, host: usize) {
        self.now = self.now.max(self.hosts[host].wake);
        self.input(host, |machine, local, sink| {
            machine.handle_timeout(local, sink);
        });
    }

    fn wake(&mut self, host: usize) {
        self.hosts[host].paused = false;
        self.input(host, |machine, local, sink| {
            machine.handle_timeout(local, sink);
        });
    }

    fn started(&mut self, host: usize, shard: usize) {
        let hosted = &mut self.hosts[host].hosted[shard];
        hosted.running = Running::Yes;
        let epoch = hosted.epoch;
        self.input(host, |machine, local, sink| {
            machine.shard_started(local, 0, ShardId(shard as u32), epoch, sink);
        });
    }

    fn stopped(&mut self, host: usize, shard: usize) {
        let hosted = self.hosts[host].hosted[shard];
        let forced = self.hosts[host].clock.at(self.now) >= hosted.abort_at;
        self.serving_ended(host, shard);
        let shard = ShardId(shard as u32);
        self.input(host, |machine, local, sink| {
            machine.shard_stopped(local, 0, shard, hosted.epoch, forced, sink);
        });
    }

    /// The acting leader is asked to move a shard.
    pub(super) fn want_move(&mut self, shard: u32) {
        if let Some(leader) = self.leader() {
            self.input(leader, |machine, local, sink| {
                machine.want_move(local, 0, ShardId(shard), sink);
            });
        }
    }

    pub(super) fn leave(&mut self, host: usize) {
        let mut left = false;
        self.input(host, |machine, local, sink| {
            left = machine.leave(local, true, sink);
        });
        if !left {
            return;
        }
        self.hosts[host].leaving = true;
        let change = MemberChange::Member(self.member(host, MemberState::Leaving));
        for other in 0..self.hosts.len() {
            self.say(other, host, change);
        }
    }

    /// The host that acts as the leader, and takes what comes.
    pub(super) fn leader(&self) -> Option<usize> {
        self.hosts.iter().position(|host| {
            let machine = host.machine.as_ref().filter(|_| !host.paused);
            let acting = machine.and_then(|machine| machine.acting_until());
            acting.is_some_and(|(_, until)| host.clock.at(self.now) < until)
        })
    }

    /// Time passes in which all goes well, but for one host.
    pub(super) fn pass(&mut self, time: Duration, without: Option<(u8, Without)>) {
        let until = self.now + micros(time);
        self.pass_until(until, without, |_| false);
    }

    /// The same until something is reached. Whether it was.
    pub(super) fn pass_until(
        &mut self,
        until: u64,
        without: Option<(u8, Without)>,
        reached: impl Fn(&Self) -> bool,
    ) -> bool {
        let cut = without.filter(|(_, how)| *how == Without::Cut);
        let cut = cut.map(|(host, _)| usize::from(host));
        if let Some((host, Without::Frozen)) = without
            && self.hosts[usize::from(host)].is_up()
        {
            self.hosts[usize::from(host)].paused = true;
        }
        for _ in 0..ROUNDS {
            if self.violation.is_some() {
                return false;
            }
            if reached(self) {
                return true;
            }
            let next = self.next_wake();
            let moves = self.is_moving(cut);
            let at = if moves { self.now + DELAY } else { next };
            if at.min(next) > until {
                self.now = self.now.max(until);
                self.check_all();
                return false;
            }
            if next <= at {
                let due = self
                    .hosts
                    .iter()
                    .position(|host| host.is_awake() && host.wake == next);
                if let Some(host) = due {
                    self.timer(host);
                }
            } else {
                self.now = at;
                self.round(cut);
            }
            self.check_all();
        }
        self.check(Err(Violation::Timer {
            host: 0,
            what: "a timer is due again and again".into(),
        }));
        false
    }

    /// Something is on its way.
    fn is_moving(&mut self, cut: Option<usize>) -> bool {
        let count = self.hosts.len();
        let mut moves = false;
        for from in 0..count {
            for to in 0..count {
                if Some(from) == cut || Some(to) == cut {
                    self.link_mut(from, to).control.clear();
                    continue;
                }
                self.forget(from, to);
                let awake = self.hosts[to].is_awake();
                moves |= awake && !self.link(from, to).control.is_empty();
                moves |= self.hears(from, to);
                moves |= awake && !self.hosts[to].news[from].is_empty();
            }
        }
        let busy = |running| matches!(running, Running::Starting | Running::Stopping);
        let hosts = self.hosts.iter().filter(|host| host.is_awake());
        moves
            || hosts
                .flat_map(|host| &host.hosted)
                .any(|hosted| busy(hosted.running))
    }

    /// Everything that is on its way arrives, and what starts or stops is done with it.
    fn round(&mut self, cut: Option<usize>) {
        let count = self.hosts.len();
        for from in 0..count {
            for to in 0..count {
                if Some(from) == cut || Some(to) == cut {
                    continue;
                }
                for _ in 0..self.hosts[to].news[from].len() {
                    if self.hosts[to].is_awake() {
                        self.hear(to, from);
                    }
                }
                self.forget(from, to);
                for _ in 0..self.link(from, to).control.len() {
                    if self.hosts[to].is_awake() && !self.link(from, to).control.is_empty() {
                        let flight = self.link_mut(from, to).control.remove(0);
                        self.control(from, to, &flight);
                    }
                    self.forget(from, to);
                }
                for _ in 0..self.link(from, to).data.len() {
                    if self.hears(from, to) {
                        self.data(from, to);
                    }
                }
            }
        }
        for host in 0..count {
            for shard in 0..self.config.shards as usize {
                if !self.hosts[host].is_awake() {
                    continue;
                }
                match self.hosts[host].hosted[shard].running {
                    Running::Starting => self.started(host, shard),
                    Running::Stopping => self.stopped(host, shard),
                    _ => {}
                }
            }
        }
    }

    /// Whether everything works again after everything that is wrong has ended, and some time has passed.
    pub(super) fn recovers(mut self) -> Result<(), Violation> {
        let count = self.hosts.len();
        for host in 0..count {
            if self.hosts[host].paused {
                self.wake(host);
            }
            if !self.hosts[host].is_up() {
                self.begin_life(host);
            }
        }
        let bound = self.config.bound();
        let until = self.now + micros(bound);
        self.pass_until(until, None, |_| false);
        for host in 0..count {
            // It has left, or was told that its life is over.
            if !self.hosts[host].is_up() {
                self.begin_life(host);
            }
        }
        self.pass(bound, None);
        let shards = self.config.shards as usize;
        let firsts: Vec<u64> = self.hosts.iter().map(|host| host.sent).collect();
        for host in 0..count {
            for shard in 0..shards {
                self.send(host, shard);
            }
        }
        let until = self.now + micros(bound);
        let all = (0..count).flat_map(|host| (0..shards).map(move |shard| (host, shard)));
        let done = self.pass_until(until, None, |state| {
            all.clone()
                .all(|(host, shard)| state.reached(host, shard, firsts[host]))
        });
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        let mut all = all;
        match all.find(|(host, shard)| !self.reached(*host, *shard, firsts[*host])) {
            Some((host, shard)) if !done => Err(Violation::NoService {
                shard: shard as u32,
                origin: host as u8,
                waited: micros(bound),
            }),
            _ => Ok(()),
        }
    }

    /// A choice in this state, in words.
    pub(super) fn describe(&self, choice: Choice) -> String {
        let what = match choice {
            Choice::Control { from, to, at, .. } => {
                let link = self.link(usize::from(from), usize::from(to));
                let frame = link
                    .control
                    .get(usize::from(at))
                    .and_then(|flight| Frame::decode_exact(&flight.bytes, 1 << 20).ok());
                frame.and_then(|frame| {
                    let control = frame.control().ok()?;
                    Some(alloc::format!("term {} {control:?}", frame.header.term()))
                })
            }
            Choice::Data { from, to } => {
                let link = self.link(usize::from(from), usize::from(to));
                link.data.front().map(describe)
            }
            Choice::News { host, of } => {
                let news = &self.hosts[usize::from(host)].news[usize::from(of)];
                news.front().map(|news| match news {
                    MemberChange::Member(member) => alloc::format!("{:?}", member.state),
                    MemberChange::Removed { cause, .. } => alloc::format!("removed: {cause:?}"),
                })
            }
            _ => None,
        };
        let ms = Duration::from_micros(self.now).as_millis();
        match what {
            Some(what) => alloc::format!("{ms} ms: {choice}: {what}"),
            None => alloc::format!("{ms} ms: {choice}"),
        }
    }
}
