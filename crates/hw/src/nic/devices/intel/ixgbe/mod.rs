//! The 82599 register interface: an Intel 82599 on a backplane (8086:10f7, no SFP module to ask for), translating registers
//! to the NIC's function. After the 82599 10 GbE Controller data sheet, section 8, and what DPDK's `net_ixgbe` and the
//! kernel's `ixgbe` ask of it.
//!
//! The pages of the transmit queues are plain memory that guest and NIC share, so that their doorbells cost the guest a
//! store. The receive queues' page traps: it holds statistics that reading clears.
//!
//! Left out: VLAN filtering, flow director (accepted and ignored), virtualisation, DCB, RSC, MACsec,
//! IPsec, SCTP checksums, head write-back, flow control, power management. The per-queue packet counters of transmission
//! (QPTC) read 0: they are on a shared page. The link is up, whatever the line's rate, and says 10 Gb/s.

mod descriptors;
mod eeprom;
mod interrupts;
mod statistics;

use super::controller::{Acceptance, Action, Completion, Controller, InterruptCause, Steering, DESCRIPTOR};
use super::descriptors::{buffer, whole, TxDescriptor};
use crate::nic::blocks::checks::{self, L3, L4};
use crate::nic::blocks::fetcher::Thresholds;
use crate::nic::blocks::moderation::Delays;
use crate::nic::blocks::toeplitz::{Toeplitz, KEY};
use crate::nic::blocks::vlan;
use crate::nic::blocks::RingView;
use crate::nic::SharedRegisters;
use crate::requester::Side;
use eeprom::Eeprom;
use interrupts::Interrupts;
use wiretime_base::Ps;

/// Bytes of BAR0.
pub const BAR_SIZE: u64 = 0x2_0000;
/// The pages of BAR0 that guest and NIC share as memory.
pub const SHARED: std::ops::Range<u64> = 0x6000..0x8000;
/// MSI-X vectors.
pub const VECTORS: u16 = 64;
/// Queue pairs of the model; the 82599 has 128, of which RSS reaches 16.
pub const QUEUES: usize = 64;

/// Register offsets.
#[allow(missing_docs)] // the data sheet's names
pub mod reg {
    pub const CTRL: u64 = 0x0;
    pub const CTRL_ALIAS: u64 = 0x4;
    pub const STATUS: u64 = 0x8;
    pub const EERD: u64 = 0x1_0014;
    pub const EEC: u64 = 0x1_0010;
    pub const FWSM: u64 = 0x1_0148;
    pub const MSCA: u64 = 0x425c;
    pub const MSRWD: u64 = 0x4260;
    pub const AUTOC: u64 = 0x42a0;
    pub const LINKS: u64 = 0x42a4;
    pub const ANLP1: u64 = 0x42b0;
    pub const LINKS2: u64 = 0x4324;
    pub const HLREG0: u64 = 0x4240;
    pub const MAXFRS: u64 = 0x4268;
    pub const RXCTRL: u64 = 0x3000;
    pub const DMATXCTL: u64 = 0x4a80;
    pub const FCTRL: u64 = 0x5080;
    pub const MCSTCTRL: u64 = 0x5090;
    pub const MTA: u64 = 0x5200;
    pub const RAL0: u64 = 0x5400;
    pub const RAL16: u64 = 0xa280;
    pub const MRQC: u64 = 0x5818;
    pub const RETA: u64 = 0x5c00;
    pub const RSSRK: u64 = 0x5c80;
    pub const RDRXCTL: u64 = 0x2f00;
    pub const RXPBSIZE: u64 = 0x3c00;
    pub const VLNCTRL: u64 = 0x5088;
    pub const SECTXCTRL: u64 = 0x8800;
    pub const SECTXSTAT: u64 = 0x8804;
    pub const SECRXCTRL: u64 = 0x8d00;
    pub const SECRXSTAT: u64 = 0x8d04;
    pub const FDIRCTRL: u64 = 0xee00;
    pub const FDIRCMD: u64 = 0xee2c;
    pub const HICR: u64 = 0x1_5f00;
    pub const RX_QUEUES: std::ops::Range<u64> = 0x1000..0x2000;
}

/// Registers of a queue, from its first.
const QUEUE_STRIDE: u64 = 0x40;
const BASE_HIGH: u64 = 0x4;
const LENGTH: u64 = 0x8;
const HEAD: u64 = 0x10;
const SRRCTL: u64 = 0x14;
const TAIL: u64 = 0x18;
const CONTROL: u64 = 0x28;

