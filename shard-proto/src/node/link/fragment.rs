//! Messages that are longer than one frame: what waits to be cut, and what is put together again.

use alloc::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::LinkFault;
use super::lane::{Chunk, Whole};
use crate::wire::{Data, Flags, HEADER_LEN, Header};
use crate::{EntityTypeId, ShardId};

/// Bytes of a number.
const SEQ: usize = 8;
/// How many times as long a message that comes may get before it is moved.
const GROWTH: usize = 16;
/// Where in a frame that begins what fragments carry.
const BODY: usize = HEADER_LEN + SEQ;

/// What keeps order among itself: the data of one shard of one type, which travels on one lane. A reply is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flow {
    entity_type: EntityTypeId,
    key: u64,
}

impl Flow {
    /// Of data about a shard.
    #[inline]
    pub(crate) const fn shard(entity_type: EntityTypeId, shard: ShardId) -> Self {
        Self {
            entity_type,
            key: shard.0 as u64,
        }
    }

    /// Of a reply.
    #[inline]
    pub(crate) const fn reply(correlation: u64) -> Self {
        Self {
            entity_type: EntityTypeId(0),
            key: correlation,
        }
    }

    /// Of a frame of this side.
    pub(super) fn of(header: &Header, body: &[u8]) -> Option<Self> {
        Some(Self {
            entity_type: header.entity_type,
            key: Data::decode(header.kind, body).ok()?.key(),
        })
    }

    /// On which of so many lanes it travels.
    #[inline]
    pub(crate) fn lane(self, lanes: usize) -> u8 {
        if lanes == 1 {
            return 0;
        }
        let lane = self.key.checked_rem(lanes as u64).unwrap_or(0);
        u8::try_from(lane).unwrap_or(0)
    }
}

/// A whole frame: what was written for it, and behind that what is the caller's and was not copied.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    head: Bytes,
    shared: Bytes,
}

impl Frame {
    /// `head` has at least header and number.
    pub(super) const fn new(head: Bytes, shared: Bytes) -> Self {
        Self { head, shared }
    }

    fn len(&self) -> usize {
        self.head.len().saturating_add(self.shared.len())
    }

    /// Appends the bytes from `from` to `until`, as far as there are any.
    fn copy(&self, from: usize, until: usize, out: &mut BytesMut) {
        let head = self.head.len();
        let part = |bytes: &Bytes, from: usize, until: usize, out: &mut BytesMut| {
            let until = until.min(bytes.len());
            out.extend_from_slice(bytes.get(from..until).unwrap_or_default());
        };
        part(&self.head, from, until, out);
        part(
            &self.shared,
            from.saturating_sub(head),
            until.saturating_sub(head),
            out,
        );
    }

    /// In one piece.
    pub(super) fn join(self) -> Bytes {
        if self.shared.is_empty() {
            return self.head;
        }
        let mut out = BytesMut::with_capacity(self.len());
        self.copy(0, self.len(), &mut out);
        out.freeze()
    }
}

/// A whole frame that has no number yet.
#[derive(Clone, Debug)]
struct Waiting {
    frame: Frame,
    long: bool,
}

/// Of one lane: long messages, and what waits behind them in their flows.
///
/// A flow with a long message is in line; the message of the first is being cut. Its next long one waits behind those
/// of the other flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// The first of each is long.
    flows: BTreeMap<Flow, VecDeque<Waiting>>,
    line: VecDeque<Flow>,
    /// How much of the first one was cut, header and number included, and the number of its first fragment.
    cut: Option<(usize, u64)>,
    bytes: u64,
    frames: u64,
}

impl Held {
    /// Whether something new of a flow must wait.
    pub(super) fn holds(&self, flow: Flow) -> bool {
        self.flows.contains_key(&flow)
    }

    /// Bytes that have no number.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages that have no number, or not all of them.
    pub(super) const fn frames(&self) -> u64 {
        self.frames
    }

    /// A frame that is long, or whose flow waits.
    pub(super) fn push(&mut self, flow: Flow, frame: Frame, long: bool) {
        self.bytes = self.bytes.saturating_add(frame.len() as u64);
        self.frames = self.frames.saturating_add(1);
        let queue = self.flows.entry(flow).or_default();
        if queue.is_empty() {
            self.line.push_back(flow);
        }
        queue.push_back(Waiting { frame, long });
    }

