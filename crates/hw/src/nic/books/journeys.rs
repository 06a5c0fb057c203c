//! Latency by hop: when each packet passed which point. The hops of a packet add up to its latency, exactly.

use crate::wire::{Latencies, ID_BITS};
use schemars::JsonSchema;
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

#[derive(Clone, Copy)]
struct Journey {
    id: u64,
    flow: u32,
    at: [Ps; POINTS],
}

/// Latency of one hop.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
#[derive(Default)]
pub struct Journeys {
    slots: Vec<Journey>,
    hops: [Latencies; POINTS],
    /// Packets told by hop.
    pub complete: u64,
    /// Packets that came back without having been seen at every point.
    pub incomplete: u64,
}

impl Journeys {
    /// Packet `id` of a flow left at `departed` and is in the FIFO at `arrived`.
    #[inline]
    pub fn begins(&mut self, (id, flow): (u64, u32), departed: Ps, arrived: Ps) {
        if slot(id) >= self.slots.len() {
            let end = slot(id) / FOLLOWED * FOLLOWED + FOLLOWED;
            self.slots.resize(end, Journey { id: u64::MAX, flow: 0, at: [Ps::MAX; POINTS] });
        }
        let mut at = [Ps::MAX; POINTS];
        (at[0], at[1]) = (departed, arrived);
        self.slots[slot(id)] = Journey { id, flow, at };
    }

    /// When a packet that is followed left, and its flow.
    #[inline]
    #[must_use]
    pub fn origin(&self, id: u64) -> Option<(Ps, u32)> {
        self.slots.get(slot(id)).filter(|j| j.id == id).map(|j| (j.at[0], j.flow))
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
            self.hops[hop].record(to - j.at[hop]);
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
        let ns = |ps: Ps| ps.as_f64() / 1000.0;
        HOPS.iter()
            .enumerate()
            .map(|(i, &(name, meaning))| {
                let hop = &self.hops[i];
                let at = |q| ns(hop.quantile(q));
                Hop {
                    name,
                    meaning,
                    mean: hop.mean() / 1000.0,
                    median: at(0.5),
                    p90: at(0.9),
                    p99: at(0.99),
                    p999: at(0.999),
                    max: ns(hop.max()),
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
            j.begins((id, 0), Ps(t), Ps(t + 5000));
            for (i, point) in
                [Point::Started, Point::Visible, Point::Picked, Point::Posted, Point::Read, Point::Gathered]
                    .into_iter()
                    .enumerate()
            {
                j.passes(id, point, Ps(t + 10_000 * (i as u64 + 1) + id));
            }
            j.ends(id, Ps(t + 90_000));
        }
        let hops = j.hops();
        assert_eq!((j.complete, j.incomplete, hops.len()), (10, 0, 8));
        assert!((hops.iter().map(|h| h.mean).sum::<f64>() - 90.0).abs() < 1e-9);
        // The same number of another port.
        j.begins((1 << ID_BITS | 4, 0), Ps::ZERO, Ps(1));
        j.begins((20, 0), Ps::ZERO, Ps(1));
        j.ends(20, Ps(100));
        j.ends(4, Ps(100));
        assert_eq!(j.incomplete, 2, "points missing, or in no order");
    }
}
