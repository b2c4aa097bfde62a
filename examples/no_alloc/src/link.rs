//! One connection after the other with one node: handshake, numbers, acknowledgements.

use core::time::Duration;

use heapless::Vec;
use shard_proto::wire::control::{Ack, Hello, KeepAlive, Refusal, Welcome};
use shard_proto::wire::{
    Control, DecodeError, HEADER_LEN, Header, Kind, MAX_VERSION, MIN_VERSION, data, negotiate,
};
use shard_proto::{EntityTypeId, Incarnation, Instant, NodeId, Term, hash, membership::Roles};

use crate::window::Window;
use crate::{CONTROL, FRAME, INBOX, LONGEST, MESSAGE, Times};

/// Who this side is, for the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Me<'a> {
    pub(crate) name: &'a str,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) cluster: u64,
    pub(crate) voters: u64,
}

/// One life of another node.
pub(crate) type Life = (NodeId, Incarnation);

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is none, and none is wanted before.
    Down(Instant),
    /// `Hello` was said.
    Greeting,
    /// The other side's `Hello` was good, and said who it is.
    Met(Life),
    Up,
    /// It is to be closed.
    Broken,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side broke the protocol, speaks another, or keeps quiet.
    Fault,
    /// The other side says, or this one noticed, that a life is over: only a newer life of this node can go on.
    Over,
    /// The other side has left.
    Left,
    /// There was no room for what an answer needs. The other side sends again what it has not heard of.
    Overrun,
}

/// What a link has for its node.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A frame is in the buffer.
    Frame(Header),
    /// It stands, with this life of a node.
    Up(Life),
    End(End),
}

#[derive(Debug)]
pub(crate) struct Link {
    phase: Phase,
    /// Whom numbers and window belong to. Outlives connections.
    pub(crate) peer: Option<Life>,
    /// The last life that was given up.
    pub(crate) ended: Option<Life>,
    pub(crate) version: u8,
    pub(crate) window: Window,
    /// Number of the next frame from there.
    expected: u64,
    /// What the other side was told of it.
    told: u64,
    ack_at: Option<Instant>,
    inbox: Vec<u8, INBOX>,
    /// What is left of a frame that does not fit.
    skip: usize,
    /// Control frames to write.
    control: Vec<u8, CONTROL>,
    pub(crate) leaving: bool,
    heard_at: Instant,
    /// When the other side was heard last over a link that stood.
    seen_at: Instant,
    said_at: Instant,
    retry: Duration,
    pub(crate) skipped: u32,
}

impl Link {
    pub(crate) const fn new() -> Self {
        Self {
            phase: Phase::Down(Instant::ZERO),
            peer: None,
            ended: None,
            version: MIN_VERSION,
            window: Window::new(),
            expected: 0,
            told: 0,
            ack_at: None,
            inbox: Vec::new(),
            skip: 0,
            control: Vec::new(),
            leaving: false,
            heard_at: Instant::ZERO,
            seen_at: Instant::ZERO,
            said_at: Instant::ZERO,
            retry: Times::RETRY,
            skipped: 0,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    /// Whether a connection should be there now.
    pub(crate) fn is_wanted(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Down(at) => at <= now,
            Phase::Broken => false,
            _ => true,
        }
    }

    /// Nothing is left to be acknowledged by either side, or to be written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.window.is_empty() && self.told == self.expected && self.control.is_empty()
    }

    pub(crate) fn has_written(&self) -> bool {
        self.control.is_empty()
    }

    /// A connection stands: this side speaks first.
    pub(crate) fn connected(&mut self, now: Instant, me: &Me<'_>) {
        self.inbox.clear();
        self.control.clear();
        self.skip = 0;
        self.phase = Phase::Greeting;
        self.heard_at = now;
        self.say(&Control::Hello(Hello {
            min_version: MIN_VERSION,
            max_version: MAX_VERSION,
            cluster: me.cluster,
            voters: me.voters,
            node: me.node,
            incarnation: me.incarnation,
            name: me.name,
            // Nobody dials this node.
            address: "",
            roles: Roles::NONE,
            lanes: 1,
            max_frame: FRAME,
            max_message: MESSAGE,
            dialer: true,
        }));
    }

    /// The connection is gone, or could not be made.
    pub(crate) fn closed(&mut self, now: Instant) {
        let pause = match self.phase {
            Phase::Down(_) => Duration::ZERO,
            _ => self.retry,
        };
        self.retry = self.retry.saturating_mul(2).min(Times::MAX_RETRY);
        self.phase = Phase::Down(now.after(pause));
        self.ack_at = None;
    }

    /// Gives the connection up. The next one follows at once after an overrun: it carries the acknowledgements.
    pub(crate) fn fail(&mut self, end: End) {
        if end == End::Overrun {
            self.retry = Duration::ZERO;
        }
        self.phase = Phase::Broken;
        self.inbox.clear();
    }

