//! What happens to the nodes, and when.

use clap::ValueEnum;

use super::{node::Mode, world::Setup};

/// A second, in microseconds.
pub(super) const SECOND: u64 = 1_000_000;

/// What is tried, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Phase {
    /// All clients start in the same millisecond
    Start,
    /// Nothing happens
    Steady,
    /// Each node in turn leaves and is back
    Restart,
    /// As many nodes again join
    Grow,
    /// Three of four nodes leave; after `grow`
    Shrink,
    /// One node breaks each connection at once
    Breaks,
    /// One node says at once that it has too much to do
    Sheds,
    /// One node takes calls and does not answer
    Hangs,
    /// One node takes five times as long as the others
    Slow,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::Steady,
        Self::Restart,
        Self::Grow,
        Self::Shrink,
        Self::Breaks,
        Self::Sheds,
        Self::Hangs,
        Self::Slow,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Steady => "steady",
            Self::Restart => "restart",
            Self::Grow => "grow",
            Self::Shrink => "shrink",
            Self::Breaks => "breaks",
            Self::Sheds => "sheds",
            Self::Hangs => "hangs",
            Self::Slow => "slow",
        }
    }

    /// What the node of this number does in it, if it is one about a node that fails.
    const fn fault(self) -> Option<(Mode, u16)> {
        match self {
            Self::Breaks => Some((Mode::Breaks, 0)),
            Self::Sheds => Some((Mode::Sheds, 1)),
            Self::Hangs => Some((Mode::Hangs, 2)),
            Self::Slow => Some((Mode::Slow, 3)),
            _ => None,
        }
    }
}

/// Something that is done to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// From now on calls, and the load of nodes, count for this phase; for none between phases.
    Measure(Option<Phase>),
    /// A node joins, or is back.
    Join(u16),
    /// A node says that it leaves.
    Leave(u16),
    /// It takes no more calls.
    Drain(u16),
    /// Its process is gone.
    Stop(u16),
    /// A node fails, or does no longer.
    Turn(u16, Mode),
}

/// What happens when, in order, and when it ends.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) actions: Vec<(u64, Action)>,
    pub(super) end: u64,
}

impl Plan {
    /// The phases, one after the other; those with a fault are followed by time for the node to be trusted again.
    pub(super) fn new(setup: &Setup) -> Self {
        let mut plan = Self {
            actions: Vec::new(),
            end: 0,
        };
        let nodes = setup.nodes;
        let long = |seconds: u64| if setup.quick { seconds / 2 } else { seconds } * SECOND;
        for node in 0..nodes {
            plan.at(0, Action::Join(node));
        }
        let mut phases = setup.phases.clone();
        if phases.contains(&Phase::Shrink) {
            phases.push(Phase::Grow);
        }
        phases.sort_unstable();
        phases.dedup();
        if !phases.contains(&Phase::Start) {
            plan.end = SECOND;
        }
        for phase in phases {
            plan.at(0, Action::Measure(Some(phase)));
            let (length, after) = match phase {
                Phase::Start => (SECOND, 0),
                Phase::Steady => (long(20), 0),
                Phase::Restart => {
                    for node in 0..nodes {
                        let from = u64::from(node) * 3 * SECOND;
                        plan.leave(node, from);
                        plan.at(from + 5 * SECOND / 2, Action::Join(node));
                    }
                    (u64::from(nodes) * 3 * SECOND, 5 * SECOND)
                }
                Phase::Grow => {
                    plan.grow(nodes..2 * nodes, SECOND / 5);
                    (long(20), 0)
                }
                Phase::Shrink => {
                    let left = (nodes / 2).max(1);
                    for (turn, node) in (left..2 * nodes).rev().enumerate() {
                        plan.leave(node, turn as u64 * SECOND / 5);
                    }
                    (u64::from(2 * nodes - left) * SECOND / 5 + long(20), 0)
                }
                Phase::Breaks | Phase::Sheds | Phase::Hangs | Phase::Slow => {
                    (long(20), 40 * SECOND)
                }
            };
            let fault = phase.fault();
            if let Some((mode, node)) = fault {
                plan.at(0, Action::Turn(node % nodes, mode));
                plan.at(length, Action::Turn(node % nodes, Mode::Well));
            }
            plan.end += length;
            plan.at(0, Action::Measure(None));
            plan.end += after;
            if phase == Phase::Shrink {
                plan.grow((nodes / 2).max(1)..nodes, 0);
                plan.end += 5 * SECOND;
            }
        }
        plan.actions.sort_by_key(|(when, _)| *when);
        plan
    }

    /// So long after what was planned so far.
    fn at(&mut self, after: u64, action: Action) {
        self.actions.push((self.end + after, action));
    }

    fn grow(&mut self, nodes: core::ops::Range<u16>, gap: u64) {
        for (turn, node) in nodes.enumerate() {
            self.at(turn as u64 * gap, Action::Join(node));
        }
    }

    /// A node tells the cluster, takes no more calls half a second later, and ends after another half.
    fn leave(&mut self, node: u16, after: u64) {
        self.at(after, Action::Leave(node));
        self.at(after + SECOND / 2, Action::Drain(node));
        self.at(after + SECOND, Action::Stop(node));
    }
}
