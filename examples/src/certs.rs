//! A cluster's authority, and certificates of its nodes and clients, as files in a folder.

use core::time::Duration;
use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use shard_tokio::{Identity, Peer, Tls, TlsConfig};

use crate::failure::Failure;

/// Clocks of machines may differ by so much.
const BEFORE: Duration = Duration::from_secs(3600);
/// How long an authority is good.
const AUTHORITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A cluster's authority, whose certificates lie in a folder: `ca.pem` and `ca.key`, and `<name>.pem` and `<name>.key` of each
/// node and client.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    cluster: String,
    issuer: Issuer<'static, KeyPair>,
    /// It was there before.
    pub is_old: bool,
}

impl Authority {
    /// The authority in a folder, made if there is none.
    ///
    /// # Errors
    /// The cluster's name cannot be one, the folder or a file cannot be written, or what is there is no authority.
    pub fn open(folder: &Path, cluster: &str) -> Result<Self, Failure> {
        Identity::new(Peer::Node, cluster, "a").map_err(Failure::usage)?;
        fs::create_dir_all(folder).map_err(|error| about(folder, error))?;
        let (file, key_file) = (folder.join("ca.pem"), folder.join("ca.key"));
        let params = authority(cluster);
        let old = match fs::read_to_string(&key_file) {
            Ok(pem) => Some(KeyPair::from_pem(&pem).map_err(|error| about(&key_file, error))?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(about(&key_file, error)),
        };
        match (&old, file.exists()) {
            (Some(_), false) => return Err(about(&file, "it is missing, and ca.key is there")),
            (None, true) => {
                return Err(about(
                    &key_file,
                    "it is missing: without the authority's key nothing can be signed",
                ));
            }
            _ => {}
        }
        let is_old = old.is_some();
        let key = match old {
            Some(key) => key,
            None => {
                let key = KeyPair::generate().map_err(Failure::run)?;
                let certificate = params.self_signed(&key).map_err(Failure::run)?;
                write_key(&key_file, &key)?;
                write(&file, &certificate.pem())?;
                key
            }
        };
        Ok(Self {
            folder: folder.to_owned(),
            cluster: cluster.to_owned(),
            issuer: Issuer::new(params, key),
            is_old,
        })
    }

    /// Signs a certificate with a new key, in place of those that are there, and checks that it is good.
    ///
    /// # Errors
    /// The name cannot be one, a file cannot be written, or the authority that was there is of another cluster.
    pub fn sign(&self, kind: Peer, name: &str, days: u32) -> Result<Identity, Failure> {
        let identity = Identity::new(kind, &*self.cluster, name).map_err(Failure::usage)?;
        if name == "ca" || name == "revoked" {
            return Err(Failure::usage(format!(
                "the name {name:?} is taken by a file of the authority"
            )));
        }
        let mut params = CertificateParams::default();
        let uri = identity.to_string().try_into().map_err(Failure::usage)?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.distinguished_name = named(name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match kind {
            Peer::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            _ => vec![
                ExtendedKeyUsagePurpose::ClientAuth,
                ExtendedKeyUsagePurpose::ServerAuth,
            ],
        };
        last(
            &mut params,
            Duration::from_secs(u64::from(days) * 24 * 3600),
        );
        let key = KeyPair::generate().map_err(Failure::run)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(Failure::run)?;
        write_key(&self.folder.join(format!("{name}.key")), &key)?;
        write(&self.folder.join(format!("{name}.pem")), &certificate.pem())?;
        load(&self.folder, name).map_err(|failure| {
            Failure::run(format!(
                "{failure}; is {} the authority of another cluster than {:?}?",
                self.folder.join("ca.pem").display(),
                self.cluster
            ))
        })?;
        Ok(identity)
    }
}

/// What a node or client of that name needs, from a folder.
///
/// # Errors
/// It is not there, or not good.
pub fn load(folder: &Path, name: &str) -> Result<Tls, Failure> {
    let config = TlsConfig::from_dir(folder, name);
    config.build().map_err(|error| {
        Failure::usage(format!(
            "{name} has no good certificate in {}: {error}",
            folder.display()
        ))
    })
}

fn authority(cluster: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("{cluster} authority"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    last(&mut params, AUTHORITY);
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn last(params: &mut CertificateParams, time: Duration) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let epoch = date_time_ymd(1970, 1, 1);
    let now = epoch + now.unwrap_or_default();
    params.not_before = now - BEFORE;
    params.not_after = now + time;
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| about(file, error))
}

/// For the owner's eyes only, from the first byte on.
fn write_key(file: &Path, key: &KeyPair) -> Result<(), Failure> {
    if let Err(error) = fs::remove_file(file)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(about(file, error));
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut opened = options.open(file).map_err(|error| about(file, error))?;
    opened
        .write_all(key.serialize_pem().as_bytes())
        .map_err(|error| about(file, error))
}

fn about(file: &Path, error: impl core::fmt::Display) -> Failure {
    Failure::usage(format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Shelf;

    #[test]
    fn an_authority_is_used_again_and_only_for_its_cluster() {
        let shelf = Shelf::new().unwrap();
        let folder = shelf.path().join("certs");
        let first = Authority::open(&folder, "shop").unwrap();
        assert!(!first.is_old);
        first.sign(Peer::Node, "node-a", 30).unwrap();
        let authority = fs::read(folder.join("ca.pem")).unwrap();
        let again = Authority::open(&folder, "shop").unwrap();
        assert!(again.is_old);
        let client = again.sign(Peer::Client, "till", 30).unwrap();
        assert_eq!(client.to_string(), "shard-client://shop/till");
        assert_eq!(fs::read(folder.join("ca.pem")).unwrap(), authority);
        load(&folder, "node-a").unwrap();
        #[cfg(unix)]
        for key in ["ca.key", "node-a.key", "till.key"] {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(folder.join(key)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{key}");
        }
        let other = Authority::open(&folder, "elsewhere").unwrap();
        let error = other.sign(Peer::Node, "node-a", 30).unwrap_err();
        assert!(error.to_string().contains("another cluster"), "{error}");
        for (cluster, name) in [("a/b", "a"), ("shop", "a b"), ("shop", "ca"), ("", "a")] {
            let signed = Authority::open(&folder, cluster)
                .and_then(|authority| authority.sign(Peer::Node, name, 30));
            assert_eq!(signed.unwrap_err().code(), 2, "{cluster} {name}");
        }
        fs::remove_file(folder.join("ca.key")).unwrap();
        let error = Authority::open(&folder, "shop").unwrap_err();
        assert!(error.to_string().contains("ca.key"), "{error}");
    }
}
