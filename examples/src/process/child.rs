//! A node process, as the program sees it that started it.

use std::{
    io::{BufRead, BufReader, Write},
    process::{self, ChildStdin, Command, Stdio},
    thread,
};

use tokio::sync::watch;

use super::{Event, LEAVE, MEMBER, Orders, STOP, within};
use crate::failure::Failure;

/// A node process. Killed when dropped.
#[derive(Debug)]
pub struct Child {
    name: String,
    address: Option<String>,
    process: process::Child,
    stdin: Option<ChildStdin>,
    events: Events,
    leaving: bool,
}

/// What a process said last; closed when it ends.
#[derive(Clone, Debug)]
pub struct Events {
    name: String,
    last: watch::Receiver<Option<Event>>,
}

impl Events {
    async fn wait(mut self, what: &str, said: impl Fn(&Event) -> bool) -> Result<Event, Failure> {
        let told = format!("{} {what}", self.name);
        let said = |event: &Option<Event>| event.as_ref().is_some_and(&said);
        let waited = within(&told, self.last.wait_for(said)).await?;
        match waited.map(|event| event.clone()) {
            Ok(Some(event)) => Ok(event),
            _ => Err(Failure::run(format!(
                "{} ended before it {what}",
                self.name
            ))),
        }
    }

    /// Waits until the process takes part.
    ///
    /// # Errors
    /// It ended before, or took too long.
    pub async fn joined(self) -> Result<(), Failure> {
        let joined = |event: &Event| !matches!(event, Event::Listens(_));
        self.wait("joins", joined).await.map(|_| ())
    }

    /// Waits until the process has left.
    ///
    /// # Errors
    /// It ended otherwise, or took too long.
    pub async fn left(self) -> Result<(), Failure> {
        let left = |event: &Event| matches!(event, Event::Left);
        self.wait("has left", left).await.map(|_| ())
    }
}

impl Child {
    /// Starts a process of the same program.
    ///
    /// # Errors
    /// It cannot start.
    pub fn spawn(orders: &Orders) -> Result<Self, Failure> {
        orders.shape.certify(&orders.name)?;
        let json = serde_json::to_string(orders).map_err(Failure::run)?;
        let mut process = Command::new(std::env::current_exe()?)
            .args([MEMBER, &json])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::run(format!("{} cannot start: {error}", orders.name)))?;
        let (said, last) = watch::channel(None);
        if let Some(stdout) = process.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if let Ok(event) = serde_json::from_str(&line) {
                        said.send_replace(Some(event));
                    }
                }
            });
        }
        Ok(Self {
            name: orders.name.clone(),
            address: None,
            stdin: process.stdin.take(),
            process,
            events: Events {
                name: orders.name.clone(),
                last,
            },
            leaving: false,
        })
    }

    /// Its node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens; known once it has started and until it leaves.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref().filter(|_| !self.leaving)
    }

    /// Whether it was told to leave.
    #[must_use]
    pub const fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// What it says.
    #[must_use]
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// Waits until its address is known.
    ///
    /// # Errors
    /// It ended before, or took too long.
    pub async fn listens(&mut self) -> Result<(), Failure> {
        let event = self.events().wait("starts", |_| true).await?;
        if let Event::Listens(address) | Event::Ready(address) = event {
            self.address = Some(address);
        }
        Ok(())
    }

    /// Waits until it takes part.
    ///
    /// # Errors
    /// It ended before, or took too long.
    pub async fn ready(&mut self) -> Result<(), Failure> {
        self.listens().await?;
        self.events().joined().await
    }

    /// Tells it to hand its shards over and end.
    pub fn leave(&mut self) {
        self.leaving = true;
        self.tell(LEAVE);
    }

    /// Tells it to end.
    pub fn stop(&mut self) {
        self.tell(STOP);
    }

    /// A process that has ended hears nothing, which is found out elsewhere.
    fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }

    /// Ends it, without a chance to say or write anything more.
    ///
    /// # Errors
    /// The system does not let this process do so.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Stops it where it is, until it is woken; it notices only by its clock.
    ///
    /// # Errors
    /// The system does not let this process do so.
    #[cfg(unix)]
    pub fn freeze(&self) -> Result<(), Failure> {
        self.signal(rustix::process::Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// The system does not let this process do so.
    #[cfg(unix)]
    pub fn wake(&self) -> Result<(), Failure> {
        self.signal(rustix::process::Signal::CONT)
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) -> Result<(), Failure> {
        let id = i32::try_from(self.process.id()).ok();
        let id = id.and_then(rustix::process::Pid::from_raw);
        let id = id.ok_or_else(|| Failure::run(format!("{} has no process id", self.name)))?;
        rustix::process::kill_process(id, signal).map_err(Failure::run)
    }

    /// Not on this system.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(unix))]
    pub fn freeze(&self) -> Result<(), Failure> {
        Err(Failure::usage(
            "this system cannot stop a process and let it go on",
        ))
    }

    /// Not on this system.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(unix))]
    pub fn wake(&self) -> Result<(), Failure> {
        self.freeze()
    }

    /// How many bytes of memory it uses.
    ///
    /// # Errors
    /// The system does not say: it is not Linux.
    pub fn memory(&self) -> Result<u64, Failure> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(&path)
            .map_err(|error| Failure::run(format!("{path}: {error}")))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|text| text.trim().strip_suffix(" kB"));
        let kilobytes = kilobytes.and_then(|text| text.parse::<u64>().ok());
        kilobytes
            .map(|kilobytes| 1024 * kilobytes)
            .ok_or_else(|| Failure::run(format!("{path} does not say how much memory is used")))
    }

    /// Whether the process has ended.
    ///
    /// # Errors
    /// The system does not say.
    pub fn has_ended(&mut self) -> Result<bool, Failure> {
        Ok(self.process.try_wait()?.is_some())
    }

    /// Waits until the process has ended, and checks that it ended well.
    ///
    /// # Errors
    /// It did not, or took too long.
    pub async fn ended(&mut self) -> Result<(), Failure> {
        self.stdin = None;
        let mut last = self.events.last.clone();
        let closed = async { while last.changed().await.is_ok() {} };
        within(&format!("{} has ended", self.name), closed).await?;
        let status = self.process.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::run(format!("{} ended with {status}", self.name)))
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
