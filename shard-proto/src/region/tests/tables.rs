//! Slots, the payload buffer, the members.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::region::slot::{BufferSlot, Content, Life, NIL, NodeSlot, ShardSlot};
use crate::region::{buffer, members};
use crate::{Incarnation, NodeId};

#[test]
fn a_shard_slot_fits_a_cache_line() {
    assert!(size_of::<ShardSlot>() <= 64);
}

#[test]
fn slots_are_as_large_as_the_storage_says() {
    assert!(size_of::<NodeSlot>() <= 32);
    assert!(size_of::<BufferSlot<[u64; 4]>>() <= 32 + 40);
}

#[derive(Clone, Debug)]
enum Step {
    PushBack,
    PushAtCursor,
    PopFront,
    Skip,
    TakeUnread,
    Rewind,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::PushBack),
        3 => Just(Step::PushAtCursor),
        2 => Just(Step::PopFront),
        2 => Just(Step::Skip),
        2 => Just(Step::TakeUnread),
        1 => Just(Step::Rewind),
    ]
}

/// A list as a vector, and how much of it lies in front of the cursor.
#[derive(Default)]
struct Model {
    notes: Vec<u32>,
    read: usize,
}

proptest! {
    #[test]
    fn a_buffer_list_behaves_as_a_vector_with_a_cursor(steps in prop::collection::vec(step(), 0..120)) {
        let mut slots: Vec<BufferSlot<u32>> = (0..8).map(|_| BufferSlot::EMPTY).collect();
        let mut slab = buffer::Slab::new(8);
        let (mut tail, mut model) = (NIL, Model::default());
        for (number, step) in (0u32..).zip(steps) {
            let filled = BufferSlot { content: Content::Message(number), ..BufferSlot::EMPTY };
            let mut taken = None;
            match step {
                Step::PushBack | Step::PushAtCursor => {
                    let Ok(at) = slab.fill(&mut slots, filled) else {
                        prop_assert_eq!(model.notes.len(), 8);
                        continue;
                    };
                    if matches!(step, Step::PushBack) {
                        tail = buffer::push_back(&mut slots, tail, at);
                        model.notes.push(number);
                    } else {
                        tail = buffer::push_at_cursor(&mut slots, tail, at);
                        model.notes.insert(model.read, number);
                        model.read += 1;
                    }
                }
                Step::PopFront => {
                    if let Some((rest, at)) = buffer::pop_front(&mut slots, tail) {
                        tail = rest;
                        taken = Some((at, model.notes.remove(0)));
                        // A cursor on what is taken goes to the front of all.
                        model.read = if model.read == 1 { 0 } else { model.read.saturating_sub(1) };
                    } else {
                        prop_assert!(model.notes.is_empty());
                    }
                }
                Step::Skip => {
                    buffer::skip_unread(&mut slots, tail);
                    model.read = (model.read + 1).min(model.notes.len());
                }
                Step::TakeUnread => {
                    if let Some((rest, at)) = buffer::take_unread(&mut slots, tail) {
                        tail = rest;
                        taken = Some((at, model.notes.remove(model.read)));
                    } else {
                        prop_assert_eq!(model.read, model.notes.len());
                    }
                }
                Step::Rewind => {
                    buffer::rewind(&mut slots, tail);
                    model.read = 0;
                }
            }
            if let Some((at, number)) = taken {
                let held = slab.empty(&mut slots, at).unwrap();
                prop_assert!(matches!(held.content, Content::Message(found) if found == number));
                prop_assert!(slab.empty(&mut slots, at).is_none());
            }
            let notes: Vec<u32> = buffer::iter(&slots, tail)
                .filter_map(|at| match slots[at as usize].content {
                    Content::Message(number) => Some(number),
                    _ => None,
                })
                .collect();
            prop_assert_eq!(&notes, &model.notes);
            prop_assert_eq!(buffer::len(&slots, tail) as usize, model.notes.len());
            prop_assert_eq!(slab.used() as usize, model.notes.len());
            let unread = buffer::unread(&slots, tail).is_some();
            prop_assert_eq!(unread, model.read < model.notes.len());
        }
    }

    #[test]
    fn members_are_found_however_they_hash(nodes in prop::collection::vec((0u64..6, 0u64..3, any::<bool>()), 0..60)) {
        let mut slots = vec![NodeSlot::EMPTY; 5];
        let mut known: Vec<(u64, u64)> = Vec::new();
        for (node, life, ends) in nodes {
            if ends {
                if let Some(at) = known.iter().position(|&pair| pair == (node, life)) {
                    known.remove(at);
                    let found = members::find_incarnation(&slots, NodeId(node), Incarnation(life)).unwrap();
                    slots[usize::from(found)].life = Life::Ended;
                    members::forget_ended(&mut slots);
                }
            } else if !known.iter().any(|pair| pair.0 == node) {
                let added = members::add(&mut slots, NodeId(node), Incarnation(life));
                prop_assert_eq!(added.is_some(), known.len() < 5);
                if added.is_some() {
                    known.push((node, life));
                }
            }
            for node in 0..6 {
                let found = members::find_member(&slots, NodeId(node))
                    .map(|at| slots[usize::from(at)].incarnation.0);
                let expected = known.iter().find(|pair| pair.0 == node).map(|pair| pair.1);
                prop_assert_eq!(found, expected);
            }
        }
    }
}
