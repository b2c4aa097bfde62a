//! Certificates, keys and rules, and reading them anew.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WantsServerCert};
use rustls::version::TLS13;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig};
use webpki::{CertRevocationList, KeyUsage, OwnedCertRevocationList};

use super::verify::{self, Verifier};
use super::{ALPN, Admit, Handshake};
use crate::lock::lock;
use crate::transport::{Identity, Refused};

/// Where something in PEM is.
#[derive(Clone)]
enum Source {
    File(PathBuf),
    Pem(Arc<[u8]>),
}

impl Source {
    fn read(&self) -> Result<Arc<[u8]>, TlsError> {
        match self {
            Self::Pem(bytes) => Ok(Arc::clone(bytes)),
            Self::File(file) => fs::read(file).map(Into::into).map_err(|error| {
                let file = file.clone();
                TlsError::Read { file, error }
            }),
        }
    }

    /// Changes when the file does.
    fn stamp(&self) -> Option<(SystemTime, u64)> {
        let Self::File(file) = self else { return None };
        let metadata = fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }

    fn bad(&self, what: &'static str, problem: impl fmt::Display) -> TlsError {
        let source = match self {
            Self::File(file) => file.display().to_string(),
            Self::Pem(_) => "what was given as PEM".to_owned(),
        };
        TlsError::Content {
            what,
            source,
            problem: problem.to_string(),
        }
    }
}

/// The file, never what is in it.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.fmt(f),
            Self::Pem(_) => f.write_str("PEM"),
        }
    }
}

/// Sets up [`Tls`]: the cluster's authorities, this node's certificate and key, and who is let in.
///
/// Nothing secret is in its `Debug` output, or in logs and errors.
#[derive(Clone)]
pub struct TlsConfig {
    authorities: Source,
    chain: Source,
    key: Source,
    revoked: Vec<Source>,
    admit: Option<Admit>,
    reload_every: Duration,
}

impl TlsConfig {
    const fn new(authorities: Source, chain: Source, key: Source) -> Self {
        Self {
            authorities,
            chain,
            key,
            revoked: Vec::new(),
            admit: None,
            reload_every: Duration::from_secs(10),
        }
    }

    /// Of PEM files: the certificates of the cluster's authorities; this node's certificate and what lies between it and an
    /// authority; its private key. They are read again when they change, see [`TlsConfig::reload_every`].
    pub fn from_files(
        authorities: impl Into<PathBuf>,
        chain: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        Self::new(
            Source::File(authorities.into()),
            Source::File(chain.into()),
            Source::File(key.into()),
        )
    }

    /// Of the files `ca.pem`, `<name>.pem` and `<name>.key` in a directory, and `revoked.pem` if it is there now.
    pub fn from_dir(directory: impl AsRef<Path>, name: &str) -> Self {
        let directory = directory.as_ref();
        let config = Self::from_files(
            directory.join("ca.pem"),
            directory.join(format!("{name}.pem")),
            directory.join(format!("{name}.key")),
        );
        let revoked = directory.join("revoked.pem");
        if revoked.exists() {
            return config.revoked_file(revoked);
        }
        config
    }

    /// Of PEM in memory, as in [`TlsConfig::from_files`].
    pub fn from_pem(
        authorities: impl Into<Vec<u8>>,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        let [authorities, chain, key] = [authorities.into(), chain.into(), key.into()];
        Self::new(
            Source::Pem(authorities.into()),
            Source::Pem(chain.into()),
            Source::Pem(key.into()),
        )
    }