    /// Says something on the link's own behalf.
    pub(crate) fn say(&mut self, control: &Control<'_>) -> bool {
        self.put(EntityTypeId(0), Term::NONE, control)
    }

    /// Appends a control frame, if there is room: control may be lost.
    pub(crate) fn put(&mut self, ty: EntityTypeId, term: Term, control: &Control<'_>) -> bool {
        let mut frame = [0; CONTROL];
        let frame = match control.encode(ty, term, self.version, &mut frame) {
            Ok(len) => frame.get(..len).unwrap_or(&[]),
            Err(_) => return false,
        };
        self.control.extend_from_slice(frame).is_ok()
    }

    /// Fills `out` with whole frames, control first. All of it has to be written, or the connection closed.
    pub(crate) fn transmit<const N: usize>(&mut self, now: Instant, out: &mut Vec<u8, N>) {
        out.clear();
        if matches!(self.phase, Phase::Down(_)) {
            return;
        }
        let due = self.ack_at.is_some_and(|at| at <= now);
        let is_up = self.is_up();
        if is_up
            && self.told != self.expected
            && (due || !self.control.is_empty() || self.window.has_more())
        {
            let next = self.expected;
            if self.say(&Control::Ack(Ack { lane: 0, next })) {
                self.told = next;
                self.ack_at = None;
            }
        }
        if !self.control.is_empty() {
            if out.extend_from_slice(&self.control).is_ok() {
                self.control.clear();
            }
        } else if is_up {
            self.window.take(out, N);
        }
        if !out.is_empty() {
            self.said_at = now;
        }
    }

