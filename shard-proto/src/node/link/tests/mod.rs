//! Links of several nodes in virtual time, with pipes that break where a test says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod crossing;
mod dialing;
mod drive;
mod faults;
mod fragments;
mod handshake;
mod lanes;
mod large;
mod lives;
mod proof;
mod random;
mod raw;
mod reconnect;
mod speed;
mod window;

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use bytes::BytesMut;

use super::{
    CloseReason, Flow, FrameSlot, Incoming, LinkConfig, LinkEvent, LinkFault, Links, PeerIdentity,
    PeerSlot,
};
use crate::membership::{RemovalCause, Roles};
use crate::node::{Authenticated, DialId, LinkId, StreamIndex};
use crate::wire::control::{Control, Refusal, StatsQuery};
use crate::wire::data::DataHead;
use crate::wire::{Data, EncodeError, Envelope, HEADER_LEN};
use crate::{EntityTypeId, Epoch, Incarnation, Instant, NodeId, ShardId, Term, Token, hash};

pub(super) const TYPE: EntityTypeId = EntityTypeId(7);
/// Of what is sent without a shard.
pub(super) const SHARD: ShardId = ShardId(4);
pub(super) const FLOW: Flow = Flow::shard(TYPE, SHARD);

pub(super) fn config() -> LinkConfig {
    LinkConfig {
        cluster: 1,
        ..LinkConfig::default()
    }
}

/// Whom a transport proved a peer to be.
pub(super) fn proof(name: &str) -> Authenticated {
    Authenticated {
        cluster: 1,
        name: name.to_owned(),
        client: false,
    }
}

pub(super) fn identity(name: &str, incarnation: u64) -> PeerIdentity {
    PeerIdentity {
        node: hash::node_id(name),
        incarnation: Incarnation(incarnation),
        name: name.to_string(),
        address: format!("{name}:1"),
        roles: Roles::NONE,
    }
}

/// What a host heard, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Up(NodeId, Incarnation),
    Down(NodeId, CloseReason),
    Refused(bool, Refusal),
    Leaving(NodeId),
    Ended(NodeId, Incarnation, RemovalCause, Vec<(u64, bool)>),
    Forgotten(NodeId),
    Congested(NodeId, bool),
    Fault(LinkFault),
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) links: Links,
    pub(super) heard: Vec<Heard>,
    /// Payloads of data, by sender.
    pub(super) received: BTreeMap<NodeId, Vec<u64>>,
    /// The same by sender and shard.
    pub(super) by_shard: BTreeMap<(NodeId, u32), Vec<u64>>,
    /// Tokens of control.
    pub(super) control: Vec<u64>,
    /// Every chunk that was given out, by size.
    pub(super) chunks: Vec<usize>,
}

impl Host {
    pub(super) fn new(now: Instant, config: LinkConfig, identity: PeerIdentity) -> Self {
        Self {
            links: Links::new(now, config, identity).unwrap(),
            heard: Vec::new(),
            received: BTreeMap::new(),
            by_shard: BTreeMap::new(),
            control: Vec::new(),
            chunks: Vec::new(),
        }
    }

    pub(super) fn from(&self, node: NodeId) -> Vec<u64> {
        self.received.get(&node).cloned().unwrap_or_default()
    }
}

/// A connection of two hosts: end 0 dialed.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) ends: [(usize, LinkId); 2],
    /// Bytes on their way to end 0 and 1.
    pub(super) flight: [VecDeque<u8>; 2],
    /// What an end has read and not taken.
    pub(super) inbox: [BytesMut; 2],
    /// The same of the lanes' streams, by stream.
    pub(super) lanes: [BTreeMap<u8, (VecDeque<u8>, BytesMut)>; 2],
    /// An end closed it; the other learns of it behind the bytes.
    pub(super) closed: [bool; 2],
    /// Bytes that were ever sent to an end.
    pub(super) total: [usize; 2],
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) hosts: Vec<Host>,
    pub(super) pipes: Vec<Pipe>,
    pub(super) dials: Vec<(usize, DialId, String)>,
    /// Addresses that cannot be reached.
    pub(super) unreachable: Vec<String>,
    /// The transport proves who the peer is.
    pub(super) proves: bool,
    /// Of each connection.
    pub(super) streams: u8,
}

/// Something that can happen next, for tests that choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Connect(usize),
    /// Pipe and end: the next frame arrives there.
    Frame(usize, usize),
    /// The same of a lane's stream.
    Lane(usize, usize, u8),
    /// Pipe and end: it learns that the other end closed.
    Close(usize, usize),
}

impl World {
    pub(super) fn new(names: &[&str]) -> Self {
        Self::with(names, |_, config| config)
    }

