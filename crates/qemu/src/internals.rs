//! QEMU internals that the binary exports and Wiretime relies on, beyond the plugin API, and the start-up self-test.
//!
//! Stock QEMU has no supported way to own time under TCG: the plugin API's time control does nothing there. So the
//! two virtual-clock slots of class `tcg-accel-ops`, the pointer through which every condition wait goes, and the function
//! that tells the main loop of timers are replaced. The slots are found by asking which one QEMU calls, that function by
//! its address, which proves that they are what we think.
#![allow(missing_docs)]

use crate::start_error::StartError;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString};
use std::sync::OnceLock;

/// QEMU's `run_on_cpu_data`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union RunData {
    pub value: u64,
    pub pointer: *mut c_void,
}

pub type CondWait = extern "C" fn(*mut c_void, *mut c_void, *const c_char, c_int);
pub type Cpu = *mut c_void;

const CLOCK_VIRTUAL: c_int = 1;
/// Of a PCI Express function's configuration space.
const CONFIG_LIMIT: u32 = 4096;

extern "C" {
    fn object_class_by_name(name: *const c_char) -> *mut c_void;
    fn object_resolve_path(path: *const c_char, ambiguous: *mut bool) -> *mut c_void;
    fn cpus_get_virtual_clock() -> i64;
    fn cpus_set_virtual_clock(time: i64);
    fn cpu_get_clock() -> i64;
    fn timerlist_deadline_ns(list: *mut usize) -> i64;
    fn qemu_clock_run_timers(clock: c_int) -> bool;
    fn qemu_timer_notify_cb(opaque: *mut c_void, clock: c_int);
    static main_loop_tlg: [*mut usize; 4];
    fn bql_lock_impl(file: *const c_char, line: c_int);
    fn object_child_foreach(
        object: *mut c_void,
        visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        opaque: *mut c_void,
    ) -> c_int;
    fn object_dynamic_cast(object: *mut c_void, class: *const c_char) -> *mut c_void;
    fn memory_region_is_ram_device(region: *mut c_void) -> bool;
    fn memory_region_set_enabled(region: *mut c_void, enabled: bool);
    fn pci_set_irq(device: *mut c_void, level: c_int);
    fn msix_notify(device: *mut c_void, vector: c_uint);
    fn pci_host_config_write_common(device: *mut c_void, offset: u32, limit: u32, value: u32, length: u32);
    fn address_space_rw(
        space: *const c_void,
        address: u64,
        attributes: u64,
        buffer: *mut u8,
        length: u64,
        write: bool,
    ) -> u32;
    static address_space_memory: c_void;

    fn tcg_cflags_set(cpu: Cpu, flags: u32);
    fn curr_cflags(cpu: Cpu) -> u32;

    pub fn qemu_get_cpu(index: c_int) -> Cpu;
    pub fn cpu_exit(cpu: Cpu);
    pub fn cpu_thread_is_idle(cpu: Cpu) -> bool;
    pub fn all_cpu_threads_idle() -> bool;
    pub fn runstate_is_running() -> bool;
    pub fn async_run_on_cpu(cpu: Cpu, work: extern "C" fn(Cpu, RunData), data: RunData);
    pub fn bql_unlock();
}

/// Replaces QEMU's virtual clock and its condition wait.
///
/// # Errors
/// One line that says what this QEMU lacks.
pub fn take_time(get: extern "C" fn() -> i64, set: extern "C" fn(i64), wait: CondWait) -> Result<(), StartError> {
    // SAFETY: both are plain words of static lifetime in this QEMU, read by others under the big lock, held here; the slots
    // tried are either null or hold the default clock function, and are put back unless they are the ones we own.
    unsafe {
        let ops = object_class_by_name(c"tcg-accel-ops".as_ptr()).cast::<usize>();
        if ops.is_null() {
            return Err(StartError::OtherInside("class tcg-accel-ops is missing (is this -accel tcg?)"));
        }
        let get_slot = find_slot(ops, probe_get as *const () as usize, || {
            cpus_get_virtual_clock();
        })
        .ok_or(StartError::OtherInside("the slot that reads the virtual clock was not found"))?;
        let set_slot = find_slot(ops, probe_set as *const () as usize, || cpus_set_virtual_clock(0))
            .ok_or(StartError::OtherInside("the slot that sets the virtual clock was not found"))?;
        *ops.add(get_slot) = get as *const () as usize;
        *ops.add(set_slot) = set as *const () as usize;
        let slot = libc::dlsym(libc::RTLD_DEFAULT, c"qemu_cond_wait_func".as_ptr()).cast::<CondWait>();
        if slot.is_null() {
            return Err(StartError::OtherInside("symbol qemu_cond_wait_func is missing"));
        }
        // Known before ours is called, by whichever thread.
        let _ = REAL_WAIT.set(*slot);
        *slot = wait;
        if cpus_get_virtual_clock() != get() {
            return Err(StartError::OtherInside("the virtual clock could not be replaced"));
        }
        if !quieten_timers() {
            return Err(StartError::OtherInside("what tells the main loop of timers was not found"));
        }
        Ok(())
    }
}

