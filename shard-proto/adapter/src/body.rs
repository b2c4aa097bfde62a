//! A message's body between the caller, the driver and the core: a value of any type, or its encoding.

use core::any::Any;
use core::cell::RefCell;
use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use shard_proto::node::BodyError;

use crate::carried::Counted;
use crate::message::{CodecError, Message, Payload};

/// An encoded value. Short ones are kept in place: no allocation, and no reference count that two cores share.
#[derive(Clone)]
pub(crate) enum Encoded {
    Inline(u8, [u8; Self::INLINE]),
    Shared(Bytes),
    /// A long one on its way to another node.
    Carried(Arc<Counted>),
}

impl Encoded {
    pub(crate) const INLINE: usize = 38;
    /// One that is longer, in bytes, is a long one: see [`Carried`](crate::carried::Carried).
    pub(crate) const LONG: usize = 64 * 1024;

    pub(crate) const EMPTY: Self = Self::Inline(0, [0; Self::INLINE]);

    fn inline(bytes: &[u8]) -> Option<Self> {
        let mut place = [0; Self::INLINE];
        place.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self::Inline(bytes.len() as u8, place))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Inline(len, bytes) => &bytes[..usize::from(*len)],
            Self::Shared(bytes) => bytes,
            Self::Carried(counted) => &counted.bytes,
        }
    }

    pub(crate) fn is_long(&self) -> bool {
        self.as_slice().len() > Self::LONG
    }

    /// The bytes, unless they are kept in place.
    pub(crate) fn shared(&self) -> Option<Bytes> {
        match self {
            Self::Inline(..) => None,
            Self::Shared(bytes) => Some(bytes.clone()),
            Self::Carried(counted) => Some(counted.shared()),
        }
    }

    /// One that takes no room on the way.
    pub(crate) fn uncounted(self) -> Self {
        match self {
            Self::Carried(counted) => Self::Shared(counted.bytes.clone()),
            other => other,
        }
    }

    pub(crate) fn new<M: Message>(message: &M) -> Result<Self, CodecError> {
        Self::written(|out| message.encode(out))
    }

    /// One behind the other.
    pub(crate) fn joined(head: &[u8], tail: &[u8]) -> Self {
        let joined = Self::written(|out| {
            out.extend_from_slice(head);
            out.extend_from_slice(tail);
            Ok(())
        });
        joined.unwrap_or(Self::EMPTY)
    }

    /// Writes into a buffer of this thread, from which long encodings are split off without a copy.
    fn written(
        write: impl FnOnce(&mut BytesMut) -> Result<(), CodecError>,
    ) -> Result<Self, CodecError> {
        const CHUNK: usize = 64 * 1024;
        thread_local! {
            static SCRATCH: RefCell<BytesMut> = RefCell::default();
        }
        SCRATCH.with(|scratch| {
            // Taken out, because `encode` is the application's code and may encode something else in turn.
            let mut out = scratch.take();
            if out.capacity() < 256 {
                out.reserve(CHUNK);
            }
            let encoded = caught(|| write(&mut out))
                .map(|()| Self::inline(&out).unwrap_or_else(|| Self::Shared(out.split().freeze())));
            out.clear();
            if out.capacity() > 4 * CHUNK || encoded.as_ref().is_ok_and(Self::is_long) {
                // Or a thread kept what a long message once needed.
                out = BytesMut::new();
            }
            *scratch.borrow_mut() = out;
            encoded
        })
    }

    pub(crate) fn decode<M: Message>(&self) -> Result<M, CodecError> {
        let payload = match self {
            Self::Inline(..) => Payload::new(self.as_slice()),
            Self::Shared(bytes) => Payload::shared(bytes),
            Self::Carried(counted) => Payload::shared(&counted.bytes),
        };
        caught(|| M::decode(payload))
    }

    /// What is behind the first `count` bytes.
    pub(crate) fn decode_after<M: Message>(&self, count: usize) -> Result<M, CodecError> {
        let bytes = match self {
            Self::Inline(..) => {
                let rest = self.as_slice().get(count..).unwrap_or_default();
                return caught(|| M::decode(Payload::new(rest)));
            }
            Self::Shared(bytes) => bytes,
            Self::Carried(counted) => &counted.bytes,
        };
        let rest = bytes.slice(count.min(bytes.len())..);
        caught(|| M::decode(Payload::shared(&rest)))
    }
}

