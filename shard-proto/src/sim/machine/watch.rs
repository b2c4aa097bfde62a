//! What of a process's doings the rules look at.

use super::Sink;
use crate::coordinator::{CoordPhase, Coordinator};
use crate::sim::moving::Moving;
use crate::sim::{Deed, Store};
use crate::wire::{Claim, Control};
use crate::{Home, Instant, NodeId, Term};

/// A coordinator, its type's number, and the type's first shard among those of all types.
pub(super) struct Watched<'a, St: Store> {
    pub(super) coordinator: &'a mut Coordinator<Moving, St::Coordinator>,
    pub(super) ty: u8,
    pub(super) base: u32,
}

impl<St: Store> Watched<'_, St> {
    /// Gives the coordinator what a region says. Whether the region was registered, and is so no longer.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        from: NodeId,
        term: Term,
        control: &Control<'_>,
        sink: &mut impl Sink,
    ) -> bool {
        let before = self.coordinator.is_registered(from);
        let believed = self.believes(from, control);
        // What it does not take is late.
        let taken = self.coordinator.handle_control(now, from, term, control);
        match control {
            Control::Register(_) if taken.is_ok() => {
                if self.coordinator.term() != Some(term) {
                    sink.deed(Deed::TakesOther { term });
                }
                self.watch_claims(from, believed, control, sink);
            }
            Control::Deregister(what) if taken.is_ok() => {
                let (ty, of, session) = (self.ty, from, Some(what.session));
                sink.deed(Deed::EndsSession { ty, of, session });
            }
            _ => {}
        }
        before && !self.coordinator.is_registered(from)
    }

    /// How many claims of a registration are on record already; only of account after the barrier.
    fn believes(&self, from: NodeId, control: &Control<'_>) -> usize {
        match control {
            Control::Register(part) if self.coordinator.phase() == CoordPhase::Open => {
                let claims = part.claims.iter();
                claims.filter(|claim| self.is_recorded(from, claim)).count()
            }
            _ => 0,
        }
    }

    fn is_recorded(&self, from: NodeId, claim: &Claim) -> bool {
        let home = Home {
            node: from,
            epoch: claim.epoch,
        };
        self.coordinator.home(claim.shard) == Some(home)
    }

    fn watch_claims(
        &self,
        from: NodeId,
        before: usize,
        control: &Control<'_>,
        sink: &mut impl Sink,
    ) {
        let Control::Register(part) = control else {
            return;
        };
        if self.believes(from, control) <= before {
            return;
        }
        let former = |claim: &Claim| {
            Some(claim.epoch.term()) < self.coordinator.term() && self.is_recorded(from, claim)
        };
        if let Some(claim) = part.claims.iter().find(former) {
            sink.deed(Deed::BelievesLate {
                shard: self.base + claim.shard.0,
                epoch: claim.epoch,
                of: from,
            });
        }
    }
}

/// What a coordinator says.
pub(super) fn watch_coordinator(
    to: NodeId,
    ty: u8,
    base: u32,
    control: &Control<'_>,
    sink: &mut impl Sink,
) {
    match control {
        Control::HandOff(what) => sink.deed(Deed::HandsOff {
            shard: base + what.shard.0,
            epoch: what.epoch,
        }),
        Control::ShardHome(home) if home.node != to => sink.deed(Deed::Names {
            shard: base + home.shard.0,
            epoch: home.epoch,
            to,
        }),
        Control::ShardMapUpdate(update) => {
            for home in update.homes.iter() {
                sink.deed(Deed::Names {
                    shard: base + home.shard.0,
                    epoch: home.epoch,
                    to,
                });
            }
        }
        Control::RegisterAck(ack) => {
            let session = ack.session;
            sink.deed(Deed::Acknowledges { ty, to, session });
        }
        _ => {}
    }
}

/// What a region says.
pub(super) fn watch_region(base: u32, control: &Control<'_>, sink: &mut impl Sink) {
    if let Control::Register(part) = control {
        for claim in part.claims.iter().filter(|claim| !claim.draining) {
            sink.deed(Deed::Claims {
                shard: base + claim.shard.0,
                epoch: claim.epoch,
                // Only the world knows.
                stops: false,
            });
        }
    }
}
