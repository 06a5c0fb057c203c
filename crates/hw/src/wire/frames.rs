//! What packets look like: headers, flows, checksums, and the probe that finds them again.

use super::flows::Vary;
use super::sizes::LENGTHS;
use super::FCS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::{Invalid, Ps};

/// Magic, packet number, time stamp.
pub const PROBE_BYTES: u32 = 18;
/// Marks a probe.
pub const MAGIC: [u8; 2] = *b"WT";

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
const FIRST_PORT: u32 = 0x1000;
/// Source ports of one address; beyond, flows take the next address.
const PORTS: u32 = 0xe000;
/// The generator's own address on the link, and the last byte of the address that packets go to.
pub const PEER: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const TARGET: u32 = 2;
/// Where packets go to, whatever port they come by.
pub const HOST: [u8; 4] = [10, 0, 0, TARGET as u8];
/// RFC 5180 sets this network aside for benchmarks.
const V6_NETWORK: [u8; 6] = [0x20, 0x01, 0, 2, 0, 0];

/// What the generator sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// UDP.
    Udp,
    /// ICMP echo requests: what `ping -f` sends, without waiting for replies.
    Ping,
    /// Requests to a key-value store, by memcached's protocol over UDP.
    Memcached,
    /// An iperf3 client's connections and datagrams.
    Iperf,
}

/// Version of the internet protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // names say it
pub enum Internet {
    #[default]
    V4,
    V6,
}

/// Where a packet's bytes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Written when they are needed, from the packet's number.
    #[default]
    Built,
    /// From a trace.
    Replayed,
    /// The generator's answer to something that the host asked (ARP, neighbour discovery, ping).
    Answer,
}

/// A packet on its way: all that is needed to write its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Its number; the port that it came from in the upper byte.
    pub id: u64,
    /// When its first bit left the generator.
    pub departed: Ps,
    /// Bytes, FCS included.
    pub length: u32,
    /// Its flow.
    pub flow: u32,
    /// Where its bytes come from.
    pub kind: Kind,
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

/// Source address and port of a flow; addresses begin with 10 in IPv4, and 0 in IPv6's last word.
fn source(flow: u32, vary: Vary) -> ([u8; 3], u16) {
    let (host, port) = match vary {
        Vary::Ports => (flow / PORTS, flow % PORTS),
        Vary::Addresses => (flow, 0),
        Vary::Both => (flow, flow % PORTS),
    };
    // The target is nobody's source.
    let host = host + if host + 1 >= TARGET { 2 } else { 1 };
    ([(host >> 16) as u8, (host >> 8) as u8, host as u8], (FIRST_PORT + port) as u16)
}

/// A datagram over IPv4 from a flow's address.
pub struct Datagram<'a> {
    pub destination: [u8; 6],
    pub flow: u32,
    /// What tells it apart.
    pub vary: Vary,
    pub port: u16,
    pub payload: &'a [u8],
}

/// Makes a frame of it, without FCS.
pub fn datagram(f: &mut Vec<u8>, d: &Datagram) {
    let udp_length = (d.payload.len() + 8) as u16;
    f.clear();
    f.extend_from_slice(&d.destination);
    f.extend_from_slice(&PEER);
    f.extend_from_slice(&[8, 0, 0x45, 0]);
    f.extend_from_slice(&(udp_length + 20).to_be_bytes());
    f.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 0, 10, 0, 0, TARGET as u8, 0, 0]);
    f.extend_from_slice(&d.port.to_be_bytes());
    f.extend_from_slice(&udp_length.to_be_bytes());
    f.extend_from_slice(&[0, 0]);
    f.extend_from_slice(d.payload);
    f.resize(f.len().max(60), 0);
    readdress(f, d.flow, d.vary);
}

