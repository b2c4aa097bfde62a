#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![allow(clippy::cast_possible_truncation, clippy::std_instead_of_alloc)]

use std::format;

use super::*;

const LONG: &str = match core::str::from_utf8(&[b'x'; 1024]) {
    Ok(text) => text,
    Err(_) => "",
};
const COUNTS: [u32; 5] = [1, 7, 64, 256, 100_000];

/// Computed by a second implementation, in another language.
const DEFAULT: [(&str, [u32; 5]); 9] = [
    ("", [0, 5, 48, 195, 76_369]),
    ("a", [0, 2, 23, 95, 37_173]),
    ("user-42", [0, 6, 56, 226, 88_494]),
    ("e-0", [0, 6, 59, 239, 93_436]),
    ("user!31", [0, 2, 25, 103, 40_324]),
    ("user#31", [0, 4, 44, 179, 70_243]),
    ("é", [0, 3, 27, 110, 43_023]),
    ("😀", [0, 6, 60, 242, 94_753]),
    (LONG, [0, 4, 41, 167, 65_528]),
];
const KAFKA: [(&str, [u32; 5]); 9] = [
    ("", [0, 2, 25, 217, 46_681]),
    ("a", [0, 5, 60, 124, 2_524]),
    ("user-42", [0, 1, 44, 44, 44_460]),
    ("e-0", [0, 3, 41, 105, 41_417]),
    ("user!31", [0, 5, 40, 232, 6_760]),
    ("user#31", [0, 4, 33, 225, 26_977]),
    ("é", [0, 4, 7, 135, 71_271]),
    ("😀", [0, 0, 17, 145, 81_617]),
    (LONG, [0, 6, 41, 41, 37_545]),
];
const UTF16: [(&str, [u32; 5]); 9] = [
    ("", [0, 2, 5, 197, 36_261]),
    ("a", [0, 6, 20, 212, 65_076]),
    ("user-42", [0, 6, 43, 171, 75_499]),
    ("e-0", [0, 0, 5, 133, 14_725]),
    ("user!31", [0, 5, 13, 13, 20_461]),
    ("user#31", [0, 6, 13, 141, 17_517]),
    ("é", [0, 0, 4, 68, 87_940]),
    ("😀", [0, 2, 8, 72, 30_824]),
    (LONG, [0, 5, 5, 197, 40_997]),
];

#[test]
fn entity_to_shard_vectors() {
    for (hash, vectors) in [
        (ShardHash::Default, DEFAULT),
        (ShardHash::KafkaMurmur2, KAFKA),
        (ShardHash::Fnv1aUtf16, UTF16),
    ] {
        for (id, shards) in vectors {
            let found = COUNTS.map(|count| hash.shard(id.as_bytes(), count).0);
            assert_eq!(found, shards, "{hash} of {id:?}");
        }
    }
    assert_eq!(entity_shard(b"user-42", 64), ShardId(56));
}

#[test]
fn kafka_murmur2_vectors() {
    for (id, expected) in [
        ("1", -1_993_445_489),
        ("12", 126_087_238),
        ("123", -267_702_483),
        ("1234", -1_614_185_708),
        ("12345", -1_188_365_604),
    ] {
        assert_eq!(murmur2(id.as_bytes()).cast_signed(), expected, "{id}");
    }
}

#[test]
fn fnv1a_utf16_vectors() {
    for (id, shards) in [
        ("user-42", [3, 3, 11, 11, 43]),
        ("user-7", [2, 2, 2, 18, 50]),
        ("é", [0, 4, 4, 4, 4]),
        ("", [1, 5, 5, 5, 5]),
    ] {
        let found =
            [4, 8, 16, 32, 64].map(|count| ShardHash::Fnv1aUtf16.shard(id.as_bytes(), count).0);
        assert_eq!(found, shards, "{id:?}");
    }
    let replaced = ShardHash::Fnv1aUtf16.shard("a\u{FFFD}b".as_bytes(), 1000);
    assert_eq!(ShardHash::Fnv1aUtf16.shard(b"a\xFFb", 1000), replaced);
}

