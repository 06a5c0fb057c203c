//! How a run drives the NICs: places, time, interrupts.

use super::far::Outside;
use super::Run;
use crate::internals;
use std::ffi::{c_void, CString};
use wiretime_base::Ps;
use wiretime_hw::machine::Hold;
use wiretime_hw::nic::SharedRegisters;

/// A NIC's interrupt pin in QEMU.
pub struct Pin {
    device: *mut c_void,
    level: bool,
}

impl Default for Pin {
    fn default() -> Self {
        Self { device: std::ptr::null_mut(), level: false }
    }
}

impl Run {
    /// Full timing begins: finds out where BARs, shared pages and receive rings are.
    pub fn find_places(&mut self) {
        self.machine.find_places(self.platform.nic.interface, self.settings.mapped_doorbells);
    }

    /// The word at `paddr` of the shared pages, as the guest has just written it.
    pub fn device_page_value(&self, paddr: u64) -> u32 {
        let Some((nic, offset)) = self.machine.place(paddr) else { return 0 };
        self.machine.nics.pages(nic).load(offset)
    }

    /// Simulates the devices up to `end`.
    pub fn advance_devices(&mut self, end: Ps) {
        if matches!(self.outside, Outside::Nothing) {
            self.simulate_devices(end);
        } else {
            self.advance_with_far_end(end);
        }
    }

    /// Simulates them with what has come from the far end of the wire so far.
    pub fn simulate_devices(&mut self, end: Ps) {
        let untimed = !self.full_timing_of(self.stage);
        self.machine.advance(end, untimed);
        if let Some(slot) = self.machine.nics.nics().slots.last() {
            self.ram = slot.guest;
        }
    }

    /// When a device acts next, as far as is known here.
    pub fn own_device_time(&self) -> Option<Ps> {
        self.machine.next_time().into_iter().chain(self.boundary()).min()
    }

    /// Whether a NIC wants an interrupt that it does not have.
    pub fn irq_pending(&self) -> bool {
        let mut nics = self.machine.nics.nics();
        nics.slots.iter_mut().zip(&self.pins).any(|(s, pin)| s.pin() != pin.level || s.nic.has_message())
    }

    /// Drives interrupt lines and sends messages; TCG thread, big lock held.
    pub fn update_irq(&mut self) {
        for i in 0..self.pins.len() {
            let (level, vectors) = {
                let slot = &mut self.machine.nics.nics().slots[i];
                (slot.pin(), std::iter::from_fn(|| slot.nic.take_message()).collect::<Vec<_>>())
            };
            let pin = &mut self.pins[i];
            if level == pin.level && vectors.is_empty() {
                continue;
            }
            if pin.device.is_null() {
                let path = CString::new(format!("/machine/peripheral/nic{i}0")).unwrap_or_default();
                pin.device = internals::device(&path);
            }
            if pin.device.is_null() {
                continue;
            }
            let device = pin.device;
            if level != pin.level {
                pin.level = level;
                if level {
                    self.note_interrupt();
                }
                internals::set_irq(device, level);
            }
            for vector in vectors {
                self.note_interrupt();
                internals::notify(device, vector.into());
            }
        }
    }

    fn note_interrupt(&mut self) {
        self.interrupts += 1;
        let total: u64 = self.instructions.iter().sum();
        self.hash = (self.hash ^ total).wrapping_mul(0x0000_0100_0000_01b3);
    }
}
