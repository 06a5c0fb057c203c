//! What a receiving NIC finds out about a frame: its protocols, and whether their checksums hold.
//!
//! VLAN tags, up to two, are looked through. Left out: IPv6 extension headers, fragments (both told as "no transport").

/// Network protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum L3 {
    /// Neither.
    #[default]
    None,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum L4 {
    /// None that NICs know.
    #[default]
    None,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// A frame's protocols and checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Network protocol.
    pub l3: L3,
    /// Transport protocol.
    pub l4: L4,
    /// The IPv4 header checksum is wrong.
    pub l3_bad: bool,
    /// The transport checksum was there to be checked.
    pub l4_checked: bool,
    /// And is wrong.
    pub l4_bad: bool,
}

/// Where a frame's headers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Network protocol.
    pub l3: L3,
    /// Transport protocol.
    pub l4: L4,
    /// First byte of the network header, behind the tags.
    pub network: usize,
    /// First byte of the transport header.
    pub transport: usize,
    /// One past the network payload, as the network header says and the frame holds.
    pub end: usize,
}

impl Layout {
    /// Where the network header's addresses are, source before destination; empty without one.
    #[must_use]
    pub fn addresses(&self) -> std::ops::Range<usize> {
        let (from, each) = match self.l3 {
            L3::None => (0, 0),
            L3::V4 => (12, 4),
            L3::V6 => (8, 16),
        };
        self.network + from..self.network + from + 2 * each
    }
}

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
/// Types of VLAN tags, of customers and of providers.
const TAGS: [usize; 2] = [0x8100, 0x88a8];

fn half(f: &[u8], at: usize) -> usize {
    f.get(at..at + 2).map_or(0, |b| usize::from(b[0]) << 8 | usize::from(b[1]))
}

/// Finds a frame's headers.
#[must_use]
pub fn layout(f: &[u8]) -> Layout {
    let l4 = |protocol: u8| match protocol {
        6 => L4::Tcp,
        17 => L4::Udp,
        _ => L4::None,
    };
    let mut network = ETHERNET;
    while network < ETHERNET + 8 && TAGS.contains(&half(f, network - 2)) {
        network += 4;
    }
    let nothing = Layout { network, ..Layout::default() };
    let Some(ip) = f.get(network..) else { return nothing };
    match half(f, network - 2) {
        0x0800 if ip.len() >= 20 => {
            let header = usize::from(ip[0] & 0xf) * 4;
            let total = half(ip, 2);
            let sound = ip[0] >> 4 == 4 && header >= 20 && total >= header && total <= ip.len();
            if !sound {
                return nothing;
            }
            let fragment = half(ip, 6) & 0x3fff != 0;
            let l4 = if fragment { L4::None } else { l4(ip[9]) };
            Layout { l3: L3::V4, l4, network, transport: network + header, end: network + total }
        }
        0x86dd if ip.len() >= 40 => {
            let total = 40 + half(ip, 4);
            if ip[0] >> 4 != 6 || total > ip.len() {
                return nothing;
            }
            Layout { l3: L3::V6, l4: l4(ip[6]), network, transport: network + 40, end: network + total }
        }
        _ => nothing,
    }
}