const CTRL_GIO_DISABLE: u32 = 1 << 2;
const CTRL_RESETS: u32 = 1 << 26 | 1 << 3;
const STATUS_GIO: u32 = 1 << 19;
const CONTROL_ENABLE: u32 = 1 << 25;
/// Of a receive queue: VLAN tags are taken off.
const RXDCTL_VME: u32 = 1 << 30;
const CONTROL_FLUSH: u32 = 1 << 26;
const SRRCTL_DROP: u32 = 1 << 28;
const ADDRESSES: u64 = 128;

/// What reads as this after a reset, and lets drivers go on: link up at 10 Gb/s (LMS: no auto-negotiation), EEPROM there,
/// firmware that manages nothing, neither IPsec nor MACsec, one packet buffer of 512 KiB.
const AFTER_RESET: [(u64, u32); 18] = [
    (reg::EEC, 0x4700),
    (reg::FWSM, 0x8000),
    (reg::AUTOC, 0x2280),
    (reg::LINKS, 0xf000_0000),
    (reg::LINKS2, 0x40),
    (reg::ANLP1, 0x1_0000),
    (reg::SECTXSTAT, 3),
    (reg::SECRXSTAT, 3),
    (reg::SECRXCTRL, 1),
    (reg::SECTXCTRL, 1),
    (reg::RDRXCTL, 8),
    (reg::RXPBSIZE, 0x8_0000),
    (reg::MAXFRS, 0x05ee_0000),
    (reg::HLREG0, 0x1_0c03),
    (reg::VLNCTRL, 0x8100),
    (reg::DMATXCTL, 0x8100_0000),
    (0x4a88, 0x0f76_0ff6),
    (0x4a8c, 0xf7f),
];

/// The register file.
pub struct Registers<S> {
    words: Vec<u32>,
    /// The shared pages.
    pub shared: S,
    eeprom: Eeprom,
    mac: [u8; 6],
    hash: Toeplitz,
    interrupts: Interrupts,
}

/// Registers that have two places.
fn canonical(offset: u64) -> u64 {
    match offset {
        0x2100..0x2140 => reg::RX_QUEUES.start + SRRCTL + (offset - 0x2100) / 4 * QUEUE_STRIDE,
        0x2200..0x2240 => reg::RX_QUEUES.start + 0xc + (offset - 0x2200) / 4 * QUEUE_STRIDE,
        0xa200..0xa280 => reg::RAL0 + (offset - 0xa200),
        0xeb00..0xeb80 => reg::RETA + (offset - 0xeb00),
        0xeb80..0xeba8 => reg::RSSRK + (offset - 0xeb80),
        0xec80 => reg::MRQC,
        reg::CTRL_ALIAS => reg::CTRL,
        _ => offset,
    }
}

