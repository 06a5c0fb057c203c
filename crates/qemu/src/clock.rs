//! The guest's clock is the simulator's: what QEMU reads, how timers run, and what happens when every vCPU idles.

use crate::counting::Followed;
use crate::engine::engine;
use crate::internals;
use crate::kept;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use wiretime_base::Ps;

/// Time that all of the machine has reached, in ns; all timers up to here have run.
static PUBLISHED: AtomicI64 = AtomicI64::new(0);
/// The running vCPU's own time, in ns.
static LOCAL: AtomicI64 = AtomicI64::new(0);
/// While timers run the clock shows published time.
static ADVANCING: AtomicBool = AtomicBool::new(false);
/// The next read is a guest instruction's.
static GUEST_READS: AtomicBool = AtomicBool::new(false);
static LAST_GUEST_READ: AtomicI64 = AtomicI64::new(0);

/// The machine stands still while its state is kept or brought back: every thread sees published time.
static STANDS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IN_TCG: Cell<bool> = const { Cell::new(false) };
    /// The vCPU that goes on unseen: its time, not the one last set, is the running one's.
    static FOLLOWED: Cell<Option<Followed>> = const { Cell::new(None) };
}

/// Marks the calling thread as the TCG thread.
#[inline]
pub fn enter_tcg_thread() {
    IN_TCG.with(|t| t.set(true));
}

/// Published time in ps.
pub fn published() -> Ps {
    Ps::from_ns(PUBLISHED.load(Relaxed) as u64)
}

/// QEMU reads the virtual clock. In the TCG thread that is the running vCPU's own time. What a guest instruction reads
/// never goes backwards across vCPUs; QEMU's own reads happen at host-dependent moments and must leave no trace.
///
/// Other threads see power-on: an event loop that saw time pass would wake for every timer of the guest, and run it. What
/// a thread arms for later (the monitor's power button at the console) happens at once.
pub extern "C" fn get() -> i64 {
    if STANDS.load(Relaxed) {
        return PUBLISHED.load(Relaxed);
    }
    if !IN_TCG.with(Cell::get) {
        return 0;
    }
    if ADVANCING.load(Relaxed) {
        return PUBLISHED.load(Relaxed);
    }
    let unseen = FOLLOWED.get().and_then(|followed| followed.now());
    let local = unseen.map_or_else(|| LOCAL.load(Relaxed), |t| t.ns() as i64);
    if !GUEST_READS.swap(false, Relaxed) {
        return local;
    }
    // Only the TCG thread gets here: no race between read and write.
    let read = LAST_GUEST_READ.load(Relaxed).max(local);
    LAST_GUEST_READ.store(read, Relaxed);
    read
}

/// Published time is all that there is, or not any more.
pub fn stand_still(still: bool) {
    STANDS.store(still, Relaxed);
}

/// The clock, to be kept: published, the running vCPU's, and the last that a guest has read, in ns.
pub fn reading() -> [i64; 3] {
    [&PUBLISHED, &LOCAL, &LAST_GUEST_READ].map(|t| t.load(Relaxed))
}

/// As it was.
pub fn set_reading(ns: [i64; 3]) {
    for (time, ns) in [&PUBLISHED, &LOCAL, &LAST_GUEST_READ].into_iter().zip(ns) {
        time.store(ns, Relaxed);
    }
}

/// The running vCPU stands at `t`.
#[inline]
pub fn set_local(t: Ps) {
    LOCAL.store(t.ns() as i64, Relaxed);
}

/// The running vCPU goes on unseen.
pub fn follow(followed: Followed) {
    FOLLOWED.set(Some(followed));
}

/// It does so no longer.
pub fn unfollow() {
    FOLLOWED.set(None);
}

/// The guest is about to read its counter.
pub fn guest_reads() {
    GUEST_READS.store(true, Relaxed);
}

/// QEMU sets the virtual clock, or timers run up to here.
pub extern "C" fn set(ns: i64) {
    PUBLISHED.store(ns, Relaxed);
}

/// Publishes `t` without running timers: the caller knows that none is due.
pub fn publish(t: Ps) {
    PUBLISHED.store(t.ns() as i64, Relaxed);
}

