//! What must hold.

use super::*;

impl Cluster {
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for host in &self.hosts {
            text += &format!(
                "\n{} alive {} leader {:?} members {:?} serving {:?} stats {:?} warnings {:?}",
                host.name,
                host.alive,
                host.app.leader,
                host.app
                    .members
                    .values()
                    .map(|member| member.state)
                    .collect::<Vec<_>>(),
                host.app.serving.keys().collect::<Vec<_>>(),
                host.node.stats(),
                host.app.warnings,
            );
        }
        text
    }

    pub(in super::super) fn alive(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| host.alive)
    }

    /// All nodes that live follow one reign, and know each other.
    pub(in super::super) fn is_formed(&self) -> bool {
        let count = self.alive().count();
        let mut leaders = self.alive().map(|host| host.app.leader);
        let first = leaders.next().flatten();
        first.is_some()
            && leaders.all(|leader| leader == first)
            && self.alive().all(|host| host.app.members.len() == count)
    }

    pub(in super::super) fn form(&mut self) -> u64 {
        self.run_until(10 * SECOND, Self::is_formed)
    }

    pub(in super::super) fn is_registered(&self, ty: TypeIndex) -> bool {
        self.alive().all(|host| host.node.is_registered(ty))
    }

    /// How many shards of a type are served, per living host.
    pub(in super::super) fn served(&self, ty: TypeIndex) -> Vec<usize> {
        let count = |host: &Host| host.app.serving.keys().filter(|key| key.0 == ty).count();
        self.alive().map(count).collect()
    }

    /// No shard runs on two living hosts.
    pub(in super::super) fn check_single(&self) {
        let mut seen = BTreeMap::new();
        for host in self.alive() {
            for key in host.app.serving.keys() {
                let other = seen.insert(*key, host.name);
                assert_eq!(other, None, "{key:?} runs on {} too", host.name);
            }
        }
    }

    /// Every sender's messages to an entity were handled in order, none twice. `complete`: and none is missing that
    /// was not reported.
    pub(in super::super) fn check_order(&self, complete: bool) {
        let mut next: BTreeMap<(u32, &str), u64> = BTreeMap::new();
        let mut seen: BTreeSet<(&str, Tell)> = BTreeSet::new();
        for handled in &self.handled {
            let key = (handled.tell.sender, handled.id.as_str());
            let next = next.entry(key).or_insert(0);
            assert!(
                seen.insert((&handled.id, handled.tell)),
                "handled twice: {handled:?}"
            );
            assert!(
                handled.tell.number >= *next,
                "out of order: {handled:?}, {next} is next"
            );
            *next = handled.tell.number + 1;
        }
        if !complete {
            return;
        }
        let mut reported = BTreeSet::new();
        for host in &self.hosts {
            for (id, tell, _, origin) in &host.app.rejects {
                if *origin == Origin::Local {
                    reported.insert((id.as_str(), *tell));
                }
            }
        }
        for ((sender, id), count) in &self.numbers {
            for number in 0..*count {
                let tell = Tell {
                    sender: *sender,
                    number,
                };
                assert!(
                    seen.contains(&(id.as_str(), tell)) || reported.contains(&(id.as_str(), tell)),
                    "lost: {id} {tell:?}"
                );
            }
        }
    }

    /// Nothing is pending any more.
    pub(in super::super) fn check_pending(&self) {
        for host in self.alive() {
            let stuck: Vec<_> = host
                .app
                .pending
                .iter()
                .filter(|(_, count)| **count > 0)
                .collect();
            assert!(stuck.is_empty(), "{} has pending {stuck:?}", host.name);
        }
    }

    /// Everything that holds when nothing is going on.
    pub(in super::super) fn check_quiet(&self) {
        self.check_single();
        self.check_order(true);
        self.check_pending();
    }
}
