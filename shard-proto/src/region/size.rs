//! How many shards of the type are used: what this region knows of it, and what it wants.

use core::fmt;

use super::machine::Machine;
use super::{Command, ControlError};
use crate::wire::Control;
use crate::wire::control::{Resize, Size};
use crate::{Instant, Term};

/// What a region knows of the size of its type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizing {
    /// The newest that was heard of, under any reign.
    pub(super) known: Size,
    /// What is asked for until it holds.
    wanted: Option<u32>,
    /// When to ask, or to ask again.
    ask_at: Option<Instant>,
}

/// Why a region does not ask for another size. State is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeError {
    /// The type always uses all shards.
    Fixed,
    /// More than the shard count.
    TooMany {
        /// The shard count.
        max: u32,
    },
    /// The region has stopped.
    Stopped,
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.write_str("the type uses all of its shards, always"),
            Self::TooMany { max } => {
                write!(f, "the type has {max} shards, a constant of the cluster")
            }
            Self::Stopped => f.write_str("the region has stopped"),
        }
    }
}

impl core::error::Error for ResizeError {}

impl Machine {
    /// See [`Region::used`](super::Region::used).
    pub(super) fn used(&self) -> u32 {
        let count = match self.config.used {
            None => self.config.shard_count,
            Some(_) if self.sizing.known.version.to_bits() > 0 => self.sizing.known.count,
            Some(count) => count,
        };
        count.min(self.config.shard_count)
    }

    /// See [`Region::resize`](super::Region::resize).
    pub(super) fn resize(&mut self, count: u32) -> Result<(), ResizeError> {
        if self.config.used.is_none() {
            return Err(ResizeError::Fixed);
        }
        if count > self.config.shard_count {
            return Err(ResizeError::TooMany {
                max: self.config.shard_count,
            });
        }
        if self.stopping {
            return Err(ResizeError::Stopped);
        }
        self.sizing.wanted = Some(count);
        self.sizing.ask_at = Some(self.now);
        Ok(())
    }

    /// What the coordinator says.
    pub(super) fn resized(&mut self, size: Size, term: Term) -> Result<(), ControlError> {
        if size.version.term() > term || size.count > self.config.shard_count {
            return Err(ControlError::Malformed);
        }
        if self.config.used.is_none() || size.version < self.sizing.known.version {
            return Ok(());
        }
        self.sizing.known = size;
        if self.sizing.wanted == Some(size.count) {
            self.sizing.wanted = None;
            self.sizing.ask_at = None;
        } else if self.sizing.wanted.is_some() {
            // Another one was decided in between: asked for again, after it.
            self.sizing.ask_at = Some(self.now);
        }
        Ok(())
    }

    /// See [`Region::is_resizing`](super::Region::is_resizing).
    pub(super) const fn is_resizing(&self) -> bool {
        self.sizing.wanted.is_some()
    }

    /// When to ask for another size.
    pub(super) fn resize_due(&self) -> Option<Instant> {
        self.sizing.ask_at.filter(|_| self.registration.confirmed)
    }

    /// Asks for another size, if it is time.
    pub(super) fn ask_resize<P>(&mut self) -> Option<Command<'static, P>> {
        if self.stopping || self.resize_due().is_none_or(|at| at > self.now) {
            return None;
        }
        let (to, count) = (self.leader?.node, self.sizing.wanted?);
        self.sizing.ask_at = Some(self.now.after(self.config.retry_interval));
        let resize = Resize {
            after: self.sizing.known.version,
            count,
        };
        Some(Command::Send {
            to,
            control: Control::Resize(resize),
        })
    }
}
