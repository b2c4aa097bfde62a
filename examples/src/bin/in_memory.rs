//! Two regions and a coordinator without any I/O: prints what goes in and what comes out.
//!
//! Node 1 leads and hosts, node 2 hosts. A shard gets its first home, messages find it from both nodes, then its node
//! leaves and the shard moves, with messages on their way. The network is a queue, time is a number.

use core::time::Duration;
use std::{collections::VecDeque, process::ExitCode};

use examples::{
    cli,
    failure::{Failure, say},
};
use shard_proto::{
    Epoch, Incarnation, Instant, Leader, NodeId, Session, ShardId, Term, Token,
    allocation::LeastShards,
    coordinator::{Coordinator, CoordinatorCommand, CoordinatorConfig},
    membership::{Member, MemberChange, MemberState, Roles},
    region::{Arrival, Command, Region, RegionConfig, Route},
    table::{CoordinatorHeap, HeapStorage},
    wire::{Control, Frame, MAX_CONTROL_FRAME, ReturnReason},
};

/// Prints a line. That nobody reads it is no reason to panic.
macro_rules! line {
    ($($text:tt)*) => {
        if let Err(failure) = say(format_args!("{}\n", format_args!($($text)*))) {
            give_up(&failure);
        }
    };
}

const SHARDS: u32 = 4;
const FIRST: NodeId = NodeId(1);
const SECOND: NodeId = NodeId(2);
const REIGN: Leader = Leader {
    node: FIRST,
    term: Term(1),
};

/// What travels from node to node. Control frames are encoded, as on a wire.
enum Packet {
    ToCoordinator(Vec<u8>),
    ToRegion(Vec<u8>),
    Envelope(ShardId, Epoch, String),
    Return(ShardId, Epoch, ReturnReason, String),
    Flush(ShardId, Epoch, Token),
    Flushed(ShardId, Token),
}

struct World {
    now: Instant,
    coordinator: Coordinator<LeastShards, CoordinatorHeap>,
    regions: [(NodeId, Region<String, HeapStorage<String>>); 2],
    network: VecDeque<(NodeId, NodeId, Packet)>,
    /// Data from node 2 to node 1 is slow to arrive.
    slow: bool,
    delivered: Vec<String>,
}