/// Runs every timer up to `t`, each at its own time, in this (the TCG) thread, with the big lock held.
pub fn advance_to(t: Ps) {
    let ns = t.ns() as i64;
    ADVANCING.store(true, Relaxed);
    internals::run_timers(ns);
    if PUBLISHED.load(Relaxed) < ns {
        set(ns);
    }
    ADVANCING.store(false, Relaxed);
}

/// When the next virtual timer is due.
pub fn next_timer() -> Option<Ps> {
    ADVANCING.store(true, Relaxed);
    let d = internals::timer_deadline();
    ADVANCING.store(false, Relaxed);
    d.map(|d| published() + Ps::from_ns(d as u64))
}

/// QEMU waits for a condition. The TCG thread does so only when all vCPUs idle (called with the big lock held):
/// then time jumps to the next timer or device event, and the wait returns at once.
pub extern "C" fn wait(cond: *mut c_void, mutex: *mut c_void, file: *const c_char, line: c_int) {
    let really_wait = || internals::real_wait(cond, mutex, file, line);
    // Any thread of QEMU comes here: the engine is the TCG thread's, and at exit the main thread's, which has stopped the
    // other one. SAFETY: plain query of QEMU's state.
    if !IN_TCG.with(Cell::get) || !unsafe { internals::runstate_is_running() } {
        really_wait();
        return;
    }
    let e = engine();
    if e.turns.keeping {
        really_wait();
        return;
    }
    if let Some(state) = e.boot.continues.take() {
        kept::go_on(e, &state);
    }
    crate::execute::finish_all(e);
    // Without progress of the guest, let go of the big lock now and then, or the main loop cannot shut QEMU down.
    e.turns.dry_waits = if e.turns.blocks_at_wait == e.turns.blocks { e.turns.dry_waits + 1 } else { 0 };
    e.turns.blocks_at_wait = e.turns.blocks;
    if e.turns.dry_waits > 4 {
        // SAFETY: held by this thread, as QEMU's wait asks.
        unsafe { internals::bql_unlock() };
        std::thread::sleep(std::time::Duration::from_micros(100));
        internals::bql_lock();
    }
    let now = e.vcpus.iter().map(|v| v.local).fold(published().max(e.turns.window_start), Ps::max);
    advance_to(now);
    e.run.update_irq(now);
    e.turns.asleep = true;
    // SAFETY: plain query.
    while unsafe { internals::all_cpu_threads_idle() } {
        let timer = next_timer();
        // What a device has sent, ahead of the cores, is there at its time.
        let irq = e.run.next_irq().filter(|&irq| irq > published());
        let known = timer.into_iter().chain(irq).min();
        let device = e.run.next_device_time(known).into_iter().chain(irq).min();
        let Some(t) = [timer, device].into_iter().flatten().min() else {
            e.turns.asleep = false;
            really_wait();
            return;
        };
        if e.run.host_speed() {
            pace(t);
        }
        // Devices act on the grid of windows, as they do while vCPUs run.
        let t = match device {
            Some(d) if timer.is_none_or(|timer| d <= timer) => e.turns.grid_after(d),
            _ => t,
        };
        let end = e.turns.end_of_window(t);
        e.run.advance_devices(end);
        e.run.machine.reached(end - e.turns.quantum);
        e.run.apply_writes(t);
        advance_to(t);
        e.run.update_irq(t);
        crate::run::window_tick(e, t);
        if e.turns.keeping {
            really_wait();
            return;
        }
    }
    e.turns.asleep = false;
    // What a measurement's end has decided meanwhile holds for the first store of who wakes up.
    e.run.map_doorbells();
    e.turns.wake_up(published());
}

/// While a person sits at the console, idle time passes at host speed.
fn pace(t: Ps) {
    let now = published();
    let wait = std::time::Duration::from_nanos(t.saturating_sub(now).ns()).min(std::time::Duration::from_millis(10));
    // SAFETY: held by this thread, as QEMU's wait asks.
    unsafe { internals::bql_unlock() };
    std::thread::sleep(wait);
    internals::bql_lock();
}
