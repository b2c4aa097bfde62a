//! Everything that leases are there for, at once: processes pause, clocks differ, who lives is declared gone, networks
//! carry one way only, buffers and windows are tiny. What must hold at every moment is checked by the cluster itself.

use alloc::vec::Vec;

use super::cluster::*;
use super::moving::{all_answered, traffic};
use crate::hash::SplitMix64;
use crate::membership::RemovalCause;
use crate::node::*;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

struct Storm {
    cluster: Cluster,
    mode: MembershipMode,
    names: &'static [&'static str],
    kind: TypeConfig,
    cart: TypeIndex,
    tiny: bool,
    /// Nobody dies, and nobody is declared gone: nothing may be lost without a report.
    gentle: bool,
}

impl Storm {
    fn new(mode: MembershipMode, seed: u64) -> Self {
        let mut cluster = Cluster::new(seed);
        let names = &NAMES[..[3, 4, 5][cluster.rng.below(3) as usize]];
        cluster.set_voters(names);
        cluster.introduces = mode == MembershipMode::External;
        let tiny = cluster.rng.below(2) == 0;
        let kind = if tiny {
            CART.with_buffer(64).with_buffer_per_shard(16)
        } else {
            CART
        };
        // Registrations in many parts, of which some may be missing, or belong to an earlier one.
        let mut more = SplitMix64::new(seed ^ 0x5eed);
        let kind = match more.below(3) {
            0 => kind.with_shards_per_part(2),
            1 => kind.with_shards_per_part(8),
            _ => kind,
        };
        if more.below(2) == 0 {
            cluster.noise = Some(Noise::new(more.next_u64(), 100, 100, 100));
        }
        let mut storm = Self {
            cart: TypeIndex(0),
            gentle: cluster.rng.below(3) == 0,
            cluster,
            mode,
            names,
            kind,
            tiny,
        };
        for name in names {
            storm.start(name);
            storm.cluster.run(MS);
        }
        storm
    }

    /// A new process, with a clock of its own.
    fn start(&mut self, name: &'static str) {
        let rng = &mut self.cluster.rng;
        let offset = rng.below(1 << 40);
        let ppm = rng.below(39_000) as i64 - 19_500;
        self.cluster.next_clock = (Some(offset), ppm);
        let mut config = config(self.mode, self.names);
        if self.tiny {
            config = config.with_window_frames(4);
        }
        let host = self.cluster.start(name, config);
        self.cart = self.cluster.add_type(host, self.kind.clone());
    }

    /// The host that now has the name, if its process lives.
    fn running(&self, name: &str) -> Option<usize> {
        let hosts = self.cluster.hosts.iter();
        let mut hosts = hosts.enumerate();
        Some(hosts.find(|(_, host)| host.name == name && host.alive)?.0)
    }

    /// Those that live and stay.
    fn staying(&self) -> Vec<usize> {
        let stays = |host: &usize| {
            let host = &self.cluster.hosts[*host];
            !host.app.removed && host.app.left.is_none() && !host.node.is_leaving()
        };
        let running = self.names.iter().filter_map(|name| self.running(name));
        running.filter(stays).collect()
    }

    fn kill(&mut self, host: usize) {
        self.cluster.kill(host);
        if self.mode == MembershipMode::External {
            let wait = self.cluster.rng.below(500) * MS;
            self.cluster.run(wait);
            self.cluster.declare_gone(host, RemovalCause::Down);
        }
    }

    /// Processes that are done end.
    fn reap(&mut self) {
        for host in 0..self.cluster.hosts.len() {
            let there = &self.cluster.hosts[host];
            if there.alive && there.paused.is_none() {
                let left = there.app.left.is_some();
                if left || there.app.removed {
                    self.cluster.kill(host);
                    if self.mode == MembershipMode::External {
                        let cause = if left {
                            RemovalCause::Left
                        } else {
                            RemovalCause::Down
                        };
                        self.cluster.declare_gone(host, cause);
                    }
                }
            }
        }
    }

