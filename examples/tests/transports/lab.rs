//! What every case has at hand: nodes, time, and callers whose messages are counted.

use core::future::poll_fn;
use core::marker::PhantomData;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use shard_adapter::proto::wire::control::Refusal;
use shard_adapter::runtime::{Executor, Runtime};
use shard_adapter::{EntityType, Preset, StartError, Transport};
use tokio::sync::oneshot;

use crate::certs::{Authority, Certified};
use crate::combination::{Combination, Peer, Setup, Way};
use crate::probe::Probe;
use crate::relay::Relay;
use crate::runtimes::On;
use crate::scribe::{SHARDS, Say, Scribe, World, hosted, ids, map_that};
use crate::speaker::Speaker;

/// What a case may take, on a machine that is busy with others.
const LIMIT: Duration = Duration::from_secs(120);

pub struct Lab<C> {
    pub world: Arc<World>,
    pub authority: Authority,
    pub time: Arc<dyn Executor>,
    started: AtomicUsize,
    combination: PhantomData<fn() -> C>,
}

/// Runs a case.
pub fn run<C: Combination, F: Future<Output = ()>>(case: impl FnOnce(Lab<C>) -> F) {
    C::Runtime::block_on(async {
        let lab = Lab {
            world: Arc::default(),
            authority: Authority::new(),
            time: C::Runtime::default().executor(),
            started: AtomicUsize::new(0),
            combination: PhantomData,
        };
        let mut over = lab.time.sleep(LIMIT);
        let mut case = pin!(case(lab));
        poll_fn(|cx| {
            let hangs = over.as_mut().poll(cx).is_ready();
            assert!(!hangs, "not within {LIMIT:?}");
            case.as_mut().poll(cx)
        })
        .await;
    });
}

impl<C: Combination> Lab<C> {
    /// A node to be, with a certificate of its name.
    pub fn setup(&self, name: &str, seeds: &[&Peer]) -> Setup {
        Setup {
            name: name.to_owned(),
            way: C::WAY,
            tls: self.authority.tls(name),
            world: Arc::clone(&self.world),
            seeds: seeds
                .iter()
                .map(|it| it.node.address().to_owned())
                .collect(),
            preset: Preset::Default,
            advertise: None,
            trusting: false,
            proxy: false,
            window: None,
            arrival_timeout: Duration::from_secs(5),
            max_message: None,
            probe: Probe::default(),
        }
    }

    pub async fn try_start(&self, setup: Setup) -> Result<Peer, StartError> {
        let nth = self.started.fetch_add(1, Ordering::Relaxed);
        C::start(nth, setup).await
    }

    pub async fn start(&self, setup: Setup) -> Peer {
        self.try_start(setup).await.unwrap()
    }

    /// Nodes a and b, and whichever are asked for, and `set` changes them.
    pub async fn cluster<const N: usize>(
        &self,
        names: [&str; N],
        set: impl Fn(&mut Setup),
    ) -> [Peer; N] {
        let mut peers: Vec<Peer> = Vec::new();
        for name in names {
            let seeds: Vec<_> = peers.first().into_iter().collect();
            let mut setup = self.setup(name, &seeds);
            set(&mut setup);
            peers.push(self.start(setup).await);
        }
        for peer in &peers {
            peer.scribes.ready().await.unwrap();
        }
        peers
            .try_into()
            .unwrap_or_else(|_| unreachable!("as many as names"))
    }

