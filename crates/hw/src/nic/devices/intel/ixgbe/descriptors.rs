//! Descriptors of the 82599 (data sheet, sections 7.1.6 and 7.2.3): advanced receive write-back, advanced transmit data and
//! context, legacy transmit.

use super::super::controller::{Completion, DESCRIPTOR};
use super::super::descriptors::{buffer, half, word, Data, Tx, TxDescriptor};
use crate::nic::blocks::checks::{L3, L4};
use crate::nic::blocks::offload::{Context, Tag, Wants};

const EOP: u32 = 1 << 24;
const INSERT_CHECKSUM: u32 = 1 << 26;
const RS: u32 = 1 << 27;
const DEXT: u32 = 1 << 29;
const VLE: u32 = 1 << 30;
const TSE: u32 = 1 << 31;
const TYPE_CONTEXT: u32 = 2;

/// Status: done, end of packet, a VLAN tag was taken off, UDP, transport and IPv4 checksum were looked at.
const RX_DD: u32 = 1;
const RX_EOP: u32 = 2;
const RX_VP: u32 = 1 << 3;
const RX_UDPCS: u32 = 1 << 4;
const RX_L4CS: u32 = 1 << 5;
const RX_IPCS: u32 = 1 << 6;
const RX_L4E: u32 = 1 << 30;
const RX_IPE: u32 = 1 << 31;

/// A receive descriptor as it is written back.
#[must_use]
pub fn write_back(c: &Completion) -> [u8; DESCRIPTOR as usize] {
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    let mut d = [0; DESCRIPTOR as usize];
    let mut status = RX_DD;
    if c.last {
        let k = &c.checks;
        let types = match k.l3 {
            L3::None => 0,
            L3::V4 => 1 << 4,
            L3::V6 => 1 << 6,
        } | match k.l4 {
            L4::None => 0,
            L4::Tcp => 1 << 8,
            L4::Udp => 1 << 9,
        };
        d[..4].copy_from_slice(&(types | u32::from(c.steering.hash_type)).to_le_bytes());
        d[4..8].copy_from_slice(&c.steering.hash.to_le_bytes());
        status |= RX_EOP | flag(k.l3 == L3::V4, RX_IPCS) | flag(k.l4_checked, RX_L4CS);
        status |= flag(k.l4_checked && k.l4 == L4::Udp, RX_UDPCS);
        status |= flag(c.vlan.is_some(), RX_VP) | flag(k.l3_bad, RX_IPE) | flag(k.l4_bad, RX_L4E);
    }
    d[8..12].copy_from_slice(&status.to_le_bytes());
    d[12..14].copy_from_slice(&c.length.to_le_bytes());
    d[14..].copy_from_slice(&c.vlan.filter(|_| c.last).unwrap_or(0).to_le_bytes());
    d
}

/// Reads a transmit descriptor; any bytes mean something.
#[must_use]
pub fn transmit(d: &[u8; DESCRIPTOR as usize]) -> TxDescriptor {
    let (lower, upper) = (word(d, 8), word(d, 12));
    let extended = lower & DEXT != 0;
    let kind = if extended && lower >> 20 & 0xf == TYPE_CONTEXT {
        let lengths = word(d, 0);
        let (ip, mac) = ((lengths & 0x1ff) as u16, (lengths >> 9 & 0x7f) as u16);
        let l4 = mac + ip;
        let tcp = lower >> 11 & 3 == 1;
        let context = Context {
            ip: [mac, mac + 10, l4.wrapping_sub(1)],
            l4: [l4, l4 + if tcp { 16 } else { 6 }, 0],
            payload: 0,
            mss: half(d, 14),
            header: l4 + u16::from(d[13]),
            tcp,
            other_l4: lower >> 11 & 3 > 1,
            ipv4: lower & 1 << 10 != 0,
            vlan: (lengths >> 16) as u16,
        };
        Tx::Context(context, (upper >> 4 & 1) as u8)
    } else {
        let insert = lower & INSERT_CHECKSUM != 0;
        Tx::Data(Data {
            buffer: buffer(d),
            length: lower & 0xffff,
            eop: lower & EOP != 0,
            wants: Wants {
                segments: extended && lower & TSE != 0,
                ip: extended && upper & 1 << 8 != 0,
                l4: extended && upper & 1 << 9 != 0,
                sum: (!extended && insert).then_some((d[10], d[13])),
                tag: match lower & VLE != 0 {
                    true if extended => Tag::OfContext,
                    true => Tag::This(half(d, 14)),
                    false => Tag::None,
                },
            },
            slot: if extended { (upper >> 4 & 1) as u8 } else { 0 },
        })
    };
    TxDescriptor { kind, report: lower & RS != 0, delay: false, upper: u64::from(lower) | u64::from(upper) << 32 }
}
