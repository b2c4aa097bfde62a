//! One handshake of a transport that does TLS by itself.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::AlertDescription;
use rustls::pki_types::CertificateDer;

use super::{ALPN, reason, verify};
use crate::transport::{Identity, Refused};

/// What a handshake means that only says which alert ended it, as in QUIC. Made by [`Tls::dialing`](super::Tls::dialing)
/// and [`Tls::accepting`](super::Tls::accepting), with the configuration of that one handshake.
#[derive(Clone, Debug, Default)]
pub struct Handshake {
    pub(super) refused: Arc<OnceLock<Refused>>,
}

impl Handshake {
    /// Who the peer is, once the handshake is over, by what was agreed on.
    ///
    /// # Errors
    /// It speaks another protocol, or its certificate says nothing of that kind.
    pub fn identity(
        &self,
        protocol: Option<&[u8]>,
        certificates: &[CertificateDer<'_>],
    ) -> io::Result<Identity> {
        proven(protocol, Some(certificates))
    }

    /// Why this side ended the handshake, if it refused the peer, by the alert that it gave.
    #[must_use]
    pub fn refused(&self, alert: u8) -> Option<Refused> {
        let by_certificate = self.refused.get().cloned();
        by_certificate.or_else(|| reason::gave(AlertDescription::from(alert)))
    }

    /// Why the other side ended the handshake, if it refused this node, by the alert that came.
    #[must_use]
    pub fn told(&self, alert: u8) -> Option<Refused> {
        reason::told(AlertDescription::from(alert))
    }
}

pub(super) fn proven(
    protocol: Option<&[u8]>,
    certificates: Option<&[CertificateDer<'_>]>,
) -> io::Result<Identity> {
    if protocol != Some(ALPN) {
        return Err(reason::no_protocol().into());
    }
    let certificate = certificates.and_then(<[_]>::first);
    let certificate = certificate.ok_or(io::ErrorKind::InvalidData)?;
    Ok(verify::identity(certificate)?)
}
