//! The rows of `bench`: what is measured, what the machine's floor for it is, and how both are shown.

use core::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::failure::Failure;

#[cfg(test)]
mod tests;

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// As much as it takes for figures that repeat.
    Full,
    /// Only to see that it works.
    Quick,
}

impl Size {
    /// So many operations, or a thousandth of them (100 at least).
    #[must_use]
    pub const fn of(self, full: u64) -> u64 {
        match self {
            Self::Full => full,
            Self::Quick => {
                let few = full / 1000;
                if few < 100 { 100 } else { few }
            }
        }
    }
}

/// One measured number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its key in the JSON object; the same for the floor's figure of the same thing.
    pub key: &'static str,
    /// The number, in the unit that the key ends with.
    pub value: f64,
}

/// A number under a key.
#[must_use]
pub const fn figure(key: &'static str, value: f64) -> Figure {
    Figure { key, value }
}

/// Measures one thing.
pub type Measure = fn(Size) -> Result<Vec<Figure>, Failure>;

/// A row: something that is measured, and its floor.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What `--only` calls it.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// What the machine can do without sharding.
    pub floor: Option<Measure>,
    /// What the sharded entities do.
    pub ours: Option<Measure>,
    /// What to reach: a key and the value that it should at least have (at most, if it is a time).
    pub target: Option<(&'static str, f64)>,
}

impl Row {
    /// With what to reach.
    #[must_use]
    pub const fn with_target(mut self, key: &'static str, value: f64) -> Self {
        self.target = Some((key, value));
        self
    }
}

/// A row's figures.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which row.
    pub row: Row,
    /// The machine's.
    pub floor: Vec<Figure>,
    /// Ours.
    pub ours: Vec<Figure>,
}

/// The rows that were asked for, all of them if none was.
///
/// # Errors
/// A name that no row has.
pub fn select(rows: &[Row], only: &[String]) -> Result<Vec<Row>, Failure> {
    if only.is_empty() {
        return Ok(rows.to_vec());
    }
    let find = |name: &String| {
        let row = rows.iter().find(|row| row.name == name);
        row.copied().ok_or_else(|| {
            let names: Vec<_> = rows.iter().map(|row| row.name).collect();
            Failure::usage(format!("no row {name:?}; there are {}", names.join(", ")))
        })
    };
    only.iter().map(find).collect()
}

/// Measures a row, floor first.
///
/// # Errors
/// What the measurements fail with.
pub fn measure(row: Row, size: Size) -> Result<Measured, Failure> {
    let run = |measure: Option<Measure>| {
        measure
            .map_or(Ok(Vec::new()), |measure| measure(size))
            .map_err(|failure| Failure::run(format!("{}: {failure}", row.name)))
    };
    Ok(Measured {
        row,
        floor: run(row.floor)?,
        ours: run(row.ours)?,
    })
}

/// One object: our figures by key, and `floor` with those of the machine.
#[must_use]
pub fn to_json(all: &[Measured]) -> Value {
    let object = |figures: &mut dyn Iterator<Item = &Figure>| {
        let pairs = figures.map(|figure| (figure.key.to_owned(), number(figure.value)));
        pairs.collect::<Map<_, _>>()
    };
    let mut json = object(&mut all.iter().flat_map(|row| &row.ours));
    let floor = object(&mut all.iter().flat_map(|row| &row.floor));
    json.insert("floor".to_owned(), Value::Object(floor));
    Value::Object(json)
}

/// Whole numbers as such, others with as many decimals as are worth reading.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        json!(value as i64)
    } else if value.abs() >= 1000.0 {
        json!(value.round() as i64)
    } else {
        json!((value * 1000.0).round() / 1000.0)
    }
}

/// The heading of the table.
#[must_use]
pub fn heading() -> String {
    format!(
        "{:38} {:<20} {:>12} {:>12} {:>8} {:>12}",
        "", "", "ours", "floor", "of floor", "target"
    )
}

/// A row of the table, one line for each key.
#[must_use]
pub fn to_lines(measured: &Measured) -> String {
    let Measured { row, floor, ours } = measured;
    let mut keys: Vec<&str> = ours.iter().map(|figure| figure.key).collect();
    for figure in floor {
        if !keys.contains(&figure.key) {
            keys.push(figure.key);
        }
    }
    let find = |figures: &[Figure], key| {
        let figure = figures.iter().find(|figure| figure.key == key);
        figure.map(|figure| figure.value)
    };
    let mut lines = String::new();
    for (index, key) in keys.into_iter().enumerate() {
        let title = if index == 0 { row.title } else { "" };
        let (our, their) = (find(ours, key), find(floor, key));
        let part = match (our, their) {
            (Some(our), Some(their)) if their > 0.0 => format!("{:.0} %", 100.0 * our / their),
            _ => String::new(),
        };
        let target = row.target.filter(|(of, _)| *of == key);
        let target = target.map_or(String::new(), |(_, value)| {
            let sign = if is_time(key) { "≤" } else { "≥" };
            let met = our.map_or("", |our| {
                let met = if is_time(key) {
                    our <= value
                } else {
                    our >= value
                };
                if met { " ✓" } else { " ✗" }
            });
            format!("{sign} {}{met}", human(value))
        });
        let show = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), human);
        let (our, their) = (show(our), show(their));
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "{title:38} {key:<20} {our:>12} {their:>12} {part:>8} {target:>12}"
        );
    }
    lines
}

fn is_time(key: &str) -> bool {
    !key.ends_with("per_s")
}

/// Decimals where they matter, and groups of thousands.
fn human(value: f64) -> String {
    if value.abs() < 100.0 && value.fract() != 0.0 {
        return format!("{value:.*}", if value.abs() < 1.0 { 4 } else { 2 });
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}
