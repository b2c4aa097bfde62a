//! Links, and peers that say anything in any order: who is let in, and what of theirs.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::BytesMut;

use super::feed::Feed;
use crate::membership::{RemovalCause, Roles};
use crate::node::link::{Incoming, LinkConfig, LinkEvent, Links, PeerIdentity};
use crate::node::{Authenticated, DialId, LinkId, StreamIndex};
use crate::wire::control::{Ack, Hello, KeepAlive, Refusal, Welcome};
use crate::wire::data::DataHead;
use crate::wire::{
    Control, Data, Decoded, Envelope, Flags, Frame, HEADER_LEN, MAX_VERSION, MIN_VERSION,
};
use crate::{EntityTypeId, Epoch, Incarnation, Instant, NodeId, ShardId, Term, hash};

const CLUSTER: u64 = 1;
const VOTERS: u64 = 77;
const ME: &str = "me";
const NAMES: [&str; 4] = ["a", "b", "c", ME];
const MAX_LINKS: u16 = 6;
const MAX_PEERS: u16 = 3;
/// Of the longest body, so that much arrives.
const MAX_FRAME: u32 = 64 * 1024;
/// Of a whole message, so that fragments soon are too long.
const MAX_MESSAGE: u32 = 1024;
const LANES: u8 = 3;

/// A connection as its other end sees it.
struct Pipe {
    link: LinkId,
    authenticated: Option<Authenticated>,
    /// 1, or one for control and one for each lane.
    streams: u8,
    /// What arrived and was not read, by stream; and by this model, on the first.
    inbox: [BytesMut; 1 + LANES as usize],
    unread: Vec<u8>,
    /// The last whole `Hello` that arrived.
    hello: Option<Greeting>,
    /// Data numbers that were said, per lane.
    next: [u64; LANES as usize],
}

/// What of a `Hello` decides.
#[derive(Clone, Debug)]
struct Greeting {
    good: bool,
    node: NodeId,
    incarnation: Incarnation,
}

struct World {
    now: Instant,
    links: Links,
    pipes: Vec<Pipe>,
    dials: Vec<DialId>,
    /// The newest life of a node that was let in, and the newest that is over.
    newest: BTreeMap<NodeId, Incarnation>,
    ended: BTreeMap<NodeId, Incarnation>,
}

/// A node's links, with peers that greet rightly and wrongly, break off, come back, and send anything.
///
/// No link comes up without a `Hello` of this cluster, its voters, a common version and the name that the transport
/// proved; no life comes up that is over or older than another; numbers of data have no gap; tables stay within their
/// limits, deadlines and events come to an end.
pub fn handshake(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    let config = LinkConfig {
        cluster: CLUSTER,
        voters: VOTERS,
        max_frame: MAX_FRAME,
        max_message: MAX_MESSAGE,
        lanes: LANES,
        window_bytes: MAX_FRAME,
        max_peers: MAX_PEERS,
        max_links: MAX_LINKS,
        max_links_per_peer: 2,
        max_handshakes: 4,
        ..LinkConfig::default()
    };
    let me = PeerIdentity {
        node: hash::node_id(ME),
        incarnation: Incarnation(10),
        name: ME.to_string(),
        address: "me:1".to_string(),
        roles: Roles::NONE,
    };
    let now = Instant::from_micros(1_000_000);
    let mut world = World {
        now,
        links: Links::new(now, config, me).expect("the settings are good"),
        pipes: Vec::new(),
        dials: Vec::new(),
        newest: BTreeMap::new(),
        ended: BTreeMap::new(),
    };
    while !feed.is_empty() {
        world.step(&mut feed);
        world.settle(None);
    }
    world.links.goodbye(world.now);
    world.settle(None);
    for _ in 0..100 {
        world.pass(Duration::from_secs(5));
    }
    assert_eq!(
        world
            .links
            .peers()
            .filter(|peer| world.links.is_up(*peer))
            .count(),
        0
    );
}

impl Pipe {
    /// The next number of a lane.
    fn said(&mut self, lane: u8) -> u64 {
        let Some(next) = self.next.get_mut(usize::from(lane)) else {
            return 0;
        };
        *next += 1;
        *next - 1
    }
}

