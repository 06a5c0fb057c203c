//! The sink: takes what the NIC sends, recognises answers by their probe, measures latency.

use super::frames::MAGIC;
use hdrhistogram::Histogram;
use wiretime_base::Ps;

/// An answer: which packet it belongs to and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Sequence number of the packet.
    pub id: u64,
    /// From its first bit leaving to the answer's last bit returning.
    pub latency: Ps,
}

/// Longest latency that the histogram tells apart: one second.
const LATENCY_MAX: Ps = 1_000_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// The sink.
pub struct Sink {
    probe: usize,
    histogram: Histogram<u64>,
    sum: u128,
    /// Of squares, in ns^2: enough for a deviation.
    squares: f64,
    count: u64,
    max: Ps,
}

impl Sink {
    /// Looks for the probe at this offset.
    #[must_use]
    pub fn new(probe_offset: u32) -> Self {
        Self {
            probe: probe_offset as usize,
            histogram: Histogram::new_with_bounds(1, LATENCY_MAX, SIGNIFICANT_DIGITS).expect("bounds are constants"),
            sum: 0,
            squares: 0.0,
            count: 0,
            max: 0,
        }
    }

    /// Reads the probe of a frame whose last bit arrives at `t`; `None` where it carries none.
    #[must_use]
    pub fn recognise(&self, frame: &[u8], t: Ps) -> Option<Answer> {
        let probe = frame.get(self.probe..self.probe + super::PROBE_BYTES as usize)?;
        if probe[..2] != MAGIC {
            return None;
        }
        let word = |at: usize| probe[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or(0);
        Some(Answer { id: word(2), latency: t.checked_sub(word(10))? })
    }

    /// What was measured is forgotten.
    pub fn forget(&mut self) {
        *self = Self::new(self.probe as u32);
    }

    /// Counts a latency (of a packet of the cohort).
    pub fn record(&mut self, latency: Ps) {
        self.histogram.saturating_record(latency.max(1));
        self.sum += u128::from(latency);
        let ns = latency as f64 / 1000.0;
        self.squares += ns * ns;
        self.count += 1;
        self.max = self.max.max(latency);
    }

    /// Answers recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Mean latency in ps; 0 without answers.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }
    /// Standard deviation in ps; 0 without answers.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let mean = self.mean() / 1000.0;
        libm::sqrt((self.squares / self.count as f64 - mean * mean).max(0.0)) * 1000.0
    }
    /// Largest latency.
    #[must_use]
    pub fn max(&self) -> Ps {
        self.max
    }
    /// Latency at a quantile, to three digits.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Ps {
        self.histogram.value_at_quantile(q).min(self.max)
    }
    /// The filled buckets: highest value in ps, count.
    #[must_use]
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.histogram.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_quantiles() {
        let mut sink = Sink::new(42);
        assert_eq!((sink.count(), sink.mean(), sink.deviation()), (0, 0.0, 0.0));
        (1..=1000u64).for_each(|us| sink.record(us * 1_000_000));
        assert_eq!(sink.count(), 1000);
        assert!((sink.mean() / 1e6 - 500.5).abs() < 1e-9);
        assert!((sink.deviation() / 1e6 - 288.675).abs() < 0.001, "{}", sink.deviation());
        for (q, us) in [(0.5, 500.0), (0.9, 900.0), (0.9999, 1000.0)] {
            assert!((sink.quantile(q) as f64 / 1e6 / us - 1.0).abs() < 0.002, "{q}");
        }
        sink.forget();
        assert_eq!((sink.count(), sink.max()), (0, 0));
    }

    #[test]
    fn answers_are_recognised() {
        let sink = Sink::new(42);
        let mut frame = [0u8; 60];
        frame[42..44].copy_from_slice(&MAGIC);
        frame[44] = 7;
        frame[52..60].copy_from_slice(&1000u64.to_le_bytes());
        assert_eq!(sink.recognise(&frame, 5000), Some(Answer { id: 7, latency: 4000 }));
        assert_eq!(sink.recognise(&frame, 999), None, "before it left");
        assert_eq!(sink.recognise(&frame[..59], 5000), None, "cut");
        frame[42] = 0;
        assert_eq!(sink.recognise(&frame, 5000), None);
    }
}
