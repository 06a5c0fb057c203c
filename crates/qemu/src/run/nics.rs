//! How a run drives the NICs: doorbells and polls of cores, time, DMA writes, interrupts.

use super::far::Outside;
use super::{lock, Run};
use crate::internals;
use std::ffi::{c_void, CString};
use wiretime_base::Ps;
use wiretime_hw::core::{MemEvent, MemKind};
use wiretime_hw::nic::{shared_pages, Controller, SharedRegisters, Side};

/// Where a NIC is, and its interrupts.
pub struct Place {
    /// Where BAR0 stands in guest physical addresses, and the register pages that the guest accesses as memory.
    bar: u64,
    pages: std::ops::Range<u64>,
    device: *mut c_void,
    level: bool,
}

/// A receive ring in guest memory.
struct RingAt {
    bytes: std::ops::Range<u64>,
    nic: usize,
    queue: u16,
}

/// What a run knows of its NICs without asking them.
#[derive(Default)]
pub struct Places {
    nics: Vec<Place>,
    /// All shared register pages are in here, and all receive rings.
    pages: std::ops::Range<u64>,
    span: std::ops::Range<u64>,
    rings: Vec<RingAt>,
    /// When the next DMA write becomes visible.
    next_write: Ps,
    /// Interrupts raised, messages included.
    pub interrupts: u64,
}

fn hull(ranges: impl Iterator<Item = std::ops::Range<u64>>) -> std::ops::Range<u64> {
    ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
}

impl Places {
    pub fn new(ports: usize) -> Self {
        let place = || Place { bar: 0, pages: 0..0, device: std::ptr::null_mut(), level: false };
        Self { nics: (0..ports).map(|_| place()).collect(), next_write: Ps::MAX, ..Self::default() }
    }

    /// Whether `paddr` is in the register pages that the guest accesses as memory.
    #[inline]
    pub fn is_device_page(&self, paddr: u64) -> bool {
        self.pages.contains(&paddr) && self.nics.iter().any(|n| n.pages.contains(&paddr))
    }

    fn nic_at(&self, paddr: u64) -> Option<(usize, u64)> {
        // BARs do not overlap: the nearest below is it.
        let found = self.nics.iter().enumerate().filter(|(_, n)| n.bar != 0 && n.bar <= paddr);
        found.max_by_key(|(_, n)| n.bar).map(|(i, n)| (i, paddr - n.bar))
    }

    fn ring_at(&self, paddr: u64) -> Option<&RingAt> {
        self.rings.iter().find(|r| r.bytes.contains(&paddr))
    }
}

impl Run {
    /// Full timing begins: finds out where BARs, shared pages and receive rings are.
    pub fn find_places(&mut self) {
        let nics = lock(&self.nics);
        let shared = shared_pages(self.platform.nic.interface);
        for (place, nic) in self.places.nics.iter_mut().zip(&nics.devices) {
            if let Some(bar) = nic.bar_address() {
                place.bar = bar;
                if self.settings.mapped_doorbells {
                    place.pages = bar + shared.start..bar + shared.end;
                }
            }
        }
        self.places.pages = hull(self.places.nics.iter().map(|n| n.pages.clone()).filter(|r| !r.is_empty()));
        self.places.rings = nics
            .devices
            .iter()
            .enumerate()
            .flat_map(|(nic, d)| d.port.receive_rings().into_iter().map(move |(a, b, queue)| (nic, a..b, queue)))
            .map(|(nic, bytes, queue)| RingAt { bytes, nic, queue })
            .collect();
        self.places.span = hull(self.places.rings.iter().map(|r| r.bytes.clone()));
    }

    /// The word at `paddr` of the shared pages, as the guest has just written it.
    pub fn device_page_value(&self, paddr: u64) -> u32 {
        let Some((nic, offset)) = self.places.nic_at(paddr) else { return 0 };
        lock(&self.nics).devices[nic].port.registers.shared().load(offset)
    }

    /// Hands on what core `index` has stored to devices.
    pub fn ring_doorbells(&mut self, index: usize) {
        let mut nics = lock(&self.nics);
        let nics = &mut *nics;
        let mut stores = std::mem::take(&mut self.cores[index].device_stores);
        for s in &stores {
            let Some((i, offset)) = self.places.nic_at(s.paddr) else { continue };
            let port = &mut nics.devices[i].port;
            // A trapped write has noted its value already; a mapped one was read from the page.
            let (offset, value) = if let Some(k) = port.trapped_tails.iter().position(|t| t.0 == offset) {
                port.trapped_tails.remove(k)
            } else if self.places.nics[i].pages.contains(&s.paddr) {
                (offset, s.value)
            } else {
                continue;
            };
            match port.registers.tail_at(offset) {
                Some((side, _)) => {
                    port.doorbell(s.time, offset, value);
                    if side == Side::Transmit {
                        nics.devices.iter_mut().for_each(|d| d.port.bursts_end(index as u16, s.time));
                    }
                }
                None => port.switched(Side::Transmit),
            }
        }
        stores.clear();
        self.cores[index].device_stores = stores;
    }