    /// The next fragment, with a body of at most `size` bytes. Behind the last one call [`Held::next_short`] until
    /// `None`, then [`Held::turn`].
    pub(super) fn cut(&mut self, seq: u64, size: u32) -> Option<Chunk> {
        let flow = self.line.front()?;
        let queue = self.flows.get_mut(flow)?;
        let frame = &queue.front()?.frame;
        let mut header = Header::decode(&frame.head, u32::MAX).ok()?;
        let (from, first) = self.cut.unwrap_or((BODY, seq));
        let most = (size as usize).saturating_sub(SEQ).max(1);
        let until = from.saturating_add(most).min(frame.len());
        let part = until.saturating_sub(from);
        let last = until == frame.len();
        header.flags = header
            .flags
            .with(if last { Flags::LAST } else { Flags::MORE });
        header.len = u32::try_from(part.saturating_add(SEQ)).ok()?;
        let mut bytes = BytesMut::with_capacity(header.frame_len());
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(&seq.to_le_bytes());
        frame.copy(from, until, &mut bytes);
        self.bytes = self.bytes.saturating_sub(part as u64);
        let whole = if last {
            self.cut = None;
            self.frames = self.frames.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(BODY as u64);
            let frame = queue.pop_front()?.frame;
            Some(Whole { frame, first })
        } else {
            self.cut = Some((until, first));
            None
        };
        Some(Chunk {
            first: seq,
            next: seq.saturating_add(1),
            bytes: bytes.freeze(),
            fragment: true,
            whole,
        })
    }

    /// What waited behind the message that was just cut, and needs to wait no more.
    pub(super) fn next_short(&mut self) -> Option<Bytes> {
        let queue = self.flows.get_mut(self.line.front()?)?;
        if queue.front()?.long {
            return None;
        }
        let waiting = queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(waiting.frame.len() as u64);
        self.frames = self.frames.saturating_sub(1);
        Some(waiting.frame.join())
    }

    /// The next flow's turn. Whether there is none.
    pub(super) fn turn(&mut self) -> bool {
        if let Some(flow) = self.line.pop_front() {
            if self.flows.get(&flow).is_some_and(|queue| !queue.is_empty()) {
                self.line.push_back(flow);
            } else {
                self.flows.remove(&flow);
            }
        }
        self.line.is_empty()
    }

    /// What is left, whole: the message that is being cut first. With it the number of its first fragment.
    pub(super) fn pop(&mut self) -> Option<(Bytes, Option<u64>)> {
        let first = self.cut.take().map(|(_, first)| first);
        loop {
            let queue = self.flows.get_mut(self.line.front()?)?;
            if let Some(waiting) = queue.pop_front() {
                return Some((waiting.frame.join(), first));
            }
            self.turn();
        }
    }
}

/// A message of which fragments have come. It grows with what comes.
#[derive(Debug)]
pub(super) struct Partial {
    /// Of the whole, but for its length.
    header: Header,
    /// The body so far; its number is that of the first fragment.
    body: BytesMut,
}

impl Partial {
    /// Whether a fragment fits behind what has come: nothing is changed. `max_body`: of the whole.
    pub(super) fn check(
        partial: Option<&Self>,
        header: &Header,
        max_body: u32,
    ) -> Result<(), LinkFault> {
        let Some(partial) = partial else {
            // A message in one piece is no fragment.
            let begins = header.flags.contains(Flags::MORE);
            return if begins {
                Ok(())
            } else {
                Err(LinkFault::Fragment)
            };
        };
        if whole(header, 0) != partial.header {
            return Err(LinkFault::Fragment);
        }
        let part = (header.len as usize).saturating_sub(SEQ);
        let size = partial.body.len().saturating_add(part);
        if size > max_body as usize {
            return Err(LinkFault::Message {
                size,
                limit: max_body,
            });
        }
        Ok(())
    }

    /// The first fragment, of which `body` is the whole body.
    pub(super) fn new(header: &Header, body: &[u8]) -> Self {
        Self {
            header: whole(header, 0),
            body: BytesMut::from(body),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.body.len()
    }

    /// The next one. `max_body` as of [`Partial::check`].
    pub(super) fn push(&mut self, body: &[u8], max_body: u32) {
        let part = body.get(SEQ..).unwrap_or_default();
        let len = self.body.len();
        if self.body.capacity().saturating_sub(len) < part.len() {
            // What came is not moved often, nor much of it; and memory that nothing is written to costs nothing.
            let room = len.saturating_mul(GROWTH).min(max_body as usize);
            self.body.reserve(room.saturating_sub(len).max(part.len()));
        }
        self.body.extend_from_slice(part);
    }

    /// The whole message, as if it had come in one frame.
    pub(super) fn finish(self) -> (Header, Bytes) {
        let len = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        (whole(&self.header, len), self.body.freeze())
    }
}

/// The header of the whole.
const fn whole(header: &Header, len: u32) -> Header {
    Header {
        flags: header.flags.of_whole(),
        len,
        ..*header
    }
}
