//! How a [`World`] goes on, and what is true of it all the time.

use alloc::vec::Vec;
use core::time::Duration;

use super::world::{S, World};
use crate::NodeId;
use crate::membership::MemberChange;

impl World {
    /// Carries everything out that is to be done now.
    pub(super) fn run(&mut self) {
        for turn in 0.. {
            assert!(turn < 10_000, "the same over and over");
            let mut busy = false;
            for node in self.hosts.keys().copied().collect::<Vec<_>>() {
                let mut turns = 0;
                while self.hosts[&node].alive && self.poll(node) {
                    busy = true;
                    turns += 1;
                    assert!(turns < 1_000_000, "commands without end");
                }
            }
            for (from, to) in self.wires.keys().copied().collect::<Vec<_>>() {
                while !self.cut.contains(&(from, to)) && self.carry(from, to) {
                    busy = true;
                }
            }
            if !busy {
                self.check();
                return;
            }
        }
    }

    /// Lets time pass, with every timer on the way.
    pub(super) fn pass(&mut self, millis: u64) {
        let end = self.now.after(Duration::from_millis(millis));
        for turn in 0.. {
            assert!(turn < 10_000, "timers that are always due");
            let hosts = self.hosts.values().filter(|host| host.alive);
            let next = hosts.filter_map(|host| host.region.poll_timeout()).min();
            match next {
                Some(next) if next <= end => self.now = self.now.max(next),
                _ => break,
            }
            let now = self.now;
            for host in self.hosts.values_mut().filter(|host| host.alive) {
                if host.region.poll_timeout().is_some_and(|due| due <= now) {
                    host.region.handle_timeout(now);
                }
            }
            self.run();
        }
        self.now = end;
        self.run();
    }

    /// Takes a node away, without a word.
    pub(super) fn kill(&mut self, node: NodeId) {
        self.host(node).alive = false;
        for (&(from, to), wire) in &mut self.wires {
            if from == node || to == node {
                wire.clear();
            }
        }
    }

    /// `node` hears of a change.
    pub(super) fn hear(&mut self, node: NodeId, change: MemberChange) {
        let now = self.now;
        self.region(node).handle_member(now, change).unwrap();
        self.run();
    }

    /// Order of what was handled since the last look, and the tables inside.
    pub(super) fn check(&mut self) {
        for host in self.hosts.values_mut() {
            host.region.validate();
        }
        for (_, shard, note) in &self.handled[self.checked..] {
            let before = self.last.insert((note.from, shard.0), note.number);
            assert!(
                before.is_none_or(|before| before < note.number),
                "{note:?} of {shard:?} after {before:?}"
            );
        }
        self.checked = self.handled.len();
    }

    /// Numbers of the messages of `from` to `S` that were handled, in order.
    pub(super) fn numbers_handled(&self, from: NodeId) -> Vec<u32> {
        let of_s = self
            .handled
            .iter()
            .filter(|(_, shard, note)| *shard == S && note.from == from);
        of_s.map(|(.., note)| note.number).collect()
    }

    /// The nodes on which the messages of `from` to `S` were handled.
    pub(super) fn nodes_handled(&self, from: NodeId) -> Vec<NodeId> {
        let of_s = self
            .handled
            .iter()
            .filter(|(_, shard, note)| *shard == S && note.from == from);
        of_s.map(|(node, ..)| *node).collect()
    }
}
