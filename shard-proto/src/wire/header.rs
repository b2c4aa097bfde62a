//! The frame header: 20 bytes, little-endian, the same in every version.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version |
//! | 1 | 1 | kind; from 64 on data, below control |
//! | 2 | 2 | flags; a bit the receiver does not know is an error. Data: the second byte is the lane |
//! | 4 | 4 | entity type, 0 for frames that concern no type |
//! | 8 | 8 | control: term; data: epoch |
//! | 16 | 4 | length of the body |

use core::fmt;

use super::DecodeError;
use crate::{EntityTypeId, Epoch, Term};

/// Bytes of a header.
pub const HEADER_LEN: usize = 20;
/// Lowest wire version that this crate speaks.
pub const MIN_VERSION: u8 = 1;
/// Highest wire version that this crate speaks.
pub const MAX_VERSION: u8 = 1;
/// Longest body of a control frame, in bytes.
pub const MAX_CONTROL_LEN: u32 = 64 * 1024;
/// Longest frame with a control body, header included.
pub const MAX_CONTROL_FRAME: usize = HEADER_LEN + 64 * 1024;
/// Default for the longest body of a data frame, in bytes: 1 MiB.
pub const DEFAULT_MAX_FRAME: u32 = 1024 * 1024;
/// Longest entity id, in bytes. It leaves room for what surrounds an id in every control frame.
pub const MAX_ID_LEN: usize = 64 * 1024 - 64;

/// What a body is: a `u8` that may have a value this crate does not know.
///
/// A receiver skips and counts kinds it does not know; [`Kind::is_data`] tells which limit applies to them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(u8);

macro_rules! kinds {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Kind {
            $(
                #[doc = concat!("`", $text, "`")]
                pub const $name: Self = Self($value);
            )*

            /// Every kind that this crate knows, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name; `None` if this crate does not know it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    HELLO = 1, "Hello";
    WELCOME = 2, "Welcome";
    REFUSED = 3, "Refused";
    KEEP_ALIVE = 4, "KeepAlive";
    ACK = 5, "Ack";
    GOODBYE = 6, "Goodbye";
    SWIM = 7, "Swim";

    LEADER_BEAT = 16, "LeaderBeat";
    NODE_BEAT = 17, "NodeBeat";
    TERM_REFUSED = 18, "TermRefused";
    RESIGN = 19, "Resign";

    REGISTER = 32, "Register";
    REGISTER_ACK = 33, "RegisterAck";
    REGISTER_REFUSED = 34, "RegisterRefused";
    DEREGISTER = 35, "Deregister";
    GET_SHARD_HOME = 36, "GetShardHome";
    SHARD_HOME = 37, "ShardHome";
    SHARD_STARTED = 38, "ShardStarted";
    HAND_OFF = 39, "HandOff";
    HAND_OFF_COMPLETE = 40, "HandOffComplete";
    SHARD_MAP_UPDATE = 41, "ShardMapUpdate";
    REMEMBERED_ENTITIES = 42, "RememberedEntities";
    ENTITY_STARTED = 43, "EntityStarted";
    ENTITY_STOPPED = 44, "EntityStopped";
    STATS_QUERY = 45, "StatsQuery";
    STATS = 46, "Stats";
    RESIZE = 47, "Resize";
    RESIZED = 48, "Resized";

    ENVELOPE = 64, "Envelope";
    RETURN = 65, "Return";
    FLUSH = 66, "Flush";
    FLUSHED = 67, "Flushed";
    REPLY = 68, "Reply";
}

impl Kind {
    /// The first kind that is data.
    const FIRST_DATA: u8 = 64;

    /// As it travels.
    #[must_use]
    pub const fn from_u8(kind: u8) -> Self {
        Self(kind)
    }

    /// As it travels.
    #[must_use]
    pub const fn to_u8(self) -> u8 {
        self.0
    }

    /// Data: numbered, never dropped while both incarnations live. Otherwise control. Holds for unknown kinds too.
    #[must_use]
    pub const fn is_data(self) -> bool {
        self.0 >= Self::FIRST_DATA
    }

    /// Whether this crate can decode the body.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.name().is_some()
    }

    /// [`Kind::HELLO`] and [`Kind::REFUSED`] travel before a version is agreed on. Their bodies never change, and the
    /// version in their header is not looked at.
    #[must_use]
    pub const fn is_versionless(self) -> bool {
        matches!(self, Self::HELLO | Self::REFUSED)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "kind {}", self.0),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({self})")
    }
}

