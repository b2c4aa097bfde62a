//! Deliberate faults of the protocol, planted in a copy of the code: the simulator must find each.
//!
//! A fault is a patch file beside the simulator: lines of `Name: value`, then a unified diff.
//!
//! | name | meaning |
//! |---|---|
//! | `Fault` | what is wrong, in a sentence |
//! | `Rule` | the rule of the protocol that it breaks |
//! | `Seeds` | within so many it must be found; default [`SEEDS`] |
//! | `Arguments` | for `seeds`, the program that judges |
//! | `Redundant` | why nothing breaks without this rule alone; such a fault is shown, and not counted |

pub mod copy;
pub mod patch;

use core::time::Duration;
use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::failure::Failure;
use patch::Patch;

/// Within so many seeds a fault must be found.
pub const SEEDS: u64 = 2000;

/// Where the patches are.
pub const DIRECTORY: &str = "shard-proto/src/sim/mutations";

/// So long the seeds of one fault may take.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// A deliberate fault.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The name of its file, without `.patch`.
    pub name: String,
    /// What is wrong.
    pub fault: String,
    /// Which rule it breaks.
    pub rule: String,
    /// Within so many seeds it must be found.
    pub seeds: u64,
    /// For the program that judges.
    pub arguments: Vec<String>,
    /// Why nothing breaks, if nothing does.
    pub redundant: Option<String>,
    /// How it is planted.
    pub patch: Patch,
}

impl Mutant {
    /// Reads a patch file.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let start = text.find("--- ").ok_or("it has no diff")?;
        let (head, diff) = text.split_at(start);
        let mut mutant = Self {
            name: name.to_owned(),
            fault: String::new(),
            rule: String::new(),
            seeds: SEEDS,
            arguments: Vec::new(),
            redundant: None,
            patch: Patch::parse(diff)?,
        };
        for line in head.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line
                .split_once(": ")
                .ok_or_else(|| format!("`{line}` is no `Name: value`"))?;
            let value = value.trim();
            match name {
                "Fault" => mutant.fault = value.to_owned(),
                "Rule" => mutant.rule = value.to_owned(),
                "Seeds" => {
                    mutant.seeds = value
                        .parse()
                        .map_err(|_| format!("Seeds: `{value}` is no number"))?;
                }
                "Arguments" => {
                    mutant.arguments = value.split_whitespace().map(str::to_owned).collect();
                }
                "Redundant" => mutant.redundant = Some(value.to_owned()),
                _ => return Err(format!("`{name}` is not known")),
            }
        }
        if mutant.fault.is_empty() || mutant.rule.is_empty() {
            return Err("`Fault` and `Rule` must be there".to_owned());
        }
        Ok(mutant)
    }
}

/// The repository that this program was built from.
#[must_use]
pub fn repository() -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR"));
    examples.parent().unwrap_or(examples).to_path_buf()
}

/// All of them, in the order of their names.
///
/// # Errors
/// The directory or a patch cannot be read.
pub fn load(repository: &Path) -> Result<Vec<Mutant>, Failure> {
    let directory = repository.join(DIRECTORY);
    let failed = |path: &Path, why: &dyn core::fmt::Display| {
        Failure::run(format!("{}: {why}", path.display()))
    };
    let entries = fs::read_dir(&directory).map_err(|error| failed(&directory, &error))?;
    let mut mutants = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(&directory, &error))?.path();
        if path.extension().is_none_or(|end| end != "patch") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
        mutants.push(Mutant::parse(&name, &text).map_err(|error| failed(&path, &error))?);
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

/// Chooses `count` of `len`, others every day, all in turn.
#[must_use]
pub fn rotate(len: usize, count: usize, day: u64) -> Vec<usize> {
    let Some(start) = (day.wrapping_mul(count as u64)).checked_rem(len as u64) else {
        return Vec::new();
    };
    (0..count.min(len))
        .map(|at| (start as usize + at) % len)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_what_is_wrong_with_it() {
        let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
        let parse = |head: &str| Mutant::parse("01-x", &format!("{head}{diff}"));
        let good = parse("Fault: f: g\nRule: 2.4\nSeeds: 7\nArguments: --skew 3\n\n").unwrap();
        assert_eq!((&*good.fault, &*good.rule, good.seeds), ("f: g", "2.4", 7));
        assert_eq!(good.arguments, ["--skew", "3"]);
        assert_eq!(parse("Fault: f\nRule: 1\n").unwrap().seeds, SEEDS);
        for (head, part) in [
            ("Fault: f\n", "must be there"),
            ("Fault: f\nRule: 1\nSeeds: x\n", "no number"),
            ("Fault: f\nRule: 1\nOther: x\n", "not known"),
            ("Fault: f\nRule: 1\nwords\n", "no `Name: value`"),
        ] {
            assert!(parse(head).unwrap_err().contains(part), "{head}");
        }
        assert!(Mutant::parse("x", "Fault: f\nRule: 1\n").is_err());
    }

    #[test]
    fn rotation_reaches_all() {
        let mut seen: Vec<usize> = (0..7).flat_map(|day| rotate(17, 3, day)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 17);
        assert_eq!(rotate(2, 5, 9).len(), 2);
        assert!(rotate(0, 5, 9).is_empty());
    }
}