/// Gives a datagram to another flow, checksums included.
pub fn readdress(f: &mut [u8], flow: u32, vary: Vary) {
    let (address, port) = source(flow, vary);
    f[27..30].copy_from_slice(&address);
    f[34..36].copy_from_slice(&port.to_be_bytes());
    f[24..26].fill(0);
    let sum = checksum(word_sum(&f[ETHERNET..V4.l4]));
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    f[40..42].fill(0);
    let length = u16::from_be_bytes([f[38], f[39]]);
    let sum = word_sum(&f[26..34]) + 17 + u32::from(length) + word_sum(&f[V4.l4..V4.l4 + usize::from(length)]);
    let sum = Some(checksum(sum)).filter(|&s| s != 0).unwrap_or(0xffff);
    f[40..42].copy_from_slice(&sum.to_be_bytes());
}

/// Where things are in a packet, by version.
#[derive(Clone, Copy, Debug)]
struct Places {
    v6: bool,
    /// The source address's changing bytes, both addresses, the transport header.
    source: usize,
    addresses: (usize, usize),
    l4: usize,
}

const V4: Places = Places { v6: false, source: 26, addresses: (26, 34), l4: 34 };
const V6: Places = Places { v6: true, source: 34, addresses: (22, 54), l4: 54 };

/// Bytes of the headers in front of the payload.
#[must_use]
fn headers_length(internet: Internet) -> u32 {
    8 + match internet {
        Internet::V4 => V4.l4 as u32,
        Internet::V6 => V6.l4 as u32,
    }
}

/// Writes frames of any size into one place.
#[derive(Debug)]
pub struct Frames {
    /// A frame of the greatest length there is; payload is zero but for the probe.
    template: Vec<u8>,
    places: Places,
    probe: usize,
    udp: bool,
    vary: Vary,
    /// The sum of the transport's words that never change (pseudo-header included), and which bytes of the probe do.
    fixed_sum: u32,
    varying: std::ops::Range<usize>,
    /// The sum of the IPv4 header's words that never change.
    header_sum: u32,
    /// Whose frame the template is now.
    built: Option<Packet>,
}

impl Frames {
    /// Frames of `shortest` bytes (FCS included) and up to `destination`, the probe at `probe_offset`.
    ///
    /// # Errors
    /// Where the probe does not fit the shortest.
    pub fn new(
        (traffic, internet, vary): (Traffic, Internet, Vary),
        shortest: u32,
        probe_offset: u32,
        (destination, target): ([u8; 6], [u8; 4]),
    ) -> Result<Self, Invalid> {
        let body = shortest.saturating_sub(FCS);
        let headers = headers_length(internet);
        if probe_offset < headers || probe_offset.saturating_add(PROBE_BYTES) > body {
            let allowed =
                format!("needs {PROBE_BYTES} B between byte {headers} and byte {body} of a {shortest} B packet");
            return Err(Invalid::new("timestamp offset", format!("{probe_offset} B"), allowed));
        }
        let places = if internet == Internet::V6 { V6 } else { V4 };
        let udp = traffic != Traffic::Ping;
        let mut f = vec![0u8; (LENGTHS.end() - FCS) as usize];
        f[..6].copy_from_slice(&destination);
        f[6..12].copy_from_slice(&PEER);
        let protocol = match (udp, places.v6) {
            (true, _) => 17,
            (false, false) => 1,
            (false, true) => 58,
        };
        if places.v6 {
            f[12..14].copy_from_slice(&[0x86, 0xdd]);
            (f[14], f[20], f[21]) = (0x60, protocol, 64);
            f[22..28].copy_from_slice(&V6_NETWORK);
            f[38..44].copy_from_slice(&V6_NETWORK);
            f[45] = 1;
            f[53] = TARGET as u8;
        } else {
            f[12..14].copy_from_slice(&[8, 0]);
            (f[14], f[22], f[23]) = (0x45, 64, protocol);
            f[26] = 10;
            f[30..34].copy_from_slice(&target);
        }
        let l4 = places.l4;
        let header_sum = word_sum(&f[ETHERNET..places.source]) + word_sum(&f[places.source + 4..l4]);
        let mut fixed_sum = 0;
        if udp {
            f[l4 + 2..l4 + 4].copy_from_slice(&[0x20, 0]);
        } else {
            f[l4] = if places.v6 { 128 } else { 8 }; // echo request
        }
        if udp || places.v6 {
            // The pseudo-header but source and length (RFC 768, RFC 8200).
            fixed_sum += word_sum(&f[places.addresses.0..places.addresses.1]) + u32::from(protocol);
            fixed_sum -= word_sum(&f[places.source..places.source + 4]);
        }
        let probe = probe_offset as usize;
        f[probe..probe + 2].copy_from_slice(&MAGIC);
        let varying = probe & !1..((probe + PROBE_BYTES as usize).next_multiple_of(2)).min(f.len());
        fixed_sum += word_sum(&f[l4..varying.start]) + word_sum(&f[varying.end..]);
        // Packets without ports can only differ in their addresses.
        let vary = if udp { vary } else { Vary::Addresses };
        Ok(Self { template: f, places, probe, udp, vary, fixed_sum, varying, header_sum, built: None })
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
        self.built = None;
        &self.template[..(packet.length - FCS) as usize]
    }

