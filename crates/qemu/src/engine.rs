//! The engine's state, and the one place that hands it out.

use crate::api::{self, Info};
use crate::control::Config;
use crate::counting::Counts;
use crate::internals::{self, Cpu};
use crate::kept::{Boot, Inputs};
use crate::run::Run;
use crate::start_error::StartError;
use crate::translate::Blocks;
use crate::turns::{Turns, Vcpu};
use crate::vfio;
use std::cell::UnsafeCell;
use std::ffi::{c_uint, c_void, CStr};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use wiretime_experiment::Channel;
use wiretime_isa::{AArch64, Isa, Registers};

/// The instruction set of the guest: this engine is built for one.
pub type Guest = AArch64;

/// Everything the TCG thread owns.
pub struct Engine {
    /// The plugin's id, which registrations want.
    pub id: u64,
    /// Where the TCG thread keeps the running CPU; set when the first block runs.
    pub current_cpu: *const Cpu,
    pub vcpus: Vec<Vcpu>,
    pub turns: Turns,
    pub blocks: Blocks,
    pub counts: Counts,
    pub run: Run,
    pub channel: Channel,
    pub boot: Boot,
    /// Those that the instruction set asks for.
    registers: [*mut c_void; REGISTERS],
    /// Those that are all of a program's, and its vectors; none where QEMU lacks one.
    pub state: Vec<*mut c_void>,
    pub vectors: Vec<*mut c_void>,
    pub register_buffer: *mut api::GByteArray,
}

struct Slot(UnsafeCell<Option<Engine>>);
// SAFETY: written once in `install`, before any other thread exists; used only by the TCG thread afterwards.
unsafe impl Sync for Slot {}
static ENGINE: Slot = Slot(UnsafeCell::new(None));

/// The engine, for the TCG thread.
///
/// Callbacks do not nest (a memory callback never runs inside a block callback), so one exclusive reference is live
/// at a time, except across `set_pc`, which does not return: nothing may be used after it.
#[inline]
pub fn engine() -> &'static mut Engine {
    // SAFETY: see above; `install` has run before any callback is registered.
    unsafe { (*ENGINE.0.get()).as_mut().unwrap_unchecked() }
}

/// Sets the engine up. Called once by QEMU, before the machine exists.
pub fn install(id: u64, info: &Info, args: &[String]) -> Result<(), StartError> {
    if info.version_cur != api::API_VERSION {
        return Err(StartError::OtherApi { found: info.version_cur, needed: api::API_VERSION });
    }
    // SAFETY: QEMU's string.
    let target = unsafe { CStr::from_ptr(info.target_name) }.to_string_lossy();
    if !info.system_emulation || target != Guest::TARGET {
        return Err(StartError::OtherTarget { driven: Guest::TARGET, found: target.into_owned() });
    }
    let mut config = Config::load(args)?;
    if config.run.chaos {
        std::thread::spawn(chaos);
    }
    let mut run = Run::new(&mut config, info.smp_vcpus.max(1) as usize)?;
    let mut turns = Turns::new(run.experiment.boot_quantum());
    // Before anything else.
    turns.must_advance = run.traps_doorbells();
    if let Some(state) = &config.boot.continues {
        state.set_clock();
        EARLY.store(true, Ordering::Release);
        turns.must_advance = true;
    } else if config.boot.keeps.is_some() {
        run.start_noting(Inputs::default());
    }
    vfio::serve(config.nic_fds, config.control_fd, &run)?;
    let engine = Engine {
        id,
        current_cpu: ptr::null(),
        vcpus: Vec::new(),
        turns,
        blocks: Blocks::default(),
        counts: Counts::new(config.repeats, info.smp_vcpus.max(1) as u32),
        run,
        channel: Channel::new(config.output, config.input),
        boot: config.boot,
        registers: [ptr::null_mut(); REGISTERS],
        state: Vec::new(),
        vectors: Vec::new(),
        // SAFETY: glib is part of QEMU.
        register_buffer: unsafe { api::g_byte_array_new() },
    };
    // SAFETY: no other thread knows of the engine yet.
    unsafe { *ENGINE.0.get() = Some(engine) };
    register(id);
    // SAFETY: registration in the install callback, as the API asks.
    unsafe {
        api::qemu_plugin_register_vcpu_init_cb(id, vcpu_init, ptr::null_mut());
    }
    Ok(())
}

/// Registers what every mode needs; again after each `qemu_plugin_reset`.
fn register(id: u64) {
    // SAFETY: the callbacks live as long as the library.
    unsafe {
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, crate::translate::translate, ptr::null_mut());
        api::qemu_plugin_register_vcpu_discon_cb(
            id,
            api::DISCON_INTERRUPT | api::DISCON_EXCEPTION,
            crate::execute::discontinuity,
            ptr::null_mut(),
        );
        api::qemu_plugin_register_flush_cb(id, crate::translate::flushed, ptr::null_mut());
        api::qemu_plugin_register_atexit_cb(id, crate::run::at_exit, ptr::null_mut());
    }
}

/// Has QEMU translate everything anew, under the mode that `run` now asks for.
pub fn reinstrument(e: &mut Engine) {
    e.turns.switching = true;
    // SAFETY: asynchronous; `reset_done` runs when no vCPU executes.
    unsafe { api::qemu_plugin_reset(e.id, reset_done, ptr::null_mut()) };
}

extern "C" fn reset_done(_: *mut c_void) {
    let e = engine();
    e.turns.switching = false;
    register(e.id);
}

