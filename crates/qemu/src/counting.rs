//! While nothing is timed, QEMU counts by itself: code that it adds to each block takes its instructions into account, and
//! calls only where the vCPU has got as far as it may go unseen: the end of its window, or where what a device has written
//! becomes visible.
//!
//! A vCPU whose turn it is has its count *opened*: it starts as many instructions below the limit as its time allows. What
//! it has executed since is taken over by [`catch_up`], which closes it again; every callback does so first, and finds all
//! as if each block had called. A closed count stands at the limit: the next block calls.
//!
//! QEMU builds the address of a count into the code, so that no two vCPUs may share code ([`Counts::own_code`]). It means
//! the place of a vCPU in a scoreboard; ours has places of one byte (a multiplication by more writes to a constant of the
//! translator: QEMU 11.1), and is the base that addresses are given from.
//!
//! Nothing of a result depends on it: with `--every-turn` no count is opened, so that each block calls from the same code; a
//! test compares.

use crate::api::{self, Entry};
use crate::clock;
use crate::engine::{engine, Engine};
use crate::execute;
use crate::internals::{self, Cpu};
use crate::translate::Block;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use wiretime_base::Ps;

/// From here on, blocks call.
const LIMIT: u64 = 1 << 63;

/// Compile flags of QEMU's translations that it has no use for: whose code it is.
const OWNER_SHIFT: u32 = 20;
const OWNERS: u32 = 1 << 4;

/// What QEMU keeps of a vCPU: cells that its code writes to, between callbacks.
pub struct Count {
    /// Instructions of blocks entered, from an arbitrary beginning.
    instructions: Cell<u64>,
    /// The last of them.
    block: Cell<*const Block>,
    /// Where `instructions` stood when it was opened; none where it is closed.
    from: Cell<Option<u64>>,
}

impl Count {
    /// A closed one. It is never freed: its address is in QEMU's code.
    pub fn leaked() -> &'static Self {
        let closed = Self { instructions: Cell::new(LIMIT), block: Cell::new(ptr::null()), from: Cell::new(None) };
        Box::leak(Box::new(closed))
    }

    /// Instructions of blocks entered since it was opened, all of them but the last, and that block; none where none was.
    fn executed(&self) -> Option<(u64, &Block)> {
        let entered = self.instructions.get() - self.from.get()?;
        if entered == 0 {
            return None;
        }
        // SAFETY: the address of a block, written by QEMU's code; it lives until it has been taken over (see `flushed`).
        let block = unsafe { &*self.block.get() };
        Some((entered - u64::from(block.count), block))
    }
}

/// How QEMU gets at counts.
pub struct Counts {
    /// None where there are more vCPUs than owners.
    score: Option<*mut api::Scoreboard>,
    /// Whether any is opened.
    opens: bool,
}

impl Counts {
    /// For that many vCPUs; `opens`: whether blocks may go unseen.
    pub fn new(opens: bool, vcpus: u32) -> Self {
        // SAFETY: QEMU allocates.
        let score = (vcpus <= OWNERS).then(|| unsafe { api::qemu_plugin_scoreboard_new(1) });
        Self { score, opens }
    }

    /// Lets vCPU `index` have code of its own.
    pub fn own_code(&mut self, cpu: Cpu, index: u32) {
        let all = (OWNERS - 1) << OWNER_SHIFT;
        if self.score.is_some() && !internals::add_compile_flags(cpu, index << OWNER_SHIFT, all) {
            self.score = None;
        }
    }

    /// Has QEMU count what it is translating for vCPU `index`; false where each block has to call.
    pub fn add_to(&self, tb: *mut api::Tb, block: &Block, index: usize, count: &'static Count) -> bool {
        let Some(score) = self.score else { return false };
        // SAFETY: all vCPUs exist before anything is translated.
        let base = unsafe { api::qemu_plugin_scoreboard_find(score, 0) } as usize;
        let entry = |place: usize| Entry { score, offset: place.wrapping_sub(base).wrapping_sub(index) };
        let (instructions, last) = (entry(count.instructions.as_ptr() as usize), entry(count.block.as_ptr() as usize));
        let data = ptr::from_ref(block).cast_mut().cast::<c_void>();
        // SAFETY: the block outlives QEMU's translation (see `Blocks`). In this order: a block that is left is not counted.
        unsafe {
            api::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                tb,
                execute::block_enter,
                api::CB_RW_REGS_PC,
                api::COND_GE,
                instructions,
                LIMIT,
                data,
            );
            api::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, api::ADD_U64, instructions, block.count.into());
            api::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, api::STORE_U64, last, data as u64);
        }
        true
    }
}

/// Whether blocks that are not timed may go unseen.
#[inline]
pub fn is_on(e: &Engine) -> bool {
    e.counts.opens && e.counts.score.is_some()
}

/// vCPU `index` may execute blocks unseen up to `until`, which is later than its own time; it is in none.
pub fn open(e: &mut Engine, index: usize, until: Ps) {
    let step = e.run.boot_instruction();
    let v = &mut e.vcpus[index];
    let ahead = (until - v.local).0.div_ceil(step.0).min(LIMIT / 2);
    v.count.from.set(Some(LIMIT - ahead));
    v.count.instructions.set(LIMIT - ahead);
    clock::follow(Followed { count: v.count, from: v.local, step });
}

/// Takes over what vCPU `index` has executed since its count was opened, and closes it: its last block is what it executes.
#[inline]
pub fn catch_up(e: &mut Engine, index: usize) {
    if e.vcpus[index].count.from.get().is_some() {
        close(e, index);
    }
}

fn close(e: &mut Engine, index: usize) {
    clock::unfollow();
    let v = &mut e.vcpus[index];
    let executed = v.count.executed();
    v.count.from.set(None);
    v.count.instructions.set(LIMIT);
    if let Some((finished, block)) = executed {
        e.run.count(index, v, finished);
        (v.block, v.timed) = (block, 0);
        clock::set_local(v.local);
        e.turns.blocks += 1;
    }
}

/// The engine, and the vCPU whose code runs in this thread now, caught up.
pub fn caught_up() -> (&'static mut Engine, usize) {
    let e = engine();
    let running = e.running_index();
    e.turns.running = running;
    catch_up(e, running);
    (e, running)
}

/// The time of a vCPU whose count is open.
#[derive(Clone, Copy)]
pub struct Followed {
    count: &'static Count,
    from: Ps,
    step: Ps,
}

impl Followed {
    /// When the block began that it executes; none where it has not begun one.
    pub fn now(&self) -> Option<Ps> {
        let (finished, _) = self.count.executed()?;
        Some(self.from + finished * self.step)
    }
}
