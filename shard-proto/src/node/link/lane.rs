//! One lane of a pair: numbers, chunks that wait for acknowledgement, the window.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::fragment::{Frame, Held, Partial};
use super::{DataError, Flow, LinkFault};
use crate::wire::{HEADER_LEN, Header};

/// Frames are gathered in chunks of this size. One larger frame is a chunk of its own.
const CHUNK: usize = 64 << 10;
/// What a frame needs beyond its caller's hint, at most, unless it has a long id.
const OVERHEAD: usize = HEADER_LEN + 44;
/// Fragments, and bytes of them, that may be under way on a lane: what is new waits behind no more than that.
const AHEAD: usize = 4;
const AHEAD_BYTES: usize = AHEAD * (64 << 10);

/// What the writer of a data frame needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameSlot {
    /// The wire version to write.
    pub(crate) version: u8,
    /// The frame's lane.
    pub(crate) lane: u8,
    /// The frame's number.
    pub(crate) seq: u64,
    /// Longest body of a whole message, in bytes. A longer one is refused behind the writer too.
    pub(crate) max_body: u32,
}

/// What both sides of a pair agreed on for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) version: u8,
    /// Longest body of a whole message.
    pub(super) max_body: u32,
    /// Longest body of one frame; what is longer travels in fragments.
    pub(super) fragment: u32,
}

/// How much may be unacknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) bytes: u64,
    pub(super) frames: u64,
    /// Bytes of one longest frame, which come on top: alone it holds nothing else up.
    pub(super) frame: u64,
    /// Of the longest message.
    pub(super) longest: u64,
    /// Bytes of long messages, and of what waits behind them.
    pub(super) held: u64,
}

impl Window {
    #[inline]
    pub(super) const fn times(self, times: u64) -> Self {
        Self {
            bytes: self.bytes.saturating_mul(times),
            frames: self.frames.saturating_mul(times),
            frame: self.frame.saturating_mul(times.div_ceil(4)),
            longest: self.longest,
            held: self
                .bytes
                .saturating_mul(times)
                .saturating_add(self.longest.saturating_mul(2)),
        }
    }

    pub(super) const fn half(self) -> Self {
        Self {
            bytes: self.bytes.div_ceil(2),
            frames: self.frames.div_ceil(2),
            frame: self.frame,
            longest: self.longest,
            held: self.held.div_ceil(2),
        }
    }
}

/// Whole frames in a row, given out or about to be.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    /// Number of its first frame.
    pub(super) first: u64,
    /// Number behind its last one.
    pub(super) next: u64,
    pub(super) bytes: Bytes,
    /// It is one fragment.
    pub(super) fragment: bool,
    /// It is the last one of this message.
    pub(super) whole: Option<Whole>,
}

/// A message that was cut, as one frame; its number means nothing.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) frame: Frame,
    /// Number of its first fragment.
    pub(super) first: u64,
}

impl Chunk {
    /// Drops the frames below `seq`; answers how many bytes they had.
    pub(super) fn trim(&mut self, seq: u64) -> usize {
        let before = self.bytes.len();
        while self.first < seq && self.first < self.next {
            let Some(len) = frame_len(&self.bytes) else {
                break;
            };
            self.bytes.advance(len.min(self.bytes.len()));
            self.first = self.first.saturating_add(1);
        }
        before.saturating_sub(self.bytes.len())
    }
}

/// Length of the frame at the beginning of `bytes`, which this side wrote.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    Header::decode(bytes, u32::MAX)
        .ok()
        .map(|header| header.frame_len())
}

/// Both directions of a lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) send: SendLane,
    pub(super) recv: RecvLane,
}

/// The sending side of a lane.
#[derive(Debug, Default)]
pub(super) struct SendLane {
    /// Frames from `sealed` to `next`, not given out yet.
    tail: BytesMut,
    chunks: VecDeque<Chunk>,
    /// The first of `chunks` that this connection was not given.
    unsent: usize,
    /// The first number that is in the tail.
    sealed: u64,
    /// Number of the next frame.
    next: u64,
    /// The first number that is not acknowledged.
    acked: u64,
    /// The first number that no connection was given.
    sent: u64,
    /// Bytes in the tail and in chunks.
    bytes: usize,
    /// Those of them that are in fragments.
    cut: usize,
    /// Longest body since the lane was last empty.
    longest: usize,
    /// Long messages, and what waits behind them.
    held: Option<Box<Held>>,
}

