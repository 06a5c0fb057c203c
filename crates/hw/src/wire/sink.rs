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
