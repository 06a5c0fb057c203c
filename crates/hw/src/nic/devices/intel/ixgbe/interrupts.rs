//! Interrupt causes, masks, auto-clear and auto-mask (data sheet, sections 7.3 and 8.2.3.5).
//!
//! Left out: low-latency interrupts, the TCP timer, virtual-function vectors.

use wiretime_base::Ps;

pub const EICR: u64 = 0x800;
pub const EICS: u64 = 0x808;
pub const EIAC: u64 = 0x810;
pub const EIMS: u64 = 0x880;
pub const EIMC: u64 = 0x888;
pub const EIAM: u64 = 0x890;
pub const GPIE: u64 = 0x898;
pub const IVAR: u64 = 0x900;
pub const IVAR_MISC: u64 = 0xa00;
pub const EICS_EX: u64 = 0xa90;
pub const EIMS_EX: u64 = 0xaa0;
pub const EIMC_EX: u64 = 0xab0;
pub const EIAM_EX: u64 = 0xad0;

/// Unit of EITR's interval at 10 Gb/s.
pub const EITR_UNIT: Ps = Ps::from_ns(2048);
/// Stands for the vector of causes that are no queue's.
pub const OTHER: u8 = 0xff;
/// Cause: a packet was missed.
pub const RX_MISS: u32 = 1 << 17;

const GPIE_MSIX: u32 = 1 << 4;
const GPIE_OCD: u32 = 1 << 5;
const GPIE_EIAME: u32 = 1 << 30;
/// Bits of EICR that are queues'.
const QUEUES: u32 = 0xffff;
const CLEARED_BY_OCD: u32 = 0x3fff_0000;

/// Where the throttle of a vector is.
pub fn eitr(vector: u8) -> u64 {
    match u64::from(vector) {
        v @ 0..24 => 0x820 + 4 * v,
        v => 0x1_2300 + 4 * (v - 24),
    }
}

/// Whether these registers are kept here.
pub fn is_register(offset: u64) -> bool {
    matches!(offset, EICR | EICS | EIAC | EIMS | EIMC | EIAM | GPIE)
        || [EICS_EX, EIMS_EX, EIMC_EX, EIAM_EX].iter().any(|&first| offset == first || offset == first + 4)
}

/// The state.
#[derive(Default)]
pub struct Interrupts {
    /// Causes: queues' vectors 0 to 15 and others.
    eicr: u32,
    /// Vectors whose cause has not been told.
    pending: u64,
    /// Masks: vectors, and causes that are no queue's.
    mask: u64,
    mask_other: u32,
    auto_clear: u32,
    auto_mask: u32,
    auto_mask_vectors: u64,
    gpie: u32,
    messages: u64,
}

impl Interrupts {
    fn msix(&self) -> bool {
        self.gpie & GPIE_MSIX != 0
    }

    /// Causes of a vector, or of none ([`OTHER`]); `misc` is IVAR_MISC.
    pub fn raise(&mut self, vector: u8, causes: u32, misc: u32) {
        if vector == OTHER {
            let new = causes & !QUEUES & !self.eicr;
            self.eicr |= new;
            self.tell_other(new & self.mask_other, misc);
        } else {
            self.pending |= 1 << (vector & 63);
            if vector < 16 {
                self.eicr |= 1 << vector;
            }
        }
        self.deliver();
    }

    /// Sends the message of causes that are no queue's: when they come, or are unmasked.
    fn tell_other(&mut self, causes: u32, misc: u32) {
        let entry = misc >> 8;
        if self.msix() && causes != 0 && entry & 0x80 != 0 {
            self.messages |= 1 << (entry & 0x3f);
        }
    }

    /// Sends what is pending and not masked.
    fn deliver(&mut self) {
        if !self.msix() {
            return;
        }
        let due = self.pending & self.mask;
        self.messages |= due;
        self.pending &= !due;
        // Vectors beyond 15 are always cleared.
        self.eicr &= !(due as u32 & QUEUES & self.auto_clear);
        if self.gpie & GPIE_EIAME != 0 {
            self.mask &= !(due & self.auto_mask_vectors);
        }
    }

    fn eims(&self) -> u32 {
        self.mask as u32 & QUEUES | self.mask_other
    }

    /// Level of the pin.
    pub fn pin(&self) -> bool {
        !self.msix() && self.eicr & self.eims() != 0
    }

    /// Vectors whose message is due.
    pub fn take_messages(&mut self) -> u64 {
        std::mem::take(&mut self.messages)
    }

