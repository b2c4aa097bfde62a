//! A cluster of node processes, and this process as a proxy that only sends.

use core::{num::NonZeroU32, time::Duration};
use std::collections::BTreeSet;

use shard_tokio::{EntityType, Member, MemberState, Node, NodeId, ShardId, proto::hash::node_id};

use crate::{
    cli::Who,
    clock,
    failure::Failure,
    ledger::{Accounts, Place, Shelf},
    map::MapWatch,
    process::{Child, Hosts, Orders, within},
    runtimes::{On, Runtimes},
    service::{Outage, Prober},
    shape::Shape,
};

/// Where the ledgers of a cluster keep what they do.
#[derive(Clone, Debug)]
pub enum Keeping {
    /// A book for each process, which its entities write to when they stop.
    Books {
        /// Write each row before it is answered instead, so that a process that is killed leaves what it did.
        each_row: bool,
    },
    /// A journal that all processes share.
    Journal(Place),
}

impl Keeping {
    async fn is_writable(&self) -> Result<bool, Failure> {
        match self {
            Self::Books { .. } => Ok(true),
            Self::Journal(place) => place.is_writable().await,
        }
    }
}

/// A cluster of node processes that host ledgers, and this process as a proxy.
#[derive(Debug)]
pub struct Fleet<'a, E: Accounts> {
    shelf: &'a Shelf,
    shape: Shape,
    runtimes: Runtimes,
    keeping: Keeping,
    children: Vec<Child>,
    /// How many processes were started again.
    restarts: u32,
    proxy: Node,
    ledgers: EntityType<E>,
    watch: MapWatch,
}

/// The name of the node with that number: `node-a` to `node-z`, then `node-ba` and so on.
#[must_use]
pub fn node_name(number: u16) -> String {
    let letter = |number: u16| char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => format!("node-{}", letter(number)),
        more => format!("node-{}{}", letter(more), letter(number)),
    }
}

impl<'a, E: Accounts> Fleet<'a, E> {
    /// Starts so many nodes and the proxy, and waits until all take part.
    ///
    /// # Errors
    /// One of them does not start.
    pub async fn start(
        shape: Shape,
        runtimes: Runtimes,
        nodes: u16,
        shelf: &'a Shelf,
        keeping: Keeping,
    ) -> Result<Self, Failure> {
        let mut children: Vec<Child> = Vec::new();
        for number in 0..nodes {
            let seeds = addresses(&children);
            let name = node_name(number);
            let on = runtimes.of(&name);
            let orders = orders(&shape, on, shelf, &keeping, &name, seeds, 0);
            let mut child = Child::spawn(&orders)?;
            // The others need the address of the first one; after that they can start together.
            if number == 0 {
                child.listens().await?;
            }
            children.push(child);
        }
        for child in &mut children {
            child.listens().await?;
        }
        shape.certify("proxy")?;
        let proxy = shape
            .node("proxy", addresses(&children))?
            .bootstrap(false)
            .may_lead(false)
            // Probes of shards without service are many.
            .window(64 << 20, 1 << 18)
            .start()
            .await
            .map_err(Failure::run)?;
        let ledgers = proxy
            .entity_type::<E>()
            .shards(shape.shards)
            .proxy()
            .start()
            .await
            .map_err(Failure::run)?;
        for child in &mut children {
            child.ready().await?;
        }
        within("the nodes know each other", ledgers.ready())
            .await?
            .map_err(Failure::run)?;
        let watch = MapWatch::start(ledgers.shard_map_changes());
        Ok(Self {
            shelf,
            shape,
            runtimes,
            keeping,
            children,
            restarts: 0,
            proxy,
            ledgers,
            watch,
        })
    }

    /// The ledgers, as the proxy reaches them.
    #[must_use]
    pub const fn ledgers(&self) -> &EntityType<E> {
        &self.ledgers
    }

    /// The proxy.
    #[must_use]
    pub const fn proxy(&self) -> &Node {
        &self.proxy
    }

    /// The shard map, as the proxy sees it.
    #[must_use]
    pub const fn watch(&self) -> &MapWatch {
        &self.watch
    }

