#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![allow(clippy::cast_possible_truncation, clippy::std_instead_of_alloc)]

use std::{format, vec, vec::Vec};

use proptest::prelude::*;

use super::*;

fn varints(numbers: &[u64]) -> Vec<u8> {
    let mut out = vec![0; numbers.len() * 10];
    let mut at = 0;
    for number in numbers {
        put_varint(&mut out, &mut at, *number).unwrap();
    }
    out.truncate(at);
    out
}

const MALFORMED: Result<u32, DecodeError> = Err(DecodeError::List);

#[test]
fn runs_are_checked_for_range_and_overflow() {
    const BIG: u64 = u32::MAX as u64;
    for (case, numbers, expected) in [
        ("nothing", &[][..], Ok(0)),
        ("one shard", &[0, 1, 6, 0], Ok(1)),
        ("the last shard", &[255, 1, 6, 1], Ok(1)),
        ("all shards", &[0, 256, 6, 0], Ok(256)),
        ("adjacent runs", &[0, 3, 6, 0, 0, 2, 9, 1], Ok(5)),
        ("no shards", &[0, 0, 6, 0], MALFORMED),
        ("beyond the range", &[256, 1, 6, 0], MALFORMED),
        ("across the end of the range", &[200, 57, 6, 0], MALFORMED),
        (
            "the second run beyond the range",
            &[0, 200, 6, 0, 50, 7, 6, 0],
            MALFORMED,
        ),
        ("a huge run", &[0, BIG, 6, 0], MALFORMED),
        ("a run past the last number", &[1, BIG, 6, 0], MALFORMED),
        (
            "a run that wraps around",
            &[5, BIG - 3, 6, 0, 0, 3, 6, 0],
            MALFORMED,
        ),
        ("a start of 33 bits", &[BIG + 1, 1, 6, 0], MALFORMED),
        ("a length of 33 bits", &[0, BIG + 2, 6, 0], MALFORMED),
        ("the highest epoch", &[0, 1, 1, 0], Ok(1)),
        ("an epoch that overflows", &[0, 2, 1, 0], MALFORMED),
    ] {
        let bytes = varints(numbers);
        assert_eq!(Claims(&bytes).validate(256), expected, "{case}");
        assert_eq!(Homes(&bytes).validate(256), expected, "{case}");
    }
    let unknown_flag = varints(&[0, 1, 5, 2]);
    assert_eq!(Claims(&unknown_flag).validate(256), MALFORMED);
    let node_2 = Homes(&unknown_flag);
    assert_eq!(node_2.validate(256), Ok(1));
}

#[test]
fn epochs_travel_as_distances() {
    let epochs = [5, 9, 9, 2, u64::MAX, 0, 1 << 63, (1 << 63) - 1, u64::MAX];
    let mut out = [0; 400];
    let mut writer = RunWriter::new(&mut out);
    for (shard, epoch) in (0..).zip(epochs) {
        writer.push(shard, epoch, 0).unwrap();
    }
    let bytes = writer.finish();
    let found: Vec<_> = Shards::new(bytes)
        .map(|(_, epoch, _)| epoch.to_bits())
        .collect();
    assert_eq!(found, epochs);
    assert_eq!(bytes[..8], [0, 1, 10, 0, 0, 1, 6, 0], "+5, +3");
    for (from, to, distance) in [(7, 7, 0), (7, 6, 1), (7, 8, 2), (7, 5, 3), (0, u64::MAX, 1)] {
        assert_eq!(zigzag(from, to), distance);
        assert_eq!(unzigzag(from, distance), to);
    }
}

#[test]
fn a_list_cut_within_a_run_is_malformed() {
    let runs = [varints(&[200, 3, 1 << 40, 0]), varints(&[500, 1, 7, 1])];
    let bytes = runs.concat();
    for cut in 0..=bytes.len() {
        let expected = match cut {
            0 => Ok(0),
            _ if cut == runs[0].len() => Ok(3),
            _ if cut == bytes.len() => Ok(4),
            _ => MALFORMED,
        };
        assert_eq!(Claims(&bytes[..cut]).validate(1000), expected, "{cut}");
    }
}

#[test]
fn overlong_numbers_are_malformed() {
    // A gap of 2^64, and one that never ends.
    for gap in [
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02][..],
        &[0xFF; 30],
    ] {
        let mut bytes = gap.to_vec();
        bytes.extend(varints(&[1, 5, 0]));
        assert_eq!(Claims(&bytes).validate(u32::MAX), MALFORMED);
        assert_eq!(Claims(&bytes).iter().next(), None);
    }
}

#[test]
fn logging_a_hostile_list_is_bounded_by_its_bytes() {
    let bytes = varints(&[0, u64::from(u32::MAX), 6, 0]);
    let text = format!("{:?} {:?}", Claims(&bytes), Homes(&bytes));
    assert!(text.len() < 200, "{text}");
}

