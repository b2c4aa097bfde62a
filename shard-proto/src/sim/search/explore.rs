//! The search.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use alloc::collections::BTreeSet;

use super::choice::Choice;
use super::state::State;
use super::{Budget, Plant, Situation};
use crate::hash::SplitMix64;
use crate::sim::{ConfigError, Violation, WorldConfig};

/// One state of so many is tried for whether everything works again.
const PROBED: u64 = 256;

/// A search: how large a cluster, and how far.
///
/// ```
/// use shard_proto::sim::search::{Search, Situation};
///
/// let found = Search::new(2, 1).with_states(50).run(Situation::Formed)?;
/// assert!(found.violation.is_none(), "{found}");
/// # Ok::<(), shard_proto::sim::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Search {
    config: WorldConfig,
    depth: u32,
    states: usize,
    walks: u32,
    budget: Budget,
    plant: Option<Plant>,
}

impl Search {
    /// So many hosts, of which one votes or three, and shards: up to 6 events, 20 000 states.
    #[must_use]
    pub fn new(nodes: u8, shards: u32) -> Self {
        let config = WorldConfig::new()
            .with_nodes(nodes)
            .with_voters(if nodes < 3 { 1 } else { 3 })
            .with_shards(shards)
            .with_buffer(16)
            .with_window(16);
        Self {
            config,
            depth: 6,
            states: 20_000,
            walks: 0,
            budget: Budget::SOME,
            plant: None,
        }
    }

    /// How many events at most.
    #[must_use]
    pub const fn with_depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// How many states at most; the last ones may then be nearer than the depth.
    #[must_use]
    pub const fn with_states(mut self, states: usize) -> Self {
        self.states = states;
        self
    }

    /// After it, so many walks of 50 random events each, further away than everything can be tried. Default: none.
    #[must_use]
    pub const fn with_walks(mut self, walks: u32) -> Self {
        self.walks = walks;
        self
    }

    /// How often something may go wrong.
    #[must_use]
    pub const fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Something is wrong outside.
    #[must_use]
    pub const fn with_plant(mut self, plant: Plant) -> Self {
        self.plant = Some(plant);
        self
    }

    /// Searches.
    ///
    /// # Errors
    /// [`ConfigError`]: not two or three hosts, or a setting that cannot work.
    pub fn run(&self, situation: Situation) -> Result<Explored, ConfigError> {
        self.config.validate()?;
        if !(2..=3).contains(&self.config.nodes) {
            return Err(ConfigError::new("nodes", "must be 2 or 3"));
        }
        let mut root = situation.prepare(&self.config, self.plant);
        root.left = self.budget;
        let mut run = Run {
            search: self,
            seen: BTreeSet::new(),
            nodes: Vec::new(),
            out: Explored {
                situation,
                nodes: self.config.nodes,
                shards: self.config.shards,
                depth: 0,
                states: 1,
                events: 0,
                probed: 0,
                violation: None,
            },
        };
        run.seen.insert(root.print());
        if let Some(violation) = root.violation.clone() {
            run.out.violation = Some(Found {
                violation,
                path: Vec::new(),
            });
            return Ok(run.out);
        }
        run.all(&root);
        if run.out.violation.is_none() {
            run.walks(&root);
        }
        Ok(run.out)
    }
}

/// What a search found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explored {
    /// Where it began.
    pub situation: Situation,
    /// How many hosts.
    pub nodes: u8,
    /// How many shards.
    pub shards: u32,
    /// Every order of so many events was tried.
    pub depth: u32,
    /// Different states.
    pub states: usize,
    /// Events that were tried in them.
    pub events: u64,
    /// States from which it was tried whether everything works again.
    pub probed: u64,
    /// A promise that was broken.
    pub violation: Option<Found>,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} nodes, {} shards: depth {}, {} states, {} events",
            self.situation, self.nodes, self.shards, self.depth, self.states, self.events
        )?;
        match &self.violation {
            Some(found) => write!(f, "\n{found}"),
            None => Ok(()),
        }
    }
}

/// A violation, and the events that lead to it: as few as there can be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Found {
    /// What was broken.
    pub violation: Violation,
    /// One event a line, from the situation.
    pub path: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.violation)?;
        for line in &self.path {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

struct Run<'a> {
    search: &'a Search,
    seen: BTreeSet<u64>,
    /// Of each state that was kept: the one it came from, and by what.
    nodes: Vec<(u32, Choice)>,
    out: Explored,
}

/// Came from nowhere.
const ROOT: u32 = u32::MAX;

impl Run<'_> {
    /// Breadth first.
    fn all(&mut self, root: &State) {
        let mut level: Vec<(State, u32)> = alloc::vec![(root.clone(), ROOT)];
        for depth in 1..=self.search.depth {
            let mut next = Vec::new();
            for (mut state, node) in level {
                for choice in state.choices() {
                    let mut after = state.clone();
                    after.apply(choice);
                    self.out.events += 1;
                    if let Some(violation) = after.violation.take() {
                        let mut path = self.path(node);
                        path.push(choice);
                        return self.found(root, violation, &path);
                    }
                    let print = after.print();
                    if !self.seen.insert(print) {
                        continue;
                    }
                    self.out.states += 1;
                    if print.is_multiple_of(PROBED) {
                        self.out.probed += 1;
                        if let Err(violation) = after.clone().recovers() {
                            let mut path = self.path(node);
                            path.push(choice);
                            return self.found(root, violation, &path);
                        }
                    }
                    if self.out.states >= self.search.states {
                        return;
                    }
                    if depth < self.search.depth {
                        let at = self.nodes.len() as u32;
                        self.nodes.push((node, choice));
                        next.push((after, at));
                    }
                }
            }
            self.out.depth = depth;
            level = next;
        }
    }

    /// Deep, and here and there.
    fn walks(&mut self, root: &State) {
        for walk in 0..self.search.walks {
            let mut rng = SplitMix64::new(u64::from(walk) + 1);
            let mut state = root.clone();
            let mut path = Vec::new();
            for _ in 0..WALK {
                let choices = state.choices();
                if choices.is_empty() {
                    break;
                }
                let choice = choices[rng.below(choices.len() as u64) as usize];
                state.apply(choice);
                path.push(choice);
                self.out.events += 1;
                if let Some(violation) = state.violation.take() {
                    return self.found(root, violation, &path);
                }
                self.out.states += usize::from(self.seen.insert(state.print()));
            }
            self.out.probed += 1;
            if let Err(violation) = state.recovers() {
                return self.found(root, violation, &path);
            }
        }
    }

    fn path(&self, mut node: u32) -> Vec<Choice> {
        let mut path = Vec::new();
        while let Some((before, choice)) = self.nodes.get(node as usize) {
            path.push(*choice);
            node = *before;
        }
        path.reverse();
        path
    }

    fn found(&mut self, root: &State, violation: Violation, path: &[Choice]) {
        let mut state = root.clone();
        let lines = path.iter().map(|choice| {
            state.choices();
            let line = state.describe(*choice);
            state.apply(*choice);
            line.to_string()
        });
        self.out.violation = Some(Found {
            violation,
            path: lines.collect(),
        });
    }
}

/// Events of a walk.
const WALK: u32 = 50;
