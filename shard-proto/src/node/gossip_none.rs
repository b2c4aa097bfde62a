//! Without the feature `swim` there is no membership protocol inside a node.

use alloc::string::String;

use bytes::Bytes;

use super::link::PeerIdentity;
use super::{ConfigError, NodeConfig};
use crate::membership::{MemberChange, RemovalCause};
use crate::{Incarnation, Instant, NodeId};

#[expect(dead_code, reason = "never made")]
pub(super) enum GossipEvent {
    Send {
        to: NodeId,
        incarnation: Incarnation,
        packet: Bytes,
    },
    Change(MemberChange, Option<String>),
    Over(RemovalCause),
}

#[derive(Debug)]
pub(super) enum Gossip {}

impl Gossip {
    pub(super) fn new(
        _: Instant,
        _: &NodeConfig,
        _: &PeerIdentity,
    ) -> Result<Option<Self>, ConfigError> {
        Ok(None)
    }

    pub(super) fn set_incarnation_limit(&mut self, _: Incarnation) {
        match *self {}
    }

    pub(super) fn link_up(&mut self, _: Instant, _: &PeerIdentity) {
        match *self {}
    }

    pub(super) fn link_silent(&mut self, _: Instant, _: NodeId) {
        match *self {}
    }

    pub(super) fn handle_packet(
        &mut self,
        _: Instant,
        _: NodeId,
        _: Incarnation,
        _: &[u8],
    ) -> bool {
        match *self {}
    }

    pub(super) fn begin_leave(&mut self, _: Instant) {
        match *self {}
    }

    pub(super) fn leave(&mut self, _: Instant) {
        match *self {}
    }

    pub(super) fn handle_timeout(&mut self, _: Instant) {
        match *self {}
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match *self {}
    }

    pub(super) fn poll(&mut self) -> Option<GossipEvent> {
        match *self {}
    }
}
