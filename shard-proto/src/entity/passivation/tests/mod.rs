#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use alloc::{vec, vec::Vec};

use super::{segmented::shares, *};

mod random;

/// Everything that is in, in the order in which it would go if nothing was used any more.
fn order(policy: &Policy) -> Vec<Vec<u32>> {
    let order = match &policy.order {
        Order::Lru(order) => order.order(),
        Order::Lfu(order) => order.order(),
        Order::Segmented(order) => order.order(),
    };
    let all = order.iter().flatten();
    assert!(all.clone().all(|index| policy.contains(*index)));
    assert_eq!(all.count(), policy.len() as usize);
    assert!(policy.len() <= policy.limit);
    order
}

fn live(policy: &Policy) -> Vec<u32> {
    let mut live = order(policy).concat();
    live.sort_unstable();
    live
}

/// Each of them is used, or is new; who goes for it.
fn each(policy: &mut Policy, indices: impl IntoIterator<Item = u32>) -> Vec<Option<u32>> {
    let admit = |index| policy.admit(index);
    indices.into_iter().map(admit).collect()
}

fn segmented(proportions: &[f32]) -> Passivation {
    let proportions = proportions.to_vec();
    Passivation::SegmentedLru { proportions }
}

fn policies() -> [Passivation; 3] {
    [
        Passivation::LeastRecentlyUsed,
        Passivation::LeastFrequentlyUsed,
        segmented(&[0.2, 0.3, 0.5]),
    ]
}

