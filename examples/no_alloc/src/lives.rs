//! Lives of other nodes: how they begin and end for this one.

use shard_proto::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use shard_proto::{Incarnation, NodeId};

use crate::asks::Failure;
use crate::data::{self, Message};
use crate::device::{Device, State};
use crate::link::{End, Life, Link};
use crate::{LINKS, LONGEST};

impl Device<'_> {
    pub(crate) fn link_up(&mut self, index: usize, life: Life) {
        let (node, incarnation) = life;
        let twice = self.links.iter().enumerate().any(|(at, link)| {
            at != index && link.is_up() && link.peer.is_some_and(|peer| peer.0 == node)
        });
        if twice {
            self.end(index, End::Fault);
            return;
        }
        let before = self.links.get(index).and_then(|link| link.peer);
        if before != Some(life) {
            self.forget(index, RemovalCause::Replaced);
            if let Some(link) = self.links.get_mut(index) {
                link.begin(Some(life));
            }
        }
        let member = up(node, incarnation);
        let known = self.region.handle_member(self.now, member).is_ok()
            && self.leadership.handle_member(self.now, member).is_ok();
        if !known {
            self.end(index, End::Fault);
            return;
        }
        self.leadership.handle_linked(self.now, node);
        self.pump();
    }

    pub(crate) fn end(&mut self, index: usize, end: End) {
        match end {
            End::Fault => self.stats.faults = self.stats.faults.saturating_add(1),
            End::Overrun => self.stats.overruns = self.stats.overruns.saturating_add(1),
            End::Left => self.forget(index, RemovalCause::Left),
            End::Over => {
                self.state = State::Over;
                self.asks.fail_all(Failure::PerhapsDelivered);
            }
        }
        if let Some(link) = self.links.get_mut(index) {
            link.fail(end);
        }
    }

    /// A life of another node is over. What it was never sent is taken back first.
    pub(crate) fn forget(&mut self, index: usize, cause: RemovalCause) {
        let now = self.now;
        let Some((node, incarnation)) = self.links.get(index).and_then(|link| link.peer) else {
            return;
        };
        let mut frame = [0; LONGEST];
        while let Some((len, sent)) = self
            .links
            .get_mut(index)
            .and_then(|it| it.window.pop(&mut frame))
        {
            let Some((header, envelope)) = data::envelope(frame.get(..len).unwrap_or(&[])) else {
                continue;
            };
            let (shard, epoch) = (envelope.shard, header.epoch());
            let message = Message::of(&header, &envelope, Incarnation(0)).filter(|_| !sent);
            let failure = match message {
                Some(message) => {
                    let back = self.region.take_back(now, node, shard, epoch, message);
                    back.is_err().then_some(Failure::Undelivered)
                }
                None => Some(Failure::PerhapsDelivered),
            };
            if let Some(failure) = failure {
                self.asks.fail(envelope.correlation, failure);
            }
        }
        if let Some(link) = self.links.get_mut(index) {
            link.begin(None);
        }
        let gone = MemberChange::Removed {
            node,
            incarnation,
            cause,
        };
        let _ = self.region.handle_member(now, gone);
        let _ = self.leadership.handle_member(now, gone);
        self.pump();
    }
}

pub(crate) fn up(node: NodeId, incarnation: Incarnation) -> MemberChange {
    MemberChange::Member(Member {
        node,
        incarnation,
        state: MemberState::Up,
        roles: Roles::NONE,
    })
}

pub(crate) fn link_to(links: &mut [Link; LINKS], node: NodeId) -> Option<&mut Link> {
    links
        .iter_mut()
        .find(|link| link.peer.is_some_and(|peer| peer.0 == node))
}
