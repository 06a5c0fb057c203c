//! The load generator: which packet leaves when. Whatever the simulator does meanwhile, times are exact.
//!
//! Every frame carries a probe: magic, packet number and the time it left, so that the sink needs no memory of it.

use super::arrivals::{Arrivals, Departures};
use super::frames::{Frames, Packet, Traffic};
use serde::{Deserialize, Serialize};
use wiretime_base::{BitRate, Clock, Ps};

/// Bits of a packet's number below the number of its port.
pub const ID_BITS: u32 = 56;

/// What a generator sends.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Kind of packets.
    pub traffic: Traffic,
    /// Bytes of a frame, FCS included.
    pub packet_size: u32,
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
    spacing: Clock,
    back_to_back: Clock,
    departures: Departures,
    next: Packet,
    /// Whether the wanted rate exceeds what the line carries at this packet size, so that it sends back to back.
    pub line_limited: bool,
}

impl Generator {
    /// The generator of port `port`, to `destination`, on a line of `line` with `gap` bytes between frames.
    ///
    /// # Errors
    /// Where a packet cannot be built, or the rate is above the line's.
    pub fn new(load: &Load, port: u8, (line, gap): (BitRate, u32), destination: [u8; 6]) -> Result<Self, String> {
        let (length, rate) = (load.packet_size, load.rate);
        let frames = Frames::new(load.traffic, length, load.timestamp_offset, destination)?;
        if rate > line {
            return Err(format!("rate is {rate}: at most the link's, {line} (link.rate)"));
        }
        let spacing = Clock::per_bits(u64::from(length) * 8, rate);
        let back_to_back = Clock::per_bits(u64::from(length + gap) * 8, line);
        // A long run of packets tells which spacing is wider without rounding.
        let line_limited = spacing.at(1 << 20) < back_to_back.at(1 << 20);
        let first = Packet { id: u64::from(port) << ID_BITS, departed: Ps::MAX, length, flow: 0 };
        let mut load = load.clone();
        load.seed ^= u64::from(port) << 32;
        Ok(Self {
            frames,
            spacing,
            back_to_back,
            departures: Departures::new(Arrivals::Constant, spacing, back_to_back, 0, 0),
            load,
            next: first,
            line_limited,
        })
    }

    /// Packets leave as configured, from `t` on.
    pub fn start_at(&mut self, t: Ps) {
        let l = &self.load;
        self.departures = Departures::new(l.arrivals, self.spacing, self.back_to_back, t, l.seed);
        self.next.departed = self.departures.next();
    }

    /// Packets leave `interval` apart, the first at `t`.
    pub fn trickle_at(&mut self, t: Ps, interval: Ps) {
        let spacing = Clock::new(interval.max(1), 1).expect("not zero");
        self.departures = Departures::new(Arrivals::Constant, spacing, self.back_to_back, t, 0);
        self.next.departed = self.departures.next();
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
        self.next.departed = self.departures.next();
        self.next.flow = if self.next.flow + 1 >= self.load.flows { 0 } else { self.next.flow + 1 };
    }

    /// Where frames go.
    #[must_use]
    pub fn destination(&self) -> [u8; 6] {
        self.frames.destination()
    }

    /// The headers of a packet, as far as they tell its flow.
    pub fn headers(&mut self, packet: &Packet) -> &[u8] {
        self.frames.headers(packet.flow)
    }

    /// The frame of a packet, without FCS.
    pub fn frame(&mut self, packet: &Packet) -> &[u8] {
        self.frames.frame(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(length: u32, rate: &str, line: &str) -> Result<Generator, String> {
        let load = Load {
            traffic: Traffic::Udp,
            packet_size: length,
            rate: rate.parse().unwrap(),
            timestamp_offset: 42,
            arrivals: Arrivals::Constant,
            flows: 3,
            seed: 1,
        };
        Generator::new(&load, 1, (line.parse().unwrap(), 20), [2; 6])
    }

    #[test]
    fn packets_in_turn() {
        let mut g = generator(256, "40Gbps", "100Gbps").unwrap();
        g.start_at(1000);
        let mut list = Vec::new();
        for _ in 0..4 {
            list.push((g.next().id, g.next().departed, g.next().flow));
            g.advance();
        }
        // 2048 bits at 40 Gb/s are 51.2 ns.
        let first = 1 << ID_BITS;
        assert_eq!(list, [(first, 1000, 0), (first + 1, 52_200, 1), (first + 2, 103_400, 2), (first + 3, 154_600, 0)]);
        assert!(!g.line_limited);
        g.trickle_at(1_000_000, 500_000);
        g.advance();
        assert_eq!((g.next().id, g.next().departed), (first + 5, 1_500_000));
    }

    #[test]
    fn line_rate_is_the_limit() {
        let mut g = generator(64, "100Gbps", "100Gbps").unwrap();
        g.start_at(0);
        assert!(g.line_limited);
        (0..1000).for_each(|_| g.advance());
        assert_eq!(g.next().departed, 6_720_000, "84 bytes on the line");
        assert!(generator(64, "101Gbps", "100Gbps").unwrap_err().contains("at most the link's"));
    }
}