    /// Has something run beside the test, to its end.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.time.spawn(Box::pin(future));
    }

    /// Waits for what can only be looked at.
    pub async fn until(&self, mut good: impl FnMut() -> bool) {
        let mut pause = self.time.sleep(Duration::from_millis(2));
        while !good() {
            pause.as_mut().await;
            pause.as_mut().reset(Duration::from_millis(2));
        }
    }

    /// What somebody dials with who has that certificate.
    pub fn transport(&self, certified: &Certified) -> Arc<dyn Transport> {
        let tls = self.authority.config(certified).build().unwrap();
        C::WAY.transport::<C::Runtime>(&tls)
    }

    /// The runtime's own transport, under whatever encrypts.
    pub fn plain(&self) -> Arc<dyn Transport> {
        <C::Runtime as Runtime>::transport(&C::Runtime::default())
    }

    pub async fn relay(&self) -> Relay {
        match C::WAY {
            Way::Quic => Relay::of_datagrams(),
            Way::Tcp | Way::Tls => Relay::start(self.plain(), &self.time).await,
        }
    }

    pub async fn pause(&self, pause: Duration) {
        self.time.sleep(pause).await;
    }

    /// A node that is made by hand, and speaks these versions.
    pub async fn speaker(
        &self,
        name: &str,
        to: &Peer,
        versions: (u8, u8),
    ) -> Result<Speaker, Refusal> {
        let transport = self.transport(&self.authority.node(name));
        let connection = transport.dial(to.node.address()).await.unwrap();
        Speaker::greet(connection, name, versions).await
    }

    /// How a node takes it when somebody greets it in that name.
    pub async fn greet(
        &self,
        transport: &dyn Transport,
        name: &str,
        to: &Peer,
    ) -> Result<(), Refusal> {
        let connection = transport.dial(to.node.address()).await.unwrap();
        let speaker = Speaker::greet(connection, name, (1, 1)).await;
        speaker.map(drop)
    }

    /// An entity that lives on a node, as another knows.
    pub fn id_on(&self, from: &Peer, on: &Peer) -> String {
        let map = from.scribes.shard_map();
        let mut ids = ids(&from.scribes).into_iter();
        ids.find(|id| {
            let home = map.home(from.scribes.shard_of(id));
            home.is_some_and(|home| home.node == on.node.id())
        })
        .expect("it hosts some")
    }

    /// A caller on each of the nodes, each of which tells an entity of every shard one number after the other, and asks
    /// in between.
    pub fn traffic(&self, peers: &[&Peer]) -> Traffic {
        let over = Arc::<AtomicBool>::default();
        let callers = (0..).zip(peers).map(|(number, peer)| {
            let (sender, result) = oneshot::channel();
            let rounds = Arc::<AtomicU32>::default();
            let call = Call {
                number,
                scribes: peer.scribes.clone(),
                over: Arc::clone(&over),
                rounds: Arc::clone(&rounds),
                time: Arc::clone(&self.time),
            };
            self.spawn(async move {
                let _ = sender.send(call.run().await);
            });
            Caller {
                number,
                rounds,
                result,
            }
        });
        let callers = callers.collect();
        Traffic { callers, over }
    }

    /// Waits until every caller went on by so many rounds.
    pub async fn progress(&self, traffic: &Traffic, rounds: u32) {
        for caller in &traffic.callers {
            let from = caller.rounds.load(Ordering::Relaxed);
            self.until(|| {
                caller.rounds.load(Ordering::Relaxed) >= from + rounds || caller.failed()
            })
            .await;
        }
    }

    /// Ends it: every number of every caller arrived once and in order, and every ask was answered. `peers` are all nodes that
    /// had a part in it.
    pub async fn finish(&self, traffic: Traffic, peers: &[&Peer]) {
        traffic.over.store(true, Ordering::Relaxed);
        let ids = ids(&peers[0].scribes);
        for caller in traffic.callers {
            let number = caller.number;
            let result = caller.result.await.expect("the caller went on");
            let stats = || peers.iter().map(|peer| peer.node.stats());
            // This machine stalled for longer than a lease. Then messages may be undelivered, but in order, and reported.
            if stats().any(|stats| stats.core.lapses > 0) {
                eprintln!("leases lost; caller {number}: {result:?}");
                for id in &ids {
                    let told = self.world.told(id, number);
                    assert!(told.is_sorted_by(|a, b| a < b), "{id}: {told:?}");
                }
                continue;
            }
            let rounds = result.unwrap();
            assert!(rounds > 1);
            for id in &ids {
                let told = self.world.told(id, number);
                let all: Vec<_> = (0..rounds).collect();
                assert_eq!(told, all, "caller {number}, entity {id}");
            }
            let undelivered: Vec<_> = peers.iter().map(|peer| undelivered(peer)).collect();
            assert!(undelivered.iter().all(|it| *it == 0), "{undelivered:?}");
        }
    }

    /// Asks an entity of each shard where it is, until it says so.
    pub async fn ask_all(&self, peer: &Peer) {
        for id in ids(&peer.scribes) {
            let entity = peer.scribes.entity(&id);
            while entity.ask_for(Say::Who, SECOND).await.is_err() {}
        }
    }

    /// Has every shard used, and waits until each of the nodes has its part of them.
    pub async fn spread<const N: usize>(&self, peers: &[Peer; N]) {
        self.ask_all(&peers[0]).await;
        let fair = SHARDS as usize / N;
        map_that(&peers[0].scribes, |map| {
            peers.iter().all(|peer| hosted(map, &peer.node) >= fair)
        })
        .await;
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Messages of a node that were reported as undelivered.
pub fn undelivered(peer: &Peer) -> u64 {
    peer.node.stats().undelivered.iter().map(|it| it.1).sum()
}

struct Call {
    number: u32,
    scribes: EntityType<Scribe>,
    over: Arc<AtomicBool>,
    rounds: Arc<AtomicU32>,
    time: Arc<dyn Executor>,
}

impl Call {
    async fn run(self) -> Result<u32, String> {
        let entities: Vec<_> = ids(&self.scribes)
            .iter()
            .map(|id| self.scribes.entity(id))
            .collect();
        let mut pause = self.time.sleep(Duration::ZERO);
        for n in 0.. {
            let last = self.over.load(Ordering::Relaxed);
            for entity in &entities {
                let told = entity.tell(Say::note(self.number, n)).await;
                told.map_err(|error| format!("{}: {error}", entity.id()))?;
            }
            // Asks are in line behind what was told.
            let asked = if last {
                &entities[..]
            } else {
                &entities[n as usize % entities.len()..][..1]
            };
            for entity in asked {
                let asked = Instant::now();
                entity.ask(Say::Who).await.map_err(|error| {
                    format!("{} after {:?}: {error}", entity.id(), asked.elapsed())
                })?;
            }
            self.rounds.store(n + 1, Ordering::Relaxed);
            if last {
                return Ok(n + 1);
            }
            pause.as_mut().reset(Duration::from_millis(2));
            pause.as_mut().await;
        }
        unreachable!("numbers do not end")
    }
}

struct Caller {
    number: u32,
    rounds: Arc<AtomicU32>,
    result: oneshot::Receiver<Result<u32, String>>,
}

impl Caller {
    fn failed(&self) -> bool {
        !self.result.is_empty()
    }
}

/// Callers, until they are told to stop.
pub struct Traffic {
    callers: Vec<Caller>,
    over: Arc<AtomicBool>,
}