impl World {
    fn step(&mut self, feed: &mut Feed<'_>) {
        match feed.below(16) {
            0 | 1 => {
                let authenticated = self.proof(feed);
                let streams = feed.pick(&[1, 1 + LANES]);
                if let Ok(link) = self
                    .links
                    .accepted(self.now, streams, authenticated.clone())
                {
                    self.add(link, streams, authenticated);
                }
            }
            2 => {
                let authenticated = self.proof(feed);
                let streams = feed.pick(&[1, 1 + LANES]);
                if let Some(dial) = self.dials.pop()
                    && let Ok(link) =
                        self.links
                            .dialed(self.now, dial, streams, authenticated.clone())
                {
                    self.add(link, streams, authenticated);
                }
            }
            3 => {
                if let Some(dial) = self.dials.pop() {
                    self.links.dial_failed(self.now, dial);
                }
            }
            4 => self
                .links
                .add_seed(self.now, feed.pick(&["x:1", "y:1", "me:1"])),
            5 => {
                let (node, life) = (hash::node_id(feed.pick(&NAMES)), self.life(feed));
                let address = feed.pick(&[None, Some("z:1")]);
                if self
                    .links
                    .handle_member(self.now, node, life, address)
                    .is_some()
                {
                    self.live(node, life);
                }
            }
            6 => {
                let (node, life) = (hash::node_id(feed.pick(&NAMES)), self.life(feed));
                let cause = feed.pick(&[RemovalCause::Down, RemovalCause::Left]);
                self.links.handle_removed(self.now, node, life, cause);
                if node != hash::node_id(ME) {
                    self.end(node, life);
                }
            }
            7 => {
                if let Some(at) = self.choose(feed) {
                    let pipe = self.pipes.remove(at);
                    self.links.closed(self.now, pipe.link);
                }
            }
            8 => self.pass(Duration::from_millis(feed.number() % 7_000)),
            9 => {
                let peers: Vec<_> = self.links.peers().collect();
                if !peers.is_empty() {
                    let ack = Control::Swim(b"packet");
                    let to = feed.pick(&peers);
                    self.links
                        .control(self.now, to, EntityTypeId(0), Term::NONE, &ack);
                }
            }
            _ => {
                if let Some(at) = self.choose(feed) {
                    self.say(at, feed);
                }
            }
        }
    }

    fn add(&mut self, link: LinkId, streams: u8, authenticated: Option<Authenticated>) {
        assert!(
            self.pipes.len() < usize::from(MAX_LINKS),
            "more links than the limit"
        );
        self.pipes.push(Pipe {
            link,
            authenticated,
            streams,
            inbox: Default::default(),
            unread: Vec::new(),
            hello: None,
            next: [0; LANES as usize],
        });
    }

    fn proof(&self, feed: &mut Feed<'_>) -> Option<Authenticated> {
        match feed.below(6) {
            at @ 0..4 => Some(Authenticated {
                cluster: CLUSTER,
                name: NAMES[at as usize].to_owned(),
                client: false,
            }),
            _ => None,
        }
    }

    fn life(&self, feed: &mut Feed<'_>) -> Incarnation {
        Incarnation(10 + u64::from(feed.below(4)))
    }

    fn choose(&self, feed: &mut Feed<'_>) -> Option<usize> {
        let choice = usize::from(feed.byte());
        (!self.pipes.is_empty()).then(|| choice % self.pipes.len())
    }

