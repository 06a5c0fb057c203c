//! A run in QEMU: the machine that it drives, the experiment that it is part of, and what only QEMU's guest has.
//!
//! - `nics`: places and interrupts of NICs.
//! - `hidden`: accesses that QEMU's callbacks do not show.
//! - `addresses`: the guest's page tables, for the TLB models.
//! - `processor`: processor time by kind. `profile`: cycles by instruction.
//! - `window`: what is decided between windows.

mod addresses;
mod hidden;
mod nics;
mod processor;
mod profile;
mod window;

pub use addresses::{locate, read_translation, Addresses};
pub use hidden::Translations;
pub use processor::{look, CoreTime};
pub use profile::{Charged, Profile};
pub use window::{at_exit, leave_process, window_tick};

use crate::control::Config;
use crate::memory::GuestRam;
use crate::start_error::StartError;
use crate::translate::Block;
use crate::turns::Vcpu;
use crate::vfio::{ControlDevice, Nics};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wiretime_base::Ps;
use wiretime_experiment::{Experiment, Times};
use wiretime_hw::core::BlockRef;
use wiretime_hw::machine::{Hold, Machine, Turn};
use wiretime_hw::memory::{GuestMemory, LINE};

/// Of the hash over what ran where: FNV-1a's.
const HASH_STEP: u64 = 0x0000_0100_0000_01b3;

/// The models and what is known of the guest.
pub struct Run {
    /// Settings, stages, results.
    pub experiment: Experiment,
    /// Cores, memory, NICs.
    pub machine: Machine<Nics>,
    /// Interrupt pins of the NICs in QEMU, and interrupts raised, messages included.
    pins: Vec<nics::Pin>,
    pub interrupts: u64,
    /// What devices are told is noted.
    noted: bool,
    /// Whether doorbell pages of which each store counts are memory: not known before the guest runs.
    mapped: Option<bool>,
    control: Arc<Mutex<ControlDevice>>,
    /// Translations of virtual addresses for accesses that QEMU does not show.
    pub translations: Translations,
    boot_instruction: Ps,
    /// Guest memory, for page walks.
    ram: GuestRam,
    /// Instructions by vCPU, timed or counted, and a hash over what ran where: each block that is timed, where turns end
    /// while nothing is.
    pub instructions: Vec<u64>,
    timed_instructions: u64,
    repeated_instructions: u64,
    pub hash: u64,
    /// Processor time by kind, by vCPU, and how it is found.
    pub times: Vec<Times>,
    pub core_times: Vec<CoreTime>,
    /// Cycles by instruction, where a profile is wanted.
    pub profile: Profile,
    /// Turns of loops that repeat are taken at once.
    repeats: bool,
}

