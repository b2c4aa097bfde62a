//! What was promised so far, and whether it is kept.

use super::Plant;
use super::state::{Host, Hosted, IDLE, Running, State};
use crate::region::RejectReason;
use crate::sim::machine::Body;
use crate::sim::{Message, Violation};
use crate::{Epoch, Instant, Term};

/// As the checker of worlds: two conversions between clocks.
const ROUNDING: u64 = 2;

/// A serving of a shard that has not ended by a word of its host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Serving {
    pub(super) host: u8,
    pub(super) life: u32,
    pub(super) stay: u32,
    pub(super) epoch: Epoch,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) delivered: bool,
    pub(super) reported: bool,
    /// ... as one that was perhaps delivered.
    pub(super) perhaps: bool,
    /// It may have died with a process.
    pub(super) excused: bool,
}

impl State {
    /// Until when a host may serve.
    pub(super) fn set_lease(&mut self, host: usize, until: Option<Instant>) {
        let now = self.now;
        let serves_on = self.plant == Some(Plant::ServesOn) && host == 1;
        let state = &mut self.hosts[host];
        let real = until.map_or(0, |until| state.clock.when(until));
        if serves_on {
            state.lease = if real > 0 { u64::MAX } else { state.lease };
            return;
        }
        let lapsed = real <= now || now > state.lease.saturating_add(ROUNDING);
        if real != state.lease && lapsed && state.lease > 0 {
            state.stay += 1;
        }
        state.lease = real;
    }

    pub(super) fn set_acting(&mut self, host: usize, acting: Option<(Term, Instant)>) {
        let now = self.now;
        let state = &mut self.hosts[host];
        let acting = acting.map(|(term, until)| (term, state.clock.when(until)));
        let acting = acting.filter(|(_, until)| *until > now);
        state.acting = acting;
        let me = (host as u8, state.life);
        let Some((term, _)) = acting else {
            return;
        };
        if self.acted == Some((me.0, me.1, term)) {
            return;
        }
        let result = match self.acted {
            Some((_, _, highest)) if term <= highest => Err(Violation::TermNotGrowing {
                host: me.0,
                term,
                highest,
            }),
            _ => Ok(()),
        };
        self.acted = Some((me.0, me.1, term));
        self.check(result);
    }

    fn lasts(&self, serving: &Serving) -> bool {
        let host = &self.hosts[usize::from(serving.host)];
        host.life == serving.life && host.stay == serving.stay && self.now < host.lease
    }

    /// A shard starts on a host.
    pub(super) fn serving_began(&mut self, host: usize, shard: usize, epoch: Epoch) {
        let state = &self.hosts[host];
        let (life, stay, lease) = (state.life, state.stay, state.lease);
        let hosted = state.hosted[shard];
        let (me, number) = (host as u8, shard as u32);
        let mut result = Ok(());
        if hosted.running != Running::No {
            result = Err(Violation::StartedBesideItself {
                shard: number,
                host: me,
                running: hosted.epoch,
                epoch,
            });
        } else if let Some(other) = self.servings[shard]
            .iter()
            .find(|serving| serving.host != me && self.lasts(serving))
        {
            result = Err(Violation::TwoHomes {
                shard: number,
                first: (other.host, other.epoch),
                until: self.hosts[usize::from(other.host)].lease,
                second: (me, epoch),
            });
        } else if self.now >= lease.saturating_add(ROUNDING) {
            result = Err(Violation::StartedWithoutLease {
                shard: number,
                host: me,
                epoch,
            });
        } else if epoch <= self.highest[shard] {
            result = Err(Violation::EpochNotGrowing {
                shard: number,
                host: me,
                epoch,
                highest: self.highest[shard],
            });
        }
        self.check(result);
        self.highest[shard] = epoch.max(self.highest[shard]);
        self.servings[shard].retain(|serving| serving.host != me);
        self.servings[shard].push(Serving {
            host: me,
            life,
            stay,
            epoch,
        });
        self.hosts[host].hosted[shard] = Hosted {
            running: Running::Starting,
            epoch,
            abort_at: Instant::FAR_FUTURE,
        };
    }

    pub(super) fn serving_ended(&mut self, host: usize, shard: usize) {
        self.servings[shard].retain(|serving| usize::from(serving.host) != host);
        self.hosts[host].hosted[shard] = IDLE;
    }

    /// A caller sends.
    pub(super) fn send(&mut self, host: usize, shard: usize) -> u64 {
        let state = &mut self.hosts[host];
        let message = Message {
            origin: state.life,
            entity: 0,
            number: state.sent,
        };
        state.sent += 1;
        self.messages.push((shard as u32, message, Fate::default()));
        let shard = crate::ShardId(shard as u32);
        self.input(host, |machine, local, sink| {
            machine.route(local, 0, shard, message, sink);
        });
        message.number
    }

    /// What was sent so far is of no interest.
    pub(super) fn forget_messages(&mut self) {
        self.messages.retain(|(_, _, fate)| !fate.delivered);
        for (_, _, fate) in &mut self.messages {
            fate.excused = true;
        }
    }

