//! Settings of links.

use core::time::Duration;

use super::lane::{Limits, Window};
use crate::node::ConfigError;
use crate::wire::HEADER_LEN;
use crate::wire::header::{DEFAULT_MAX_FRAME, MAX_CONTROL_LEN, MIN_VERSION};

/// Lanes of a pair, at most.
const MAX_LANES: u8 = 64;
/// A frame whose body is longer has its own room beside the window.
const USUAL: u32 = 64 << 10;
/// What a body has around id and payload, at most.
pub(crate) const AROUND: u32 = 64;

/// Settings of the links of one node.
#[derive(Clone, Debug)]
pub(crate) struct LinkConfig {
    /// Hash of the cluster's name; nodes of another one are refused.
    pub(crate) cluster: u64,
    /// Digest of the voters' names, 0 without voters; must be equal on all nodes.
    pub(crate) voters: u64,
    /// Longest body of a data frame, in bytes; at least that of a control frame (64 KiB).
    pub(crate) max_frame: u32,
    /// Longest message, id and payload, in bytes.
    pub(crate) max_message: u32,
    /// Longest body of a data frame that this side writes, in bytes; what is longer travels in fragments.
    pub(crate) fragment: u32,
    /// Bytes of messages of which fragments have come, per peer. It bounds the lanes: each may have a longest one.
    pub(crate) max_partial: u32,
    /// Lanes that the transport has.
    pub(crate) lanes: u8,
    /// Bytes a peer may leave unacknowledged per lane before it counts as congested.
    pub(crate) window_bytes: u32,
    /// Frames a peer may leave unacknowledged per lane before it counts as congested.
    pub(crate) window_frames: u32,
    /// How long an acknowledgement waits for something to travel with.
    pub(crate) ack_delay: Duration,
    /// Accepted bytes after which an acknowledgement does not wait.
    pub(crate) ack_bytes: u32,
    /// A link says something at least this often.
    pub(crate) keep_alive: Duration,
    /// A link that hears nothing for this long is closed.
    pub(crate) idle_timeout: Duration,
    /// How long a handshake may take.
    pub(crate) handshake: Duration,
    /// How long the adapter may take to answer a dial.
    pub(crate) dial_timeout: Duration,
    /// Pause before a dial is repeated; doubles with each failure, jitter included.
    pub(crate) retry: Duration,
    /// Longest pause between dials.
    pub(crate) max_retry: Duration,
    /// Nodes there is room for, members or not.
    pub(crate) max_peers: u16,
    /// Connections, those in handshake included.
    pub(crate) max_links: u16,
    /// Connections with one node, those in handshake included.
    pub(crate) max_links_per_peer: u16,
    /// Accepted connections that have not completed their handshake.
    pub(crate) max_handshakes: u16,
    /// Bytes of control that wait for one connection; more is dropped.
    pub(crate) control_bytes: u32,
    /// Seed of the jitter.
    pub(crate) seed: u64,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            cluster: 0,
            voters: 0,
            max_frame: DEFAULT_MAX_FRAME,
            max_message: 64 << 20,
            fragment: 64 << 10,
            max_partial: 512 << 20,
            lanes: 1,
            window_bytes: 4 << 20,
            window_frames: 16_384,
            ack_delay: Duration::from_millis(10),
            ack_bytes: 64 << 10,
            keep_alive: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(5),
            handshake: Duration::from_secs(5),
            dial_timeout: Duration::from_secs(15),
            retry: Duration::from_millis(100),
            max_retry: Duration::from_secs(5),
            max_peers: 1024,
            max_links: 1024,
            max_links_per_peer: 4,
            max_handshakes: 128,
            control_bytes: 256 << 10,
            seed: 0,
        }
    }
}

/// What one frame may have beyond a usual one. It does not count.
fn long_frame(fragment: u32) -> u64 {
    if fragment > USUAL {
        u64::from(fragment).saturating_add(HEADER_LEN as u64)
    } else {
        0
    }
}

impl LinkConfig {
    /// Lanes that this side offers: no more than it has room for that each has a longest message in fragments. So a
    /// peer that keeps to the protocol never meets the limit.
    pub(super) fn lanes(&self) -> u8 {
        let room = self.max_partial.checked_div(self.max_message).unwrap_or(1);
        let room = u8::try_from(room).unwrap_or(u8::MAX);
        self.lanes.min(room).clamp(1, MAX_LANES)
    }

    /// Limits of data as long as nothing is known of the other side.
    pub(super) fn limits(&self) -> Limits {
        self.limits_with(MIN_VERSION, self.max_frame, self.max_message)
    }

    /// Limits of data with a peer that has these.
    pub(super) fn limits_with(&self, version: u8, max_frame: u32, max_message: u32) -> Limits {
        let max_body = self.max_message.min(max_message).saturating_add(AROUND);
        let fragment = self.fragment.min(self.max_frame).min(max_frame);
        Limits {
            version,
            max_body,
            fragment: fragment.min(max_body),
        }
    }

    /// What a lane may leave unacknowledged.
    #[inline]
    pub(super) fn window(&self, limits: Limits) -> Window {
        let bytes = u64::from(self.window_bytes);
        let longest = u64::from(limits.max_body);
        Window {
            bytes,
            frames: u64::from(self.window_frames),
            frame: long_frame(limits.fragment),
            longest,
            // One longest message holds nothing else up.
            held: bytes.saturating_add(longest),
        }
    }

    /// Names the first setting that cannot work.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("window_bytes", self.window_bytes != 0),
            ("window_frames", self.window_frames != 0),
            ("ack_bytes", self.ack_bytes != 0),
            ("keep_alive", !self.keep_alive.is_zero()),
            ("handshake", !self.handshake.is_zero()),
            ("dial_timeout", !self.dial_timeout.is_zero()),
            ("dial_retry", !self.retry.is_zero()),
            ("max_nodes", self.max_peers != 0),
            ("max_links", self.max_links != 0),
            ("max_links_per_peer", self.max_links_per_peer != 0),
            ("max_handshakes", self.max_handshakes != 0),
        ];
        if let Some((field, _)) = positive.iter().find(|(_, ok)| !ok) {
            return Err(ConfigError::new(field, "must not be zero"));
        }
        let problem = if self.max_frame < MAX_CONTROL_LEN {
            ("max_frame", "must be at least 64 KiB")
        } else if self.max_frame > 1 << 30 {
            ("max_frame", "must be at most 1 GiB")
        } else if self.max_message < 1 << 10 || self.max_message > 1 << 30 {
            ("max_message", "must be 1 KiB to 1 GiB")
        } else if self.fragment < 64 || self.fragment > self.max_frame {
            (
                "fragment",
                "must be at least 64 bytes, and at most max_frame",
            )
        } else if self.max_partial < self.max_message {
            ("max_partial", "must be at least max_message")
        } else if self.lanes == 0 || self.lanes > MAX_LANES {
            ("lanes", "must be 1 to 64")
        } else if self.idle_timeout < self.keep_alive.saturating_mul(2) {
            ("link_timeout", "must be at least twice keep_alive")
        } else if self.max_retry < self.retry {
            ("max_retry", "must be at least dial_retry")
        } else if self.control_bytes < 2 * MAX_CONTROL_LEN {
            ("control_bytes", "must be at least 128 KiB")
        } else {
            return Ok(());
        };
        Err(ConfigError::new(problem.0, problem.1))
    }
}
