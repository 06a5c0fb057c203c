//! A PCIe link and the root complex behind it: TLPs, headers, data-link packets, credits, tags, time of flight.
//!
//! A memory write is split at MPS and 4 KiB boundaries, a read request at MRRS and 4 KiB, completions at MPS from the
//! read completion boundary on (PCI Express Base Specification, sections 2.2.7, 2.2.9 and 2.3.1.1). What one direction
//! carries costs the other acknowledgements and, but for completions, credit updates, which go before its next packet if they
//! have not left before; as often as the specification's guidelines for latencies ask for, a packet at most for each TLP. From
//! generation 6 on they have bytes of their own in every flit. TLPs carry whole double words. Directions are calendars, so
//! transactions queue; posted writes leave in order, and a read is served when the writes before it are visible (section 2.4.1).
//!
//! Left out: replay, completion credits (endpoints advertise infinite ones), virtual channels, relaxed ordering. Tags come back in the order of requests, as of a device that puts completions
//! in order: one that misses the IOTLB keeps those behind it. Trapped register accesses and MSI-X messages take no time of
//! the link: interrupts of cards whose drivers acknowledge by them (Intel's) are some 0.3 us sooner than they would be.

use super::order::InOrder;
use super::{cut, Host, IoStats};
use crate::params;
use std::ops::Range;
use wiretime_base::{BitRate, Calendar, Ps, Return, Sorted, Window};

const PAGE: u64 = 4096;
/// Data credits count 16 bytes.
const CREDIT: u64 = 16;
/// Sequence number, LCRC and framing of a TLP, which flits do without.
const FRAMING: u32 = 8;
/// The first generation of flits.
const FLITS: u32 = 6;

/// Data-link packets that wait to be sent.
#[derive(Clone, Copy)]
struct Owed {
    /// When what they acknowledge has come.
    since: Ps,
    time: Ps,
    /// When a packet was asked for that they went before.
    sent: Ps,
}

/// One direction.
#[derive(Default)]
struct Direction {
    calendar: Calendar<Ps>,
    /// Bytes sent that have not been acknowledged, and those for which no credits have come back.
    unacknowledged: u64,
    uncredited: u64,
    /// In order of time.
    owed: Sorted<Owed>,
    /// Of these so many have gone before a packet asked for at `latest` or before, the last one asked for.
    gone: usize,
    latest: Ps,
    /// None of those has waited longer for a packet to go before.
    longest: Ps,
}

impl Direction {
    fn owes(&mut self, since: Ps, time: Ps) {
        let at = self.owed.count(|o| o.since <= since);
        self.gone = self.gone.min(at);
        self.owed.insert(at, Owed { since, time, sent: Ps::MAX });
    }

    /// What a packet that is asked for at `t` finds to be sent before it; what had time to leave while nothing else did
    /// has left.
    #[inline]
    fn owed(&mut self, t: Ps) -> Ps {
        let from = if t < self.latest {
            // Those before had gone by then.
            self.gone.min(self.owed.count(|o| o.since + self.longest <= t))
        } else {
            self.latest = t;
            self.gone
        };
        if self.owed.get(from).is_none_or(|o| o.since > t) {
            return Ps::ZERO;
        }
        self.owed_from(t, from)
    }

    fn owed_from(&mut self, t: Ps, from: usize) -> Ps {
        let until = from + self.owed[from..].iter().take_while(|o| o.since <= t).count();
        if t >= self.latest {
            self.gone = until;
        }
        let waits = self.waits(t, from..until);
        for o in &mut self.owed[from..until] {
            o.sent = o.sent.min(t);
            self.longest = self.longest.max(o.sent - o.since);
        }
        waits
    }

    /// What is left at `t` of these, if nothing else has been sent since the last booking before.
    fn waits(&self, t: Ps, which: Range<usize>) -> Ps {
        if which.is_empty() {
            return Ps::ZERO;
        }
        let (mut waits, mut at) = (Ps::ZERO, t - self.calendar.idle_before(t));
        for o in self.owed[which].iter().filter(|o| o.sent > t) {
            let left = waits - waits.min(o.since.saturating_sub(at));
            (waits, at) = (left + o.time, at.max(o.since));
        }
        waits.saturating_sub(t - at)
    }

