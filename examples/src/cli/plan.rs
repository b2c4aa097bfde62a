//! What happens to a cluster, and after which rows.

use super::{At, Cluster, Who};
use crate::{failure::Failure, fleet::node_name, input::Input, shape::Shape};

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A node joins.
    Join,
    /// A node is killed, and started again.
    Kill(Who),
    /// A node freezes, and is woken.
    Freeze(Who),
    /// This node leaves.
    Leave(Who),
}

/// What happens, in order, and after how many rows each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan(pub Vec<(u32, Step)>);

impl Plan {
    /// How many nodes fail.
    #[must_use]
    pub fn failures(&self) -> usize {
        let fails = |step: &Step| matches!(step, Step::Kill(_) | Step::Freeze(_));
        self.0.iter().filter(|(_, step)| fails(step)).count()
    }
}

impl Cluster {
    /// What is to happen.
    ///
    /// # Errors
    /// A row that the file does not have, a node that is not there, or too few that would be left.
    pub fn plan(&self, input: &Input) -> Result<Plan, Failure> {
        let rows = u32::try_from(input.len()).unwrap_or(u32::MAX);
        let check = |option, row: u32| match row {
            row if row > rows => Err(Failure::usage(format!(
                "{option} {row}: the file has only {rows} rows"
            ))),
            row => Ok(row),
        };
        let join_at = check("--join-at", self.join_at.unwrap_or(rows / 3))?;
        let mut steps = vec![(join_at, Step::Join)];
        for At { row, who } in &self.kill_at {
            steps.push((check("--kill-at", *row)?, Step::Kill(who.clone())));
        }
        for At { row, who } in &self.freeze_at {
            steps.push((check("--freeze-at", *row)?, Step::Freeze(who.clone())));
        }
        let last = steps.iter().skip(1).map(|(row, _)| *row).max();
        let after_failures = last.map_or(0, |last| last + (rows - last) / 2);
        let leave_at = (rows - rows / 3).max(after_failures);
        let leave_at = check("--leave-at", self.leave_at.unwrap_or(leave_at))?;
        steps.push((leave_at, Step::Leave(Who::Leader)));
        steps.sort_by_key(|(row, _)| *row);
        let mut nodes = Nodes::new(self.nodes, &self.shape());
        for (row, step) in &mut steps {
            nodes.take(step).map_err(|why| {
                let option = match step {
                    Step::Join => "--join-at",
                    Step::Kill(_) => "--kill-at",
                    Step::Freeze(_) => "--freeze-at",
                    Step::Leave(_) => "--leave-at",
                };
                Failure::usage(format!("{option} {row}: {why}"))
            })?;
        }
        Ok(Plan(steps))
    }
}

/// The nodes that are up, as far as they can be known beforehand.
struct Nodes {
    names: Vec<String>,
    joined: u16,
    voters: usize,
    up: usize,
    quorum: usize,
    left: usize,
    shape: Shape,
}

impl Nodes {
    fn new(count: u16, shape: &Shape) -> Self {
        let mut nodes = Self {
            names: Vec::new(),
            joined: 0,
            voters: shape.voters.len(),
            up: 0,
            quorum: shape.quorum(),
            left: 0,
            shape: shape.clone(),
        };
        for _ in 0..count {
            nodes.join();
        }
        nodes
    }

    fn join(&mut self) {
        let name = node_name(self.joined);
        self.joined += 1;
        self.up += usize::from(self.shape.voters.contains(&name));
        self.names.push(name);
    }

    /// Nodes that have not left, and that do not vote.
    fn others(&self) -> usize {
        self.names.len() - self.left - self.up
    }

    fn take(&mut self, step: &mut Step) -> Result<(), String> {
        let spare = self.up > self.quorum;
        let few = format!(
            "{} of {} voters would be left, and {} are needed; start with more nodes, or choose a later row or \
             another node",
            self.up.saturating_sub(1),
            self.voters,
            self.quorum
        );
        match step {
            Step::Join => self.join(),
            Step::Leave(_) if self.names.len() - self.left < 2 => {
                return Err("the only node cannot leave before another one has joined".to_owned());
            }
            Step::Leave(who) => {
                if self.voters > 0 && !spare {
                    if self.others() == 0 {
                        return Err(few);
                    }
                    *who = Who::Other;
                } else {
                    self.up = self.up.saturating_sub(1);
                }
                self.left += 1;
            }
            Step::Kill(who) | Step::Freeze(who) => {
                if self.names.len() - self.left < 2 {
                    return Err("there is no other node that could take its place".to_owned());
                }
                let votes = match who {
                    Who::Leader => self.voters > 0,
                    Who::Other => self.voters > 0 && self.others() == 0,
                    Who::Named(name) if !self.names.contains(name) => {
                        return Err(format!("there is no {name} then"));
                    }
                    Who::Named(name) => self.shape.voters.contains(name),
                };
                if votes && !spare {
                    return Err(few);
                }
            }
        }
        Ok(())
    }
}
