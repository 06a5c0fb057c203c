//! Latencies: exact moments and extremes, and a histogram of three digits.

use base64::Engine as _;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use hdrhistogram::Histogram;
use wiretime_base::Ps;

/// Longest latency that the histogram tells apart: one second.
const LONGEST: Ps = Ps::from_s(1);
const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies of some packets.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// None before the first: of many queues most have none.
    histogram: Option<Histogram<u64>>,
    sum: u128,
    /// Of squares, in ns^2: enough for a deviation.
    squares: f64,
    count: u64,
    max: Ps,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST.0, SIGNIFICANT_DIGITS).expect("bounds are constants")
}

impl Latencies {
    /// Counts one.
    #[inline]
    pub fn record(&mut self, latency: Ps) {
        self.histogram.get_or_insert_with(histogram).saturating_record(latency.0.max(1));
        self.sum += u128::from(latency.0);
        let ns = latency.as_f64() / 1000.0;
        self.squares += ns * ns;
        self.count += 1;
        self.max = self.max.max(latency);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Mean in ps; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }
    /// Standard deviation in ps; 0 of none.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let mean = self.mean() / 1000.0;
        libm::sqrt((self.squares / self.count as f64 - mean * mean).max(0.0)) * 1000.0
    }
    /// Longest.
    #[must_use]
    pub fn max(&self) -> Ps {
        self.max
    }
    /// At a quantile, to three digits.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Ps {
        self.histogram.as_ref().map_or(Ps::ZERO, |h| Ps(h.value_at_quantile(q)).min(self.max))
    }
    /// The filled buckets: highest value in ps, count.
    #[must_use]
    pub fn buckets(&self) -> Vec<(Ps, u64)> {
        let recorded = self.histogram.iter().flat_map(|h| h.iter_recorded());
        recorded.map(|v| (Ps(v.value_iterated_to()), v.count_at_value())).collect()
    }
    /// The histogram (of ps) as HdrHistogram's tools in any language read it: compressed V2 format in base64.
    #[must_use]
    pub fn encoded(&self) -> String {
        let mut bytes = Vec::new();
        match V2DeflateSerializer::new().serialize(self.histogram.as_ref().unwrap_or(&histogram()), &mut bytes) {
            Ok(_) => base64::engine::general_purpose::STANDARD.encode(bytes),
            Err(_) => String::new(), // a vector always takes what is written
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn moments_and_quantiles() {
        let mut l = Latencies::default();
        assert_eq!((l.count(), l.mean(), l.deviation()), (0, 0.0, 0.0));
        (1..=1000u64).for_each(|us| l.record(Ps(us * 1_000_000)));
        assert_eq!(l.count(), 1000);
        assert!((l.mean() / 1e6 - 500.5).abs() < 1e-9);
        assert!((l.deviation() / 1e6 - 288.675).abs() < 0.001, "{}", l.deviation());
        for (q, us) in [(0.5, 500.0), (0.9, 900.0), (0.9999, 1000.0)] {
            assert!((l.quantile(q).as_f64() / 1e6 / us - 1.0).abs() < 0.002, "{q}");
        }
        let bytes = base64::engine::general_purpose::STANDARD.decode(l.encoded()).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(Some(read), l.histogram);
    }
}