    /// Source and lengths; returns the length in the transport header.
    fn set_headers(&mut self, packet: &Packet) -> u32 {
        let (f, at, flow) = (&mut self.template, self.places, packet.flow);
        let (address, port) = source(flow, self.vary);
        f[at.source] = if at.v6 { 0 } else { 10 };
        f[at.source + 1..at.source + 4].copy_from_slice(&address);
        let ip_length = packet.length - FCS - ETHERNET as u32;
        let l4_length = packet.length - FCS - at.l4 as u32;
        if at.v6 {
            f[18..20].copy_from_slice(&(l4_length as u16).to_be_bytes());
        } else {
            f[16..18].copy_from_slice(&(ip_length as u16).to_be_bytes());
        }
        if self.udp {
            f[at.l4..at.l4 + 2].copy_from_slice(&port.to_be_bytes());
            f[at.l4 + 4..at.l4 + 6].copy_from_slice(&(l4_length as u16).to_be_bytes());
        }
        l4_length
    }

    /// The frame of a packet, without FCS.
    pub fn frame(&mut self, packet: &Packet) -> &[u8] {
        if self.built != Some(*packet) {
            self.build(packet);
            self.built = Some(*packet);
        }
        &self.template[..(packet.length - FCS) as usize]
    }

    fn build(&mut self, packet: &Packet) {
        let l4_length = self.set_headers(packet);
        let (f, at, p) = (&mut self.template, self.places, self.probe);
        f[p + 2..p + 10].copy_from_slice(&packet.id.to_le_bytes());
        f[p + 10..p + 18].copy_from_slice(&packet.departed.0.to_le_bytes());
        let source = word_sum(&f[at.source..at.source + 4]);
        if !at.v6 {
            let header = checksum(self.header_sum + source + word_sum(&f[16..18]));
            f[24..26].copy_from_slice(&header.to_be_bytes());
        }
        // The payload behind the probe is zero, so that a frame's sum does not depend on where it ends.
        let mut sum = self.fixed_sum + word_sum(&f[self.varying.clone()]);
        if self.udp {
            // The length counts twice: in the header and in the pseudo-header.
            sum += source + word_sum(&f[at.l4..at.l4 + 2]) + 2 * l4_length;
        } else if at.v6 {
            sum += source + l4_length;
        }
        let field = at.l4 + if self.udp { 6 } else { 2 };
        // A UDP checksum of zero would mean none.
        let sum = match checksum(sum) {
            0 if self.udp => 0xffff,
            sum => sum,
        };
        f[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(id: u64, length: u32, flow: u32) -> Packet {
        Packet { id, departed: Ps(123_456_789), length, flow, kind: Kind::Built }
    }

    fn frames(traffic: Traffic, internet: Internet, vary: Vary, shortest: u32, offset: u32) -> Result<Frames, Invalid> {
        Frames::new((traffic, internet, vary), shortest, offset, ([2; 6], HOST))
    }

    /// Every length, by sums written again: header, and datagram with pseudo-header.
    #[test]
    fn checksums_hold_for_every_length() {
        for (traffic, flow) in [(Traffic::Udp, 0), (Traffic::Udp, 7), (Traffic::Udp, 200_000), (Traffic::Ping, 5)] {
            for vary in [Vary::Ports, Vary::Addresses, Vary::Both] {
                let mut four = frames(traffic, Internet::V4, vary, 65, 43).unwrap();
                let mut six = frames(traffic, Internet::V6, vary, 85, 63).unwrap();
                for length in 85..=1518 {
                    let f = four.frame(&packet(length.into(), length, flow));
                    assert_eq!((f.len() as u32, u32::from(f[16]) << 8 | u32::from(f[17])), (length - 4, length - 18));
                    assert_eq!(checksum(word_sum(&f[14..34])), 0, "IP header at {length} B");
                    let pseudo = word_sum(&f[26..34]) + 17 + (f.len() as u32 - 34);
                    let pseudo = if traffic == Traffic::Udp { pseudo } else { 0 };
                    assert_eq!(checksum(pseudo + word_sum(&f[34..])), 0, "{traffic:?} of {length} B, flow {flow}");
                    let f = six.frame(&packet(length.into(), length, flow));
                    let payload = f.len() as u32 - 54;
                    assert_eq!((f[14] >> 4, u32::from(f[18]) << 8 | u32::from(f[19])), (6, payload));
                    let pseudo = word_sum(&f[22..54]) + u32::from(f[20]) + payload;
                    assert_eq!(checksum(pseudo + word_sum(&f[54..])), 0, "v6 {traffic:?} of {length} B, flow {flow}");
                }
            }
        }
    }

    /// What our receive checks say of them, which know nothing of how they were made.
    #[test]
    fn a_receiver_finds_them_sound() {
        for (internet, offset) in [(Internet::V4, 42), (Internet::V6, 62)] {
            let mut frames = frames(Traffic::Udp, internet, Vary::Ports, 84, offset).unwrap();
            for length in [84, 85, 570, 1518, 8999, 9000] {
                let c = crate::nic::check_frame(frames.frame(&packet(1, length, 3)));
                assert!(c.l4_checked && !c.l4_bad && !c.l3_bad, "{internet:?}, {length} B: {c:?}");
            }
        }
    }

    #[test]
    fn flows_differ() {
        for (internet, offset, bytes) in [(Internet::V4, 42, 26..38), (Internet::V6, 62, 22..58)] {
            for vary in [Vary::Ports, Vary::Addresses, Vary::Both] {
                let mut frames = frames(Traffic::Udp, internet, vary, 84, offset).unwrap();
                let mut seen = std::collections::BTreeSet::new();
                for flow in (0..300_000).step_by(7) {
                    let headers = frames.headers(&packet(0, 84, flow))[bytes.clone()].to_vec();
                    assert_ne!(headers[..4], [10, 0, 0, 2], "the target");
                    assert!(seen.insert(headers), "flow {flow}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |offset| frames(Traffic::Udp, Internet::V4, Vary::Ports, 64, offset).unwrap_err().to_string();
        assert!(refused(50).contains("timestamp offset is 50 B") && refused(10).contains("of a 64 B packet"));
        assert!(refused(u32::MAX).contains("timestamp offset"));
        assert!(frames(Traffic::Udp, Internet::V6, Vary::Ports, 83, 62)
            .unwrap_err()
            .to_string()
            .contains("between byte 62 and byte 79"));
    }
}
