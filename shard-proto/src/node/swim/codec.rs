//! The bytes of a packet: little-endian, bounded, no serde.
//!
//! ```text
//! identity  incarnation u64, version u16, phase u8, roles 4 × u32, name u8 + bytes, address u16 + bytes
//! header    src identity, src incarnation u16, dst identity, message u8 [+ identity] [+ probe u8]
//! member    identity, incarnation u16, state u8
//! packet    header [+ count u16 (big-endian, the library's) + members]
//! ```
//!
//! The node is not in it: it follows from the name.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use bytes::{Buf, BufMut};
use foca::{Header, Member, Message, State};

use super::SwimIdentity;
use super::identity::Phase;
use crate::Incarnation;
use crate::membership::Roles;

/// Why bytes are not what they should be, or do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodecError;

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed packet")
    }
}

impl core::error::Error for CodecError {}

type Result<T> = core::result::Result<T, CodecError>;

pub(super) struct SwimCodec;

/// Bytes of an identity without name and address.
const FIXED: usize = 8 + 2 + 1 + 16 + 1 + 2;

fn len_of(id: &SwimIdentity) -> usize {
    FIXED
        .saturating_add(id.name.len())
        .saturating_add(id.address.len())
}

fn put_identity(id: &SwimIdentity, out: &mut impl BufMut) -> Result<()> {
    let name = u8::try_from(id.name.len()).map_err(|_| CodecError)?;
    let address = u16::try_from(id.address.len()).map_err(|_| CodecError)?;
    out.put_u64_le(id.incarnation.0);
    out.put_u16_le(id.version);
    out.put_u8(match id.phase {
        Phase::Up => 0,
        Phase::Leaving => 1,
        Phase::Left => 2,
    });
    for role in id.roles.hashes() {
        out.put_u32_le(role);
    }
    out.put_u8(name);
    out.put_slice(id.name.as_bytes());
    out.put_u16_le(address);
    out.put_slice(id.address.as_bytes());
    Ok(())
}

fn take_identity(from: &mut impl Buf) -> Result<SwimIdentity> {
    let incarnation = Incarnation(from.try_get_u64_le().map_err(|_| CodecError)?);
    let version = from.try_get_u16_le().map_err(|_| CodecError)?;
    let phase = match from.try_get_u8().map_err(|_| CodecError)? {
        0 => Phase::Up,
        1 => Phase::Leaving,
        2 => Phase::Left,
        _ => return Err(CodecError),
    };
    let mut roles = Roles::NONE;
    for _ in 0..Roles::CAPACITY {
        let role = from.try_get_u32_le().map_err(|_| CodecError)?;
        roles = roles.with(role).ok_or(CodecError)?;
    }
    let len = from.try_get_u8().map_err(|_| CodecError)?;
    let name = take_str(from, usize::from(len))?;
    let len = from.try_get_u16_le().map_err(|_| CodecError)?;
    let address = take_str(from, usize::from(len))?;
    let id = SwimIdentity::new(&name, incarnation, &address, roles).map_err(|_| CodecError)?;
    Ok(SwimIdentity {
        version,
        phase,
        ..id
    })
}

fn take_str(from: &mut impl Buf, len: usize) -> Result<String> {
    if len > SwimIdentity::MAX_LEN || len > from.remaining() {
        return Err(CodecError);
    }
    let mut bytes = vec![0; len];
    from.try_copy_to_slice(&mut bytes).map_err(|_| CodecError)?;
    String::from_utf8(bytes).map_err(|_| CodecError)
}

/// A message without what it carries; the order is the wire's.
fn tag(message: &Message<SwimIdentity>) -> (u8, Option<&SwimIdentity>, Option<u8>) {
    match message {
        Message::Ping(probe) => (0, None, Some(*probe)),
        Message::Ack(probe) => (1, None, Some(*probe)),
        Message::PingReq {
            target,
            probe_number,
        } => (2, Some(target), Some(*probe_number)),
        Message::IndirectPing {
            origin,
            probe_number,
        } => (3, Some(origin), Some(*probe_number)),
        Message::IndirectAck {
            target,
            probe_number,
        } => (4, Some(target), Some(*probe_number)),
        Message::ForwardedAck {
            origin,
            probe_number,
        } => (5, Some(origin), Some(*probe_number)),
        Message::Announce => (6, None, None),
        Message::Feed => (7, None, None),
        Message::Gossip => (8, None, None),
        Message::TurnUndead => (9, None, None),
        Message::Broadcast => (10, None, None),
    }
}

