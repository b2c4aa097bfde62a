//! How long things took.

use core::time::Duration;

use hdrhistogram::Histogram;

/// A histogram of durations: 1 ns to 60 s, three significant digits. Longer ones count as 60 s.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Latency {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        let longest = Duration::from_secs(60).as_nanos() as u64;
        Self(Histogram::new_with_max(longest, 3).expect("the bounds are valid"))
    }

    /// One more.
    pub fn record(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos.max(1));
    }

    /// All of another one too.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration in microseconds that a part of all durations does not exceed; 0 if there is none.
    #[must_use]
    pub fn micros(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// The median, in microseconds.
    #[must_use]
    pub fn p50_us(&self) -> f64 {
        self.micros(0.5)
    }

    /// The mean, in microseconds; 0 if there is none.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        self.0.mean() / 1000.0
    }

    /// What one in a hundred exceeds, in microseconds.
    #[must_use]
    pub fn p99_us(&self) -> f64 {
        self.micros(0.99)
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let mut latency = Latency::new();
        assert_eq!((latency.count(), latency.p50_us()), (0, 0.0));
        let mut slow = Latency::new();
        for micros in 1..=98 {
            latency.record(Duration::from_micros(micros));
        }
        slow.record(Duration::from_millis(5));
        slow.record(Duration::from_secs(3600));
        latency.merge(&slow);
        assert_eq!(latency.count(), 100);
        assert!((latency.p50_us() - 50.0).abs() < 0.1);
        assert!((latency.p99_us() - 5000.0).abs() < 10.0);
        assert!((latency.micros(1.0) - 60e6).abs() < 60e3);
        latency.record(Duration::ZERO);
    }
}
