//! Clients and nodes in virtual time, on the core's own stubs and policies.

use core::cmp::Reverse;
use core::time::Duration;
use std::{collections::BinaryHeap, rc::Rc};

use shard_proto::{
    Incarnation, Instant, NodeId,
    balance::{
        Call, CallError, Configured, Invocation, Limit, LocalElection, NodeRef, Policy, Provider,
        Source, SplitMix64, Step, Stub, StubConfig, StubHeap, View, ViewUpdate, WeightHeap, mix,
        stub_seed,
    },
    membership::MemberState,
};

use super::{
    event::{Answer, Event},
    measure::{Meter, Row, Sample, TICK},
    node::{Job, Life, Mode, Reception, Server, WORKERS},
    plan::{Action, Phase, Plan, SECOND},
};
use crate::failure::Failure as Stop;

/// The mean time that a node works on a call.
const SERVICE: u64 = 10_000;
/// Half of it is the same for all calls.
const SERVICE_LEAST: u64 = SERVICE / 2;
/// How much longer the slow node takes.
const SLOWER: u64 = 5;
/// What part of all workers is busy on average, with as many nodes as usual.
const BUSY: f64 = 0.3;
/// How long a message is under way, and how much longer it may be.
const WIRE: (u64, u64) = (200, 200);
/// How long an attempt waits for its answer.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long a call waits, over all its attempts.
const DEADLINE: Duration = Duration::from_secs(2);
/// How many different keys calls have.
const KEYS: u64 = 10_000;
const CLUSTER: u64 = 1;

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How many clients, each with a stub of its own.
    pub clients: u32,
    /// How many of them are in one process.
    pub per_process: u32,
    /// How many nodes there are usually.
    pub nodes: u16,
    /// Decides everything that is random.
    pub seed: u64,
    /// What is tried.
    pub phases: Vec<Phase>,
    /// Shorter phases.
    pub quick: bool,
}

/// What came of a policy.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The policy.
    pub policy: Policy,
    /// One row per phase.
    pub rows: Vec<Row>,
    /// One per second, over all phases.
    pub samples: Vec<Sample>,
    /// From when to when phases lasted, in seconds.
    pub spans: Vec<(Phase, f64, f64)>,
}

type Client = Stub<Configured<Rc<LocalElection>, WeightHeap>, StubHeap>;

/// A call that is not over.
#[derive(Debug)]
struct Running {
    client: u32,
    invocation: Invocation,
    began: u64,
    /// For which row it counts.
    row: Option<usize>,
    parked: bool,
}

#[derive(Debug, Default)]
struct Place {
    generation: u32,
    running: Option<Running>,
}

/// One policy's clients and nodes.
pub(super) struct World<'a> {
    setup: &'a Setup,
    policy: Policy,
    plan: Plan,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    rng: SplitMix64,
    clients: Vec<Client>,
    /// When each client looks next whether to ask for a view.
    armed: Vec<u64>,
    /// Calls of each client that wait for a node.
    parked: Vec<Vec<usize>>,
    servers: Vec<Server>,
    members: Vec<Provider>,
    view: View<Vec<Provider>>,
    calls: Vec<Place>,
    free: Vec<usize>,
    /// The mean time between two calls of a client.
    gap: f64,
    faulty: Option<usize>,
    meter: Meter,
}

impl<'a> World<'a> {
    pub(super) fn new(setup: &'a Setup, policy: Policy) -> Result<Self, Stop> {
        let room = setup.nodes * 2;
        let nodes = usize::from(room);
        let mut clients = Vec::new();
        let mut election = Rc::new(LocalElection::new(0));
        for number in 0..setup.clients {
            let process = stub_seed(setup.seed, (number / setup.per_process).into());
            if number % setup.per_process == 0 {
                election = Rc::new(LocalElection::new(mix(process)));
            }
            let policy = policy.build(Rc::clone(&election), WeightHeap::new(room));
            let config = StubConfig::new().with_seeds(1);
            let seed = stub_seed(process, number.into());
            let stub = Stub::new(config, policy, StubHeap::new(room), seed);
            clients.push(stub.map_err(Stop::usage)?);
        }
        let workers = (usize::from(setup.nodes) * WORKERS) as f64;
        let per_second = BUSY * workers * SECOND as f64 / SERVICE as f64;
        Ok(Self {
            setup,
            policy,
            plan: Plan::new(setup),
            now: 0,
            events: BinaryHeap::new(),
            sequence: 0,
            rng: SplitMix64::new(setup.seed),
            armed: vec![u64::MAX; clients.len()],
            parked: vec![Vec::new(); clients.len()],
            clients,
            servers: (0..nodes).map(|_| Server::new()).collect(),
            members: Vec::new(),
            view: View::new(Some(CLUSTER), vec![Provider::EMPTY; nodes]),
            calls: Vec::new(),
            free: Vec::new(),
            gap: f64::from(setup.clients) / per_second * SECOND as f64,
            faulty: None,
            meter: Meter::new(nodes),
        })
    }