/// What happens in a row of a table, and who goes for it.
type Row = (core::ops::RangeInclusive<u32>, &'static [u32]);

/// Each row's range is used or admitted; the rows say who goes, in order.
fn table(passivation: &Passivation, limit: u32, rows: &[Row]) -> Policy {
    let mut policy = Policy::new(passivation, limit);
    for (number, (range, expected)) in rows.iter().enumerate() {
        let gone = each(&mut policy, range.clone());
        let gone: Vec<_> = gone.into_iter().flatten().collect();
        assert_eq!(gone, *expected, "row {number} of {passivation:?}");
    }
    policy
}

#[test]
fn lru_passivates_what_was_used_longest_ago() {
    let rows: &[Row] = &[
        (1..=10, &[]),
        (11..=20, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (1..=10, &[11, 12, 13, 14, 15, 16, 17, 18, 19, 20]),
        (11..=20, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ];
    let policy = table(&Passivation::LeastRecentlyUsed, 10, rows);
    assert_eq!(live(&policy), (11..=20).collect::<Vec<_>>());
}

#[test]
fn lru_each_new_one_stops_the_one_ten_before_it() {
    let mut policy = Policy::new(&Passivation::LeastRecentlyUsed, 10);
    for index in 1..=20 {
        assert_eq!(
            policy.admit(index),
            index.checked_sub(10).filter(|i| *i > 0)
        );
    }
    for index in 1..=20 {
        let ten_before = if index > 10 { index - 10 } else { index + 10 };
        assert_eq!(policy.admit(index), Some(ten_before));
    }
}

#[test]
fn lru_a_use_saves_from_going() {
    let mut policy = Policy::new(&Passivation::LeastRecentlyUsed, 3);
    each(&mut policy, [0, 1, 2]);
    policy.touch(0);
    assert_eq!(each(&mut policy, [3, 4, 5]), [Some(1), Some(2), Some(0)]);
}

#[test]
fn lfu_passivates_what_was_used_least_often_and_never_the_new_one() {
    let mut policy = Policy::new(&Passivation::LeastFrequentlyUsed, 5);
    each(&mut policy, 0..5);
    for (index, uses) in [(0, 4), (1, 1), (2, 3), (3, 2), (4, 5)] {
        (0..uses).for_each(|_| policy.touch(index));
    }
    // All others were used more often than the new one: the least of them goes nevertheless.
    assert_eq!(policy.admit(5), Some(1));
    assert_eq!(policy.admit(6), Some(5));
    policy.touch(6);
    policy.touch(6);
    policy.touch(6);
    assert_eq!(policy.admit(7), Some(3));
    assert_eq!(live(&policy), [0, 2, 4, 6, 7]);
}

#[test]
fn lfu_among_equals_the_one_that_was_used_longest_ago_goes() {
    let mut policy = Policy::new(&Passivation::LeastFrequentlyUsed, 4);
    each(&mut policy, 0..4);
    for index in [2, 0, 3, 1] {
        policy.touch(index);
    }
    policy.remove(3);
    policy.admit(3);
    for expected in [3, 4, 5] {
        assert_eq!(policy.admit(expected + 1), Some(expected));
    }
    policy.touch(6);
    assert_eq!(each(&mut policy, [7, 8]), [Some(2), Some(7)]);
}

#[test]
fn lfu_frequencies_end_somewhere_and_fade() {
    let limit = 100;
    let mut policy = Policy::new(&Passivation::LeastFrequentlyUsed, limit);
    each(&mut policy, 0..limit);
    (0..500).for_each(|_| policy.touch(7));
    let highest = usize::from(lfu::MAX_FREQUENCY);
    assert_eq!(order(&policy)[highest], [7]);
    // So many uses that it was halved at least seven times.
    let others: Vec<_> = (0..limit).filter(|index| *index != 7).collect();
    let mut uses = others.iter().cycle();
    (0..8 * lfu::USES_PER_AGE * u64::from(limit)).for_each(|_| policy.touch(*uses.next().unwrap()));
    assert_eq!(order(&policy)[0], [7]);
    assert_eq!(policy.admit(limit), Some(7));
}

#[test]
fn segmented_keeps_what_was_used_again() {
    let rows: &[Row] = &[(1..=20, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), (11..=20, &[])];
    let mut policy = table(&segmented(&[0.2, 0.8]), 10, rows);
    let high = (13..=20).collect::<Vec<_>>();
    assert_eq!(order(&policy), [vec![11, 12], high.clone()]);
    let gone = each(&mut policy, 1..=5);
    assert_eq!(gone, [11, 12, 1, 2, 3].map(Some));
    assert_eq!(order(&policy), [vec![4, 5], high]);
}

#[test]
fn segmented_promotes_by_one_and_demotes_down_to_the_lowest() {
    let mut policy = Policy::new(&segmented(&[0.5, 0.25, 0.25]), 8);
    each(&mut policy, 0..8);
    for index in [0, 1, 0, 1] {
        policy.touch(index);
    }
    assert_eq!(order(&policy), [vec![2, 3, 4, 5, 6, 7], vec![], vec![0, 1]]);
    for index in [2, 3] {
        policy.touch(index);
    }
    // The highest is full: 0 makes room, and the middle, which took it, is at its share again.
    policy.touch(2);
    assert_eq!(order(&policy), [vec![4, 5, 6, 7], vec![3, 0], vec![1, 2]]);
    // From the lowest to the middle, which gives 3 back to the lowest.
    policy.touch(4);
    assert_eq!(order(&policy), [vec![5, 6, 7, 3], vec![0, 4], vec![1, 2]]);
    // What is in the highest stays there.
    policy.touch(1);
    assert_eq!(order(&policy)[2], [2, 1]);
    // What goes from the middle leaves room that the lowest uses.
    policy.remove(0);
    assert_eq!(policy.admit(8), None);
    assert_eq!(policy.admit(9), Some(5));
}

#[test]
fn shares_add_up_to_the_limit() {
    let cases: &[(&[f32], u32, &[u32])] = &[
        (&[0.2, 0.8], 10, &[2, 8]),
        (&[0.3, 0.7], 10, &[3, 7]),
        (&[0.3, 0.7], 1_000_000, &[300_000, 700_000]),
        (&[0.1; 10], 10, &[1; 10]),
        (&[0.05, 0.95], 10, &[1, 9]),
        (&[0.01, 0.99], 10, &[1, 9]),
        (&[0.2, 0.8], 1, &[1]),
        (&[0.25; 4], 3, &[1, 1, 1]),
        (&[0.2, 0.01, 0.79], 10, &[2, 8]),
        (&[1.0], 7, &[7]),
        (&[0.5, 0.5], u32::MAX, &[2_147_483_648, 2_147_483_647]),
        // What is refused as a setting is still no reason to panic.
        (&[], 3, &[3]),
        (&[f32::NAN, 3.0, -1.0], 3, &[1, 2]),
    ];
    for (proportions, limit, expected) in cases {
        let shares = shares(proportions, *limit);
        assert_eq!(shares, *expected, "{proportions:?} of {limit}");
    }
}

#[test]
fn proportions_are_checked() {
    let valid: &[&[f32]] = &[
        &[1.0],
        &[0.2, 0.8],
        &[0.1; 10],
        &[1.0 / 3.0; 3],
        &[0.0625; 16],
    ];
    for proportions in valid {
        assert!(segmented(proportions).is_valid(), "{proportions:?}");
    }
    let invalid: &[&[f32]] = &[
        &[],
        &[0.0, 1.0],
        &[-0.5, 1.5],
        &[0.2, 0.7],
        &[0.2, 0.9],
        &[f32::NAN, 0.5],
        &[f32::INFINITY],
        &[1.0 / 17.0; 17],
    ];
    for proportions in invalid {
        assert!(!segmented(proportions).is_valid(), "{proportions:?}");
    }
    assert!(Passivation::default().is_valid());
    assert!(Passivation::LeastFrequentlyUsed.is_valid());
}

#[test]
fn what_is_not_in_is_ignored_and_what_is_in_is_not_admitted_twice() {
    for passivation in policies() {
        let mut policy = Policy::new(&passivation, 2);
        policy.touch(3);
        policy.remove(3);
        policy.touch(u32::MAX);
        policy.remove(u32::MAX);
        assert!(!policy.contains(u32::MAX));
        assert_eq!(each(&mut policy, [3, 0, 3]), [None; 3]);
        assert_eq!(policy.len(), 2);
        // Admitted again, 3 was used later than 0.
        assert_eq!(policy.admit(1), Some(0), "{passivation:?}");
        policy.touch(0);
        assert_eq!(live(&policy), [1, 3]);
    }
}

#[test]
fn with_room_for_one_each_new_one_takes_the_place() {
    for passivation in policies() {
        for limit in [0, 1] {
            let mut policy = Policy::new(&passivation, limit);
            assert_eq!(policy.admit(0), None);
            (0..9).for_each(|_| policy.touch(0));
            assert_eq!(each(&mut policy, [1, 2, 0]), [Some(0), Some(1), Some(2)]);
            assert!(policy.is_full());
        }
    }
}
