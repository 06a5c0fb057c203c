//! The PCIe link and root complex: bytes, headers and time of flight.
//!
//! A memory write is split at MPS and 4 KiB boundaries, a read request at MRRS, completions at MPS; each TLP costs its
//! overhead, and data-link packets take a share of the rate. Directions are calendars, so transactions queue.
//!
//! Left out: flow-control credits, replay, IOMMU, read-completion boundary below MPS. Posted writes never stall.

use crate::memory::MemorySystem;
use crate::params;
use wiretime_base::{stats, BitRate, Calendar, Ps};

const PAGE: u64 = 4096;
const WINDOW: Ps = 20_000_000;

stats! {
    /// What crossed the link.
    pub struct PcieStats {
        upstream_bytes: "B", "bytes from NIC to host, TLP overhead included";
        downstream_bytes: "B", "bytes from host to NIC, TLP overhead included";
        memory_writes: "TLPs", "posted writes by the NIC";
        memory_reads: "TLPs", "read requests by the NIC";
        completions: "TLPs", "completions with data to the NIC";
        register_writes: "TLPs", "posted writes by cores";
    }
}

/// The link.
pub struct Pcie {
    upstream: Calendar,
    downstream: Calendar,
    rate: BitRate,
    max_payload: u64,
    max_read_request: u64,
    overhead: u64,
    latency: Ps,
    /// Counters.
    pub stats: PcieStats,
}

/// Number of pieces of `length` bytes at `address` when cut at `limit` and at 4 KiB boundaries.
fn pieces(address: u64, length: u64, limit: u64) -> u64 {
    let mut n = 0;
    let mut at = address;
    let mut rest = length;
    while rest > 0 {
        let piece = rest.min(limit).min(PAGE - at % PAGE);
        n += 1;
        at = at.wrapping_add(piece);
        rest -= piece;
    }
    n.max(1)
}

impl Pcie {
    /// As the platform says.
    #[must_use]
    pub fn new(p: &params::Pcie) -> Self {
        let effective = p.rate.bits_per_second() / 100 * u64::from(100 - p.dllp_percent.min(99));
        Self {
            upstream: Calendar::new(WINDOW),
            downstream: Calendar::new(WINDOW),
            rate: BitRate::new(effective.max(1)).expect("not zero"),
            max_payload: u64::from(p.max_payload),
            max_read_request: u64::from(p.max_read_request),
            overhead: u64::from(p.tlp_overhead),
            latency: p.latency.ps(),
            stats: PcieStats::default(),
        }
    }

    /// The NIC writes; returns when the last byte has left the NIC and when it is at the root complex.
    pub fn write(&mut self, t: Ps, address: u64, length: u64) -> (Ps, Ps) {
        let n = pieces(address, length, self.max_payload);
        let bytes = length + n * self.overhead;
        self.stats.memory_writes += n;
        self.stats.upstream_bytes += bytes;
        let service = self.rate.time_of(bytes);
        let sent = self.upstream.reserve(t, service) + service;
        (sent, sent + self.latency)
    }

    /// The NIC reads; returns when the last completion is there.
    pub fn read(&mut self, t: Ps, address: u64, length: u64, memory: &mut MemorySystem) -> Ps {
        let requests = pieces(address, length, self.max_read_request);
        let bytes = requests * self.overhead;
        self.stats.memory_reads += requests;
        self.stats.upstream_bytes += bytes;
        let service = self.rate.time_of(bytes);
        let at_host = self.upstream.reserve(t, service) + service + self.latency;
        let ready = memory.dma_read(address, length, at_host);
        let completions = pieces(address, length, self.max_payload);
        let bytes = length + completions * self.overhead;
        self.stats.completions += completions;
        self.stats.downstream_bytes += bytes;
        let service = self.rate.time_of(bytes);
        self.downstream.reserve(ready, service) + service + self.latency
    }

    /// A core's posted write of a register; returns when the NIC has it.
    pub fn register_write(&mut self, t: Ps) -> Ps {
        let bytes = 4 + self.overhead;
        self.stats.register_writes += 1;
        self.stats.downstream_bytes += bytes;
        let service = self.rate.time_of(bytes);
        self.downstream.reserve(t, service) + service + self.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Pcie {
        // Generation 3, 8 lanes: 8 GT/s x 8 x 128/130.
        Pcie::new(&params::Pcie {
            rate: "63.015Gbps".parse().unwrap(),
            max_payload: 256,
            max_read_request: 512,
            tlp_overhead: 24,
            dllp_percent: 0,
            latency: "150ns".parse().unwrap(),
            tags: 32,
        })
    }

    #[test]
    fn cuts_at_limits_and_pages() {
        assert_eq!(pieces(0, 1024, 256), 4);
        assert_eq!(pieces(4096 - 64, 128, 256), 2);
        assert_eq!(pieces(100, 64, 256), 1);
        assert_eq!(pieces(u64::MAX - 10, 64, 256), 2);
    }

    #[test]
    fn write_throughput_is_payload_over_payload_plus_header() {
        let mut p = link();
        let n = 10_000u64;
        let mut last = 0;
        for i in 0..n {
            last = p.write(0, i * 64, 64).0;
        }
        let gbps = (n * 64 * 8) as f64 / last as f64 * 1000.0;
        let formula = 63.015 * 64.0 / (64.0 + 24.0);
        assert!((gbps - formula).abs() / formula < 0.001, "{gbps} against {formula}");
    }
}
