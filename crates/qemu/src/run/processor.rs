//! Processor time by kind, as `mpstat` names it: what each core's simulated time went to.
//!
//! Once a microsecond of the time that a core is awake it is looked at: user code by its address, the kernel by the preemption
//! count of the current task (linux/preempt.h), the idle task by who runs when a core wakes. A sample stands for the time since
//! the one before, but for what the core slept, which is known exactly. Time asleep moves the next sample, so that it falls
//! anywhere behind a wake-up: a core that does the same at each would else be looked at in the same places. Over 10 ms a share
//! is good to half a percent point.
//! Where the kernel keeps them is the instruction set's to say (`wiretime_isa`).

use crate::api;
use crate::engine::{Engine, Guest};
use serde::{Deserialize, Serialize};
use wiretime_base::Ps;
use wiretime_hw::memory::GuestMemory;
use wiretime_isa::Isa;

const EVERY: Ps = Ps::from_us(1);
const SOFTIRQ: u32 = 0x100;
const HARDIRQ: u32 = 0xf_0000;

/// In the order of [`wiretime_experiment::Times`].
const USER: usize = 0;
const SYSTEM: usize = 1;
const SOFT: usize = 2;
const IRQ: usize = 3;

/// How it is found what the time of one vCPU went to.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct CoreTime {
    /// When the next sample is due.
    next: Ps,
    last: Ps,
    slept: Ps,
    idle_task: u64,
    woken: bool,
}

impl CoreTime {
    /// The core slept from `from` to `to`.
    pub fn sleeps(&mut self, from: Ps, to: Ps) {
        let slept = to.saturating_sub(from);
        self.slept += slept;
        self.next += slept;
        self.woken = true;
    }

    /// Whether it is to be looked at: for a sample, or, since whoever runs first is the idle task, behind a sleep.
    #[inline]
    fn is_due(&self, local: Ps) -> bool {
        self.woken || local >= self.next
    }
}

/// Looks at what vCPU `index` is about to do, if it is time.
#[inline]
pub fn look(e: &mut Engine, index: usize) {
    if e.run.core_times[index].is_due(e.vcpus[index].local) {
        sample(e, index);
    }
}

#[cold]
fn sample(e: &mut Engine, index: usize) {
    let (local, vaddr) = (e.vcpus[index].local, e.vcpus[index].vaddr);
    let kernel_runs = Guest::in_kernel(vaddr);
    if std::mem::take(&mut e.run.core_times[index].woken) {
        if kernel_runs {
            e.run.core_times[index].idle_task = Guest::current_task(e);
        }
        if local < e.run.core_times[index].next {
            return;
        }
    }
    let kind = if kernel_runs {
        let task = Guest::current_task(e);
        kernel(e, index, task)
    } else {
        Some(USER)
    };
    let a = &mut e.run.core_times[index];
    let elapsed = local.saturating_sub(a.last).saturating_sub(a.slept);
    if let Some(kind) = kind.filter(|_| a.last > Ps::ZERO) {
        e.run.times[index][kind] += elapsed;
    }
    let a = &mut e.run.core_times[index];
    (a.last, a.next, a.slept) = (local, local + EVERY, Ps::ZERO);
}

fn kernel(e: &Engine, index: usize, task: u64) -> Option<usize> {
    let mut paddr = 0;
    let mut count = [0; 4];
    // SAFETY: in a vCPU context, as the API asks.
    if !unsafe { api::qemu_plugin_translate_vaddr(Guest::preempt_count(task), &mut paddr) }
        || !e.run.ram.read(paddr, &mut count)
    {
        return Some(SYSTEM);
    }
    let count = u32::from_le_bytes(count);
    if count & HARDIRQ != 0 {
        Some(IRQ)
    } else if count & SOFTIRQ != 0 {
        Some(SOFT)
    } else if task == e.run.core_times[index].idle_task {
        None
    } else {
        Some(SYSTEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_asleep_moves_the_next_sample() {
        let mut c = CoreTime { next: Ps::from_us(5), ..CoreTime::default() };
        c.sleeps(Ps::from_us(3), Ps::from_us(10));
        assert_eq!((c.next, c.slept, c.woken), (Ps::from_us(12), Ps::from_us(7), true));
        assert!(c.is_due(Ps::ZERO), "who runs first is the idle task");
    }
}
