//! How events and states are kept: a version, and the value in its message encoding.

use bytes::BytesMut;

use crate::message::{CodecError, Message, Payload};

/// The version as a varint (one byte below 128), then the value.
pub(super) fn encode<T: Message>(version: u32, value: &T) -> Result<Vec<u8>, CodecError> {
    let mut out = BytesMut::new();
    version.encode(&mut out)?;
    value.encode(&mut out)?;
    Ok(out.into())
}

/// The version and the encoded value.
pub(super) fn split(bytes: &[u8]) -> Result<(u32, Payload<'_>), CodecError> {
    match postcard::take_from_bytes(bytes) {
        Ok((version, value)) => Ok((version, Payload::new(value))),
        Err(error) => Err(CodecError::new(format!("no version: {error}"))),
    }
}

/// For the hooks that decode: the version that is kept is not the one of the program.
pub(super) fn other_version(found: u32, known: u32) -> CodecError {
    CodecError::new(format!(
        "it was written by version {found} of the type, this program has version {known}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_with_its_version() {
        for version in [0, 7, 127, 128, u32::MAX] {
            let bytes = encode(version, &("three".to_owned(), 3_u64)).unwrap();
            let (found, value) = split(&bytes).unwrap();
            assert_eq!(found, version);
            let value = <(String, u64)>::decode(value).unwrap();
            assert_eq!(value, ("three".to_owned(), 3));
        }
        assert_eq!(encode(0, &1_u8).unwrap(), [0, 1]);
        assert!(split(&[]).is_err());
    }
}
