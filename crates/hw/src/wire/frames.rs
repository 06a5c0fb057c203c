//! What packets look like: headers, flows, checksums, and the probe that finds them again.

use super::sizes::LENGTHS;
use super::FCS;
use serde::{Deserialize, Serialize};
use wiretime_base::Ps;

/// Magic, packet number, time stamp.
pub const PROBE_BYTES: u32 = 18;
/// Marks a probe.
pub const MAGIC: [u8; 2] = *b"WT";

const ETHERNET: usize = 14;
const HEADERS: usize = ETHERNET + 20 + 8;
const SOURCE_ADDRESS: std::ops::Range<usize> = 26..30;
const SOURCE_PORT: std::ops::Range<usize> = 34..36;
const IP_LENGTH: std::ops::Range<usize> = 16..18;
const UDP_LENGTH: std::ops::Range<usize> = 38..40;
const FIRST_PORT: u32 = 0x1000;
/// Source ports of one address; beyond, flows take the next address.
const PORTS: u32 = 0xe000;

/// What the generator sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// UDP over IPv4.
    Udp,
    /// ICMP echo requests: what `ping -f` sends, without waiting for replies.
    Ping,
}

/// A packet on its way: all that is needed to write its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its number; the port that it came from in the upper byte.
    pub id: u64,
    /// When its first bit left the generator.
    pub departed: Ps,
    /// Bytes, FCS included.
    pub length: u32,
    /// Its flow.
    pub flow: u32,
}

