//! Copies of a process, and what tells two of them apart.

use core::fmt;

use super::{Kind, Machine};
use crate::sim::Store;

impl<St: Store> Clone for Kind<St>
where
    St::Region: Clone,
    St::Coordinator: Clone,
{
    fn clone(&self) -> Self {
        Self {
            id: self.id,
            base: self.base,
            stopped: self.stopped,
            region: self.region.clone(),
            coordinator: self.coordinator.clone(),
            stuck: self.stuck.clone(),
            most_waiting: self.most_waiting,
            sent: self.sent,
            arrived: self.arrived,
            dirty: self.dirty,
        }
    }
}

impl<St: Store> Clone for Machine<St>
where
    St::Region: Clone,
    St::Coordinator: Clone,
    St::Peers: Clone,
{
    fn clone(&self) -> Self {
        Self {
            config: self.config.clone(),
            now: self.now,
            me: self.me,
            leadership: self.leadership.clone(),
            lead_dirty: self.lead_dirty,
            leader: self.leader,
            lease: self.lease,
            reign: self.reign,
            members: self.members.clone(),
            kinds: self.kinds.clone(),
            beats: self.beats.clone(),
            types: self.types,
            life: self.life,
        }
    }
}

impl<St: Store> Machine<St>
where
    St::Region: fmt::Debug,
    St::Coordinator: fmt::Debug,
    St::Peers: Clone + fmt::Debug,
{
    /// Writes everything that decides what it does next, but for its settings.
    pub(in crate::sim) fn write_state(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.leadership.write_state(out)?;
        write!(
            out,
            "{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
            self.me,
            self.leader,
            self.lease,
            self.reign,
            self.members,
            self.beats,
            self.types,
            self.life
        )?;
        for kind in &self.kinds {
            kind.region.write_state(out)?;
            kind.coordinator.write_state(out)?;
            write!(
                out,
                "{:?}{}{}",
                kind.stuck,
                kind.region.session().starts,
                kind.stopped
            )?;
        }
        // A leave looks whether they changed.
        if self.life.is_member() && !self.life.is_running() {
            write!(out, "{:?}", self.counts())?;
        }
        Ok(())
    }

    /// Messages that a process keeps.
    pub(in crate::sim) fn kept(&self) -> u32 {
        let buffered = self.kinds.iter().map(|kind| kind.region.buffered());
        let stuck = self.kinds.iter().map(|kind| kind.stuck.len());
        buffered.sum::<u32>() + stuck.sum::<usize>() as u32
    }
}
