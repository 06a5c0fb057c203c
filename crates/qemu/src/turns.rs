//! Which vCPU runs: windows on a fixed grid; in each, every vCPU that is not idle runs, in index order, until its own
//! time reaches the window's end. RCU and other host threads make vCPUs leave at host-dependent moments; since a vCPU
//! whose turn it is not executes nothing, that is harmless.

use crate::clock;
use crate::counting::Count;
use crate::engine::Engine;
use crate::internals::{self, Cpu};
use crate::repeat::Repeat;
use crate::run::Addresses;
use crate::translate::Block;
use std::ptr;
use wiretime_base::Ps;
use wiretime_hw::core::MemEvent;

/// One vCPU as the engine sees it.
pub struct Vcpu {
    pub cpu: Cpu,
    /// Its own time: the dispatch time of its next instruction, ps.
    pub local: Ps,
    /// What the core model made of it last: another value means that time has passed without it.
    pub timed_local: Ps,
    /// The block that QEMU is executing or has executed, not yet timed as a whole; null after it.
    pub block: *const Block,
    /// What it executes unseen.
    pub count: &'static Count,
    /// Instructions of `block` already timed.
    pub timed: u32,
    /// Tagged virtual address of `block`, under full timing.
    pub vaddr: u64,
    /// What its addresses mean.
    pub addresses: Addresses,
    /// Memory accesses of `block`, in order.
    pub accesses: Vec<MemEvent>,
    /// The loop that it may be in.
    pub repeat: Repeat,
}

impl Default for Vcpu {
    fn default() -> Self {
        Self {
            cpu: ptr::null_mut(),
            local: Ps::ZERO,
            timed_local: Ps::ZERO,
            block: ptr::null(),
            count: Count::leaked(),
            timed: 0,
            vaddr: 0,
            addresses: Addresses::default(),
            accesses: Vec::with_capacity(4096),
            repeat: Repeat::default(),
        }
    }
}

/// The window and whose turn it is.
pub struct Turns {
    pub turn: usize,
    /// Whose local time the clock shows.
    pub running: usize,
    pub window_start: Ps,
    pub window_end: Ps,
    pub quantum: Ps,
    /// Timers or interrupts are due: run them outside the block before anything else executes.
    pub must_advance: bool,
    /// A device access has changed the interrupt line: drive it as soon as its block is accounted for.
    pub irq_due: bool,
    /// When that was: by then devices' interrupts are there.
    pub irq_at: Ps,
    /// The work for one of these is queued and has not run yet: nothing executes.
    pub work_queued: bool,
    /// Between a `qemu_plugin_reset` and its completion nothing executes.
    pub switching: bool,
    /// The state of the machine is being kept: nothing executes.
    pub keeping: bool,
    /// Every vCPU sleeps, and time jumps.
    pub asleep: bool,
    pub blocks: u64,
    pub blocks_at_wait: u64,
    pub dry_waits: u32,
}

impl Turns {
    /// Whether nothing may execute now, whoever's turn it is.
    #[inline]
    pub fn held(&self) -> bool {
        self.must_advance || self.irq_due || self.work_queued || self.switching || self.keeping
    }

    pub fn new(quantum: Ps) -> Self {
        Self {
            turn: 0,
            running: 0,
            window_start: Ps::ZERO,
            window_end: quantum,
            quantum,
            must_advance: false,
            irq_due: false,
            irq_at: Ps::ZERO,
            work_queued: false,
            switching: false,
            keeping: false,
            asleep: false,
            blocks: 0,
            blocks_at_wait: 0,
            dry_waits: 0,
        }
    }

    /// The first window boundary at or after `t`.
    pub fn grid_after(&self, t: Ps) -> Ps {
        t.div_ceil(self.quantum) * self.quantum
    }

    /// The end of the window that holds `t`.
    pub fn end_of_window(&self, t: Ps) -> Ps {
        t - t % self.quantum + self.quantum
    }

