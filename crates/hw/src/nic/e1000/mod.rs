//! The 8254x register interface: an Intel 82540EM (8086:100e), translating registers to the NIC's function.
//!
//! Complete for DPDK's `net_e1000_em` and for the kernel's `e1000`. After the Software Developer's Manual, section 13.
//! Registers of pages 0x2000 and 0x3000 (the rings) are plain memory that guest and NIC share, so that doorbells cost
//! the guest a store; all others trap.
//!
//! Left out: VLAN filtering and stripping, wake-up, flow control, half duplex, TBI. Interrupt delays (RDTR, RADV,
//! TIDV, TADV, ITR) are stored and not obeyed: interrupts are raised at once.

pub mod descriptors;
mod eeprom;
pub mod offload;
mod phy;
mod statistics;

use super::moderation::Delays;
use eeprom::Eeprom;
use phy::Phy;
pub use statistics::Statistics;

/// Bytes of BAR0.
pub const BAR_SIZE: u64 = 0x2_0000;
/// The pages of BAR0 that guest and NIC share as memory.
pub const SHARED: std::ops::Range<u64> = 0x2000..0x4000;

/// Register offsets.
#[allow(missing_docs)] // the manual's names
pub mod reg {
    pub const CTRL: u64 = 0x0;
    pub const STATUS: u64 = 0x8;
    pub const EECD: u64 = 0x10;
    pub const MDIC: u64 = 0x20;
    pub const ICR: u64 = 0xc0;
    pub const ITR: u64 = 0xc4;
    pub const ICS: u64 = 0xc8;
    pub const IMS: u64 = 0xd0;
    pub const IMC: u64 = 0xd8;
    pub const RCTL: u64 = 0x100;
    pub const TCTL: u64 = 0x400;
    pub const PBA: u64 = 0x1000;
    pub const RDBAL: u64 = 0x2800;
    pub const RDBAH: u64 = 0x2804;
    pub const RDLEN: u64 = 0x2808;
    pub const RDH: u64 = 0x2810;
    pub const RDT: u64 = 0x2818;
    pub const RDTR: u64 = 0x2820;
    pub const RADV: u64 = 0x282c;
    pub const TIDV: u64 = 0x3820;
    pub const TADV: u64 = 0x382c;
    pub const TDBAL: u64 = 0x3800;
    pub const TDBAH: u64 = 0x3804;
    pub const TDLEN: u64 = 0x3808;
    pub const TDH: u64 = 0x3810;
    pub const TDT: u64 = 0x3818;
    pub const STATISTICS: std::ops::Range<u64> = 0x4000..0x4100;
    pub const RAL0: u64 = 0x5400;
    pub const RAH0: u64 = 0x5404;
    pub const MTA: u64 = 0x5200;
}

/// Interrupt causes.
#[allow(missing_docs)] // the manual's names
pub mod cause {
    pub const TXDW: u32 = 1;
    pub const TXQE: u32 = 2;
    pub const LSC: u32 = 4;
    pub const RXDMT0: u32 = 1 << 4;
    pub const RXO: u32 = 1 << 6;
    pub const RXT0: u32 = 1 << 7;
    pub const MDAC: u32 = 1 << 9;
}

const CTRL_RST: u32 = 1 << 26;
const CTRL_PHY_RST: u32 = 1 << 31;
const CTRL_DEFAULT: u32 = 0x0014_0240;
const STATUS_VALUE: u32 = 0x8008_0781;
const STATUS_LINK: u32 = 2;
const RCTL_EN: u32 = 2;
const TCTL_EN: u32 = 2;
const TCTL_PSP: u32 = 8;
const FRAME_MAX: u32 = 1522;
const FRAME_MAX_LONG: u32 = 16384;

/// The memory behind the shared pages.
pub trait SharedRegisters {
    /// Reads the word at `offset` of BAR0, inside [`SHARED`].
    fn load(&self, offset: u64) -> u32;
    /// Writes it.
    fn store(&self, offset: u64, value: u32);
}

/// What a register write asks of the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing beyond the register.
    None,
    /// Stop all DMA and forget the rings.
    Reset,
    /// The receive or transmit unit was switched.
    Enable,
    /// A tail register, trapped: to be seen at its own time.
    Tail(u64, u32),
}

