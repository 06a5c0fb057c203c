//! The load generator: fixed packet size, constant rate, exact times.
//!
//! Packet `k` starts to leave at floor(k * num / den) ps after the start, whatever the simulator does meanwhile. Every
//! frame carries a probe: magic, sequence number and the time it left, so that the sink needs no memory of it.

use super::FCS;
use serde::{Deserialize, Serialize};
use wiretime_base::{BitRate, Clock, Ps};

/// Magic, sequence number, time stamp.
pub const PROBE_BYTES: u32 = 18;
/// Marks a probe.
pub const MAGIC: [u8; 2] = *b"WT";

const HEADERS: usize = 14 + 20 + 8;

/// What the generator sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// UDP over IPv4.
    Udp,
    /// ICMP echo requests: what `ping -f` sends, without waiting for replies.
    Ping,
}

/// The generator.
#[derive(Debug)]
pub struct Generator {
    template: Vec<u8>,
    probe: usize,
    length: u32,
    /// The rate's spacing, and the spacing in force.
    rate: Clock,
    spacing: Clock,
    /// Packet `first` leaves at `start`, the next a spacing later.
    first: u64,
    start: Ps,
    /// Where the transport checksum is, the sum of what never changes, and the bytes that do.
    checksum_at: usize,
    fixed_sum: u32,
    varying: std::ops::Range<usize>,
    /// Whether the wanted rate exceeds what the line carries at this packet size, so that it sends back to back.
    pub line_limited: bool,
}

