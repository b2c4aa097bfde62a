//! The world around one process of a state.

use super::state::{Running, State};
use crate::region::{Origin, RejectReason};
use crate::sim::machine::{Body, DataFrame, Note, Sink, Unsent};
use crate::sim::net::NOBODY;
use crate::sim::{Message, Violation};
use crate::wire::{Control, Frame};
use crate::{EntityTypeId, Epoch, Instant, NodeId, ShardId, Term};

/// A process's world.
pub(super) struct Surroundings<'a> {
    pub(super) state: &'a mut State,
    pub(super) host: usize,
}

impl Surroundings<'_> {
    fn fail(&mut self, what: alloc::string::String) {
        let host = self.host as u8;
        self.state.check(Err(Violation::Table { host, what }));
    }
}

impl Sink for Surroundings<'_> {
    fn control(
        &mut self,
        to: NodeId,
        entity_type: EntityTypeId,
        term: Term,
        control: &Control<'_>,
    ) {
        let Some(to) = self.state.host_of(to) else {
            return;
        };
        let mut bytes = [0; 1024];
        let len = control.encode(entity_type, term, 1, &mut bytes);
        let frame = len.map_or(&[][..], |len| &bytes[..len]);
        match Frame::decode_exact(frame, 1 << 20) {
            Ok(decoded) => {
                let kind = decoded.header.kind;
                self.state.put_control(self.host, to, kind, frame);
            }
            Err(_) => self.fail(alloc::format!("{control:?} cannot be encoded")),
        }
    }

    fn data(&mut self, to: NodeId, frame: DataFrame) -> Result<(), Unsent> {
        let to = self.state.host_of(to).ok_or(Unsent::NoPeer)?;
        let state = &self.state.hosts[self.host];
        let (from_life, to_life) = (state.life, state.knows[to]);
        if to_life == NOBODY {
            return Err(Unsent::NoPeer);
        }
        let link = self.state.link_mut(self.host, to);
        if link.from_life != from_life || link.to_life != to_life {
            link.data.clear();
            (link.from_life, link.to_life) = (from_life, to_life);
        }
        link.data.push_back(frame);
        Ok(())
    }

    fn start(&mut self, _ty: u8, shard: ShardId, epoch: Epoch) {
        self.state.serving_began(self.host, shard.0 as usize, epoch);
    }

    fn open(&mut self, _ty: u8, _shard: ShardId, _epoch: Epoch) {}

    fn lease(&mut self, until: Option<Instant>) {
        self.state.set_lease(self.host, until);
    }

    fn stop(&mut self, _ty: u8, shard: ShardId, epoch: Epoch, abort_at: Instant) {
        let hosted = &mut self.state.hosts[self.host].hosted[shard.0 as usize];
        if hosted.epoch != epoch || hosted.running == Running::No {
            let what = alloc::format!("told to stop {shard:?} under {epoch}, which does not run");
            return self.fail(what);
        }
        hosted.running = Running::Stopping;
        hosted.abort_at = abort_at;
    }

    fn deliver(
        &mut self,
        _: u8,
        shard: ShardId,
        epoch: Epoch,
        _: Origin,
        message: Message,
    ) -> bool {
        self.state.delivered(self.host, shard.0, epoch, message);
        true
    }

    fn reject(
        &mut self,
        _ty: u8,
        shard: ShardId,
        origin: Origin,
        reason: RejectReason,
        message: Message,
    ) {
        let own = origin == Origin::Local;
        self.state.reported(shard.0, message, reason, own);
    }

    fn note(&mut self, note: Note) {
        if matches!(note, Note::UnexpectedReturn) {
            self.fail("a return of what was not sent".into());
        }
    }

    fn is_flushed(&self) -> bool {
        let count = self.state.hosts.len();
        (0..count).all(|to| self.state.link(self.host, to).data.is_empty())
    }

    fn is_linked(&self) -> bool {
        let knows = &self.state.hosts[self.host].knows;
        knows.iter().any(|life| *life != NOBODY)
    }
}

/// What a data frame is, in words.
pub(super) fn describe(frame: &DataFrame) -> alloc::string::String {
    let (shard, epoch) = (frame.shard.0, frame.epoch);
    match frame.body {
        Body::Envelope(message) => alloc::format!("{message}, shard {shard} under {epoch}"),
        Body::Return(reason, message) => {
            alloc::format!("{message} comes back ({reason:?}), shard {shard} under {epoch}")
        }
        Body::Flush(_) => alloc::format!("marker, shard {shard} under {epoch}"),
        Body::Flushed(_) => alloc::format!("answer to a marker, shard {shard}"),
    }
}
