//! Whether the tables of a coordinator agree with each other. O(shards + nodes).
#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "for tests"
)]

use alloc::collections::{BTreeMap, BTreeSet};

use crate::{
    coordinator::{
        CoordPhase, Coordinator, KeepShards,
        ledger::is_stale,
        slot::{NOBODY, Phase, flag},
    },
    membership::MemberState,
    table::CoordinatorStorage,
};

/// Panics if something in the tables does not agree.
pub(crate) fn validate<A, S: CoordinatorStorage>(coordinator: &Coordinator<A, S>) {
    let book = &coordinator.book;
    let nodes = coordinator.storage.nodes();
    order(book.order_len, nodes);
    let unsettled = nodes.iter().filter(|slot| slot.is_unsettled()).count();
    assert_eq!(book.unsettled as usize, unsettled);
    if book.phase == CoordPhase::Idle {
        return;
    }
    let shards = coordinator.storage.shards();
    for list in [book.deadlines, book.wanted, book.changed] {
        assert!(list.is_intact(shards));
    }
    assert!(book.dirty.is_intact(shards));
    assert!(book.retry.is_intact(shards));
    assert!(book.dirty_nodes.is_intact(nodes));
    assert!(book.mapping.is_intact(nodes));
    assert!(book.vacating.is_intact(nodes));
    assert!(book.leaving.is_intact(nodes));

    let mut listed = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for (list, stale, phase) in [
            (node.owned, false, Some(Phase::Allocated)),
            (node.moving, false, Some(Phase::HandingOff)),
            (node.stale, true, None),
        ] {
            assert!(list.is_intact(shards));
            for shard in list.iter(shards) {
                let slot = &shards[shard as usize];
                assert_eq!(usize::from(slot.owner), index);
                assert_eq!(is_stale(slot, nodes), stale);
                assert!(phase.is_none_or(|phase| phase == slot.phase()));
                assert_eq!(
                    listed.insert(shard, index),
                    None,
                    "shard {shard} owned twice"
                );
            }
        }
        if !node.stale.is_empty() {
            assert!(node.hold || node.vacating.is_linked(), "stale for ever");
        }
        if node.member && node.state == MemberState::Leaving && !node.owned.is_empty() {
            assert!(node.leaving.is_linked(), "never drained");
        }
        assert_eq!(node.map_next != u32::MAX, node.mapping.is_linked());
    }
    let members = |list: &crate::table::list::List<_>| list.iter(shards).collect::<BTreeSet<u32>>();
    let (deadlines, wanted, changed) = (
        members(&book.deadlines),
        members(&book.wanted),
        members(&book.changed),
    );
    let (mut allocated, mut moving) = (0, 0);
    for (index, slot) in shards.iter().enumerate() {
        let shard = index as u32;
        let phase = slot.phase();
        assert_eq!(phase != Phase::Unallocated, listed.contains_key(&shard));
        let live = phase != Phase::Unallocated && !is_stale(slot, nodes);
        allocated += u32::from(live && phase == Phase::Allocated);
        moving += u32::from(live && phase == Phase::HandingOff);
        assert!(!wanted.contains(&shard) || phase == Phase::Unallocated);
        let used = book.used(&coordinator.config);
        let looked_at = shard < book.keep_next && book.phase == CoordPhase::Open;
        let kept = looked_at && shard < used && coordinator.config.keep != KeepShards::Asked;
        if kept && phase == Phase::Unallocated {
            assert!(wanted.contains(&shard), "kept shard {shard} is forgotten");
        }
        let unused = looked_at && shard >= used && live && phase == Phase::Allocated;
        assert!(!unused, "shard {shard} is not used");
        assert!(!changed.contains(&shard) || phase == Phase::Allocated);
        assert!(!deadlines.contains(&shard) || phase == Phase::HandingOff);
        if slot.has(flag::SAY) {
            assert!(slot.dirty.is_linked(), "shard {shard} never says it");
        }
        let unconfirmed = live && phase == Phase::Allocated && !slot.has(flag::STARTED);
        let handing_off = live && phase == Phase::HandingOff;
        if unconfirmed || handing_off || slot.evict != NOBODY {
            assert!(slot.retry.is_linked(), "shard {shard} is not repeated");
        }
        if handing_off && !slot.has(flag::OVERDUE) {
            assert!(slot.timed.is_linked(), "shard {shard} has no deadline");
        }
    }
    assert_eq!(book.allocated, allocated);
    assert_eq!(book.in_flight, moving);
    if !book.candidates_stale {
        for node in nodes {
            assert_eq!(
                node.candidate != NOBODY,
                node.may_host(coordinator.config.role)
            );
        }
    }
}

fn order(len: u16, nodes: &[crate::coordinator::CoordNodeSlot]) {
    assert_eq!(
        usize::from(len),
        nodes.iter().filter(|slot| slot.used).count()
    );
    let ordered: alloc::vec::Vec<_> = nodes[..usize::from(len)]
        .iter()
        .map(|slot| &nodes[usize::from(slot.order)])
        .collect();
    assert!(ordered.iter().all(|slot| slot.used));
    assert!(nodes.iter().all(|slot| slot.used || !slot.member));
    assert!(ordered.windows(2).all(|pair| pair[0].node < pair[1].node));
}