/// The third node that a message is about.
pub(super) fn named(message: &Message<SwimIdentity>) -> Option<&SwimIdentity> {
    tag(message).1
}

fn take_message(from: &mut impl Buf) -> Result<Message<SwimIdentity>> {
    let tag = from.try_get_u8().map_err(|_| CodecError)?;
    let named = match tag {
        2..=5 => Some(take_identity(from)?),
        _ => None,
    };
    let probe_number = match tag {
        0..=5 => from.try_get_u8().map_err(|_| CodecError)?,
        _ => 0,
    };
    Ok(match (tag, named) {
        (0, _) => Message::Ping(probe_number),
        (1, _) => Message::Ack(probe_number),
        (2, Some(target)) => Message::PingReq {
            target,
            probe_number,
        },
        (3, Some(origin)) => Message::IndirectPing {
            origin,
            probe_number,
        },
        (4, Some(target)) => Message::IndirectAck {
            target,
            probe_number,
        },
        (5, Some(origin)) => Message::ForwardedAck {
            origin,
            probe_number,
        },
        (6, _) => Message::Announce,
        (7, _) => Message::Feed,
        (8, _) => Message::Gossip,
        (9, _) => Message::TurnUndead,
        // Nobody here broadcasts anything else.
        _ => return Err(CodecError),
    })
}

impl foca::Codec<SwimIdentity> for SwimCodec {
    type Error = CodecError;

    fn encode_header(&mut self, header: &Header<SwimIdentity>, mut buf: impl BufMut) -> Result<()> {
        let (tag, named, probe) = tag(&header.message);
        let len = len_of(&header.src)
            .saturating_add(len_of(&header.dst))
            .saturating_add(named.map_or(0, len_of))
            .saturating_add(4);
        if buf.remaining_mut() < len {
            return Err(CodecError);
        }
        put_identity(&header.src, &mut buf)?;
        buf.put_u16_le(header.src_incarnation);
        put_identity(&header.dst, &mut buf)?;
        buf.put_u8(tag);
        if let Some(named) = named {
            put_identity(named, &mut buf)?;
        }
        if let Some(probe) = probe {
            buf.put_u8(probe);
        }
        Ok(())
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<SwimIdentity>> {
        let src = take_identity(&mut buf)?;
        let src_incarnation = buf.try_get_u16_le().map_err(|_| CodecError)?;
        let dst = take_identity(&mut buf)?;
        let message = take_message(&mut buf)?;
        Ok(Header {
            src,
            src_incarnation,
            dst,
            message,
        })
    }

    fn encode_member(&mut self, member: &Member<SwimIdentity>, mut buf: impl BufMut) -> Result<()> {
        if buf.remaining_mut() < len_of(member.id()).saturating_add(3) {
            return Err(CodecError);
        }
        put_identity(member.id(), &mut buf)?;
        buf.put_u16_le(member.incarnation());
        buf.put_u8(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        Ok(())
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<Member<SwimIdentity>> {
        let id = take_identity(&mut buf)?;
        let incarnation = buf.try_get_u16_le().map_err(|_| CodecError)?;
        let state = match buf.try_get_u8().map_err(|_| CodecError)? {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            _ => return Err(CodecError),
        };
        Ok(Member::new(id, incarnation, state))
    }
}

/// Decodes a whole packet, so that one that is malformed anywhere changes nothing.
pub(super) fn take_packet(
    mut packet: &[u8],
) -> Result<(Header<SwimIdentity>, Vec<Member<SwimIdentity>>)> {
    use foca::Codec;

    let header = SwimCodec.decode_header(&mut packet)?;
    let mut members = Vec::new();
    if !packet.is_empty() {
        if matches!(header.message, Message::Announce | Message::TurnUndead) {
            return Err(CodecError);
        }
        let count = packet.try_get_u16().map_err(|_| CodecError)?;
        for _ in 0..count {
            members.push(SwimCodec.decode_member(&mut packet)?);
        }
    }
    if packet.is_empty() {
        Ok((header, members))
    } else {
        Err(CodecError)
    }
}
