//! What entities are sent and what they answer: values that can be encoded.

use core::fmt;
use core::ops::Deref;
use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that can travel to another node.
///
/// Whatever serde can serialize is a message already, in [postcard](https://docs.rs/postcard)'s encoding: derive
/// `Serialize` and `Deserialize`, and that is all. For raw bytes there is [`Raw`]; for another encoding implement the
/// trait on a type without serde's.
///
/// A message to an entity on the same node is handed over as it is; it is neither encoded nor copied to the heap.
/// Only while nobody knows where its shard is, it is encoded in case that is elsewhere.
pub trait Message: Sized + Send + 'static {
    /// Appends the encoded value.
    ///
    /// # Errors
    /// If the value has no encoding. What was appended is discarded.
    fn encode(&self, out: &mut BytesMut) -> Result<(), CodecError>;

    /// Makes the value of all of the bytes that `encode` appended. Runs in the task of whoever gets the value.
    ///
    /// # Errors
    /// If they are not what `encode` makes.
    fn decode(payload: Payload<'_>) -> Result<Self, CodecError>;
}

/// An encoded value that arrived.
#[derive(Debug)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    shared: Option<&'a Bytes>,
}

impl<'a> Payload<'a> {
    /// A payload in a buffer of the caller's, for tests of an own encoding.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            shared: None,
        }
    }

    pub(crate) fn shared(bytes: &'a Bytes) -> Self {
        Self {
            bytes,
            shared: Some(bytes),
        }
    }

    /// The bytes.
    #[must_use]
    pub const fn as_slice(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes to keep. Long payloads are not copied; they keep the buffer alive in which they arrived.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self.shared {
            Some(shared) => shared.clone(),
            None => Bytes::copy_from_slice(self.bytes),
        }
    }
}

impl Deref for Payload<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

/// A value that could not be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecError(Cow<'static, str>);

impl CodecError {
    /// With the reason, for people.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for CodecError {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Message for T {
    fn encode(&self, out: &mut BytesMut) -> Result<(), CodecError> {
        postcard::serialize_with_flavor(self, Append(out))
            .map_err(|error| CodecError::new(error.to_string()))
    }

    fn decode(payload: Payload<'_>) -> Result<Self, CodecError> {
        match postcard::take_from_bytes(payload.as_slice()) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => Err(CodecError::new(format!("{} bytes left over", rest.len()))),
            Err(error) => Err(CodecError::new(error.to_string())),
        }
    }
}

/// Writes postcard straight into the buffer.
struct Append<'a>(&'a mut BytesMut);

impl Flavor for Append<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.put_u8(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// A message of raw bytes, in the encoding of your choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Raw(pub Bytes);

impl Message for Raw {
    fn encode(&self, out: &mut BytesMut) -> Result<(), CodecError> {
        out.extend_from_slice(&self.0);
        Ok(())
    }

    fn decode(payload: Payload<'_>) -> Result<Self, CodecError> {
        Ok(Self(payload.to_bytes()))
    }
}

impl<T: Into<Bytes>> From<T> for Raw {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_values_round_trip_and_leftovers_are_refused() {
        let mut out = BytesMut::new();
        ("seven".to_owned(), 7_u64).encode(&mut out).unwrap();
        assert_eq!(
            <(String, u64)>::decode(Payload::new(&out)).unwrap(),
            ("seven".to_owned(), 7)
        );
        out.put_u8(0);
        assert!(<(String, u64)>::decode(Payload::new(&out)).is_err());
        assert!(<(String, u64)>::decode(Payload::new(&out[..3])).is_err());
    }

    #[test]
    fn raw_bytes_share_the_buffer() {
        let bytes = Bytes::from(vec![7; 100]);
        let raw = Raw::decode(Payload::shared(&bytes)).unwrap();
        assert_eq!(raw.0.as_ptr(), bytes.as_ptr());
    }
}