    /// Whether one of the messages of a host, from that number on, to a shard was handled.
    pub(super) fn reached(&self, host: usize, shard: usize, from: u64) -> bool {
        let life = self.hosts[host].life;
        self.messages.iter().any(|(to, message, fate)| {
            *to == shard as u32
                && message.origin == life
                && message.number >= from
                && fate.delivered
        })
    }

    /// An entity handles a message.
    pub(super) fn delivered(&mut self, host: usize, shard: u32, epoch: Epoch, message: Message) {
        let me = host as u8;
        let serves = self.servings[shard as usize]
            .iter()
            .any(|serving| serving.host == me && serving.epoch == epoch && self.lasts(serving));
        let runs = self.hosts[host].hosted[shard as usize].running == Running::Yes;
        let late = self.messages.iter().any(|(to, other, fate)| {
            *to == shard
                && other.origin == message.origin
                && other.number > message.number
                && fate.delivered
        });
        let fate = self
            .messages
            .iter_mut()
            .find(|(to, other, _)| *to == shard && *other == message);
        let result = match fate {
            _ if !serves || !runs => Err(Violation::NotServing {
                shard,
                host: me,
                epoch,
                message,
            }),
            None => Err(Violation::NeverSent { shard, message }),
            Some((_, _, fate)) if fate.delivered => Err(Violation::DeliveredTwice {
                shard,
                host: me,
                message,
            }),
            Some(_) if late => Err(Violation::OutOfOrder {
                shard,
                host: me,
                message,
                due: message.number + 1,
            }),
            Some((_, _, fate)) => {
                fate.delivered = true;
                if fate.reported && !fate.perhaps {
                    Err(Violation::DeliveredAndReported { shard, message })
                } else {
                    Ok(())
                }
            }
        };
        self.check(result);
    }

    /// A caller, or somebody else, hears that a message is not delivered.
    pub(super) fn reported(
        &mut self,
        shard: u32,
        message: Message,
        reason: RejectReason,
        own: bool,
    ) {
        let Some((_, _, fate)) = self
            .messages
            .iter_mut()
            .find(|(to, other, _)| *to == shard && *other == message)
        else {
            return self.check(Err(Violation::NeverSent { shard, message }));
        };
        let perhaps = reason == RejectReason::PerhapsDelivered;
        let before = *fate;
        fate.perhaps |= perhaps;
        fate.excused |= !own;
        fate.reported |= own;
        if own && before.reported {
            self.check(Err(Violation::ReportedTwice { shard, message }));
        } else if own && before.delivered && !perhaps {
            self.check(Err(Violation::DeliveredAndReported { shard, message }));
        }
    }

    /// What is to hold in every state, beyond what is looked at when something happens.
    pub(super) fn check_all(&mut self) {
        let acts = |host: &Host| {
            let (term, until) = host.acting?;
            (host.is_up() && until > self.now).then_some((term, until))
        };
        let mut leaders = (0_u8..).zip(&self.hosts).filter_map(|(at, host)| {
            let (term, until) = acts(host)?;
            Some((at, term, until))
        });
        let mut result = Ok(());
        if let (Some(first), Some(second)) = (leaders.next(), leaders.next()) {
            result = Err(Violation::TwoLeaders {
                first: (first.0, first.1),
                until: first.2,
                second: (second.0, second.1),
            });
        }
        for (shard, servings) in (0_u32..).zip(&self.servings) {
            let mut lasting = servings.iter().filter(|serving| self.lasts(serving));
            if let (Some(first), Some(second)) = (lasting.next(), lasting.next()) {
                result = Err(Violation::TwoHomes {
                    shard,
                    first: (first.host, first.epoch),
                    until: self.hosts[usize::from(first.host)].lease,
                    second: (second.host, second.epoch),
                });
            }
        }
        let open = self
            .messages
            .iter()
            .filter(|(_, _, fate)| !fate.delivered && !fate.reported && !fate.excused);
        let waiting = open.clone().count();
        if waiting > 0 {
            let kept: u32 = self
                .hosts
                .iter()
                .filter_map(|host| host.machine.as_ref())
                .map(|machine| machine.kept())
                .sum();
            let flying = self.links.iter().flat_map(|link| &link.data);
            let flying = flying
                .filter(|frame| matches!(frame.body, Body::Envelope(_) | Body::Return(..)))
                .count();
            if waiting > kept as usize + flying
                && let Some((shard, message, _)) = open.clone().next()
            {
                result = Err(Violation::Lost {
                    shard: *shard,
                    message: *message,
                    origin: self.lives[message.origin as usize].0,
                    kept_by: None,
                });
            }
        }
        for (at, host) in (0_u8..).zip(&self.hosts) {
            // Whoever has something to do; one that only listens may wait for a word.
            let kept = host.machine.as_ref().map_or(0, |machine| machine.kept());
            let busy = |hosted: &Hosted| hosted.running != Running::No;
            if kept > 0 && host.wake == u64::MAX && !host.hosted.iter().any(busy) {
                result = Err(Violation::Timer {
                    host: at,
                    what: "it keeps messages, and waits for nothing".into(),
                });
            }
        }
        self.check(result);
    }
}
