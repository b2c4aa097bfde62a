//! Authorities and certificates, good and bad ones, in memory.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use shard_tokio::{Tls, TlsConfig};

/// An authority.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Certified {
    pub chain: String,
    pub key: String,
    pub serial: u64,
}

/// When a certificate is good.
#[derive(Clone, Copy)]
pub enum When {
    Now,
    Past,
    Future,
}

impl Default for Authority {
    fn default() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "an authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }
}

impl Authority {
    pub fn new() -> Self {
        Self::default()
    }

    /// Good now, for a node of the cluster "test".
    pub fn node(&self, name: &str) -> Certified {
        self.sign(&[&format!("shard://test/{name}")], When::Now)
    }

    pub fn sign(&self, uris: &[&str], when: When) -> Certified {
        let mut params = CertificateParams::default();
        let uris = uris.iter().map(|uri| (*uri).try_into().unwrap());
        params.subject_alt_names = uris.map(SanType::URI).collect();
        params
            .subject_alt_names
            .push(SanType::DnsName("somewhere.example".try_into().unwrap()));
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let (from, to) = match when {
            When::Now => (2020, 2200),
            When::Past => (2000, 2001),
            When::Future => (2200, 2201),
        };
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let key = KeyPair::generate().unwrap();
        let serial = u64::from_be_bytes(key.public_key_raw()[8..16].try_into().unwrap()) >> 1;
        params.serial_number = Some(SerialNumber::from(serial));
        Certified {
            chain: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
            serial,
        }
    }

    /// A list of revoked certificates.
    pub fn revoke(&self, certificates: &[&Certified]) -> String {
        let revoked = certificates.iter().map(|it| RevokedCertParams {
            serial_number: SerialNumber::from(it.serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(2200, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    pub fn config(&self, certified: &Certified) -> TlsConfig {
        TlsConfig::from_pem(&*self.pem, &*certified.chain, &*certified.key)
    }

    /// What the node of that name needs.
    pub fn tls(&self, name: &str) -> Tls {
        self.config(&self.node(name)).build().unwrap()
    }
}

/// The cases that are refused for the certificate: what the certificate is, and what is said of it.
pub fn bad(ca: &Authority) -> Vec<(Option<Certified>, &'static str)> {
    let other = Authority::new();
    let good = "shard://test/x";
    vec![
        (Some(ca.sign(&[good], When::Past)), "has expired"),
        (Some(ca.sign(&[good], When::Future)), "is not valid yet"),
        (
            Some(other.node("x")),
            "is not from this cluster's authority",
        ),
        (Some(ca.sign(&[], When::Now)), "does not say who it is"),
        (
            Some(ca.sign(&[good, "shard://test/y"], When::Now)),
            "does not say who it is",
        ),
        (
            Some(ca.sign(&["shard://test/x/y"], When::Now)),
            "does not say who it is",
        ),
        (
            Some(ca.sign(&["shard://elsewhere/x"], When::Now)),
            "is for another cluster",
        ),
        (Some(ca.node("revoked")), "was revoked"),
        (Some(ca.node("stranger")), "not among those"),
    ]
}

/// What a node that refuses `revoked` and does not admit `stranger` needs.
pub fn strict(ca: &Authority, name: &str, revoked: &[&Certified]) -> TlsConfig {
    ca.config(&ca.node(name))
        .revoked_pem(ca.revoke(revoked))
        .admit(|peer| peer.name() != "stranger")
}
