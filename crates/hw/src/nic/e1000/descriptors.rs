//! Descriptors of the 8254x (Intel, PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual,
//! sections 3.2 and 3.3): 16 bytes each.

/// Bytes of any descriptor.
pub const SIZE: u64 = 16;

/// Receive status: descriptor done, end of packet, ignore checksum.
pub const RX_DD: u8 = 1;
/// End of packet.
pub const RX_EOP: u8 = 2;
/// The checksum status says nothing.
pub const RX_IXSM: u8 = 4;

/// A receive descriptor written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxWriteBack {
    /// Buffer, as the driver gave it.
    pub buffer: u64,
    /// Bytes in this buffer.
    pub length: u16,
    /// Status bits.
    pub status: u8,
}

impl RxWriteBack {
    /// In memory's layout.
    #[must_use]
    pub fn bytes(self) -> [u8; SIZE as usize] {
        let mut d = [0; SIZE as usize];
        d[..8].copy_from_slice(&self.buffer.to_le_bytes());
        d[8..10].copy_from_slice(&self.length.to_le_bytes());
        d[12] = self.status;
        d
    }
}

/// The buffer address of a receive descriptor.
#[must_use]
pub fn rx_buffer(d: &[u8; SIZE as usize]) -> u64 {
    u64::from_le_bytes([d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]])
}

/// Checksum and segmentation parameters of a context descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// IP checksum start, offset, end.
    pub ip: [u16; 3],
    /// TCP/UDP checksum start, offset, end.
    pub l4: [u16; 3],
    /// Payload bytes of the whole segmented packet.
    pub payload: u32,
    /// Segment size.
    pub mss: u16,
    /// Header bytes to repeat.
    pub header: u8,
    /// TCP rather than UDP.
    pub tcp: bool,
    /// IPv4 rather than IPv6.
    pub ipv4: bool,
    /// For segmentation.
    pub tse: bool,
}

/// A data or legacy descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Where the bytes are.
    pub buffer: u64,
    /// How many.
    pub length: u32,
    /// End of packet.
    pub eop: bool,
    /// Segment by the context.
    pub tse: bool,
    /// Insert the IP checksum, insert the TCP/UDP checksum (by the context).
    pub ixsm: bool,
    /// Insert the TCP/UDP checksum.
    pub txsm: bool,
    /// Legacy checksum insertion: offset and start.
    pub legacy_checksum: Option<(u8, u8)>,
    /// Insert this VLAN tag.
    pub vlan: Option<u16>,
}

/// A transmit descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tx {
    /// Sets a context.
    Context(Context),
    /// Carries bytes.
    Data(Data),
}

/// A transmit descriptor as fetched: what it says, and whether it wants its status written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxDescriptor {
    /// What it says.
    pub kind: Tx,
    /// Report status (RS).
    pub report: bool,
    /// The interrupt may wait for the transmit timers (IDE).
    pub delay: bool,
    /// Second half, for the write-back.
    pub upper: u64,
}

const EOP: u32 = 1 << 24;
const IC_OR_TSE: u32 = 1 << 26;
const RS: u32 = 1 << 27;
const DEXT: u32 = 1 << 29;
const VLE: u32 = 1 << 30;
const IDE: u32 = 1 << 31;

impl TxDescriptor {
    /// Reads a descriptor; any bytes mean something.
    #[must_use]
    pub fn parse(d: &[u8; SIZE as usize]) -> Self {
        let word = |at: usize| u32::from_le_bytes([d[at], d[at + 1], d[at + 2], d[at + 3]]);
        let half = |at: usize| u16::from_le_bytes([d[at], d[at + 1]]);
        let (lower, upper) = (word(8), word(12));
        let extended = lower & DEXT != 0;
        let kind = if extended && lower >> 20 & 0xf == 0 {
            Tx::Context(Context {
                ip: [u16::from(d[0]), u16::from(d[1]), half(2)],
                l4: [u16::from(d[4]), u16::from(d[5]), half(6)],
                payload: lower & 0xf_ffff,
                mss: half(14),
                header: d[13],
                tcp: lower & 1 << 24 != 0,
                ipv4: lower & 1 << 25 != 0,
                tse: lower & 1 << 26 != 0,
            })
        } else {
            Tx::Data(Data {
                buffer: rx_buffer(d),
                length: if extended { lower & 0xf_ffff } else { lower & 0xffff },
                eop: lower & EOP != 0,
                tse: extended && lower & IC_OR_TSE != 0,
                ixsm: extended && upper & 1 << 8 != 0,
                txsm: extended && upper & 1 << 9 != 0,
                legacy_checksum: (!extended && lower & IC_OR_TSE != 0).then_some((d[10], d[13])),
                vlan: (lower & VLE != 0).then_some(half(14)),
            })
        };
        Self {
            kind,
            report: lower & RS != 0,
            delay: lower & IDE != 0,
            upper: u64::from(lower) | u64::from(upper) << 32,
        }
    }

    /// The second half with DD set: what the NIC writes back.
    #[must_use]
    pub fn done(&self) -> [u8; 8] {
        (self.upper | 1 << 32).to_le_bytes()
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
        let t = TxDescriptor::parse(&d);
        let Tx::Data(data) = t.kind else { panic!("{t:?}") };
        assert_eq!(
            (data.buffer, data.length, data.eop, data.txsm, data.ixsm),
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
        let Tx::Context(c) = TxDescriptor::parse(&d).kind else { panic!() };
        assert_eq!((c.ip, c.l4, c.payload, c.mss, c.header), ([14, 24, 33], [34, 50, 0], 5000, 1460, 54));
        assert!(c.tcp && c.ipv4 && c.tse);
    }
}
