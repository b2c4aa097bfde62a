//! Compares what a cluster did with what it had to do.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    input::Input,
    totals::{Totals, sequential},
};

/// What one life of an entity did, written when it stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The entity.
    pub key: String,
    /// The allocation under which it lived: lives of an entity are ordered by it, and then by `life`.
    pub epoch: u64,
    /// Which life under that allocation; grows.
    pub life: u64,
    /// Its totals.
    pub totals: Totals,
    /// The rows, in the order in which it processed them.
    pub rows: Vec<u32>,
}

/// What became of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Rows of the file.
    pub rows: u64,
    /// How many times an entity processed one: `rows + duplicated − lost`, if all went to the right entity.
    pub processed: u64,
    /// How many of those were of a row that had been processed before.
    pub duplicated: u64,
    /// How many were of a row that came after a later one of the same entity.
    pub reordered: u64,
    /// Rows that nobody processed.
    pub lost: u64,
    /// How many were by an entity that the row does not belong to.
    pub misplaced: u64,
    /// Entities whose count, sums or order differ from those of the sequential computation.
    pub wrong_totals: u64,
}

impl Verdict {
    /// Compares the parts of all entities, in any order, with the file.
    #[must_use]
    pub fn new(input: &Input, mut parts: Vec<Part>) -> Self {
        parts.sort_by_key(|part| (part.epoch, part.life));
        let keys: HashMap<&str, usize> = input
            .keys()
            .iter()
            .enumerate()
            .map(|(index, key)| (&**key, index))
            .collect();
        let key_of_row: Vec<usize> = input.rows().map(|row| row.key).collect();
        let mut seen = vec![false; input.len()];
        let mut newest = vec![0; input.keys().len()];
        let mut totals = vec![Totals::default(); input.keys().len()];
        let mut verdict = Self {
            rows: input.len() as u64,
            ..Self::default()
        };
        for part in &parts {
            verdict.processed += part.rows.len() as u64;
            let Some(&key) = keys.get(part.key.as_str()) else {
                verdict.misplaced += part.rows.len() as u64;
                continue;
            };
            totals[key].append(&part.totals);
            for &row in &part.rows {
                let at = (row as usize).wrapping_sub(1);
                if key_of_row.get(at) != Some(&key) {
                    verdict.misplaced += 1;
                } else if core::mem::replace(&mut seen[at], true) {
                    verdict.duplicated += 1;
                } else if row < newest[key] {
                    verdict.reordered += 1;
                } else {
                    newest[key] = row;
                }
            }
        }
        verdict.lost = seen.iter().filter(|seen| !**seen).count() as u64;
        let expected = sequential(input);
        let differ = expected.iter().zip(&totals).filter(|(a, b)| a != b);
        verdict.wrong_totals = differ.count() as u64;
        verdict
    }

    /// Whether every row was processed exactly once and in order, and every total is right.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        self.processed == self.rows
            && self.duplicated == 0
            && self.reordered == 0
            && self.lost == 0
            && self.misplaced == 0
            && self.wrong_totals == 0
    }

    /// `ok` or `failed`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        if self.is_ok() { "ok" } else { "failed" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Columns;

    fn input() -> Input {
        let columns = Columns {
            key: "k".to_owned(),
            sums: vec!["v".to_owned()],
        };
        Input::read(&b"k,v\na,1\nb,2\na,3\na,4\nb,5\n"[..], "test", &columns).unwrap()
    }

    fn part(key: &str, epoch: u64, rows: &[u32]) -> Part {
        let mut totals = Totals::default();
        for row in rows {
            totals.push(*row, &[i64::from(*row)]);
        }
        Part {
            key: key.to_owned(),
            epoch,
            life: 0,
            totals,
            rows: rows.to_vec(),
        }
    }

    fn verdict(parts: &[(&str, u64, &[u32])]) -> Verdict {
        let parts = parts
            .iter()
            .map(|(key, epoch, rows)| part(key, *epoch, rows));
        Verdict::new(&input(), parts.collect())
    }

    #[test]
    fn all_once_and_in_order() {
        let verdict = verdict(&[("a", 9, &[4]), ("b", 2, &[2, 5]), ("a", 3, &[1, 3])]);
        assert_eq!(
            verdict,
            Verdict {
                rows: 5,
                processed: 5,
                ..Verdict::default()
            }
        );
        assert_eq!(verdict.word(), "ok");
    }

    #[test]
    fn each_fault_is_counted() {
        let right: (&str, u64, &[u32]) = ("b", 1, &[2, 5]);
        let none = Verdict {
            rows: 5,
            processed: 5,
            ..Verdict::default()
        };
        let rows: [(&[u32], Verdict); 4] = [
            (
                &[1, 3],
                Verdict {
                    processed: 4,
                    lost: 1,
                    wrong_totals: 1,
                    ..none
                },
            ),
            (
                &[1, 3, 3, 4],
                Verdict {
                    processed: 6,
                    duplicated: 1,
                    wrong_totals: 1,
                    ..none
                },
            ),
            (
                &[1, 4, 3],
                Verdict {
                    reordered: 1,
                    wrong_totals: 1,
                    ..none
                },
            ),
            (
                &[1, 2, 3, 4],
                Verdict {
                    processed: 6,
                    misplaced: 1,
                    wrong_totals: 1,
                    ..none
                },
            ),
        ];
        for (a, expected) in rows {
            let verdict = verdict(&[right, ("a", 1, a)]);
            assert_eq!(verdict, expected);
            assert_eq!(verdict.word(), "failed");
        }
    }

    #[test]
    fn strange_keys_and_rows_are_misplaced() {
        let verdict = verdict(&[
            ("a", 1, &[1, 3, 4, 0, 99]),
            ("b", 1, &[2, 5]),
            ("x", 1, &[1]),
        ]);
        assert_eq!((verdict.misplaced, verdict.lost), (3, 0));
        assert!(!verdict.is_ok());
    }

    #[test]
    fn a_wrong_sum_fails_although_every_row_is_there() {
        let mut wrong = part("a", 1, &[1, 3, 4]);
        wrong.totals.sums[0] += 1;
        let verdict = Verdict::new(&input(), vec![wrong, part("b", 1, &[2, 5])]);
        assert_eq!(verdict.wrong_totals, 1);
        assert!(!verdict.is_ok());
    }
}
