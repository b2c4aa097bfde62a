//! A CSV file as rows to account for: which key each one belongs to, and the numbers to add up.

use std::{collections::HashMap, fs::File, io::Read, path::Path, sync::Arc};

use csv::StringRecord;
use shard_tokio::proto::wire::MAX_ID_LEN;

use crate::failure::Failure;

#[cfg(test)]
mod tests;

/// The flights that the programs process when no other file is named.
pub const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights-20k.csv");

/// What to take from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The column whose value names the entity of a row.
    pub key: String,
    /// The columns to add up. Empty: `delay` and `distance`, where the header has them. `none`: no column.
    pub sums: Vec<String>,
}

/// A row to account for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Its number in the file, the first one after the header being 1.
    pub number: u32,
    /// Which key it belongs to: an index into [`Input::keys`].
    pub key: usize,
    /// The numbers to add up, one for each of [`Input::sums`].
    pub values: &'a [i64],
}

/// A file, read.
#[derive(Clone, Debug)]
pub struct Input {
    keys: Vec<Arc<str>>,
    sums: Vec<String>,
    key_of_row: Vec<u32>,
    values: Vec<i64>,
}

impl Input {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the file and, where it applies, the line and the column.
    pub fn open(path: &Path, columns: &Columns) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
        Self::read(file, &name, columns)
    }

    /// Reads CSV from anywhere; `name` is for error messages.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub fn read(from: impl Read, name: &str, columns: &Columns) -> Result<Self, Failure> {
        let bad = |text: String| Failure::usage(format!("{name}: {text}"));
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::Headers)
            .from_reader(from);
        let header = reader.headers().map_err(|error| bad(explain(&error)))?;
        let header = header.clone();
        if header.is_empty() || header.iter().all(str::is_empty) {
            return Err(bad("has no header line".to_owned()));
        }
        let key_at = find(&header, &columns.key).map_err(bad)?;
        let (sums, sums_at) = sum_columns(&header, &columns.sums).map_err(bad)?;

        let mut input = Self {
            keys: Vec::new(),
            sums,
            key_of_row: Vec::new(),
            values: Vec::new(),
        };
        let mut known: HashMap<Arc<str>, u32> = HashMap::new();
        let mut record = StringRecord::new();
        while reader
            .read_record(&mut record)
            .map_err(|error| bad(explain(&error)))?
        {
            let line = record.position().map_or(0, csv::Position::line);
            let key = record.get(key_at).unwrap_or_default();
            if key.len() > MAX_ID_LEN {
                return Err(bad(format!(
                    "line {line}: the key is longer than {MAX_ID_LEN} bytes"
                )));
            }
            for (at, sum) in sums_at.iter().zip(&input.sums) {
                let field = record.get(*at).unwrap_or_default();
                let value = field.trim().parse().map_err(|_| {
                    bad(format!(
                        "line {line}, column {sum}: {field:?} is not a whole number"
                    ))
                })?;
                input.values.push(value);
            }
            let next = u32::try_from(input.keys.len()).unwrap_or(u32::MAX);
            let index = known.get(key).copied().unwrap_or_else(|| {
                let key: Arc<str> = key.into();
                input.keys.push(Arc::clone(&key));
                known.insert(key, next);
                next
            });
            input.key_of_row.push(index);
            if input.key_of_row.len() >= u32::MAX as usize {
                return Err(bad("has more than 4 billion rows".to_owned()));
            }
        }
        if input.key_of_row.is_empty() {
            return Err(bad("has a header and no rows".to_owned()));
        }
        Ok(input)
    }

    /// The distinct keys, in order of their first row.
    #[must_use]
    pub fn keys(&self) -> &[Arc<str>] {
        &self.keys
    }

    /// The names of the columns that are added up.
    #[must_use]
    pub fn sums(&self) -> &[String] {
        &self.sums
    }

    /// How many rows there are; never 0.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.key_of_row.len()
    }

    /// Never: a file without rows is an error.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.key_of_row.is_empty()
    }

    /// All rows, in the file's order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        let width = self.sums.len();
        self.key_of_row
            .iter()
            .enumerate()
            .map(move |(at, key)| Row {
                number: at as u32 + 1,
                key: *key as usize,
                values: &self.values[at * width..(at + 1) * width],
            })
    }
}

fn find(header: &StringRecord, column: &str) -> Result<usize, String> {
    header
        .iter()
        .position(|name| name == column)
        .ok_or_else(|| {
            let columns: Vec<_> = header.iter().collect();
            format!("no column {column:?}; there are {}", columns.join(", "))
        })
}

/// Names and positions of the columns to add up.
fn sum_columns(
    header: &StringRecord,
    wanted: &[String],
) -> Result<(Vec<String>, Vec<usize>), String> {
    let there = |name: &&str| header.iter().any(|column| column == *name);
    let names: Vec<String> = match wanted {
        [] => ["delay", "distance"]
            .iter()
            .filter(|name| there(name))
            .map(|name| (*name).to_owned())
            .collect(),
        [none] if none == "none" => Vec::new(),
        names => names.to_vec(),
    };
    let at = names.iter().map(|name| find(header, name));
    let at = at.collect::<Result<_, _>>()?;
    Ok((names, at))
}

/// What is wrong with a record, in a person's words.
fn explain(error: &csv::Error) -> String {
    let line = error
        .position()
        .map_or(String::new(), |at| format!("line {}: ", at.line()));
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{line}has {len} fields, the header has {expected_len}"),
        csv::ErrorKind::Utf8 { .. } => format!("{line}is not UTF-8"),
        csv::ErrorKind::Io(error) => error.to_string(),
        _ => error.to_string(),
    }
}