    /// Nobody asks for a time before `t` any more: what has been sent by then is forgotten.
    fn reached(&mut self, t: Ps) {
        self.calendar.reached(t);
        let due = self.owed.count(|o| o.since <= t);
        let all_left = self.calendar.last_end() <= t && self.waits(t, 0..due) == Ps::ZERO;
        let owed = self.owed.len();
        self.owed.forget(|rest| rest[0].sent <= t || all_left && rest[0].since <= t);
        self.gone = self.gone.saturating_sub(owed - self.owed.len());
        let gone = self.owed.iter().filter(|o| o.sent != Ps::MAX);
        self.longest = gone.map(|o| o.sent - o.since).max().unwrap_or_default();
    }
}

/// The link.
pub struct Pcie {
    upstream: Direction,
    downstream: Direction,
    rate: BitRate,
    p: params::Pcie,
    latency: Ps,
    posted_headers: Window<Ps>,
    posted_data: Window<Ps>,
    non_posted: Window<Ps>,
    tags: Window<Ps>,
    /// Writes by the device: when they have left, and when all before is visible.
    posted: InOrder,
    visible: InOrder,
    /// Bytes after which data-link packets are due; none for flits.
    interval: Option<u64>,
}

/// What a TLP carries of `length` bytes at `address`: whole double words, one at least.
fn carried(address: u64, length: u64) -> u64 {
    (address % 4 + length.max(1)).next_multiple_of(4)
}

/// The pieces of `length` bytes at `address` when cut at `limit` and at 4 KiB boundaries; none is one empty piece.
fn pieces(address: u64, length: u64, limit: u64) -> impl Iterator<Item = (u64, u64)> {
    let empty = (length == 0).then_some((address, 0));
    empty.into_iter().chain(cut(address, length, limit, PAGE))
}

/// Completions of one request: the first ends at a multiple of the boundary, the others carry up to MPS.
fn completions(address: u64, length: u64, boundary: u64, max_payload: u64) -> u64 {
    let to_boundary = (boundary - address % boundary) % boundary;
    let room = max_payload / boundary * boundary;
    if room == 0 {
        return length.div_ceil(max_payload).max(1);
    }
    let first = if to_boundary == 0 { 0 } else { to_boundary + (room - boundary) };
    let rest = length.saturating_sub(first);
    u64::from(first > 0) + rest.div_ceil(room).max(u64::from(first == 0))
}

/// Bits a second of `lanes` lanes after line coding.
fn rate(generation: u32, lanes: u32) -> u64 {
    let (transfers, num, den) = match generation {
        1 => (2_500_000_000u64, 8, 10),
        2 => (5_000_000_000, 8, 10),
        3 => (8_000_000_000, 128, 130),
        4 => (16_000_000_000, 128, 130),
        5 => (32_000_000_000, 128, 130),
        // Of a flit 236 bytes are TLPs'.
        _ => (64_000_000_000, 236, 256),
    };
    transfers * u64::from(lanes) * num / den
}

impl Pcie {
    pub fn new(p: &params::Pcie, (generation, lanes): (u32, u32)) -> Self {
        let window = |units: u32| Window::new(units.into(), Return::InOrder);
        let effective = rate(generation, lanes) / 100 * u64::from(100 - p.idle_percent.min(99));
        let mut p = p.clone();
        if generation >= FLITS {
            for overhead in [&mut p.write_overhead, &mut p.read_overhead, &mut p.completion_overhead] {
                *overhead = overhead.saturating_sub(FRAMING);
            }
        }
        Self {
            upstream: Direction::default(),
            downstream: Direction::default(),
            rate: BitRate::new(effective.max(1)).expect("not zero"),
            latency: p.latency.ps(),
            posted_headers: window(p.posted_headers),
            posted_data: window(p.posted_data),
            non_posted: window(p.non_posted_headers),
            tags: window(p.tags),
            posted: InOrder::default(),
            visible: InOrder::default(),
            interval: (generation < FLITS).then(|| u64::from(p.dllp_interval) * u64::from(lanes.max(1))),
            p,
        }
    }

    pub fn busy(&self) -> (Ps, Ps) {
        (self.upstream.calendar.occupied(), self.downstream.calendar.occupied())
    }

    pub fn reached(&mut self, t: Ps) {
        for direction in [&mut self.upstream, &mut self.downstream] {
            direction.reached(t);
        }
        for window in [&mut self.posted_headers, &mut self.posted_data, &mut self.non_posted, &mut self.tags] {
            window.reached(t);
        }
        self.posted.reached(t);
        self.visible.reached(t);
    }

