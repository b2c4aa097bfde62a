//! What went wrong, in words.

use std::io;

use quinn::{ConnectionError, ReadError, ReadExactError, VarInt, WriteError};
use shard_adapter::transport::tls::Handshake;

/// The connection was closed when there was nothing more to say.
pub(crate) const CLOSED: u32 = 0;
/// It was closed because something was wrong with it.
pub(crate) const BROKEN: u32 = 1;

/// Bytes of what the other side says, at most.
const REASON: usize = 200;

/// Of transport error codes (RFC 9000, section 20.1).
const CONNECTION_REFUSED: u64 = 2;

/// The alert of TLS that a code stands for.
fn alert(code: u64) -> Option<u8> {
    let alert = code.checked_sub(0x100)?;
    u8::try_from(alert).ok()
}

/// A part of what the other side said, as it can be written into a log.
fn said(reason: &[u8]) -> String {
    let reason = reason.get(..REASON).unwrap_or(reason);
    String::from_utf8_lossy(reason).escape_debug().to_string()
}

fn aborted(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, text)
}

/// Why a connection ended.
pub(crate) fn lost(error: ConnectionError, handshake: &Handshake) -> io::Error {
    match error {
        ConnectionError::TransportError(error) => {
            let refused = alert(error.code.into()).and_then(|alert| handshake.refused(alert));
            refused.map_or_else(
                || {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        said(error.to_string().as_bytes()),
                    )
                },
                Into::into,
            )
        }
        ConnectionError::ConnectionClosed(close) => {
            let code = close.error_code.into();
            if let Some(refused) = alert(code).and_then(|alert| handshake.told(alert)) {
                return refused.into();
            }
            if code == CONNECTION_REFUSED {
                let text = "the other side takes no connection now";
                return io::Error::new(io::ErrorKind::ConnectionRefused, text);
            }
            aborted(format!(
                "the other side gave the connection up: {}",
                said(close.to_string().as_bytes())
            ))
        }
        ConnectionError::ApplicationClosed(close)
            if close.error_code == VarInt::from_u32(CLOSED) =>
        {
            aborted("the other side closed the connection".to_owned())
        }
        ConnectionError::ApplicationClosed(close) => aborted(format!(
            "the other side closed the connection: {}",
            said(&close.reason)
        )),
        ConnectionError::Reset => io::Error::new(
            io::ErrorKind::ConnectionReset,
            "the other side does not know this connection any more",
        ),
        ConnectionError::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            "nothing came from the other side for too long",
        ),
        ConnectionError::VersionMismatch => io::Error::new(
            io::ErrorKind::InvalidData,
            "the other side speaks another version of QUIC",
        ),
        ConnectionError::LocallyClosed => aborted("this side closed the connection".to_owned()),
        ConnectionError::CidsExhausted => io::Error::other(error),
    }
}

pub(crate) fn write(error: WriteError, handshake: &Handshake) -> io::Error {
    match error {
        WriteError::ConnectionLost(error) => lost(error, handshake),
        WriteError::Stopped(_) => aborted("the other side reads no more from a stream".to_owned()),
        WriteError::ClosedStream | WriteError::ZeroRttRejected => {
            io::Error::new(io::ErrorKind::BrokenPipe, error)
        }
    }
}

pub(crate) fn read(error: ReadError, handshake: &Handshake) -> io::Error {
    match error {
        ReadError::ConnectionLost(error) => lost(error, handshake),
        ReadError::Reset(_) => aborted("the other side gave a stream up".to_owned()),
        error => io::Error::other(error),
    }
}

pub(crate) fn read_exact(error: ReadExactError, handshake: &Handshake) -> io::Error {
    match error {
        ReadExactError::ReadError(error) => read(error, handshake),
        ReadExactError::FinishedEarly(_) => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it ended a stream before it said which it is",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_cut_and_escaped() {
        assert_eq!(said(b"a\nb\x1b[2J\xff"), "a\\nb\\u{1b}[2J\u{fffd}");
        assert_eq!(said(&[b'x'; 1000]).len(), REASON);
        assert_eq!(alert(0x12a), Some(42));
        assert_eq!(alert(2), None);
        assert_eq!(alert(0x200), None);
    }
}