/// QEMU's own condition wait, which ours falls back to.
static REAL_WAIT: OnceLock<CondWait> = OnceLock::new();

/// Waits as QEMU would.
pub fn real_wait(cond: *mut c_void, mutex: *mut c_void, file: *const c_char, line: c_int) {
    if let Some(wait) = REAL_WAIT.get() {
        wait(cond, mutex, file, line);
    }
}

/// The words of `QEMUTimerList` among which the function is that tells the main loop of an earlier deadline.
const TIMER_LIST_SLOTS: std::ops::Range<usize> = 6..13;

/// Keeps the guest's timers from waking the main loop, which runs none of them; false where that cannot be.
///
/// # Safety
/// Nothing else changes timers meanwhile: the big lock is held.
unsafe fn quieten_timers() -> bool {
    extern "C" fn nobody(_: *mut c_void, _: c_int) {}
    let ours: extern "C" fn(*mut c_void, c_int) = nobody;
    // SAFETY: the list of the main loop's virtual timers lives as long as QEMU and is no shorter than what is looked at;
    // only a word that holds the address of that very function is replaced.
    unsafe {
        let list = main_loop_tlg[CLOCK_VIRTUAL as usize];
        if list.is_null() {
            return false;
        }
        let found = TIMER_LIST_SLOTS.map(|i| list.add(i)).find(|s| **s == qemu_timer_notify_cb as *const () as usize);
        if let Some(slot) = found {
            *slot = ours as *const () as usize;
        }
        found.is_some()
    }
}