    /// Sends `bytes` in so many TLPs, which the other direction acknowledges when it has them, and gives back the credits of
    /// what needs some; returns when the last bit has left.
    fn send(&mut self, up: bool, t: Ps, (bytes, tlps): (u64, u64), credited: bool, stats: &mut IoStats) -> Ps {
        let (this, other) =
            if up { (&mut self.upstream, &mut self.downstream) } else { (&mut self.downstream, &mut self.upstream) };
        *(if up { &mut stats.upstream_bytes } else { &mut stats.downstream_bytes }) += bytes;
        let service = this.owed(t) + self.rate.time_of(bytes);
        let sent = this.calendar.reserve(t, service) + service;
        let Some(interval) = self.interval else { return sent };
        let mut dllps = 0;
        for (on, since) in [(true, &mut this.unacknowledged), (credited, &mut this.uncredited)] {
            *since += if on { bytes } else { 0 };
            if *since >= interval {
                // One is of all that has come, and whole TLPs come.
                dllps += (*since / interval).min(tlps) * u64::from(self.p.dllp_size);
                *since = if tlps > 1 { *since % interval } else { 0 };
            }
        }
        if dllps > 0 {
            stats.dllp_bytes += dllps;
            other.owes(sent + self.latency, self.rate.time_of(dllps));
        }
        sent
    }

    pub fn write(&mut self, t: Ps, address: u64, length: u64, host: &mut Host<'_>) -> (Ps, Ps) {
        let (mut sent, mut visible) = (t, t);
        for (at, piece) in pieces(address, length, self.p.max_payload.into()) {
            host.stats.memory_writes += 1;
            let carried = carried(at, piece);
            let credits = carried.div_ceil(CREDIT);
            let header = self.posted_headers.ready(t, 1);
            let ready = self.posted_data.ready(header, credits);
            host.stats.credit_wait_ps += (ready - t).0;
            let bytes = carried + u64::from(self.p.write_overhead);
            sent = sent.max(self.send(true, ready.max(self.posted.before(t)), (bytes, 1), true, host.stats));
            self.posted.follow(t, sent);
            let done = host.write(sent + self.latency, at, piece);
            // Credits come back once memory has the data, by a packet downstream.
            self.posted_headers.hold(t, done + self.latency, 1);
            self.posted_data.hold(header, done + self.latency, credits);
            visible = visible.max(done);
            self.visible.follow(t, done);
        }
        (sent, visible)
    }

    pub fn read(&mut self, t: Ps, address: u64, length: u64, host: &mut Host<'_>) -> Ps {
        let mut done = t;
        for (at, piece) in pieces(address, length, self.p.max_read_request.into()) {
            host.stats.memory_reads += 1;
            let tagged = self.tags.ready(t, 1);
            let ready = self.non_posted.ready(tagged, 1);
            host.stats.tag_wait_ps += (ready - t).0;
            let at_host = self.send(true, ready, (self.p.read_overhead.into(), 1), true, host.stats) + self.latency;
            // A read pushes the writes before it.
            let data = host.read(at_host.max(self.visible.before(t)), at, piece);
            self.non_posted.hold(tagged, data + self.latency, 1);
            let parts = completions(at, piece, self.p.read_completion_boundary.into(), self.p.max_payload.into());
            host.stats.completions += parts;
            let bytes = carried(at, piece) + parts * u64::from(self.p.completion_overhead);
            let there = self.send(false, data, (bytes, parts), false, host.stats) + self.latency;
            self.tags.hold(t, there, 1);
            done = done.max(there);
        }
        done
    }

    pub fn register_write(&mut self, t: Ps, stats: &mut IoStats) -> Ps {
        self.send(false, t, (4 + u64::from(self.p.write_overhead), 1), true, stats) + self.latency
    }
}

#[cfg(test)]
mod tests {
    use super::super::iommu::Iommu;
    use super::super::probe::PROBE;
    use super::*;
    use crate::memory::MemorySystem;
    use crate::testing::platform;
    use proptest::prelude::*;

    #[test]
    fn what_is_owed_goes_once_also_what_was_entered_late() {
        let mut d = Direction::default();
        d.calendar.reserve(Ps::ZERO, Ps(1000));
        d.owes(Ps(100), Ps(10));
        d.owes(Ps(900), Ps(20));
        assert_eq!((d.owed(Ps(1000)), d.owed(Ps(1000))), (Ps(30), Ps::ZERO));
        d.calendar.reserve(Ps(1000), Ps(500));
        d.owes(Ps(50), Ps(7));
        assert_eq!(d.owed(Ps(950)), Ps(37), "a packet asked for before finds the others, too");
        d.owes(Ps(60), Ps(5));
        assert_eq!((d.owed(Ps(1500)), d.owed(Ps(1500))), (Ps(5), Ps::ZERO));
        d.reached(Ps(100));
        d.owes(Ps(1200), Ps(3));
        assert_eq!(d.owed(Ps(1500)), Ps(3));
    }