    /// A PEM file with lists of revoked certificates. Once there is a list, each peer's certificate must be good by a list of
    /// its issuer: of an issuer without a list none is. That a list should have been followed by a newer one is no
    /// reason to refuse anybody.
    #[must_use]
    pub fn revoked_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.revoked.push(Source::File(file.into()));
        self
    }

    /// The same, in memory.
    #[must_use]
    pub fn revoked_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.revoked.push(Source::Pem(pem.into().into()));
        self
    }

    /// Only peers of which it says `true` are let in, and dialed nodes only linked with. Called in every handshake, by a
    /// thread of the runtime: it must not block. Default: everybody with a certificate of the cluster.
    #[must_use]
    pub fn admit(mut self, admit: impl Fn(&Identity) -> bool + Send + Sync + 'static) -> Self {
        self.admit = Some(Arc::new(admit));
        self
    }

    /// Only peers of these names are let in; see [`TlsConfig::admit`], which it replaces.
    #[must_use]
    pub fn admit_only<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        self.admit(move |peer| names.contains(peer.name()))
    }

    /// How often, at most, a new connection looks whether a file has changed; if one has, all are read again. New connections use
    /// what was read, standing ones go on. What cannot be used is logged with WARN, and the former stays. Default: 10 s.
    ///
    /// Looking takes some microseconds of the thread that accepts or dials; reading, about a millisecond.
    #[must_use]
    pub const fn reload_every(mut self, interval: Duration) -> Self {
        self.reload_every = interval;
        self
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    /// [`TlsError`]: a file cannot be read or used, or this node's certificate would be refused by its own rules.
    pub fn build(self) -> Result<Tls, TlsError> {
        let seen = self.stamp();
        let loaded = Arc::new(self.load()?);
        Ok(Tls(Arc::new(Inner {
            identity: loaded.identity.clone(),
            state: Mutex::new(State {
                loaded,
                seen,
                look_at: Instant::now() + self.reload_every,
            }),
            config: self,
        })))
    }

    fn stamp(&self) -> Vec<Option<(SystemTime, u64)>> {
        [&self.authorities, &self.chain, &self.key]
            .into_iter()
            .chain(&self.revoked)
            .map(Source::stamp)
            .collect()
    }

    fn load(&self) -> Result<Loaded, TlsError> {
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.authorities, "the authorities' certificates")? {
            roots
                .add(authority)
                .map_err(|error| self.authorities.bad("the authorities' certificates", error))?;
        }
        let what = "this node's certificate";
        let chain = certificates(&self.chain, what)?;
        let (certificate, rest) = chain
            .split_first()
            .ok_or_else(|| self.chain.bad(what, "there is none"))?;
        let identity = verify::identity(certificate).map_err(TlsError::Own)?;
        let mut crls = Vec::new();
        for source in &self.revoked {
            crls.extend(revocations(source)?);
        }
        let crls: Arc<[_]> = crls.into();
        let own = Verifier {
            roots: Arc::new(roots),
            crls: Arc::clone(&crls),
            algorithms: provider.signature_verification_algorithms,
            cluster: identity.cluster().into(),
            admit: None,
            refused: None,
        };
        own.verify(certificate, rest, UnixTime::now(), KeyUsage::client_auth())
            .map_err(TlsError::Own)?;
        let verifier = Arc::new(Verifier {
            admit: self.admit.clone(),
            ..own
        });
        let pem = self.key.read()?;
        let key = || {
            PrivateKeyDer::from_pem_slice(&pem)
                .map_err(|error| self.key.bad("this node's key", error))
        };
        let (client, server) = configs(&provider, &verifier, &chain, key()?, key()?)
            .map_err(|error| self.key.bad("this node's key", error))?;
        Ok(Loaded {
            identity,
            verifier,
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }
}

/// TLS 1.3, both sides show certificates, and no session is taken up again: each connection is judged anew.
fn configs(
    provider: &Arc<CryptoProvider>,
    verifier: &Arc<Verifier>,
    chain: &[CertificateDer<'static>],
    client_key: PrivateKeyDer<'static>,
    server_key: PrivateKeyDer<'static>,
) -> Result<(ClientConfig, ServerConfig), rustls::Error> {
    let mut client = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(verifier) as _)
        .with_client_auth_cert(chain.to_vec(), client_key)?;
    client.resumption = Resumption::disabled();
    client.enable_early_data = false;
    client.enable_sni = false;
    client.alpn_protocols = vec![ALPN.to_vec()];
    let server = accepting(provider, verifier)?.with_single_cert(chain.to_vec(), server_key)?;
    Ok((client, closed(server)))
}

fn accepting(
    provider: &Arc<CryptoProvider>,
    verifier: &Arc<Verifier>,
) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, rustls::Error> {
    Ok(ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::clone(verifier) as _))
}

fn closed(mut server: ServerConfig) -> ServerConfig {
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    server.max_early_data_size = 0;
    server.alpn_protocols = vec![ALPN.to_vec()];
    server
}

fn certificates(
    source: &Source,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = source.read()?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| source.bad(what, error))?;
    if certificates.is_empty() {
        return Err(source.bad(what, "there is none"));
    }
    Ok(certificates)
}

fn revocations(source: &Source) -> Result<Vec<CertRevocationList<'static>>, TlsError> {
    let what = "the list of revoked certificates";
    let pem = source.read()?;
    let mut lists = Vec::new();
    for list in CertificateRevocationListDer::pem_slice_iter(&pem) {
        let list = list.map_err(|error| source.bad(what, error))?;
        let list =
            OwnedCertRevocationList::from_der(&list).map_err(|error| source.bad(what, error))?;
        lists.push(list.into());
    }
    if lists.is_empty() {
        return Err(source.bad(what, "there is none"));
    }
    Ok(lists)
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig")
            .field("authorities", &self.authorities)
            .field("chain", &self.chain)
            .field("key", &self.key)
            .field("revoked", &self.revoked)
            .finish_non_exhaustive()
    }
}

