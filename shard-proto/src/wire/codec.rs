//! Control bodies to bytes and back.

use serde::{Deserialize, Serialize, Serializer};

use super::control::Control;
use super::header::{Flags, HEADER_LEN, Header, Kind, MAX_CONTROL_LEN, MAX_ID_LEN};
use super::{DecodeError, EncodeError, control};
use crate::{EntityTypeId, Term};

/// The limit of a control body as a length of memory.
pub(super) const MAX_BODY: usize = super::MAX_CONTROL_FRAME - HEADER_LEN;

/// A control body that outgrew its limit.
pub(super) const TOO_LONG: EncodeError = EncodeError::TooLong {
    len: MAX_BODY + 1,
    limit: MAX_CONTROL_LEN,
};

impl<'a> Control<'a> {
    /// The kind that the header says.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::HELLO,
            Self::Welcome(_) => Kind::WELCOME,
            Self::Refused(_) => Kind::REFUSED,
            Self::KeepAlive(_) => Kind::KEEP_ALIVE,
            Self::Ack(_) => Kind::ACK,
            Self::Goodbye => Kind::GOODBYE,
            Self::Swim(_) => Kind::SWIM,
            Self::LeaderBeat(_) => Kind::LEADER_BEAT,
            Self::NodeBeat(_) => Kind::NODE_BEAT,
            Self::TermRefused(_) => Kind::TERM_REFUSED,
            Self::Resign => Kind::RESIGN,
            Self::Register(_) => Kind::REGISTER,
            Self::RegisterAck(_) => Kind::REGISTER_ACK,
            Self::RegisterRefused(_) => Kind::REGISTER_REFUSED,
            Self::Deregister(_) => Kind::DEREGISTER,
            Self::GetShardHome(_) => Kind::GET_SHARD_HOME,
            Self::ShardHome(_) => Kind::SHARD_HOME,
            Self::ShardStarted(_) => Kind::SHARD_STARTED,
            Self::HandOff(_) => Kind::HAND_OFF,
            Self::HandOffComplete(_) => Kind::HAND_OFF_COMPLETE,
            Self::ShardMapUpdate(_) => Kind::SHARD_MAP_UPDATE,
            Self::RememberedEntities(_) => Kind::REMEMBERED_ENTITIES,
            Self::EntityStarted(_) => Kind::ENTITY_STARTED,
            Self::EntityStopped(_) => Kind::ENTITY_STOPPED,
            Self::StatsQuery(_) => Kind::STATS_QUERY,
            Self::Stats(_) => Kind::STATS,
            Self::Resize(_) => Kind::RESIZE,
            Self::Resized(_) => Kind::RESIZED,
        }
    }

    /// Decodes the body of a control frame. Borrows; O(length of the body), lists are not looked into.
    ///
    /// Names, addresses and ids are within their limits, terms fit 36 bits, parts of a registration are numbered
    /// sensibly. Lists are for the receiver to check, who knows the shard count ([`control::Register::claims`]).
    ///
    /// # Errors
    /// [`DecodeError::UnknownKind`]: skip and count. Others: the peer is broken. [`DecodeError::Trailing`] if
    /// anything is left over behind the body.
    pub fn decode(kind: Kind, body: &'a [u8]) -> Result<Self, DecodeError> {
        let control = match kind {
            Kind::HELLO => Self::Hello(take(body)?),
            Kind::WELCOME => Self::Welcome(take(body)?),
            Kind::REFUSED => Self::Refused(take(body)?),
            Kind::KEEP_ALIVE => Self::KeepAlive(take(body)?),
            Kind::ACK => Self::Ack(take(body)?),
            Kind::GOODBYE => take(body).map(|()| Self::Goodbye)?,
            Kind::SWIM => Self::Swim(body),
            Kind::LEADER_BEAT => Self::LeaderBeat(take(body)?),
            Kind::NODE_BEAT => Self::NodeBeat(take(body)?),
            Kind::TERM_REFUSED => Self::TermRefused(take(body)?),
            Kind::RESIGN => take(body).map(|()| Self::Resign)?,
            Kind::REGISTER => Self::Register(take(body)?),
            Kind::REGISTER_ACK => Self::RegisterAck(take(body)?),
            Kind::REGISTER_REFUSED => Self::RegisterRefused(take(body)?),
            Kind::DEREGISTER => Self::Deregister(take(body)?),
            Kind::GET_SHARD_HOME => Self::GetShardHome(take(body)?),
            Kind::SHARD_HOME => Self::ShardHome(take(body)?),
            Kind::SHARD_STARTED => Self::ShardStarted(take(body)?),
            Kind::HAND_OFF => Self::HandOff(take(body)?),
            Kind::HAND_OFF_COMPLETE => Self::HandOffComplete(take(body)?),
            Kind::SHARD_MAP_UPDATE => Self::ShardMapUpdate(take(body)?),
            Kind::REMEMBERED_ENTITIES => Self::RememberedEntities(take(body)?),
            Kind::ENTITY_STARTED => Self::EntityStarted(take(body)?),
            Kind::ENTITY_STOPPED => Self::EntityStopped(take(body)?),
            Kind::STATS_QUERY => Self::StatsQuery(take(body)?),
            Kind::STATS => Self::Stats(take(body)?),
            Kind::RESIZE => Self::Resize(take(body)?),
            Kind::RESIZED => Self::Resized(take(body)?),
            unknown => return Err(DecodeError::UnknownKind(unknown)),
        };
        if control.long_field().is_some() || !control.in_range() {
            return Err(DecodeError::Range);
        }
        Ok(control)
    }

    /// Writes the whole frame, header included, to the beginning of `out`; the answer is its length.
    ///
    /// # Errors
    /// [`EncodeError`]; `out` may hold part of the body, and no header.
    pub fn encode(
        &self,
        entity_type: EntityTypeId,
        term: Term,
        version: u8,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        self.check()?;
        let Some((head, rest)) = out.split_first_chunk_mut::<HEADER_LEN>() else {
            return Err(EncodeError::OutputFull);
        };
        let room = rest.len().min(MAX_BODY);
        let full = if room == MAX_BODY {
            TOO_LONG
        } else {
            EncodeError::OutputFull
        };
        let body = rest.get_mut(..room).ok_or(full)?;
        let len = match self {
            Self::Swim(packet) => {
                body.get_mut(..packet.len())
                    .ok_or(full)?
                    .copy_from_slice(packet);
                packet.len()
            }
            other => postcard::to_slice(&Body(other), body)
                .map_err(|_| full)?
                .len(),
        };
        *head = self.header(entity_type, term, version, len).to_bytes();
        Ok(HEADER_LEN.saturating_add(len))
    }

    pub(super) fn header(
        &self,
        entity_type: EntityTypeId,
        term: Term,
        version: u8,
        len: usize,
    ) -> Header {
        Header {
            version,
            kind: self.kind(),
            flags: Flags::NONE,
            entity_type,
            number: term.0,
            // Bodies end at `MAX_BODY`.
            len: u32::try_from(len).unwrap_or(MAX_CONTROL_LEN),
        }
    }

    /// What an encoder refuses before it writes anything.
    pub(super) fn check(&self) -> Result<(), EncodeError> {
        match self.long_field() {
            Some(limit) => Err(EncodeError::FieldTooLong { limit }),
            None => Ok(()),
        }
    }

    /// The limit of a field that is longer than its limit.
    fn long_field(&self) -> Option<usize> {
        let over = |len: usize, limit: usize| (len > limit).then_some(limit);
        match self {
            Self::Hello(hello) => over(hello.name.len(), control::MAX_NAME_LEN)
                .or_else(|| over(hello.address.len(), control::MAX_ADDRESS_LEN)),
            Self::Welcome(welcome) => over(welcome.expected.len(), control::MAX_LANES_LEN),
            Self::Register(register) => over(register.type_name.len(), control::MAX_NAME_LEN),
            Self::EntityStarted(note) | Self::EntityStopped(note) => {
                over(note.id.len(), MAX_ID_LEN)
            }
            _ => None,
        }
    }

    /// What decodes but cannot have been meant.
    fn in_range(&self) -> bool {
        match self {
            Self::Welcome(welcome) => welcome.expected.len().is_multiple_of(8),
            Self::TermRefused(refused) => refused.highest <= Term::MAX,
            Self::Register(register) => register.part < register.parts,
            _ => true,
        }
    }
}

