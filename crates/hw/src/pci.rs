//! A PCI function's configuration space (PCI Local Bus Specification 3.0, section 6; PCI Express Base Specification, section
//! 7): type 0 header, memory BARs of 32 and 64 bits, INTA, the capabilities for power management, MSI-X and PCI Express, and
//! extended capabilities.
//!
//! Left out: I/O BARs, expansion ROM, bridges; a device whose bus mastering is switched off goes on with DMA.

use std::ops::Range;

/// A memory BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Which: 0 to 5. One of 64 bits takes the next one's place, too.
    pub number: u8,
    /// Size in bytes, a power of two, 16 at least.
    pub size: u64,
    /// 64-bit and prefetchable.
    pub wide: bool,
}

impl Bar {
    /// One of 32 bits.
    #[must_use]
    pub fn new(number: u8, size: u64) -> Self {
        Self { number, size, wide: false }
    }

    /// One of 64 bits, prefetchable.
    #[must_use]
    pub fn wide(number: u8, size: u64) -> Self {
        Self { number, size, wide: true }
    }

    fn at(self) -> usize {
        BAR0 + 4 * usize::from(self.number)
    }

    /// Bytes of its register.
    fn width(self) -> usize {
        if self.wide {
            8
        } else {
            4
        }
    }
}

/// Message-signalled interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msix {
    /// How many: 1 to 2048.
    pub vectors: u16,
    /// The BAR of table and pending bits.
    pub bar: u8,
    /// Where in it the table is: a multiple of 8.
    pub table: u32,
    /// Where the pending bits are: a multiple of 8.
    pub pending: u32,
}

/// An extended capability (PCI Express Base Specification, section 7.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// What it is.
    pub id: u16,
    /// Its version.
    pub version: u8,
    /// Its registers behind the header, read-only.
    pub words: Vec<u32>,
}

/// What a function says of itself.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Vendor and device ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// 24-bit class code.
    pub class: u32,
    /// Revision.
    pub revision: u8,
    /// BARs.
    pub bars: Vec<Bar>,
    /// Has interrupt pin INTA.
    pub intx: bool,
    /// Has MSI-X.
    pub msix: Option<Msix>,
    /// Is a PCI Express endpoint.
    pub express: bool,
    /// Its link's generation and lanes; without them, 5 GT/s and 8.
    pub link: Option<(u8, u8)>,
    /// Has 4 KiB of configuration space with these extended capabilities.
    pub extended: Option<Vec<Extended>>,
}

/// The bytes of a function's configuration space and which bits the guest may write.
pub struct ConfigSpace {
    bytes: Vec<u8>,
    writable: Vec<u8>,
    bars: Vec<Bar>,
    /// Has MSI-X.
    pub msix: Option<Msix>,
}

const SIZE: usize = 256;
const EXTENDED_SIZE: usize = 4096;
const COMMAND: usize = 4;
const STATUS: usize = 6;
const STATUS_CAPABILITIES: u8 = 1 << 4;
const BAR0: usize = 0x10;
/// Memory, anywhere in 64 bits, prefetchable.
const BAR_WIDE: u8 = 0b1100;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;

/// Where the 82599 has them, which its driver relies on.
const POWER_AT: u8 = 0x40;
const MSIX_AT: u8 = 0x70;
const EXPRESS_AT: u8 = 0xa0;

