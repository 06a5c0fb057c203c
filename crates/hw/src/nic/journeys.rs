//! Latency by hop: when each packet passed which point. The hops of a packet add up to its latency, exactly.

use crate::wire::ID_BITS;
use hdrhistogram::Histogram;
use serde::Serialize;
use wiretime_base::Ps;

/// Points of a packet's way, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Its first bit left the generator.
    Departed,
    /// Its last bit is in the RX FIFO.
    Arrived,
    /// Its DMA starts.
    Started,
    /// Cores can see its descriptor written back.
    Visible,
    /// A core has read that descriptor.
    Picked,
    /// The NIC has seen the doorbell of its transmit descriptor.
    Posted,
    /// The read of its payload starts.
    Read,
    /// All of it is in the TX FIFO.
    Gathered,
}

const POINTS: usize = Point::Gathered as usize + 1;
/// Hops: from each point to the next; the last ends at the generator.
pub const HOPS: [(&str, &str); POINTS] = [
    ("wire_in", "serialisation and propagation to the NIC"),
    ("rx_fifo", "wait in the RX FIFO, for descriptors and for the link"),
    ("rx_dma", "payload and descriptor to where cores see them"),
    ("rx_ring", "wait in the receive ring until a core reads the descriptor"),
    ("core", "software, until the doorbell is at the NIC"),
    ("tx_ring", "wait in the transmit ring, descriptor fetch included"),
    ("tx_dma", "payload from memory to the TX FIFO"),
    ("wire_out", "wait in the TX FIFO, serialisation and propagation back"),
];

/// Packets followed at a time; a power of two. A packet that is still under way when so many have come after it is not
/// told by hop.
const FOLLOWED: usize = 1 << 17;
/// Ports whose packets are told apart.
const PORTS: usize = 16;
const LONGEST: Ps = 1_000_000_000_000;
const DIGITS: u8 = 3;

#[derive(Clone, Copy)]
struct Journey {
    id: u64,
    at: [Ps; POINTS],
}

/// Latency of one hop.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)] // plain statistics, in nanoseconds
pub struct Hop {
    pub name: &'static str,
    pub meaning: &'static str,
    pub mean: f64,
    pub median: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// Where a packet's journey is kept: each port has its own part, a few ports at most.
fn slot(id: u64) -> usize {
    (id >> ID_BITS) as usize % PORTS * FOLLOWED + id as usize % FOLLOWED
}

/// The journeys of packets.
pub struct Journeys {
    slots: Vec<Journey>,
    histograms: Vec<Histogram<u64>>,
    sums: [u128; POINTS],
    max: [Ps; POINTS],
    /// Packets told by hop.
    pub complete: u64,
    /// Packets that came back without having been seen at every point.
    pub incomplete: u64,
}

impl Default for Journeys {
    fn default() -> Self {
        let histogram = || Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("bounds are constants");
        Self {
            slots: Vec::new(),
            histograms: (0..POINTS).map(|_| histogram()).collect(),
            sums: [0; POINTS],
            max: [0; POINTS],
            complete: 0,
            incomplete: 0,
        }
    }
}

impl Journeys {
    /// Packet `id` left at `departed` and is in the FIFO at `arrived`.
    #[inline]
    pub fn begins(&mut self, id: u64, departed: Ps, arrived: Ps) {
        if slot(id) >= self.slots.len() {
            let end = slot(id) / FOLLOWED * FOLLOWED + FOLLOWED;
            self.slots.resize(end, Journey { id: u64::MAX, at: [Ps::MAX; POINTS] });
        }
        let mut at = [Ps::MAX; POINTS];
        (at[0], at[1]) = (departed, arrived);
        self.slots[slot(id)] = Journey { id, at };
    }

    /// Packet `id` passes a point at `t`; the first time counts.
    #[inline]
    pub fn passes(&mut self, id: u64, point: Point, t: Ps) {
        if let Some(j) = self.slots.get_mut(slot(id)).filter(|j| j.id == id) {
            let at = &mut j.at[point as usize];
            *at = (*at).min(t);
        }
    }

    /// Packet `id`, of the cohort, is back at `t`.
    pub fn ends(&mut self, id: u64, t: Ps) {
        let Some(j) = self.slots.get(slot(id)).filter(|j| j.id == id) else {
            self.incomplete += 1;
            return;
        };
        let sound = j.at.windows(2).all(|w| w[0] <= w[1]) && j.at[POINTS - 1] <= t;
        if !sound {
            self.incomplete += 1;
            return;
        }
        self.complete += 1;
        for hop in 0..POINTS {
            let to = if hop + 1 < POINTS { j.at[hop + 1] } else { t };
            let time = to - j.at[hop];
            self.histograms[hop].saturating_record(time.max(1));
            self.sums[hop] += u128::from(time);
            self.max[hop] = self.max[hop].max(time);
        }
    }

    /// What was measured is forgotten, packets under way are not.
    pub fn forget(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        *self = Self { slots, ..Self::default() };
    }

    /// The hops, where packets were told by hop.
    #[must_use]
    pub fn hops(&self) -> Vec<Hop> {
        if self.complete == 0 {
            return Vec::new();
        }
        let ns = |ps: Ps| ps as f64 / 1000.0;
        HOPS.iter()
            .enumerate()
            .map(|(i, &(name, meaning))| {
                let at = |q| ns(self.histograms[i].value_at_quantile(q).min(self.max[i]));
                Hop {
                    name,
                    meaning,
                    mean: self.sums[i] as f64 / self.complete as f64 / 1000.0,
                    median: at(0.5),
                    p90: at(0.9),
                    p99: at(0.99),
                    p999: at(0.999),
                    max: ns(self.max[i]),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_add_up() {
        let mut j = Journeys::default();
        for id in 0..10u64 {
            let t = id * 100_000;
            j.begins(id, t, t + 5000);
            for (i, point) in
                [Point::Started, Point::Visible, Point::Picked, Point::Posted, Point::Read, Point::Gathered]
                    .into_iter()
                    .enumerate()
            {
                j.passes(id, point, t + 10_000 * (i as u64 + 1) + id);
            }
            j.ends(id, t + 90_000);
        }
        let hops = j.hops();
        assert_eq!((j.complete, j.incomplete, hops.len()), (10, 0, 8));
        assert!((hops.iter().map(|h| h.mean).sum::<f64>() - 90.0).abs() < 1e-9);
        // The same number of another port.
        j.begins(1 << ID_BITS | 4, 0, 1);
        j.begins(20, 0, 1);
        j.ends(20, 100);
        j.ends(4, 100);
        assert_eq!(j.incomplete, 2, "points missing, or in no order");
    }
}