impl SendLane {
    /// Appends a frame. State is unchanged by an error.
    #[inline]
    pub(super) fn push<E>(
        &mut self,
        lane: u8,
        flow: Flow,
        hint: usize,
        limits: Limits,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        let need = hint.saturating_add(OVERHEAD);
        let start = self.tail.len();
        if start >= CHUNK || self.tail.capacity().saturating_sub(start) < need {
            self.make_room(need, limits.fragment);
        }
        let start = self.tail.len();
        let slot = FrameSlot {
            version: limits.version,
            lane,
            seq: self.next,
            max_body: limits.max_body,
        };
        if let Err(error) = write(&mut self.tail, slot) {
            self.tail.truncate(start);
            return Err(DataError::Write(error));
        }
        let len = self.tail.len().saturating_sub(start);
        let body = len.saturating_sub(HEADER_LEN);
        debug_assert_eq!(
            self.tail.get(start..).and_then(frame_len),
            Some(len),
            "the writer appends exactly one frame"
        );
        self.longest = self.longest.max(body);
        if body > limits.fragment as usize || self.held.is_some() {
            return self.push_long(flow, start, body, limits);
        }
        self.next = self.next.saturating_add(1);
        self.bytes = self.bytes.saturating_add(len);
        Ok(())
    }

    /// What was written behind `start` is long, or may have to wait behind something long.
    #[cold]
    fn push_long<E>(
        &mut self,
        flow: Flow,
        start: usize,
        body: usize,
        limits: Limits,
    ) -> Result<(), DataError<E>> {
        if body > limits.max_body as usize {
            self.tail.truncate(start);
            return Err(DataError::TooLarge {
                size: body,
                limit: limits.max_body as usize,
            });
        }
        let long = body > limits.fragment as usize;
        if !long && !self.held.as_ref().is_some_and(|held| held.holds(flow)) {
            self.next = self.next.saturating_add(1);
            self.bytes = self
                .bytes
                .saturating_add(self.tail.len().saturating_sub(start));
            return Ok(());
        }
        let mut rest = self.tail.split_off(start);
        self.seal();
        let frame = rest.split().freeze();
        self.tail = rest;
        let frame = Frame::new(frame, Bytes::new());
        self.held.get_or_insert_default().push(flow, frame, long);
        Ok(())
    }

    /// Appends a message whose payload is at least a fragment, and stays where it is: `write` appends the rest of its
    /// frame, as if there were no payload. State is unchanged by an error.
    pub(super) fn push_shared<E>(
        &mut self,
        lane: u8,
        flow: Flow,
        payload: Bytes,
        limits: Limits,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        let mut head = BytesMut::new();
        let slot = FrameSlot {
            version: limits.version,
            lane,
            seq: self.next,
            max_body: limits.max_body,
        };
        write(&mut head, slot).map_err(DataError::Write)?;
        let body = head.len().saturating_sub(HEADER_LEN);
        let body = body.saturating_add(payload.len());
        let limit = limits.max_body as usize;
        let too_large = DataError::TooLarge { size: body, limit };
        if body > limit {
            return Err(too_large);
        }
        let (Ok(mut header), Ok(len)) = (Header::decode(&head, u32::MAX), u32::try_from(body))
        else {
            return Err(too_large);
        };
        header.len = len;
        if let Some(place) = head.first_chunk_mut::<HEADER_LEN>() {
            *place = header.to_bytes();
        }
        self.longest = self.longest.max(body);
        // What was written before is given out before.
        self.seal();
        let frame = Frame::new(head.freeze(), payload);
        self.held.get_or_insert_default().push(flow, frame, true);
        Ok(())
    }

    #[cold]
    fn make_room(&mut self, need: usize, fragment: u32) {
        self.seal();
        // Or what is long would wait for as long as what is short fills the connection.
        self.cut(fragment);
        // Takes the old allocation again if nobody holds a part of it any more.
        self.tail.reserve(need.max(CHUNK));
    }

    fn seal(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        self.chunks.push_back(Chunk {
            first: self.sealed,
            next: self.next,
            bytes: self.tail.split().freeze(),
            fragment: false,
            whole: None,
        });
        self.sealed = self.next;
    }

    /// Whether a long message may go on.
    fn may_cut(&self, fragment: u32) -> bool {
        let ahead = AHEAD.saturating_mul(fragment as usize).max(AHEAD_BYTES);
        self.held.is_some() && self.cut < ahead
    }

    /// Makes a chunk of the next fragment, behind everything that has a number; the tail must be sealed. Behind the last
    /// one what waited for it goes on.
    fn cut(&mut self, fragment: u32) {
        if !self.may_cut(fragment) {
            return;
        }
        let Some(held) = &mut self.held else { return };
        let Some(piece) = held.cut(self.next, fragment) else {
            return;
        };
        let len = piece.bytes.len();
        self.next = piece.next;
        self.sealed = piece.next;
        self.bytes = self.bytes.saturating_add(len);
        self.cut = self.cut.saturating_add(len);
        let ended = piece.whole.is_some();
        self.chunks.push_back(piece);
        if !ended {
            return;
        }
        while let Some(frame) = held.next_short() {
            let start = self.tail.len();
            self.tail.extend_from_slice(&frame);
            let number = start.saturating_add(HEADER_LEN);
            if let Some(place) = self.tail.get_mut(number..number.saturating_add(8)) {
                place.copy_from_slice(&self.next.to_le_bytes());
            }
            self.next = self.next.saturating_add(1);
            self.bytes = self.bytes.saturating_add(frame.len());
        }
        if held.turn() {
            self.held = None;
        }
    }