    pub(super) fn with(names: &[&str], tune: impl Fn(usize, LinkConfig) -> LinkConfig) -> Self {
        let now = Instant::from_micros(1_000_000);
        let hosts = names
            .iter()
            .enumerate()
            .map(|(index, name)| Host::new(now, tune(index, config()), identity(name, 10)))
            .collect();
        Self {
            now,
            hosts,
            pipes: Vec::new(),
            dials: Vec::new(),
            unreachable: Vec::new(),
            proves: false,
            streams: 1,
        }
    }

    /// Two linked members; host 0 has the lower id.
    pub(super) fn pair() -> Self {
        Self::pair_with(|_, config| config)
    }

    pub(super) fn pair_with(tune: impl Fn(usize, LinkConfig) -> LinkConfig) -> Self {
        let mut world = Self::with(&lower_first("a", "b"), tune);
        world.introduce(0, 1);
        world.run();
        assert!(world.is_up(0, 1) && world.is_up(1, 0));
        world
    }

    pub(super) fn node(&self, host: usize) -> NodeId {
        self.hosts[host].links.me.node
    }

    pub(super) fn slot(&self, host: usize, other: usize) -> Option<PeerSlot> {
        self.hosts[host].links.slot(self.node(other))
    }

    pub(super) fn is_up(&self, host: usize, other: usize) -> bool {
        self.slot(host, other)
            .is_some_and(|slot| self.hosts[host].links.is_up(slot))
    }

    /// Both are members to each other.
    pub(super) fn introduce(&mut self, a: usize, b: usize) {
        for (host, other) in [(a, b), (b, a)] {
            let me = self.hosts[other].links.me.clone();
            self.hosts[host].links.handle_member(
                self.now,
                me.node,
                me.incarnation,
                Some(&me.address),
            );
        }
    }

    pub(super) fn send(&mut self, host: usize, other: usize, number: u64) {
        self.send_sized(host, other, number, 8).unwrap();
    }

    pub(super) fn send_sized(
        &mut self,
        host: usize,
        other: usize,
        number: u64,
        size: usize,
    ) -> Result<(), super::DataError<EncodeError>> {
        self.send_to(host, other, SHARD, number, size)
    }

    /// A message to a shard.
    pub(super) fn send_to(
        &mut self,
        host: usize,
        other: usize,
        shard: ShardId,
        number: u64,
        size: usize,
    ) -> Result<(), super::DataError<EncodeError>> {
        let slot = self.slot(host, other).unwrap();
        let mut payload = vec![number as u8; size.max(8)];
        payload[..8].copy_from_slice(&number.to_le_bytes());
        let flow = Flow::shard(TYPE, shard);
        self.hosts[host]
            .links
            .data(self.now, slot, flow, payload.len(), |out, slot| {
                put_to(out, slot, shard, &payload)
            })
    }

    /// What goes back to where it came from.
    pub(super) fn send_back_sized(
        &mut self,
        host: usize,
        other: usize,
        number: u64,
        size: usize,
    ) -> Result<(), super::DataError<EncodeError>> {
        let slot = self.slot(host, other).unwrap();
        let mut payload = vec![number as u8; size.max(8)];
        payload[..8].copy_from_slice(&number.to_le_bytes());
        self.hosts[host]
            .links
            .data_back(self.now, slot, FLOW, payload.len(), |out, slot| {
                put(out, slot, &payload)
            })
    }

    pub(super) fn control(&mut self, host: usize, other: usize, token: u64) -> bool {
        let query = Control::StatsQuery(StatsQuery {
            token: Token(token),
        });
        let Some(slot) = self.slot(host, other) else {
            return false;
        };
        self.hosts[host]
            .links
            .control(self.now, slot, TYPE, Term(3), &query)
    }

    /// Takes events and bytes out of a host.
    pub(super) fn collect(&mut self, index: usize) {
        loop {
            let host = &mut self.hosts[index];
            if let Some(event) = host.links.poll_event() {
                self.event(index, event);
            } else if let Some(link) = host.links.poll_dirty() {
                self.flush(index, link);
            } else {
                return;
            }
        }
    }

    fn flush(&mut self, index: usize, link: LinkId) {
        while let Some((stream, bytes)) = self.hosts[index].links.poll_transmit(link) {
            self.hosts[index].chunks.push(bytes.len());
            if let Some((pipe, end)) = self.pipe(index, link)
                && !self.pipes[pipe].closed[end]
            {
                let pipe = &mut self.pipes[pipe];
                pipe.total[1 - end] += bytes.len();
                let flight = match stream {
                    StreamIndex::CONTROL => &mut pipe.flight[1 - end],
                    StreamIndex(lane) => &mut pipe.lanes[1 - end].entry(lane).or_default().0,
                };
                flight.extend(bytes.iter());
            }
        }
    }

    fn pipe(&self, host: usize, link: LinkId) -> Option<(usize, usize)> {
        self.pipes
            .iter()
            .enumerate()
            .rev()
            .find_map(|(index, pipe)| {
                let end = pipe.ends.iter().position(|end| *end == (host, link))?;
                Some((index, end))
            })
    }

