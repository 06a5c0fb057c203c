//! A PCI function's configuration space (PCI Local Bus Specification 3.0, section 6): type 0 header, one memory BAR,
//! INTA.
//!
//! Left out: capabilities, expansion ROM, bridges.

/// What BAR0 is.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// Size in bytes, a power of two.
    pub size: u64,
}

/// 256 bytes of configuration space and which bits the guest may write.
pub struct ConfigSpace {
    bytes: [u8; 256],
    writable: [u8; 256],
    /// BAR0.
    pub bar: Bar,
}

const COMMAND: usize = 4;
const STATUS: usize = 6;
const BAR0: usize = 0x10;
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;

impl ConfigSpace {
    /// A function with these identities. `class` is the 24-bit class code. `intx`: has interrupt pin INTA.
    pub fn new(vendor: u16, device: u16, class: u32, revision: u8, bar: Bar, intx: bool) -> Self {
        let mut s = Self { bytes: [0; 256], writable: [0; 256], bar };
        s.put16(0, vendor);
        s.put16(2, device);
        s.bytes[8] = revision;
        s.bytes[9..12].copy_from_slice(&class.to_le_bytes()[..3]);
        s.put16(0x2c, vendor);
        s.put16(0x2e, device);
        s.bytes[INTERRUPT_PIN] = u8::from(intx);
        // I/O, memory, bus master, parity, SERR, interrupt disable.
        s.writable[COMMAND] = 0x47;
        s.writable[COMMAND + 1] = 0x05;
        s.writable[0x0c] = 0xff; // cache line size
        s.writable[0x0d] = 0xff; // latency timer
        s.writable[INTERRUPT_LINE] = 0xff;
        s.writable[BAR0..BAR0 + 4].copy_from_slice(&(!(bar.size as u32 - 1)).to_le_bytes());
        s
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
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
        let mut c = ConfigSpace::new(0x8086, 0x100e, 0x02_0000, 3, Bar { size: 0x20000 }, true);
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
    }
}