impl ConfigSpace {
    /// A function with this identity.
    pub fn new(id: &Identity) -> Self {
        let size = if id.extended.is_some() { EXTENDED_SIZE } else { SIZE };
        let mut s = Self { bytes: vec![0; size], writable: vec![0; size], bars: id.bars.clone(), msix: id.msix };
        s.put16(0, id.vendor);
        s.put16(2, id.device);
        s.bytes[8] = id.revision;
        s.bytes[9..12].copy_from_slice(&id.class.to_le_bytes()[..3]);
        s.put16(0x2c, id.vendor);
        s.put16(0x2e, id.device);
        s.bytes[INTERRUPT_PIN] = u8::from(id.intx);
        // I/O, memory, bus master, parity, SERR, interrupt disable.
        s.writable[COMMAND] = 0x47;
        s.writable[COMMAND + 1] = 0x05;
        s.writable[0x0c] = 0xff; // cache line size
        s.writable[0x0d] = 0xff; // latency timer
        s.writable[INTERRUPT_LINE] = 0xff;
        for bar in &id.bars {
            let mask = (!(bar.size - 1)).to_le_bytes();
            s.writable[bar.at()..][..bar.width()].copy_from_slice(&mask[..bar.width()]);
            s.bytes[bar.at()] = if bar.wide { BAR_WIDE } else { 0 };
        }
        let mut link = CAPABILITIES;
        if id.msix.is_some() || id.express {
            s.bytes[STATUS] |= STATUS_CAPABILITIES;
            s.capability(&mut link, POWER_AT, 0x01, &[(2, 3)]);
        }
        if let Some(msix) = id.msix {
            s.capability(&mut link, MSIX_AT, 0x11, &[(2, msix.vectors - 1)]);
            s.put32(usize::from(MSIX_AT) + 4, msix.table | u32::from(msix.bar));
            s.put32(usize::from(MSIX_AT) + 8, msix.pending | u32::from(msix.bar));
            s.writable[usize::from(MSIX_AT) + 3] = 0xc0; // enable, mask all
        }
        if id.express {
            let (generation, lanes) = id.link.unwrap_or((2, 8));
            let link_is = u16::from(lanes) << 4 | u16::from(generation);
            // Version 2 endpoint; MPS of 512 B; ASPM L0s; the slot's clock.
            let halves = [(2, 0x0002), (4, 0x8cc2), (12, link_is | 0x0400), (18, link_is | 0x1000)];
            s.capability(&mut link, EXPRESS_AT, 0x10, &halves);
            for at in [8, 9, 16, 40] {
                s.writable[usize::from(EXPRESS_AT) + at] = 0xff; // device control, link control, device control 2
            }
        }
        let (mut at, mut rest) = (SIZE, id.extended.iter().flatten().peekable());
        while let Some(c) = rest.next() {
            let next = at + 4 * (1 + c.words.len());
            let link = rest.peek().map_or(0, |_| next as u32);
            s.put32(at, link << 20 | u32::from(c.version) << 16 | u32::from(c.id));
            c.words.iter().enumerate().for_each(|(k, &word)| s.put32(at + 4 * (1 + k), word));
            at = next;
        }
        s
    }

