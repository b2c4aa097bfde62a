//! How long shards were wanted and not served, and why.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Why a shard was without service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Everything started at once.
    ColdStart,
    /// A node was killed that did not lead.
    Crash,
    /// The leading node was killed.
    LeaderCrash,
    /// A node that did not lead was paused for longer than its lease.
    Pause,
    /// The leading node was paused for longer than its lease.
    LeaderPause,
    /// A node was killed and started again at once.
    Restart,
    /// A node left that did not lead. From when its entities have stopped.
    Leave,
    /// The leading node left. From when its entities have stopped.
    LeaderLeave,
    /// A shard was moved. From when its entities have stopped.
    Move,
    /// Nothing came through from or to a node that did not lead.
    Cut,
    /// Nothing came through from or to the leading node.
    LeaderCut,
    /// Nothing came through from the leading node, but it heard the others.
    LeaderMute,
    /// Nothing came through to the leading node, but the others heard it.
    LeaderDeaf,
    /// Many faults at a time.
    Storm,
}

impl Cause {
    /// Those that are measured one at a time, in the quiet after the faults.
    pub(super) const PROBED: [Self; 12] = [
        Self::Crash,
        Self::LeaderCrash,
        Self::Pause,
        Self::LeaderPause,
        Self::Restart,
        Self::Leave,
        Self::LeaderLeave,
        Self::Move,
        Self::Cut,
        Self::LeaderCut,
        Self::LeaderMute,
        Self::LeaderDeaf,
    ];

    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ColdStart,
        Self::Crash,
        Self::LeaderCrash,
        Self::Pause,
        Self::LeaderPause,
        Self::Restart,
        Self::Leave,
        Self::LeaderLeave,
        Self::Move,
        Self::Cut,
        Self::LeaderCut,
        Self::LeaderMute,
        Self::LeaderDeaf,
        Self::Storm,
    ];

    /// What it is called in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ColdStart => "cold start",
            Self::Crash => "node killed",
            Self::LeaderCrash => "leader killed",
            Self::Pause => "node hung",
            Self::LeaderPause => "leader hung",
            Self::Restart => "node restarted",
            Self::Leave => "node leaves",
            Self::LeaderLeave => "leader leaves",
            Self::Move => "shard moved",
            Self::Cut => "node cut off",
            Self::LeaderCut => "leader cut off",
            Self::LeaderMute => "leader mute",
            Self::LeaderDeaf => "leader deaf",
            Self::Storm => "many faults",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The time without service that one cause led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outage {
    /// How often the cause was tried.
    pub tried: u64,
    /// Times that a shard was without service.
    pub count: u64,
    /// The longest, in microseconds, of a shard that a victim served.
    pub worst: u64,
    /// All of those together, in microseconds.
    pub total: u64,
    /// The longest, in microseconds, of a shard that somebody else served; without moves that followed.
    pub worst_of_others: u64,
}

impl Outage {
    /// Adds what another world saw.
    pub fn merge(&mut self, other: &Self) {
        self.tried += other.tried;
        self.count += other.count;
        self.worst = self.worst.max(other.worst);
        self.total = self.total.saturating_add(other.total);
        self.worst_of_others = self.worst_of_others.max(other.worst_of_others);
    }

    /// The mean time without service of a shard that a victim served, in microseconds.
    #[must_use]
    pub const fn mean(&self) -> u64 {
        match self.total.checked_div(self.count) {
            Some(mean) => mean,
            None => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Shard {
    up: bool,
    /// Who served it last.
    host: Option<u8>,
    /// Nobody serves it since then ...
    down_at: u64,
    /// ... and somebody waits since then.
    wanted_at: Option<u64>,
    victim: bool,
    /// It was stopped in good order: it moves.
    moves: bool,
}

/// Follows the service of every shard.
#[derive(Clone, Debug)]
pub(crate) struct Outages {
    shards: Vec<Shard>,
    cause: Cause,
    by_cause: [Outage; Cause::ALL.len()],
}

impl Outages {
    pub(crate) fn new(shards: usize) -> Self {
        let fresh = Shard {
            victim: true,
            ..Shard::default()
        };
        let mut by_cause = [Outage::default(); Cause::ALL.len()];
        by_cause[Cause::ColdStart as usize].tried = 1;
        Self {
            shards: vec![fresh; shards],
            cause: Cause::ColdStart,
            by_cause,
        }
    }

    pub(crate) const fn by_cause(&self) -> &[Outage; Cause::ALL.len()] {
        &self.by_cause
    }

    /// A message to the shard waits.
    pub(crate) fn wanted(&mut self, at: u64, index: usize) {
        let shard = &mut self.shards[index];
        if !shard.up && shard.wanted_at.is_none() {
            shard.wanted_at = Some(at);
        }
    }

    /// The shard is served.
    pub(crate) fn back(&mut self, at: u64, index: usize, host: u8) {
        let shard = &mut self.shards[index];
        if !shard.up
            && let Some(since) = shard.wanted_at.take()
        {
            let (shard, gap) = (*shard, at.saturating_sub(since));
            self.count(&shard, gap);
        }
        let shard = &mut self.shards[index];
        shard.up = true;
        shard.host = Some(host);
        shard.wanted_at = None;
    }

    fn count(&mut self, shard: &Shard, gap: u64) {
        let outage = &mut self.by_cause[self.cause as usize];
        if shard.victim {
            outage.count += 1;
            outage.worst = outage.worst.max(gap);
            outage.total = outage.total.saturating_add(gap);
        } else if !shard.moves {
            outage.worst_of_others = outage.worst_of_others.max(gap);
        }
    }

    /// The shard is not served by `host` any more. `moves`: it was stopped in good order.
    pub(crate) fn shard_down(&mut self, at: u64, index: usize, host: u8, moves: bool) {
        let shard = &mut self.shards[index];
        if shard.up && shard.host == Some(host) {
            shard.up = false;
            shard.moves = moves;
            shard.down_at = at;
            shard.wanted_at = None;
        }
    }

    /// A host serves nothing any more.
    pub(crate) fn host_down(&mut self, at: u64, host: u8) {
        for index in 0..self.shards.len() {
            self.shard_down(at, index, host, false);
        }
    }

    /// Something goes wrong: the start was no undisturbed one.
    pub(crate) fn disturb(&mut self, at: u64) {
        if self.cause != Cause::ColdStart {
            return;
        }
        self.cause = Cause::Storm;
        for shard in &mut self.shards {
            if shard.wanted_at.is_some() {
                shard.wanted_at = Some(at);
            }
        }
    }

    /// What is missing from now on is due to `cause`.
    pub(crate) fn probe(&mut self, at: u64, cause: Cause, victims: &[u8]) {
        self.probe_over(at);
        self.cause = cause;
        self.by_cause[cause as usize].tried += 1;
        for shard in &mut self.shards {
            shard.victim = shard.host.is_none_or(|host| victims.contains(&host));
        }
    }

    /// Counts what is missing still.
    pub(crate) fn probe_over(&mut self, at: u64) {
        for index in 0..self.shards.len() {
            let shard = self.shards[index];
            if !shard.up
                && let Some(since) = shard.wanted_at
            {
                self.count(&shard, at.saturating_sub(since));
                // What follows is another cause's.
                self.shards[index].wanted_at = Some(at);
            }
        }
        self.cause = Cause::Storm;
        for shard in &mut self.shards {
            shard.victim = true;
        }
    }
}
