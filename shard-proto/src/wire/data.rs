//! Data frames: never dropped while both incarnations live; numbered per link and lane; no serde.
//!
//! Bodies are little-endian and have no gaps. Each begins with the sequence number that the link gave it on its lane,
//! also one whose kind the receiver does not know.
//!
//! | body | fields |
//! |---|---|
//! | Envelope | seq `u64`, shard `u32`, correlation `u64`, id length `u16`, id, payload |
//! | Return | seq `u64`, shard `u32`, correlation `u64`, reason `u8` (0 moved, 1 full), id length `u16`, id, payload |
//! | Flush, Flushed | seq `u64`, shard `u32`, token `u64` |
//! | Reply | seq `u64`, correlation `u64`, status `u8`, payload |
//!
//! A payload ends with the body. The header's epoch is 0 on Flushed and Reply. With [`Flags::TRACKED`] the payload of an
//! Envelope or a Return begins with sender `u64`, number `u64`, lowest unacknowledged number `u64`; the answer to it is
//! the number that the entity takes next.
//!
//! The second byte of the header's flags is the lane. A message that is too long for one frame travels as *fragments*: data
//! frames of its kind, type, epoch and flags, with [`Flags::MORE`], the last one with [`Flags::LAST`]; their bodies are a
//! number of the lane each, and then, one behind the other, what follows the number in the body of the whole. A lane has
//! one such message under way at a time; whole frames travel between its fragments.

use super::header::{Flags, HEADER_LEN, Header, Kind, MAX_ID_LEN};
use super::{DecodeError, EncodeError};
use crate::{EntityTypeId, Epoch, ShardId, Token};

/// Bytes of an [`Envelope`]'s body around its id and payload.
pub const ENVELOPE_LEN: usize = 8 + 4 + 8 + 2;
/// Bytes of a [`Return`]'s body around its id and payload.
pub const RETURN_LEN: usize = ENVELOPE_LEN + 1;
/// Bytes of a [`Reply`]'s body around its payload.
pub const REPLY_LEN: usize = 8 + 8 + 1;
/// Bytes of a [`Flush`]'s or [`Flushed`]'s body.
pub const MARKER_LEN: usize = 8 + 4 + 8;

/// What a data frame says beside its [`Data`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHead {
    /// Its flags: [`Flags::TRACKED`] or none, and [the lane](Flags::on_lane).
    pub flags: Flags,
    /// The version that the link uses.
    pub version: u8,
    /// The entity type.
    pub entity_type: EntityTypeId,
    /// The epoch the frame is addressed to; [`Epoch::NONE`] on `Flushed` and `Reply`.
    pub epoch: Epoch,
    /// The link's number for the frame, on its lane.
    pub seq: u64,
}

/// A data body. The epoch of [`Envelope`], [`Return`] and [`Flush`] travels in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Data<'a> {
    /// A message to an entity, addressed to the epoch in the header.
    Envelope(Envelope<'a>),
    /// A message that was not taken, on its way back to where it came from.
    Return(Return<'a>),
    /// Marks the end of what an origin sent down a path.
    Flush(Flush),
    /// Everything before the marker was delivered or returned.
    Flushed(Flushed),
    /// The answer to an ask.
    Reply(Reply<'a>),
}

/// See [`Data::Envelope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The shard.
    pub shard: ShardId,
    /// Names the reply; 0 for a tell.
    pub correlation: u64,
    /// The entity, at most [`super::MAX_ID_LEN`] bytes.
    pub id: &'a [u8],
    /// The message.
    pub payload: &'a [u8],
}

/// Why a message comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a reason nobody handles must not compile"
)]
pub enum ReturnReason {
    /// The shard is not, or no longer, here under that epoch. It is sent again.
    Moved,
    /// A buffer is full. It is reported to its caller.
    Full,
}

/// See [`Data::Return`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return<'a> {
    /// Why.
    pub reason: ReturnReason,
    /// What.
    pub envelope: Envelope<'a>,
}

/// See [`Data::Flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// The shard.
    pub shard: ShardId,
    /// Comes back in [`Flushed`].
    pub token: Token,
}

/// See [`Data::Flushed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// The shard.
    pub shard: ShardId,
    /// Of the [`Flush`].
    pub token: Token,
}

/// See [`Data::Reply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Of the ask.
    pub correlation: u64,
    /// 0 = an answer; otherwise a failure code of the entity's node ([`crate::node`]).
    pub status: u8,
    /// The answer.
    pub payload: &'a [u8],
}

/// The sequence number at the beginning of a data body of any kind.
///
/// # Errors
/// [`DecodeError::Truncated`].
#[inline]
pub fn seq(mut body: &[u8]) -> Result<u64, DecodeError> {
    take_u64(&mut body)
}

