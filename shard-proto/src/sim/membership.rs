//! What hosts believe of each other.

use alloc::vec::Vec;

use crate::hash::SplitMix64;
use crate::membership::MemberChange;
use crate::{Incarnation, NodeId};

/// Something that a membership service may notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happened {
    /// A life began.
    Started,
    /// A life ended without a word.
    Crashed,
    /// A node said that it leaves.
    Leaving,
    /// A node has left, its process ended.
    Left,
    /// A host stands still.
    Paused,
    /// A host goes on.
    Woken,
    /// Cuts changed; see [`ClusterView::is_cut`].
    Links,
    /// [`Fault::Suspect`](super::Fault::Suspect): `host` is suspected by `by` until then.
    Suspected {
        /// Who suspects.
        by: u8,
        /// Until when.
        until: u64,
    },
    /// [`Fault::Remove`](super::Fault::Remove).
    Removed,
}

/// News for the view of one host. Lost if that life of the host has ended; late if the host stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]

pub struct News {
    /// When it arrives, in microseconds of real time.
    pub at: u64,
    /// At which host.
    pub host: u8,
    /// The news.
    pub change: MemberChange,
}

/// A life, as a script sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Life {
    /// The node.
    pub node: NodeId,
    /// Its newest life.
    pub incarnation: Incarnation,
    /// It has not ended.
    pub alive: bool,
    /// It stands still.
    pub paused: bool,
    /// It is leaving.
    pub leaving: bool,
}

/// The cluster, as a script sees it.
#[derive(Debug)]
pub struct ClusterView<'a> {
    /// Real time in microseconds.
    pub now: u64,
    /// The newest life of each host.
    pub hosts: &'a [Life],
    /// `from * hosts + to`.
    pub cuts: &'a [bool],
    /// For what is left to chance.
    pub rng: &'a mut SplitMix64,
}

impl ClusterView<'_> {
    /// Whether nothing gets from one host to the other.
    #[must_use]
    pub fn is_cut(&self, from: u8, to: u8) -> bool {
        self.cuts[usize::from(from) * self.hosts.len() + usize::from(to)]
    }
}

/// Says what hosts believe of each other.
///
/// A host whose life began knows nobody, itself included, until it is told.
pub trait MembershipScript {
    /// Something happened to `host`. `news` takes what hosts are told because of it.
    fn happened(
        &mut self,
        view: &mut ClusterView<'_>,
        host: u8,
        what: Happened,
        news: &mut Vec<News>,
    );

    /// When [`Self::tick`] is to be called, in microseconds of real time.
    fn next_tick(&self) -> Option<u64> {
        None
    }

    /// Its time has come.
    fn tick(&mut self, view: &mut ClusterView<'_>, news: &mut Vec<News>) {
        let _ = (view, news);
    }
}
