//! Whether a certificate says who a peer of this cluster is.

use core::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use webpki::{
    CertRevocationList, EndEntityCert, KeyUsage, RevocationCheckDepth, RevocationOptionsBuilder,
    UnknownStatusPolicy,
};

use super::Admit;
use crate::transport::{Identity, Peer, Refused};

pub(super) const EXPIRED: &str = "its certificate has expired";
pub(super) const NOT_YET: &str = "its certificate is not valid yet";
pub(super) const OTHER_CA: &str = "its certificate is not from this cluster's authority";
pub(super) const REVOKED: &str = "its certificate was revoked";
pub(super) const UNKNOWN_STATUS: &str = "no revocation list says whether its certificate is good";
pub(super) const NO_IDENTITY: &str = "its certificate does not say who it is";
pub(super) const OTHER_CLUSTER: &str = "its certificate is for another cluster";
pub(super) const NOT_A_NODE: &str = "its certificate is a client's, and a node's is needed";
pub(super) const NOT_ADMITTED: &str = "it is not among those that this node admits";
pub(super) const BAD: &str = "its certificate is no good";

/// The one name in a certificate.
pub(super) fn identity(certificate: &CertificateDer<'_>) -> Result<Identity, Refused> {
    let parsed = EndEntityCert::try_from(certificate)
        .map_err(|error| Refused::new(BAD, error.to_string()))?;
    let mut uris = parsed.valid_uri_names();
    let (Some(uri), None) = (uris.next(), uris.next()) else {
        let detail = "it must have one URI among its names, like `shard://<cluster>/<node>`";
        return Err(Refused::new(NO_IDENTITY, detail.to_owned()));
    };
    uri.parse()
        .map_err(|error: crate::transport::IdentityError| {
            Refused::new(NO_IDENTITY, error.to_string())
        })
}

/// Judges both sides' certificates by the same rules: not by where they were dialed, but by who they are.
#[derive(Clone)]
pub(super) struct Verifier {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) crls: Arc<[CertRevocationList<'static>]>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    pub(super) cluster: Arc<str>,
    pub(super) admit: Option<Admit>,
    /// Where to write down why a peer was refused: for one handshake.
    pub(super) refused: Option<Arc<OnceLock<Refused>>>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl Verifier {
    pub(super) fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
    ) -> Result<Identity, Refused> {
        let parsed = EndEntityCert::try_from(certificate)
            .map_err(|error| Refused::new(BAD, error.to_string()))?;
        let lists: Vec<_> = self.crls.iter().collect();
        // `None` without lists.
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::EndEntity)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .build()
        });
        let roots = &self.roots.roots;
        let algorithms = self.algorithms.all;
        parsed
            .verify_for_usage(algorithms, roots, chain, now, usage, revocation, None)
            .map_err(|error| untrusted(&error))?;
        let identity = identity(certificate)?;
        if identity.cluster() != &*self.cluster {
            return Err(Refused::new(OTHER_CLUSTER, identity.to_string()));
        }
        if self.admit.as_ref().is_some_and(|admit| !admit(&identity)) {
            return Err(Refused::new(NOT_ADMITTED, identity.to_string()));
        }
        Ok(identity)
    }

    fn refuse(&self, refused: Refused) -> Error {
        if let Some(told) = &self.refused {
            let _ = told.set(refused.clone());
        }
        alert(refused)
    }
}

fn untrusted(error: &webpki::Error) -> Refused {
    let reason = match error {
        webpki::Error::CertExpired { .. } => EXPIRED,
        webpki::Error::CertNotValidYet { .. } => NOT_YET,
        // The latter: of an authority of the same name, with another key.
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => OTHER_CA,
        webpki::Error::CertRevoked => REVOKED,
        webpki::Error::UnknownRevocationStatus => UNKNOWN_STATUS,
        _ => BAD,
    };
    let detail = match reason {
        BAD => error.to_string(),
        _ => String::new(),
    };
    Refused::new(reason, detail)
}

/// As TLS carries it: what there is an alert for, the peer is told by it; of the rest it learns that it was refused.
fn alert(refused: Refused) -> Error {
    let error = match refused.reason() {
        EXPIRED => CertificateError::Expired,
        NOT_YET => CertificateError::NotValidYet,
        OTHER_CA => CertificateError::UnknownIssuer,
        REVOKED => CertificateError::Revoked,
        UNKNOWN_STATUS => CertificateError::UnknownRevocationStatus,
        _ => CertificateError::Other(OtherError(Arc::new(refused))),
    };
    error.into()
}

/// The way back.
pub(super) fn refusal(error: &CertificateError) -> Refused {
    let reason = match error {
        CertificateError::Expired => EXPIRED,
        CertificateError::NotValidYet => NOT_YET,
        CertificateError::UnknownIssuer => OTHER_CA,
        CertificateError::Revoked => REVOKED,
        CertificateError::UnknownRevocationStatus => UNKNOWN_STATUS,
        CertificateError::Other(OtherError(inner)) => {
            if let Some(refused) = inner.downcast_ref::<Refused>() {
                return refused.clone();
            }
            BAD
        }
        _ => return Refused::new(BAD, error.to_string()),
    };
    Refused::new(reason, String::new())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let identity = self
            .verify(certificate, chain, now, KeyUsage::server_auth())
            .map_err(|refused| self.refuse(refused))?;
        if identity.kind() != Peer::Node {
            return Err(self.refuse(Refused::new(NOT_A_NODE, identity.to_string())));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(certificate, chain, now, KeyUsage::client_auth())
            .map(|_| ClientCertVerified::assertion())
            .map_err(|refused| self.refuse(refused))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