/// The one's-complement sum of big-endian words, folded.
#[must_use]
pub fn sum(data: &[u8], seed: u16) -> u16 {
    // Eight bytes at a time: the sum is the same in any byte order, but for a swap at the end (RFC 1071, 2.B).
    let mut total = u128::from(seed.swap_bytes());
    let chunks = data.chunks_exact(8);
    let rest = chunks.remainder();
    for c in chunks {
        total += u128::from(u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]));
    }
    for pair in rest.chunks(2) {
        total += u128::from(u16::from_le_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    (total as u16).swap_bytes()
}

/// The sum of the pseudo-header of a frame's transport of so many bytes.
#[must_use]
pub fn pseudo(f: &[u8], l: &Layout, length: u32) -> u16 {
    if l.l3 == L3::None {
        return 0;
    }
    let addresses = f.get(l.addresses());
    let protocol = match l.l4 {
        L4::Tcp => 6,
        L4::Udp => 17,
        L4::None => 0,
    };
    let total = u32::from(sum(addresses.unwrap_or_default(), 0)) + protocol + length;
    let folded = (total & 0xffff) + (total >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// Checks a frame (without FCS).
#[must_use]
pub fn check(f: &[u8]) -> Checks {
    let l = layout(f);
    let mut c = Checks { l3: l.l3, l4: l.l4, ..Checks::default() };
    match l.l3 {
        L3::None => return c,
        L3::V4 => c.l3_bad = sum(&f[l.network..l.transport], 0) != 0xffff,
        L3::V6 => {}
    }
    let length = l.end - l.transport;
    let least = match l.l4 {
        L4::None => return c,
        L4::Udp => 8,
        L4::Tcp => 20,
    };
    // UDP over IPv4 without a checksum has nothing to check.
    let absent = l.l4 == L4::Udp && length >= 8 && half(f, l.transport + 6) == 0;
    if length < least || absent {
        return c;
    }
    c.l4_checked = true;
    let seed = pseudo(f, &l, length as u32);
    c.l4_bad = sum(&f[l.transport..l.end], seed) != 0xffff;
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::blocks::offload::{frames, Context, Offload, Wants};

    fn udp(length: usize) -> Vec<u8> {
        let mut f = vec![0u8; length];
        f[12..14].copy_from_slice(&[8, 0]);
        f[14] = 0x45;
        f[16..18].copy_from_slice(&((length - 14) as u16).to_be_bytes());
        f[23] = 17;
        f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        f[38..40].copy_from_slice(&((length - 34) as u16).to_be_bytes());
        (42..length).for_each(|i| f[i] = (i * 37) as u8);
        f
    }

    /// What our own insertion writes, the check accepts, whatever the length; one flipped bit it does not.
    #[test]
    fn accepts_what_transmit_inserts() {
        for length in 60..140 {
            let mut f = udp(length);
            // The pseudo-header's sum, as a driver seeds it.
            let seed = sum(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 17], (length - 34) as u16);
            f[40..42].copy_from_slice(&seed.to_be_bytes());
            let context = Context { ip: [14, 24, 33], l4: [34, 40, 0], ..Context::default() };
            let o = Offload { wants: Wants { ip: true, l4: true, ..Wants::default() }, context };
            let mut out = Vec::new();
            assert!(frames(&mut f, &o, &mut Vec::new(), |frame| out = frame.to_vec()));
            let c = check(&out);
            assert_eq!(
                (c.l3, c.l4, c.l3_bad, c.l4_checked, c.l4_bad),
                (L3::V4, L4::Udp, false, true, false),
                "{length}"
            );
            out[length - 1] ^= 4;
            assert!(check(&out).l4_bad);
            out[22] ^= 1;
            assert!(check(&out).l3_bad);
        }
    }

    /// One tag or two in front of what it is without: the same, further behind.
    #[test]
    fn tags_are_looked_through() {
        let f = udp(80);
        let (bare, seen) = (layout(&f), check(&f));
        for tags in 1..=3usize {
            let mut tagged = f.clone();
            (0..tags)
                .for_each(|n| drop(tagged.splice(12..12, [0x81 + 7 * u8::from(n > 0), 0xa8 * u8::from(n > 0), 0, 7])));
            let l = layout(&tagged);
            if tags > 2 {
                assert_eq!(l.l3, L3::None);
                continue;
            }
            let by = 4 * tags;
            let network = bare.network + by;
            assert_eq!(l, Layout { network, transport: bare.transport + by, end: bare.end + by, ..bare });
            assert_eq!(&tagged[l.addresses()], &f[bare.addresses()]);
            assert_eq!(check(&tagged), seen);
        }
    }

    #[test]
    fn nonsense_is_no_protocol() {
        assert_eq!(check(&[]), Checks::default());
        let mut f = udp(60);
        f[16..18].copy_from_slice(&1000u16.to_be_bytes());
        assert_eq!(check(&f).l3, L3::None, "longer than the frame");
        let mut f = udp(60);
        f[20] = 0x20;
        assert_eq!((check(&f).l3, check(&f).l4), (L3::V4, L4::None), "a fragment");
    }
}