pub fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    /// Builds the models for `cores` vCPUs.
    ///
    /// # Errors
    /// One line that names what cannot be built.
    pub fn new(config: &mut Config, cores: usize) -> Result<Self, StartError> {
        let files = config.files.try_clone().map_err(StartError::Unreadable)?;
        let (p, s) = (&config.platform, &config.run);
        let machine = Machine::new(p, cores, Nics::new(p, s)?);
        let pins = machine.nics.nics().slots.iter().map(|_| nics::Pin::default()).collect();
        Ok(Self {
            experiment: Experiment::new(p, s, config.capture.take(), config.far.take())?,
            machine,
            pins,
            interrupts: 0,
            noted: false,
            mapped: None,
            control: Arc::new(Mutex::new(ControlDevice::new(files))),
            translations: Translations::default(),
            ram: GuestRam::default(),
            boot_instruction: p.system.boot_instruction_time.ps(),
            instructions: vec![0; cores],
            timed_instructions: 0,
            repeated_instructions: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            times: vec![Times::default(); cores],
            core_times: vec![CoreTime::default(); cores],
            profile: Profile::default(),
            repeats: config.repeats,
        })
    }

    /// The control page, for its server.
    pub fn control_device(&self) -> Arc<Mutex<ControlDevice>> {
        self.control.clone()
    }

    /// Whether software prefetches and line zeroing are looked at.
    pub fn sees_hidden_accesses(&self) -> bool {
        !self.experiment.settings.ignore_hidden_accesses
    }
    /// Whether processor time is told by kind: where the kernel does the work.
    #[inline]
    pub fn by_kind(&self) -> bool {
        self.experiment.settings.processor_time
    }
    /// Whether idle time passes at host speed.
    pub fn host_speed(&self) -> bool {
        self.experiment.settings.host_speed
    }

    /// Times instructions of `block` up to `upto`, which vCPU `index` has executed.
    #[inline]
    pub fn time(&mut self, index: usize, v: &mut Vcpu, block: &Block, upto: u32, next: Option<u64>) {
        if upto <= v.timed {
            return;
        }
        let count = u64::from(upto - v.timed);
        if block.ops.is_empty() || !self.experiment.full_timing() {
            self.count(index, v, count);
            v.timed = upto;
            return;
        }
        self.instructions[index] += count;
        let word = block.page_offset(v.timed) | (index as u64) << 12 | count << 20;
        self.note(word);
        v.repeat.note(word, count, &v.accesses, |a| self.machine.is_polled(a.paddr));
        self.timed_instructions += count;
        let core = &mut self.machine.cores[index];
        if v.local != v.timed_local {
            core.idle_until(v.local); // it slept, or ran untimed
        }
        let reference = BlockRef { paddr: block.paddr, vaddr: v.vaddr, quick: &block.quick, ops: &block.ops };
        let mut tables = addresses::Tables { addresses: &v.addresses, ram: self.ram };
        let from = v.local;
        let profile = self.experiment.settings.profile;
        if profile {
            core.charges();
        }
        self.machine.execute(index, (reference, v.timed..upto), &v.accesses, next, &mut tables, from);
        let core = &mut self.machine.cores[index];
        if profile {
            profile::charge(block, core.charges(), self.experiment.profiling().then_some(v.vaddr));
        }
        v.local = core.now();
        v.timed_local = v.local;
        v.timed = upto;
    }

    /// vCPU `index` has executed so many instructions that are only counted.
    pub fn count(&mut self, index: usize, v: &mut Vcpu, count: u64) {
        self.instructions[index] += count;
        v.local += count * self.boot_instruction;
    }

    /// vCPU `index` has come to the end of its turn, before the block at `paddr`.
    pub fn note_turn(&mut self, index: usize, paddr: u64) {
        self.note(paddr ^ (index as u64) << 56 ^ self.instructions[index] << 20);
    }

    /// The hash over what ran where takes in `word`.
    #[inline]
    fn note(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(HASH_STEP);
    }

    /// Time that an instruction takes while nothing is timed.
    pub fn boot_instruction(&self) -> Ps {
        self.boot_instruction
    }

    /// Core `index` has taken turns more, in each of which it executes what `trail` stands for in the hash.
    pub fn repeat(
        &mut self,
        index: usize,
        (turn, count): (&Turn, u64),
        polled: &[u64],
        (trail, instructions): (&[u64], u64),
    ) {
        self.machine.repeat(index, turn, count, polled);
        self.instructions[index] += instructions * count;
        self.timed_instructions += instructions * count;
        self.repeated_instructions += instructions * count;
        for _ in 0..count {
            trail.iter().for_each(|&word| self.note(word));
        }
    }

    /// What is in these lines of guest memory; nothing where one is not in it.
    pub fn lines(&self, lines: &[u64]) -> Option<Vec<[u8; LINE as usize]>> {
        let read = |&line: &u64| {
            let mut bytes = [0; LINE as usize];
            self.ram.read(line * LINE, &mut bytes).then_some(bytes)
        };
        lines.iter().map(read).collect()
    }

    /// Whether turns of loops may be taken at once: nobody looks at single blocks.
    pub fn may_repeat(&self) -> bool {
        let s = &self.experiment.settings;
        let looked_at = s.profile || s.processor_time || s.trace_length.ps() > Ps::ZERO;
        self.repeats && self.experiment.full_timing() && !looked_at && !s.ignore_hidden_accesses
    }

    /// Cached translations go, of one page or all, on every core.
    pub fn invalidate(&mut self, page: Option<u64>) {
        for core in &mut self.machine.cores {
            core.invalidate_translations(page);
        }
    }

    /// An exception or interrupt was taken.
    pub fn exception_taken(&mut self, index: usize) {
        if self.experiment.full_timing() {
            self.machine.cores[index].exception();
        }
    }
}
