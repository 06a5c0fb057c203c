//! A run: its stages, the models it drives, and what is measured when.
//!
//! - `stage`: from boot to the end, decided at window boundaries.
//! - `far`: what is at the other end of the wire, where it is outside.
//! - `nics`: places, time, interrupts of NICs.
//! - `hidden`: accesses that QEMU's callbacks do not show.
//! - `pages`: the guest's page tables, for the TLB models.
//! - `profile`: cycles by block.
//! - `report`: the result.

mod addresses;
mod capture;
mod far;
mod hidden;
mod nics;
mod processor;
mod profile;
mod report;
mod stage;

pub use addresses::{locate, read_translation, Addresses};
pub use hidden::Translations;
pub use processor::{look, CoreTime};
pub use profile::Profile;
pub use stage::{at_exit, window_tick, Stage};

use crate::control::{Config, RunSettings, StartAt, Timing};
use crate::memory::GuestRam;
use crate::translate::Block;
use crate::turns::Vcpu;
use crate::vfio::{ControlDevice, Nics};
use report::Snapshot;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wiretime_base::Ps;
use wiretime_hw::core::{BlockRef, StageTrace};
use wiretime_hw::machine::{Hold, Machine};
use wiretime_hw::params::Platform;

/// Window while the guest boots: nothing depends on its length but how often vCPUs alternate.
const BOOT_QUANTUM: Ps = 10_000_000;

/// The models and the state of a run.
pub struct Run {
    pub settings: RunSettings,
    platform: Platform,
    stage: Stage,
    /// Cores, memory, NICs.
    pub machine: Machine<Nics>,
    /// Interrupt pins of the NICs in QEMU, and interrupts raised, messages included.
    pins: Vec<nics::Pin>,
    interrupts: u64,
    control: Arc<Mutex<ControlDevice>>,
    /// Translations of virtual addresses for accesses that QEMU does not show.
    pub translations: Translations,
    boot_instruction: Ps,
    /// Guest memory, for page walks.
    ram: GuestRam,
    /// Instructions by vCPU, timed or counted, and a hash over what ran where.
    instructions: Vec<u64>,
    timed_instructions: u64,
    hash: u64,
    /// Processor time by kind, by vCPU.
    core_times: Vec<CoreTime>,
    start: Option<Snapshot>,
    end: Option<Snapshot>,
    /// Snapshots inside the measurement, where a time series is wanted.
    series: Vec<Snapshot>,
    /// Cycles by block, where a profile is wanted; and whether they are charged now.
    pub profile: Profile,
    /// What became of all packets, before the program stops and resets the device.
    totals: Option<report::PacketTotals>,
    /// Fill of FIFOs and rings over the measurement.
    occupancy: Vec<Vec<[u64; 4]>>,
    /// Stages of instructions in the timeline's window, by core.
    pipelines: Vec<(usize, StageTrace)>,
    /// Between points of it.
    occupancy_step: Ps,
    clocks: stage::Clocks,
    begin: Ps,
    /// When the traffic stopped, or the guest was asked to.
    stopped: Ps,
    /// The capture of the wire, where one is wanted.
    capture: Option<capture::Capture>,
    /// What is at the other end of the wire, where it is outside.
    outside: far::Outside,
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
        let nics = Nics::new(p, s)?;
        let machine = Machine::new(p, cores, nics);
        let pins = machine.nics.nics().slots.iter().map(|_| nics::Pin::default()).collect();
        Ok(Self {
            settings: s.clone(),
            platform: p.clone(),
            stage: Stage::Boot,
            machine,
            pins,
            interrupts: 0,
            control: Arc::new(Mutex::new(ControlDevice::default())),
            translations: Translations::default(),
            ram: GuestRam::default(),
            boot_instruction: p.system.boot_instruction_time.ps(),
            instructions: vec![0; cores],
            timed_instructions: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            core_times: vec![CoreTime::default(); cores],
            start: None,
            end: None,
            series: Vec::new(),
            profile: Profile::default(),
            totals: None,
            occupancy: Vec::new(),
            pipelines: Vec::new(),
            clocks: stage::Clocks::default(),
            occupancy_step: 1,
            begin: 0,
            stopped: 0,
            outside: far::Outside::new(s.far, config.far(), p)?,
            capture: config.capture().map(|file| capture::Capture::new(file, p)),
        })
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
    /// Whether processor time is told by kind: where the kernel does the work.
    #[inline]
    pub fn by_kind(&self) -> bool {
        self.settings.processor_time
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
            let core = &mut self.machine.cores[index];
            if v.local != v.timed_local {
                core.idle_until(v.local); // it slept, or ran untimed
            }
            let reference = BlockRef { paddr: block.paddr, vaddr: v.vaddr, quick: &block.quick, ops: &block.ops };
            let mut tables = addresses::Tables { addresses: &v.addresses, ram: self.ram };
            let (before, from) = (core.cycle(), v.local);
            self.machine.execute(index, (reference, v.timed..upto), &v.accesses, next, &mut tables, from);
            let core = &self.machine.cores[index];
            if self.profile.on {
                block.cycles.set(block.cycles.get() + core.cycle() - before);
                block.executed.set(block.executed.get() + count);
                block.profiled_at.set(v.vaddr);
            }
            v.local = core.now();
            v.timed_local = v.local;
        }
        v.timed = upto;
    }

    /// Cached translations go, of one page or all, on every core.
    pub fn invalidate(&mut self, page: Option<u64>) {
        for core in &mut self.machine.cores {
            core.invalidate_translations(page);
        }
    }

    fn full_timing_of(&self, stage: Stage) -> bool {
        self.settings.timing == Timing::Always || stage == Stage::Traffic && self.settings.timing == Timing::Full
    }

    /// An exception or interrupt was taken.
    pub fn exception_taken(&mut self, index: usize) {
        if self.full_timing() {
            self.machine.cores[index].exception();
        }
    }

    /// Whether the measurement begins by a mark of the guest.
    fn starts_at(&self) -> StartAt {
        self.settings.start_at
    }
}
