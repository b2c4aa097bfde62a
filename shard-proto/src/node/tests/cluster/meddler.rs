//! Control frames that are lost, doubled or late.

use super::*;

/// What happens to control frames of a kind.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Meddling {
    Lose,
    Double,
    /// They arrive with what is written after so many microseconds.
    Delay(u64),
}

/// Any control frame but the links' own may be lost, doubled or late, out of a thousand so many.
pub(in super::super) struct Noise {
    pub(in super::super) lose: u64,
    pub(in super::super) double: u64,
    pub(in super::super) delay: u64,
    pub(in super::super) rng: SplitMix64,
    held: Vec<(u64, usize, usize, Bytes)>,
}

impl Noise {
    pub(in super::super) const fn new(seed: u64, lose: u64, double: u64, delay: u64) -> Self {
        Self {
            lose,
            double,
            delay,
            rng: SplitMix64::new(seed),
            held: Vec::new(),
        }
    }

    /// What is written instead of whole frames.
    pub(super) fn disturb(&mut self, now: u64, to: (usize, usize), mut bytes: Bytes) -> Bytes {
        let mut out = BytesMut::new();
        while let Ok(Decoded::Frame(frame)) = Frame::decode(&bytes, u32::MAX) {
            let (kind, len) = (frame.header.kind, frame.encoded_len());
            let frame = bytes.split_to(len);
            let mut luck = self.rng.below(1_000);
            if kind.is_data() || kind.to_u8() < Kind::SWIM.to_u8() {
                luck = 1_000;
            }
            if luck < self.lose {
                continue;
            }
            let luck = luck - self.lose;
            if luck < self.delay {
                let by = self.rng.below(600 * MS);
                self.held.push((now + by, to.0, to.1, frame));
                continue;
            }
            out.extend_from_slice(&frame);
            if luck - self.delay < self.double {
                out.extend_from_slice(&frame);
            }
        }
        self.held.retain(|(at, pipe, end, frame)| {
            let due = *at <= now && (*pipe, *end) == to;
            if due {
                out.extend_from_slice(frame);
            }
            !due
        });
        out.freeze()
    }
}

/// Meddles with each control frame of a kind the first time it is said to somebody. Of beats and registrations, which
/// are never the same, with every second one.
pub(in super::super) struct Meddler {
    pub(in super::super) kind: Kind,
    pub(in super::super) how: Meddling,
    pub(in super::super) count: u64,
    pub(super) seen: BTreeMap<(usize, usize), BTreeSet<Bytes>>,
    pub(super) held: Vec<(u64, usize, usize, Bytes)>,
}

impl Meddler {
    pub(in super::super) const fn new(kind: Kind, how: Meddling) -> Self {
        Self {
            kind,
            how,
            count: 0,
            seen: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    pub(super) fn is_news(&mut self, to: (usize, usize), frame: &Bytes) -> bool {
        let changes = matches!(
            self.kind,
            Kind::LEADER_BEAT | Kind::NODE_BEAT | Kind::REGISTER
        );
        let seen = self.seen.entry(to).or_default();
        let news = seen.insert(frame.clone()) && (!changes || seen.len() % 2 == 1);
        self.count += u64::from(news);
        news
    }
}
