//! What the parts of a process tell each other, and the world.

use super::watch::{Watched, watch_coordinator, watch_region};
use super::{Body, DataFrame, Kind, Machine, Note, Outlet, Sink, Stage};
use crate::coordinator::CoordinatorCommand;
use crate::leadership::LeadershipCommand;
use crate::region::Command;
use crate::sim::{Deed, Store};
use crate::wire::Control;
use crate::{EntityTypeId, Instant, NodeId, Term};

/// What a coordinator wants of the process.
enum Step {
    /// It was done; there may be more.
    Again,
    /// Nothing more.
    Settled,
    Registered {
        node: NodeId,
        last_beat_age: u64,
    },
    EndSessions(NodeId),
    Exhausted,
}

/// What a region had to say.
enum Said {
    Nothing,
    Something,
    /// To its own coordinator: that it is registered no longer.
    Unregistered,
}

impl<St: Store> Machine<St> {
    /// Does everything there is to do, until nothing is left or a link has filled up.
    pub fn pump(&mut self, now: Instant, sink: &mut impl Sink) {
        self.now = self.now.max(now);
        loop {
            self.follow_all(sink);
            let Some(ty) = self.kinds.iter().position(|kind| kind.dirty) else {
                if !self.check_leave(sink) {
                    return;
                }
                continue;
            };
            self.poll_type(ty, sink);
            if sink.has_filled() {
                return;
            }
        }
    }

    /// Carries out everything leadership wants.
    pub(super) fn follow_all(&mut self, sink: &mut impl Sink) {
        while self.lead_dirty {
            match self.leadership.poll_command() {
                Some(command) => self.follow(command, sink),
                None => self.lead_dirty = false,
            }
        }
    }

    fn follow(&mut self, command: LeadershipCommand, sink: &mut impl Sink) {
        let now = self.now;
        match command {
            LeadershipCommand::Send { to, term, control } if to == self.me.node => {
                let _ = self.leadership.handle_control(now, to, term, &control);
            }
            LeadershipCommand::Send { to, term, control } => {
                sink.control(to, EntityTypeId(0), term, &control);
            }
            LeadershipCommand::Adopt(leader) => {
                self.leader = leader;
                sink.note(Note::Adopted(leader));
                let last_beat = self.leadership.last_beat();
                for kind in &mut self.kinds {
                    kind.dirty = true;
                    kind.region.handle_last_beat(last_beat);
                    kind.region.handle_leader(now, leader);
                }
            }
            LeadershipCommand::Lease(until) => {
                self.lease = until;
                sink.lease(until);
                for kind in &mut self.kinds {
                    kind.dirty = true;
                    kind.region.handle_lease(now, until);
                }
            }
            LeadershipCommand::Lapsed { lapses } => {
                sink.note(Note::Lapsed);
                for kind in &mut self.kinds {
                    kind.dirty = true;
                    kind.region.handle_lapse(now, lapses);
                }
            }
            LeadershipCommand::Begin { term } => {
                self.reign = Some((term, Stage::Begun));
                self.beats.clear();
                sink.note(Note::Begun(term));
                sink.deed(Deed::Begins);
                for kind in &mut self.kinds {
                    kind.dirty = true;
                    kind.coordinator.begin(now, term);
                }
            }
            LeadershipCommand::Act { term } => {
                self.reign = Some((term, Stage::Acting));
                sink.note(Note::Acts(term));
                for kind in &mut self.kinds {
                    kind.dirty = true;
                    kind.coordinator.act(now);
                }
            }
            LeadershipCommand::Hearing { node, hears } => {
                for kind in &mut self.kinds {
                    kind.dirty = true;
                    kind.coordinator.handle_hearing(now, node, hears);
                }
            }
            LeadershipCommand::OpenBarrier { term } => {
                self.reign = Some((term, Stage::Open));
                sink.note(Note::Opened(term));
                for kind in &mut self.kinds {
                    kind.dirty = true;
                    kind.coordinator.open_barrier(now);
                }
            }
            LeadershipCommand::End => {
                self.reign = None;
                sink.note(Note::Ended);
                for kind in &mut self.kinds {
                    kind.dirty = true;
                    kind.coordinator.end(now);
                }
            }
            LeadershipCommand::NodeLapsed { node, former } => {
                for (ty, kind) in (0..).zip(&mut self.kinds) {
                    kind.dirty = true;
                    if former {
                        kind.coordinator.handle_former_lapsed(now, node);
                    } else {
                        let (of, session) = (node, None);
                        sink.deed(Deed::EndsSession { ty, of, session });
                        kind.coordinator.handle_lapsed(now, node);
                    }
                }
            }
        }
    }

