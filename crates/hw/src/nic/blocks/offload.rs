//! Checksum insertion and TCP segmentation (SDM sections 3.4 to 3.6): bytes in, frames out. VLAN tags are put in by who sends
//! them.

use super::checks::sum;

/// The longest packet that descriptors may build up; beyond it the hardware's counters are undefined; ours
/// cut it (Intel's) or refuse it (a ConnectX).
pub const PACKET_MAX: usize = 256 << 10;

/// Checksum and segmentation parameters of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// IP checksum start, offset, end.
    pub ip: [u16; 3],
    /// TCP/UDP checksum start, offset, end.
    pub l4: [u16; 3],
    /// Payload bytes of the whole segmented packet; 0: all that follows the header.
    pub payload: u32,
    /// Segment size.
    pub mss: u16,
    /// Header bytes to repeat.
    pub header: u16,
    /// TCP rather than UDP.
    pub tcp: bool,
    /// Its transport has no checksum that we insert.
    pub other_l4: bool,
    /// IPv4 rather than IPv6.
    pub ipv4: bool,
    /// VLAN tag, of packets that take theirs from here.
    pub vlan: u16,
}

/// Where the VLAN tag comes from that is put into a packet's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tag {
    /// None is.
    #[default]
    None,
    /// From the context.
    OfContext,
    /// It is this one.
    This(u16),
}

/// What is to be done to a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Segment by the context.
    pub segments: bool,
    /// Insert the IP checksum by the context.
    pub ip: bool,
    /// Insert the TCP/UDP checksum by the context.
    pub l4: bool,
    /// Insert a checksum at this offset, summed from this start.
    pub sum: Option<(u8, u8)>,
    /// Put a VLAN tag in.
    pub tag: Tag,
}

/// What to do with a gathered packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offload {
    /// What is wanted.
    pub wants: Wants,
    /// The context that applies.
    pub context: Context,
}

impl Offload {
    /// The VLAN tag that is put in behind all else: places in the context are those without it.
    #[must_use]
    pub fn tag(&self) -> Option<u16> {
        match self.wants.tag {
            Tag::None => None,
            Tag::OfContext => Some(self.context.vlan),
            Tag::This(tag) => Some(tag),
        }
    }
}

