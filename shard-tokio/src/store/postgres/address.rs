//! Where the server is, and whether one may go there without encryption.

use core::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::store::StoreError;

/// What a URL says. Never shows the password.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) config: Config,
    /// For people.
    pub(super) place: String,
}

impl Address {
    /// Reads the URL. None of the errors repeats a part of it in which a password could be.
    pub(super) fn parse(url: &str, encrypted: bool, plaintext: bool) -> Result<Self, StoreError> {
        let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
        // Otherwise what is behind the first one, the rest of a password, would be taken for a host and be shown.
        if is_url && url.matches('@').count() > 1 {
            return Err(setting(
                "has more than one `@`: write those of the user's name and the password as `%40`",
            ));
        }
        let mut config: Config = url.parse().map_err(|error| unreadable(&error))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(setting(
                "names no server: write it as in `postgres://user:password@host/database`, or \
                 `host=/run/postgresql dbname=…` for a socket",
            ));
        }
        if encrypted {
            // What is `prefer` would go on in plain text where the server has no TLS.
            config.ssl_mode(SslMode::Require);
        } else if config.get_ssl_mode() == SslMode::Require {
            return Err(setting(
                "says `sslmode=require`: this takes a TLS connector, given by `.with_tls(…)`",
            ));
        } else if let (false, Some(foreign)) = (plaintext, foreign(&config)) {
            return Err(StoreError::Setting(format!(
                "the PostgreSQL server {foreign} is not on this machine, and without TLS passwords and state are \
                 readable on the way: give a TLS connector by `.with_tls(…)`, or say `.with_plaintext(true)` if the network \
                 protects it"
            )));
        } else {
            config.ssl_mode(SslMode::Disable);
        }
        if config.get_application_name().is_none() {
            config.application_name("shard");
        }
        // Of several servers the one that takes writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let place = place(&config);
        Ok(Self { config, place })
    }

    /// Says how long the system may try, unless the URL does.
    pub(super) fn timeouts(&mut self, connect: Duration, unanswered: Duration) {
        if self.config.get_connect_timeout().is_none() {
            self.config.connect_timeout(connect);
        }
        if self.config.get_tcp_user_timeout().is_none() {
            self.config.tcp_user_timeout(unanswered);
        }
    }
}

fn setting(what: &str) -> StoreError {
    StoreError::Setting(format!("the URL of the PostgreSQL store {what}"))
}

fn unreadable(error: &tokio_postgres::Error) -> StoreError {
    let cause = core::error::Error::source(error).map(ToString::to_string);
    // Those are about values that have names; others repeat what they do not understand.
    match cause {
        Some(cause) if cause.starts_with("invalid value for option") => {
            StoreError::Setting(format!("the URL of the PostgreSQL store has an {cause}"))
        }
        _ => setting(
            "cannot be read: write it as in `postgres://user:password@host:5432/database`, with other than letters \
             and digits percent-encoded in the password",
        ),
    }
}

/// The first server that is not on this machine.
fn foreign(config: &Config) -> Option<String> {
    let names = config.get_hosts();
    let addresses = config.get_hostaddrs();
    (0..names.len().max(addresses.len())).find_map(|index| {
        // As the connection does: the address counts if there is one.
        if let Some(address) = addresses.get(index) {
            return (!address.is_loopback()).then(|| address.to_string());
        }
        match names.get(index)? {
            Host::Tcp(name) => (!is_local(name)).then(|| name.clone()),
            #[cfg(unix)]
            Host::Unix(_) => None,
        }
    })
}

fn is_local(name: &str) -> bool {
    name.parse()
        .map_or(name == "localhost", |address: core::net::IpAddr| {
            address.is_loopback()
        })
}

fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let names: Vec<_> = config.get_hosts().iter().map(name).collect();
    let addresses: Vec<_> = config
        .get_hostaddrs()
        .iter()
        .map(ToString::to_string)
        .collect();
    let shown = if names.is_empty() { addresses } else { names };
    let servers: Vec<_> = shown
        .iter()
        .enumerate()
        .map(|(index, name)| format!("{name}:{}", port(index)))
        .collect();
    let database = config.get_dbname().or(config.get_user());
    format!(
        "PostgreSQL database \"{}\" at {}",
        database.unwrap_or("of this user's name"),
        servers.join(", ")
    )
}

fn name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        let error = Address::parse(url, false, false).unwrap_err();
        let StoreError::Setting(text) = error else {
            panic!("{error}");
        };
        text
    }

    #[test]
    fn this_machine_needs_no_encryption() {
        for url in [
            "postgres://u:secret@localhost/d",
            "postgres://u:secret@127.0.0.1:5433/d",
            "postgresql://u:secret@[::1]/d",
            "postgres://u:secret@%2Frun%2Fpostgresql/d",
            "host=/run/postgresql user=u dbname=d",
            "host=db.example.org hostaddr=127.0.0.1 user=u",
        ] {
            let address = Address::parse(url, false, false).expect(url);
            assert!(!format!("{address:?}").contains("secret"), "{address:?}");
        }
    }

    #[test]
    fn other_machines_do() {
        for url in [
            "postgres://u:secret@db.example.org/d",
            "postgres://u:secret@192.0.2.1/d",
            "postgres://u:secret@localhost,192.0.2.1/d",
            "host=localhost hostaddr=192.0.2.1 password=secret",
        ] {
            let text = refused(url);
            assert!(text.contains(".with_plaintext(true)"), "{text}");
            assert!(text.contains("192.0.2.1") || text.contains("db.example.org"));
            assert!(!text.contains("secret"), "{text}");
            assert!(Address::parse(url, false, true).is_ok());
            let encrypted = Address::parse(url, true, false).unwrap();
            assert_eq!(encrypted.config.get_ssl_mode(), SslMode::Require);
        }
        assert!(refused("postgres://u@localhost/d?sslmode=require").contains(".with_tls("));
    }

    #[test]
    fn a_bad_url_is_explained_without_its_password() {
        for (url, expected) in [
            ("postgres://u:top@secret@localhost/d", "%40"),
            ("postgres://u:secret@localhost:port/d", "`port`"),
            ("postgres://u@localhost/d?secret=1", "cannot be read"),
            ("http://u:secret@localhost/d", "cannot be read"),
            ("postgres://", "names no server"),
            ("", "names no server"),
        ] {
            let text = refused(url);
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn the_place_is_shown_without_user_and_password() {
        let address = Address::parse("postgres://u:secret@127.0.0.1:99/d", false, false).unwrap();
        assert_eq!(address.place, "PostgreSQL database \"d\" at 127.0.0.1:99");
    }
}
