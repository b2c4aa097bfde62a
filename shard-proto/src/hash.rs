//! Specified hashes: entity id to shard, names to numbers, and the generator behind every random choice.
//!
//! All of them are part of the wire format: nodes that compute them differently send the same entity to two homes. They
//! have test vectors in `hash/tests.rs`, and changing one is a new protocol.
//!
//! # The default algorithm
//!
//! For the bytes of an entity id and a shard count `n`:
//!
//! 1. `h = 0xCBF29CE484222325`; for each byte `h = (h ^ byte) × 0x100000001B3 mod 2^64` (FNV-1a, 64 bit);
//! 2. `h = mix(h)`, one output of SplitMix64 whose state is `h` ([`mix`]): FNV leaves the high bits of short ids poor;
//! 3. shard = the high 64 bits of the 128-bit product `h × n`, which lies in `0..n` without a division.
//!
//! `user-42` is shard 56 of 64. Growing `n` moves almost every entity, so the shard count is a constant of the cluster.

use core::fmt;

use crate::{EntityTypeId, NodeId, ShardId};

#[cfg(test)]
mod tests;

/// FNV-1a, 64 bit. <http://www.isthe.com/chongo/tech/comp/fnv/>
const fn fnv1a_64(bytes: &[u8]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    let mut rest = bytes;
    while let [byte, tail @ ..] = rest {
        hash = (hash ^ *byte as u64).wrapping_mul(0x0000_0100_0000_01B3);
        rest = tail;
    }
    hash
}

/// FNV-1a 64 and [`mix`] behind it: steps 1 and 2 of the default algorithm.
pub(crate) const fn hash64(bytes: &[u8]) -> u64 {
    mix(fnv1a_64(bytes))
}

/// The shard of an entity by the [default algorithm](self#the-default-algorithm). O(length of the id).
///
/// `shard_count` 0 counts as 1.
#[must_use]
pub const fn entity_shard(id: &[u8], shard_count: u32) -> ShardId {
    #[expect(clippy::cast_possible_truncation, reason = "below a shard count, or 0")]
    let shard = high_word(hash64(id), shard_count as u64) as u32;
    ShardId(shard)
}

/// The high 64 bits of the product; below `n`, or 0 if `n` is 0.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "two factors of 64 bits make a product of at most 128"
)]
const fn high_word(hash: u64, n: u64) -> u64 {
    ((hash as u128 * n as u128) >> 64) as u64
}

/// How entity ids become shards. Every node of a cluster must use the same for a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardHash {
    /// `default`: [`entity_shard`].
    #[default]
    Default,
    /// `kafka-murmur2`: the default partitioner of Apache Kafka. Murmur2 of the id's bytes, sign bit cleared, mod n.
    KafkaMurmur2,
    /// `fnv1a-utf16`: FNV-1a, 32 bit, over the id's UTF-16 code units, absolute value, mod n. The basis, which an empty
    /// id leaves as it is, is not folded to a signed number. Bytes that are not UTF-8 count as U+FFFD.
    Fnv1aUtf16,
}

impl ShardHash {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Default, Self::KafkaMurmur2, Self::Fnv1aUtf16];

    /// Finds one by its name in configuration files.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|hash| hash.name() == name)
    }

    /// Its name in configuration files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::KafkaMurmur2 => "kafka-murmur2",
            Self::Fnv1aUtf16 => "fnv1a-utf16",
        }
    }

    /// Its number on the wire. Numbers from 256 are for algorithms that are not in this crate.
    #[must_use]
    pub const fn id(self) -> u16 {
        match self {
            Self::Default => 0,
            Self::KafkaMurmur2 => 1,
            Self::Fnv1aUtf16 => 2,
        }
    }

    /// The shard of an entity. O(length of the id). `shard_count` 0 counts as 1.
    #[must_use]
    pub fn shard(self, id: &[u8], shard_count: u32) -> ShardId {
        let hash = match self {
            Self::Default => return entity_shard(id, shard_count),
            Self::KafkaMurmur2 => murmur2(id) & 0x7FFF_FFFF,
            Self::Fnv1aUtf16 => fnv1a_utf16(id),
        };
        ShardId(hash.checked_rem(shard_count).unwrap_or(0))
    }
}

