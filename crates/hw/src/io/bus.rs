//! A plain I/O bus: a clock, a width, a header for each line; gem5's kind of path to a device.
//!
//! Transfers go in cache lines. Left out: arbitration between devices, retries. As in gem5, a read does not wait until the writes
//! before it are visible.

use super::{cut, Host, IoStats};
use crate::memory::LINE;
use crate::params;
use wiretime_base::{Calendar, Clock, Cycles, Ps, Return, Window};

/// The bus.
pub struct Bus {
    to_host: Calendar<Ps>,
    to_device: Calendar<Ps>,
    half_duplex: bool,
    requests_share: bool,
    line_time: Ps,
    header_time: Ps,
    /// What a line and a header take of its width.
    line_bytes: u64,
    header_bytes: u64,
    latency: Ps,
    lines: Window<Ps>,
}

impl Bus {
    pub fn new(p: &params::Bus) -> Self {
        let clock = Clock::of(p.frequency);
        let beats = LINE.div_ceil(p.width.into());
        Self {
            to_host: Calendar::default(),
            to_device: Calendar::default(),
            half_duplex: p.half_duplex,
            requests_share: p.requests_share,
            line_time: clock.at(Cycles(beats) + p.header_cycles.into()),
            header_time: clock.at(p.header_cycles.into()),
            line_bytes: (beats + u64::from(p.header_cycles)) * u64::from(p.width),
            header_bytes: u64::from(p.header_cycles) * u64::from(p.width),
            latency: p.latency.ps(),
            lines: Window::new(p.outstanding.into(), Return::InOrder),
        }
    }

    pub fn busy(&self) -> (Ps, Ps) {
        (self.to_host.occupied(), self.to_device.occupied())
    }

    pub fn reached(&mut self, t: Ps) {
        self.to_host.reached(t);
        self.to_device.reached(t);
        self.lines.reached(t);
    }

    fn send(&mut self, up: bool, t: Ps, service: Ps) -> Ps {
        let calendar = if up || self.half_duplex { &mut self.to_host } else { &mut self.to_device };
        calendar.reserve(t, service) + service
    }

    pub fn write(&mut self, t: Ps, address: u64, length: u64, host: &mut Host<'_>) -> (Ps, Ps) {
        let (mut sent, mut visible) = (t, t);
        for (at, piece) in lines(address, length) {
            host.stats.memory_writes += 1;
            host.stats.upstream_bytes += self.line_bytes;
            let ready = self.lines.ready(t, 1);
            host.stats.credit_wait_ps += (ready - t).0;
            sent = sent.max(self.send(true, ready, self.line_time));
            let done = host.write(sent + self.latency, at, piece);
            self.lines.hold(t, done, 1);
            visible = visible.max(done);
        }
        (sent, visible)
    }

    pub fn read(&mut self, t: Ps, address: u64, length: u64, host: &mut Host<'_>) -> Ps {
        let mut done = t;
        for (at, piece) in lines(address, length) {
            host.stats.memory_reads += 1;
            host.stats.downstream_bytes += self.line_bytes;
            host.stats.upstream_bytes += if self.requests_share { self.header_bytes } else { 0 };
            let ready = self.lines.ready(t, 1);
            host.stats.tag_wait_ps += (ready - t).0;
            let asked = if self.requests_share { self.send(true, ready, self.header_time) } else { ready };
            let data = host.read(asked + self.latency, at, piece);
            host.stats.completions += 1;
            let there = self.send(false, data, self.line_time) + self.latency;
            self.lines.hold(t, there, 1);
            done = done.max(there);
        }
        done
    }

    pub fn register_write(&mut self, t: Ps, stats: &mut IoStats) -> Ps {
        stats.downstream_bytes += self.header_bytes;
        self.send(false, t, self.header_time) + self.latency
    }
}

/// Cuts at line boundaries; an empty access still takes one line.
fn lines(address: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    cut(address, length.max(1), LINE, LINE)
}

#[cfg(test)]
mod tests {
    use super::super::iommu::Iommu;
    use super::super::probe::PROBE;
    use super::*;
    use crate::memory::MemorySystem;
    use crate::testing::platform;

    #[test]
    fn gem5s_bus_carries_102_gbps_a_direction() {
        let mut p = platform();
        p.bus.width = 16;
        p.bus.frequency = "1GHz".parse().unwrap();
        p.bus.header_cycles = 1;
        p.bus.outstanding = 1024;
        let mut memory = MemorySystem::new(&p, 1);
        let (mut iommu, mut stats) = (Iommu::new(&p.iommu), IoStats::default());
        let mut bus = Bus::new(&p.bus);
        let n = 10_000u64;
        let sent = (0..n)
            .map(|i| {
                bus.write(
                    Ps::ZERO,
                    i % 512 * 4096,
                    1024,
                    &mut Host { memory: &mut memory, iommu: &mut iommu, stats: &mut stats, by: PROBE },
                )
                .0
            })
            .max()
            .unwrap();
        let gbps = (n * 1024 * 8) as f64 / sent.as_f64() * 1000.0;
        assert!((gbps - 102.4).abs() < 0.5, "{gbps}: a line of 64 B every five cycles");
    }
}
