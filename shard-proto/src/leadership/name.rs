//! Who should lead where nobody does.

use super::{Leadership, Ownership, PeerSlot};
use crate::{Instant, NodeId, Term};

impl<S: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Leadership<S> {
    /// Finds out who should lead where nobody is followed, and begins to lead if that is this node.
    pub(super) fn name(&mut self, may_begin: bool) {
        let external = self.config.ownership() == Ownership::External;
        if external || self.reign.is_some() || self.following.is_some() {
            self.named = None;
            return;
        }
        if let Some((node, since)) = self.named
            && node != self.me
            && self.now >= self.patience_at(since)
            && let Some(peer) = self.peers.member_mut(node)
        {
            peer.quiet = true;
        }
        let named = self.oldest_eligible();
        if self.named.map(|(node, _)| node) != named {
            self.named = named.map(|node| (node, self.now));
        }
        if may_begin && named == Some(self.me) && self.now >= self.begin_at() {
            self.begin();
        }
    }

    fn oldest_eligible(&self) -> Option<NodeId> {
        let me = self.may_lead();
        let (voting, voters) = (self.is_voting(), self.config.voters());
        self.peers
            .members()
            .filter(|peer| peer.is_eligible() && self.now >= peer.ignored_until)
            .filter(|peer| !voting || voters.contains(peer.node))
            .filter(|peer| me || peer.node != self.me)
            .min_by_key(|peer| peer.age())
            .map(|peer| peer.node)
    }

    pub(super) fn may_lead(&self) -> bool {
        let entitled = match self.config.ownership() {
            Ownership::Lease => self.config.voters().contains(self.me),
            Ownership::External => false,
            Ownership::Trust => self.joined || self.config.bootstrap(),
        };
        entitled
            && self.config.may_lead()
            && !self.leaving
            && !self.removed
            && self.known < Term::MAX
    }

    /// A young voter cannot know what its predecessor promised.
    pub(super) fn is_quiet_start(&self) -> bool {
        self.now < self.quiet_until
    }

    /// When this node may begin to lead, if it is named.
    pub(super) fn begin_at(&self) -> Instant {
        let at = self.resume_until.max(self.quiet_until);
        if self.is_leased() {
            let since = self.named.map_or(at, |(_, since)| since);
            at.max(self.term_ready_at(self.known, since))
        } else {
            at.max(self.listen_until).max(self.foreign_until)
        }
    }

    /// Until when a named node is waited for. While this node still listens, the named one may well do, too.
    pub(super) fn patience_at(&self, since: Instant) -> Instant {
        let listening = match self.listen_until {
            Instant::ZERO => Instant::ZERO,
            until => until.after(self.config.support_lease()),
        };
        since.after(self.config.patience()).max(listening)
    }
}
