//! The load generator: which packet leaves when. Whatever the simulator does meanwhile, times are exact.
//!
//! Every frame carries a probe: magic, packet number and the time it left, so that the sink needs no memory of it.

use super::arrivals::{Arrivals, Departures};
use super::frames::{Frames, Packet, Traffic};
use super::sizes::{Lengths, Sizes};
use serde::{Deserialize, Serialize};
use wiretime_base::{BitRate, Ps};

/// Bits of a packet's number below the number of its port.
pub const ID_BITS: u32 = 56;

/// Sizes and distances are drawn apart.
const SIZES_SEED: u64 = 0x5175_6573;

/// What a generator sends.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Kind of packets.
    pub traffic: Traffic,
    /// Bytes of frames, FCS included.
    pub sizes: Sizes,
    /// Bits of frames a second.
    pub rate: BitRate,
    /// Where the probe is, from the start of the frame.
    pub timestamp_offset: u32,
    /// How packets follow each other.
    pub arrivals: Arrivals,
    /// Flows, taken in turn; they differ in source port, and beyond 57344 in source address.
    pub flows: u32,
    /// Start of the random numbers.
    pub seed: u64,
}

/// The generator of one port.
#[derive(Debug)]
pub struct Generator {
    frames: Frames,
    load: Load,
    line: (BitRate, u32),
    departures: Departures,
    lengths: Lengths,
    next: Packet,
    /// Instead of the load: packets at this time and so far apart.
    trickle: Option<(Ps, Ps)>,
    /// Whether the wanted rate exceeds what the line carries at this packet size, so that it sends back to back.
    pub line_limited: bool,
}

impl Generator {
    /// The generator of port `port`, to `destination`, on a line of `line` with `gap` bytes between frames.
    ///
    /// # Errors
    /// Where a packet cannot be built, or the rate is above the line's.
    pub fn new(load: &Load, port: u8, (line, gap): (BitRate, u32), destination: [u8; 6]) -> Result<Self, String> {
        load.sizes.check()?;
        let frames = Frames::new(load.traffic, load.sizes.range().0, load.timestamp_offset, destination)?;
        let rate = load.rate;
        if rate > line {
            return Err(format!("rate is {rate}: at most the link's, {line} (link.rate)"));
        }
        let mean = load.sizes.mean();
        let carried = line.bits_per_second() as f64 * mean / (mean + f64::from(gap));
        let line_limited = rate.bits_per_second() as f64 > carried;
        let mut load = load.clone();
        load.seed ^= u64::from(port) << 32;
        let mut lengths = Lengths::new(&load.sizes, load.seed ^ SIZES_SEED);
        let first = Packet { id: u64::from(port) << ID_BITS, departed: Ps::MAX, length: lengths.next(), flow: 0 };
        let line = (line, gap);
        let departures = Departures::new(Arrivals::Constant, (rate, mean), line, 0, 0);
        Ok(Self { frames, line, departures, lengths, load, next: first, trickle: None, line_limited })
    }

    /// Packets leave as configured, from `t` on.
    pub fn start_at(&mut self, t: Ps) {
        self.trickle = None;
        let l = &self.load;
        self.lengths = Lengths::new(&l.sizes, l.seed ^ SIZES_SEED);
        self.departures = Departures::new(l.arrivals, (l.rate, l.sizes.mean()), self.line, t, l.seed);
        self.next.flow = 0;
        self.draw();
    }

    /// Another load, from the next start on; packets go on being numbered.
    ///
    /// # Errors
    /// As in [`Generator::new`]; the load in force then stays.
    pub fn change(&mut self, load: &Load) -> Result<(), String> {
        let port = (self.next.id >> ID_BITS) as u8;
        let new = Self::new(load, port, self.line, self.destination())?;
        *self = Self { next: self.next, ..new };
        Ok(())
    }

    /// Packets of the same sizes leave `interval` apart, the first at `t`.
    pub fn trickle_at(&mut self, t: Ps, interval: Ps) {
        self.trickle = Some((t, interval));
        self.next.departed = t;
    }

    /// Length and departure of the next packet.
    fn draw(&mut self) {
        self.next.length = self.lengths.next();
        self.next.departed = self.departures.next(self.next.length);
    }

