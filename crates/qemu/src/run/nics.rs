//! How a run drives the NICs: register pages, time, interrupts.

use super::Run;
use crate::kept::{Input, Inputs};
use crate::{clock, internals};
use std::ffi::c_void;
use wiretime_base::Ps;
use wiretime_hw::machine::Hold;
use wiretime_hw::nic::{SharedRegisters, Store};

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
    /// The guest has just written to `paddr` of the shared pages, `bytes` of them; the word there.
    pub fn device_page_store(&self, paddr: u64, bytes: u32) -> u32 {
        let Some((nic, place)) = self.machine.place(paddr) else { return 0 };
        let pages = self.machine.nics.pages(nic);
        let low = pages.load(place.offset);
        let high = if bytes > 4 { pages.load(place.offset + 4) } else { 0 };
        self.machine.note_store(nic, Store { place, value: u64::from(high) << 32 | u64::from(low) });
        low
    }

    /// Whether there are doorbell pages of which each store counts.
    pub fn traps_doorbells(&self) -> bool {
        self.machine.nics.all_pages().iter().any(|pages| pages.place.each_store)
    }

    /// Whether doorbell pages of which each store counts are memory, or trap, other than they should now.
    pub fn maps_otherwise(&self) -> bool {
        self.traps_doorbells() && self.mapped != Some(self.experiment.watches_stores())
    }

    /// Has them be as they should; big lock held.
    pub fn map_doorbells(&mut self) {
        let mapped = self.experiment.watches_stores();
        if self.mapped.replace(mapped) == Some(mapped) {
            return;
        }
        for (nic, pages) in self.machine.nics.all_pages().iter().enumerate() {
            if pages.place.each_store {
                internals::set_mapped(internals::nic(nic), mapped);
            }
        }
    }

    /// Simulates the devices up to `end`.
    pub fn advance_devices(&mut self, end: Ps) {
        if self.noted {
            self.machine.nics.told().advances(end);
        }
        self.experiment.advance(end, clock::published(), &mut self.machine);
        self.see_memory();
    }

    /// Guest memory, as devices see it.
    pub fn see_memory(&mut self) {
        if let Some(slot) = self.machine.nics.nics().slots.last() {
            self.ram = slot.guest.ram;
        }
    }

    /// From now on what devices are told is noted, after what they have been told.
    pub fn start_noting(&mut self, told: Inputs) {
        self.noted = true;
        self.machine.nics.told().start_noting(told);
    }

    /// What they have been told. `reads`: with what they have read of memory.
    pub fn stop_noting(&mut self, reads: bool) -> Option<Inputs> {
        self.noted = false;
        self.machine.nics.told().stop_noting(reads)
    }

    /// Applies DMA writes that are visible at `t`, which vCPU `index` has reached.
    #[inline]
    pub fn apply_writes_of(&mut self, index: usize, t: Ps) {
        if self.experiment.full_timing() {
            self.machine.apply_writes_of(index, t);
        } else {
            self.apply_writes(t);
        }
    }

    /// Applies DMA writes that are visible at `t`.
    #[inline]
    pub fn apply_writes(&mut self, t: Ps) {
        if self.noted && self.machine.next_write() <= t {
            self.machine.nics.told().applies(t);
        }
        self.machine.apply_writes(t);
    }

    /// All vCPUs sleep: when a device acts next, unless the timer at `timer` comes before.
    pub fn next_device_time(&mut self, timer: Option<Ps>) -> Option<Ps> {
        self.experiment.next_time(timer, clock::published(), &mut self.machine)
    }

    /// From when on a NIC wants an interrupt that it does not have. Devices are simulated ahead of the cores: it may be later
    /// than now.
    pub fn next_irq(&self) -> Option<Ps> {
        let mut nics = self.machine.nics.nics();
        nics.slots.iter_mut().zip(&self.pins).filter_map(|(s, pin)| s.nic.interrupts_at(pin.level)).min()
    }

    /// Whether a NIC wants one at `t`.
    pub fn irq_pending(&self, t: Ps) -> bool {
        self.next_irq().is_some_and(|irq| irq <= t)
    }

    /// Drives interrupt lines and sends messages, as they are at `t`; TCG thread, big lock held.
    pub fn update_irq(&mut self, t: Ps) {
        for i in 0..self.pins.len() {
            let (level, vectors) = {
                let slot = &mut self.machine.nics.nics().slots[i];
                (slot.pin(t), std::iter::from_fn(|| slot.nic.take_message(t)).collect::<Vec<_>>())
            };
            if self.noted && !vectors.is_empty() {
                self.machine.nics.told().inputs.iter_mut().for_each(|inputs| inputs.add(Input::Messages(i, t)));
            }
            let pin = &mut self.pins[i];
            if level == pin.level && vectors.is_empty() {
                continue;
            }
            if pin.device.is_null() {
                pin.device = internals::nic(i);
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

    /// Levels of the pins.
    pub fn levels(&self) -> Vec<bool> {
        self.pins.iter().map(|pin| pin.level).collect()
    }

    /// As they were: QEMU's interrupt controller has them already.
    pub fn set_levels(&mut self, levels: &[bool]) {
        for (i, (pin, &level)) in self.pins.iter_mut().zip(levels).enumerate().filter(|(_, (_, &level))| level) {
            pin.device = internals::nic(i);
            pin.level = level;
            if !pin.device.is_null() {
                internals::set_irq(pin.device, level);
            }
        }
    }

    fn note_interrupt(&mut self) {
        self.interrupts += 1;
        let total: u64 = self.instructions.iter().sum();
        self.note(total);
    }
}
