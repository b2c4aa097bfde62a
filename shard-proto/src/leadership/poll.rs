//! Commands, derived from what changed since they were last asked for.

use super::{Leadership, LeadershipCommand, PeerSlot};
use crate::wire::Control;
use crate::wire::control::{LeaderBeat, NodeBeat, TermRefused};
use crate::{Instant, Leader, Term, micros};

/// What the adapter was told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    reign: Option<Term>,
    acts: bool,
    open: bool,
    leader: Option<Leader>,
    lease: bool,
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
        if !self.told.lease {
            self.told.lease = true;
            return Some(LeadershipCommand::Lease(Some(Instant::FAR_FUTURE)));
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
        self.node_seq = self.node_seq.saturating_add(1);
        Some(LeadershipCommand::Send {
            to: following.leader.node,
            term: following.leader.term,
            control: Control::NodeBeat(NodeBeat {
                seq: self.node_seq,
                echo: following.seq,
                lapses: 0,
                leaving: self.leaving,
                types: self.types,
            }),
        })
    }

    fn poll_mail(&mut self) -> Option<LeadershipCommand> {
        while self.told.mail {
            let peers = self.peers.all();
            let from = self.told.cursor.min(peers.len());
            let reign = self.reign();
            let has_mail = |peer: &PeerSlot| peer.has_mail() || peer.hears_news(reign);
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
        let (highest, reign, now) = (self.highest, self.reign(), self.now);
        let peer = self.peers.all_mut().get_mut(at)?;
        let to = peer.node;
        if peer.hears_news(reign) {
            peer.hears = true;
            let (node, hears) = (to, true);
            return Some(LeadershipCommand::Hearing { node, hears });
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
        let term = reign?;
        peer.beat_at = now;
        self.leader_seq = self.leader_seq.saturating_add(1);
        let seq = self.leader_seq;
        let (echo, valid) = self.grant(at, term);
        Some(LeadershipCommand::Send {
            to,
            term,
            control: Control::LeaderBeat(LeaderBeat { seq, echo, valid }),
        })
    }

    /// What a beat echoes, and for how long that is valid. Under `Trust` an echo only says that the node is heard.
    fn grant(&self, at: usize, term: Term) -> (u64, u64) {
        let followed = self.peers.all().get(at).and_then(|peer| peer.followed);
        match followed {
            Some(followed) if followed.term == term => (followed.seq, micros(self.config.lease())),
            _ => (0, 0),
        }
    }
}
