//! Memory under load, from the outside: cores that stream over memory of their own, as many lines a second as is asked for,
//! and one that follows pointers. So a loaded-latency curve is measured on hardware (Mess, Esmaili-Dokht et al., MICRO 2024).
//!
//! Left out: the cores themselves; a core has as many accesses under way as its caches' miss registers take, [`WINDOW`] at most.

use super::{MemorySystem, LINE};
use crate::params::Platform;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wiretime_base::{Clock, Cycles, Ps};

/// Accesses of a core under way.
const WINDOW: usize = 64;
/// Lines of each of a core's two arrays, which are far larger than its caches, and of those that are chased.
const ARRAY: u64 = 1 << 22;
/// Accesses that make a curve of a large machine smooth.
pub const MEASURED: u64 = 400_000;
/// Accesses between two times at which bookings are forgotten.
const FORGET: u64 = 256;
const SEED: u64 = 1;
/// Lines of a huge page, and pages of the memory that all arrays lie in.
const PAGE_LINES: u64 = (2 << 20) / LINE;
const PAGES: u64 = 1 << 19;

/// Where a line of all arrays together is: huge pages lie scattered. An odd factor leaves each its own place.
fn scattered(line: u64) -> u64 {
    let page = (line / PAGE_LINES).wrapping_mul(0x9e37_79b9_7f4a_7c15) & (PAGES - 1);
    (page * PAGE_LINES + line % PAGE_LINES) * LINE
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// Bytes a second that DRAM read and wrote.
    pub bytes_per_second: f64,
    /// The share of them that it read.
    pub reads: f64,
    /// Mean time of a load of the core that follows pointers.
    pub latency: Ps,
}

/// A core that streams: where it has begun, since no two go in step.
struct Stream {
    offset: u64,
    taken: u64,
    done: [Cycles; WINDOW],
}

/// Memory under the load of `streams` cores, each with an access every `pause` at most, so many percent of them stores, one a
/// line: a store reads its line, and writes it later. So many accesses are measured, behind as many as the caches have lines and a
/// quarter more.
#[must_use]
pub fn loaded(p: &Platform, streams: usize, stores_percent: u32, pause: Cycles, measured: u64) -> Loaded {
    let (mut memory, clock) = (MemorySystem::new(p, streams + 1), Clock::of(p.core.frequency));
    let mut random = Pcg64::seed_from_u64(SEED);
    let mut cores: Vec<Stream> = (0..streams)
        .map(|_| Stream { offset: random.next_u64() % ARRAY, taken: 0, done: [Cycles::ZERO; WINDOW] })
        .collect();
    // The last one follows pointers.
    let mut next: BinaryHeap<Reverse<(Cycles, usize)>> =
        (0..=streams).map(|i| Reverse((Cycles(i as u64), i))).collect();
    let warm_up = (p.llc.size.bytes() + streams as u64 * p.l2.size.bytes()) / LINE * 5 / 4;
    let (mut begin, mut latency, mut loads) = (None, Cycles::ZERO, 0u64);
    let mut accesses = 0;
    let traffic = |memory: &MemorySystem| {
        let s = memory.dram_stats();
        [s.reads_load + s.reads_store + s.reads_prefetch, s.writes_cache]
    };
    while let Some(Reverse((t, i))) = next.pop() {
        accesses += 1;
        if accesses % FORGET == 0 {
            memory.reached(clock.at(t));
        }
        if accesses >= warm_up && begin.is_none() {
            begin = Some((t, traffic(&memory)));
        }
        let again = match cores.get_mut(i) {
            None => {
                let line = (2 * streams as u64) * ARRAY + random.next_u64() % ARRAY;
                let done = memory.load(i, scattered(line), 0, t).0;
                if begin.is_some() {
                    (latency, loads) = (latency + (done - t), loads + 1);
                }
                done
            }
            Some(core) => {
                let n = core.taken;
                core.taken += 1;
                let stores = |n: u64| n * u64::from(stores_percent) / 100;
                let (before, now) = (stores(n), stores(n + 1));
                let (array, at) = if now > before { (1, before) } else { (0, n - before) };
                let address = scattered((2 * i as u64 + array) * ARRAY + (core.offset + at) % ARRAY);
                let done = if array == 1 { memory.store(i, address, 0, t).0 } else { memory.load(i, address, 8, t).0 };
                let oldest = std::mem::replace(&mut core.done[n as usize % WINDOW], done);
                (t + pause.max(Cycles(1))).max(oldest)
            }
        };
        if accesses >= warm_up + measured {
            let (began, before) = begin.unwrap_or_default();
            let [read, written] = traffic(&memory);
            let (read, written) = ((read - before[0]) as f64, (written - before[1]) as f64);
            let seconds = (clock.at(t) - clock.at(began)).as_f64() / 1e12;
            let latency = clock.at(Cycles(latency.0 / loads.max(1)));
            let bytes_per_second = (read + written) * LINE as f64 / seconds;
            return Loaded { bytes_per_second, reads: read / (read + written).max(1.0), latency };
        }
        next.push(Reverse((again, i)));
    }
    Loaded { bytes_per_second: 0.0, reads: 0.0, latency: Ps::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::platform;

    /// With nothing else a load takes what its parameters say; the more there is, the longer; and the bus carries no more than it can.
    #[test]
    fn latency_climbs_with_what_is_carried_up_to_what_the_bus_carries() {
        let mut p = platform();
        (p.llc.size, p.l2.size, p.dram.channels) = ("512KiB".parse().unwrap(), "64KiB".parse().unwrap(), 2);
        let peak = 2.0 * LINE as f64 / (p.dram.burst().as_f64() / 1e12);
        let curve: Vec<Loaded> = [4000, 60, 30, 0].map(|pause| loaded(&p, 7, 0, Cycles(pause), 10_000)).into();
        let idle = p.llc.latency.ps() + p.dram.controller_latency.ps();
        assert!(curve[0].latency > idle && curve[0].latency < idle + Ps::from_ns(80), "{curve:?}");
        for pair in curve.windows(2) {
            assert!(
                pair[1].latency > pair[0].latency && pair[1].bytes_per_second > pair[0].bytes_per_second,
                "{curve:?}"
            );
        }
        let most = curve[3].bytes_per_second;
        assert!(most > 0.6 * peak && most < peak, "{most} of {peak}");
        assert_eq!(curve[3].reads, 1.0);
        let half = loaded(&p, 7, 100, Cycles(60), 10_000);
        assert!((half.reads - 0.5).abs() < 0.02, "{half:?}");
    }
}
