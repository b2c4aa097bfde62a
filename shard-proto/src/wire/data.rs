//! Data frames: never dropped while both incarnations live; numbered per link and lane; no serde.

use crate::{ShardId, Token};

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
    /// The entity, at most 65 535 bytes.
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