#[test]
fn builders_refuse_what_does_not_ascend_or_fit() {
    let claim = |shard, epoch| Claim {
        shard: ShardId(shard),
        epoch: Epoch::from_bits(epoch),
        draining: false,
    };
    let mut out = [0; 100];
    let mut builder = ClaimsBuilder::new(&mut out);
    builder.push(claim(5, 1)).unwrap();
    assert_eq!(builder.push(claim(5, 2)), Err(ListFull));
    assert_eq!(builder.push(claim(4, 2)), Err(ListFull));
    builder.push(claim(6, 2)).unwrap();
    builder.push(claim(7, 9)).unwrap();
    assert_eq!(builder.push(claim(6, 10)), Err(ListFull));
    let claims: Vec<_> = builder.finish().iter().collect();
    assert_eq!(claims, [claim(5, 1), claim(6, 2), claim(7, 9)]);

    let mut builder = ClaimsBuilder::new(&mut out[..29]);
    assert_eq!(builder.push(claim(0, 1)), Err(ListFull));
    assert!(builder.finish().is_empty());

    // A hundred thousand shards that were allocated together are one run.
    let mut builder = ClaimsBuilder::new(&mut out[..30]);
    for shard in 0..100_000 {
        builder.push(claim(shard, 1000 + u64::from(shard))).unwrap();
    }
    let claims = builder.finish();
    assert_eq!(claims.0.len(), 7);
    assert_eq!(claims.validate(100_000), Ok(100_000));
    assert_eq!(claims.validate(99_999), MALFORMED);
}

#[test]
fn entity_ids_are_checked() {
    let mut out = vec![0; MAX_ID_LEN + 100];
    let long = vec![7; MAX_ID_LEN + 1];
    let mut builder = EntityIdsBuilder::new(&mut out);
    builder.push(b"").unwrap();
    builder.push(b"user-42").unwrap();
    assert_eq!(builder.push(&long), Err(ListFull));
    builder.push(&long[1..]).unwrap();
    assert_eq!(builder.push(&[1; 100]), Err(ListFull));
    let ids = builder.finish();
    assert_eq!(ids.validate(), Ok(3));
    let expected: [&[u8]; 3] = [b"", b"user-42", &long[1..]];
    assert_eq!(ids.iter().collect::<Vec<_>>(), expected);

    for bytes in [&[1][..], &[1, 0], &[5, 0, 1, 2], &[0, 0, 9]] {
        assert_eq!(EntityIds(bytes).validate(), Err(DecodeError::List));
    }
    // A length that its field can hold, and an id may not have.
    let mut bytes = vec![0xFF; 2 + 0xFFFF];
    assert_eq!(EntityIds(&bytes).validate(), Err(DecodeError::List));
    assert_eq!(EntityIds(&bytes).iter().next(), None);
    let limit = u16::try_from(MAX_ID_LEN).unwrap();
    bytes[..2].copy_from_slice(&limit.to_le_bytes());
    assert_eq!(EntityIds(&bytes[..2 + MAX_ID_LEN]).validate(), Ok(1));
}

proptest! {
    #[test]
    fn lists_survive_a_round_trip(
        entries in proptest::collection::vec((0u32..4, 0u64..3, 0u64..2), 0..60),
        room in 0usize..400,
    ) {
        let mut out = vec![0; room];
        let mut writer = RunWriter::new(&mut out);
        let (mut shard, mut epoch) = (0, 50);
        let mut written = Vec::new();
        for (gap, step, tail) in entries {
            shard += gap;
            epoch += step;
            if writer.push(shard, epoch, tail).is_err() {
                break;
            }
            written.push((ShardId(shard), Epoch::from_bits(epoch), tail));
            shard += 1;
        }
        let bytes = writer.finish();
        prop_assert_eq!(Shards::new(bytes).collect::<Vec<_>>(), &written[..]);
        let count = u32::try_from(written.len()).unwrap();
        prop_assert_eq!(Claims(bytes).validate(shard), Ok(count));
        if let Some((ShardId(last), ..)) = written.last() {
            prop_assert_eq!(Claims(bytes).validate(*last), MALFORMED);
        }
    }

    #[test]
    fn what_is_valid_is_in_order_and_in_range(
        bytes in proptest::collection::vec(prop_oneof![0u8..6, any::<u8>()], 0..60),
        shard_count in 0u32..3000,
    ) {
        if let Ok(count) = Homes(&bytes).validate(shard_count) {
            let homes: Vec<_> = Homes(&bytes).iter().collect();
            prop_assert_eq!(homes.len(), count as usize);
            prop_assert!(homes.iter().all(|home| home.shard.0 < shard_count));
            prop_assert!(homes.is_sorted_by(|a, b| a.shard < b.shard));
        }
        if Claims(&bytes).validate(shard_count).is_ok() {
            prop_assert!(Homes(&bytes).validate(shard_count).is_ok());
        }
        // Unchecked iteration ends too, only later; the first items are enough here.
        let _ = Claims(&bytes).iter().take(5000).count();
        let ids = EntityIds(&bytes).iter().count();
        if let Ok(count) = EntityIds(&bytes).validate() {
            prop_assert_eq!(ids, count as usize);
        }
    }
}