    /// One step of a type that may have commands.
    fn poll_type(&mut self, ty: usize, sink: &mut impl Sink) {
        let (now, me) = (self.now, self.me.node);
        let term = self.leader.map_or(Term::NONE, |leader| leader.term);
        let number = ty as u8;
        let kind = &mut self.kinds[ty];
        match kind.poll_coordinator(now, me, number, sink) {
            Step::Again => {}
            Step::Settled => match kind.poll_region(now, me, term, number, sink) {
                Said::Something => {}
                Said::Unregistered => self.say_registered(me),
                Said::Nothing => {
                    kind.dirty = false;
                    self.tell_types();
                }
            },
            Step::Registered {
                node,
                last_beat_age,
            } => {
                let beat = now.as_micros().saturating_sub(last_beat_age);
                let beat = Instant::from_micros(beat);
                match self.beats.iter_mut().find(|(other, _)| *other == node) {
                    Some((_, newest)) => *newest = beat.max(*newest),
                    None => self.beats.push((node, beat)),
                }
                self.say_registered(node);
            }
            Step::EndSessions(node) => {
                self.leadership.end_sessions(now, node);
                self.lead_dirty = true;
            }
            Step::Exhausted => {
                self.leadership.renew(now);
                self.lead_dirty = true;
            }
        }
    }
}

impl<St: Store> Kind<St> {
    fn poll_coordinator(&mut self, now: Instant, me: NodeId, ty: u8, sink: &mut impl Sink) -> Step {
        let reign = self.coordinator.term();
        let Some(command) = self.coordinator.poll_command() else {
            return Step::Settled;
        };
        match command {
            CoordinatorCommand::Send { to, control } => {
                let Some(term) = reign else {
                    return Step::Again;
                };
                if let Control::HandOff(hand_off) = control {
                    let shard = hand_off.shard;
                    sink.note(Note::HandOff { ty, shard });
                }
                watch_coordinator(to, ty, self.base, &control, sink);
                if to == me {
                    let _ = self.region.handle_control(now, me, term, &control);
                } else {
                    sink.control(to, self.id, term, &control);
                }
                Step::Again
            }
            CoordinatorCommand::Registered {
                node,
                last_beat_age,
            } => Step::Registered {
                node,
                last_beat_age,
            },
            CoordinatorCommand::EndSessions { node } => Step::EndSessions(node),
            CoordinatorCommand::HandOffTimedOut { node, shard, .. } => {
                sink.note(Note::TimedOut { node, shard });
                Step::Again
            }
            CoordinatorCommand::OtherStorage { .. } => Step::Again,
            CoordinatorCommand::Exhausted => Step::Exhausted,
        }
    }

    fn poll_region(
        &mut self,
        now: Instant,
        me: NodeId,
        term: Term,
        ty: u8,
        sink: &mut impl Sink,
    ) -> Said {
        let Some(command) = self.region.poll_command() else {
            return Said::Nothing;
        };
        let (to, frame) = match command {
            Command::Send { to, control } => {
                watch_region(self.base, &control, sink);
                if to != me {
                    sink.control(to, self.id, term, &control);
                    return Said::Something;
                }
                let mut watched = Watched::<St> {
                    coordinator: &mut self.coordinator,
                    ty,
                    base: self.base,
                };
                if watched.tell(now, me, term, &control, sink) {
                    return Said::Unregistered;
                }
                return Said::Something;
            }
            Command::Forward {
                to,
                shard,
                epoch,
                payload,
            } => (to, data(ty, shard, epoch, Body::Envelope(payload))),
            Command::Return {
                to,
                shard,
                epoch,
                reason,
                payload,
            } => (to, data(ty, shard, epoch, Body::Return(reason, payload))),
            Command::Flush {
                to,
                shard,
                epoch,
                token,
            } => (to, data(ty, shard, epoch, Body::Flush(token))),
            Command::Flushed { to, shard, token } => (
                to,
                data(ty, shard, crate::Epoch::NONE, Body::Flushed(token)),
            ),
            Command::Deliver {
                shard,
                epoch,
                origin,
                payload,
            } => {
                self.outlet(now, me, sink)
                    .deliver(ty, shard, epoch, origin, payload);
                return Said::Something;
            }
            Command::Reject {
                shard,
                origin,
                reason,
                payload,
            } => {
                sink.reject(ty, shard, origin, reason, payload);
                return Said::Something;
            }
            Command::StartShard { shard, epoch } => {
                sink.start(ty, shard, epoch);
                return Said::Something;
            }
            Command::StopShard {
                shard,
                epoch,
                abort_at,
            } => {
                sink.stop(ty, shard, epoch, abort_at);
                return Said::Something;
            }
            Command::Registered { .. } => {
                sink.note(Note::Registered);
                return Said::Something;
            }
            Command::Refused { .. } => {
                sink.note(Note::Refused);
                return Said::Something;
            }
            Command::Open { shard, epoch } => {
                sink.open(ty, shard, epoch);
                return Said::Something;
            }
            Command::HomeChanged { .. } => return Said::Something,
        };
        self.outlet(now, me, sink).write_or_wait((to, frame));
        Said::Something
    }
}

const fn data(ty: u8, shard: crate::ShardId, epoch: crate::Epoch, body: Body) -> DataFrame {
    DataFrame {
        ty,
        shard,
        epoch,
        body,
    }
}
