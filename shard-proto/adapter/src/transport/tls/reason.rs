//! What went wrong with a handshake, in words.

use std::io;

use rustls::{AlertDescription, Error};

use super::verify::refusal;
use crate::transport::Refused;

const NO_CERTIFICATE: &str = "it showed no certificate";
const INCOMPATIBLE: &str = "it speaks no TLS 1.3 that this node speaks";

/// An error of TLS as a person should read it. Others are as they were.
pub(super) fn explain(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(tls) = tls else {
        return error;
    };
    match tls {
        Error::InvalidCertificate(error) => refusal(error).into(),
        Error::NoCertificatesPresented => Refused::new(NO_CERTIFICATE, String::new()).into(),
        Error::PeerIncompatible(error) => Refused::new(INCOMPATIBLE, format!("{error:?}")).into(),
        Error::NoApplicationProtocol => no_protocol().into(),
        Error::AlertReceived(alert) => told(*alert).map_or(error, Into::into),
        Error::InvalidMessage(_) => {
            io::Error::new(io::ErrorKind::InvalidData, "it does not speak TLS")
        }
        _ => error,
    }
}

pub(super) fn no_protocol() -> Refused {
    let detail = "the protocol `shard/1` is not among those that it offers";
    Refused::new("it speaks another protocol over TLS", detail.to_owned())
}

/// What this node means by an alert, unless the peer's certificate is what it is about.
pub(super) fn gave(alert: AlertDescription) -> Option<Refused> {
    match alert {
        AlertDescription::CertificateRequired => Some(Refused::new(NO_CERTIFICATE, String::new())),
        AlertDescription::NoApplicationProtocol => Some(no_protocol()),
        AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => {
            Some(Refused::new(INCOMPATIBLE, String::new()))
        }
        _ => None,
    }
}

/// What the other side says of this node.
pub(super) fn told(alert: AlertDescription) -> Option<Refused> {
    let reason = match alert {
        AlertDescription::CertificateExpired => {
            "the other side says that this node's certificate has expired, or is not valid yet"
        }
        AlertDescription::CertificateRevoked => {
            "the other side says that this node's certificate was revoked"
        }
        AlertDescription::UnknownCA => {
            "the other side says that this node's certificate is not from its authority"
        }
        AlertDescription::CertificateRequired => "the other side says that it saw no certificate",
        AlertDescription::CertificateUnknown
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => {
            "the other side does not let this node's certificate in; its log says why"
        }
        AlertDescription::ProtocolVersion => "the other side says that it speaks no TLS 1.3",
        AlertDescription::NoApplicationProtocol => {
            "the other side says that it speaks another protocol over TLS"
        }
        _ => return None,
    };
    Some(Refused::new(reason, String::new()))
}