/// Runs the application's part of encoding or decoding. Its panic must not take along whatever else is on its way
/// here: it is an error like another.
fn caught<T>(code: impl FnOnce() -> Result<T, CodecError>) -> Result<T, CodecError> {
    catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|_| Err(CodecError::new("it panicked")))
}

/// Drops a message, which is the application's code as well.
pub(crate) fn discard<M>(message: M) {
    if catch_unwind(AssertUnwindSafe(|| drop(message))).is_err() {
        tracing::error!(
            message = core::any::type_name::<M>(),
            "a message that is not delivered panicked while it was dropped; the panic is caught"
        );
    }
}

/// A message of any type, for what does not know the type.
pub(crate) trait AnyMessage: Send {
    fn encode(&self, out: &mut BytesMut) -> Result<(), CodecError>;
    fn encoded(&self) -> Option<&Encoded>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// A message that whoever has it may drop, the driver and the core among them: that does not panic. And its encoding, if
/// there is one already.
struct Held<M>(Option<M>, Option<Encoded>);

impl<M: Message> AnyMessage for Held<M> {
    fn encode(&self, out: &mut BytesMut) -> Result<(), CodecError> {
        self.0
            .as_ref()
            .map_or(Ok(()), |message| message.encode(out))
    }

    fn encoded(&self) -> Option<&Encoded> {
        self.1.as_ref()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl<M> Drop for Held<M> {
    fn drop(&mut self) {
        if let Some(message) = self.0.take() {
            discard(message);
        }
    }
}

/// What the core carries.
pub(crate) enum Body {
    Encoded(Encoded),
    /// Not encoded unless it has to leave this node.
    Value(Box<dyn AnyMessage>),
}

impl Body {
    pub(crate) fn value<M: Message>(message: M) -> Self {
        Self::ready(message, None)
    }

    /// With its encoding, for the case that it has to leave this node.
    pub(crate) fn ready<M: Message>(message: M, encoded: Option<Encoded>) -> Self {
        Self::Value(Box::new(Held(Some(message), encoded)))
    }

    fn encoded(&self) -> Option<&Encoded> {
        match self {
            Self::Encoded(encoded) => Some(encoded),
            Self::Value(value) => value.encoded(),
        }
    }

    /// The value; `None` if it is encoded, or of another type.
    pub(crate) fn into_value<M: Message>(self) -> Option<M> {
        match self {
            Self::Value(value) => value.into_any().downcast::<Held<M>>().ok()?.0.take(),
            Self::Encoded(_) => None,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encoded(_) => "Encoded",
            Self::Value(_) => "Value",
        })
    }
}

impl shard_proto::node::Body for Body {
    fn from_wire(payload: &[u8], share: impl FnOnce() -> Bytes) -> Self {
        Self::Encoded(Encoded::inline(payload).unwrap_or_else(|| Encoded::Shared(share())))
    }

    fn encode(&self, out: &mut BytesMut) -> Result<(), BodyError> {
        if let Some(encoded) = self.encoded() {
            out.extend_from_slice(encoded.as_slice());
            return Ok(());
        }
        let Self::Value(value) = self else {
            return Ok(());
        };
        caught(|| value.encode(out)).map_err(|error| {
            tracing::debug!(%error, "a message cannot be encoded");
            BodyError {
                reason: "its encode function failed",
            }
        })
    }

    fn len_hint(&self) -> usize {
        self.encoded()
            .map_or(64, |encoded| encoded.as_slice().len())
    }

    fn shared(&self) -> Option<Bytes> {
        self.encoded()?.shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_small() {
        assert_eq!(size_of::<Body>(), 40);
    }

    #[test]
    fn short_encodings_are_kept_in_place() {
        let short = Encoded::new(&7_u64).unwrap();
        assert!(matches!(short, Encoded::Inline(1, _)));
        assert_eq!(short.decode::<u64>().unwrap(), 7);
        let text = "x".repeat(200);
        let long = Encoded::new(&text).unwrap();
        assert!(matches!(long, Encoded::Shared(_)));
        assert_eq!(long.decode::<String>().unwrap(), text);
    }
}
