//! What regions say.

use alloc::vec::Vec;

use crate::wire::control::Size;
use crate::wire::{Claim, Control, Frame};
use crate::{EntityTypeId, Epoch, Session, ShardId, Term, Token};

/// What a region says to its coordinator, after a trip through the wire format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Register {
        part: u32,
        parts: u32,
        session: Session,
        shard_count: u32,
        proxy: bool,
        last_beat_age: u64,
        size: Size,
        claims: Vec<Claim>,
    },
    Deregister(Session),
    Ask(ShardId),
    Started(ShardId, Epoch),
    Complete(ShardId, Epoch, bool),
    Stats(Token, u32),
    Resize(Epoch, u32),
}

impl Said {
    pub(super) fn new(control: &Control<'_>) -> Self {
        let mut bytes = [0; 4096];
        let len = control
            .encode(EntityTypeId(1), Term(5), 1, &mut bytes)
            .unwrap();
        let frame = Frame::decode_exact(&bytes[..len], 1 << 20).unwrap();
        match frame.control().unwrap() {
            Control::Register(register) => {
                register.claims.validate(register.shard_count).unwrap();
                Self::Register {
                    part: register.part,
                    parts: register.parts,
                    session: register.session,
                    shard_count: register.shard_count,
                    proxy: register.proxy,
                    last_beat_age: register.last_beat_age,
                    size: register.size,
                    claims: register.claims.iter().collect(),
                }
            }
            Control::Deregister(deregister) => Self::Deregister(deregister.session),
            Control::GetShardHome(ask) => Self::Ask(ask.shard),
            Control::ShardStarted(started) => Self::Started(started.shard, started.epoch),
            Control::HandOffComplete(done) => Self::Complete(done.shard, done.epoch, done.forced),
            Control::Resize(resize) => Self::Resize(resize.after, resize.count),
            Control::Stats(stats) => Self::Stats(stats.token, stats.shards),
            other => panic!("a region does not say {other:?}"),
        }
    }
}