extern "C" fn vcpu_init(index: c_uint, _: *mut c_void) {
    let e = engine();
    if e.vcpus.is_empty() {
        take_time();
        if e.boot.continues.is_some() {
            // All vCPUs may sleep: then no block says so.
            crate::clock::enter_tcg_thread();
        }
        match find_registers() {
            Ok(registers) => e.registers = registers,
            Err(problem) => misfit(&problem.to_string()),
        }
        e.state = find_all(Guest::STATE);
        e.vectors = Guest::VECTORS.map(find_all).into_iter().find(|found| !found.is_empty()).unwrap_or_default();
    }
    let index = index as usize;
    while e.vcpus.len() <= index {
        e.vcpus.push(Vcpu::default());
    }
    // SAFETY: the vCPU exists: this is its initialisation.
    let cpu = unsafe { internals::qemu_get_cpu(index as i32) };
    e.vcpus[index].cpu = cpu;
    e.counts.own_code(cpu, index as u32);
}

/// From now on the virtual clock is ours, if it is not yet.
fn take_time() {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::AcqRel) {
        return;
    }
    if let Err(problem) = internals::take_time(crate::clock::get, crate::clock::set, crate::clock::wait) {
        misfit(&problem.to_string());
    }
}

/// A kept boot is to go on: time is taken before QEMU brings its state back, and runs timers by its own clock.
static EARLY: AtomicBool = AtomicBool::new(false);

/// QEMU connects to a device and waits for our answer, with the big lock held.
pub fn connected() {
    if EARLY.load(Ordering::Acquire) {
        take_time();
    }
}

/// Set when the first block runs.
static VCPUS_RUN: AtomicBool = AtomicBool::new(false);

/// Self-test of determinism: kicks vCPUs at random host times, which must change nothing.
fn chaos() {
    let mut state = std::process::id() | 1;
    loop {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(std::time::Duration::from_micros(200 + u64::from(state >> 16) % 2000));
        if !VCPUS_RUN.load(Ordering::Acquire) {
            continue;
        }
        // SAFETY: any thread may kick a vCPU that runs; an index beyond the last gives null.
        unsafe {
            let cpu = internals::qemu_get_cpu((state >> 8 & 1) as i32);
            if !cpu.is_null() {
                internals::cpu_exit(cpu);
            }
        }
    }
}

fn misfit(problem: &str) -> ! {
    eprintln!("wiretime: this QEMU cannot be driven: {problem}");
    std::process::exit(crate::EXIT_MISFIT)
}

const REGISTERS: usize = Guest::REGISTERS.len();

fn find_registers() -> Result<[*mut c_void; REGISTERS], StartError> {
    let mut found = [ptr::null_mut(); REGISTERS];
    for (handle, name) in found.iter_mut().zip(Guest::REGISTERS) {
        *handle = find_register(name).ok_or(StartError::NoRegister(name))?;
    }
    Ok(found)
}

/// All of these, or none.
fn find_all(names: &[&str]) -> Vec<*mut c_void> {
    names.iter().map(|name| find_register(name)).collect::<Option<_>>().unwrap_or_default()
}

fn find_register(name: &str) -> Option<*mut c_void> {
    // SAFETY: an array of descriptors that QEMU made for us, in a vCPU context.
    let all = unsafe {
        let list = api::qemu_plugin_get_registers();
        std::slice::from_raw_parts((*list).data.cast::<api::RegDescriptor>(), (*list).len as usize)
    };
    // SAFETY: names are QEMU's strings.
    let register = all.iter().find(|r| unsafe { CStr::from_ptr(r.name) }.to_bytes() == name.as_bytes());
    register.map(|r| r.handle)
}

/// Appends what is in a register, in words.
pub fn read_words(handle: *mut c_void, buffer: *mut api::GByteArray, words: &mut Vec<u64>) {
    // SAFETY: from a callback that may read registers; the buffer is ours.
    let bytes = unsafe {
        api::g_byte_array_set_size(buffer, 0);
        api::qemu_plugin_read_register(handle, buffer);
        std::slice::from_raw_parts((*buffer).data, (*buffer).len as usize)
    };
    words.extend(bytes.chunks(8).map(|c| c.iter().rev().fold(0, |word, &b| word << 8 | u64::from(b))));
}

impl Registers for Engine {
    fn register(&mut self, which: usize) -> u64 {
        let Some(&handle) = self.registers.get(which) else { return 0 };
        // SAFETY: from a callback that may read registers; the buffer is ours.
        unsafe {
            api::g_byte_array_set_size(self.register_buffer, 0);
            api::qemu_plugin_read_register(handle, self.register_buffer);
            if (*self.register_buffer).len < 8 {
                return 0;
            }
            (*self.register_buffer).data.cast::<u64>().read_unaligned()
        }
    }
}

impl Engine {
    /// The running vCPU's program counter. In mid-block it may still hold the block's start.
    pub fn read_pc(&mut self) -> u64 {
        self.register(Guest::PC)
    }

    /// Index of the vCPU whose code runs in this thread now.
    #[inline]
    pub fn running_index(&mut self) -> usize {
        if self.current_cpu.is_null() {
            self.current_cpu = internals::current_cpu_slot();
            crate::clock::enter_tcg_thread();
            VCPUS_RUN.store(true, Ordering::Release);
        }
        // SAFETY: the TCG thread's own slot.
        let cpu = unsafe { *self.current_cpu };
        // The callback's index is a constant of the vCPU that translated the block: useless here.
        self.vcpus.iter().position(|v| v.cpu == cpu).unwrap_or(0)
    }
}