    fn blow(&mut self) {
        let name = self.names[self.cluster.rng.below(self.names.len() as u64) as usize];
        let others = self.staying();
        let Some(host) = self.running(name) else {
            return self.start(name);
        };
        let other = others
            .get(self.cluster.rng.below(others.len().max(1) as u64) as usize)
            .copied()
            .filter(|other| *other != host);
        let stays = others.contains(&host);
        let many = others.len() > self.names.len() / 2 + 1;
        let time = self.cluster.rng.below(1_500) * MS;
        match (self.cluster.rng.below(10), other) {
            (0, _) if !self.gentle => {
                self.kill(host);
                let soon = 1 + self.cluster.rng.below(10);
                self.cluster.run(soon * MS);
                self.start(name);
            }
            (1, _) if !self.gentle && many => self.kill(host),
            (2, _) if many && stays && self.cluster.hosts[host].paused.is_none() => {
                self.cluster.leave(host);
            }
            (3 | 4, _) => self.cluster.pause(host, time),
            (5, Some(other)) => {
                self.cluster.cut_off(host, other);
                traffic(
                    &mut self.cluster,
                    self.cart,
                    1 + (time / (30 * MS)) as u32,
                    10 * MS,
                );
                self.cluster.unblock(host, other);
            }
            (6, Some(other)) => {
                self.cluster.block(host, other);
                traffic(
                    &mut self.cluster,
                    self.cart,
                    1 + (time / (30 * MS)) as u32,
                    10 * MS,
                );
                self.cluster.unblock(host, other);
            }
            (7, Some(other)) => self.cluster.reset(host, other),
            (8, _) if !self.gentle && many && self.mode == MembershipMode::External => {
                self.cluster.declare_gone(host, RemovalCause::Down);
            }
            (9, _) if stays && self.cluster.hosts[host].paused.is_none() => {
                self.cluster.stop_type(host, self.cart);
                traffic(&mut self.cluster, self.cart, 10, 10 * MS);
                if self.cluster.hosts[host].alive && self.cluster.hosts[host].paused.is_none() {
                    self.cluster.try_add_type(host, self.kind.clone());
                }
            }
            _ => {}
        }
    }

    /// All is whole again, and everybody is there.
    fn calm(&mut self) {
        self.cluster.noise = None;
        for _ in 0..3 {
            self.cluster.run(4 * SECOND);
            self.reap();
            for name in self.names {
                if self.running(name).is_none() {
                    self.start(name);
                }
            }
        }
        for host in 0..self.cluster.hosts.len() {
            if self.cluster.hosts[host].alive {
                self.cluster.try_add_type(host, self.kind.clone());
            }
        }
    }
}

fn storm(mode: MembershipMode, seed: u64) {
    let mut storm = Storm::new(mode, seed);
    storm.cluster.form();
    let cart = storm.cart;
    storm
        .cluster
        .run_until(10 * SECOND, |cluster| cluster.is_registered(cart));
    for _ in 0..20 {
        storm.blow();
        traffic(&mut storm.cluster, cart, 8, 10 * MS);
        storm.reap();
        storm.cluster.check_order(false);
    }
    storm.calm();
    let (cluster, gentle) = (&mut storm.cluster, storm.gentle);
    cluster.form();
    cluster.run_until(10 * SECOND, |cluster| cluster.is_registered(cart));
    cluster.run(3 * SECOND);
    let mut asks = Vec::new();
    for _ in 0..5 {
        asks.extend(traffic(cluster, cart, 2, 500 * MS));
    }
    cluster.run(5 * SECOND);
    all_answered(cluster, &asks);
    cluster.check_single();
    let lived = cluster.all_lived();
    cluster.check_order(gentle && lived);
    cluster.check_pending();
}

/// Run more with `CLUSTER_SEEDS`, from `CLUSTER_FROM`.
#[test]
fn a_storm_breaks_no_promise() {
    let external = seeds().map(|seed| (MembershipMode::External, seed));
    let leased = runs().into_iter().filter(|(_, seed)| seed & TRUST == 0);
    for (mode, seed) in leased.chain(external) {
        std::println!("{mode:?} {seed}");
        storm(mode, seed);
    }
}
