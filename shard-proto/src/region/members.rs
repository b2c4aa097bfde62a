//! The other members: a chained hash table inside the node slots.

use super::slot::{Life, NO_NODE, NodeSlot};
use crate::{Incarnation, NodeId, hash};

fn bucket_of(nodes: &[NodeSlot], node: NodeId) -> Option<usize> {
    let len = u128::try_from(nodes.len()).ok()?;
    usize::try_from(u128::from(hash::mix(node.0)).wrapping_mul(len) >> 64).ok()
}

fn get(nodes: &[NodeSlot], index: u16) -> Option<&NodeSlot> {
    nodes.get(usize::from(index))
}

/// Finds a slot of the node that `fits`.
fn find(nodes: &[NodeSlot], node: NodeId, fits: impl Fn(&NodeSlot) -> bool) -> Option<u16> {
    let mut at = nodes.get(bucket_of(nodes, node)?)?.bucket;
    while let Some(slot) = get(nodes, at) {
        if slot.node == node && fits(slot) {
            return Some(at);
        }
        at = slot.next;
    }
    None
}

/// The slot of a member.
pub(super) fn find_member(nodes: &[NodeSlot], node: NodeId) -> Option<u16> {
    find(nodes, node, |slot| slot.life == Life::Member)
}

/// The slot of one incarnation, whether it is a member or has ended.
pub(super) fn find_incarnation(
    nodes: &[NodeSlot],
    node: NodeId,
    incarnation: Incarnation,
) -> Option<u16> {
    find(nodes, node, |slot| slot.incarnation == incarnation)
}

/// The slot of a member, or of one whose incarnation has ended.
pub(super) fn find_any(nodes: &[NodeSlot], node: NodeId) -> Option<u16> {
    find_member(nodes, node).or_else(|| find(nodes, node, |_| true))
}

/// Adds a member. `None`: no slot is free.
pub(super) fn add(nodes: &mut [NodeSlot], node: NodeId, incarnation: Incarnation) -> Option<u16> {
    let free = nodes.iter().position(|slot| slot.life == Life::Free)?;
    let index = u16::try_from(free).ok().filter(|&index| index != NO_NODE)?;
    let bucket = bucket_of(nodes, node)?;
    let chain = core::mem::replace(&mut nodes.get_mut(bucket)?.bucket, index);
    let slot = nodes.get_mut(free)?;
    slot.node = node;
    slot.incarnation = incarnation;
    slot.buffered = 0;
    slot.next = chain;
    slot.life = Life::Member;
    slot.congested = false;
    Some(index)
}

/// Frees a slot that nothing points to.
fn release(nodes: &mut [NodeSlot], index: u16) {
    let Some(slot) = get(nodes, index) else {
        return;
    };
    let (node, next) = (slot.node, slot.next);
    let Some(bucket) = bucket_of(nodes, node) else {
        return;
    };
    let Some(head) = nodes.get_mut(bucket) else {
        return;
    };
    if head.bucket == index {
        head.bucket = next;
    } else {
        let mut at = head.bucket;
        while let Some(before) = nodes.get_mut(usize::from(at)) {
            if before.next == index {
                before.next = next;
                break;
            }
            at = before.next;
        }
    }
    if let Some(slot) = nodes.get_mut(usize::from(index)) {
        slot.life = Life::Free;
        slot.next = NO_NODE;
    }
}

/// A buffer slot names the node as its origin.
pub(super) fn hold(nodes: &mut [NodeSlot], index: u16) {
    if let Some(slot) = nodes.get_mut(usize::from(index)) {
        slot.buffered = slot.buffered.saturating_add(1);
    }
}

/// ... and does so no more.
pub(super) fn let_go(nodes: &mut [NodeSlot], index: u16) {
    if let Some(slot) = nodes.get_mut(usize::from(index)) {
        slot.buffered = slot.buffered.saturating_sub(1);
        if slot.buffered == 0 && slot.life == Life::Forgotten {
            release(nodes, index);
        }
    }
}

/// No shard points to incarnations that have ended.
pub(super) fn forget_ended(nodes: &mut [NodeSlot]) {
    for index in 0..u16::try_from(nodes.len()).unwrap_or(NO_NODE) {
        let Some(slot) = nodes.get_mut(usize::from(index)) else {
            return;
        };
        if slot.life == Life::Ended {
            slot.life = Life::Forgotten;
            if slot.buffered == 0 {
                release(nodes, index);
            }
        }
    }
}
