//! What must hold.

use super::*;

impl Cluster {
    pub(in super::super) fn describe(&self) -> String {
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

    /// What nobody claims is given out.
    pub(in super::super) fn is_open(&self) -> bool {
        self.alive().any(|host| host.node.leadership.is_open())
    }

    /// Nobody died, and nobody was taken for dead.
    pub(in super::super) fn all_lived(&self) -> bool {
        let died = |gone: &(NodeId, RemovalCause)| gone.1 != RemovalCause::Left;
        let mut hosts = self.hosts.iter();
        hosts.all(|host| !host.app.removed && !host.app.gone.iter().any(died))
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

    fn is_leased(&self) -> bool {
        self.ownership == Ownership::Lease && !self.voters.is_empty()
    }

    /// Nobody else may serve a shard that is started here, and none ever did under such an epoch.
    pub(super) fn check_start(&mut self, host: usize, ty: TypeIndex, shard: ShardId, epoch: Epoch) {
        let before = self.epochs.insert((ty, shard), epoch);
        if !self.is_leased() {
            return;
        }
        assert!(
            before.is_none_or(|before| before < epoch),
            "{shard} started under {epoch} after {before:?}"
        );
        self.check_home(host, ty, shard);
    }

    fn check_home(&self, host: usize, ty: TypeIndex, shard: ShardId) {
        for other in (0..self.hosts.len()).filter(|other| *other != host) {
            let there = &self.hosts[other];
            let serving = there.app.serving.get(&(ty, shard));
            if there.alive && serving.is_some_and(|serving| !serving.lapsed) {
                let until = self.serves_until(other);
                assert!(
                    until.is_none(),
                    "{} {shard} is served by {} and {}, until {until:?}",
                    self.now,
                    self.hosts[host].name,
                    there.name
                );
            }
        }
    }

    /// A host has a lease again: what it still runs must be nobody else's.
    pub(super) fn check_lease(&self, host: usize) {
        if self.is_leased() && self.serves_until(host).is_some() {
            for ((ty, shard), serving) in &self.hosts[host].app.serving {
                assert!(serving.stopping || !serving.lapsed, "{shard} runs on");
                if !serving.lapsed {
                    self.check_home(host, *ty, *shard);
                }
            }
        }
    }

    /// At most one leader acts.
    pub(super) fn check_acting(&self, host: usize) {
        let acts = |host: usize| {
            let there = &self.hosts[host];
            let until = there.node.leadership.acting_until();
            there.alive && until.is_some_and(|until| self.local(host) < until)
        };
        if !self.is_leased() || !acts(host) {
            return;
        }
        for other in (0..self.hosts.len()).filter(|other| *other != host) {
            assert!(
                !acts(other),
                "{} {} and {} act",
                self.now,
                self.hosts[host].name,
                self.hosts[other].name
            );
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
            // Who has left hears of nothing that comes back from a home whose lease had lapsed.
            if self.hosts[*sender as usize].app.left.is_some() {
                continue;
            }
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
