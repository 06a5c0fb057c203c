//! What a receiving NIC finds out about a frame: its protocols, and whether their checksums hold.
//!
//! Left out: VLAN tags, IPv6 extension headers, fragments (all told as "no transport").

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
    /// First byte of the transport header.
    pub transport: usize,
    /// One past the network payload, as the network header says and the frame holds.
    pub end: usize,
}

const ETHERNET: usize = 14;

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
    match half(f, 12) {
        0x0800 if f.len() >= ETHERNET + 20 => {
            let header = usize::from(f[ETHERNET] & 0xf) * 4;
            let total = half(f, 16);
            let end = ETHERNET + total;
            let sound = f[ETHERNET] >> 4 == 4 && header >= 20 && total >= header && end <= f.len();
            if !sound {
                return Layout::default();
            }
            let fragment = half(f, 20) & 0x3fff != 0;
            Layout { l3: L3::V4, l4: if fragment { L4::None } else { l4(f[23]) }, transport: ETHERNET + header, end }
        }
        0x86dd if f.len() >= ETHERNET + 40 => {
            let end = ETHERNET + 40 + half(f, 18);
            if f[ETHERNET] >> 4 != 6 || end > f.len() {
                return Layout::default();
            }
            Layout { l3: L3::V6, l4: l4(f[20]), transport: ETHERNET + 40, end }
        }
        _ => Layout::default(),
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
    let addresses = match l.l3 {
        L3::None => return 0,
        L3::V4 => f.get(26..34),
        L3::V6 => f.get(22..54),
    };
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
        L3::V4 => c.l3_bad = sum(&f[ETHERNET..l.transport], 0) != 0xffff,
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
