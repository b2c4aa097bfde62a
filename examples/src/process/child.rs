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
    /// Waits until the process takes part, or until it has left.
    ///
    /// # Errors
    /// It ended before, or took too long.
    pub async fn wait(mut self, joins: bool) -> Result<Option<Event>, Failure> {
        let what = if joins { "joins" } else { "has left" };
        let said = |event: &Option<Event>| match event {
            Some(Event::Ready(_)) => joins,
            Some(Event::Left) => true,
            None => false,
        };
        let waited = within(&format!("{} {what}", self.name), self.last.wait_for(said)).await?;
        match waited {
            Ok(event) => Ok(event.clone()),
            Err(_) => Err(Failure::run(format!(
                "{} ended before it {what}",
                self.name
            ))),
        }
    }
}

impl Child {
    /// Starts a process of the same program.
    ///
    /// # Errors
    /// It cannot start.
    pub fn spawn(orders: &Orders) -> Result<Self, Failure> {
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

    /// Where it listens; known once it is ready and until it leaves.
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

    /// Waits until it takes part.
    ///
    /// # Errors
    /// It ended before, or took too long.
    pub async fn ready(&mut self) -> Result<(), Failure> {
        if let Some(Event::Ready(address)) = self.events().wait(true).await? {
            self.address = Some(address);
        }
        Ok(())
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
