//! A whole node in statics: leadership, a coordinator and a region that talk to each other through encoded frames.
//!
//! There is no allocator in this program, so it links only if nothing in the core asks for one.
#![no_std]
#![no_main]

use core::panic::PanicInfo;

use shard_proto::{
    EntityTypeId, Incarnation, Instant, NodeId, Session, ShardId, Term,
    allocation::LeastShards,
    coordinator::{Coordinator, CoordinatorCommand, CoordinatorConfig},
    leadership::{Leadership, LeadershipCommand, LeadershipConfig, Ownership, PeerSlot},
    membership::{Member, MemberChange, MemberState, Roles},
    region::{Command, Region, RegionConfig, Route},
    table::{ArrayStorage, CoordinatorArray},
    wire::{Control, Frame, MAX_CONTROL_LEN},
};

type Payload = heapless::Vec<u8, 32>;
type RegionTables = ArrayStorage<Payload, SHARDS, 8, 16>;
type CoordinatorTables = CoordinatorArray<SHARDS, 8>;

const SHARDS: usize = 64;
const ME: NodeId = NodeId(1);
const LIFE: Incarnation = Incarnation(1);
const SENSORS: EntityTypeId = EntityTypeId(1);

static mut REGION: RegionTables = ArrayStorage::new();
static mut COORDINATOR: CoordinatorTables = CoordinatorArray::new();

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // SAFETY: this function is entered once, and nothing else names the statics.
    let (region, coordinator) = unsafe { (&mut *&raw mut REGION, &mut *&raw mut COORDINATOR) };
    if let Some(mut node) = Node::new(region, coordinator) {
        let mut micros = 0_u64;
        loop {
            micros = micros.saturating_add(1000);
            node.turn(Instant::from_micros(micros));
        }
    }
    loop {}
}

struct Node {
    leadership: Leadership<[PeerSlot; 8]>,
    region: Region<Payload, &'static mut RegionTables>,
    coordinator: Coordinator<LeastShards, &'static mut CoordinatorTables>,
    delivered: u32,
}

impl Node {
    fn new(
        region: &'static mut RegionTables,
        coordinator: &'static mut CoordinatorTables,
    ) -> Option<Self> {
        let now = Instant::ZERO;
        let shards = SHARDS as u32;
        let session = Session {
            incarnation: LIFE,
            lapses: 0,
            starts: 0,
        };
        let region_config = RegionConfig::new("sensor")
            .with_shard_count(shards)
            .with_buffer(8)
            .with_buffer_per_shard(4)
            .with_return_window(8);
        let coordinator_config = CoordinatorConfig::new("sensor").with_shard_count(shards);
        let peers = [PeerSlot::EMPTY; 8];
        let mut node = Self {
            leadership: {
                let config = LeadershipConfig::new().with_ownership(Ownership::Trust);
                Leadership::new(now, ME, LIFE, config, peers).ok()?
            },
            region: Region::new(now, ME, session, region_config, region).ok()?,
            coordinator: Coordinator::new(now, coordinator_config, LeastShards::new(), coordinator)
                .ok()?,
            delivered: 0,
        };
        let me = MemberChange::Member(Member {
            node: ME,
            incarnation: LIFE,
            state: MemberState::Up,
            roles: Roles::NONE,
        });
        node.leadership.handle_member(now, me).ok()?;
        node.region.handle_member(now, me).ok()?;
        node.coordinator.handle_member(now, me).ok()?;
        Some(node)
    }

    /// Handles what is due, sends a message, and lets the three talk until none has anything to say.
    fn turn(&mut self, now: Instant) {
        self.leadership.handle_timeout(now);
        self.region.handle_timeout(now);
        self.coordinator.handle_timeout(now);
        let reading = Payload::from_slice(b"21.5 C").unwrap_or_default();
        if let Ok(Route::Local { .. }) = self.region.route(now, ShardId(17), reading) {
            self.delivered = self.delivered.wrapping_add(1);
        }
        // The radio's buffer: at most one frame is on its way.
        let mut frame = [0; 2048];
        loop {
            let sent = self.lead(now, &mut frame).or_else(|| {
                let sent = self.host(now, &mut frame);
                sent.or_else(|| self.coordinate(&mut frame))
            });
            match sent {
                Some(0) => {}
                Some(len) => self.receive(now, frame.get(..len).unwrap_or_default()),
                None => return,
            }
        }
    }

    /// `Some(len)`: there is a frame of that length to send; 0: something was done; `None`: nothing to do.
    fn lead(&mut self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        match self.leadership.poll_command()? {
            LeadershipCommand::Send { term, control, .. } => {
                return Some(put(&control, EntityTypeId::default(), term, frame));
            }
            LeadershipCommand::Adopt(leader) => self.region.handle_leader(now, leader),
            LeadershipCommand::Lease(until) => self.region.handle_lease(now, until),
            LeadershipCommand::Lapsed { lapses } => self.region.handle_lapse(now, lapses),
            LeadershipCommand::Begin { term } => self.coordinator.begin(now, term),
            LeadershipCommand::Act { .. } | LeadershipCommand::Hearing { .. } => {}
            LeadershipCommand::OpenBarrier { .. } => self.coordinator.open_barrier(now),
            LeadershipCommand::End => self.coordinator.end(now),
            LeadershipCommand::NodeLapsed { node, .. } => self.coordinator.handle_lapsed(now, node),
        }
        Some(0)
    }

    fn host(&mut self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        let term = self
            .leadership
            .leader()
            .map_or(Term::NONE, |leader| leader.term);
        match self.region.poll_command()? {
            Command::Send { control, .. } => return Some(put(&control, SENSORS, term, frame)),
            Command::StartShard { shard, epoch } => {
                self.region.handle_shard_started(now, shard, epoch);
            }
            Command::StopShard { shard, epoch, .. } => {
                self.region.handle_shard_stopped(now, shard, epoch, false);
            }
            Command::Deliver { .. } => self.delivered = self.delivered.wrapping_add(1),
            _ => {}
        }
        Some(0)
    }

    fn coordinate(&mut self, frame: &mut [u8]) -> Option<usize> {
        let term = self.coordinator.term().unwrap_or(Term::NONE);
        match self.coordinator.poll_command()? {
            CoordinatorCommand::Send { control, .. } => Some(put(&control, SENSORS, term, frame)),
            _ => Some(0),
        }
    }

    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        let Ok(frame) = Frame::decode_exact(bytes, MAX_CONTROL_LEN) else {
            return;
        };
        let Ok(control) = frame.control() else {
            return;
        };
        let term = frame.header.term();
        // Each ignores, and says so, what is not for it.
        let _ = self.leadership.handle_control(now, ME, term, &control);
        let _ = self.coordinator.handle_control(now, ME, term, &control);
        let _ = self.region.handle_control(now, ME, term, &control);
    }
}

/// Encodes a frame; 0 if it does not fit, which is a frame lost: it is repeated.
fn put(control: &Control<'_>, entity_type: EntityTypeId, term: Term, frame: &mut [u8]) -> usize {
    control.encode(entity_type, term, 1, frame).unwrap_or(0)
}
