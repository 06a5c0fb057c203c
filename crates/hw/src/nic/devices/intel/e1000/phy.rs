//! The PHY behind MDIC: a Marvell 88E1011 with its link always up unless powered down.

const READY: u32 = 1 << 28;
const ERROR: u32 = 1 << 30;
const POWER_DOWN: u16 = 1 << 11;
/// Reset and restart of auto-negotiation clear themselves.
const SELF_CLEARING: u16 = 1 << 15 | 1 << 9;
const ADDRESS: u32 = 1;

/// PHY registers.
pub struct Phy {
    registers: [u16; 32],
}

impl Default for Phy {
    fn default() -> Self {
        let mut registers = [0u16; 32];
        for (r, value) in [
            (0, 0x1140), // auto-negotiation, 1000 Mb/s, full duplex
            (1, 0x796d), // link up, auto-negotiation complete
            (2, 0x0141), // identifier: 88E1011
            (3, 0x0c20),
            (4, 0x0de1),
            (5, 0x41e0), // link partner: no pause frames
            (9, 0x0e00),
            (10, 0x3c00),
            (16, 0x0360),
            (17, 0xac00), // 1000 Mb/s, full duplex, resolved, link up
            (20, 0x0d60),
        ] {
            registers[r] = value;
        }
        Self { registers }
    }
}

impl Phy {
    /// Whether the link is up.
    #[must_use]
    pub fn link(&self) -> bool {
        self.registers[0] & POWER_DOWN == 0
    }

    /// Carries out what is written to MDIC; returns what MDIC then reads.
    pub fn command(&mut self, value: u32) -> u32 {
        let (register, phy) = ((value >> 16 & 31) as usize, value >> 21 & 31);
        let rest = value & !(READY | ERROR) & 0x3fff_0000;
        if phy != ADDRESS {
            return rest | READY | ERROR;
        }
        match value >> 26 & 3 {
            1 => {
                let mut data = value as u16;
                if register == 0 {
                    data &= !SELF_CLEARING;
                }
                if matches!(register, 0 | 4 | 9 | 16 | 20) {
                    self.registers[register] = data;
                }
                rest | READY | u32::from(data)
            }
            2 => {
                let mut data = self.registers[register];
                if !self.link() {
                    match register {
                        1 => data &= !0x24,
                        17 => data &= !0x400,
                        _ => {}
                    }
                }
                rest | READY | u32::from(data)
            }
            _ => rest | READY | ERROR,
        }
    }
}
