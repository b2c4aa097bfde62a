//! Compares what a cluster did with what it had to do.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{input::Input, totals::Totals};

/// What one life of an entity did, or a part of it, written when it stopped or row by row.
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
    /// When it processed the first one, by [`clock::micros`](crate::clock::micros).
    pub from_us: u64,
    /// When it processed the last one.
    pub to_us: u64,
}

/// A row without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its number.
    pub row: u32,
    /// What its caller was told.
    pub fate: Fate,
}

/// What the caller of a row without an answer knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was surely not processed.
    Not,
    /// It was perhaps processed.
    Perhaps,
}

/// What became of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Rows of the file.
    pub rows: u64,
    /// How many times an entity processed one: `rows + duplicated − lost − failed + perhaps_processed`, if all went to
    /// the right entity.
    pub processed: u64,
    /// How many of those were of a row that had been processed before.
    pub duplicated: u64,
    /// How many were of a row that came after a later one of the same entity.
    pub reordered: u64,
    /// Rows that nobody processed, although they were answered.
    pub lost: u64,
    /// Rows whose callers were told that they surely were not processed.
    pub failed_surely: u64,
    /// How many of those were.
    pub contradicted: u64,
    /// Rows whose callers were told that they perhaps were processed.
    pub failed_perhaps: u64,
    /// How many of those were.
    pub perhaps_processed: u64,
    /// How many were by an entity that the row does not belong to.
    pub misplaced: u64,
    /// Entities whose count, sums or order differ from those of the sequential computation.
    pub wrong_totals: u64,
}

impl Verdict {
    /// Compares the parts of all entities, in any order, with the file and with what the callers of rows were told.
    #[must_use]
    pub fn new(input: &Input, mut parts: Vec<Part>, failed: &[Failed]) -> Self {
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
        let mut expected = vec![Totals::default(); input.keys().len()];
        let fates: HashMap<u32, Fate> = failed.iter().map(|row| (row.row, row.fate)).collect();
        for (row, seen) in input.rows().zip(seen) {
            let (fate, seen_too) = match fates.get(&row.number) {
                None => (&mut verdict.lost, None),
                Some(Fate::Not) => (&mut verdict.failed_surely, Some(&mut verdict.contradicted)),
                Some(Fate::Perhaps) => (
                    &mut verdict.failed_perhaps,
                    Some(&mut verdict.perhaps_processed),
                ),
            };
            *fate += u64::from(seen_too.is_some() || !seen);
            if let Some(count) = seen_too {
                *count += u64::from(seen);
            }
            // A failed row that nobody processed is missing from the totals by right.
            if seen || !fates.contains_key(&row.number) {
                expected[row.key].push(row.number, row.values);
            }
        }
        let differ = expected.iter().zip(&totals).filter(|(a, b)| a != b);
        verdict.wrong_totals = differ.count() as u64;
        verdict
    }

    /// Whether every row that was answered was processed exactly once and in order, no other one was processed more
    /// often or against what its caller was told, and every total is right.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        self.duplicated == 0
            && self.reordered == 0
            && self.lost == 0
            && self.contradicted == 0
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
            from_us: 0,
            to_us: 0,
        }
    }

    fn verdict(parts: &[(&str, u64, &[u32])]) -> Verdict {
        let parts = parts
            .iter()
            .map(|(key, epoch, rows)| part(key, *epoch, rows));
        Verdict::new(&input(), parts.collect(), &[])
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
        let verdict = Verdict::new(&input(), vec![wrong, part("b", 1, &[2, 5])], &[]);
        assert_eq!(verdict.wrong_totals, 1);
        assert!(!verdict.is_ok());
    }
    #[test]
    fn rows_without_an_answer_are_neither_lost_nor_processed_against_what_was_said() {
        let failed = |row, fate| Failed { row, fate };
        let parts = || vec![part("a", 1, &[1, 3]), part("b", 1, &[5])];
        let told = [
            failed(2, Fate::Not),
            failed(3, Fate::Perhaps),
            failed(4, Fate::Perhaps),
        ];
        let verdict = Verdict::new(&input(), parts(), &told);
        let expected = Verdict {
            rows: 5,
            processed: 3,
            failed_surely: 1,
            failed_perhaps: 2,
            perhaps_processed: 1,
            ..Verdict::default()
        };
        assert_eq!(verdict, expected);
        assert!(verdict.is_ok());

        let told = [failed(1, Fate::Not), failed(2, Fate::Perhaps)];
        let verdict = Verdict::new(&input(), parts(), &told);
        assert_eq!((verdict.contradicted, verdict.lost), (1, 1));
        assert!(!verdict.is_ok());
        let twice = vec![
            part("a", 1, &[1, 3]),
            part("a", 2, &[3, 4]),
            part("b", 1, &[2, 5]),
        ];
        assert!(!Verdict::new(&input(), twice, &[failed(3, Fate::Perhaps)]).is_ok());
    }
}
