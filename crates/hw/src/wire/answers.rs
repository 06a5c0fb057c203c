//! What the generator answers when the host asks it something: ARP (RFC 826), neighbour solicitations (RFC 4861), echo
//! requests (RFC 792, RFC 4443). It has every address that the host does not call its own in the question.
//!
//! Left out: fragments, IPv6 extension headers, duplicate address detection (nobody has the address that a host tries).

use super::frames::{checksum, word_sum, ETHERNET, PEER};

const ARP: [u8; 2] = [8, 6];
const V4: [u8; 2] = [8, 0];
const V6: [u8; 2] = [0x86, 0xdd];
const ECHO: u8 = 128;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// The answer to a frame of the host, without FCS; `None` where nothing is to be said.
#[must_use]
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let kind = frame.get(12..14)?;
    let rest = frame.get(ETHERNET..)?;
    let payload = match kind {
        k if k == ARP => arp(rest)?,
        k if k == V4 => echo(rest)?,
        k if k == V6 => icmp6(rest)?,
        _ => return None,
    };
    let mut f = Vec::with_capacity(ETHERNET + payload.len());
    f.extend_from_slice(&frame[6..12]);
    f.extend_from_slice(&PEER);
    f.extend_from_slice(kind);
    f.extend_from_slice(&payload);
    f.resize(f.len().max(60), 0);
    Some(f)
}

/// "Who has this address": we do, unless the host asks about its own, or has none yet.
fn arp(request: &[u8]) -> Option<Vec<u8>> {
    let r = request.get(..28)?;
    let (sender, target) = (&r[14..18], &r[24..28]);
    if r[..8] != [0, 1, 8, 0, 6, 4, 0, 1] || sender == target || sender == [0; 4] {
        return None;
    }
    let mut a = vec![0, 1, 8, 0, 6, 4, 0, 2];
    a.extend_from_slice(&PEER);
    a.extend_from_slice(target);
    a.extend_from_slice(&r[8..18]);
    Some(a)
}

fn echo(packet: &[u8]) -> Option<Vec<u8>> {
    let header = usize::from(packet.first()? & 15) * 4;
    let total = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
    let fragment = packet.get(6)? & 0x3f != 0 || *packet.get(7)? != 0;
    let packet = packet.get(..total)?;
    if header < 20 || total < header + 8 || packet[9] != 1 || fragment || packet[header..header + 2] != [8, 0] {
        return None;
    }
    let mut p = packet.to_vec();
    swap(&mut p, 12, 16, 4);
    p[10..12].fill(0);
    let sum = checksum(word_sum(&p[..header]));
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p[header] = 0;
    p[header + 2..header + 4].fill(0);
    let sum = checksum(word_sum(&p[header..]));
    p[header + 2..header + 4].copy_from_slice(&sum.to_be_bytes());
    Some(p)
}

fn icmp6(packet: &[u8]) -> Option<Vec<u8>> {
    let length = usize::from(u16::from_be_bytes(packet.get(4..6)?.try_into().ok()?));
    let packet = packet.get(..40 + length)?;
    if packet[6] != 58 || length < 8 || !matches!(packet[40], ECHO | SOLICITATION) {
        return None;
    }
    let mut p = packet.to_vec();
    match p[40] {
        ECHO => {
            swap(&mut p, 8, 24, 16);
            p[40] = 129;
        }
        SOLICITATION if length >= 24 => {
            let target: [u8; 16] = p[48..64].try_into().ok()?;
            if p[8..24] == [0; 16] || p[8..24] == target {
                return None;
            }
            p.truncate(40);
            p.copy_within(8..24, 24);
            p[8..24].copy_from_slice(&target);
            // Solicited, override; our link-layer address behind the target (RFC 4861 4.4).
            p.extend_from_slice(&[ADVERTISEMENT, 0, 0, 0, 0x60, 0, 0, 0]);
            p.extend_from_slice(&target);
            p.extend_from_slice(&[2, 1]);
            p.extend_from_slice(&PEER);
            p[4..6].copy_from_slice(&32u16.to_be_bytes());
            p[7] = 255;
        }
        _ => return None,
    }
    p[42..44].fill(0);
    let length = (p.len() - 40) as u32;
    let sum = checksum(word_sum(&p[8..40]) + 58 + length + word_sum(&p[40..]));
    p[42..44].copy_from_slice(&sum.to_be_bytes());
    Some(p)
}