    pub fn read(&mut self, offset: u64) -> u32 {
        match offset {
            EICR => {
                let value = self.eicr;
                let cleared = if self.gpie & GPIE_OCD != 0 { CLEARED_BY_OCD } else { !0 };
                self.clear(cleared);
                self.auto_mask();
                value
            }
            EICS => self.eicr,
            EIMS => self.eims(),
            EIAC => self.auto_clear,
            EIAM => self.auto_mask,
            GPIE => self.gpie,
            EIMS_EX => self.mask as u32,
            _ if offset == EIMS_EX + 4 => (self.mask >> 32) as u32,
            EIAM_EX => self.auto_mask_vectors as u32,
            _ if offset == EIAM_EX + 4 => (self.auto_mask_vectors >> 32) as u32,
            _ => 0,
        }
    }

    /// Causes are acknowledged.
    fn clear(&mut self, causes: u32) {
        self.eicr &= !causes;
        self.pending &= !u64::from(causes & QUEUES);
    }

    /// Looking at the causes masks them, where that is wanted.
    fn auto_mask(&mut self) {
        if self.gpie & GPIE_EIAME == 0 {
            self.mask &= !u64::from(self.auto_mask & QUEUES);
            self.mask_other &= !(self.auto_mask & !QUEUES);
        }
    }

    pub fn write(&mut self, offset: u64, value: u32, misc: u32) {
        let low = u64::from(value);
        let high = low << 32;
        match offset {
            EICR => {
                self.clear(value);
                self.auto_mask();
            }
            EICS => {
                let new = value & !QUEUES & !self.eicr;
                self.eicr |= value;
                self.tell_other(new & self.mask_other, misc);
                self.pending |= u64::from(value & QUEUES);
                if self.gpie & GPIE_EIAME == 0 {
                    self.mask |= u64::from(value & self.auto_mask & QUEUES);
                    self.mask_other |= value & self.auto_mask & !QUEUES;
                }
            }
            EIMS => {
                self.mask |= u64::from(value & QUEUES);
                let unmasked = value & !QUEUES & !self.mask_other;
                self.mask_other |= unmasked;
                self.tell_other(unmasked & self.eicr, misc);
            }
            EIMC => {
                self.mask &= !u64::from(value & QUEUES);
                self.mask_other &= !(value & !QUEUES);
            }
            EIAC => self.auto_clear = value,
            EIAM => self.auto_mask = value,
            GPIE => self.gpie = value,
            EICS_EX => {
                self.pending |= low;
                self.eicr |= value & QUEUES;
            }
            EIMS_EX => self.mask |= low,
            EIMC_EX => self.mask &= !low,
            EIAM_EX => self.auto_mask_vectors = self.auto_mask_vectors & !0xffff_ffff | low,
            _ if offset == EICS_EX + 4 => self.pending |= high,
            _ if offset == EIMS_EX + 4 => self.mask |= high,
            _ if offset == EIMC_EX + 4 => self.mask &= !high,
            _ if offset == EIAM_EX + 4 => self.auto_mask_vectors = self.auto_mask_vectors & 0xffff_ffff | high,
            _ => {}
        }
        self.deliver();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel has it: MSI-X, auto-clear and auto-mask, the mask opened again at the end of a poll.
    #[test]
    fn messages_mask_themselves() {
        let mut i = Interrupts::default();
        i.write(GPIE, 0xc000_0036, 0);
        i.write(EIAM_EX, !0, 0);
        i.write(EIAC, 0x4000_ffff, 0);
        i.write(EIMS_EX, 0b11, 0);
        i.raise(1, 1, 0);
        assert_eq!((i.take_messages(), i.take_messages(), i.read(EICS)), (2, 0, 0));
        i.raise(1, 1, 0);
        assert_eq!(i.take_messages(), 0, "masked by itself");
        i.write(EIMS_EX, 0b10, 0);
        assert_eq!(i.take_messages(), 2, "what came meanwhile is told");
        i.write(EICS_EX, 0b1, 0);
        assert_eq!(i.take_messages(), 1, "software may ask for one");
        i.write(EIMS, RX_MISS, 0);
        i.raise(OTHER, RX_MISS, 0x8500);
        assert_eq!((i.take_messages(), i.read(EICR), i.read(EICR)), (1 << 5, RX_MISS, 0));
        i.raise(OTHER, RX_MISS, 0x8500);
        i.raise(OTHER, RX_MISS, 0x8500);
        assert_eq!((i.take_messages(), i.take_messages()), (1 << 5, 0), "once, until it is acknowledged");
        assert!(!i.pin());
        // What is acknowledged while it is masked is not told later.
        i.write(EIMC_EX, 1, 0);
        i.raise(0, 1, 0);
        i.write(EICR, 1, 0);
        i.write(EIMS_EX, 1, 0);
        assert_eq!(i.take_messages(), 0);
    }

    #[test]
    fn the_pin_follows_causes_and_mask() {
        let mut i = Interrupts::default();
        i.raise(3, 1, 0);
        assert!(!i.pin());
        i.write(EIMS, 8, 0);
        assert!(i.pin());
        assert_eq!((i.read(EICR), i.pin(), i.take_messages()), (8, false, 0));
    }
}
