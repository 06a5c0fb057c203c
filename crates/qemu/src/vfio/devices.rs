//! The two devices of a guest: the NIC, and a page through which guest programs and the engine talk.

use super::PciDevice;
use crate::memory::{GuestRam, SharedPages};
use std::os::fd::OwnedFd;
use wiretime_hw::nic::e1000::{BAR_SIZE, SHARED};
use wiretime_hw::nic::Port;
use wiretime_hw::pci::{Bar, ConfigSpace};

const INTEL: u16 = 0x8086;
const I82540EM: u16 = 0x100e;
const ETHERNET: u32 = 0x02_0000;

/// The NIC as a PCI function.
pub struct NicDevice {
    config: ConfigSpace,
    pub port: Port<SharedPages>,
    pub ram: GuestRam,
    mapped: bool,
    /// Trapped writes of tail registers.
    pub trapped_doorbells: u64,
}

impl NicDevice {
    /// The port behind PCI; `mapped`: whether the ring registers are offered as memory.
    pub fn new(port: Port<SharedPages>, mapped: bool) -> Self {
        let config = ConfigSpace::new(INTEL, I82540EM, ETHERNET, 3, Bar { size: BAR_SIZE }, true);
        Self { config, port, ram: GuestRam::default(), mapped, trapped_doorbells: 0 }
    }

    /// Where BAR0 stands.
    pub fn bar_address(&self) -> Option<u64> {
        self.config.bar_address()
    }

    /// Level of the interrupt pin; also shown in the status register.
    pub fn interrupt(&mut self) -> bool {
        let level = self.port.registers.interrupt();
        self.config.set_interrupt_status(level);
        level
    }
}

impl PciDevice for NicDevice {
    fn config(&mut self) -> &mut ConfigSpace {
        // The status bit is read by interrupt handlers: keep it current.
        let level = self.port.registers.interrupt();
        self.config.set_interrupt_status(level);
        &mut self.config
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) {
        self.port.registers.read_bytes(offset, data);
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let before = self.port.trapped_tails.len();
        self.port.write_bytes(offset, data);
        self.trapped_doorbells += (self.port.trapped_tails.len() - before) as u64;
    }

    fn reset(&mut self) {
        self.port.write_register(0, 1 << 26);
    }

    fn mapped(&self) -> Option<(u64, u64, &OwnedFd)> {
        self.mapped.then_some((SHARED.start, SHARED.end - SHARED.start, &self.port.registers.shared.fd))
    }

    fn map_memory(&mut self, address: u64, size: u64, fd: OwnedFd, offset: u64) {
        self.ram.map(address, size, &fd, offset);
    }
}

/// What the guest sees of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum GuestPhase {
    /// Boot, or the application runs.
    #[default]
    Run = 0,
    /// The application shall end.
    Stop = 1,
}

/// The control page: words at fixed offsets of BAR0.
///
/// | offset | write | read |
/// |---|---|---|
/// | 0x0 | mark N | last mark |
/// | 0x4 | - | phase: 0 run, 1 stop |
/// | 0x8 | exit status of the application, plus 1 | 0 |
/// | 0xc | a figure that the application reports | 0 |
pub struct ControlDevice {
    config: ConfigSpace,
    pub mark: u32,
    pub phase: GuestPhase,
    pub exit: Option<u32>,
    pub figures: Vec<u32>,
}

/// The vendor ID of QEMU's own devices, and a device ID that it does not use: "wt".
const CONTROL_VENDOR: u16 = 0x1234;
const CONTROL_DEVICE: u16 = 0x7774;
const UNCLASSIFIED: u32 = 0xff_0000;
const CONTROL_SIZE: u64 = 4096;
const FIGURES_MAX: usize = 65_536;

impl Default for ControlDevice {
    fn default() -> Self {
        let config =
            ConfigSpace::new(CONTROL_VENDOR, CONTROL_DEVICE, UNCLASSIFIED, 1, Bar { size: CONTROL_SIZE }, false);
        Self { config, mark: 0, phase: GuestPhase::Run, exit: None, figures: Vec::new() }
    }
}

impl PciDevice for ControlDevice {
    fn config(&mut self) -> &mut ConfigSpace {
        &mut self.config
    }
    fn read(&mut self, offset: u64, data: &mut [u8]) {
        let word = match offset {
            0 => self.mark,
            4 => self.phase as u32,
            _ => 0,
        };
        data.fill(0);
        for (d, b) in data.iter_mut().zip(word.to_le_bytes()) {
            *d = b;
        }
    }
    fn write(&mut self, offset: u64, data: &[u8]) {
        let mut word = [0; 4];
        for (w, d) in word.iter_mut().zip(data) {
            *w = *d;
        }
        let word = u32::from_le_bytes(word);
        match offset {
            0 => self.mark = word,
            8 => self.exit = word.checked_sub(1),
            12 if self.figures.len() < FIGURES_MAX => self.figures.push(word),
            _ => {}
        }
    }
    fn reset(&mut self) {}
}