fn swap(p: &mut [u8], a: usize, b: usize, n: usize) {
    (0..n).for_each(|i| p.swap(a + i, b + i));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOST: [u8; 6] = [0x52, 0x54, 0, 1, 2, 3];

    fn frame(kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
        [&[0xff; 6][..], &HOST, &kind, payload].concat()
    }

    #[test]
    fn arp_is_answered() {
        let request = |from: [u8; 4], to: [u8; 4]| {
            frame(ARP, &[&[0, 1, 8, 0, 6, 4, 0, 1][..], &HOST, &from, &[0; 6], &to].concat())
        };
        let a = answer(&request([10, 0, 0, 2], [10, 0, 0, 9])).unwrap();
        assert_eq!((a.len(), &a[..6], &a[20..22]), (60, &HOST[..], &[0, 2][..]));
        assert_eq!((&a[22..28], &a[28..32], &a[38..42]), (&PEER[..], &[10, 0, 0, 9][..], &[10, 0, 0, 2][..]));
        assert_eq!(answer(&request([10, 0, 0, 2], [10, 0, 0, 2])), None, "announces itself");
        assert_eq!(answer(&request([0; 4], [10, 0, 0, 2])), None, "probes");
    }

    #[test]
    fn ping_is_answered() {
        let mut p = vec![0x45, 0, 0, 84, 1, 2, 0x40, 0, 64, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
        p.extend([8, 0, 0, 0, 5, 6, 0, 1]);
        p.extend((0..56).map(|i| i as u8));
        let sum = checksum(word_sum(&p[20..]));
        p[22..24].copy_from_slice(&sum.to_be_bytes());
        let a = answer(&frame(V4, &p)).unwrap();
        let a = &a[14..];
        assert_eq!((&a[12..20], a[20], &a[28..84]), (&[10, 0, 0, 1, 10, 0, 0, 2][..], 0, &p[28..84]));
        assert_eq!((checksum(word_sum(&a[..20])), checksum(word_sum(&a[20..84]))), (0, 0));
        p[20] = 0;
        assert_eq!(answer(&frame(V4, &p)), None, "a reply");
    }

    #[test]
    fn neighbours_are_told() {
        let (us, them) = ([0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0xfe; 16]);
        let mut p = vec![0x60, 0, 0, 0, 0, 32, 58, 255];
        p.extend(them);
        p.extend([0xff; 16]);
        p.extend([SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
        p.extend(us);
        p.extend([1, 1, 0, 0, 0, 0, 0, 0]);
        let a = answer(&frame(V6, &p)).unwrap();
        let a = &a[14..];
        assert_eq!((&a[8..24], &a[24..40], a[40], &a[48..64]), (&us[..], &them[..], ADVERTISEMENT, &us[..]));
        assert_eq!(&a[64..72], [2, 1, 2, 0, 0, 0, 0, 1]);
        assert_eq!(checksum(word_sum(&a[8..40]) + 58 + 32 + word_sum(&a[40..72])), 0);
        p[8..24].fill(0);
        assert_eq!(answer(&frame(V6, &p)), None, "duplicate address detection");
        let mut ping = vec![0x60, 0, 0, 0, 0, 8, 58, 64];
        ping.extend(them);
        ping.extend(us);
        ping.extend([128, 0, 0, 0, 1, 2, 0, 1]);
        let a = answer(&frame(V6, &ping)).unwrap();
        assert_eq!((a[54], &a[22..38]), (129, &us[..]));
        assert_eq!(checksum(word_sum(&a[22..54]) + 58 + 8 + word_sum(&a[54..62])), 0);
    }

    proptest! {
        #[test]
        fn nothing_is_too_odd(kind in 0usize..4, bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let kind = [ARP, V4, V6, [0, 0]][kind];
            let _ = answer(&frame(kind, &bytes));
            let _ = answer(&bytes);
        }
    }
}
