//! The serial EEPROM behind EECD: Microwire, 64 words, bit by bit, as both drivers read it.

const CLOCK: u32 = 1;
const SELECT: u32 = 2;
const DATA_IN: u32 = 4;
const DATA_OUT: u32 = 8;
const GRANT: u32 = 0x80;
const PRESENT: u32 = 0x100;
const WRITABLE: u32 = 0x77;
const READ_OPCODE: u32 = 0b110;
/// Start bit, two opcode bits, six address bits.
const COMMAND_BITS: u32 = 9;
const CHECKSUM: u16 = 0xbaba;

/// EEPROM and the state of its interface.
pub struct Eeprom {
    words: [u16; 64],
    control: u32,
    shifted: u32,
    bits: u32,
    position: u32,
    reading: bool,
}

impl Eeprom {
    /// With a MAC address and a valid checksum.
    #[must_use]
    pub fn new(mac: [u8; 6]) -> Self {
        let mut words = [0u16; 64];
        for (w, pair) in words.iter_mut().zip(mac.chunks(2)) {
            *w = u16::from_le_bytes([pair[0], pair[1]]);
        }
        words[0x0a] = 0x6403;
        words[0x0b] = 0x001e;
        words[0x0c] = 0x8086;
        words[0x0d] = 0x100e;
        words[0x0e] = 0x8086;
        let sum = words.iter().fold(0u16, |a, &w| a.wrapping_add(w));
        words[0x3f] = CHECKSUM.wrapping_sub(sum);
        Self { words, control: 0, shifted: 0, bits: 0, position: 0, reading: false }
    }

    /// Reads EECD.
    #[must_use]
    pub fn read(&self) -> u32 {
        let bit = if self.reading {
            let word = self.words[(self.position >> 4) as usize % 64];
            word >> (15 - (self.position & 15)) & 1 != 0
        } else {
            true
        };
        self.control | GRANT | PRESENT | if bit { DATA_OUT } else { 0 }
    }

    /// Writes EECD.
    pub fn write(&mut self, value: u32) {
        let old = self.control;
        self.control = value & WRITABLE;
        if value & SELECT == 0 {
            return;
        }
        if old & SELECT == 0 {
            self.shifted = 0;
            self.bits = 0;
            self.reading = false;
        }
        let (was, is) = (old & CLOCK != 0, value & CLOCK != 0);
        if was && !is {
            self.position = self.position.wrapping_add(1);
        }
        if is && !was && old & SELECT != 0 {
            self.shifted = self.shifted << 1 | u32::from(value & DATA_IN != 0);
            self.bits = self.bits.saturating_add(1);
            if self.bits == COMMAND_BITS && !self.reading {
                self.position = ((self.shifted & 0x3f) << 4).wrapping_sub(1);
                self.reading = self.shifted >> 6 & 7 == READ_OPCODE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a word the way drivers do.
    fn read_word(e: &mut Eeprom, address: u32) -> u16 {
        e.write(0);
        e.write(SELECT);
        let command = READ_OPCODE << 6 | address;
        for bit in (0..9).rev() {
            let data = if command >> bit & 1 != 0 { DATA_IN } else { 0 };
            e.write(SELECT | data);
            e.write(SELECT | data | CLOCK);
            e.write(SELECT | data);
        }
        let mut word = 0u16;
        for _ in 0..16 {
            e.write(SELECT | CLOCK);
            word = word << 1 | u16::from(e.read() & DATA_OUT != 0);
            e.write(SELECT);
        }
        word
    }

    #[test]
    fn mac_and_checksum() {
        let mut e = Eeprom::new([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        let words: Vec<u16> = (0..64).map(|a| read_word(&mut e, a)).collect();
        assert_eq!(words[..3], [0x5452, 0x1200, 0x5634]);
        assert_eq!(words.iter().fold(0u16, |a, &w| a.wrapping_add(w)), CHECKSUM);
    }
}