    /// The next chunk for the connection, and how many of its frames were given to an earlier one.
    pub(super) fn poll(&mut self, fragment: u32) -> Option<(Bytes, u64)> {
        if self.unsent >= self.chunks.len() {
            self.seal();
            self.cut(fragment);
        }
        let chunk = self.chunks.get(self.unsent)?;
        self.unsent = self.unsent.saturating_add(1);
        let again = self.sent.min(chunk.next).saturating_sub(chunk.first);
        self.sent = self.sent.max(chunk.next);
        Some((chunk.bytes.clone(), again))
    }

    /// Whether [`SendLane::poll`] has something.
    pub(super) fn has_more(&self, fragment: u32) -> bool {
        !self.tail.is_empty() || self.unsent < self.chunks.len() || self.may_cut(fragment)
    }

    /// Everything below `next` was accepted by the peer.
    pub(super) fn ack(&mut self, next: u64) -> Result<(), LinkFault> {
        if next > self.sent {
            return Err(LinkFault::Ack {
                next,
                sent: self.sent,
            });
        }
        self.acked = self.acked.max(next);
        while let Some(chunk) = self.chunks.front() {
            if chunk.next > self.acked {
                break;
            }
            let len = chunk.bytes.len();
            self.bytes = self.bytes.saturating_sub(len);
            if chunk.fragment {
                self.cut = self.cut.saturating_sub(len);
            }
            self.unsent = self.unsent.saturating_sub(1);
            self.chunks.pop_front();
        }
        if self.is_flushed() {
            self.longest = 0;
        }
        Ok(())
    }

    /// Whether a peer that expects `next` can be served.
    pub(super) const fn check(&self, next: u64, max_body: u32) -> Result<(), LinkFault> {
        if next > self.sent {
            return Err(LinkFault::Ack {
                next,
                sent: self.sent,
            });
        }
        if self.longest > max_body as usize {
            return Err(LinkFault::FrameLimit);
        }
        Ok(())
    }

    /// A new connection stands; its peer expects `next`. An acknowledgement on an earlier connection may be newer.
    pub(super) fn resume(&mut self, next: u64) -> Result<(), LinkFault> {
        self.ack(next)?;
        let acked = self.acked;
        if let Some(chunk) = self.chunks.front_mut() {
            let trimmed = chunk.trim(acked);
            self.bytes = self.bytes.saturating_sub(trimmed);
        }
        self.unsent = 0;
        Ok(())
    }

    /// Whether so much is unacknowledged: at least that many bytes or frames, or more of what is long.
    #[inline]
    pub(super) fn holds(&self, window: Window) -> bool {
        let frames = self.next.saturating_sub(self.acked);
        self.bytes as u64 >= window.bytes.saturating_add(window.frame)
            || frames >= window.frames
            || self.held.as_ref().is_some_and(|held| {
                held.bytes() > window.held || frames.saturating_add(held.frames()) >= window.frames
            })
    }

    /// Whether everything is acknowledged.
    pub(super) const fn is_flushed(&self) -> bool {
        self.acked == self.next && self.held.is_none()
    }

    /// Whether the lane was never used.
    pub(super) const fn is_unused(&self) -> bool {
        self.next == 0 && self.held.is_none()
    }

    /// What is not acknowledged, in order.
    pub(super) fn rest(&mut self) -> (VecDeque<Chunk>, Option<Held>, u64) {
        self.seal();
        let mut chunks = self.chunks.clone();
        if let Some(chunk) = chunks.front_mut() {
            chunk.trim(self.acked);
        }
        (chunks, self.held.as_deref().cloned(), self.sent)
    }
}

/// The receiving side of a lane.
#[derive(Debug, Default)]
pub(super) struct RecvLane {
    /// The next number.
    pub(super) expected: u64,
    /// What the peer was told.
    pub(super) told: u64,
    /// Bytes accepted since.
    pub(super) owed: u64,
    /// The message of which fragments have come.
    pub(super) partial: Option<Box<Partial>>,
}

impl RecvLane {
    /// Whether the peer does not know what was accepted.
    pub(super) const fn owes(&self) -> bool {
        self.told != self.expected
    }
}