/// The sum of big-endian words, the last one padded.
pub fn word_sum(data: &[u8]) -> u32 {
    data.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

/// The internet checksum of a sum of words (RFC 1071).
pub fn checksum(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Writes frames of any size into one place.
#[derive(Debug)]
pub struct Frames {
    /// A frame of the greatest length there is; payload is zero but for the probe.
    template: Vec<u8>,
    probe: usize,
    udp: bool,
    /// The sum of the transport's words that never change, and which bytes of the probe do.
    fixed_sum: u32,
    varying: std::ops::Range<usize>,
    /// The sum of the IP header's words that never change.
    header_sum: u32,
}

impl Frames {
    /// Frames of `shortest` bytes (FCS included) and up to `destination`, the probe at `probe_offset`.
    ///
    /// # Errors
    /// Where the probe does not fit the shortest.
    pub fn new(traffic: Traffic, shortest: u32, probe_offset: u32, destination: [u8; 6]) -> Result<Self, String> {
        let body = shortest.saturating_sub(FCS);
        if probe_offset < HEADERS as u32 || probe_offset.saturating_add(PROBE_BYTES) > body {
            return Err(format!(
                "timestamp offset is {probe_offset} B: needs {PROBE_BYTES} B between byte {HEADERS} and byte {body} of a {shortest} B packet"
            ));
        }
        let mut f = vec![0u8; (LENGTHS.end() - FCS) as usize];
        f[..6].copy_from_slice(&destination);
        f[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        f[12..14].copy_from_slice(&[8, 0]);
        f[14] = 0x45;
        f[22] = 64;
        let udp = traffic == Traffic::Udp;
        f[23] = if udp { 17 } else { 1 };
        f[30..34].copy_from_slice(&[10, 0, 0, 2]);
        let header_sum = word_sum(&f[14..34]);
        let mut fixed_sum = 0;
        if udp {
            f[36..38].copy_from_slice(&[0x20, 0]);
            // The pseudo-header but source and length: destination, protocol (RFC 768).
            fixed_sum += word_sum(&f[30..34]) + 17;
        } else {
            f[34] = 8; // echo request
        }
        let probe = probe_offset as usize;
        f[probe..probe + 2].copy_from_slice(&MAGIC);
        let varying = probe & !1..((probe + PROBE_BYTES as usize).next_multiple_of(2)).min(f.len());
        fixed_sum += word_sum(&f[34..varying.start]) + word_sum(&f[varying.end..]);
        Ok(Self { template: f, probe, udp, fixed_sum, varying, header_sum })
    }

    /// Where frames go.
    pub fn destination(&self) -> [u8; 6] {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.template[..6]);
        mac
    }

    /// The headers of a packet, as far as they tell its flow: checksums and payload are those of any other packet.
    pub fn headers(&mut self, packet: &Packet) -> &[u8] {
        self.set_headers(packet);
        &self.template[..(packet.length - FCS) as usize]
    }

    /// Source and lengths; returns the length in the transport header.
    fn set_headers(&mut self, packet: &Packet) -> u32 {
        let (f, flow) = (&mut self.template, packet.flow);
        let host = flow / PORTS;
        let [a, b] = (host as u16 + 1).to_be_bytes();
        f[SOURCE_ADDRESS].copy_from_slice(&[10, (host >> 16) as u8, a, b]);
        let ip_length = packet.length - FCS - ETHERNET as u32;
        f[IP_LENGTH].copy_from_slice(&(ip_length as u16).to_be_bytes());
        let l4_length = ip_length - 20;
        if self.udp {
            let port = (FIRST_PORT + flow % PORTS) as u16;
            f[SOURCE_PORT].copy_from_slice(&port.to_be_bytes());
            f[UDP_LENGTH].copy_from_slice(&(l4_length as u16).to_be_bytes());
        }
        l4_length
    }

    /// The frame of a packet, without FCS.
    pub fn frame(&mut self, packet: &Packet) -> &[u8] {
        let l4_length = self.set_headers(packet);
        let (f, p) = (&mut self.template, self.probe);
        f[p + 2..p + 10].copy_from_slice(&packet.id.to_le_bytes());
        f[p + 10..p + 18].copy_from_slice(&packet.departed.to_le_bytes());
        let source = word_sum(&f[SOURCE_ADDRESS]);
        let header = checksum(self.header_sum + source + word_sum(&f[IP_LENGTH]));
        f[24..26].copy_from_slice(&header.to_be_bytes());
        // The payload behind the probe is zero, so that a frame's sum does not depend on where it ends.
        let mut sum = self.fixed_sum + word_sum(&f[self.varying.clone()]);
        let at = if self.udp {
            // The length counts twice: in the header and in the pseudo-header.
            sum += source + word_sum(&f[SOURCE_PORT]) + 2 * l4_length;
            40
        } else {
            36
        };
        // A UDP checksum of zero would mean none.
        let sum = match checksum(sum) {
            0 if self.udp => 0xffff,
            sum => sum,
        };
        f[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        &f[..(packet.length - FCS) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(id: u64, length: u32, flow: u32) -> Packet {
        Packet { id, departed: 123_456_789, length, flow }
    }

    /// Every length, by sums written again: header, and datagram with pseudo-header.
    #[test]
    fn checksums_hold_for_every_length() {
        for (traffic, flow) in [(Traffic::Udp, 0), (Traffic::Udp, 7), (Traffic::Udp, 200_000), (Traffic::Ping, 0)] {
            let mut frames = Frames::new(traffic, 65, 43, [2; 6]).unwrap();
            for length in 65..=1518 {
                let f = frames.frame(&packet(length.into(), length, flow));
                assert_eq!((f.len() as u32, u32::from(f[16]) << 8 | u32::from(f[17])), (length - 4, length - 18));
                assert_eq!(checksum(word_sum(&f[14..34])), 0, "IP header at {length} B");
                let pseudo = word_sum(&f[26..34]) + 17 + (f.len() as u32 - 34);
                let pseudo = if traffic == Traffic::Udp { pseudo } else { 0 };
                assert_eq!(checksum(pseudo + word_sum(&f[34..])), 0, "{traffic:?} of {length} B, flow {flow}");
            }
        }
    }

    /// What our receive checks say of them, which know nothing of how they were made.
    #[test]
    fn a_receiver_finds_them_sound() {
        let mut frames = Frames::new(Traffic::Udp, 64, 42, [2; 6]).unwrap();
        for length in [64, 65, 570, 1518, 8999, 9000] {
            let c = crate::nic::check_frame(frames.frame(&packet(1, length, 3)));
            assert!(c.l4_checked && !c.l4_bad && !c.l3_bad, "{length} B: {c:?}");
        }
    }

    #[test]
    fn flows_differ() {
        let mut frames = Frames::new(Traffic::Udp, 64, 42, [2; 6]).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for flow in (0..300_000).step_by(7) {
            assert!(seen.insert(frames.headers(&packet(0, 64, flow))[26..38].to_vec()), "flow {flow}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |offset| Frames::new(Traffic::Udp, 64, offset, [2; 6]).unwrap_err();
        assert!(refused(50).contains("timestamp offset is 50 B") && refused(10).contains("of a 64 B packet"));
        assert!(refused(u32::MAX).contains("timestamp offset"));
    }
}