#[test]
fn every_hash_stays_in_range() {
    for hash in ShardHash::ALL {
        for count in [0, 1, 2, 3, 1 << 31, u32::MAX] {
            for id in 0..200 {
                let shard = hash.shard(format!("user-{id}").as_bytes(), count).0;
                assert!(shard < count.max(1), "{hash} {id} {count}");
            }
        }
    }
}

#[test]
fn hashes_are_found_by_name() {
    for hash in ShardHash::ALL {
        assert_eq!(ShardHash::by_name(hash.name()), Some(*hash));
    }
    assert_eq!(ShardHash::by_name("Default"), None);
    assert_eq!(ShardHash::default().name(), "default");
}

#[test]
fn default_hash_spreads_evenly() {
    const IDS: u32 = 100_000;
    let mut counts = [0u32; 256];
    for id in 0..IDS {
        counts[entity_shard(format!("user-{id}").as_bytes(), 256).0 as usize] += 1;
    }
    let expected = f64::from(IDS) / 256.0;
    let chi_squared: f64 = counts
        .iter()
        .map(|count| (f64::from(*count) - expected).powi(2) / expected)
        .sum();
    // 255 degrees of freedom: above 330.5 with a probability of 0.001, below 190.0 likewise.
    assert!((190.0..330.5).contains(&chi_squared), "{chi_squared}");
}

#[test]
fn names_have_fixed_numbers() {
    assert_eq!(node_id("node-a"), NodeId(0x40A3_6DC3_72DA_B80A));
    assert_eq!(node_id("node-b"), NodeId(0x071E_8516_D311_06EE));
    assert_eq!(cluster_id("node-a"), 0x40A3_6DC3_72DA_B80A);
    assert_eq!(cluster_id(""), 0xC381_7C01_6BA4_FF30);
    assert_eq!(entity_type_id("cart"), EntityTypeId(0x7135_F409));
    assert_eq!(role_id("cart"), 0x7135_F409);
}

/// Vectors G1 to G4.
#[test]
fn generator_vectors() {
    let mut rng = SplitMix64::new(0);
    assert_eq!(
        [(); 4].map(|()| rng.next_u64()),
        [
            0xE220_A839_7B1D_CDAF,
            0x6E78_9E6A_A1B9_65F4,
            0x06C4_5D18_8009_454F,
            0xF88B_B8A8_724C_81EC
        ]
    );
    assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    assert_eq!(mix(1), 0x910A_2DEC_8902_5CC1);
    assert_eq!(mix(u64::MAX), 0xE4D9_7177_1B65_2C20);

    let mut rng = SplitMix64::new(1);
    assert_eq!(
        [(); 12].map(|()| rng.below(3)),
        [1, 2, 2, 1, 1, 2, 2, 1, 0, 2, 1, 1]
    );
    let mut rng = SplitMix64::new(42);
    assert_eq!(
        [(); 12].map(|()| rng.below(10)),
        [7, 1, 2, 3, 0, 8, 2, 8, 3, 6, 2, 4]
    );
    let before = rng.clone();
    assert_eq!((rng.below(1), rng.below(0)), (0, 0));
    assert_eq!(rng, before);
}

#[test]
fn below_rejects_the_biased_part() {
    // Above half of the range nearly every second draw is rejected; a bias would show as a mean off the middle.
    let n = (1 << 63) + 1;
    let mut rng = SplitMix64::new(9);
    let draws = 20_000u64;
    let sum: u128 = (0..draws).map(|_| u128::from(rng.below(n))).sum();
    let mean = sum / u128::from(draws);
    let middle = u128::from(n / 2);
    assert!(mean.abs_diff(middle) < middle / 50, "{mean} {middle}");
}