/// The sum of big-endian words, the last one padded.
fn word_sum(data: &[u8]) -> u32 {
    data.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

/// The internet checksum of a sum of words (RFC 1071).
fn checksum(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Generator {
    /// Frames of `length` bytes (FCS included) at `rate` bits of frames a second, on a line of `line` with `gap` bytes
    /// between frames.
    ///
    /// # Errors
    /// Where the probe does not fit, or the rate is above the line's.
    pub fn new(
        traffic: Traffic,
        length: u32,
        rate: BitRate,
        probe_offset: u32,
        (line, gap): (BitRate, u32),
        destination: [u8; 6],
    ) -> Result<Self, String> {
        if !(64..=9000).contains(&length) {
            return Err(format!("packet size is {length} B: allowed are 64 to 9000 B, FCS included"));
        }
        if rate > line {
            return Err(format!("rate is {rate}: at most the link's, {line} (link.rate)"));
        }
        let body = length - FCS;
        if probe_offset < HEADERS as u32 || probe_offset + PROBE_BYTES > body {
            return Err(format!(
                "timestamp offset is {probe_offset} B: needs {PROBE_BYTES} B between byte {HEADERS} and byte {body} of a {length} B packet"
            ));
        }
        let wanted = Clock::per_bits(u64::from(length) * 8, rate);
        let back_to_back = Clock::per_bits(u64::from(length + gap) * 8, line);
        // A long run of packets tells which spacing is wider without rounding.
        let line_limited = wanted.at(1 << 20) < back_to_back.at(1 << 20);
        let mut template = vec![0u8; body as usize];
        template[..6].copy_from_slice(&destination);
        template[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        template[12..14].copy_from_slice(&[8, 0]);
        template[14] = 0x45;
        template[16..18].copy_from_slice(&(body as u16 - 14).to_be_bytes());
        template[22] = 64;
        template[23] = if traffic == Traffic::Udp { 17 } else { 1 };
        template[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = checksum(word_sum(&template[14..34]));
        template[24..26].copy_from_slice(&sum.to_be_bytes());
        let probe = probe_offset as usize;
        template[probe..probe + 2].copy_from_slice(&MAGIC);
        let mut fixed_sum = 0;
        let checksum_at = if traffic == Traffic::Udp {
            let length = body as u16 - 34;
            template[34..38].copy_from_slice(&[0x10, 0, 0x20, 0]);
            template[38..40].copy_from_slice(&length.to_be_bytes());
            // The pseudo-header: addresses, protocol, length (RFC 768).
            fixed_sum += word_sum(&template[26..34]) + 17 + u32::from(length);
            40
        } else {
            template[34] = 8; // echo request
            36
        };
        let varying = probe & !1..((probe + PROBE_BYTES as usize).next_multiple_of(2)).min(template.len());
        fixed_sum += word_sum(&template[34..varying.start]) + word_sum(&template[varying.end..]);
        Ok(Self {
            template,
            probe,
            length,
            rate: if line_limited { back_to_back } else { wanted },
            spacing: wanted,
            first: 0,
            start: 0,
            checksum_at,
            fixed_sum,
            varying,
            line_limited,
        })
    }

    /// From packet `first` on, packets leave at the configured rate, the first at `t`.
    pub fn start_at(&mut self, t: Ps, first: u64) {
        (self.start, self.first, self.spacing) = (t, first, self.rate);
    }

    /// From packet `first` on, packets leave `interval` apart, the first at `t`.
    pub fn trickle_at(&mut self, t: Ps, first: u64, interval: Ps) {
        (self.start, self.first) = (t, first);
        self.spacing = Clock::new(interval.max(1), 1).expect("not zero");
    }

    /// When packet `k` starts to leave; `k` at least the first of the spacing in force.
    #[inline]
    #[must_use]
    pub fn departure(&self, k: u64) -> Ps {
        self.start + self.spacing.at(k.saturating_sub(self.first))
    }

    /// The first packet that leaves at or after `t`.
    #[must_use]
    pub fn first_at_or_after(&self, t: Ps) -> u64 {
        self.first + self.spacing.cycle_at_or_after(t.saturating_sub(self.start))
    }

    /// Bytes of a frame, FCS included.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Where frames go.
    #[must_use]
    pub fn destination(&self) -> [u8; 6] {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.template[..6]);
        mac
    }

    /// Frame `k` without FCS.
    pub fn frame(&mut self, k: u64) -> &[u8] {
        let at = self.departure(k);
        let p = self.probe;
        self.template[p + 2..p + 10].copy_from_slice(&k.to_le_bytes());
        self.template[p + 10..p + 18].copy_from_slice(&at.to_le_bytes());
        // A UDP checksum of zero would mean none.
        let sum = match checksum(self.fixed_sum + word_sum(&self.template[self.varying.clone()])) {
            0 => 0xffff,
            sum => sum,
        };
        self.template[self.checksum_at..self.checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
        &self.template
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(t: &str) -> BitRate {
        t.parse().unwrap()
    }

    fn generator(length: u32, r: &str, line: &str) -> Result<Generator, String> {
        Generator::new(Traffic::Udp, length, rate(r), 42, (rate(line), 20), [2; 6])
    }

    #[test]
    fn departures_are_exact() {
        let mut g = generator(256, "40Gbps", "100Gbps").unwrap();
        g.start_at(1000, 0);
        // 2048 bits at 40 Gb/s are 51.2 ns.
        assert_eq!((g.departure(0), g.departure(1), g.departure(1_000_000_000)), (1000, 52_200, 51_200_000_001_000));
        assert_eq!(g.first_at_or_after(1001), 1);
        assert!(!g.line_limited);
    }

    #[test]
    fn line_rate_is_the_limit() {
        let mut g = generator(64, "100Gbps", "100Gbps").unwrap();
        g.start_at(0, 0);
        assert!(g.line_limited);
        assert_eq!(g.departure(1000), 6_720_000, "84 bytes on the line");
        assert!(generator(64, "101Gbps", "100Gbps").unwrap_err().contains("at most the link's"));
        assert!(generator(63, "1Gbps", "100Gbps").unwrap_err().contains("64 to 9000"));
        assert!(Generator::new(Traffic::Udp, 64, rate("1Gbps"), 50, (rate("1Gbps"), 20), [2; 6]).is_err());
    }

    #[test]
    fn headers_are_valid() {
        let mut g = generator(64, "1Gbps", "100Gbps").unwrap();
        let f = g.frame(7);
        assert_eq!(f.len(), 60);
        assert_eq!(checksum(word_sum(&f[14..34])), 0);
        // With the pseudo-header the whole datagram sums up.
        let pseudo = word_sum(&f[26..34]) + 17 + (f.len() as u32 - 34);
        assert_eq!(checksum(pseudo + word_sum(&f[34..])), 0);
    }
}
