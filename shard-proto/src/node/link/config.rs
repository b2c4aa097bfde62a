//! Settings of links.

use core::time::Duration;

use crate::node::ConfigError;
use crate::wire::header::{DEFAULT_MAX_FRAME, MAX_CONTROL_LEN};

/// Settings of the links of one node.
#[derive(Clone, Debug)]
pub(crate) struct LinkConfig {
    /// Hash of the cluster's name; nodes of another one are refused.
    pub(crate) cluster: u64,
    /// Digest of the voters' names, 0 without voters; must be equal on all nodes.
    pub(crate) voters: u64,
    /// Longest body of a data frame, in bytes; at least that of a control frame (64 KiB).
    pub(crate) max_frame: u32,
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

impl LinkConfig {
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
        } else if self.window_bytes < self.max_frame {
            ("window_bytes", "must be at least max_frame")
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