impl<S: SharedRegisters> Registers<S> {
    /// At power-on, with this MAC address.
    #[must_use]
    pub fn new(mac: [u8; 6], shared: S) -> Self {
        let mut r = Self {
            words: vec![0; (BAR_SIZE / 4) as usize],
            shared,
            eeprom: Eeprom::new(),
            mac,
            hash: Toeplitz::new(&[0; KEY]),
            interrupts: Interrupts::default(),
        };
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

    /// Device reset (CTRL.RST): everything but the EEPROM.
    fn reset(&mut self) {
        self.words.fill(0);
        for offset in SHARED.step_by(4) {
            self.shared.store(offset, 0);
        }
        for (offset, value) in AFTER_RESET {
            self.put(offset, value);
        }
        let m = self.mac;
        self.put(reg::RAL0, u32::from_le_bytes([m[0], m[1], m[2], m[3]]));
        self.put(reg::RAL0 + 4, u32::from(m[4]) | u32::from(m[5]) << 8 | 1 << 31);
        self.interrupts = Interrupts::default();
    }

    /// A register of a queue, wherever it is kept.
    fn queue_word(&self, side: Side, queue: u16, which: u64) -> u32 {
        let at = u64::from(queue) * QUEUE_STRIDE + which;
        match side {
            Side::Receive => self.word(reg::RX_QUEUES.start + at),
            Side::Transmit => self.shared.load(SHARED.start + at),
        }
    }
    fn put_queue_word(&mut self, side: Side, queue: u16, which: u64, value: u32) {
        let at = u64::from(queue) * QUEUE_STRIDE + which;
        match side {
            Side::Receive => self.put(reg::RX_QUEUES.start + at, value),
            Side::Transmit => self.shared.store(SHARED.start + at, value),
        }
    }

    fn load_key(&mut self) {
        let mut key = [0; KEY];
        for (i, bytes) in key.chunks_mut(4).enumerate() {
            bytes.copy_from_slice(&self.word(reg::RSSRK + 4 * i as u64).to_le_bytes());
        }
        self.hash = Toeplitz::new(&key);
    }

    fn exact_match(&self, destination: &[u8; 6]) -> bool {
        let mut wanted = [0; 8];
        wanted[..6].copy_from_slice(destination);
        let wanted = u64::from_le_bytes(wanted);
        (0..ADDRESSES).any(|i| {
            let at = if i < 16 { reg::RAL0 + 8 * i } else { reg::RAL16 + 8 * (i - 16) };
            let (low, high) = (self.word(at), self.word(at + 4));
            high & 1 << 31 != 0 && u64::from(low) | u64::from(high & 0xffff) << 32 == wanted
        })
    }
}

/// Which fields are hashed, by the bits of MRQC, and the hash type that the descriptor then shows.
fn hash_fields(mrqc: u32, layout: &checks::Layout) -> Option<(bool, u8)> {
    let on = |bit: u32| mrqc >> bit & 1 != 0;
    match (layout.l3, layout.l4) {
        (L3::V4, L4::Tcp) if on(16) => Some((true, 1)),
        (L3::V4, L4::Udp) if on(22) => Some((true, 7)),
        (L3::V4, _) if on(17) => Some((false, 2)),
        (L3::V6, L4::Tcp) if on(21) => Some((true, 3)),
        (L3::V6, L4::Udp) if on(23) => Some((true, 8)),
        (L3::V6, _) if on(20) => Some((false, 5)),
        _ => None,
    }
}

impl<S: SharedRegisters> Controller for Registers<S> {
    fn queues(&self) -> usize {
        QUEUES
    }
    fn tail_at(&self, offset: u64) -> Option<(Side, u16)> {
        let (side, at) = if reg::RX_QUEUES.contains(&offset) {
            (Side::Receive, offset - reg::RX_QUEUES.start)
        } else {
            (Side::Transmit, offset.checked_sub(SHARED.start)?)
        };
        let queue = at / QUEUE_STRIDE;
        (at % QUEUE_STRIDE == TAIL && queue < QUEUES as u64).then_some((side, queue as u16))
    }
    fn tail(&self, side: Side, queue: u16) -> u32 {
        self.queue_word(side, queue, TAIL) & 0xffff
    }
    fn set_tail(&mut self, side: Side, queue: u16, value: u32) {
        self.put_queue_word(side, queue, TAIL, value);
    }
    fn head(&self, side: Side, queue: u16) -> u32 {
        self.queue_word(side, queue, HEAD) & 0xffff
    }
    fn set_head(&mut self, side: Side, queue: u16, value: u32) {
        self.put_queue_word(side, queue, HEAD, value);
    }
    fn ring(&self, side: Side, queue: u16) -> RingView {
        let unit = match side {
            Side::Receive => self.receive_enabled(),
            Side::Transmit => self.word(reg::DMATXCTL) & 1 != 0,
        };
        let word = |which| self.queue_word(side, queue, which);
        RingView {
            enabled: unit && word(CONTROL) & CONTROL_ENABLE != 0,
            base: u64::from(word(0) & !0x7f) | u64::from(word(BASE_HIGH)) << 32,
            entries: (word(LENGTH) & 0xf_ff80) / DESCRIPTOR,
            size: DESCRIPTOR,
        }
    }
    fn thresholds(&self, side: Side, queue: u16) -> Thresholds {
        if side == Side::Receive {
            return Thresholds::default(); // the 82599 has none
        }
        let control = self.queue_word(side, queue, CONTROL);
        let field = |shift: u32| control >> shift & 0x7f;
        Thresholds { prefetch: field(0), host: field(8), write_back: field(16) }
    }

