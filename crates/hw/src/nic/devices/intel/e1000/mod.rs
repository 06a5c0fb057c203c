//! The 8254x register interface: an Intel 82540EM (8086:100e), translating registers to the NIC's function.
//!
//! Complete for DPDK's `net_e1000_em` and, but for its reset through an I/O BAR, for the kernel's `e1000`. After the Software
//! Developer's Manual, section 13.
//! Registers of pages 0x2000 and 0x3000 (the rings) are plain memory that guest and NIC share, so that doorbells cost
//! the guest a store; all others trap.
//!
//! Left out: filtering of VLANs, wake-up, flow control, half duplex, TBI; the I/O BAR, so that the kernel's resets, which go by it
//! on this part, do nothing: it switches receiver and transmitter off and sets all up again.

pub mod descriptors;
mod eeprom;
mod phy;
mod statistics;

use super::controller::{Acceptance, Action, Completion, Controller, InterruptCause, Steering, DESCRIPTOR};
use super::descriptors::{buffer, whole, TxDescriptor};
use crate::nic::blocks::fetcher::Thresholds;
use crate::nic::blocks::moderation::Delays;
use crate::nic::blocks::RingView;
use crate::nic::SharedRegisters;
use crate::requester::Side;
use eeprom::Eeprom;
use phy::Phy;
use statistics::Statistics;
use wiretime_base::Ps;

/// Bytes of BAR0.
pub const BAR_SIZE: u64 = 0x2_0000;
/// Queues of a direction.
pub const QUEUES: usize = 1;
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
    pub const RXCSUM: u64 = 0x5000;
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

/// VLAN tags are taken off and put in.
const CTRL_VME: u32 = 1 << 30;
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
    statistics: Statistics,
}

const PLAIN_END: u64 = 0x6000;
/// From a ring's first register.
const HEAD: u64 = 0x10;
const TAIL: u64 = 0x18;
const CONTROL: u64 = 0x28;
const DESCRIPTORS_A_LINE: u32 = 4;
/// RXCSUM: IP and TCP/UDP checksums.
const RXCSUM_OFFLOADS: u32 = 0x300;
/// Unit of the packet and absolute timers: 1.024 us.
const TIMER_UNIT: Ps = Ps::from_ns(1024);
/// Unit of ITR.
const THROTTLE_UNIT: Ps = Ps::from_ns(256);

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

    fn transmit_enabled(&self) -> bool {
        self.word(reg::TCTL) & TCTL_EN != 0
    }

    /// First register of a ring.
    fn ring_registers(side: Side) -> u64 {
        match side {
            Side::Receive => reg::RDBAL,
            Side::Transmit => reg::TDBAL,
        }
    }
}

impl<S: SharedRegisters> Controller for Registers<S> {
    fn queues(&self) -> usize {
        1
    }
    fn tail_at(&self, offset: u64) -> Option<(Side, u16)> {
        match offset {
            reg::RDT => Some((Side::Receive, 0)),
            reg::TDT => Some((Side::Transmit, 0)),
            _ => None,
        }
    }
    fn tail(&self, side: Side, _queue: u16) -> u32 {
        self.shared.load(Self::ring_registers(side) + TAIL) & 0xffff
    }
    fn set_tail(&mut self, side: Side, _queue: u16, value: u32) {
        self.shared.store(Self::ring_registers(side) + TAIL, value);
    }
    fn head(&self, side: Side, _queue: u16) -> u32 {
        self.shared.load(Self::ring_registers(side) + HEAD)
    }
    fn set_head(&mut self, side: Side, _queue: u16, value: u32) {
        self.shared.store(Self::ring_registers(side) + HEAD, value);
    }
    fn ring(&self, side: Side, _queue: u16) -> RingView {
        let first = Self::ring_registers(side);
        RingView {
            enabled: if side == Side::Receive { self.receive_enabled() } else { self.transmit_enabled() },
            base: u64::from(self.shared.load(first) & !0xf) | u64::from(self.shared.load(first + 4)) << 32,
            entries: (self.shared.load(first + 8) & 0xf_ff80) / DESCRIPTOR,
            size: DESCRIPTOR,
        }
    }
    fn thresholds(&self, side: Side, _queue: u16) -> Thresholds {
        let control = self.shared.load(Self::ring_registers(side) + CONTROL);
        // In cache lines unless GRAN says descriptors.
        let unit = if control & 1 << 24 == 0 { DESCRIPTORS_A_LINE } else { 1 };
        let field = |shift: u32| (control >> shift & 0x3f) * unit;
        Thresholds { prefetch: field(0), host: field(8), write_back: field(16) }
    }