    /// The packet that leaves next.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Packet {
        self.next
    }

    /// That packet has left.
    #[inline]
    pub fn advance(&mut self) {
        self.next.id += 1;
        match &mut self.trickle {
            Some((t, interval)) => {
                *t += *interval;
                self.next.departed = *t;
            }
            None => self.draw(),
        }
        self.next.flow = if self.next.flow + 1 >= self.load.flows { 0 } else { self.next.flow + 1 };
    }

    /// Where frames go.
    #[must_use]
    pub fn destination(&self) -> [u8; 6] {
        self.frames.destination()
    }

    /// The headers of a packet, as far as they tell its flow.
    pub fn headers(&mut self, packet: &Packet) -> &[u8] {
        self.frames.headers(packet)
    }

    /// The frame of a packet, without FCS.
    pub fn frame(&mut self, packet: &Packet) -> &[u8] {
        self.frames.frame(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(sizes: Sizes, rate: &str, line: &str) -> Result<Generator, String> {
        let load = Load {
            traffic: Traffic::Udp,
            sizes,
            rate: rate.parse().unwrap(),
            timestamp_offset: 42,
            arrivals: Arrivals::Constant,
            flows: 3,
            seed: 1,
        };
        Generator::new(&load, 1, (line.parse().unwrap(), 20), [2; 6])
    }

    fn take(g: &mut Generator, n: usize) -> Vec<(u64, Ps, u32, u32)> {
        (0..n)
            .map(|_| {
                let p = g.next();
                g.advance();
                (p.id & 0xff, p.departed, p.length, p.flow)
            })
            .collect()
    }

    #[test]
    fn packets_in_turn() {
        let mut g = generator(Sizes::Fixed { size: 256 }, "40Gbps", "100Gbps").unwrap();
        assert_eq!(g.next().id >> ID_BITS, 1);
        g.trickle_at(10, 500_000);
        assert_eq!(take(&mut g, 2), [(0, 10, 256, 0), (1, 500_010, 256, 1)]);
        g.start_at(1_000_000);
        // 2048 bits at 40 Gb/s are 51.2 ns.
        let expected = [(2, 1_000_000, 256, 0), (3, 1_051_200, 256, 1), (4, 1_102_400, 256, 2), (5, 1_153_600, 256, 0)];
        assert_eq!(take(&mut g, 4), expected);
        assert!(!g.line_limited);
    }

    #[test]
    fn a_mix_keeps_the_rate() {
        let sizes = Sizes::Mix { parts: vec![(64, 7), (570, 4), (1518, 1)] };
        let mut g = generator(sizes.clone(), "10Gbps", "100Gbps").unwrap();
        g.start_at(0);
        let list = take(&mut g, 12_001);
        let bits = (12_000.0 * sizes.mean() * 8.0) as u64;
        assert_eq!(list[12_000].1, bits * 100, "ten bits a nanosecond");
        assert_eq!(list.iter().take(12_000).filter(|p| p.2 == 1518).count(), 1000);
    }

    #[test]
    fn another_load_goes_on_numbering() {
        let mut g = generator(Sizes::Fixed { size: 256 }, "40Gbps", "100Gbps").unwrap();
        g.start_at(0);
        take(&mut g, 5);
        let mut load = g.load.clone();
        load.sizes = Sizes::Fixed { size: 63 };
        assert!(g.change(&load).is_err());
        load.sizes = Sizes::Fixed { size: 1000 };
        load.seed = 1;
        g.change(&load).unwrap();
        g.start_at(500);
        assert_eq!(take(&mut g, 2), [(5, 500, 1000, 0), (6, 200_500, 1000, 1)]);
    }

    #[test]
    fn line_rate_is_the_limit() {
        let mut g = generator(Sizes::Fixed { size: 64 }, "100Gbps", "100Gbps").unwrap();
        g.start_at(0);
        assert!(g.line_limited);
        assert_eq!(take(&mut g, 1001)[1000].1, 6_720_000, "84 bytes on the line");
        let refused = |sizes, rate| generator(sizes, rate, "100Gbps").unwrap_err();
        assert!(refused(Sizes::Fixed { size: 64 }, "101Gbps").contains("at most the link's"));
        assert!(refused(Sizes::Fixed { size: 63 }, "1Gbps").contains("64 to 9000"));
    }

    /// 400 Gb/s of 64 B packets: 595 million a second, each on its picosecond.
    #[test]
    fn four_hundred_gigabits() {
        let mut g = generator(Sizes::Fixed { size: 64 }, "400Gbps", "400Gbps").unwrap();
        g.start_at(0);
        let list = take(&mut g, 1_000_000);
        assert!(list.iter().enumerate().all(|(k, p)| p.1 == k as u64 * 84 * 8 * 1000 / 400));
    }
}