    fn receive_enabled(&self) -> bool {
        self.word(reg::RXCTRL) & 1 != 0
    }
    fn accepts(&self, destination: &[u8; 6], length: u32, tagged: bool) -> Acceptance {
        let longest = if self.word(reg::HLREG0) & 4 != 0 { self.word(reg::MAXFRS) >> 16 } else { 1518 };
        // A VLAN tag comes on top (data sheet, MAXFRS).
        if length > longest + vlan::bytes(tagged) {
            return Acceptance::TooLong;
        }
        let fctrl = self.word(reg::FCTRL);
        let on = |bit: u32| fctrl >> bit & 1 != 0;
        let multicast = destination[0] & 1 != 0;
        if *destination == [0xff; 6] && on(10) || multicast && on(8) || !multicast && on(9) {
            return Acceptance::Taken;
        }
        if self.exact_match(destination) {
            return Acceptance::Taken;
        }
        let filter = self.word(reg::MCSTCTRL);
        let shift = [4, 3, 2, 0][(filter & 3) as usize];
        let hash = (u32::from(destination[5]) << 8 | u32::from(destination[4])) >> shift & 0xfff;
        let listed =
            multicast && filter & 4 != 0 && self.word(reg::MTA + u64::from(hash >> 5) * 4) >> (hash & 31) & 1 != 0;
        Acceptance::ours(listed)
    }
    fn steer(&self, frame: &[u8]) -> Steering {
        let mrqc = self.word(reg::MRQC);
        if mrqc & 0xf != 1 {
            return Steering::default();
        }
        let layout = checks::layout(frame);
        let Some((ports, hash_type)) = hash_fields(mrqc, &layout) else { return Steering::default() };
        let addresses = layout.addresses();
        let mut input = [0; 36];
        let mut length = addresses.len();
        input[..length].copy_from_slice(&frame[addresses]);
        if ports {
            let Some(pair) = frame.get(layout.transport..layout.transport + 4) else { return Steering::default() };
            input[length..length + 4].copy_from_slice(pair);
            length += 4;
        }
        let hash = self.hash.hash(&input[..length]);
        let entry = hash & 0x7f;
        let queue = self.word(reg::RETA + u64::from(entry & !3)) >> (8 * (entry & 3)) & 0xf;
        Steering { queue: queue as u16, hash_type, hash }
    }
    fn buffer_size(&self, queue: u16) -> u32 {
        match self.queue_word(Side::Receive, queue, SRRCTL) & 0x1f {
            0 => 2048, // reserved
            k => k * 1024,
        }
    }
    fn drops_when_empty(&self, queue: u16) -> bool {
        self.queue_word(Side::Receive, queue, SRRCTL) & SRRCTL_DROP != 0
    }
    fn forgets_rings(&self) -> bool {
        true
    }
    fn strips_crc(&self) -> bool {
        self.word(reg::HLREG0) & 2 != 0
    }
    fn strips_tags(&self, queue: u16) -> bool {
        self.queue_word(Side::Receive, queue, CONTROL) & RXDCTL_VME != 0
    }
    fn wants_checks(&self) -> bool {
        true
    }
    fn write_back(&self, c: &Completion) -> [u8; DESCRIPTOR as usize] {
        descriptors::write_back(c)
    }
    fn receive_buffer(&self, d: &[u8]) -> u64 {
        buffer(d) & !1
    }

    fn transmit_descriptor(&self, d: &[u8]) -> TxDescriptor {
        descriptors::transmit(&whole(d))
    }
    fn pads(&self) -> bool {
        self.word(reg::HLREG0) & 1 << 10 != 0
    }

    fn count_seen(&mut self, length: u32) {
        statistics::seen(&mut self.words, length);
    }
    fn count_received(&mut self, queue: u16, destination: &[u8; 6], length: u32) {
        let stripped = if self.strips_crc() { length - 4 } else { length };
        statistics::received(&mut self.words, queue, destination, (length, stripped));
    }
    fn count_missed(&mut self, _queue: u16, _no_buffer: bool) {
        statistics::missed(&mut self.words);
    }
    fn count_queue_drop(&mut self, queue: u16) {
        statistics::queue_drop(&mut self.words, queue);
    }
    fn count_oversize(&mut self) {
        statistics::oversize(&mut self.words);
    }
    fn count_sent(&mut self, queue: u16, length: u32) {
        statistics::sent(&mut self.words, queue, length);
    }