    fn receive_enabled(&self) -> bool {
        self.word(reg::RCTL) & RCTL_EN != 0
    }
    fn accepts(&self, destination: &[u8; 6], length: u32, _tagged: bool) -> Acceptance {
        let rctl = self.word(reg::RCTL);
        let on = |bit: u32| rctl & 1 << bit != 0;
        let longest = if on(5) { FRAME_MAX_LONG } else { FRAME_MAX };
        if length > longest && !on(2) {
            return Acceptance::TooLong;
        }
        let multicast = destination[0] & 1 != 0;
        if *destination == [0xff; 6] && on(15) || multicast && on(4) || !multicast && on(3) {
            return Acceptance::Taken;
        }
        for i in 0..16 {
            let (low, high) = (self.word(reg::RAL0 + 8 * i), self.word(reg::RAH0 + 8 * i));
            let address = u64::from(low) | u64::from(high & 0xffff) << 32;
            let mut wanted = [0; 8];
            wanted[..6].copy_from_slice(destination);
            if high & 1 << 31 != 0 && address == u64::from_le_bytes(wanted) {
                return Acceptance::Taken;
            }
        }
        let shift = [4, 3, 2, 0][(rctl >> 12 & 3) as usize];
        let hash = (u32::from(destination[5]) << 8 | u32::from(destination[4])) >> shift & 0xfff;
        let listed = multicast && self.word(reg::MTA + u64::from(hash >> 5) * 4) >> (hash & 31) & 1 != 0;
        Acceptance::ours(listed)
    }
    fn steer(&self, _frame: &[u8]) -> Steering {
        Steering::default()
    }
    fn buffer_size(&self, _queue: u16) -> u32 {
        let rctl = self.word(reg::RCTL);
        let code = rctl >> 16 & 3;
        match (rctl & 1 << 25 != 0, code) {
            (false, code) => 2048 >> code,
            (true, 0) => 2048, // reserved
            (true, code) => 32768 >> code,
        }
    }
    fn drops_when_empty(&self, _queue: u16) -> bool {
        false
    }
    fn forgets_rings(&self) -> bool {
        false
    }
    fn strips_crc(&self) -> bool {
        self.word(reg::RCTL) & 1 << 26 != 0
    }
    fn strips_tags(&self, _queue: u16) -> bool {
        self.word(reg::CTRL) & CTRL_VME != 0
    }
    fn wants_checks(&self) -> bool {
        self.word(reg::RXCSUM) & RXCSUM_OFFLOADS != 0
    }
    fn write_back(&self, c: &Completion) -> [u8; DESCRIPTOR as usize] {
        descriptors::write_back(c, self.wants_checks())
    }
    fn receive_buffer(&self, d: &[u8]) -> u64 {
        buffer(d)
    }

    fn transmit_descriptor(&self, d: &[u8]) -> TxDescriptor {
        descriptors::transmit(&whole(d), self.word(reg::CTRL) & CTRL_VME != 0)
    }
    fn pads(&self) -> bool {
        self.word(reg::TCTL) & TCTL_PSP != 0
    }

    fn count_seen(&mut self, length: u32) {
        self.statistics.seen(length);
    }
    fn count_received(&mut self, _queue: u16, destination: &[u8; 6], length: u32) {
        self.statistics.received(destination, length);
    }
    fn count_missed(&mut self, _queue: u16, no_buffer: bool) {
        self.statistics.missed(no_buffer);
    }
    fn count_queue_drop(&mut self, _queue: u16) {}
    fn count_oversize(&mut self) {
        self.statistics.oversize();
    }
    fn count_sent(&mut self, _queue: u16, length: u32) {
        self.statistics.sent(length);
    }

    fn vector(&self, cause: InterruptCause) -> (u8, u32) {
        let causes = match cause {
            InterruptCause::Received(_) => cause::RXT0,
            InterruptCause::FewDescriptors(_) => cause::RXDMT0,
            InterruptCause::Transmitted(_, empty) => cause::TXDW | if empty { cause::TXQE } else { 0 },
            InterruptCause::Overrun => cause::RXO,
        };
        (0, causes)
    }
    /// A half, a quarter or an eighth, as RCTL.RDMTS says.
    fn few(&self, entries: u32) -> u32 {
        entries >> (1 + (self.word(reg::RCTL) >> 8 & 3).min(2))
    }
    fn delays(&self, side: Side) -> Delays {
        let (packet, absolute) = if side == Side::Transmit { (reg::TIDV, reg::TADV) } else { (reg::RDTR, reg::RADV) };
        let timer = |register| u64::from(self.shared.load(register) & 0xffff) * TIMER_UNIT;
        Delays { packet: timer(packet), absolute: timer(absolute) }
    }
    fn throttle(&self, _vector: u8) -> Ps {
        u64::from(self.word(reg::ITR) & 0xffff) * THROTTLE_UNIT
    }
    fn raise(&mut self, _vector: u8, causes: u32) {
        self.icr |= causes;
    }
    fn interrupt(&self) -> bool {
        self.icr & self.ims != 0
    }
    fn take_messages(&mut self) -> u64 {
        0
    }

    fn read(&mut self, offset: u64) -> u32 {
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
    fn write(&mut self, offset: u64, value: u32) -> Action {
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
                return Action::Switched(if offset == reg::RCTL { Side::Receive } else { Side::Transmit });
            }
            _ if reg::STATISTICS.contains(&offset) => {}
            _ => self.put(offset, value),
        }
        Action::None
    }
    fn reset_function(&mut self) -> Action {
        self.write(reg::CTRL, CTRL_RST)
    }
}