/// Sums from `start` to `end` inclusive (0: to the end), the field's own content included, and stores the complement.
fn insert_checksum(frame: &mut [u8], [start, offset, end]: [u16; 3], udp: bool) {
    let (start, offset) = (usize::from(start), usize::from(offset));
    let end = if end == 0 { frame.len() } else { (usize::from(end) + 1).min(frame.len()) };
    if start >= end || offset + 2 > frame.len() {
        return;
    }
    let mut value = !sum(&frame[start..end], 0);
    if udp && value == 0 {
        value = 0xffff;
    }
    frame[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
}

fn put16(frame: &mut [u8], at: usize, value: u16) {
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

fn get16(frame: &[u8], at: usize) -> u16 {
    frame.get(at..at + 2).map_or(0, |f| u16::from_be_bytes([f[0], f[1]]))
}

/// Calls `emit` with each frame (without FCS) that `packet` becomes. Returns false where the descriptors make no sense.
pub fn frames(packet: &mut [u8], o: &Offload, scratch: &mut Vec<u8>, mut emit: impl FnMut(&[u8])) -> bool {
    if o.wants.segments {
        return segments(packet, o, scratch, emit);
    }
    if let Some((offset, start)) = o.wants.sum {
        insert_checksum(packet, [u16::from(start), u16::from(offset), 0], false);
    }
    if o.wants.l4 && !o.context.other_l4 {
        insert_checksum(packet, o.context.l4, !o.context.tcp);
    }
    if o.wants.ip {
        insert_checksum(packet, o.context.ip, false);
    }
    emit(packet);
    true
}

/// Drivers ask for no less than 48 B (TCP_MIN_SND_MSS of Linux); a packet becomes so many frames at once.
const MSS_LEAST: usize = 16;

fn segments(packet: &[u8], o: &Offload, scratch: &mut Vec<u8>, mut emit: impl FnMut(&[u8])) -> bool {
    let c = &o.context;
    let (header, mss) = (usize::from(c.header), usize::from(c.mss));
    if mss < MSS_LEAST || header == 0 || packet.len() < header {
        return false;
    }
    let wanted = if c.payload == 0 { packet.len() } else { header + c.payload as usize };
    let payload = &packet[header..packet.len().min(wanted)];
    let (ip, l4) = (usize::from(c.ip[0]), usize::from(c.l4[0]));
    let identification = get16(packet, ip + 4);
    let sequence = packet.get(l4 + 4..l4 + 8).map_or(0, |f| u32::from_be_bytes([f[0], f[1], f[2], f[3]]));
    let count = payload.len().div_ceil(mss).max(1);
    for k in 0..count {
        let part = &payload[k * mss..payload.len().min((k + 1) * mss)];
        scratch.clear();
        scratch.extend_from_slice(&packet[..header]);
        scratch.extend_from_slice(part);
        let length = scratch.len();
        if c.ipv4 {
            put16(scratch, ip + 2, (length.saturating_sub(ip)) as u16);
            put16(scratch, ip + 4, identification.wrapping_add(k as u16));
        } else {
            put16(scratch, ip + 4, length.saturating_sub(ip + 40) as u16);
        }
        let l4_length = length.saturating_sub(l4);
        if c.tcp {
            let at = sequence.wrapping_add((k * mss) as u32);
            if let Some(field) = scratch.get_mut(l4 + 4..l4 + 8) {
                field.copy_from_slice(&at.to_be_bytes());
            }
            if let Some(flags) = scratch.get_mut(l4 + 13) {
                // FIN and PSH belong to the last segment, CWR to the first.
                *flags &= if k + 1 < count { !0x09 } else { !0 } & if k > 0 { !0x80 } else { !0 };
            }
        } else {
            put16(scratch, l4 + 4, l4_length as u16);
        }
        // The seed lacks the length, which differs by segment.
        let seed = usize::from(c.l4[1]);
        let seeded = sum(&(l4_length as u32).to_be_bytes(), get16(scratch, seed));
        put16(scratch, seed, seeded);
        if o.wants.l4 {
            insert_checksum(scratch, c.l4, !c.tcp);
        }
        if o.wants.ip {
            insert_checksum(scratch, c.ip, false);
        }
        emit(scratch);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4/TCP packet as Linux hands it over: lengths and checksums zero, pseudo-header seed without length.
    fn tcp_packet(payload: usize) -> (Vec<u8>, Context) {
        let mut p = vec![0u8; 54 + payload];
        p[12..14].copy_from_slice(&[8, 0]);
        p[14] = 0x45;
        p[18..20].copy_from_slice(&7u16.to_be_bytes());
        p[23] = 6;
        p[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        p[38..42].copy_from_slice(&1000u32.to_be_bytes());
        p[46] = 0x50;
        p[47] = 0x99; // FIN, PSH, ACK, CWR
        let seed = sum(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 6], 0);
        p[50..52].copy_from_slice(&seed.to_be_bytes());
        for (i, b) in p[54..].iter_mut().enumerate() {
            *b = i as u8;
        }
        let c = Context {
            ip: [14, 24, 33],
            l4: [34, 50, 0],
            payload: payload as u32,
            mss: 1000,
            header: 54,
            tcp: true,
            other_l4: false,
            ipv4: true,
            vlan: 0,
        };
        (p, c)
    }

    #[test]
    fn segments_are_valid_tcp() {
        let (mut p, context) = tcp_packet(2500);
        let o = Offload { wants: Wants { segments: true, ip: true, l4: true, ..Wants::default() }, context };
        let mut out = Vec::new();
        assert!(frames(&mut p, &o, &mut Vec::new(), |f| out.push(f.to_vec())));
        assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [1054, 1054, 554]);
        for (k, f) in out.iter().enumerate() {
            assert_eq!(sum(&f[14..34], 0), 0xffff, "IP checksum of segment {k}");
            let pseudo = sum(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 6], (f.len() - 34) as u16);
            assert_eq!(sum(&f[34..], pseudo), 0xffff, "TCP checksum of segment {k}");
            assert_eq!(get16(f, 16) as usize, f.len() - 14);
            assert_eq!(get16(f, 18), 7 + k as u16);
            assert_eq!(f[47] & 9, if k == 2 { 9 } else { 0 });
            assert_eq!(f[47] & 0x80, if k == 0 { 0x80 } else { 0 });
            assert_eq!(&f[38..42], (1000 + 1000 * k as u32).to_be_bytes());
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let (mut p, mut context) = tcp_packet(100);
        let o = Offload { wants: Wants { segments: true, ..Wants::default() }, context };
        for (mss, sound) in [(0, false), (15, false), (16, true)] {
            context.mss = mss;
            assert_eq!(frames(&mut p, &Offload { context, ..o }, &mut Vec::new(), |_| {}), sound, "{mss}");
        }
        let mut short = vec![0; 10];
        let o = Offload { context: Context { mss: 1000, header: 54, ..context }, ..o };
        assert!(!frames(&mut short, &o, &mut Vec::new(), |_| {}));
    }
}
