//! Random operations against models that only know vectors.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::{order, segmented};
use crate::entity::passivation::{Passivation, Policy, lfu, segmented::shares};

#[derive(Clone, Debug)]
enum Op {
    Admit(u32),
    Touch(u32),
    Remove(u32),
}

fn ops(indices: u32) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0..indices).prop_map(Op::Admit),
        6 => (0..indices).prop_map(Op::Touch),
        1 => (0..indices).prop_map(Op::Remove),
    ];
    prop::collection::vec(op, 0..400)
}

/// What a policy is, said as simply as possible.
trait Model {
    /// Puts in what is not in.
    fn insert(&mut self, index: u32);
    /// Takes out what is in, and puts it back as used once more.
    fn touch(&mut self, index: u32);
    fn remove(&mut self, index: u32);
    /// What is in, in the order in which it goes.
    fn order(&self) -> Vec<u32>;
}

fn agree(passivation: &Passivation, limit: u32, mut model: impl Model, ops: &[Op]) {
    let mut policy = Policy::new(passivation, limit);
    for op in ops {
        match *op {
            Op::Admit(index) => {
                let live = model.order();
                let mut expected = None;
                if live.contains(&index) {
                    model.touch(index);
                } else {
                    if live.len() == limit as usize {
                        expected = Some(live[0]);
                        model.remove(live[0]);
                    }
                    model.insert(index);
                }
                assert_eq!(policy.admit(index), expected);
                assert!(policy.contains(index));
            }
            Op::Touch(index) => {
                policy.touch(index);
                if model.order().contains(&index) {
                    model.touch(index);
                }
            }
            Op::Remove(index) => {
                policy.remove(index);
                model.remove(index);
                assert!(!policy.contains(index));
            }
        }
        assert_eq!(order(&policy).concat(), model.order());
    }
}

#[derive(Default)]
struct Lru(Vec<u32>);

impl Model for Lru {
    fn insert(&mut self, index: u32) {
        self.0.push(index);
    }
    fn touch(&mut self, index: u32) {
        self.remove(index);
        self.insert(index);
    }
    fn remove(&mut self, index: u32) {
        self.0.retain(|other| *other != index);
    }
    fn order(&self) -> Vec<u32> {
        self.0.clone()
    }
}

/// Frequencies and indices; sorted by frequency, then by last use.
struct Lfu {
    all: Vec<(u8, u32)>,
    uses: u64,
    uses_per_age: u64,
}

impl Lfu {
    fn used(&mut self, index: u32, frequency: u8) {
        self.all.push((frequency, index));
        // Sorting is stable: the last one among equals.
        self.all.sort_by_key(|(frequency, _)| *frequency);
        self.uses += 1;
        if self.uses == self.uses_per_age {
            self.uses = 0;
            self.all
                .iter_mut()
                .for_each(|(frequency, _)| *frequency /= 2);
        }
    }
}

impl Model for Lfu {
    fn insert(&mut self, index: u32) {
        self.used(index, 1);
    }
    fn touch(&mut self, index: u32) {
        let found = self.all.iter().position(|(_, other)| *other == index);
        let (frequency, _) = self.all.remove(found.unwrap());
        self.used(index, (frequency + 1).min(lfu::MAX_FREQUENCY));
    }
    fn remove(&mut self, index: u32) {
        self.all.retain(|(_, other)| *other != index);
    }
    fn order(&self) -> Vec<u32> {
        self.all.iter().map(|(_, index)| *index).collect()
    }
}

struct Segmented {
    segments: Vec<Vec<u32>>,
    shares: Vec<u32>,
}

impl Model for Segmented {
    fn insert(&mut self, index: u32) {
        self.segments[0].push(index);
    }
    fn touch(&mut self, index: u32) {
        let found = self.segments.iter().position(|all| all.contains(&index));
        let next = (found.unwrap() + 1).min(self.segments.len() - 1);
        self.remove(index);
        self.segments[next].push(index);
        for segment in (1..self.segments.len()).rev() {
            while self.segments[segment].len() > self.shares[segment] as usize {
                let demoted = self.segments[segment].remove(0);
                self.segments[segment - 1].push(demoted);
            }
        }
    }
    fn remove(&mut self, index: u32) {
        for segment in &mut self.segments {
            segment.retain(|other| *other != index);
        }
    }
    fn order(&self) -> Vec<u32> {
        self.segments.concat()
    }
}

proptest! {
    #[test]
    fn lru_does_what_its_model_does(limit in 1_u32..8, ops in ops(12)) {
        agree(&Passivation::LeastRecentlyUsed, limit, Lru::default(), &ops);
    }

    // With a limit below four, frequencies are halved ten times and more.
    #[test]
    fn lfu_does_what_its_model_does(limit in 1_u32..8, ops in ops(12)) {
        let uses_per_age = u64::from(limit) * lfu::USES_PER_AGE;
        let model = Lfu { all: Vec::new(), uses: 0, uses_per_age };
        agree(&Passivation::LeastFrequentlyUsed, limit, model, &ops);
    }

    #[test]
    fn segmented_does_what_its_model_does(
        limit in 1_u32..12,
        weights in prop::collection::vec(1_u8..10, 1..5),
        ops in ops(16),
    ) {
        let sum: f32 = weights.iter().map(|weight| f32::from(*weight)).sum();
        let proportions: Vec<_> = weights.iter().map(|weight| f32::from(*weight) / sum).collect();
        let shares = shares(&proportions, limit);
        prop_assert_eq!(shares.iter().sum::<u32>(), limit);
        let model = Segmented { segments: shares.iter().map(|_| Vec::new()).collect(), shares };
        let passivation = segmented(&proportions);
        prop_assert!(passivation.is_valid());
        agree(&passivation, limit, model, &ops);
    }
}