impl ReturnReason {
    /// As it travels.
    #[must_use]
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Moved => 0,
            Self::Full => 1,
        }
    }

    /// As it travels; `None` if it is no reason.
    #[must_use]
    pub const fn from_u8(reason: u8) -> Option<Self> {
        match reason {
            0 => Some(Self::Moved),
            1 => Some(Self::Full),
            _ => None,
        }
    }
}

impl<'a> Data<'a> {
    /// The kind that the header says.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Envelope(_) => Kind::ENVELOPE,
            Self::Return(_) => Kind::RETURN,
            Self::Flush(_) => Kind::FLUSH,
            Self::Flushed(_) => Kind::FLUSHED,
            Self::Reply(_) => Kind::REPLY,
        }
    }

    /// On which of a pair's `lanes` the frame travels: shard mod lanes; a reply has no shard, so correlation mod lanes.
    #[must_use]
    pub fn lane(&self, lanes: u8) -> u8 {
        let lane = self.key().checked_rem(u64::from(lanes)).unwrap_or(0);
        u8::try_from(lane).unwrap_or(0)
    }

    /// What the lane follows from: the shard, or a reply's correlation.
    #[must_use]
    pub const fn key(&self) -> u64 {
        match self {
            Self::Envelope(envelope) => envelope.shard.0 as u64,
            Self::Return(back) => back.envelope.shard.0 as u64,
            Self::Flush(flush) => flush.shard.0 as u64,
            Self::Flushed(flushed) => flushed.shard.0 as u64,
            Self::Reply(reply) => reply.correlation,
        }
    }

    /// Decodes the body of a data frame; its number is [`seq`]. Borrows, copies nothing. O(1).
    ///
    /// # Errors
    /// [`DecodeError::UnknownKind`]: accept the number, skip and count. Others: the peer is broken.
    #[inline]
    pub fn decode(kind: Kind, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut rest = body;
        take_u64(&mut rest)?;
        let data = match kind {
            Kind::ENVELOPE => {
                let shard = ShardId(take_u32(&mut rest)?);
                let correlation = take_u64(&mut rest)?;
                return Ok(Self::Envelope(envelope(shard, correlation, rest)?));
            }
            Kind::RETURN => {
                let shard = ShardId(take_u32(&mut rest)?);
                let correlation = take_u64(&mut rest)?;
                let reason = take_u8(&mut rest)?;
                return Ok(Self::Return(Return {
                    reason: ReturnReason::from_u8(reason).ok_or(DecodeError::Range)?,
                    envelope: envelope(shard, correlation, rest)?,
                }));
            }
            Kind::REPLY => {
                return Ok(Self::Reply(Reply {
                    correlation: take_u64(&mut rest)?,
                    status: take_u8(&mut rest)?,
                    payload: rest,
                }));
            }
            Kind::FLUSH => Self::Flush(Flush {
                shard: ShardId(take_u32(&mut rest)?),
                token: Token(take_u64(&mut rest)?),
            }),
            Kind::FLUSHED => Self::Flushed(Flushed {
                shard: ShardId(take_u32(&mut rest)?),
                token: Token(take_u64(&mut rest)?),
            }),
            unknown => return Err(DecodeError::UnknownKind(unknown)),
        };
        if rest.is_empty() {
            Ok(data)
        } else {
            Err(DecodeError::Trailing)
        }
    }

    /// Bytes of the body, its number included.
    #[must_use]
    pub const fn body_len(&self) -> usize {
        let fixed = match self {
            Self::Envelope(_) => ENVELOPE_LEN,
            Self::Return(_) => RETURN_LEN,
            Self::Flush(_) | Self::Flushed(_) => MARKER_LEN,
            Self::Reply(_) => REPLY_LEN,
        };
        let (id, payload) = self.parts();
        fixed.saturating_add(id.len()).saturating_add(payload.len())
    }

    /// Writes the whole frame, header included, to the beginning of `out`; the answer is its length.
    ///
    /// `max_frame`: the longest body that the peer takes.
    ///
    /// # Errors
    /// [`EncodeError`]; `out` is unchanged.
    pub fn encode(
        &self,
        head: &DataHead,
        max_frame: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let fixed = Fixed::of(self, head)?;
        let body = self.body_len();
        let len = checked_len(body, max_frame)?;
        let out = out
            .get_mut(..HEADER_LEN.saturating_add(body))
            .ok_or(EncodeError::OutputFull)?;
        let (id, payload) = self.parts();
        let header = head.header(self.kind(), len).to_bytes();
        let pieces: [&[u8]; 4] = [&header, fixed.as_slice(), id, payload];
        let mut rest = &mut *out;
        for piece in pieces {
            let (slot, tail) = rest
                .split_at_mut_checked(piece.len())
                .ok_or(EncodeError::OutputFull)?;
            slot.copy_from_slice(piece);
            rest = tail;
        }
        Ok(out.len())
    }

    /// Id and payload.
    pub(super) const fn parts(&self) -> (&'a [u8], &'a [u8]) {
        match self {
            Self::Envelope(envelope) => (envelope.id, envelope.payload),
            Self::Return(back) => (back.envelope.id, back.envelope.payload),
            Self::Flush(_) | Self::Flushed(_) => (&[], &[]),
            Self::Reply(reply) => (&[], reply.payload),
        }
    }
}