    /// Core `index` has executed these accesses from `t` on: tells the NICs what it read of their receive rings.
    #[inline]
    pub fn watch_polls(&mut self, index: usize, t: Ps, accesses: &[MemEvent], executed: std::ops::Range<u32>) {
        let span = &self.places.span;
        for a in accesses {
            if span.contains(&a.paddr) && a.kind == MemKind::Load && executed.contains(&u32::from(a.index)) {
                self.descriptor_read(index, t, a.paddr);
            }
        }
    }

    fn descriptor_read(&self, index: usize, t: Ps, paddr: u64) {
        let Some(ring) = self.places.ring_at(paddr) else { return };
        let mut nics = lock(&self.nics);
        let nics = &mut *nics;
        let offset = paddr - ring.bytes.start;
        nics.devices[ring.nic].port.descriptor_read(index as u16, ring.queue, offset, t, &mut nics.shared);
    }

    /// All vCPUs and devices stand at `t` or later: what nobody can ask for any more is forgotten.
    pub fn reached(&mut self, t: Ps) {
        self.memory.reached(t);
        self.cores.iter_mut().for_each(|core| core.reached(t));
        for nic in &mut lock(&self.nics).devices {
            nic.port.reached(t);
        }
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
        let mut nics = lock(&self.nics);
        let nics = &mut *nics;
        let mut next_write = Ps::MAX;
        for nic in &mut nics.devices {
            if untimed {
                nic.port.poll_shared(end);
                for (offset, value) in std::mem::take(&mut nic.port.trapped_tails) {
                    nic.port.doorbell(end, offset, value);
                }
            }
            nic.port.advance(end, &mut self.memory, &nic.ram, &mut nics.shared);
            next_write = next_write.min(nic.port.writes.next_time());
            self.ram = nic.ram;
        }
        self.places.next_write = next_write;
    }

    /// Applies DMA writes that are visible at `t`.
    #[inline]
    pub fn apply_dma(&mut self, t: Ps) {
        if self.places.next_write <= t {
            self.apply_writes(t);
        }
    }

    #[cold]
    fn apply_writes(&mut self, t: Ps) {
        let mut nics = lock(&self.nics);
        let late = t - self.places.next_write;
        let mut next_write = Ps::MAX;
        for nic in &mut nics.devices {
            let (writes, total) = nic.port.writes.apply(t, &mut nic.ram);
            next_write = next_write.min(nic.port.writes.next_time());
            self.lateness.writes += writes;
            self.lateness.total += total;
        }
        self.places.next_write = next_write;
        self.lateness.max = self.lateness.max.max(late);
    }

    /// When a device acts next, as far as is known here.
    pub fn own_device_time(&self) -> Option<Ps> {
        let event = lock(&self.nics).devices.iter().filter_map(|d| d.port.next_time()).min();
        let write = (self.places.next_write != Ps::MAX).then_some(self.places.next_write);
        [event, write, self.boundary()].into_iter().flatten().min()
    }

    /// Whether a NIC wants an interrupt that it does not have.
    pub fn irq_pending(&self) -> bool {
        let mut nics = lock(&self.nics);
        let places = self.places.nics.iter();
        nics.devices.iter_mut().zip(places).any(|(d, place)| d.interrupt() != place.level || d.messages() != 0)
    }

    /// Drives interrupt lines and sends messages; TCG thread, big lock held.
    pub fn update_irq(&mut self) {
        for i in 0..self.places.nics.len() {
            let (level, messages) = {
                let mut nics = lock(&self.nics);
                (nics.devices[i].interrupt(), nics.devices[i].take_messages())
            };
            let place = &mut self.places.nics[i];
            if level == place.level && messages == 0 {
                continue;
            }
            if place.device.is_null() {
                let path = CString::new(format!("/machine/peripheral/nic{i}0")).unwrap_or_default();
                place.device = internals::device(&path);
            }
            if place.device.is_null() {
                continue;
            }
            let device = place.device;
            if level != place.level {
                place.level = level;
                if level {
                    self.note_interrupt();
                }
                internals::set_irq(device, level);
            }
            for vector in (0..64).filter(|v| messages >> v & 1 != 0) {
                self.note_interrupt();
                internals::notify(device, vector);
            }
        }
    }

    fn note_interrupt(&mut self) {
        self.places.interrupts += 1;
        let total: u64 = self.instructions.iter().sum();
        self.hash = (self.hash ^ total).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Whether DMA writes are not yet visible.
    pub fn dma_pending(&self) -> bool {
        self.places.next_write != Ps::MAX
    }
}
