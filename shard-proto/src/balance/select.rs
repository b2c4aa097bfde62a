//! Who is a candidate.

use super::{Belief, NodeRef, Preference, Provider};
use crate::{Instant, membership::MemberState};

/// Who was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// How many.
    pub(super) count: usize,
    /// When it may be others because time passed.
    pub(super) until: Instant,
    /// Whether doubt was not believed, because too few are good.
    pub(super) panic: bool,
}

/// How good a node is; the lowest class that has any is taken.
const GOOD: usize = 0;
const DOUBTFUL: usize = 1;
const LEAVING: usize = 2;
/// Ranks within a class: local, zone and role are one bit each.
const TIERS: usize = 8;

/// Writes the indices of those to pick from into `out`, ascending. O(n × tried).
pub(super) fn select(
    now: Instant,
    members: &[Provider],
    beliefs: &[Belief],
    tried: &[NodeRef],
    preference: &Preference,
    out: &mut [u16],
) -> Selection {
    let mut until = Instant::FAR_FUTURE;
    // Of those that do not leave: whether this client is in trouble does not depend on what this call has tried.
    let (mut staying, mut good) = (0_usize, 0_usize);
    for (member, belief) in allowed(members, beliefs, preference) {
        let doubted = belief.doubted_until();
        if doubted > now {
            // The earlier of the two changes nothing if the later one goes on.
            until = until.min(doubted);
        }
        match class(now, member, belief) {
            GOOD => {
                staying = staying.saturating_add(1);
                good = good.saturating_add(1);
            }
            DOUBTFUL => staying = staying.saturating_add(1),
            _ => {}
        }
    }
    let percent = usize::try_from(preference.panic_percent).unwrap_or(usize::MAX);
    let panic = good.saturating_mul(100) < staying.saturating_mul(percent);
    let rank = |member: &Provider, belief: &Belief| {
        if tried.contains(&member.node) || !preference.allows(member) {
            return None;
        }
        match class(now, member, belief) {
            GOOD | DOUBTFUL if panic => Some(0),
            class => {
                let tier = preference.tier(member);
                Some(class.saturating_mul(TIERS).saturating_add(tier))
            }
        }
    };
    let mut ranks = [0_usize; 3 * TIERS];
    for (member, belief) in members.iter().zip(beliefs) {
        let rank = rank(member, belief).and_then(|rank| ranks.get_mut(rank));
        if let Some(count) = rank {
            *count = count.saturating_add(1);
        }
    }
    let range = enough(&ranks, preference.min_preferred);
    let mut count = 0_usize;
    for (at, (member, belief)) in members.iter().zip(beliefs).enumerate() {
        if rank(member, belief).is_some_and(|rank| range.contains(&rank))
            && let (Some(slot), Ok(at)) = (out.get_mut(count), u16::try_from(at))
        {
            *slot = at;
            count = count.saturating_add(1);
        }
    }
    Selection {
        count,
        until,
        panic,
    }
}

fn allowed<'a>(
    members: &'a [Provider],
    beliefs: &'a [Belief],
    preference: &'a Preference,
) -> impl Iterator<Item = (&'a Provider, &'a Belief)> {
    let all = members.iter().zip(beliefs);
    all.filter(|(member, _)| preference.allows(member))
}

fn class(now: Instant, member: &Provider, belief: &Belief) -> usize {
    match member.state {
        MemberState::Leaving => LEAVING,
        MemberState::Up if belief.doubted_until() <= now => GOOD,
        MemberState::Up | MemberState::Joining | MemberState::Unreachable => DOUBTFUL,
    }
}

/// The ranks to take: of the first class that has any, so many tiers that they have `least` nodes, or all.
fn enough(ranks: &[usize; 3 * TIERS], least: u32) -> core::ops::Range<usize> {
    let least = usize::try_from(least).unwrap_or(usize::MAX).max(1);
    let Some(first) = ranks.iter().position(|count| *count > 0) else {
        return 0..0;
    };
    let mut found = 0_usize;
    let mut end = first;
    // To the end of the class.
    for count in ranks
        .iter()
        .skip(first)
        .take(TIERS.saturating_sub(first % TIERS))
    {
        found = found.saturating_add(*count);
        end = end.saturating_add(1);
        if found >= least {
            break;
        }
    }
    first..end
}