fn main() -> ExitCode {
    match cli::parse::<cli::InMemory>() {
        Ok(cli::InMemory {}) => {
            show();
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

fn show() {
    let mut world = World::new();

    title("Both nodes are members, node 1 leads, and their regions register");
    for node in [FIRST, SECOND] {
        world.member(node, MemberState::Up);
    }
    world.coordinator.begin(world.now, REIGN.term);
    for (node, region) in &mut world.regions {
        line!(
            "  region {node}       ◄─ leader {}, lease without end",
            FIRST
        );
        region.handle_leader(world.now, Some(REIGN));
        region.handle_lease(world.now, Some(Instant::FAR_FUTURE));
    }
    world.settle();
    // With leases this is when every former owner has either registered or lapsed.
    line!("  coordinator    ◄─ the barrier is over");
    world.coordinator.open_barrier(world.now);
    world.settle();

    title("A first message: the shard gets a home");
    world.route(SECOND, "one");
    world.settle();

    title("The home is known: no question, no queue");
    world.route(SECOND, "two");
    world.settle();
    world.route(FIRST, "three");

    title("The shard's node leaves while a message is on its way");
    world.slow = true;
    world.route(SECOND, "four");
    world.member(FIRST, MemberState::Leaving);
    world.settle();
    world.route(SECOND, "five");

    title("It arrives at last where the shard no longer lives");
    world.slow = false;
    world.settle();
    world.route(FIRST, "six");
    world.settle();

    line!("\nhandled: {}", world.delivered.join(", "));
    assert_eq!(
        world.delivered,
        ["one", "two", "three", "four", "five", "six"]
    );
}

fn give_up(failure: &Failure) -> ! {
    eprintln!("error: {failure}");
    std::process::exit(failure.code().into())
}

fn title(text: &str) {
    line!("\n{text}");
}

impl World {
    fn new() -> Self {
        let now = Instant::ZERO;
        let region = |node: NodeId| {
            let session = Session {
                incarnation: Incarnation(node.0),
                lapses: 0,
                starts: 0,
            };
            let config = RegionConfig::new("greeter")
                .with_shard_count(SHARDS)
                .with_buffer(16);
            let storage = HeapStorage::new(SHARDS, 8, 32);
            let region = Region::new(now, node, session, config, storage);
            (node, region.expect("the settings are valid"))
        };
        let config = CoordinatorConfig::new("greeter").with_shard_count(SHARDS);
        let storage = CoordinatorHeap::new(SHARDS, 8);
        let coordinator = Coordinator::new(now, config, LeastShards::new(), storage);
        Self {
            now,
            coordinator: coordinator.expect("the settings are valid"),
            regions: [region(FIRST), region(SECOND)],
            network: VecDeque::new(),
            slow: false,
            delivered: Vec::new(),
        }
    }

    /// Everybody hears of a change of a member.
    fn member(&mut self, node: NodeId, state: MemberState) {
        line!("  all            ◄─ node {node} is {state:?}");
        let change = MemberChange::Member(Member {
            node,
            incarnation: Incarnation(node.0),
            state,
            roles: Roles::NONE,
        });
        for (_, region) in &mut self.regions {
            region
                .handle_member(self.now, change)
                .expect("there is room for 8");
        }
        let coordinator = self.coordinator.handle_member(self.now, change);
        coordinator.expect("there is room for 8");
    }

    /// A caller on `node` sends a message to an entity of shard 3.
    fn route(&mut self, node: NodeId, message: &str) {
        let now = self.now;
        let shard = ShardId(3);
        let route = self.region(node).route(now, shard, message.to_owned());
        let route = route.expect("there is room for 16");
        line!(
            "  region {node}       ◄─ route {message:?} to shard {shard} = {}",
            name(&route)
        );
        match route {
            Route::Local { payload, .. } => self.deliver(node, payload),
            Route::Remote { to, epoch, payload } => {
                self.send(node, to, Packet::Envelope(shard, epoch, payload));
            }
            Route::Queued => {}
        }
    }

    fn region(&mut self, node: NodeId) -> &mut Region<String, HeapStorage<String>> {
        let [(first, one), (_, two)] = &mut self.regions;
        if *first == node { one } else { two }
    }

    fn send(&mut self, from: NodeId, to: NodeId, packet: Packet) {
        self.network.push_back((from, to, packet));
    }

    fn deliver(&mut self, node: NodeId, message: String) {
        line!("  region {node}          {message:?} is handled here");
        self.delivered.push(message);
    }

    /// Lets everything take place that can, and then timers, for a second.
    fn settle(&mut self) {
        for _ in 0..100 {
            while self.poll() || self.arrive() {}
            self.now = self.now.after(Duration::from_millis(10));
            self.coordinator.handle_timeout(self.now);
            for (_, region) in &mut self.regions {
                region.handle_timeout(self.now);
            }
        }
    }

    /// Carries out one command of each state machine. `false`: there was none.
    fn poll(&mut self) -> bool {
        let mut any = self.poll_coordinator();
        for node in [FIRST, SECOND] {
            any |= self.poll_region(node);
        }
        any
    }

    fn poll_coordinator(&mut self) -> bool {
        let Some(command) = self.coordinator.poll_command() else {
            return false;
        };
        line!("  coordinator    ─► {command:?}");
        if let CoordinatorCommand::Send { to, control } = command {
            let packet = Packet::ToRegion(encode(&control));
            self.send(FIRST, to, packet);
        }
        true
    }

    fn poll_region(&mut self, node: NodeId) -> bool {
        let now = self.now;
        let Some(command) = self.region(node).poll_command() else {
            return false;
        };
        line!("  region {node}       ─► {command:?}");
        let (to, packet) = match command {
            Command::Send { to, control } => (to, Packet::ToCoordinator(encode(&control))),
            Command::Forward {
                to,
                shard,
                epoch,
                payload,
            } => (to, Packet::Envelope(shard, epoch, payload)),
            Command::Return {
                to,
                shard,
                epoch,
                reason,
                payload,
            } => (to, Packet::Return(shard, epoch, reason, payload)),
            Command::Flush {
                to,
                shard,
                epoch,
                token,
            } => (to, Packet::Flush(shard, epoch, token)),
            Command::Flushed { to, shard, token } => (to, Packet::Flushed(shard, token)),
            Command::Deliver { payload, .. } => {
                self.deliver(node, payload);
                return true;
            }
            Command::StartShard { shard, epoch } => {
                self.region(node).handle_shard_started(now, shard, epoch);
                return true;
            }
            Command::StopShard { shard, epoch, .. } => {
                self.region(node)
                    .handle_shard_stopped(now, shard, epoch, false);
                return true;
            }
            Command::Reject { .. }
            | Command::Open { .. }
            | Command::HomeChanged { .. }
            | Command::Registered { .. }
            | Command::Refused { .. } => return true,
        };
        self.send(node, to, packet);
        true
    }

    /// Lets the oldest packet arrive that can. `false`: there is none.
    fn arrive(&mut self) -> bool {
        let now = self.now;
        let slow = self.slow;
        let arrives = |(from, _, packet): &(NodeId, NodeId, Packet)| {
            let control = matches!(packet, Packet::ToCoordinator(_) | Packet::ToRegion(_));
            !slow || control || *from == FIRST
        };
        let oldest = self.network.iter().position(arrives);
        let Some((from, to, packet)) = oldest.and_then(|at| self.network.remove(at)) else {
            return false;
        };
        match packet {
            Packet::ToCoordinator(bytes) => {
                let frame = decode(&bytes);
                let control = frame.control().expect("it was just encoded");
                let taken =
                    self.coordinator
                        .handle_control(now, from, frame.header.term(), &control);
                report("coordinator", taken);
            }
            Packet::ToRegion(bytes) => {
                let frame = decode(&bytes);
                let control = frame.control().expect("it was just encoded");
                let term = frame.header.term();
                let taken = self.region(to).handle_control(now, from, term, &control);
                report("region", taken);
            }
            Packet::Envelope(shard, epoch, message) => {
                line!(
                    "  region {to}       ◄─ envelope {message:?} from node {from}, epoch {epoch}"
                );
                match self
                    .region(to)
                    .handle_envelope(now, from, shard, epoch, message)
                {
                    Arrival::Deliver(message) => self.deliver(to, message),
                    Arrival::Return { reason, payload } => {
                        self.send(to, from, Packet::Return(shard, epoch, reason, payload));
                    }
                    Arrival::Queued => {}
                    Arrival::Refused(message) => {
                        line!("  region {to}       refuses {message:?}")
                    }
                }
            }
            Packet::Return(shard, epoch, reason, message) => {
                line!("  region {to}       ◄─ {message:?} comes back from node {from}");
                let taken = self
                    .region(to)
                    .handle_return(now, from, shard, epoch, reason, message);
                report("region", taken);
            }
            Packet::Flush(shard, epoch, token) => {
                self.region(to).handle_flush(now, from, shard, epoch, token);
            }
            Packet::Flushed(shard, token) => {
                self.region(to).handle_flushed(now, from, shard, token);
            }
        }
        true
    }
}

fn encode(control: &Control<'_>) -> Vec<u8> {
    let mut bytes = vec![0; MAX_CONTROL_FRAME];
    let entity_type = shard_proto::hash::entity_type_id("greeter");
    let len = control.encode(entity_type, REIGN.term, 1, &mut bytes);
    bytes.truncate(len.expect("the buffer is large enough"));
    bytes
}

fn decode(bytes: &[u8]) -> Frame<'_> {
    Frame::decode_exact(bytes, u32::MAX).expect("it was just encoded")
}

fn report<E: core::fmt::Display>(who: &str, taken: Result<(), E>) {
    if let Err(error) = taken {
        line!("  {who}: {error}");
    }
}

fn name(route: &Route<String>) -> String {
    match route {
        Route::Local { epoch, .. } => format!("deliver here, epoch {epoch}"),
        Route::Remote { to, epoch, .. } => format!("send to node {to}, epoch {epoch}"),
        Route::Queued => "wait".to_owned(),
    }
}
