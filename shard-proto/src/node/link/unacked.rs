//! What was not acknowledged when a life of a node ended.

use alloc::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::fragment::Held;
use super::lane::{Chunk, Lane};
use crate::wire::{HEADER_LEN, Header, data};

/// What a life of a node had not acknowledged when it ended: whole messages, in order per lane.
#[derive(Debug, Default)]
pub(crate) struct Unacked {
    lanes: VecDeque<Rest>,
}

/// Of one lane.
#[derive(Debug)]
struct Rest {
    chunks: VecDeque<Chunk>,
    held: Option<Held>,
    sent: u64,
}

/// One message that was not acknowledged, as one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnackedFrame {
    /// Its header.
    pub(crate) header: Header,
    /// Its body.
    pub(crate) body: Bytes,
    /// It, or a part of it, was given to a connection: perhaps delivered. Otherwise certainly not.
    pub(crate) sent: bool,
}

impl Unacked {
    pub(super) fn new(lanes: &mut [Lane]) -> Self {
        let lanes = lanes.iter_mut().map(|lane| {
            let (chunks, held, sent) = lane.send.rest();
            Rest { chunks, held, sent }
        });
        Self {
            lanes: lanes.collect(),
        }
    }
}

impl Iterator for Unacked {
    type Item = UnackedFrame;

    fn next(&mut self) -> Option<UnackedFrame> {
        loop {
            if let Some(frame) = self.lanes.front_mut()?.next() {
                return Some(frame);
            }
            self.lanes.pop_front();
        }
    }
}

impl Rest {
    fn next(&mut self) -> Option<UnackedFrame> {
        while let Some(chunk) = self.chunks.front_mut() {
            if chunk.fragment {
                let whole = self.chunks.pop_front()?.whole;
                if let Some(whole) = whole {
                    return unacked(whole.frame.join(), Some(whole.first < self.sent));
                }
                continue;
            }
            let len = match Header::decode(&chunk.bytes, u32::MAX) {
                Ok(header) if header.frame_len() <= chunk.bytes.len() => header.frame_len(),
                _ => {
                    self.chunks.pop_front();
                    continue;
                }
            };
            let frame = chunk.bytes.split_to(len);
            let sent = frame
                .get(HEADER_LEN..)
                .is_some_and(|body| data::seq(body).is_ok_and(|seq| seq < self.sent));
            return unacked(frame, Some(sent));
        }
        let (frame, first) = self.held.as_mut()?.pop()?;
        unacked(frame, first.map(|first| first < self.sent))
    }
}

fn unacked(mut frame: Bytes, sent: Option<bool>) -> Option<UnackedFrame> {
    let header = Header::decode(&frame, u32::MAX).ok()?;
    frame.advance(HEADER_LEN);
    Some(UnackedFrame {
        header,
        body: frame,
        sent: sent.unwrap_or(false),
    })
}

#[cfg(test)]
impl Unacked {
    /// How many are left.
    pub(crate) fn frames(&self) -> u64 {
        let copy = self.lanes.iter().map(|rest| Rest {
            chunks: rest.chunks.clone(),
            held: rest.held.clone(),
            sent: rest.sent,
        });
        let copy = Self {
            lanes: copy.collect(),
        };
        copy.count() as u64
    }
}