    /// Starts over in the window that holds `t`. Windows stay on a fixed grid: QEMU's own kick timer fires at
    /// host-dependent times and must not shift them.
    pub fn restart_at(&mut self, t: Ps) {
        self.window_end = self.end_of_window(t);
        self.window_start = self.window_end - self.quantum;
        self.turn = 0;
    }

    /// The clock has jumped to `t`, where somebody runs again.
    pub fn wake_up(&mut self, t: Ps) {
        self.restart_at(t);
        (self.must_advance, self.irq_due) = (false, false);
    }

    /// Changes the quantum; takes effect at the next window, whose start stays where the current one ends.
    pub fn set_quantum(&mut self, quantum: Ps) {
        self.quantum = quantum;
    }
}

/// Moves the turn to the next vCPU that may run, through as many windows as it takes, or until something is due.
pub fn next_turn(e: &mut Engine) {
    loop {
        e.turns.turn += 1;
        if e.turns.turn >= e.vcpus.len() {
            e.turns.turn = 0;
            open_window(e, e.turns.window_end);
        }
        let v = &e.vcpus[e.turns.turn];
        // SAFETY: a query on a live vCPU.
        let runs = v.local < e.turns.window_end && !unsafe { internals::cpu_thread_is_idle(v.cpu) };
        if runs || e.turns.must_advance || e.turns.switching || e.turns.keeping {
            return;
        }
    }
}

/// The next window begins, at `start`.
fn open_window(e: &mut Engine, start: Ps) {
    e.turns.window_start = start;
    // A changed quantum falls in with its own grid here.
    e.turns.window_end = (start / e.turns.quantum + 1) * e.turns.quantum;
    e.run.apply_writes(start);
    e.run.advance_devices(e.turns.window_end);
    // Only now: in a jump of the clock devices have acted before the window, too.
    e.run.machine.reached(start);
    let irq = e.run.irq_pending(start);
    match clock::next_timer() {
        Some(t) if t <= start => e.turns.must_advance = true,
        _ if irq => e.turns.must_advance = true,
        _ => clock::publish(start),
    }
    crate::run::window_tick(e, start);
}

/// Goes to the window that holds `t`, through windows in which nothing happens.
pub fn go_to_window_of(e: &mut Engine, t: Ps) {
    let (first, grid) = (e.turns.window_end, t - t % e.turns.quantum);
    let start = grid.max(first);
    // The first one may begin off its grid.
    let passed = (start / e.turns.quantum).saturating_sub(first / e.turns.quantum);
    e.run.experiment.set_ticks(e.run.experiment.ticks().wrapping_add(passed as u32));
    open_window(e, start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_on_their_grid() {
        let mut t = Turns::new(Ps::from_ns(230));
        assert_eq!(
            (t.grid_after(Ps::ZERO), t.grid_after(Ps(1)), t.grid_after(Ps::from_ns(230)), t.grid_after(Ps(230_001))),
            (Ps::ZERO, Ps::from_ns(230), Ps::from_ns(230), Ps::from_ns(460))
        );
        t.turn = 3;
        t.restart_at(Ps::from_us(1));
        assert_eq!((t.turn, t.window_start, t.window_end), (0, Ps::from_ns(920), Ps::from_ns(1150)));
        // Another quantum does not move the window that is open.
        t.set_quantum(Ps::from_us(10));
        assert_eq!(
            (t.window_start, t.window_end, t.grid_after(Ps::from_ns(1150))),
            (Ps::from_ns(920), Ps::from_ns(1150), Ps::from_us(10))
        );
        t.restart_at(Ps::from_ns(1150));
        assert_eq!((t.window_start, t.window_end), (Ps::ZERO, Ps::from_us(10)));
    }

    #[test]
    fn anything_due_holds_everybody() {
        let due: [fn(&mut Turns); 5] = [
            |t| t.must_advance = true,
            |t| t.irq_due = true,
            |t| t.work_queued = true,
            |t| t.switching = true,
            |t| t.keeping = true,
        ];
        for set in due {
            let mut t = Turns::new(Ps(1));
            assert!(!t.held());
            set(&mut t);
            assert!(t.held());
        }
    }
}
