//! The NICs as PCI functions: one register interface and one server each, one set of books together.

use super::PciDevice;
use crate::control::{Role, RunSettings};
use crate::memory::{GuestRam, SharedPages};
use std::fs::File;
use std::os::fd::OwnedFd;
use wiretime_capture::Trace;
use wiretime_hw::nic::{identity, shared_pages, Controller, Model, Port, Shared};
use wiretime_hw::params::Platform;
use wiretime_hw::pci::ConfigSpace;
use wiretime_hw::wire::{Generator, Sink};

/// A device reset as the guest asks for it by a register.
const CTRL_RESET: u32 = 1 << 26;

/// One NIC.
pub struct NicDevice {
    config: ConfigSpace,
    pub port: Port<Model<SharedPages>>,
    pub ram: GuestRam,
    mapped: bool,
    /// Trapped writes of tail registers.
    pub trapped_doorbells: u64,
    /// MSI-X vectors to be notified, a bit each.
    messages: u64,
}

impl NicDevice {
    fn new(p: &Platform, index: usize, s: &RunSettings) -> Result<Self, String> {
        let interface = p.nic.interface;
        let mut mac = s.mac;
        mac[5] = mac[5].wrapping_add(index as u8);
        let registers = Model::new(interface, mac, SharedPages::new(shared_pages(interface))?);
        let generator = Generator::new(&s.load, index as u8, (p.link.rate, p.link.gap_bytes), mac)?;
        let mut port = Port::new(p, index, registers, generator, s.drop_classes);
        if let Some(path) = &s.trace_file {
            let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
            port.set_source(Box::new(Trace::new(file)));
        }
        Ok(Self {
            config: ConfigSpace::new(&identity(interface)),
            port,
            ram: GuestRam::default(),
            mapped: s.mapped_doorbells,
            trapped_doorbells: 0,
            messages: 0,
        })
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

    /// MSI-X vectors whose message is due, a bit each; they stay due until taken.
    pub fn messages(&mut self) -> u64 {
        self.messages |= self.port.registers.take_messages();
        self.messages
    }

    /// Takes them.
    pub fn take_messages(&mut self) -> u64 {
        self.messages();
        std::mem::take(&mut self.messages)
    }
}

/// All NICs of the machine.
pub struct Nics {
    pub devices: Vec<NicDevice>,
    /// What their ports share.
    pub shared: Shared,
}

impl Nics {
    /// As platform and run say.
    ///
    /// # Errors
    /// One line that names what cannot be built.
    pub fn new(p: &Platform, s: &RunSettings) -> Result<Self, String> {
        let devices: Result<Vec<_>, _> = (0..p.nic.ports as usize).map(|i| NicDevice::new(p, i, s)).collect();
        let devices = devices?;
        let queues = devices.first().map_or(1, |d| d.port.registers.queues());
        let shared = Shared::new(
            devices.len(),
            queues,
            s.role == Role::Forwards,
            Sink::new(s.load.recognition, s.load.timestamp_offset),
        );
        Ok(Self { devices, shared })
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
        self.trapped_doorbells += (self.port.trapped_tails.len().saturating_sub(before)) as u64;
    }

    fn reset(&mut self) {
        self.port.write_register(0, CTRL_RESET);
    }

    fn mapped(&self) -> Option<(u64, u64, &OwnedFd)> {
        let pages = self.port.registers.shared();
        self.mapped.then_some((pages.range.start, pages.range.end - pages.range.start, &pages.fd))
    }

    fn map_memory(&mut self, address: u64, size: u64, fd: OwnedFd, offset: u64) {
        self.ram.map(address, size, &fd, offset);
    }
}
