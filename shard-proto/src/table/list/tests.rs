#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

struct Red;
struct Blue;

#[derive(Clone, Default)]
struct Slot {
    red: Link,
    blue: Link,
}

impl Linked<Red> for Slot {
    fn link(&self) -> &Link {
        &self.red
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.red
    }
}

impl Linked<Blue> for Slot {
    fn link(&self) -> &Link {
        &self.blue
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.blue
    }
}

#[test]
fn a_slot_is_in_lists_of_two_classes_at_once() {
    let mut slots = alloc::vec![Slot::default(); 4];
    let mut red = List::<Red>::new();
    let mut blue = List::<Blue>::new();
    for index in [2, 0, 3] {
        assert!(red.push_back(&mut slots, index));
        assert!(blue.push_front(&mut slots, index));
    }
    assert!(red.remove(&mut slots, 0));
    assert_eq!(red.iter(&slots).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(blue.iter(&slots).collect::<Vec<_>>(), [3, 0, 2]);
}

#[test]
fn what_is_out_of_range_or_linked_already_changes_nothing() {
    let mut slots = alloc::vec![Slot::default(); 2];
    let mut list = List::<Red>::new();
    assert!(!list.push_back(&mut slots, 2));
    assert!(!list.push_back(&mut slots, NIL));
    assert!(list.push_back(&mut slots, 1));
    assert!(!list.push_front(&mut slots, 1));
    assert!(!list.remove(&mut slots, 0));
    assert_eq!(list.len(), 1);
    assert!(list.is_intact(&slots));
}

#[derive(Clone, Debug)]
enum Step {
    PushBack(u32),
    PushFront(u32),
    Remove(u32),
    PopFront,
    Rotate,
    Append,
}

fn step(slots: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..slots).prop_map(Step::PushBack),
        2 => (0..slots).prop_map(Step::PushFront),
        2 => (0..slots).prop_map(Step::Remove),
        1 => Just(Step::PopFront),
        1 => Just(Step::Rotate),
        1 => Just(Step::Append),
    ]
}

proptest! {
    /// Even steps work on the first list, odd ones on the second; `Append` joins them.
    #[test]
    fn two_lists_behave_as_two_deques(steps in prop::collection::vec(step(12), 0..200)) {
        let mut slots = alloc::vec![Slot::default(); 12];
        let mut lists = [List::<Red>::new(), List::<Red>::new()];
        let mut models = [VecDeque::new(), VecDeque::new()];
        for (turn, step) in steps.into_iter().enumerate() {
            let at = turn % 2;
            let linked = |index: u32, models: &[VecDeque<u32>; 2]| models.iter().any(|m| m.contains(&index));
            match step {
                Step::PushBack(index) => {
                    let free = !linked(index, &models);
                    prop_assert_eq!(lists[at].push_back(&mut slots, index), free);
                    if free { models[at].push_back(index); }
                }
                Step::PushFront(index) => {
                    let free = !linked(index, &models);
                    prop_assert_eq!(lists[at].push_front(&mut slots, index), free);
                    if free { models[at].push_front(index); }
                }
                Step::Remove(index) => {
                    if let Some(found) = models[at].iter().position(|&slot| slot == index) {
                        prop_assert!(lists[at].remove(&mut slots, index));
                        models[at].remove(found);
                    } else if !linked(index, &models) {
                        prop_assert!(!lists[at].remove(&mut slots, index));
                    }
                }
                Step::PopFront => {
                    prop_assert_eq!(lists[at].pop_front(&mut slots), models[at].pop_front());
                }
                Step::Rotate => {
                    let moved = models[at].pop_front();
                    if let Some(moved) = moved { models[at].push_back(moved); }
                    prop_assert_eq!(lists[at].rotate(&mut slots), moved);
                }
                Step::Append => {
                    let [first, second] = &mut lists;
                    first.append(&mut slots, second);
                    let [first, second] = &mut models;
                    first.append(second);
                }
            }
            for (list, model) in lists.iter().zip(&models) {
                prop_assert!(list.is_intact(&slots));
                prop_assert_eq!(list.len() as usize, model.len());
                prop_assert_eq!(list.front(), model.front().copied());
                prop_assert!(list.iter(&slots).eq(model.iter().copied()));
            }
        }
    }
}