    fn vector(&self, cause: InterruptCause) -> (u8, u32) {
        let entry = match cause {
            InterruptCause::Received(q) => self.word(interrupts::IVAR + u64::from(q / 2) * 4) >> (16 * (q % 2)),
            InterruptCause::Transmitted(q, _) => {
                self.word(interrupts::IVAR + u64::from(q / 2) * 4) >> (16 * (q % 2) + 8)
            }
            InterruptCause::Overrun => return (interrupts::OTHER, interrupts::RX_MISS),
            InterruptCause::FewDescriptors(_) => 0,
        };
        if entry & 0x80 == 0 {
            (0, 0)
        } else {
            ((entry & 0x3f) as u8, 1)
        }
    }
    fn few(&self, _entries: u32) -> u32 {
        0
    }
    fn delays(&self, _side: Side) -> Delays {
        Delays::default()
    }
    fn throttle(&self, vector: u8) -> Ps {
        u64::from(self.word(interrupts::eitr(vector)) >> 3 & 0x1ff) * interrupts::EITR_UNIT
    }
    fn raise(&mut self, vector: u8, causes: u32) {
        let misc = self.word(interrupts::IVAR_MISC);
        self.interrupts.raise(vector, causes, misc);
    }
    fn interrupt(&self) -> bool {
        self.interrupts.pin()
    }
    fn take_messages(&mut self) -> u64 {
        self.interrupts.take_messages()
    }

    fn read(&mut self, offset: u64) -> u32 {
        let offset = canonical(offset);
        match offset {
            _ if SHARED.contains(&offset) => self.shared.load(offset),
            reg::STATUS if self.word(reg::CTRL) & CTRL_GIO_DISABLE == 0 => STATUS_GIO,
            reg::STATUS => 0,
            _ if interrupts::is_register(offset) => self.interrupts.read(offset),
            _ if statistics::clears(offset) => statistics::read(&mut self.words, offset),
            _ => self.word(offset),
        }
    }

    fn write(&mut self, offset: u64, value: u32) -> Action {
        let offset = canonical(offset);
        if self.tail_at(offset).is_some() {
            return Action::Tail(offset, value);
        }
        let control = offset % QUEUE_STRIDE == CONTROL;
        match offset {
            _ if SHARED.contains(&offset) => {
                self.shared.store(offset, if control { value & !CONTROL_FLUSH } else { value });
                if control {
                    return Action::Switched(Side::Transmit);
                }
            }
            _ if reg::RX_QUEUES.contains(&offset) && offset % QUEUE_STRIDE == HEAD => {
                self.put(offset, value);
                return Action::Head(((offset - reg::RX_QUEUES.start) / QUEUE_STRIDE) as u16);
            }
            _ if reg::RX_QUEUES.contains(&offset) && control => {
                self.put(offset, value & !CONTROL_FLUSH);
                return Action::Switched(Side::Receive);
            }
            _ if reg::RX_QUEUES.contains(&offset) && offset % QUEUE_STRIDE == SRRCTL => {
                self.put(offset, value);
                return Action::Switched(Side::Receive);
            }
            reg::CTRL if value & CTRL_RESETS != 0 => {
                self.reset();
                return Action::Reset;
            }
            reg::RXCTRL => {
                self.load_key();
                self.put(offset, value);
                return Action::Switched(Side::Receive);
            }
            reg::DMATXCTL => {
                self.put(offset, value);
                return Action::Switched(Side::Transmit);
            }
            reg::STATUS | reg::LINKS | reg::LINKS2 | reg::ANLP1 | reg::SECTXSTAT | reg::SECRXSTAT | reg::FWSM => {}
            reg::SECRXCTRL | reg::SECTXCTRL => self.put(offset, value | 1),
            reg::EERD => self.put(offset, self.eeprom.read(value)),
            reg::MSCA => {
                // No PHY answers.
                self.put(offset, value & !(1 << 30));
                self.put(reg::MSRWD, 0);
            }
            reg::AUTOC => self.put(offset, value & !(1 << 12)),
            reg::FDIRCTRL => self.put(offset, value | 8),
            reg::FDIRCMD => self.put(offset, value & !3),
            reg::HICR => {}
            _ if interrupts::is_register(offset) => {
                let misc = self.word(interrupts::IVAR_MISC);
                self.interrupts.write(offset, value, misc);
            }
            _ if statistics::clears(offset) => {}
            _ => {
                self.put(offset, value);
                if (reg::RSSRK..reg::RSSRK + KEY as u64).contains(&offset) && self.receive_enabled() {
                    self.load_key();
                }
            }
        }
        Action::None
    }

    fn reset_function(&mut self) -> Action {
        self.write(reg::CTRL, 1 << 26)
    }
}

#[cfg(test)]
mod tests;