struct Loaded {
    identity: Identity,
    verifier: Arc<Verifier>,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

struct State {
    loaded: Arc<Loaded>,
    /// What the files looked like when they were read last, whatever became of it.
    seen: Vec<Option<(SystemTime, u64)>>,
    look_at: Instant,
}

struct Inner {
    config: TlsConfig,
    identity: Identity,
    state: Mutex<State>,
}

/// Who this node is, and who its peers may be. Cheap to clone; all clones are read anew together. Made by
/// [`TlsConfig::build`].
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

impl Tls {
    /// Who this node is by its certificate. Stays the same as long as the node runs.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Reads the files again now, changed or not.
    ///
    /// # Errors
    /// [`TlsError`]: they cannot be used, or are somebody else's; what was there stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let mut state = lock(&self.0.state);
        state.seen = self.0.config.stamp();
        self.load(&mut state)
    }

    fn load(&self, state: &mut State) -> Result<(), TlsError> {
        let loaded = self.0.config.load()?;
        if loaded.identity != self.0.identity {
            return Err(TlsError::Changed {
                was: self.0.identity.clone(),
                is: loaded.identity,
            });
        }
        state.loaded = Arc::new(loaded);
        Ok(())
    }

    fn current(&self) -> Arc<Loaded> {
        let mut state = lock(&self.0.state);
        let now = Instant::now();
        if state.look_at <= now {
            state.look_at = now + self.0.config.reload_every;
            let stamp = self.0.config.stamp();
            if stamp != state.seen {
                state.seen = stamp;
                match self.load(&mut state) {
                    Ok(()) => {
                        tracing::info!(identity = %self.0.identity, "read certificates again")
                    }
                    Err(error) => tracing::warn!(
                        identity = %self.0.identity,
                        "the certificates that were there stay in use: {error}"
                    ),
                }
            }
        }
        Arc::clone(&state.loaded)
    }

    /// For dialing: what [`rustls`] needs, as of now. Ask for it for each connection.
    #[must_use]
    pub fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current().client)
    }

    /// For accepting, likewise.
    #[must_use]
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().server)
    }

    /// [`Tls::client_config`] for one connection of a transport whose own TLS hands on alerts instead of errors, as that of
    /// QUIC does, and what it means.
    ///
    /// # Errors
    /// None are known.
    pub fn dialing(&self) -> Result<(ClientConfig, Handshake), rustls::Error> {
        let loaded = self.current();
        let (verifier, handshake) = watched(&loaded);
        let mut client = ClientConfig::clone(&loaded.client);
        client.dangerous().set_certificate_verifier(verifier);
        Ok((client, handshake))
    }

    /// [`Tls::server_config`], likewise.
    ///
    /// # Errors
    /// None are known.
    pub fn accepting(&self) -> Result<(ServerConfig, Handshake), rustls::Error> {
        let loaded = self.current();
        let (verifier, handshake) = watched(&loaded);
        let server = accepting(loaded.server.crypto_provider(), &verifier)?
            .with_cert_resolver(Arc::clone(&loaded.server.cert_resolver));
        Ok((closed(server), handshake))
    }
}

/// For one handshake, with a place for why the peer is refused.
fn watched(loaded: &Loaded) -> (Arc<Verifier>, Handshake) {
    let handshake = Handshake::default();
    let verifier = Verifier {
        refused: Some(Arc::clone(&handshake.refused)),
        ..Verifier::clone(&loaded.verifier)
    };
    (Arc::new(verifier), handshake)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("identity", &self.0.identity)
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}

/// Why certificates and keys cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What was read is no good.
    Content {
        /// What it should be.
        what: &'static str,
        /// The file.
        source: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Others would refuse this node's certificate.
    Own(Refused),
    /// What was read again is not this node's.
    Changed {
        /// Who it was.
        was: Identity,
        /// Who it would be.
        is: Identity,
    },
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { file, error } => write!(f, "cannot read {}: {error}", file.display()),
            Self::Content {
                what,
                source,
                problem,
            } => write!(f, "{what} ({source}) cannot be used: {problem}"),
            Self::Own(refused) => write!(f, "this node would be refused: {refused}"),
            Self::Changed { was, is } => {
                write!(f, "the certificate is for {is}, this node is {was}")
            }
        }
    }
}

impl core::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read { error, .. } => Some(error),
            Self::Own(refused) => Some(refused),
            Self::Content { .. } | Self::Changed { .. } => None,
        }
    }
}
