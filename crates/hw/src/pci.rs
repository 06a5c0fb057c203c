//! A PCI function's configuration space (PCI Local Bus Specification 3.0, section 6): type 0 header, memory BARs, INTA, and
//! the capabilities for power management, MSI-X and PCI Express.
//!
//! Left out: 64-bit and I/O BARs, expansion ROM, bridges, extended configuration space.

/// A memory BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Size in bytes, a power of two.
    pub size: u64,
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
    /// BARs by number.
    pub bars: Vec<(usize, Bar)>,
    /// Has interrupt pin INTA.
    pub intx: bool,
    /// MSI-X vectors, 0 for none; table and pending bits are in the last BAR.
    pub msix: u16,
    /// Is a PCI Express endpoint.
    pub express: bool,
}

/// 256 bytes of configuration space and which bits the guest may write.
pub struct ConfigSpace {
    bytes: [u8; 256],
    writable: [u8; 256],
    bars: Vec<(usize, Bar)>,
    /// MSI-X vectors.
    pub msix: u16,
}

const COMMAND: usize = 4;
const STATUS: usize = 6;
const STATUS_CAPABILITIES: u8 = 1 << 4;
const BAR0: usize = 0x10;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;

/// Where the 82599 has them, which its driver relies on.
const POWER_AT: u8 = 0x40;
const MSIX_AT: u8 = 0x70;
const EXPRESS_AT: u8 = 0xa0;
const PENDING_BITS_AT: u32 = 0x2000;

impl ConfigSpace {
    /// A function with this identity.
    pub fn new(id: &Identity) -> Self {
        let mut s = Self { bytes: [0; 256], writable: [0; 256], bars: id.bars.clone(), msix: id.msix };
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
        for (number, bar) in &id.bars {
            let at = BAR0 + 4 * number;
            s.writable[at..at + 4].copy_from_slice(&(!(bar.size as u32 - 1)).to_le_bytes());
        }
        let mut link = CAPABILITIES;
        if id.msix > 0 || id.express {
            s.bytes[STATUS] |= STATUS_CAPABILITIES;
            s.capability(&mut link, POWER_AT, 0x01, &[(2, 3)]);
        }
        if id.msix > 0 {
            let bir = id.bars.last().map_or(0, |b| b.0 as u32);
            let halves = [(2, id.msix - 1), (4, bir as u16), (8, (PENDING_BITS_AT | bir) as u16)];
            s.capability(&mut link, MSIX_AT, 0x11, &halves);
            s.writable[usize::from(MSIX_AT) + 3] = 0xc0; // enable, mask all
        }
        if id.express {
            // Version 2 endpoint; MPS of 512 B; 5 GT/s, 8 lanes.
            let halves = [(2, 0x0002), (4, 0x8cc2), (12, 0x0482), (18, 0x1082)];
            s.capability(&mut link, EXPRESS_AT, 0x10, &halves);
            for at in [8, 9, 16, 40] {
                s.writable[usize::from(EXPRESS_AT) + at] = 0xff; // device control, link control, device control 2
            }
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

    /// The BAR of this number.
    #[must_use]
    pub fn bar(&self, number: usize) -> Option<Bar> {
        self.bars.iter().find(|b| b.0 == number).map(|b| b.1)
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

    /// Where BAR0 stands; `None` while memory access is off or the BAR is being sized.
    pub fn bar_address(&self) -> Option<u64> {
        let base =
            u32::from_le_bytes([self.bytes[BAR0], self.bytes[BAR0 + 1], self.bytes[BAR0 + 2], self.bytes[BAR0 + 3]])
                & !0xf;
        (self.bytes[COMMAND] & 2 != 0 && base != 0).then_some(u64::from(base))
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
            bars: vec![(0, Bar { size: 0x20000 })],
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
        assert_eq!(c.bar_address(), Some(0x1000_0000));
        c.read(u64::MAX, &mut b);
        c.write(u64::MAX, &b);
        c.read(254, &mut b);
        assert_eq!(b[2..], [0xff, 0xff]);
        c.read(0x34, &mut b);
        assert_eq!(b[0], 0, "no capabilities");
    }

    #[test]
    fn capabilities_form_a_list() {
        let mut c = ConfigSpace::new(&crate::nic::identity(crate::params::Interface::I82599));
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
}
