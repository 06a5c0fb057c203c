//! A run: its stages, the models it drives, and what is measured when.
//!
//! - `stage`: from boot to the end, decided at window boundaries.
//! - `hidden`: accesses that QEMU's callbacks do not show.
//! - `pages`: the guest's page tables, for the TLB models.
//! - `profile`: cycles by block.
//! - `report`: the result.

mod hidden;
mod pages;
mod profile;
mod report;
mod stage;

pub use hidden::{hidden_address, Translations};
pub use pages::{locate, read_translation, Translation};
pub use profile::Profile;
pub use stage::{at_exit, window_tick, Stage};

use crate::control::{Config, RunSettings, StartAt, Timing};
use crate::internals;
use crate::memory::{GuestRam, SharedPages};
use crate::translate::Block;
use crate::turns::Vcpu;
use crate::vfio::{ControlDevice, NicDevice};
use report::Snapshot;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wiretime_base::Ps;
use wiretime_hw::core::{BlockRef, Core};
use wiretime_hw::memory::MemorySystem;
use wiretime_hw::nic::e1000::Registers;
use wiretime_hw::nic::{Counts, Port};
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Generator, Sink};

/// Window while the guest boots: nothing depends on its length but how often vCPUs alternate.
const BOOT_QUANTUM: Ps = 10_000_000;

/// The models and the state of a run.
pub struct Run {
    pub settings: RunSettings,
    platform: Platform,
    stage: Stage,
    cores: Vec<Core>,
    memory: MemorySystem,
    nic: Arc<Mutex<NicDevice>>,
    control: Arc<Mutex<ControlDevice>>,
    /// Translations of virtual addresses for accesses that QEMU does not show.
    pub translations: Translations,
    boot_instruction: Ps,
    /// Guest memory, for page walks.
    ram: GuestRam,
    /// When the next DMA write becomes visible.
    next_write: Ps,
    /// Where the NIC's BAR0 stands, and its shared register pages, in guest physical addresses.
    bar: u64,
    device_pages: std::ops::Range<u64>,
    nic_pci: *mut c_void,
    irq_level: bool,
    /// Instructions by vCPU, timed or counted, and a hash over what ran where.
    instructions: Vec<u64>,
    timed_instructions: u64,
    hash: u64,
    interrupts: u64,
    lateness: Lateness,
    start: Option<Snapshot>,
    end: Option<Snapshot>,
    /// Snapshots inside the measurement, where a time series is wanted.
    series: Vec<Snapshot>,
    /// Cycles by block, where a profile is wanted; and whether they are charged now.
    pub profile: Profile,
    /// What became of all packets, before the program stops and resets the device.
    account: Option<Account>,
    clocks: stage::Clocks,
    begin: Ps,
}

/// Cohort, load, total, and what does not balance.
type Account = (Counts, Counts, Counts, Vec<String>);

/// How late cores saw DMA writes.
#[derive(Default)]
struct Lateness {
    writes: u64,
    total: Ps,
    max: Ps,
}

fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    /// Builds the models for `cores` vCPUs.
    ///
    /// # Errors
    /// One line that names what cannot be built.
    pub fn new(config: &Config, cores: usize) -> Result<Self, String> {
        let (p, s) = (&config.platform, &config.run);
        let generator = Generator::new(
            s.traffic,
            s.packet_size,
            s.rate,
            s.timestamp_offset,
            (p.link.rate, p.link.gap_bytes),
            s.mac,
        )?;
        let registers = Registers::new(s.mac, SharedPages::new()?);
        let port = Port::new(p, registers, generator, Sink::new(s.timestamp_offset), s.forwards);
        Ok(Self {
            settings: s.clone(),
            platform: p.clone(),
            stage: Stage::Boot,
            cores: (0..cores).map(|i| Core::new(p, i)).collect(),
            memory: MemorySystem::new(p, cores),
            nic: Arc::new(Mutex::new(NicDevice::new(port, s.mapped_doorbells))),
            control: Arc::new(Mutex::new(ControlDevice::default())),
            translations: Translations::default(),
            ram: GuestRam::default(),
            boot_instruction: p.system.boot_instruction_time.ps(),
            next_write: Ps::MAX,
            bar: 0,
            device_pages: 0..0,
            nic_pci: std::ptr::null_mut(),
            irq_level: false,
            instructions: vec![0; cores],
            timed_instructions: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            interrupts: 0,
            lateness: Lateness::default(),
            start: None,
            end: None,
            series: Vec::new(),
            profile: Profile::default(),
            account: None,
            clocks: stage::Clocks::default(),
            begin: 0,
        })
    }

    /// The NIC, for its server.
    pub fn nic_device(&self) -> Arc<Mutex<NicDevice>> {
        self.nic.clone()
    }
    /// The control page, for its server.
    pub fn control_device(&self) -> Arc<Mutex<ControlDevice>> {
        self.control.clone()
    }

    /// The first window's length.
    pub fn boot_quantum(&self) -> Ps {
        if self.settings.timing == Timing::Always {
            self.platform.quantum()
        } else {
            BOOT_QUANTUM
        }
    }

    /// Whether blocks are translated for full timing now.
    pub fn full_timing(&self) -> bool {
        match self.settings.timing {
            Timing::Always => true,
            Timing::Full => self.stage == Stage::Traffic,
            Timing::Blocks => false,
        }
    }

    /// Whether software prefetches and line zeroing are looked at.
    pub fn sees_hidden_accesses(&self) -> bool {
        !self.settings.ignore_hidden_accesses
    }
    /// Whether idle time passes at host speed.
    pub fn host_speed(&self) -> bool {
        self.settings.host_speed
    }

    /// Times instructions of `block` up to `upto`, which vCPU `index` has executed.
    #[inline]
    pub fn time(&mut self, index: usize, v: &mut Vcpu, block: &Block, upto: u32, next: Option<u64>) {
        if upto <= v.timed {
            return;
        }
        let count = u64::from(upto - v.timed);
        self.instructions[index] += count;
        self.hash = (self.hash ^ (block.page_offset(v.timed) | (index as u64) << 12 | count << 20))
            .wrapping_mul(0x0000_0100_0000_01b3);
        if block.ops.is_empty() || !self.full_timing() {
            v.local += count * self.boot_instruction;
        } else {
            self.timed_instructions += count;
            let core = &mut self.cores[index];
            if v.local != v.timed_local {
                core.idle_until(v.local); // it slept, or ran untimed
            }
            let reference = BlockRef { paddr: block.paddr, vaddr: v.vaddr, quick: &block.quick, ops: &block.ops };
            let mut tables = pages::Tables { registers: &v.translation, ram: self.ram };
            let before = core.cycle();
            core.run(reference, v.timed as usize, upto as usize, &v.accesses, next, &mut self.memory, &mut tables);
            if self.profile.on {
                block.cycles.set(block.cycles.get() + core.cycle() - before);
                block.executed.set(block.executed.get() + count);
                block.profiled_at.set(v.vaddr);
            }
            v.local = core.now();
            v.timed_local = v.local;
            if !core.device_stores.is_empty() {
                self.ring_doorbells(index);
            }
        }
        v.timed = upto;
    }

    fn ring_doorbells(&mut self, index: usize) {
        let mut nic = lock(&self.nic);
        let mut stores = std::mem::take(&mut self.cores[index].device_stores);
        for s in &stores {
            let offset = s.paddr.wrapping_sub(self.bar);
            // A trapped write has noted its value already; a mapped one was read from the page.
            if let Some(i) = nic.port.trapped_tails.iter().position(|t| t.0 == offset) {
                let (offset, value) = nic.port.trapped_tails.remove(i);
                nic.port.doorbell(s.time, offset, value);
            } else if is_tail(offset) && self.device_pages.contains(&s.paddr) {
                nic.port.doorbell(s.time, offset, s.value);
            }
        }
        stores.clear();
        self.cores[index].device_stores = stores;
    }

    /// Whether `paddr` is in the register pages that the guest accesses as memory.
    #[inline]
    pub fn is_device_page(&self, paddr: u64) -> bool {
        self.device_pages.contains(&paddr)
    }

    /// The word at `paddr` of those pages, as the guest has just written it.
    pub fn device_page_value(&self, paddr: u64) -> u32 {
        use wiretime_hw::nic::e1000::SharedRegisters;
        lock(&self.nic).port.registers.shared.load(paddr - self.bar)
    }

    /// Simulates the devices up to `end`.
    pub fn advance_devices(&mut self, end: Ps) {
        let mut nic = lock(&self.nic);
        let nic = &mut *nic;
        if !self.full_timing_of(self.stage) {
            nic.port.poll_tails(end);
            for (offset, value) in std::mem::take(&mut nic.port.trapped_tails) {
                nic.port.doorbell(end, offset, value);
            }
        }
        nic.port.advance(end, &mut self.memory, &nic.ram);
        self.next_write = nic.port.writes.next_time();
        self.ram = nic.ram;
    }

    /// Cached translations go, of one page or all, on every core.
    pub fn invalidate(&mut self, page: Option<u64>) {
        for core in &mut self.cores {
            core.invalidate_translations(page);
        }
    }

    fn full_timing_of(&self, stage: Stage) -> bool {
        self.settings.timing == Timing::Always || stage == Stage::Traffic && self.settings.timing == Timing::Full
    }

    /// Applies DMA writes that are visible at `t`.
    #[inline]
    pub fn apply_dma(&mut self, t: Ps) {
        if self.next_write <= t {
            self.apply_writes(t);
        }
    }

    #[cold]
    fn apply_writes(&mut self, t: Ps) {
        let mut nic = lock(&self.nic);
        let nic = &mut *nic;
        let late = t - self.next_write;
        let (writes, total) = nic.port.writes.apply(t, &mut nic.ram);
        self.next_write = nic.port.writes.next_time();
        self.lateness.writes += writes;
        self.lateness.total += total;
        self.lateness.max = self.lateness.max.max(late);
    }

    /// When a device acts next.
    pub fn next_device_time(&self) -> Option<Ps> {
        let event = lock(&self.nic).port.next_time();
        let write = (self.next_write != Ps::MAX).then_some(self.next_write);
        [event, write].into_iter().flatten().min()
    }

    /// Whether the interrupt line is not where the NIC wants it.
    pub fn irq_pending(&self) -> bool {
        lock(&self.nic).interrupt() != self.irq_level
    }

    /// Drives the interrupt line; TCG thread, big lock held.
    pub fn update_irq(&mut self) {
        let level = lock(&self.nic).interrupt();
        if level == self.irq_level {
            return;
        }
        if self.nic_pci.is_null() {
            self.nic_pci = internals::device(c"/machine/peripheral/nic0");
        }
        if self.nic_pci.is_null() {
            return;
        }
        self.irq_level = level;
        if level {
            self.interrupts += 1;
            let total: u64 = self.instructions.iter().sum();
            self.hash = (self.hash ^ total).wrapping_mul(0x0000_0100_0000_01b3);
        }
        internals::set_irq(self.nic_pci, level);
    }

    /// An exception or interrupt was taken.
    pub fn exception_taken(&mut self, index: usize) {
        if self.full_timing() {
            self.cores[index].exception();
        }
    }

    /// Whether the measurement begins by a mark of the guest.
    fn starts_at(&self) -> StartAt {
        self.settings.start_at
    }
}

fn is_tail(offset: u64) -> bool {
    use wiretime_hw::nic::e1000::reg;
    offset == reg::RDT || offset == reg::TDT
}