/// Flags of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// On data: a fragment of a message, and more follow on the lane. See [`super::data`].
    pub const MORE: Self = Self(1);
    /// On `Envelope` and `Return`: the message is sent until it is acknowledged, and its payload begins with who sent it
    /// and its number. The reply is the acknowledgement. The core passes the flag on and does not look at the payload.
    pub const TRACKED: Self = Self(2);
    /// On data: the last fragment of a message.
    pub const LAST: Self = Self(4);

    const FRAGMENT: u16 = Self::MORE.0 | Self::LAST.0;
    /// On data: the lane.
    const LANE: u16 = 0xFF00;

    /// The flags that a receiver of this version takes.
    const fn known(kind: Kind) -> u16 {
        match kind {
            Kind::ENVELOPE | Kind::RETURN => Self::TRACKED.0 | Self::FRAGMENT | Self::LANE,
            Kind::FLUSH | Kind::FLUSHED => Self::LANE,
            kind if kind.is_data() => Self::FRAGMENT | Self::LANE,
            _ => 0,
        }
    }

    /// Whether a frame of that kind may have them. Nothing is the last of what has more behind it.
    const fn fit(self, kind: Kind) -> bool {
        self.0 & !Self::known(kind) == 0 && self.0 & Self::FRAGMENT != Self::FRAGMENT
    }

    /// These, and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These, of a data frame on that lane.
    #[must_use]
    pub const fn on_lane(self, lane: u8) -> Self {
        Self(self.0 & !Self::LANE | (lane as u16) << 8)
    }

    /// The lane of a data frame.
    #[must_use]
    pub const fn lane(self) -> u8 {
        let [_, lane] = self.0.to_le_bytes();
        lane
    }

    /// Whether the frame is a fragment of a message: [`Flags::MORE`] or [`Flags::LAST`].
    #[must_use]
    pub const fn is_fragment(self) -> bool {
        self.0 & Self::FRAGMENT != 0
    }

    /// As those of the whole message, without [`Flags::MORE`] and [`Flags::LAST`].
    #[must_use]
    pub const fn of_whole(self) -> Self {
        Self(self.0 & !Self::FRAGMENT)
    }

    /// As they travel.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// As they travel.
    #[must_use]
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Whether all of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The header of a frame, see the [module's docs](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The wire version of the body.
    pub version: u8,
    /// What the body is.
    pub kind: Kind,
    /// Flags.
    pub flags: Flags,
    /// The entity type concerned, 0 for none.
    pub entity_type: EntityTypeId,
    /// Control: the term. Data: the epoch. See [`Header::term`] and [`Header::epoch`].
    pub number: u64,
    /// Length of the body in bytes.
    pub len: u32,
}

impl Header {
    /// Reads and checks a header at the beginning of `bytes`.
    ///
    /// `max_frame` is the longest body of a data frame; for control it is [`MAX_CONTROL_LEN`]. O(1).
    ///
    /// # Errors
    /// [`DecodeError::Incomplete`] if there are fewer than [`HEADER_LEN`] bytes; otherwise what the length, the
    /// version, the flags or the term violate, in this order. Unknown kinds are no error here.
    #[inline]
    pub fn decode(bytes: &[u8], max_frame: u32) -> Result<Self, DecodeError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(DecodeError::Incomplete { need: HEADER_LEN });
        };
        let header = Self::from_bytes(bytes);
        header.check(max_frame)?;
        Ok(header)
    }

    const fn from_bytes(bytes: &[u8; HEADER_LEN]) -> Self {
        #[rustfmt::skip]
        let &[
            version, kind, f0, f1, t0, t1, t2, t3, n0, n1, n2, n3, n4, n5, n6, n7, l0, l1, l2, l3,
        ] = bytes;
        Self {
            version,
            kind: Kind(kind),
            flags: Flags(u16::from_le_bytes([f0, f1])),
            entity_type: EntityTypeId(u32::from_le_bytes([t0, t1, t2, t3])),
            number: u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
        }
    }

    const fn check(&self, max_frame: u32) -> Result<(), DecodeError> {
        let limit = if self.kind.is_data() {
            max_frame
        } else {
            MAX_CONTROL_LEN
        };
        if self.len > limit {
            return Err(DecodeError::TooLong {
                len: self.len,
                limit,
            });
        }
        let spoken = self.version >= MIN_VERSION && self.version <= MAX_VERSION;
        if !spoken && !self.kind.is_versionless() {
            return Err(DecodeError::Version {
                found: self.version,
            });
        }
        if !self.flags.fit(self.kind) {
            return Err(DecodeError::Flags {
                found: self.flags.0,
            });
        }
        if !self.kind.is_data() && self.number > Term::MAX.0 {
            return Err(DecodeError::Range);
        }
        Ok(())
    }

    /// The header as it travels.
    #[must_use]
    #[inline]
    pub const fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let [f0, f1] = self.flags.0.to_le_bytes();
        let [t0, t1, t2, t3] = self.entity_type.0.to_le_bytes();
        let [n0, n1, n2, n3, n4, n5, n6, n7] = self.number.to_le_bytes();
        let [l0, l1, l2, l3] = self.len.to_le_bytes();
        #[rustfmt::skip]
        let bytes = [
            self.version, self.kind.0, f0, f1, t0, t1, t2, t3,
            n0, n1, n2, n3, n4, n5, n6, n7, l0, l1, l2, l3,
        ];
        bytes
    }

    /// The term of a control frame.
    #[must_use]
    pub const fn term(&self) -> Term {
        Term(self.number)
    }

    /// The epoch of a data frame.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        Epoch::from_bits(self.number)
    }

    /// Bytes of the whole frame, header included.
    #[must_use]
    pub const fn frame_len(&self) -> usize {
        // A `usize` of 16 bits cannot hold every length; then no buffer can hold the frame either.
        if self.len as u64 > usize::MAX as u64 {
            return usize::MAX;
        }
        let len = self.len as usize;
        len.saturating_add(HEADER_LEN)
    }
}
