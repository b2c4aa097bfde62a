//! Commands, derived from what changed since they were last asked for.

use super::{Leadership, LeadershipCommand, PeerSlot};
use crate::wire::Control;
use crate::wire::control::{LeaderBeat, NodeBeat, TermRefused};
use crate::{Instant, Leader, Term};

/// What the adapter was told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    pub(super) reign: Option<Term>,
    acts: bool,
    open: bool,
    leader: Option<Leader>,
    lease: Option<Instant>,
    lapses: u32,
    /// After a lapse: the lease is over, to be said next.
    lapsed: bool,
    /// Some peer may have something to send.
    pub(super) mail: bool,
    /// Where to look for it next.
    cursor: usize,
}

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// What to do next. O(1), but for one look over the nodes per round of beats.
    pub fn poll_command(&mut self) -> Option<LeadershipCommand> {
        let reign = self.reign();
        if self.told.reign.is_some() && self.told.reign != reign {
            self.told.reign = None;
            return Some(LeadershipCommand::End);
        }
        if self.told.lapses != self.lapses {
            let lapses = self.lapses;
            self.told.lapses = lapses;
            self.told.lapsed = self.told.lease.is_some();
            return Some(LeadershipCommand::Lapsed { lapses });
        }
        if self.told.lapsed {
            self.told.lapsed = false;
            self.told.lease = None;
            return Some(LeadershipCommand::Lease(None));
        }
        if let Some(term) = reign
            && self.told.reign.is_none()
        {
            self.told.reign = Some(term);
            self.told.acts = false;
            self.told.open = false;
            return Some(LeadershipCommand::Begin { term });
        }
        if let Some(term) = reign
            && self.acting_until().is_some()
            && !self.told.acts
        {
            self.told.acts = true;
            return Some(LeadershipCommand::Act { term });
        }
        if let Some(term) = reign
            && self.is_open()
            && !self.told.open
        {
            self.told.open = true;
            return Some(LeadershipCommand::OpenBarrier { term });
        }
        let leader = self.leader();
        if self.told.leader != leader {
            self.told.leader = leader;
            return Some(LeadershipCommand::Adopt(leader));
        }
        if self.told.lease != self.lease_until {
            self.told.lease = self.lease_until;
            return Some(LeadershipCommand::Lease(self.lease_until));
        }
        if self.node_beat_due {
            self.node_beat_due = false;
            if let Some(beat) = self.node_beat() {
                return Some(beat);
            }
        }
        self.poll_mail()
    }

    fn node_beat(&mut self) -> Option<LeadershipCommand> {
        let following = self.following?;
        self.node_seq = self.next_node_seq();
        self.node_beat_sent = self.now;
        Some(LeadershipCommand::Send {
            to: following.leader.node,
            term: following.leader.term,
            control: Control::NodeBeat(NodeBeat {
                seq: self.node_seq,
                echo: following.seq,
                lapses: self.lapses,
                leaving: self.leaving,
                types: self.types,
            }),
        })
    }

    fn poll_mail(&mut self) -> Option<LeadershipCommand> {
        while self.told.mail {
            let peers = self.peers.all();
            let from = self.told.cursor.min(peers.len());
            let (reign, from_when) = (self.reign(), self.hears_from());
            let has_mail =
                |peer: &PeerSlot| peer.has_mail() || hearing(peer, reign, from_when).is_some();
            let at = match peers.iter().skip(from).position(has_mail) {
                Some(after) => Some(from.saturating_add(after)),
                None => peers.iter().take(from).position(has_mail),
            };
            match at {
                Some(at) => {
                    self.told.cursor = at;
                    let command = self.take_mail(at);
                    if command.is_some() {
                        return command;
                    }
                }
                None => self.told.mail = false,
            }
        }
        None
    }

    /// Takes one thing to send from a peer's slot.
    fn take_mail(&mut self, at: usize) -> Option<LeadershipCommand> {
        let highest = self.highest.max(self.forgotten());
        let (reign, now) = (self.reign, self.now);
        let term = self.reign();
        let hears_from = self.hears_from();
        let seq = self.next_leader_seq();
        let peer = self.peers.all_mut().get_mut(at)?;
        let to = peer.node;
        if core::mem::take(&mut peer.lapsed) {
            peer.told_hears = false;
            let (node, former) = (to, false);
            return Some(LeadershipCommand::NodeLapsed { node, former });
        }
        if core::mem::take(&mut peer.former_lapsed) {
            let (node, former) = (to, true);
            return Some(LeadershipCommand::NodeLapsed { node, former });
        }
        if let Some(hears) = hearing(peer, term, hears_from) {
            peer.told_hears = hears;
            return Some(LeadershipCommand::Hearing { node: to, hears });
        }
        if let Some(term) = peer.resign.take() {
            let control = Control::Resign;
            return Some(LeadershipCommand::Send { to, term, control });
        }
        if let Some(term) = peer.refuse.take() {
            let control = Control::TermRefused(TermRefused { highest });
            return Some(LeadershipCommand::Send { to, term, control });
        }
        peer.beat_due = false;
        let reign = reign?;
        peer.beat_at = now;
        peer.sent = seq;
        self.leader_seq = seq;
        let term = reign.term;
        let (echo, valid) = self.grant(at, &reign);
        Some(LeadershipCommand::Send {
            to,
            term,
            control: Control::LeaderBeat(LeaderBeat { seq, echo, valid }),
        })
    }
}

/// Whether the node hears this reign, if that is news. `from`: see [`Leadership::hears_from`].
fn hearing(peer: &PeerSlot, reign: Option<Term>, from: Option<Instant>) -> Option<bool> {
    let beat = peer.followed(reign?);
    let hears = beat.is_some_and(|beat| from.is_none() || beat.echo >= from);
    (peer.is_member() && hears != peer.told_hears).then_some(hears)
}