/// The register file.
pub struct Registers<S> {
    words: Vec<u32>,
    /// The shared pages.
    pub shared: S,
    eeprom: Eeprom,
    phy: Phy,
    mac: [u8; 6],
    icr: u32,
    ims: u32,
    /// Statistics registers.
    pub statistics: Statistics,
    /// Accesses that hardware would not define: odd sizes, offsets outside.
    pub odd_accesses: u64,
}

const PLAIN_END: u64 = 0x6000;

impl<S: SharedRegisters> Registers<S> {
    /// At power-on, with this MAC address.
    #[must_use]
    pub fn new(mac: [u8; 6], shared: S) -> Self {
        let mut r = Self {
            words: vec![0; (PLAIN_END / 4) as usize],
            shared,
            eeprom: Eeprom::new(mac),
            phy: Phy::default(),
            mac,
            icr: 0,
            ims: 0,
            statistics: Statistics::default(),
            odd_accesses: 0,
        };
        r.put(reg::PBA, 0x0010_0030);
        r.put(0xe00, 0x602);
        r.put(0x5820, 0x0022_2300);
        r.reset();
        r
    }

    fn word(&self, offset: u64) -> u32 {
        self.words.get((offset / 4) as usize).copied().unwrap_or(0)
    }
    fn put(&mut self, offset: u64, value: u32) {
        if let Some(w) = self.words.get_mut((offset / 4) as usize) {
            *w = value;
        }
    }

    /// Device reset (CTRL.RST). The packet buffer allocation survives, as drivers expect; so does the PHY.
    pub fn reset(&mut self) {
        self.put(reg::CTRL, CTRL_DEFAULT);
        for r in [reg::RCTL, reg::TCTL] {
            self.put(r, 0);
        }
        self.icr = 0;
        self.ims = 0;
        for r in [reg::RDH, reg::RDT, reg::TDH, reg::TDT] {
            self.shared.store(r, 0);
        }
        let m = self.mac;
        self.put(reg::RAL0, u32::from_le_bytes([m[0], m[1], m[2], m[3]]));
        self.put(reg::RAH0, u32::from(m[4]) | u32::from(m[5]) << 8 | 1 << 31);
    }

    /// The guest reads a word.
    pub fn read(&mut self, offset: u64) -> u32 {
        match offset {
            _ if SHARED.contains(&offset) => self.shared.load(offset),
            reg::STATUS => STATUS_VALUE | if self.phy.link() { STATUS_LINK } else { 0 },
            reg::EECD => self.eeprom.read(),
            reg::ICR => std::mem::take(&mut self.icr),
            reg::ICS => self.icr,
            reg::IMS => self.ims,
            reg::IMC => 0,
            _ if reg::STATISTICS.contains(&offset) => self.statistics.read(offset),
            _ if offset < PLAIN_END => self.word(offset),
            _ => 0,
        }
    }

    /// The guest reads any number of bytes: registers are words, so an 8-byte access is two, a smaller one a part of one.
    pub fn read_bytes(&mut self, offset: u64, data: &mut [u8]) {
        self.note_odd(offset, data.len());
        let mut at = 0;
        while at < data.len() {
            let position = offset.wrapping_add(at as u64);
            let word = self.read(position & !3).to_le_bytes();
            let skip = (position & 3) as usize;
            let n = (4 - skip).min(data.len() - at);
            data[at..at + n].copy_from_slice(&word[skip..skip + n]);
            at += n;
        }
    }

    /// Counts accesses that are not of whole words; returns whether this one is.
    pub(crate) fn note_odd(&mut self, offset: u64, length: usize) -> bool {
        let odd = offset % 4 != 0 || length % 4 != 0;
        self.odd_accesses += u64::from(odd);
        odd
    }

    /// The guest writes a word.
    pub fn write(&mut self, offset: u64, value: u32) -> Action {
        match offset {
            reg::RDT | reg::TDT => return Action::Tail(offset, value),
            _ if SHARED.contains(&offset) => self.shared.store(offset, value),
            reg::CTRL if value & CTRL_RST != 0 => {
                self.reset();
                return Action::Reset;
            }
            reg::CTRL | 4 => self.put(reg::CTRL, value & !CTRL_PHY_RST),
            reg::STATUS => {}
            reg::EECD => self.eeprom.write(value),
            reg::MDIC => {
                let up = self.phy.link();
                let result = self.phy.command(value);
                self.put(reg::MDIC, result);
                if value & 1 << 29 != 0 {
                    self.icr |= cause::MDAC;
                }
                if self.phy.link() != up {
                    self.icr |= cause::LSC;
                }
            }
            reg::ICR => self.icr &= !value,
            reg::ICS => self.icr |= value,
            reg::IMS => self.ims |= value,
            reg::IMC => self.ims &= !value,
            reg::RCTL | reg::TCTL => {
                self.put(offset, value);
                return Action::Enable;
            }
            _ if reg::STATISTICS.contains(&offset) => {}
            _ => self.put(offset, value),
        }
        Action::None
    }