    proptest! {
        /// When and how often what is over is forgotten changes nothing.
        #[test]
        fn forgetting_changes_nothing(
            mut steps in prop::collection::vec((0u64..20_000, 1u64..300, any::<bool>()), 1..200),
        ) {
            steps.sort_unstable_by_key(|s| s.0 / 1000);
            let (mut all, mut some) = (Direction::default(), Direction::default());
            for (t, time, packet) in steps {
                some.reached(Ps(t / 1000 * 1000));
                let book = |d: &mut Direction| {
                    if !packet {
                        d.owes(Ps(t), Ps(time));
                        return Ps::ZERO;
                    }
                    let service = d.owed(Ps(t)) + Ps(time);
                    d.calendar.reserve(Ps(t), service) + service
                };
                prop_assert_eq!(book(&mut some), book(&mut all));
            }
        }
    }

    #[test]
    fn cuts_at_limits_and_pages() {
        let count = |address, length, limit| pieces(address, length, limit).count();
        assert_eq!(count(0, 1024, 256), 4);
        assert_eq!(count(4096 - 64, 128, 256), 2);
        assert_eq!(count(100, 64, 256), 1);
        assert_eq!(count(u64::MAX - 10, 64, 256), 2);
        assert_eq!(count(0, 0, 256), 1);
    }

    #[test]
    fn whole_double_words_are_carried() {
        for (address, length, expected) in [(0, 64, 64), (0, 61, 64), (2, 62, 64), (3, 15, 20), (0, 0, 4), (7, 1, 4)] {
            assert_eq!(carried(address, length), expected, "{length} B at {address}");
        }
    }

    #[test]
    fn completions_by_the_specification() {
        assert_eq!(completions(0, 512, 64, 256), 2);
        assert_eq!(completions(0, 64, 64, 256), 1);
        assert_eq!(completions(32, 512, 64, 256), 3, "to the boundary and on, 224 and 256, then 32");
        assert_eq!(completions(60, 8, 64, 256), 1);
        assert_eq!(completions(4, 1, 64, 128), 1);
    }

    #[test]
    fn raw_rates_of_the_generations() {
        let gbps = |g, l| rate(g, l) as f64 / 1e9;
        for (g, l, expected) in
            [(1, 1, 2.0), (2, 4, 16.0), (3, 8, 63.015), (4, 16, 252.06), (5, 16, 504.12), (6, 16, 944.0)]
        {
            assert!((gbps(g, l) - expected).abs() < 0.01, "generation {g} x{l}: {}", gbps(g, l));
        }
    }

    /// Gb/s of payload that `n` accesses of `size` bytes reach, against what the headers leave.
    #[test]
    fn throughput_is_what_headers_leave() {
        let mut p = platform();
        (p.pcie.idle_percent, p.pcie.dllp_size) = (0, 0);
        (p.pcie.posted_headers, p.pcie.posted_data) = (4096, 65_536);
        for size in [64u64, 256, 1024] {
            let mut memory = MemorySystem::new(&p, 1);
            let mut link = Pcie::new(&p.pcie, (3, 8));
            let (mut iommu, mut stats) = (Iommu::new(&p.iommu), IoStats::default());
            let n = 20_000u64;
            let sent = (0..n)
                .map(|i| {
                    link.write(
                        Ps::ZERO,
                        i % 512 * 4096,
                        size,
                        &mut Host { memory: &mut memory, iommu: &mut iommu, stats: &mut stats, by: PROBE },
                    )
                    .0
                })
                .max()
                .unwrap();
            let gbps = (n * size * 8) as f64 / sent.as_f64() * 1000.0;
            let headers = size.div_ceil(u64::from(p.pcie.max_payload)) * u64::from(p.pcie.write_overhead);
            let formula = 63.015 * size as f64 / (size + headers) as f64;
            assert!((gbps - formula).abs() / formula < 0.002, "{size} B: {gbps} against {formula}");
            assert_eq!(stats.upstream_bytes, n * (size + headers));
        }
    }

