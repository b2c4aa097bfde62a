//! Control frames of this node's parts, on their way to a link.

use super::link::{Links, PeerSlot};
use super::{NodeStats, count};
use crate::wire::Control;
use crate::{EntityTypeId, Instant, Term};

/// Writes a control frame, or drops and counts it if there is no link or no room: timers repeat it.
pub(super) fn put_control(
    links: &mut Links,
    stats: &mut NodeStats,
    now: Instant,
    peer: Option<PeerSlot>,
    entity_type: EntityTypeId,
    term: Term,
    control: &Control<'_>,
) {
    if !peer.is_some_and(|peer| links.control(now, peer, entity_type, term, control)) {
        count(&mut stats.control_dropped);
    }
}
