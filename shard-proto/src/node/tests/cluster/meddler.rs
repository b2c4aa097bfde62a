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