    /// Takes bytes that came in; answers how many.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> usize {
        let skipped = self.skip.min(bytes.len());
        self.skip = self.skip.saturating_sub(skipped);
        let rest = bytes.get(skipped..).unwrap_or(&[]);
        let room = INBOX.saturating_sub(self.inbox.len());
        let taken = rest.get(..room.min(rest.len())).unwrap_or(&[]);
        let fits = self.inbox.extend_from_slice(taken).is_ok();
        skipped.saturating_add(if fits { taken.len() } else { 0 })
    }

    /// The next frame of the inbox that is not the link's own business, copied to `frame`.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        me: &Me<'_>,
        frame: &mut [u8; INBOX],
    ) -> Option<Heard> {
        loop {
            if matches!(self.phase, Phase::Down(_) | Phase::Broken) {
                self.inbox.clear();
                return None;
            }
            let header = match Header::decode(&self.inbox, FRAME) {
                Ok(header) => header,
                Err(DecodeError::Incomplete { .. }) => return None,
                Err(_) => return Some(Heard::End(End::Fault)),
            };
            let len = header.frame_len();
            if len > INBOX && !self.skip_frame(&header) {
                return Some(Heard::End(End::Fault));
            }
            let (Some(bytes), Some(to)) = (self.inbox.get(..len), frame.get_mut(..len)) else {
                return None;
            };
            to.copy_from_slice(bytes);
            let body = frame.get(HEADER_LEN..len).unwrap_or(&[]);
            let heard = if header.kind.is_data() {
                self.data(now, header, body)
            } else {
                self.control(now, me, header, body)
            };
            self.heard_at = now;
            if self.is_up() {
                self.seen_at = now;
            }
            self.consume(len);
            if heard.is_some() {
                return heard;
            }
        }
    }

    /// A frame that does not fit is skipped if it may be lost: control, once the link is up.
    fn skip_frame(&mut self, header: &Header) -> bool {
        if header.kind.is_data() || !self.is_up() {
            return false;
        }
        self.skipped = self.skipped.saturating_add(1);
        self.skip = header.frame_len().saturating_sub(self.inbox.len());
        self.inbox.clear();
        true
    }

    fn consume(&mut self, len: usize) {
        let rest = self.inbox.len().saturating_sub(len);
        if len <= self.inbox.len() {
            self.inbox.copy_within(len.., 0);
            self.inbox.truncate(rest);
        }
    }

    /// A number that is known is dropped, one that was left out is a fault.
    fn data(&mut self, now: Instant, header: Header, body: &[u8]) -> Option<Heard> {
        let seq = data::seq(body).unwrap_or(u64::MAX);
        let is_odd = header.flags.is_fragment() || header.flags.lane() != 0;
        if !self.is_up() || seq > self.expected || is_odd {
            return Some(Heard::End(End::Fault));
        }
        if seq < self.expected {
            return None;
        }
        self.expected = self.expected.saturating_add(1);
        self.ack_at = self.ack_at.or(Some(now.after(Times::ACK_DELAY)));
        header.kind.is_known().then_some(Heard::Frame(header))
    }

    /// The frame that was just handed out was not handled: it comes again with the next connection.
    pub(crate) fn unread(&mut self) {
        self.expected = self.expected.saturating_sub(1);
    }

    fn control(&mut self, now: Instant, me: &Me<'_>, header: Header, body: &[u8]) -> Option<Heard> {
        if !matches!(
            header.kind,
            Kind::HELLO
                | Kind::WELCOME
                | Kind::REFUSED
                | Kind::ACK
                | Kind::KEEP_ALIVE
                | Kind::GOODBYE
        ) {
            return self.is_up().then_some(Heard::Frame(header));
        }
        let Ok(control) = Control::decode(header.kind, body) else {
            return Some(Heard::End(End::Fault));
        };
        let end = match (self.phase, control) {
            (Phase::Greeting, Control::Hello(hello)) => match self.meet(me, &hello) {
                Ok(()) => return None,
                Err(end) => end,
            },
            (Phase::Met(life), Control::Welcome(welcome)) => {
                return Some(self.settle(now, me, life, &welcome));
            }
            (_, Control::Refused(Refusal::Incarnation { newest })) if newest >= me.incarnation => {
                End::Over
            }
            (Phase::Up, Control::Ack(Ack { lane: 0, next })) if self.window.ack(next).is_ok() => {
                return None;
            }
            (Phase::Up, Control::KeepAlive(_)) => return None,
            (Phase::Up, Control::Goodbye) => End::Left,
            _ => End::Fault,
        };
        Some(Heard::End(end))
    }

    /// The other side says who it is.
    fn meet(&mut self, me: &Me<'_>, hello: &Hello<'_>) -> Result<(), End> {
        let theirs = (hello.min_version, hello.max_version);
        let version = negotiate((MIN_VERSION, MAX_VERSION), theirs).map_err(|_| End::Fault)?;
        let life = (hello.node, hello.incarnation);
        let same = hello.cluster == me.cluster && hello.voters == me.voters;
        let named = hash::node_id(hello.name) == hello.node && hello.node != me.node;
        let older = |known: Life| known.0 == life.0 && known.1 > life.1;
        if !same || !named || hello.lanes == 0 || hello.dialer || self.peer.is_some_and(older) {
            return Err(End::Fault);
        }
        // What was in flight when it was given up is gone: its numbers cannot go on.
        let gave_up = |known: Life| known.0 == life.0 && known.1 >= life.1;
        if self.ended.is_some_and(gave_up) {
            return Err(End::Over);
        }
        self.version = version;
        self.phase = Phase::Met(life);
        Ok(())
    }

    /// The other side says what it has: the connection stands.
    fn settle(&mut self, now: Instant, me: &Me<'_>, life: Life, welcome: &Welcome<'_>) -> Heard {
        let fault = Heard::End(End::Fault);
        let Some(next) = welcome.expected_on(0) else {
            return fault;
        };
        let resumes = self.peer == Some(life);
        let known = if resumes {
            self.window.resume(next).is_ok()
        } else {
            next == 0
        };
        if welcome.incarnation != me.incarnation || welcome.version != self.version || !known {
            return fault;
        }
        let expected = if resumes { self.expected } else { 0 };
        self.say(&Control::Welcome(Welcome {
            version: self.version,
            incarnation: life.1,
            expected: &expected.to_le_bytes(),
        }));
        self.told = expected;
        self.ack_at = None;
        self.retry = Times::RETRY;
        self.said_at = now;
        self.phase = Phase::Up;
        if self.leaving {
            self.say(&Control::KeepAlive(KeepAlive { leaving: true }));
        }
        Heard::Up(life)
    }

    /// Numbers begin anew, with another life. The window was emptied before.
    pub(crate) fn begin(&mut self, life: Option<Life>) {
        self.ended = self.peer.or(self.ended);
        self.peer = life;
        self.window = Window::new();
        self.expected = 0;
        self.told = 0;
    }

    /// What is due. `true`: the other side kept quiet for too long.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        if self.is_up() && now.since(self.said_at) >= Times::KEEP_ALIVE && self.control.is_empty() {
            let leaving = self.leaving;
            self.say(&Control::KeepAlive(KeepAlive { leaving }));
        }
        let is_there = !matches!(self.phase, Phase::Down(_) | Phase::Broken);
        is_there && now.since(self.heard_at) >= Times::SILENCE
    }

    /// When it is.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Down(at) => Some(at),
            Phase::Broken => None,
            Phase::Up => {
                let quiet = self.said_at.after(Times::KEEP_ALIVE);
                shard_proto::earliest(
                    self.ack_at,
                    Some(quiet.min(self.heard_at.after(Times::SILENCE))),
                )
            }
            _ => Some(self.heard_at.after(Times::SILENCE)),
        }
    }

    /// For how long there has been no connection.
    pub(crate) fn down_for(&self, now: Instant) -> Duration {
        if self.is_up() {
            Duration::ZERO
        } else {
            now.since(self.seen_at)
        }
    }

    /// Whether everything fits that an answer to one more frame needs.
    pub(crate) fn has_room(&self) -> bool {
        self.window.has_room(2)
    }
}

const _: () = assert!(LONGEST <= INBOX);