    #[test]
    fn tags_bound_reads_in_flight() {
        let mut p = platform();
        p.pcie.tags = 8;
        let mut memory = MemorySystem::new(&p, 1);
        let mut link = Pcie::new(&p.pcie, (4, 16));
        let (mut iommu, mut stats) = (Iommu::new(&p.iommu), IoStats::default());
        let mut read = |t| {
            link.read(t, 0, 64, &mut Host { memory: &mut memory, iommu: &mut iommu, stats: &mut stats, by: PROBE }) - t
        };
        let warm = read(Ps::ZERO);
        let latency = read(Ps::from_us(10));
        assert!(latency <= warm);
        let n = 4000u64;
        let last = (0..n).map(|_| read(Ps::from_us(20))).max().unwrap();
        let each = last.as_f64() / n as f64;
        let formula = latency.as_f64() / 8.0;
        assert!((each - formula).abs() / formula < 0.02, "{each} ps a read against {formula}");
    }

    /// A small write finds a gap that a larger one before it does not fit, and stays behind it all the same; a read is served
    /// behind both.
    #[test]
    fn writes_leave_in_order_and_reads_push_them() {
        let mut p = platform();
        p.pcie.tags = 1;
        let mut memory = MemorySystem::new(&p, 1);
        let mut link = Pcie::new(&p.pcie, (4, 16));
        let (mut iommu, mut stats) = (Iommu::new(&p.iommu), IoStats::default());
        let mut host = Host { memory: &mut memory, iommu: &mut iommu, stats: &mut stats, by: PROBE };
        let latency = link.read(Ps::ZERO, 0, 64, &mut host);
        let t = Ps::from_us(10);
        // Two reads: the second one's request is booked ahead, when the first one's tag is back.
        let first = link.read(t, 0, 64, &mut host);
        link.read(t, 0, 64, &mut host);
        let (left, visible) = link.write(first - Ps::from_ns(2), 4096, 256, &mut host);
        let (small, _) = link.write(first - Ps::from_ns(1), 8192, 4, &mut host);
        assert!(small >= left, "{small:?} before {left:?}");
        let alone = Ps::from_us(20);
        assert!(link.read(alone, 0, 64, &mut host) - alone <= latency);
        let (_, later) = link.write(alone, 4096, 4096, &mut host);
        assert!(visible < later && link.read(alone, 4096, 64, &mut host) > later);
    }

    /// Completions are acknowledged and give back no credits; on one lane each TLP is, since it is longer than the interval. Flits
    /// have both in bytes of their own, and TLPs no framing.
    #[test]
    fn data_link_packets_by_what_is_sent() {
        let p = platform();
        let size = u64::from(p.pcie.dllp_size);
        let overhead = u64::from(p.pcie.write_overhead);
        for (place, reads, dllps, framing) in [((3, 1), false, 2, 0), ((3, 1), true, 2, 0), ((6, 16), false, 0, 8)] {
            let mut memory = MemorySystem::new(&p, 1);
            let mut link = Pcie::new(&p.pcie, place);
            let (mut iommu, mut stats) = (Iommu::new(&p.iommu), IoStats::default());
            let mut host = Host { memory: &mut memory, iommu: &mut iommu, stats: &mut stats, by: PROBE };
            if reads {
                link.read(Ps::ZERO, 0, 512, &mut host);
            } else {
                link.write(Ps::ZERO, 0, 256, &mut host);
                assert_eq!(host.stats.upstream_bytes, 256 + overhead - framing);
            }
            assert_eq!(stats.dllp_bytes, dllps * size, "{place:?}, reads: {reads}");
        }
    }

    #[test]
    fn data_link_packets_cost_the_other_direction() {
        let p = platform();
        let mut memory = MemorySystem::new(&p, 1);
        let mut link = Pcie::new(&p.pcie, (4, 16));
        let (mut iommu, mut stats) = (Iommu::new(&p.iommu), IoStats::default());
        for i in 0..1000 {
            link.write(
                Ps::ZERO,
                i * 4096,
                256,
                &mut Host { memory: &mut memory, iommu: &mut iommu, stats: &mut stats, by: PROBE },
            );
        }
        // After each ten of them of 280 bytes, 168 on each of 16 lanes: an acknowledgement and credits.
        assert_eq!((p.pcie.dllp_interval, p.pcie.write_overhead), (168, 24));
        assert_eq!(stats.dllp_bytes, 1000 / 10 * 2 * u64::from(p.pcie.dllp_size));
        // One that is sent while they wait comes behind them, one that is sent long after does not.
        let last = link.downstream.owed.last().unwrap().since;
        let t = link.upstream.calendar.last_end() + Ps::from_us(1);
        let alone = Pcie::new(&p.pcie, (4, 16)).register_write(t, &mut stats);
        assert_eq!(link.register_write(t, &mut stats), alone);
        let alone = Pcie::new(&p.pcie, (4, 16)).register_write(last, &mut stats);
        assert!(link.register_write(last, &mut stats) > alone);
    }
}