    /// Appends a capability to the list whose last pointer is at `link`: its ID, and half words at offsets.
    fn capability(&mut self, link: &mut usize, at: u8, id: u8, halves: &[(usize, u16)]) {
        self.bytes[*link] = at;
        let base = usize::from(at);
        *link = base + 1;
        self.bytes[base] = id;
        for &(offset, value) in halves {
            self.put16(base + offset, value);
        }
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// How many bytes there are: 256, or 4096.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// All of them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The BARs.
    #[must_use]
    pub fn bars(&self) -> &[Bar] {
        &self.bars
    }

    /// The BAR of this number.
    #[must_use]
    pub fn bar(&self, number: u8) -> Option<Bar> {
        self.bars.iter().find(|b| b.number == number).copied()
    }

    /// Reads any bytes; beyond the end all ones.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        for (i, byte) in data.iter_mut().enumerate() {
            *byte =
                usize::try_from(offset).ok().and_then(|o| self.bytes.get(o.checked_add(i)?)).copied().unwrap_or(0xff);
        }
    }

    /// Writes the writable bits.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for (i, &byte) in data.iter().enumerate() {
            let Some(at) = usize::try_from(offset).ok().and_then(|o| o.checked_add(i)) else { return };
            if let (Some(old), Some(&mask)) = (self.bytes.get_mut(at), self.writable.get(at)) {
                *old = *old & !mask | byte & mask;
            }
        }
    }

    /// The interrupt-status bit of the status register.
    pub fn set_interrupt_status(&mut self, pending: bool) {
        self.bytes[STATUS] = self.bytes[STATUS] & !8 | u8::from(pending) << 3;
    }

    /// Where a BAR stands; `None` while memory access is off or the BAR has no address.
    #[must_use]
    pub fn bar_address(&self, number: u8) -> Option<u64> {
        let bar = self.bar(number)?;
        let mut base = [0; 8];
        base[..bar.width()].copy_from_slice(&self.bytes[bar.at()..][..bar.width()]);
        let base = u64::from_le_bytes(base) & !0xf;
        (self.bytes[COMMAND] & 2 != 0 && base != 0).then_some(base)
    }

    /// Where the capability for messages is, if there is one.
    pub const MESSAGES: usize = MSIX_AT as usize;

    /// Where the table of messages stands, 16 bytes each; `None` as for its BAR, or where there is none.
    #[must_use]
    pub fn message_table(&self) -> Option<Range<u64>> {
        let msix = self.msix?;
        let begin = self.bar_address(msix.bar)?.saturating_add(msix.table.into());
        Some(begin..begin.saturating_add(16 * u64::from(msix.vectors)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_bits_and_bar() {
        let id = Identity {
            vendor: 0x8086,
            device: 0x100e,
            class: 0x02_0000,
            bars: vec![Bar::new(0, 0x20000)],
            intx: true,
            ..Identity::default()
        };
        let mut c = ConfigSpace::new(&id);
        c.write(4, &[0xff, 0xff]);
        let mut b = [0; 2];
        c.read(4, &mut b);
        assert_eq!(b, [0x47, 0x05], "bit 10 can be written, reserved bits cannot");
        c.write(0x10, &0xffff_ffffu32.to_le_bytes());
        let mut b = [0; 4];
        c.read(0x10, &mut b);
        assert_eq!(u32::from_le_bytes(b), 0xfffe_0000, "sizes itself");
        c.write(0x10, &0x1000_0000u32.to_le_bytes());
        assert_eq!(c.bar_address(0), Some(0x1000_0000));
        assert_eq!(c.bar_address(1), None, "there is none");
        c.read(u64::MAX, &mut b);
        c.write(u64::MAX, &b);
        c.read(254, &mut b);
        assert_eq!(b[2..], [0xff, 0xff]);
        c.read(0x34, &mut b);
        assert_eq!(b[0], 0, "no capabilities");
    }

    #[test]
    fn capabilities_form_a_list() {
        let mut c = ConfigSpace::new(&crate::nic::devices::intel::identity(crate::nic::devices::intel::Family::I82599));
        let byte = |at: u64| {
            let mut b = [0];
            c.read(at, &mut b);
            u64::from(b[0])
        };
        let (mut at, mut found) = (byte(0x34), vec![]);
        while at != 0 {
            found.push((at, byte(at)));
            at = byte(at + 1);
        }
        assert_eq!(found, [(0x40, 0x01), (0x70, 0x11), (0xa0, 0x10)]);
        assert_eq!((byte(0x72), byte(0x74) & 7, byte(0x78) & 7, byte(0x79)), (63, 4, 4, 0x20));
        c.write(0x72, &[0xff, 0xff]);
        let mut b = [0; 2];
        c.read(0x72, &mut b);
        assert_eq!(u16::from_le_bytes(b), 0xc03f, "enable and mask, not the size");
    }

    /// As a QDMA or a ConnectX has them.
    #[test]
    fn wide_bars_many_vectors_and_extended_capabilities() {
        let serial = Extended { id: 3, version: 1, words: vec![0x1122_3344, 0x5566_7788] };
        let id = Identity {
            bars: vec![Bar::wide(0, 1 << 18), Bar::wide(2, 1 << 34), Bar::new(4, 1 << 12)],
            msix: Some(Msix { vectors: 2048, bar: 0, table: 0x10000, pending: 0x18000 }),
            express: true,
            extended: Some(vec![Extended { id: 1, version: 2, words: vec![0; 16] }, serial]),
            ..Identity::default()
        };
        let mut c = ConfigSpace::new(&id);
        let word = |c: &ConfigSpace, at: u64| {
            let mut b = [0; 4];
            c.read(at, &mut b);
            u32::from_le_bytes(b)
        };
        assert_eq!(c.size(), 4096);
        c.write(4, &[2]);
        for at in [0x10, 0x14, 0x18, 0x1c, 0x20, 0x24] {
            c.write(at, &u32::MAX.to_le_bytes());
        }
        let sized = [0x10, 0x14, 0x18, 0x1c, 0x20, 0x24].map(|at| word(&c, at));
        assert_eq!(sized, [0xfffc_000c, u32::MAX, 0xc, 0xffff_fffc, 0xffff_f000, 0]);
        c.write(0x18, &0x8000_000fu32.to_le_bytes());
        c.write(0x1c, &0x47u32.to_le_bytes());
        assert_eq!(c.bar_address(2), Some(0x44_0000_0000), "aligned to its size");
        assert_eq!((word(&c, 0x70) >> 16, word(&c, 0x74), word(&c, 0x78)), (2047, 0x10000, 0x18000));
        let table = 0xffff_ffff_fffc_0000 + 0x10000;
        assert_eq!(c.message_table(), Some(table..table + 0x8000));
        c.write(4, &[0]);
        assert_eq!(c.message_table(), None, "memory access is off");
        assert_eq!((word(&c, 0x100), word(&c, 0x144), word(&c, 0x148)), (0x1442_0001, 0x0001_0003, 0x1122_3344));
        assert_eq!(word(&c, 4093) >> 24, 0xff, "beyond the end");
    }
}