/// A body as postcard writes it; all but [`Control::Swim`], which is its own body.
pub(super) struct Body<'a, 'b>(pub(super) &'a Control<'b>);

impl Serialize for Body<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Control::Hello(body) => body.serialize(serializer),
            Control::Welcome(body) => body.serialize(serializer),
            Control::Refused(body) => body.serialize(serializer),
            Control::KeepAlive(body) => body.serialize(serializer),
            Control::Ack(body) => body.serialize(serializer),
            Control::Goodbye | Control::Resign => serializer.serialize_unit(),
            Control::Swim(packet) => serializer.serialize_bytes(packet),
            Control::LeaderBeat(body) => body.serialize(serializer),
            Control::NodeBeat(body) => body.serialize(serializer),
            Control::TermRefused(body) => body.serialize(serializer),
            Control::Register(body) => body.serialize(serializer),
            Control::RegisterAck(body) => body.serialize(serializer),
            Control::RegisterRefused(body) => body.serialize(serializer),
            Control::Deregister(body) => body.serialize(serializer),
            Control::GetShardHome(body) => body.serialize(serializer),
            Control::ShardHome(body) => body.serialize(serializer),
            Control::ShardStarted(body) => body.serialize(serializer),
            Control::HandOff(body) => body.serialize(serializer),
            Control::HandOffComplete(body) => body.serialize(serializer),
            Control::ShardMapUpdate(body) => body.serialize(serializer),
            Control::RememberedEntities(body) => body.serialize(serializer),
            Control::EntityStarted(body) | Control::EntityStopped(body) => {
                body.serialize(serializer)
            }
            Control::StatsQuery(body) => body.serialize(serializer),
            Control::Stats(body) => body.serialize(serializer),
            Control::Resize(body) => body.serialize(serializer),
            Control::Resized(body) => body.serialize(serializer),
        }
    }
}

/// Serializes bytes in one piece; serde's own way is byte by byte.
pub(super) fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

fn take<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, DecodeError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(DecodeError::Trailing),
        Err(postcard::Error::DeserializeUnexpectedEnd) => Err(DecodeError::Truncated),
        Err(_) => Err(DecodeError::Body),
    }
}
