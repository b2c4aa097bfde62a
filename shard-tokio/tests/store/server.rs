//! A PostgreSQL server of the tests' own: in a folder of its own, gone when the test process is.

use core::sync::atomic::{AtomicU32, Ordering};
use std::env;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Turns a skip into a failure.
const REQUIRED: &str = "SHARD_REQUIRE_POSTGRES";
/// The superuser's password, which is asked for by TCP and not on the socket.
pub(crate) const PASSWORD: &str = "correct-horse";
/// Somebody may take the port between looking for it and listening there.
const ATTEMPTS: usize = 8;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    /// Who runs it, if not who runs the tests: PostgreSQL refuses root.
    user: Option<(u32, u32)>,
    /// Stops the server and removes its folder when its input ends: also if this process is killed.
    guard: Option<Child>,
}

impl Server {
    /// Starts one, in some two seconds. `None`, and a line to stderr, where its programs are not installed.
    pub(crate) fn start() -> Option<Self> {
        let Some(programs) = find() else {
            assert!(
                env::var_os(REQUIRED).is_none(),
                "no PostgreSQL: no `initdb` and `pg_ctl` in PATH or /usr/lib/postgresql/*/bin, and {REQUIRED} is set"
            );
            eprintln!("skipped: no PostgreSQL");
            return None;
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Short: the name of a socket is 107 bytes at most.
        let folder = env::temp_dir().join(format!("shard-pg-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a temporary folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let root = fs::metadata(&folder).unwrap().uid() == 0;
        let user = root.then(|| account().expect("a user other than root to run PostgreSQL"));
        fs::write(folder.join("password"), PASSWORD).unwrap();
        if let Some((user, group)) = user {
            for path in [folder.join("password"), folder.clone()] {
                chown(path, Some(user), Some(group)).unwrap();
            }
        }
        let mut server = Self {
            programs,
            folder,
            port: 0,
            user,
            guard: None,
        };
        server.guard = Some(server.guard());
        let data = server.data();
        server.run(
            "initdb",
            &[
                "--pgdata",
                &data,
                "--username=shard",
                "--pwfile=password",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                "--no-locale",
                "--encoding=UTF8",
                "--no-sync",
            ],
        );
        let found = (0..ATTEMPTS).any(|_| {
            server.port = free_port();
            server.try_start()
        });
        assert!(found, "PostgreSQL does not start: {}", server.log());
        Some(server)
    }

    /// One for all tests that run at the moment.
    pub(crate) fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Some(server);
        }
        let server = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&server);
        Some(server)
    }

    /// By the socket, without a password.
    pub(crate) fn url(&self) -> String {
        let folder = self.folder.to_str().unwrap().replace('/', "%2F");
        format!("postgres://shard@{folder}:{}/postgres", self.port)
    }

    /// By TCP.
    pub(crate) fn tcp_url(&self, user: &str, password: &str, database: &str) -> String {
        format!(
            "postgres://{user}:{password}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    /// Where it listens, on 127.0.0.1.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// As after a crash of the machine: nobody is waited for, and the log is replayed.
    pub(crate) fn crash_and_start(&self) {
        self.crash();
        assert!(self.try_start(), "{}", self.log());
    }

    /// Stops it without waiting for anybody.
    pub(crate) fn crash(&self) {
        self.run(
            "pg_ctl",
            &["stop", "--mode=immediate", "--pgdata", &self.data()],
        );
    }

    /// Starts it again on the same port.
    pub(crate) fn try_start(&self) -> bool {
        let options = format!(
            "-k {} -p {} -c listen_addresses=127.0.0.1 -c fsync=off -c full_page_writes=off -c shared_buffers=32MB \
             -c max_connections=400 -c log_min_messages=warning",
            self.folder.display(),
            self.port
        );
        let log = self.folder.join("log");
        let log = log.to_str().unwrap();
        let data = self.data();
        let arguments = [
            "start",
            "--wait",
            "--pgdata",
            &data,
            "--log",
            log,
            "--options",
            &options,
        ];
        self.output("pg_ctl", &arguments).status.success()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn data(&self) -> String {
        self.folder.join("data").to_str().unwrap().to_owned()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.output(program, arguments);
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(self.programs.join(program));
        // What the server inherits must not keep a reader of this process's output waiting.
        let errors = self.folder.join("errors");
        let file = fs::File::create(&errors).expect("a file for errors");
        command.args(arguments).stdout(Stdio::null()).stderr(file);
        let status = command.status().expect("a program of PostgreSQL");
        Output {
            status,
            stdout: Vec::new(),
            stderr: fs::read(&errors).unwrap_or_default(),
        }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.env_remove("PGDATA").env_remove("PGPORT");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    fn guard(&self) -> Child {
        let mut command = self.command("/bin/sh");
        command
            .args([
                "-c",
                "cat >/dev/null; \"$0\" stop -m immediate -D \"$1/data\"; rm -rf \"$1\"",
            ])
            .arg(self.programs.join("pg_ctl"))
            .arg(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Somebody who interrupts the tests from a terminal does not mean this one.
            .process_group(0);
        command.spawn().expect("a shell")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }
}

/// A folder with the programs.
fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = env::split_paths(&path).collect();
    // Debian keeps versions apart. The newest first.
    let mut versions: Vec<_> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    versions.sort_by_key(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.parse::<u32>().ok())
    });
    folders.extend(versions.into_iter().rev().map(|path| path.join("bin")));
    let all = |folder: &Path| {
        ["initdb", "pg_ctl", "postgres"]
            .iter()
            .all(|program| folder.join(program).is_file())
    };
    folders.into_iter().find(|folder| all(folder))
}

/// Somebody who may run a server: user and group.
fn account() -> Option<(u32, u32)> {
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    ["postgres", "nobody"].iter().find_map(|wanted| {
        let line = accounts
            .lines()
            .find(|line| line.split(':').next() == Some(wanted))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().unwrap().port()
}