    /// Notes interrupt causes.
    pub fn raise(&mut self, causes: u32) {
        self.icr |= causes;
    }
    /// Packet and absolute timer of a direction.
    #[must_use]
    pub fn delays(&self, transmit: bool) -> Delays {
        let (packet, absolute) = if transmit { (reg::TIDV, reg::TADV) } else { (reg::RDTR, reg::RADV) };
        Delays { packet: self.shared.load(packet), absolute: self.shared.load(absolute) }
    }
    /// Least distance of interrupts, in units of 256 ns.
    #[must_use]
    pub fn throttle(&self) -> u32 {
        self.word(reg::ITR)
    }
    /// Whether the interrupt pin is asserted.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        self.icr & self.ims != 0
    }
    /// Whether the receive unit is on.
    #[must_use]
    pub fn receive_enabled(&self) -> bool {
        self.word(reg::RCTL) & RCTL_EN != 0
    }
    /// Whether the transmit unit is on.
    #[must_use]
    pub fn transmit_enabled(&self) -> bool {
        self.word(reg::TCTL) & TCTL_EN != 0
    }
    /// Whether short frames are padded to the minimum.
    #[must_use]
    pub fn pads(&self) -> bool {
        self.word(reg::TCTL) & TCTL_PSP != 0
    }
    /// Whether the FCS is stripped from received frames.
    #[must_use]
    pub fn strips_crc(&self) -> bool {
        self.word(reg::RCTL) & 1 << 26 != 0
    }
    /// Bytes of a receive buffer.
    #[must_use]
    pub fn receive_buffer(&self) -> u32 {
        let rctl = self.word(reg::RCTL);
        let code = rctl >> 16 & 3;
        match (rctl & 1 << 25 != 0, code) {
            (false, code) => 2048 >> code,
            (true, 0) => 2048, // reserved
            (true, code) => 32768 >> code,
        }
    }

    /// Base, number of descriptors and tail of the receive (or transmit) ring.
    #[must_use]
    pub fn ring(&self, transmit: bool) -> (u64, u32, u32) {
        let first = if transmit { reg::TDBAL } else { reg::RDBAL };
        let base = u64::from(self.shared.load(first) & !0xf) | u64::from(self.shared.load(first + 4)) << 32;
        let entries = (self.shared.load(first + 8) & 0xf_ff80) / descriptors::SIZE as u32;
        (base, entries, self.shared.load(first + 0x18) & 0xffff)
    }

    /// Whether a frame of `length` bytes (FCS included) to this destination is taken.
    #[must_use]
    pub fn accepts(&self, destination: &[u8; 6], length: u32) -> bool {
        let rctl = self.word(reg::RCTL);
        let on = |bit: u32| rctl & 1 << bit != 0;
        let longest = if on(5) { FRAME_MAX_LONG } else { FRAME_MAX };
        if length > longest && !on(2) {
            return false;
        }
        let multicast = destination[0] & 1 != 0;
        if *destination == [0xff; 6] && on(15) || multicast && on(4) || !multicast && on(3) {
            return true;
        }
        for i in 0..16 {
            let (low, high) = (self.word(reg::RAL0 + 8 * i), self.word(reg::RAH0 + 8 * i));
            let address = u64::from(low) | u64::from(high & 0xffff) << 32;
            let mut wanted = [0; 8];
            wanted[..6].copy_from_slice(destination);
            if high & 1 << 31 != 0 && address == u64::from_le_bytes(wanted) {
                return true;
            }
        }
        let shift = [4, 3, 2, 0][(rctl >> 12 & 3) as usize];
        let hash = (u32::from(destination[5]) << 8 | u32::from(destination[4])) >> shift & 0xfff;
        multicast && self.word(reg::MTA + u64::from(hash >> 5) * 4) >> (hash & 31) & 1 != 0
    }
}