    /// Something arrives on a connection.
    fn say(&mut self, at: usize, feed: &mut Feed<'_>) {
        let mut frame = vec![0; 4096];
        let mut stream = 0;
        let control = |control: &Control<'_>, out: &mut [u8]| {
            control
                .encode(EntityTypeId(0), Term::NONE, 1, out)
                .unwrap_or(0)
        };
        let len = match feed.below(10) {
            0..=3 => {
                // Mostly right, so that wrong fields come alone.
                let wrong = feed.byte();
                let off = |bit: u32| u64::from(wrong >> bit & 1 & (wrong >> 7));
                let name = feed.pick(&NAMES);
                let (min, max) = if off(0) == 0 {
                    (MIN_VERSION, MAX_VERSION)
                } else {
                    (feed.byte(), feed.byte())
                };
                let hello = Hello {
                    min_version: min,
                    max_version: max,
                    cluster: CLUSTER + off(1),
                    voters: VOTERS * (1 - off(2)),
                    node: NodeId(hash::node_id(name).0 ^ off(3)),
                    incarnation: self.life(feed),
                    name,
                    address: "there:1",
                    roles: Roles::NONE,
                    lanes: if off(4) == 0 {
                        LANES
                    } else {
                        feed.below(5) as u8
                    },
                    max_message: if off(6) == 0 {
                        MAX_MESSAGE
                    } else {
                        feed.number() as u32
                    },
                    max_frame: if off(5) == 0 {
                        MAX_FRAME
                    } else {
                        feed.number() as u32
                    },
                    dialer: feed.flag(),
                };
                control(&Control::Hello(hello), &mut frame)
            }
            4 | 5 => {
                let expected = if feed.flag() { 0 } else { feed.number() };
                let welcome = Welcome {
                    version: if feed.byte() < 250 { 1 } else { 2 },
                    incarnation: Incarnation(if feed.byte() < 250 { 10 } else { 11 }),
                    expected: &[0, expected, 0, 0].map(u64::to_le_bytes).concat()
                        [8 * feed.below(2) as usize..],
                };
                control(&Control::Welcome(welcome), &mut frame)
            }
            6 => {
                let data = Data::Envelope(Envelope {
                    shard: ShardId(1),
                    correlation: 0,
                    id: b"e",
                    payload: feed.bytes(255),
                });
                let lane = feed.below(4) as u8;
                if self.pipes[at].streams > 1 {
                    stream = usize::from(lane.min(LANES - 1)) + 1;
                }
                let flags = feed.pick(&[Flags::NONE, Flags::NONE, Flags::MORE, Flags::LAST]);
                let head = DataHead {
                    flags: flags.on_lane(lane),
                    version: 1,
                    entity_type: EntityTypeId(7),
                    epoch: Epoch::NONE,
                    seq: if feed.byte() < 200 {
                        self.pipes[at].said(lane)
                    } else {
                        feed.number()
                    },
                };
                data.encode(&head, MAX_FRAME, &mut frame).unwrap_or(0)
            }
            7 => {
                let one = match feed.below(5) {
                    0 => Control::Ack(Ack {
                        lane: feed.below(4) as u8,
                        next: feed.number(),
                    }),
                    1 => Control::Goodbye,
                    2 => Control::Refused(feed.pick(&[
                        Refusal::Duplicate,
                        Refusal::Cluster,
                        Refusal::Myself,
                        Refusal::Incarnation {
                            newest: Incarnation(12),
                        },
                    ])),
                    3 => Control::KeepAlive(KeepAlive {
                        leaving: feed.flag(),
                    }),
                    _ => Control::Resign,
                };
                control(&one, &mut frame)
            }
            _ => {
                stream = usize::from(feed.byte() % self.pipes[at].streams);
                let raw = feed.bytes(255);
                frame[..raw.len()].copy_from_slice(raw);
                raw.len()
            }
        };
        let cut = if feed.byte() < 240 { len } else { len / 2 };
        self.arrive(at, stream, &frame[..cut]);
    }

    fn arrive(&mut self, at: usize, stream: usize, bytes: &[u8]) {
        let pipe = &mut self.pipes[at];
        let link = pipe.link;
        pipe.inbox[stream].extend_from_slice(bytes);
        if stream == 0 {
            pipe.unread.extend_from_slice(bytes);
        }
        // What the link will read.
        while let Ok(Decoded::Frame(frame)) = Frame::decode(&pipe.unread, MAX_FRAME) {
            if let Ok(Control::Hello(hello)) = frame.control() {
                pipe.hello = Some(judge(&hello, pipe.authenticated.as_ref()));
            }
            let len = frame.encoded_len();
            pipe.unread.drain(..len);
        }
        let others = 1..usize::from(pipe.streams);
        let mut closed = self.read(at, link, stream);
        // What came before the end of the handshake.
        for other in others.filter(|_| stream == 0) {
            closed = closed || self.read(at, link, other);
        }
        self.settle(Some(link));
        if closed {
            self.pipes.retain(|pipe| pipe.link != link);
        }
    }

    /// Whether the link failed.
    fn read(&mut self, at: usize, link: LinkId, stream: usize) -> bool {
        let mut inbox = core::mem::take(&mut self.pipes[at].inbox[stream]);
        let mut closed = false;
        let from = StreamIndex(stream as u8);
        for _ in 0..10_000 {
            let before = inbox.len();
            match self.links.read(self.now, link, from, &mut inbox) {
                Ok(Some(Incoming::Data {
                    header, body, node, ..
                })) => {
                    let pipe = &self.pipes[at];
                    let hello = pipe.hello.as_ref().expect("data before a greeting");
                    assert_eq!(hello.node, node);
                    assert!(!header.flags.is_fragment());
                    let limit = if header.len < 256 {
                        256
                    } else {
                        MAX_MESSAGE + 64
                    };
                    assert!(body.len() == header.len as usize && header.len <= limit);
                    assert!(inbox.len() < before);
                }
                Ok(Some(Incoming::Control { node, header, .. })) => {
                    let hello = self.pipes[at]
                        .hello
                        .as_ref()
                        .expect("control before a greeting");
                    assert_eq!(hello.node, node);
                    assert!(header.kind.is_known());
                    assert!(inbox.len() < before);
                }
                Ok(None) => break,
                Err(fault) => {
                    let _ = fault.to_string();
                    assert!(inbox.is_empty());
                    closed = true;
                    break;
                }
            }
        }
        // On a lane's stream anything can wait for the handshake; whoever reads it bounds that.
        let is_up = self.links.peers().any(|peer| self.links.is_up(peer));
        assert!(!is_up || stream > 0 || inbox.len() < HEADER_LEN + MAX_FRAME as usize);
        self.pipes[at].inbox[stream] = inbox;
        closed
    }

    /// Takes events and bytes. `source`: where something arrived.
    fn settle(&mut self, source: Option<LinkId>) {
        let mut events = 0;
        while let Some(event) = self.links.poll_event() {
            events += 1;
            assert!(events < 1_000, "events never end");
            match event {
                LinkEvent::Dial { dial, .. } => self.dials.push(dial),
                LinkEvent::Close { link, .. } => {
                    self.write(link);
                    self.pipes.retain(|pipe| pipe.link != link);
                }
                LinkEvent::Up { identity, .. } => {
                    let link = source.expect("a link came up by itself");
                    let pipe = self.pipes.iter().find(|pipe| pipe.link == link);
                    let hello = pipe.and_then(|pipe| pipe.hello.clone());
                    let hello = hello.expect("a link came up without a greeting");
                    assert!(hello.good, "{identity:?} was let in: {hello:?}");
                    assert_eq!(
                        (identity.node, identity.incarnation),
                        (hello.node, hello.incarnation)
                    );
                    assert_eq!(hash::node_id(&identity.name), identity.node);
                    self.live(identity.node, identity.incarnation);
                }
                LinkEvent::PairEnded {
                    node,
                    incarnation,
                    cause,
                    unacked,
                    ..
                } => {
                    assert!(unacked.count() < 10_000);
                    if cause != RemovalCause::Replaced {
                        self.end(node, incarnation);
                    }
                }
                LinkEvent::Forgotten { node, .. } => {
                    assert_ne!(node, hash::node_id(ME));
                    // Nothing of a stranger that sent nothing is kept.
                    self.newest.remove(&node);
                }
                _ => {}
            }
        }
        let mut writes = 0;
        while let Some(link) = self.links.poll_dirty() {
            writes += 1;
            assert!(writes < 1_000, "links never stop transmitting");
            self.write(link);
        }
        assert!(self.links.peers().count() <= usize::from(MAX_PEERS));
    }

    /// What a link says is frames.
    fn write(&mut self, link: LinkId) {
        let mut written = Vec::new();
        while let Some((_, bytes)) = self.links.poll_transmit(link) {
            assert!(!bytes.is_empty(), "an empty write");
            written.extend_from_slice(&bytes);
            assert!(written.len() < 1 << 24, "a link never stops transmitting");
        }
        let mut rest = &written[..];
        while !rest.is_empty() {
            let Ok(Decoded::Frame(frame)) = Frame::decode(rest, MAX_FRAME) else {
                panic!("no frame was sent");
            };
            if !frame.header.kind.is_data() {
                frame.control().expect("a body that decodes");
            }
            rest = &rest[frame.encoded_len()..];
        }
    }

    fn live(&mut self, node: NodeId, life: Incarnation) {
        assert_ne!(node, hash::node_id(ME), "linked with itself");
        let ended = self.ended.get(&node).copied().unwrap_or_default();
        assert!(life > ended, "a life that is over came back");
        let newest = self.newest.entry(node).or_default();
        assert!(life >= *newest, "an older life came back");
        *newest = life;
    }

    fn end(&mut self, node: NodeId, life: Incarnation) {
        let ended = self.ended.entry(node).or_default();
        *ended = life.max(*ended);
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        for _ in 0..100 {
            self.links.handle_timeout(self.now);
            self.settle(None);
            if self.links.poll_timeout().is_none_or(|at| at > self.now) {
                return;
            }
        }
        panic!("a deadline stays due");
    }
}

/// Whether a node may be let in that says so.
fn judge(hello: &Hello<'_>, authenticated: Option<&Authenticated>) -> Greeting {
    let named = hash::node_id(hello.name);
    let common = hello.min_version <= MAX_VERSION && hello.max_version >= MIN_VERSION;
    Greeting {
        good: common
            && hello.cluster == CLUSTER
            && hello.voters == VOTERS
            && hello.node == named
            && authenticated.is_none_or(|proven| proven.name == hello.name)
            && hello.node != hash::node_id(ME)
            && hello.lanes > 0,
        node: hello.node,
        incarnation: hello.incarnation,
    }
}