impl DataHead {
    pub(super) const fn header(&self, kind: Kind, len: u32) -> Header {
        Header {
            version: self.version,
            kind,
            flags: self.flags,
            entity_type: self.entity_type,
            number: self.epoch.to_bits(),
            len,
        }
    }
}

/// The length of a body, if a frame may have it.
pub(super) fn checked_len(body: usize, max_frame: u32) -> Result<u32, EncodeError> {
    match u32::try_from(body) {
        Ok(len) if len <= max_frame => Ok(len),
        _ => Err(EncodeError::TooLong {
            len: body,
            limit: max_frame,
        }),
    }
}

/// The fields of a body up to its id.
pub(super) struct Fixed {
    bytes: [u8; RETURN_LEN],
    len: usize,
}

impl Fixed {
    pub(super) fn of(data: &Data<'_>, head: &DataHead) -> Result<Self, EncodeError> {
        match *data {
            Data::Envelope(Envelope {
                shard,
                correlation,
                id,
                ..
            }) => Self::envelope(head, shard, correlation, None, id),
            Data::Return(Return { reason, envelope }) => Self::envelope(
                head,
                envelope.shard,
                envelope.correlation,
                Some(reason),
                envelope.id,
            ),
            Data::Flush(Flush { shard, token }) | Data::Flushed(Flushed { shard, token }) => {
                Ok(Self::marker(head, shard, token))
            }
            Data::Reply(Reply {
                correlation,
                status,
                ..
            }) => Ok(Self::reply(head, correlation, status)),
        }
    }

    pub(super) fn envelope(
        head: &DataHead,
        shard: ShardId,
        correlation: u64,
        reason: Option<ReturnReason>,
        id: &[u8],
    ) -> Result<Self, EncodeError> {
        let limit = EncodeError::FieldTooLong { limit: MAX_ID_LEN };
        if id.len() > MAX_ID_LEN {
            return Err(limit);
        }
        let id_len = u16::try_from(id.len()).map_err(|_| limit)?;
        let mut fixed = Self::start(head);
        fixed.put(&shard.0.to_le_bytes());
        fixed.put(&correlation.to_le_bytes());
        if let Some(reason) = reason {
            fixed.put(&[reason.to_u8()]);
        }
        fixed.put(&id_len.to_le_bytes());
        Ok(fixed)
    }

    pub(super) fn marker(head: &DataHead, shard: ShardId, token: Token) -> Self {
        let mut fixed = Self::start(head);
        fixed.put(&shard.0.to_le_bytes());
        fixed.put(&token.0.to_le_bytes());
        fixed
    }

    pub(super) fn reply(head: &DataHead, correlation: u64, status: u8) -> Self {
        let mut fixed = Self::start(head);
        fixed.put(&correlation.to_le_bytes());
        fixed.put(&[status]);
        fixed
    }

    fn start(head: &DataHead) -> Self {
        let mut fixed = Self {
            bytes: [0; RETURN_LEN],
            len: 0,
        };
        fixed.put(&head.seq.to_le_bytes());
        fixed
    }

    // The longest sequence of puts is `RETURN_LEN`.
    #[inline]
    fn put(&mut self, field: &[u8]) {
        let end = self.len.saturating_add(field.len());
        if let Some(slot) = self.bytes.get_mut(self.len..end) {
            slot.copy_from_slice(field);
            self.len = end;
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

#[inline]
fn envelope(shard: ShardId, correlation: u64, rest: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let (len, rest) = rest
        .split_first_chunk::<2>()
        .ok_or(DecodeError::Truncated)?;
    let len = usize::from(u16::from_le_bytes(*len));
    if len > MAX_ID_LEN {
        return Err(DecodeError::Range);
    }
    let (id, payload) = rest.split_at_checked(len).ok_or(DecodeError::Truncated)?;
    Ok(Envelope {
        shard,
        correlation,
        id,
        payload,
    })
}

macro_rules! take_number {
    ($name:ident, $number:ty) => {
        #[inline]
        fn $name(bytes: &mut &[u8]) -> Result<$number, DecodeError> {
            let (number, rest) = bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
            *bytes = rest;
            Ok(<$number>::from_le_bytes(*number))
        }
    };
}

take_number!(take_u8, u8);
take_number!(take_u32, u32);
take_number!(take_u64, u64);