    /// How many seconds of virtual time it takes.
    pub(super) fn length(&self) -> u64 {
        self.plan.end / SECOND
    }

    /// Runs it to its end, and says when another second is over.
    pub(super) fn run(mut self, mut second: impl FnMut()) -> Outcome {
        for (number, (when, _)) in self.plan.actions.clone().into_iter().enumerate() {
            self.at(when, Event::Act(number));
        }
        for client in 0..self.setup.clients {
            self.arm(client, 0);
            self.at(0, Event::Call(client));
        }
        self.at(TICK, Event::Tick);
        while let Some(Reverse((when, _, event))) = self.events.pop() {
            if when > self.plan.end {
                break;
            }
            if when / SECOND > self.now / SECOND {
                second();
            }
            self.now = when;
            self.handle(event);
        }
        Outcome {
            policy: self.policy,
            rows: self.meter.rows,
            samples: self.meter.samples,
            spans: self.meter.spans,
        }
    }

    fn at(&mut self, when: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((when, self.sequence, event)));
    }

    fn after(&mut self, micros: u64, event: Event) {
        self.at(self.now + micros, event);
    }

    const fn instant(&self) -> Instant {
        Instant::from_micros(self.now)
    }

    fn wire(&mut self) -> u64 {
        WIRE.0 + self.rng.below(WIRE.1)
    }

    /// Exponentially distributed.
    fn random(&mut self, mean: f64) -> u64 {
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * mean) as u64
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Act(number) => self.act(number),
            Event::Tick => {
                self.meter.tick(self.now, &self.servers);
                self.after(TICK, Event::Tick);
            }
            Event::Call(client) => self.call(client),
            Event::Reach {
                call,
                generation,
                attempt,
                node,
                incarnation,
            } => {
                let job = Job {
                    call,
                    generation,
                    attempt,
                };
                self.reach(job, node, incarnation);
            }
            Event::Done {
                call,
                generation,
                attempt,
                node,
                epoch,
            } => {
                let job = Job {
                    call,
                    generation,
                    attempt,
                };
                if self.servers[node].epoch == epoch {
                    self.answer(job, Answer::Good);
                    if let Some(next) = self.servers[node].done(job) {
                        self.serve(next, node);
                    }
                }
            }
            Event::Answer {
                call,
                generation,
                attempt,
                client,
                answer,
            } => {
                if answer.carries_view() {
                    self.tell(client);
                }
                self.conclude(call, generation, attempt, answer);
            }
            Event::Timeout { call, generation } => self.timeout(call, generation),
            Event::Refresh(client) => self.refresh(client),
            Event::View(client) => self.tell(client),
        }
    }

    fn act(&mut self, number: usize) {
        match self.plan.actions[number].1 {
            Action::Measure(phase) => {
                self.meter.end(self.now, &self.servers, self.faulty.take());
                if let Some(phase) = phase {
                    self.meter.begin(self.now, phase, &mut self.servers);
                }
            }
            Action::Join(node) => {
                let node = usize::from(node);
                self.servers[node].start(self.now);
                self.meter.watch(self.now, node);
                self.publish();
            }
            Action::Leave(node) => {
                let node = usize::from(node);
                self.servers[node].retire(self.now);
                self.meter.unwatch(node);
                self.publish();
            }
            Action::Drain(node) => self.servers[usize::from(node)].life = Life::Draining,
            Action::Stop(node) => {
                let server = &mut self.servers[usize::from(node)];
                server.life = Life::Down;
                for job in server.lose() {
                    self.answer(job, Answer::Reset);
                }
                self.publish();
            }
            Action::Turn(node, mode) => {
                let node = usize::from(node);
                self.servers[node].mode = mode;
                // Of what it had, nothing is answered any more.
                let lost = match mode {
                    Mode::Breaks | Mode::Hangs => self.servers[node].lose(),
                    Mode::Well | Mode::Sheds | Mode::Slow => Vec::new(),
                };
                if mode == Mode::Breaks {
                    for job in lost {
                        self.answer(job, Answer::Reset);
                    }
                }
                if mode == Mode::Well {
                    self.meter.watch(self.now, node);
                } else {
                    self.faulty = Some(node);
                }
            }
        }
    }

    /// All nodes know a new view.
    fn publish(&mut self) {
        self.members.clear();
        for (number, server) in self.servers.iter().enumerate() {
            let state = match server.life {
                Life::Down => continue,
                Life::Up if server.since.is_some() => MemberState::Up,
                Life::Up | Life::Draining => MemberState::Leaving,
            };
            let node = NodeRef::new(NodeId(number as u64 + 1), Incarnation(server.incarnation));
            self.members.push(Provider::new(node).with_state(state));
        }
        let update = ViewUpdate {
            cluster: CLUSTER,
            epoch: self.view.epoch() + 1,
            members: &self.members,
        };
        // It is newer, and there is room for all nodes; without any the last one stays.
        let _ = self.view.replace(update);
    }

    fn call(&mut self, client: u32) {
        let next = self.random(self.gap);
        self.after(next.max(1), Event::Call(client));
        let key = mix(self.rng.below(KEYS));
        let call = Call::new(self.instant().after(DEADLINE))
            .with_idempotent(true)
            .with_attempt_timeout(PATIENCE)
            .with_key(key);
        let running = Running {
            client,
            invocation: Invocation::new(call),
            began: self.now,
            row: self.meter.current(),
            parked: false,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.calls.push(Place::default());
            self.calls.len() - 1
        });
        self.calls[place].running = Some(running);
        self.step(place, |now, invocation, stub| {
            Some(invocation.start(now, stub))
        });
    }

    fn timeout(&mut self, call: usize, generation: u32) {
        if self.calls[call].generation == generation {
            self.step(call, |now, invocation, stub| {
                let due = invocation.poll_timeout()? <= now;
                due.then(|| invocation.handle_timeout(now, stub))
            });
        }
    }

    fn conclude(&mut self, call: usize, generation: u32, attempt: u8, answer: Answer) {
        if self.calls[call].generation == generation {
            self.step(call, |now, invocation, stub| {
                let current = invocation.attempts() == attempt;
                current.then(|| invocation.on_outcome(now, stub, attempt, answer.outcome()))
            });
        }
    }

    /// Lets a call take a step, and does what it says.
    fn step(
        &mut self,
        call: usize,
        step: impl FnOnce(Instant, &mut Invocation, &mut Client) -> Option<Step>,
    ) {
        let now = self.instant();
        let place = &mut self.calls[call];
        let generation = place.generation;
        let Some(running) = &mut place.running else {
            return;
        };
        let client = running.client;
        let stub = &mut self.clients[client as usize];
        let Some(step) = step(now, &mut running.invocation, stub) else {
            return;
        };
        running.parked = matches!(step, Step::Park { .. });
        let wants_view = stub.poll_timeout().is_some_and(|due| due <= now);
        match step {
            Step::Send {
                node,
                attempt,
                deadline,
            } => {
                let wire = self.wire();
                let (node, incarnation) = (node.node.0 as usize - 1, node.incarnation.0);
                self.after(
                    wire,
                    Event::Reach {
                        call,
                        generation,
                        attempt,
                        node,
                        incarnation,
                    },
                );
                self.at(deadline.as_micros(), Event::Timeout { call, generation });
            }
            Step::Park { until } => {
                self.parked[client as usize].push(call);
                self.at(until.as_micros(), Event::Timeout { call, generation });
            }
            Step::Done => self.finish(call, None),
            Step::Fail { error } => self.finish(call, Some(error)),
        }
        if wants_view {
            self.arm(client, self.now);
        }
    }

    fn finish(&mut self, call: usize, error: Option<CallError>) {
        let place = &mut self.calls[call];
        let Some(running) = place.running.take() else {
            return;
        };
        place.generation = place.generation.wrapping_add(1);
        self.free.push(call);
        if let Some(row) = running.row {
            let took = error.is_none().then(|| self.now - running.began);
            let refused = matches!(
                error,
                Some(CallError::BudgetExhausted {
                    limit: Limit::Tokens,
                    ..
                })
            );
            let attempts = running.invocation.attempts();
            self.meter.call(row, took, attempts, refused);
        }
    }

    fn reach(&mut self, job: Job, node: usize, incarnation: u64) {
        match self.servers[node].receive(incarnation, job) {
            Reception::Serves => self.serve(job, node),
            Reception::Queues | Reception::Holds => {}
            Reception::Busy => self.answer(job, Answer::Busy),
            Reception::Breaks => self.answer(job, Answer::Reset),
            Reception::Leaving => self.answer(job, Answer::Leaving),
            Reception::Refused => self.answer(job, Answer::Refused),
        }
    }

    fn serve(&mut self, job: Job, node: usize) {
        let mut takes = SERVICE_LEAST + self.random((SERVICE - SERVICE_LEAST) as f64);
        if self.servers[node].mode == Mode::Slow {
            takes *= SLOWER;
        }
        let Job {
            call,
            generation,
            attempt,
        } = job;
        let epoch = self.servers[node].epoch;
        self.after(
            takes,
            Event::Done {
                call,
                generation,
                attempt,
                node,
                epoch,
            },
        );
    }

    fn answer(&mut self, job: Job, answer: Answer) {
        let Job {
            call,
            generation,
            attempt,
        } = job;
        // Of a call that is over the client is not known, nor who waits for its answer.
        let running = self.calls[call].running.as_ref();
        let Some(client) = running
            .filter(|_| self.calls[call].generation == generation)
            .map(|running| running.client)
        else {
            return;
        };
        let wire = self.wire();
        self.after(
            wire,
            Event::Answer {
                call,
                generation,
                attempt,
                client,
                answer,
            },
        );
    }

    /// Lets a client look whether to ask for a view, then at the latest.
    fn arm(&mut self, client: u32, when: u64) {
        let armed = &mut self.armed[client as usize];
        if when < *armed {
            *armed = when;
            self.at(when, Event::Refresh(client));
        }
    }

    fn refresh(&mut self, client: u32) {
        if self.armed[client as usize] != self.now {
            // Another one was earlier.
            return;
        }
        self.armed[client as usize] = u64::MAX;
        let now = self.instant();
        let stub = &mut self.clients[client as usize];
        let source = stub.poll_view(now);
        let due = stub.poll_timeout();
        let answers = match source {
            None => false,
            Some(Source::Node(node)) => {
                let server = &self.servers[node.node.0 as usize - 1];
                server.life != Life::Down
                    && server.incarnation == node.incarnation.0
                    && !matches!(server.mode, Mode::Hangs | Mode::Breaks)
            }
            // The seed is an address behind which some node always is.
            Some(_) => true,
        };
        if answers {
            let wire = self.wire() + self.wire();
            self.after(wire, Event::View(client));
        }
        if let Some(due) = due {
            self.arm(client, due.as_micros());
        }
    }

    /// A client is told the newest view, unless it has it.
    fn tell(&mut self, client: u32) {
        let now = self.instant();
        let stub = &mut self.clients[client as usize];
        let Some(update) = self.view.newer_than(stub.view().version()) else {
            stub.handle_view_current(now);
            return;
        };
        // It is newer, and there is room.
        let _ = stub.handle_view(now, update);
        for call in core::mem::take(&mut self.parked[client as usize]) {
            let waits = |running: &Running| running.client == client && running.parked;
            if self.calls[call].running.as_ref().is_some_and(waits) {
                self.step(call, |now, invocation, stub| {
                    Some(invocation.handle_timeout(now, stub))
                });
            }
        }
    }
}