    /// What all nodes agree on.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Names of all nodes that were ever there.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names = self.children.iter().map(Child::name);
        names.map(str::to_owned).collect()
    }

    /// Begins to ask every shard whether it serves, and waits until all do and none moves any more.
    ///
    /// # Errors
    /// That takes too long.
    pub async fn probe(&self) -> Result<Prober, Failure> {
        let shards = NonZeroU32::new(self.shape.shards).unwrap_or(NonZeroU32::MIN);
        let prober = Prober::start(&self.ledgers, shards);
        prober.served_since(0, None).await?;
        self.settled().await?;
        Ok(prober)
    }

    /// Waits until every node counts as reachable, and no shard moves any more: one failure at a time.
    async fn settled(&self) -> Result<(), Failure> {
        let reachable = async {
            let is_up = |member: &Member| member.state == MemberState::Up;
            while !self.proxy.members().iter().all(is_up) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within("all nodes can be reached", reachable).await?;
        self.watch.quiet().await;
        Ok(())
    }

    /// Which node that is now.
    ///
    /// # Errors
    /// None is.
    pub fn find(&self, who: &Who) -> Result<usize, Failure> {
        let leader = self.proxy.leader().map(|leader| leader.node);
        let there = |child: &Child| !child.is_leaving();
        let up = self.children.iter().filter(|child| there(child));
        let votes = |child: &Child| self.shape.voters.iter().any(|name| name == child.name());
        let spare = up.filter(|child| votes(child)).count() > self.shape.quorum();
        let is = |child: &Child| match who {
            Who::Leader => leader == Some(node_id(child.name())),
            Who::Other => leader != Some(node_id(child.name())) && (spare || !votes(child)),
            Who::Named(name) => child.name() == name,
        };
        let found = self
            .children
            .iter()
            .position(|child| there(child) && is(child));
        found.ok_or_else(|| Failure::run(format!("there is no such node: {who:?}")))
    }

    /// The name of a node.
    #[must_use]
    pub fn name(&self, index: usize) -> &str {
        self.children[index].name()
    }

    fn id(&self, index: usize) -> NodeId {
        node_id(self.children[index].name())
    }

    fn spawn(&self, name: &str) -> Result<Child, Failure> {
        let others = self.children.iter().filter(|child| child.name() != name);
        let seeds = addresses(others);
        Child::spawn(&orders(
            &self.shape,
            self.runtimes.of(name),
            self.shelf,
            &self.keeping,
            name,
            seeds,
            self.restarts,
        ))
    }

    /// One more node joins.
    ///
    /// # Errors
    /// It does not.
    pub async fn join(&mut self, prober: &Prober) -> Result<Outage, Failure> {
        let moving = self.moving();
        let number = u16::try_from(self.children.len()).unwrap_or(u16::MAX);
        self.children.push(self.spawn(&node_name(number))?);
        let joined = self.children.len() - 1;
        self.children[joined].ready().await?;
        self.watch.quiet().await;
        Ok(self.moved(format!("{} joined", self.name(joined)), prober, &moving))
    }

    /// A node leaves.
    ///
    /// # Errors
    /// It does not.
    pub async fn leave(&mut self, index: usize, prober: &Prober) -> Result<Outage, Failure> {
        let moving = self.moving();
        self.children[index].leave();
        self.children[index].events().left().await?;
        self.watch.quiet().await;
        Ok(self.moved(format!("{} left", self.name(index)), prober, &moving))
    }

    /// A node is killed; returns when its shards are served elsewhere, and when it has been started again.
    ///
    /// # Errors
    /// They are not, or it does not start.
    pub async fn kill(&mut self, index: usize, prober: &Prober) -> Result<[Outage; 2], Failure> {
        let failing = self.failing(index);
        self.children[index].kill()?;
        prober.served_since(failing.from_us + SETTLED, None).await?;
        let killed = format!("{} was killed", self.name(index));
        let killed = self.failed(killed, prober, &failing);
        self.watch.quiet().await;
        let moving = self.moving();
        self.restart(index).await?;
        self.settled().await?;
        let again = format!("{} started again", self.name(index));
        Ok([killed, self.moved(again, prober, &moving)])
    }

    /// A node freezes; returns when its shards are served elsewhere, and when it takes part again.
    ///
    /// # Errors
    /// They are not, or it does not.
    pub async fn freeze(
        &mut self,
        index: usize,
        at_least: Duration,
        prober: &Prober,
    ) -> Result<[Outage; 2], Failure> {
        // One that is stopped in the middle of a transaction holds the file's lock: nobody writes until it goes on, which
        // says something about SQLite and nothing about homes.
        let failing = loop {
            let failing = self.failing(index);
            self.children[index].freeze()?;
            if self.keeping.is_writable().await? {
                break failing;
            }
            self.children[index].wake()?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        tokio::time::sleep(at_least).await;
        // Without leases a node that is not declared down keeps its shards.
        if !self.shape.voters.is_empty() {
            prober.served_since(failing.from_us + SETTLED, None).await?;
        }
        let moving = self.moving();
        self.children[index].wake()?;
        prober.served_since(failing.from_us + SETTLED, None).await?;
        let froze = format!("{} froze {} ms", self.name(index), at_least.as_millis());
        let froze = self.failed(froze, prober, &failing);
        self.back(index).await?;
        self.settled().await?;
        let woke = format!("{} woke", self.name(index));
        Ok([froze, self.moved(woke, prober, &moving)])
    }

    /// Waits until a woken node hosts shards again. One that was declared down meanwhile is started again.
    async fn back(&mut self, index: usize) -> Result<(), Failure> {
        let id = self.id(index);
        let watch = self.watch.clone();
        let child = &mut self.children[index];
        let ended = async {
            while watch.hosts().of(id) == 0 {
                if child.has_ended()? {
                    return Ok(true);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok::<_, Failure>(false)
        };
        if within("a woken node takes part", ended).await?? {
            self.restart(index).await?;
        }
        Ok(())
    }

    async fn restart(&mut self, index: usize) -> Result<(), Failure> {
        self.restarts += 1;
        let name = self.name(index).to_owned();
        self.children[index] = self.spawn(&name)?;
        self.children[index].ready().await
    }

    fn failing(&self, index: usize) -> Failing {
        Failing {
            from_us: clock::micros(),
            hit: self.watch.shards_of(self.id(index)),
        }
    }

    fn failed(&self, what: String, prober: &Prober, failing: &Failing) -> Outage {
        let (from, to) = (failing.from_us, clock::micros());
        let bounds = (self.shape.takeover_bound(), self.shape.move_bound());
        let resolution = prober.resolution(from, to);
        Outage::new(
            what,
            &prober.gaps(from, to),
            &failing.hit,
            bounds,
            resolution,
        )
    }

    fn moving(&self) -> Moving {
        Moving {
            from_us: clock::micros(),
            homes: self.watch.homes(),
        }
    }

    fn moved(&self, what: String, prober: &Prober, moving: &Moving) -> Outage {
        let (from, to) = (moving.from_us, clock::micros());
        let hit = self.watch.moved_since(&moving.homes);
        let bounds = (self.shape.move_bound(), self.shape.move_bound());
        let resolution = prober.resolution(from, to);
        Outage::new(what, &prober.gaps(from, to), &hit, bounds, resolution)
    }

    /// Stops all nodes and the proxy.
    ///
    /// # Errors
    /// A process did not end well.
    pub async fn stop(mut self) -> Result<(), Failure> {
        for child in &mut self.children {
            child.stop();
        }
        for child in &mut self.children {
            child.ended().await?;
        }
        self.proxy.shutdown().await;
        Ok(())
    }
}

/// A process that is told to stop or to end may work on for so many microseconds.
const SETTLED: u64 = 20_000;

struct Failing {
    from_us: u64,
    hit: BTreeSet<ShardId>,
}

struct Moving {
    from_us: u64,
    homes: std::collections::BTreeMap<ShardId, NodeId>,
}

fn addresses<'c>(children: impl IntoIterator<Item = &'c Child>) -> Vec<String> {
    let addresses = children.into_iter().filter_map(Child::address);
    addresses.map(str::to_owned).collect()
}

fn orders(
    shape: &Shape,
    on: On,
    shelf: &Shelf,
    keeping: &Keeping,
    name: &str,
    seeds: Vec<String>,
    life: u32,
) -> Orders {
    // A life of its own book: the last line of the former one may be torn.
    let book = || match life {
        0 => shelf.book(name),
        life => shelf.book(&format!("{name}-{life}")),
    };
    let hosts = match keeping {
        Keeping::Books { each_row } => Hosts::Ledgers {
            book: book(),
            each_row: *each_row,
        },
        Keeping::Journal(place) => Hosts::DurableLedgers(place.clone()),
    };
    Orders {
        name: name.to_owned(),
        seeds,
        shape: shape.clone(),
        at: None,
        hosts,
        on,
    }
}