    fn event(&mut self, index: usize, event: LinkEvent) {
        let heard = match event {
            LinkEvent::Dial { dial, address } => {
                self.dials.push((index, dial, address));
                return;
            }
            LinkEvent::Close { link, .. } => {
                self.flush(index, link);
                if let Some((pipe, end)) = self.pipe(index, link) {
                    self.pipes[pipe].closed[end] = true;
                }
                return;
            }
            LinkEvent::Up { identity, .. } => Heard::Up(identity.node, identity.incarnation),
            LinkEvent::Down { node, reason, .. } => Heard::Down(node, reason),
            LinkEvent::Refused {
                by_peer, refusal, ..
            } => Heard::Refused(by_peer, refusal),
            LinkEvent::Leaving { node, .. } => Heard::Leaving(node),
            LinkEvent::PairEnded {
                node,
                incarnation,
                cause,
                unacked,
                ..
            } => {
                let frames = unacked.frames();
                let unacked: Vec<_> = unacked
                    .map(|frame| (number(&frame.body), frame.sent))
                    .collect();
                assert_eq!(frames, unacked.len() as u64);
                Heard::Ended(node, incarnation, cause, unacked)
            }
            LinkEvent::Forgotten { node, .. } => Heard::Forgotten(node),
            LinkEvent::Congested {
                node, congested, ..
            } => Heard::Congested(node, congested),
        };
        self.hosts[index].heard.push(heard);
    }

    /// Answers a dial.
    pub(super) fn connect(&mut self, dial: usize) {
        let (host, id, address) = self.dials.remove(dial);
        let there = self
            .hosts
            .iter()
            .position(|other| other.links.me.address == address)
            .filter(|_| !self.unreachable.contains(&address));
        let Some(there) = there else {
            self.hosts[host].links.dial_failed(self.now, id);
            return;
        };
        let prove = |host: usize| self.proves.then(|| proof(&self.hosts[host].links.me.name));
        let (here_proof, there_proof) = (prove(there), prove(host));
        let (now, streams) = (self.now, self.streams);
        let here = self.hosts[host].links.dialed(now, id, streams, here_proof);
        let Ok(here) = here else {
            return;
        };
        let links = &mut self.hosts[there].links;
        match links.accepted(now, streams, there_proof) {
            Ok(link) => self.pipes.push(Pipe {
                ends: [(host, here), (there, link)],
                flight: Default::default(),
                inbox: Default::default(),
                lanes: Default::default(),
                closed: [false; 2],
                total: [0; 2],
            }),
            Err(_) => self.hosts[host].links.closed(self.now, here),
        }
    }

    /// Pipes that neither end has closed.
    pub(super) fn open(&self) -> Vec<usize> {
        (0..self.pipes.len())
            .filter(|pipe| self.pipes[*pipe].closed == [false; 2])
            .collect()
    }

    /// The only open pipe.
    pub(super) fn only(&self) -> usize {
        let open = self.open();
        assert_eq!(open.len(), 1, "open pipes {open:?}");
        open[0]
    }
}

/// Names of which the first has the lower node id.
pub(super) fn lower_first<'a>(a: &'a str, b: &'a str) -> [&'a str; 2] {
    if hash::node_id(a) < hash::node_id(b) {
        [a, b]
    } else {
        [b, a]
    }
}

pub(super) fn put(out: &mut BytesMut, slot: FrameSlot, payload: &[u8]) -> Result<(), EncodeError> {
    put_to(out, slot, SHARD, payload)
}

pub(super) fn put_to(
    out: &mut BytesMut,
    slot: FrameSlot,
    shard: ShardId,
    payload: &[u8],
) -> Result<(), EncodeError> {
    let head = DataHead {
        flags: crate::wire::Flags::NONE.on_lane(slot.lane),
        version: slot.version,
        entity_type: TYPE,
        epoch: Epoch::from_bits(9),
        seq: slot.seq,
    };
    let envelope = Data::Envelope(Envelope {
        shard,
        correlation: 0,
        id: b"e",
        payload,
    });
    envelope.encode_into(&head, slot.max_body, out).map(|_| ())
}

fn number(body: &[u8]) -> u64 {
    content(body).1
}

/// Shard, number, and what is behind it.
fn content(body: &[u8]) -> (ShardId, u64, &[u8]) {
    let Ok(Data::Envelope(envelope)) = Data::decode(crate::wire::Kind::ENVELOPE, body) else {
        panic!("unexpected body");
    };
    assert_eq!(envelope.id, b"e");
    let (number, rest) = envelope.payload.split_first_chunk().unwrap();
    (envelope.shard, u64::from_le_bytes(*number), rest)
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn numbers(n: u64) -> Vec<u64> {
    (0..n).collect()
}
