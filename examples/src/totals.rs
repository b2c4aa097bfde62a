//! What is known of a key after its rows: how many, their sums, and in which order they came.

use serde::{Deserialize, Serialize};

use crate::input::{Input, Row};

/// A digest of row numbers in their order, which can be continued: the digest of two parts is that of the whole.
///
/// A polynomial in a fixed base, modulo the prime 2⁶¹ − 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order(u64);

impl Order {
    const PRIME: u64 = (1 << 61) - 1;
    const BASE: u64 = 0x0D1B_54A3_2D19_2ED0;

    fn mul_add(a: u64, b: u64, c: u64) -> u64 {
        ((u128::from(a) * u128::from(b) + u128::from(c)) % u128::from(Self::PRIME)) as u64
    }

    /// One more row.
    pub fn push(&mut self, row: u32) {
        // Row 0 would leave a digest of nothing as it is.
        self.0 = Self::mul_add(self.0, Self::BASE, u64::from(row) + 1);
    }

    /// Continues with a part of `count` rows.
    pub fn append(&mut self, part: Self, count: u64) {
        let mut factor = 1;
        let (mut base, mut power) = (Self::BASE, count);
        while power > 0 {
            if power & 1 == 1 {
                factor = Self::mul_add(factor, base, 0);
            }
            base = Self::mul_add(base, base, 0);
            power >>= 1;
        }
        self.0 = Self::mul_add(self.0, factor, part.0);
    }
}

/// The totals of a key, or of a part of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// How many rows.
    pub count: u64,
    /// The sum of each column that is added up; wraps around.
    pub sums: Vec<i64>,
    /// The order in which the rows came.
    pub order: Order,
}

impl Totals {
    /// Accounts for one more row.
    pub fn push(&mut self, row: u32, values: &[i64]) {
        self.count += 1;
        self.add(values);
        self.order.push(row);
    }

    /// Continues with a later part.
    pub fn append(&mut self, part: &Self) {
        self.count += part.count;
        self.add(&part.sums);
        self.order.append(part.order, part.count);
    }

    fn add(&mut self, values: &[i64]) {
        if self.sums.len() < values.len() {
            self.sums.resize(values.len(), 0);
        }
        for (sum, value) in self.sums.iter_mut().zip(values) {
            *sum = sum.wrapping_add(*value);
        }
    }
}

/// The totals of each key of [`Input::keys`], computed one row after the other: what a cluster must arrive at too.
#[must_use]
pub fn sequential(input: &Input) -> Vec<Totals> {
    let mut totals = vec![Totals::default(); input.keys().len()];
    for Row {
        number,
        key,
        values,
    } in input.rows()
    {
        totals[key].push(number, values);
    }
    totals
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::input::{Columns, FLIGHTS};

    #[test]
    fn the_flights() {
        let columns = Columns {
            key: "origin".to_owned(),
            sums: Vec::new(),
        };
        let input = Input::open(Path::new(FLIGHTS), &columns).unwrap();
        let totals = sequential(&input);
        for (airport, flights, delay) in [
            ("DFW", 1103, 10_462),
            ("ORD", 1095, 8_181),
            ("ATL", 846, 6_611),
        ] {
            let key = input.keys().iter().position(|key| &**key == airport);
            let totals = &totals[key.unwrap()];
            assert_eq!(
                (totals.count, totals.sums[0]),
                (flights, delay),
                "{airport}"
            );
        }
        assert_eq!(totals.iter().map(|key| key.count).sum::<u64>(), 20_000);
    }

    #[test]
    fn parts_add_up_to_the_whole_however_they_are_cut() {
        let rows: Vec<u32> = (0..50).map(|row| row * 7 % 50).collect();
        let total = |rows: &[u32]| {
            let mut totals = Totals::default();
            for row in rows {
                totals.push(*row, &[i64::from(*row), -1]);
            }
            totals
        };
        let whole = total(&rows);
        for cut in 0..=rows.len() {
            let mut sum = total(&rows[..cut]);
            sum.append(&total(&rows[cut..]));
            assert_eq!(sum, whole);
        }
    }

    #[test]
    fn the_order_matters() {
        let digest = |rows: &[u32]| {
            let mut order = Order::default();
            rows.iter().for_each(|row| order.push(*row));
            order
        };
        assert_ne!(digest(&[1, 2, 3]), digest(&[1, 3, 2]));
        assert_ne!(digest(&[0]), digest(&[0, 0]));
        assert_ne!(digest(&[1, 2]), digest(&[1, 2, 2]));
    }
}