impl fmt::Display for ShardHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `org.apache.kafka.common.utils.Utils.murmur2`, as a bit pattern.
fn murmur2(id: &[u8]) -> u32 {
    const M: u32 = 0x5BD1_E995;
    // No id reaches 4 GiB; Kafka's lengths are 32 bits.
    let mut hash = 0x9747_B28C ^ u32::try_from(id.len()).unwrap_or(u32::MAX);
    let (words, rest) = id.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (byte, shift) in rest.iter().zip([0u32, 8, 16]) {
            hash ^= u32::from(*byte).wrapping_shl(shift);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// Absolute value of the hash as a signed number, which fits 32 unsigned bits.
fn fnv1a_utf16(id: &[u8]) -> u32 {
    const BASIS: u32 = 0x811C_9DC5;
    const PRIME: u32 = 0x0100_0193;
    if id.is_empty() {
        return BASIS;
    }
    let mut hash = BASIS;
    let mut take = |unit: u16| hash = (hash ^ u32::from(unit)).wrapping_mul(PRIME);
    for chunk in id.utf8_chunks() {
        chunk.valid().encode_utf16().for_each(&mut take);
        if !chunk.invalid().is_empty() {
            take(0xFFFD);
        }
    }
    hash.cast_signed().unsigned_abs()
}

/// The id of a node: FNV-1a 64 of its name, mixed; never 0.
#[must_use]
pub const fn node_id(name: &str) -> NodeId {
    let hash = hash64(name.as_bytes());
    NodeId(if hash == 0 { 1 } else { hash })
}

/// The number of a cluster on the wire: FNV-1a 64 of its name, mixed.
#[must_use]
pub const fn cluster_id(name: &str) -> u64 {
    hash64(name.as_bytes())
}

/// The number of an entity type on the wire: the high 32 bits of FNV-1a 64 of its name, mixed; never 0.
///
/// Two names of one cluster may collide (about 1 in 4 billion pairs), which is refused when the second type starts.
#[must_use]
pub const fn entity_type_id(name: &str) -> EntityTypeId {
    EntityTypeId(short(name))
}

/// The number of a role: the high 32 bits of FNV-1a 64 of its name, mixed; never 0, which stands for "any".
#[must_use]
pub const fn role_id(name: &str) -> u32 {
    short(name)
}

const fn short(name: &str) -> u32 {
    let hash = (hash64(name.as_bytes()) >> 32) as u32;
    if hash == 0 { 1 } else { hash }
}

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// One output of SplitMix64 whose state is `state`: a bijection that spreads every bit over all.
#[must_use]
pub const fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(GAMMA);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A small deterministic generator. Not for secrets.
///
/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. Seeds come from the operating
/// system's entropy in adapters, never from a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts a sequence. Any seed is as good as any other.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The seed with which another generator goes on where this one is.
    #[must_use]
    pub const fn state(&self) -> u64 {
        self.state
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        let output = mix(self.state);
        self.state = self.state.wrapping_add(GAMMA);
        output
    }

    /// A number below `n`, without bias. `n` of 0 or 1 answers 0 and draws nothing.
    ///
    /// Draws again with a probability below `n / 2^64`. Lemire, "Fast random integer generation in an interval", 2019.
    pub const fn below(&mut self, n: u64) -> u64 {
        if n <= 1 {
            return 0;
        }
        loop {
            let draw = self.next_u64();
            let low = draw.wrapping_mul(n);
            // Draws again below 2^64 mod n, which is below n: hardly any draw needs the division.
            if low < n {
                let Some(reject) = n.wrapping_neg().checked_rem(n) else {
                    return 0;
                };
                if low < reject {
                    continue;
                }
            }
            return high_word(draw, n);
        }
    }

    /// Two different numbers below `n`, in the order of drawing; both 0, without a draw, if there are no two.
    ///
    /// What the power of two choices draws. One draw for `n` of 2, otherwise two.
    pub const fn two(&mut self, n: u64) -> (u64, u64) {
        if n <= 1 {
            return (0, 0);
        }
        let first = self.below(n);
        let second = self.below(n.saturating_sub(1));
        // Past the first: all others are equally likely.
        let past = if second >= first { 1 } else { 0 };
        (first, second.saturating_add(past))
    }
}
