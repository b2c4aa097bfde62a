//! A frame: a header and the body that it announces.

use super::{Control, Data, DecodeError, HEADER_LEN, Header, data};

/// A whole frame, borrowed from the buffer it arrived in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// The body: `header.len` bytes.
    pub body: &'a [u8],
}

/// What the beginning of a stream buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third state")]
pub enum Decoded<'a> {
    /// A whole frame of [`Frame::encoded_len`] bytes. What follows belongs to the next one.
    Frame(Frame<'a>),
    /// Not yet a whole frame.
    Incomplete {
        /// How many bytes the buffer must hold, counted from its beginning, before another try makes sense.
        need: usize,
    },
}

impl<'a> Frame<'a> {
    /// Takes the first frame of a stream buffer. Borrows, reserves nothing, looks into no body. O(1).
    ///
    /// `max_frame`: the longest body of a data frame that this side takes; control has its own limit.
    ///
    /// # Errors
    /// The bytes are no frame and never will be: close the link. Unknown kinds are no error here.
    #[inline]
    pub fn decode(bytes: &'a [u8], max_frame: u32) -> Result<Decoded<'a>, DecodeError> {
        let header = match Header::decode(bytes, max_frame) {
            Ok(header) => header,
            Err(DecodeError::Incomplete { need }) => return Ok(Decoded::Incomplete { need }),
            Err(error) => return Err(error),
        };
        let need = header.frame_len();
        match bytes.get(HEADER_LEN..need) {
            Some(body) => Ok(Decoded::Frame(Self { header, body })),
            None => Ok(Decoded::Incomplete { need }),
        }
    }

    /// Takes a frame that fills `bytes` exactly, as a datagram does.
    ///
    /// # Errors
    /// As [`Frame::decode`]; [`DecodeError::Incomplete`] and [`DecodeError::Trailing`] if the length does not match.
    pub fn decode_exact(bytes: &'a [u8], max_frame: u32) -> Result<Self, DecodeError> {
        match Self::decode(bytes, max_frame)? {
            Decoded::Incomplete { need } => Err(DecodeError::Incomplete { need }),
            Decoded::Frame(frame) if frame.encoded_len() < bytes.len() => {
                Err(DecodeError::Trailing)
            }
            Decoded::Frame(frame) => Ok(frame),
        }
    }

    /// Bytes of the frame, header included.
    #[must_use]
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN.saturating_add(self.body.len())
    }

    /// The lane sequence number of a data frame, without decoding the rest. Works for unknown data kinds too.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]; [`DecodeError::UnknownKind`] for control, which has no number.
    #[inline]
    pub fn seq(&self) -> Result<u64, DecodeError> {
        if !self.header.kind.is_data() {
            return Err(DecodeError::UnknownKind(self.header.kind));
        }
        data::seq(self.body)
    }

    /// Decodes the body of a control frame; see [`Control::decode`].
    ///
    /// # Errors
    /// As [`Control::decode`].
    pub fn control(&self) -> Result<Control<'a>, DecodeError> {
        Control::decode(self.header.kind, self.body)
    }

    /// Decodes the body of a data frame; see [`Data::decode`].
    ///
    /// # Errors
    /// As [`Data::decode`]; [`DecodeError::Flags`] for a fragment, which has no such body.
    #[inline]
    pub fn data(&self) -> Result<Data<'a>, DecodeError> {
        let flags = self.header.flags;
        if flags.is_fragment() {
            let found = flags.to_bits();
            return Err(DecodeError::Flags { found });
        }
        Data::decode(self.header.kind, self.body)
    }
}
