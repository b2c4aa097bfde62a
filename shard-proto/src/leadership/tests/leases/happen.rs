//! What events do to a host: frames that arrive, news of others, the timer, and what its leadership wants then.

use std::{eprintln, format};

use super::model::{Coordinator, Note, Taken};
use super::world::{Body, Event, World, id, index};
use crate::Term;
use crate::leadership::LeadershipCommand;
use crate::membership::MemberChange;

impl World {
    pub(super) fn happen(&mut self, event: Event) {
        let (at, life) = match &event {
            Event::Frame { to, lives, .. } => (*to, lives.1),
            Event::View { at, life, .. } | Event::Tick { at, life } => (*at, *life),
        };
        let host = &mut self.hosts[at];
        if !host.alive || host.incarnation != life {
            return;
        }
        if host.paused {
            host.inbox.push(event);
            return;
        }
        let now = host.local(self.now);
        // As `Node` does: what is over by now is over before the input.
        if host.machine.poll_timeout().is_some_and(|due| due <= now) {
            self.timeout(at);
        }
        let host = &mut self.hosts[at];
        match event {
            Event::Frame {
                from,
                lives,
                term,
                body,
                ..
            } => {
                if host.knows.get(&from) != Some(&lives.0) && from != at {
                    return;
                }
                match body {
                    Body::Control(control) => {
                        let _ = host.machine.handle_control(now, id(from), term, &control);
                        self.drain(at);
                    }
                    Body::Note(note) => self.read(at, from, term, note),
                }
            }
            Event::View { change, .. } => {
                match change {
                    MemberChange::Member(member) => {
                        let known = host.knows.entry(index(member.node)).or_default();
                        *known = (*known).max(member.incarnation.0);
                    }
                    MemberChange::Removed {
                        node, incarnation, ..
                    } => {
                        if host.knows.get(&index(node)) == Some(&incarnation.0) {
                            host.knows.remove(&index(node));
                        }
                    }
                }
                host.machine.handle_member(now, change).unwrap();
                self.drain(at);
            }
            Event::Tick { .. } => {
                self.tick(at);
                self.push(100_000, event);
            }
        }
    }

    fn tick(&mut self, at: usize) {
        let now = self.local(at);
        let host = &self.hosts[at];
        if let Some(leader) = host.region.leader.filter(|_| !host.region.acked) {
            let age = now.since(host.machine.last_beat()).as_micros() as u64;
            let note = host.region.register(age);
            self.send(at, leader.node, leader.term, Body::Note(note));
        }
        let salt = self.random(7);
        let Some(coordinator) = &mut self.hosts[at].coordinator else {
            return;
        };
        if coordinator.acts {
            let term = coordinator.term;
            for (node, note) in coordinator.grants(salt) {
                self.send(at, node, term, Body::Note(note));
            }
        }
    }

    fn read(&mut self, at: usize, from: usize, term: Term, note: Note) {
        let now = self.local(at);
        let host = &mut self.hosts[at];
        let ours = host.coordinator.as_mut().filter(|c| c.term == term);
        let theirs = host
            .region
            .leader
            .is_some_and(|leader| leader.node == id(from) && leader.term == term);
        match note {
            Note::Register {
                session,
                claims,
                age,
            } => {
                if let Some(coordinator) = ours {
                    let answer = match coordinator.register(id(from), session, &claims) {
                        None => return,
                        Some(true) => {
                            if self.log {
                                eprintln!(
                                    "   {at} takes {from} {session:?} {claims:?} age {}",
                                    age / 1_000
                                );
                            }
                            host.machine.handle_registered(now, id(from), 1, age);
                            Note::Ack { session }
                        }
                        Some(false) => Note::Refused { session },
                    };
                    self.send(at, id(from), term, Body::Note(answer));
                } else if host.coordinator.as_ref().is_some_and(|c| c.term < term) {
                    let _ = host.machine.handle_higher_term(now, id(from), term);
                }
                self.drain(at);
            }
            Note::Ack { session } => {
                host.region.acked |= theirs && session == host.region.session;
            }
            Note::Refused { session } => {
                let empty = host.region.hosted.iter().all(Option::is_none);
                let lease = host.machine.lease_until().is_some();
                if theirs && session == host.region.session && (empty || !lease) {
                    host.region.lapse();
                }
            }
            Note::Grant {
                shard,
                epoch,
                session,
            } if theirs => {
                let lease = host.machine.lease_until().is_some_and(|until| now < until);
                match host.region.grant(shard, epoch, session, lease) {
                    Taken::Serves => {
                        self.note(|| format!("{at} serves {shard} {epoch}"));
                        assert!(
                            self.served[shard] < epoch,
                            "{shard} is served under {epoch} after {}",
                            self.served[shard]
                        );
                        self.served[shard] = epoch;
                    }
                    Taken::Refuses => {
                        let note = Note::Complete { shard, epoch };
                        self.send(at, id(from), term, Body::Note(note));
                    }
                    Taken::Drops => {}
                }
            }
            Note::Grant { .. } => {}
            Note::Complete { shard, epoch } => {
                if let Some(coordinator) = ours {
                    coordinator.complete(id(from), shard, epoch);
                }
            }
        }
    }

    pub(super) fn drain(&mut self, i: usize) {
        while let Some(command) = self.hosts[i].machine.poll_command() {
            if self.log
                && !matches!(
                    command,
                    LeadershipCommand::Send { .. } | LeadershipCommand::Lease(Some(_))
                )
            {
                self.note(|| format!("{i} {command:?}"));
            }
            let host = &mut self.hosts[i];
            match command {
                LeadershipCommand::Send { to, term, control } => {
                    self.send(i, to, term, Body::Control(control));
                }
                LeadershipCommand::Adopt(leader) => host.region.adopt(leader),
                LeadershipCommand::Lease(_) => {}
                LeadershipCommand::Lapsed { .. } => host.region.lapse(),
                LeadershipCommand::Begin { term } => {
                    assert!(host.coordinator.is_none(), "a reign begins within another");
                    assert!(host.begun.last().is_none_or(|last| *last < term));
                    host.begun.push(term);
                    host.coordinator = Some(Coordinator::new(term));
                }
                LeadershipCommand::Act { term } => {
                    let coordinator = host.coordinator.as_mut().unwrap();
                    assert_eq!(coordinator.term, term);
                    assert!(!core::mem::replace(&mut coordinator.acts, true));
                    let last = self.acted.last();
                    assert!(
                        last.is_none_or(|(_, _, last)| *last < term),
                        "terms that act grow"
                    );
                    self.acted.push((self.now, i, term));
                }
                LeadershipCommand::OpenBarrier { term } => {
                    let coordinator = host.coordinator.as_mut().unwrap();
                    assert_eq!(coordinator.term, term);
                    assert!(coordinator.acts);
                    assert!(!core::mem::replace(&mut coordinator.open, true));
                }
                LeadershipCommand::End => assert!(host.coordinator.take().is_some()),
                LeadershipCommand::NodeLapsed { node, former } => {
                    let coordinator = host.coordinator.as_mut().unwrap();
                    let newer = coordinator.registered.get(&node).is_some_and(|session| {
                        session.0 == host.knows.get(&index(node)).copied().unwrap_or(u64::MAX)
                    });
                    if !former || !newer {
                        coordinator.lapse(node);
                    }
                }
                LeadershipCommand::Hearing { node, hears } => {
                    let coordinator = host.coordinator.as_mut().unwrap();
                    let before = coordinator.hears.insert(node, hears);
                    assert!(hears || before == Some(true));
                }
            }
        }
    }
}
