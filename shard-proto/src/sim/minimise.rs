//! The least that goes wrong.

use alloc::vec::Vec;

use super::{ConfigError, Failure, Fault, Schedule, Store, World, WorldConfig};

/// How often a schedule is tried at most.
const TRIES: u32 = 2_000;

/// Drops faults from the schedule of a failure that are not needed for it: everything else that is left to chance
/// stays the seed's. The result breaks the same promise, perhaps at another time.
///
/// It runs the world again for each try: seconds to minutes.
///
/// # Errors
/// [`ConfigError`]: a setting that cannot work.
pub fn minimise<St: Store>(
    config: &WorldConfig,
    failure: &Failure,
) -> Result<Failure, ConfigError> {
    config.validate()?;
    let mut least = failure.clone();
    // What comes after it has no part in it.
    let at = failure.at;
    let before = failure.schedule.faults.iter().copied();
    let before = before.filter(|(time, _)| *time <= at);
    let (undo, faults): (Vec<_>, Vec<_>) = before.partition(|(_, fault)| undoes(config, fault));
    let name = failure.violation.name();
    let mut tries = TRIES;
    shrink(faults, |faults| {
        if tries == 0 {
            return false;
        }
        tries -= 1;
        let mut schedule = faults.to_vec();
        let needed = undo.iter().filter(|end| is_needed(faults, end));
        schedule.extend(needed.copied());
        let schedule = Schedule::new(schedule);
        match World::<St>::with_schedule(config.clone(), failure.seed, schedule) {
            Ok(world) => match world.run() {
                Err(again) if again.violation.name() == name => {
                    least = again;
                    true
                }
                _ => false,
            },
            Err(_) => false,
        }
    });
    Ok(least)
}

/// Whether it ends a fault. Without it, a fault would last for ever.
fn undoes(config: &WorldConfig, fault: &Fault) -> bool {
    match *fault {
        Fault::Heal { .. }
        | Fault::HealAll
        | Fault::Start { .. }
        | Fault::StartRegion { .. }
        | Fault::ProbeOver => true,
        Fault::Noise {
            loss,
            duplicate,
            late,
            delay,
        } => {
            (loss, duplicate, late) == (0, 0, 0) || (loss, duplicate, late, delay) == config.noise()
        }
        Fault::HangStops { for_, .. } => for_.is_zero(),
        _ => false,
    }
}

/// Whether it ends anything.
fn is_needed(faults: &[(u64, Fault)], end: &(u64, Fault)) -> bool {
    let (at, end) = *end;
    let before = || faults.iter().filter(|(time, _)| *time <= at);
    let any = |ends: &dyn Fn(&Fault) -> bool| before().any(|(_, fault)| ends(fault));
    match end {
        Fault::Heal { from, to } => any(&|fault| *fault == Fault::Cut { from, to }),
        Fault::HealAll => any(&|fault| matches!(fault, Fault::Cut { .. })),
        Fault::Start { host } => any(&|fault| match *fault {
            Fault::Crash { host: other } | Fault::Leave { host: other } => other == host,
            Fault::Probe(_) => true,
            _ => false,
        }),
        Fault::StartRegion { host, ty } => any(&|fault| *fault == Fault::StopRegion { host, ty }),
        Fault::HangStops { host, .. } => {
            any(&|fault| matches!(fault, Fault::HangStops { host: other, .. } if *other == host))
        }
        Fault::ProbeOver => any(&|fault| matches!(fault, Fault::Probe(_))),
        // Noise is there from the beginning.
        _ => true,
    }
}

/// Delta debugging: the smallest part of `all` for which `fails` still holds that leaving out runs of its elements leads
/// to. `fails` is true for the last part it was true for.
///
/// Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 28(2), 2002.
pub(super) fn shrink(
    all: Vec<(u64, Fault)>,
    mut fails: impl FnMut(&[(u64, Fault)]) -> bool,
) -> Vec<(u64, Fault)> {
    let mut rest = all;
    if fails(&[]) {
        return Vec::new();
    }
    let mut run = rest.len().div_ceil(2);
    while run > 0 && !rest.is_empty() {
        let mut dropped = false;
        // From the end: what comes late is needed least.
        let mut end = rest.len();
        while end > 0 {
            let start = end.saturating_sub(run);
            let mut less = rest.clone();
            less.drain(start..end);
            if fails(&less) {
                rest = less;
                dropped = true;
            }
            end = start;
        }
        if run == 1 && !dropped {
            break;
        }
        run = if dropped && run == 1 { 1 } else { run / 2 };
    }
    rest
}