static CALLED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
extern "C" fn probe_get() -> i64 {
    CALLED.store(true, std::sync::atomic::Ordering::Relaxed);
    0
}
extern "C" fn probe_set(_: i64) {
    CALLED.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// The words of `AccelOpsClass` behind its `ObjectClass` header, among which the two clock slots are.
const OPS_SLOTS: std::ops::Range<usize> = 13..34;

/// # Safety
/// `ops` must point to QEMU's `AccelOpsClass`.
unsafe fn find_slot(ops: *mut usize, probe: usize, ask: impl Fn()) -> Option<usize> {
    for i in OPS_SLOTS {
        // SAFETY: within the class structure (see OPS_SLOTS).
        let was = unsafe { *ops.add(i) };
        if was != 0 && was != cpu_get_clock as *const () as usize {
            continue;
        }
        CALLED.store(false, std::sync::atomic::Ordering::Relaxed);
        // SAFETY: as above; the original value is restored.
        unsafe { *ops.add(i) = probe };
        ask();
        // SAFETY: as above.
        unsafe { *ops.add(i) = was };
        if CALLED.load(std::sync::atomic::Ordering::Relaxed) {
            return Some(i);
        }
    }
    None
}

/// Nanoseconds until the next virtual timer; `None` where none is armed. Devices' timers are all in the main loop's
/// list; those of other event loops, which have none here, would never run.
pub fn timer_deadline() -> Option<i64> {
    // SAFETY: the list lives as long as QEMU, and locks itself.
    let d = unsafe { timerlist_deadline_ns(main_loop_tlg[CLOCK_VIRTUAL as usize]) };
    (0..1i64 << 60).contains(&d).then_some(d)
}

/// Runs every virtual timer up to `ns`, each at its own time, in the TCG thread, which holds the big lock and for which
/// the clock shows published time.
///
/// QEMU's own function for this also wakes every event loop, to have it look at its timers: at each of some ten thousand
/// steps of a boot, for nothing, since timers run here alone.
pub fn run_timers(ns: i64) {
    while let Some(in_ns) = timer_deadline() {
        // SAFETY: reads and sets the clock that we own.
        let due = unsafe { cpus_get_virtual_clock() } + in_ns;
        if due > ns {
            return;
        }
        // SAFETY: called from the TCG thread with the big lock held.
        unsafe {
            cpus_set_virtual_clock(due);
            qemu_clock_run_timers(CLOCK_VIRTUAL);
        }
    }
}

/// Where the calling thread keeps the CPU it is running (QEMU's thread-local `current_cpu`).
pub fn current_cpu_slot() -> *const Cpu {
    // SAFETY: for a thread-local symbol the lookup gives the calling thread's copy.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"current_cpu".as_ptr()).cast::<Cpu>() }
}

/// Adds `flags` to those that the translations of a vCPU have, and are looked up by; false where QEMU uses any of `all` itself.
pub fn add_compile_flags(cpu: Cpu, flags: u32, all: u32) -> bool {
    // SAFETY: plain access to a vCPU that exists.
    unsafe {
        if cpu.is_null() || curr_cflags(cpu) & all != 0 {
            return false;
        }
        tcg_cflags_set(cpu, flags);
    }
    true
}

/// Takes QEMU's big lock.
pub fn bql_lock() {
    // SAFETY: not held by this thread at the only call.
    unsafe { bql_lock_impl(c"wiretime".as_ptr(), 0) };
}

/// The PCI device with this `-device id=`.
pub fn device(path: &CStr) -> *mut c_void {
    // SAFETY: a lookup in QEMU's object tree.
    unsafe { object_resolve_path(path.as_ptr(), std::ptr::null_mut()) }
}

/// The PCI device of a NIC.
pub fn nic(index: usize) -> *mut c_void {
    device(&CString::new(format!("/machine/peripheral/nic{index}0")).unwrap_or_default())
}

/// Pages of a PCI device that it shares with the guest are memory from now on, or trap; big lock held.
pub fn set_mapped(device: *mut c_void, mapped: bool) {
    extern "C" fn visit(child: *mut c_void, mapped: *mut c_void) -> c_int {
        // SAFETY: a child of a device in QEMU's object tree, whose type is asked first.
        unsafe {
            let region = object_dynamic_cast(child, c"memory-region".as_ptr());
            if !region.is_null() && memory_region_is_ram_device(region) {
                memory_region_set_enabled(region, *mapped.cast::<bool>());
            }
        }
        0
    }
    let mut mapped = mapped;
    if !device.is_null() {
        // SAFETY: the device lives as long as QEMU; TCG thread, big lock held.
        unsafe { object_child_foreach(device, visit, std::ptr::from_mut(&mut mapped).cast()) };
    }
}

/// Writes a PCI device's configuration space as the guest does: `length` bytes, 1, 2 or 4.
pub fn write_config(device: *mut c_void, offset: u32, value: u32, length: u32) {
    // SAFETY: `device` is a PCIDevice; TCG thread, big lock held.
    unsafe { pci_host_config_write_common(device, offset, CONFIG_LIMIT, value, length) };
}

/// The word at a physical address, as the guest reads it; 0 where nothing answers.
pub fn read_word(address: u64) -> u32 {
    let mut bytes = [0; 4];
    access(address, &mut bytes, false);
    u32::from_le_bytes(bytes)
}

/// Writes it as the guest does.
pub fn write_word(address: u64, word: u32) {
    access(address, &mut word.to_le_bytes(), true);
}

fn access(address: u64, bytes: &mut [u8; 4], write: bool) {
    // SAFETY: the address space lives as long as QEMU; no attributes are the attributes of a plain access, 8 bytes by
    // value; TCG thread.
    unsafe {
        address_space_rw(std::ptr::addr_of!(address_space_memory).cast(), address, 0, bytes.as_mut_ptr(), 4, write);
    }
}

/// Drives a PCI device's INTx line.
pub fn set_irq(device: *mut c_void, level: bool) {
    // SAFETY: `device` came from `device()` and is a PCIDevice; TCG thread, big lock held.
    unsafe { pci_set_irq(device, c_int::from(level)) };
}

/// Sends a PCI device's MSI-X message; a masked vector becomes pending.
pub fn notify(device: *mut c_void, vector: u32) {
    // SAFETY: as in `set_irq`; QEMU ignores vectors that the guest does not use.
    unsafe { msix_notify(device, vector) };
}
