//! Descriptors of the 8254x (Intel, PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual,
//! sections 3.2 and 3.3): 16 bytes each.

use super::super::controller::{Completion, DESCRIPTOR};
use super::super::descriptors::{buffer, half, word, Data, Tx, TxDescriptor};
use crate::nic::blocks::checks::L3;
use crate::nic::blocks::offload::{Context, Tag, Wants};

/// Receive status (byte 12): descriptor done, end of packet, ignore checksum, a VLAN tag was taken off, TCP/UDP checked, IP
/// checked.
const RX_DD: u8 = 1;
const RX_EOP: u8 = 2;
const RX_IXSM: u8 = 4;
const RX_VP: u8 = 8;
const RX_TCPCS: u8 = 0x20;
const RX_IPCS: u8 = 0x40;
/// Receive errors (byte 13): TCP/UDP checksum, IP checksum.
const RX_TCPE: u8 = 0x20;
const RX_IPE: u8 = 0x40;

/// A receive descriptor as it is written back; `checked`: whether checksum offload is on.
#[must_use]
pub fn write_back(c: &Completion, checked: bool) -> [u8; DESCRIPTOR as usize] {
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    let mut d = [0; DESCRIPTOR as usize];
    d[..8].copy_from_slice(&c.buffer.to_le_bytes());
    d[8..10].copy_from_slice(&c.length.to_le_bytes());
    d[12] = RX_DD;
    if c.last {
        let v4 = c.checks.l3 == L3::V4;
        d[12] |= RX_EOP | flag(c.vlan.is_some(), RX_VP);
        d[14..].copy_from_slice(&c.vlan.unwrap_or(0).to_le_bytes());
        d[12] |= if checked && (v4 || c.checks.l4_checked) {
            flag(v4, RX_IPCS) | flag(c.checks.l4_checked, RX_TCPCS)
        } else {
            RX_IXSM
        };
        d[13] = flag(checked && c.checks.l3_bad, RX_IPE) | flag(checked && c.checks.l4_bad, RX_TCPE);
    }
    d
}

const EOP: u32 = 1 << 24;
const IC_OR_TSE: u32 = 1 << 26;
const RS: u32 = 1 << 27;
const DEXT: u32 = 1 << 29;
const VLE: u32 = 1 << 30;
const IDE: u32 = 1 << 31;

/// Reads a transmit descriptor; any bytes mean something. `tags`: whether VLAN tags may be put in (CTRL.VME).
#[must_use]
pub fn transmit(d: &[u8; DESCRIPTOR as usize], tags: bool) -> TxDescriptor {
    let (lower, upper) = (word(d, 8), word(d, 12));
    let extended = lower & DEXT != 0;
    let tse = lower & IC_OR_TSE != 0;
    let kind = if extended && lower >> 20 & 0xf == 0 {
        let context = Context {
            ip: [u16::from(d[0]), u16::from(d[1]), half(d, 2)],
            l4: [u16::from(d[4]), u16::from(d[5]), half(d, 6)],
            payload: lower & 0xf_ffff,
            mss: half(d, 14),
            header: u16::from(d[13]),
            tcp: lower & 1 << 24 != 0,
            other_l4: false,
            ipv4: lower & 1 << 25 != 0,
            vlan: 0,
        };
        Tx::Context(context, u8::from(tse))
    } else {
        Tx::Data(Data {
            buffer: buffer(d),
            length: if extended { lower & 0xf_ffff } else { lower & 0xffff },
            eop: lower & EOP != 0,
            wants: Wants {
                segments: extended && tse,
                ip: extended && upper & 1 << 8 != 0,
                l4: extended && upper & 1 << 9 != 0,
                sum: (!extended && tse).then_some((d[10], d[13])),
                tag: if tags && lower & VLE != 0 { Tag::This(half(d, 14)) } else { Tag::None },
            },
            slot: u8::from(extended && tse),
        })
    };
    TxDescriptor {
        kind,
        report: lower & RS != 0,
        delay: lower & IDE != 0,
        upper: u64::from(lower) | u64::from(upper) << 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_data() {
        let mut d = [0u8; 16];
        d[..8].copy_from_slice(&0x1234_5678_9abcu64.to_le_bytes());
        // 60 bytes, DTYP 1, EOP, RS, DEXT; TXSM.
        d[8..12].copy_from_slice(&(60u32 | 1 << 20 | EOP | RS | DEXT).to_le_bytes());
        d[12..].copy_from_slice(&(1u32 << 9).to_le_bytes());
        let t = transmit(&d, true);
        let Tx::Data(data) = t.kind else { panic!("{t:?}") };
        assert_eq!(
            (data.buffer, data.length, data.eop, data.wants.l4, data.wants.ip),
            (0x1234_5678_9abc, 60, true, true, false)
        );
        assert!(t.report);
        assert_eq!(t.done()[4] & 1, 1);
    }

    #[test]
    fn context() {
        let mut d = [0u8; 16];
        d[0] = 14;
        d[1] = 24;
        d[2] = 33;
        d[4] = 34;
        d[5] = 50;
        d[8..12].copy_from_slice(&(5000u32 | 7 << 24 | DEXT).to_le_bytes());
        d[13] = 54;
        d[14..].copy_from_slice(&1460u16.to_le_bytes());
        let Tx::Context(c, slot) = transmit(&d, true).kind else { panic!() };
        assert_eq!((c.ip, c.l4, c.payload, c.mss, c.header), ([14, 24, 33], [34, 50, 0], 5000, 1460, 54));
        assert!(c.tcp && c.ipv4 && slot == 1);
    }
}
