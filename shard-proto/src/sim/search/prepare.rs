//! Situations to start from.

use core::fmt;
use core::time::Duration;

use super::Plant;
use super::choice::{Choice, Without};
use super::state::{Running, State};
use crate::micros;
use crate::sim::WorldConfig;

/// Where a search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Situation {
    /// All processes have just started.
    ColdStart,
    /// Every shard has a home, and every host has reached it.
    Formed,
    /// The owner of a shard has just been told to hand it off.
    Moving,
    /// The leader has just been killed.
    LeaderKilled,
    /// A host with a shard stands still, and its lease is about to be over.
    LapsePending,
    /// A shard is stopping for a move, the leader stands still, and another host has just begun to lead.
    TermChange,
    /// A host with a shard has just said that it leaves.
    Leaving,
    /// A host with a shard was killed and has started again, and nobody knows yet.
    Restarted,
}

impl Situation {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ColdStart,
        Self::Formed,
        Self::Moving,
        Self::LeaderKilled,
        Self::LapsePending,
        Self::TermChange,
        Self::Leaving,
        Self::Restarted,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ColdStart => "cold start",
            Self::Formed => "formed",
            Self::Moving => "moving",
            Self::LeaderKilled => "leader killed",
            Self::LapsePending => "lapse pending",
            Self::TermChange => "term change",
            Self::Leaving => "leaving",
            Self::Restarted => "restarted",
        }
    }

    /// Makes it.
    pub(super) fn prepare(self, config: &WorldConfig, plant: Option<Plant>) -> State {
        let mut state = State::new(config, plant);
        for host in 0..state.hosts.len() {
            state.begin_life(host);
        }
        if self == Self::ColdStart {
            return state;
        }
        form(&mut state);
        let leader = state.leader().unwrap_or(0);
        // Another host than the leader, with a shard if there is one.
        let others = || (0..state.hosts.len()).filter(|host| *host != leader);
        let serves = |host: &usize| {
            let mut hosted = state.hosts[*host].hosted.iter();
            hosted.any(|hosted| hosted.running == Running::Yes)
        };
        let other = others().find(serves).or_else(|| others().next());
        let other = other.unwrap_or(leader);
        match self {
            Self::Moving => state.want_move(0),
            Self::LeaderKilled => state.end_life(leader),
            Self::LapsePending => {
                let time = config.leadership.lease() * 9 / 10;
                state.pass(time, Some((other as u8, Without::Frozen)));
            }
            Self::TermChange => {
                state.want_move(0);
                let limit = state.now + 1_000_000;
                state.pass_until(limit, None, |state| {
                    let mut all = state.hosts.iter().flat_map(|host| &host.hosted);
                    all.any(|hosted| hosted.running == Running::Stopping)
                });
                state.hosts[leader].paused = true;
                let limit = state.now + micros(4 * config.leadership.lease());
                state.until_begun(limit, leader);
            }
            Self::Leaving => state.leave(other),
            Self::Restarted => {
                state.end_life(other);
                state.begin_life(other);
            }
            _ => {}
        }
        state
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Until every host has reached every shard.
fn form(state: &mut State) {
    let (hosts, shards) = (state.hosts.len(), state.config.shards as usize);
    state.pass(2 * state.config.leadership.lease(), None);
    for host in 0..hosts {
        for shard in 0..shards {
            state.send(host, shard);
        }
    }
    let limit = state.now + micros(Duration::from_secs(10));
    let all = (0..hosts).flat_map(|host| (0..shards).map(move |shard| (host, shard)));
    state.pass_until(limit, None, |state| {
        all.clone()
            .all(|(host, shard)| state.reached(host, shard, 0))
    });
    state.forget_messages();
}

impl State {
    /// Until another host than that one leads, and nothing that stops has stopped meanwhile.
    fn until_begun(&mut self, limit: u64, former: usize) {
        let leads = |state: &Self| {
            let mut hosts = state.hosts.iter().enumerate();
            hosts.any(|(at, host)| {
                let reign = host.machine.as_ref();
                at != former && reign.is_some_and(|machine| machine.leadership().reign().is_some())
            })
        };
        while self.now < limit && self.violation.is_none() && !leads(self) {
            // Everything arrives, but shards go on stopping.
            let next = self.choices().into_iter().find(|choice| {
                matches!(
                    choice,
                    Choice::Control { again: false, .. }
                        | Choice::Data { .. }
                        | Choice::News { .. }
                )
            });
            let timer = || {
                let hosts = self.hosts.iter().zip(0_u8..);
                let waiting = hosts.filter(|(host, _)| host.is_awake() && host.wake != u64::MAX);
                let (_, host) = waiting.min_by_key(|(host, _)| host.wake)?;
                Some(Choice::Timer { host })
            };
            let Some(choice) = next.or_else(timer) else {
                return;
            };
            self.apply(choice);
        }
    }
}
