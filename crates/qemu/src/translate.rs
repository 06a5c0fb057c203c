//! Translation: what QEMU turns into a block is decoded once, and told where to call back.

use crate::api::{self, Insn, Tb};
use crate::counting;
use crate::engine::{engine, Engine, Guest};
use crate::execute;
use crate::repeat;
use crate::run::{Charged, Profile};
use crate::turns::Vcpu;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use wiretime_hw::core::{Class, MicroOp, Quick};
use wiretime_isa::{Isa, Special};

/// A translated block: straight-line code inside one page.
pub struct Block {
    /// Physical address of its first instruction: its identity (QEMU's blocks are position independent).
    pub paddr: u64,
    /// Number of instructions.
    pub count: u32,
    /// What each instruction was charged, where a profile is wanted.
    pub charged: Box<[Cell<Charged>]>,
    /// The virtual address that it had then, the last one where it had several.
    pub profiled_at: Cell<u64>,
    /// Whether all that it does follows from registers and memory (see [`Isa::is_steady`]), vectors among them.
    pub steady: bool,
    pub vectors: bool,
    /// A loop that repeats has its head here.
    pub repeats: Cell<bool>,
    /// Decoded instructions; empty where only blocks are counted.
    pub ops: Box<[MicroOp]>,
    /// What the core model looks at first of each.
    pub quick: Box<[Quick]>,
    /// What instruction callbacks point to.
    pub insns: Box<[InsnRef]>,
}

/// One instruction of a block, as callbacks know it.
pub struct InsnRef {
    pub block: *const Block,
    pub index: u32,
    pub word: u32,
}

impl Block {
    /// Offset of instruction `i` in its page.
    pub fn page_offset(&self, i: u32) -> u64 {
        (self.paddr & 0xfff) + u64::from(i) * Guest::BYTES
    }

    /// Which instruction of the block stands at this address, by page offset.
    pub fn index_at(&self, address: u64) -> Option<u32> {
        let offset = (address & 0xfff).checked_sub(self.paddr & 0xfff)?;
        let index = (offset / Guest::BYTES) as u32;
        (index < self.count).then_some(index)
    }
}

/// All live blocks. QEMU keeps pointers into them until it flushes its translations.
#[derive(Default)]
pub struct Blocks {
    // Boxed because QEMU and vCPUs hold their addresses.
    #[allow(clippy::vec_box)]
    live: Vec<Box<Block>>,
}

impl Blocks {
    /// Drops every block but those that a vCPU still has to account for.
    fn flush(&mut self, vcpus: &[Vcpu], profile: &mut Profile) {
        self.live.iter().for_each(|b| profile.collect(b));
        self.live.retain(|b| vcpus.iter().any(|v| ptr::eq(&**b, v.block)));
    }
}

impl Blocks {
    /// Adds what all live blocks were charged to the profile.
    pub fn collect(&self, profile: &mut Profile) {
        self.live.iter().for_each(|b| profile.collect(b));
    }
}

/// QEMU has dropped all its translations; no vCPU is inside a block.
pub extern "C" fn flushed(_: *mut c_void) {
    let e = engine();
    // Counts point to blocks.
    (0..e.vcpus.len()).for_each(|index| counting::catch_up(e, index));
    repeat::forget_all(&mut e.vcpus);
    e.blocks.flush(&e.vcpus, &mut e.run.profile);
}

/// QEMU has translated a block.
pub extern "C" fn translate(tb: *mut Tb, _: *mut c_void) {
    let e = engine();
    let full = e.run.experiment.full_timing();
    // SAFETY: QEMU's block, valid during this callback.
    let (count, vaddr) = unsafe {
        let n = api::qemu_plugin_tb_n_insns(tb);
        (n, api::qemu_plugin_insn_vaddr(api::qemu_plugin_tb_get_insn(tb, 0)))
    };
    let mut paddr = 0;
    // SAFETY: in a vCPU context, as the API asks; where it fails the virtual address stands in.
    if !unsafe { api::qemu_plugin_translate_vaddr(vaddr, &mut paddr) } {
        paddr = vaddr & 0x0000_ffff_ffff_ffff;
    }
    let mut block = Box::new(Block {
        paddr,
        count: count as u32,
        charged: if full && e.run.experiment.settings.profile {
            vec![Cell::default(); count].into()
        } else {
            Box::default()
        },
        profiled_at: Cell::new(0),
        steady: full,
        vectors: false,
        repeats: Cell::new(false),
        ops: Box::default(),
        quick: Box::default(),
        insns: Box::default(),
    });
    let block_ptr: *const Block = &*block;
    let mut ops = Vec::with_capacity(if full { count } else { 0 });
    let mut insns = Vec::with_capacity(count);
    for i in 0..count {
        let mut word = 0u32;
        // SAFETY: as above; four bytes into a word of ours.
        unsafe {
            let insn = api::qemu_plugin_tb_get_insn(tb, i);
            api::qemu_plugin_insn_data(insn, ptr::from_mut(&mut word).cast(), 4);
        }
        insns.push(InsnRef { block: block_ptr, index: i as u32, word });
        if full {
            ops.push(Guest::decode(word));
            block.steady &= Guest::is_steady(word);
        }
    }
    block.vectors = ops.iter().any(MicroOp::uses_vectors);
    block.quick = Quick::block(&ops).into();
    block.ops = ops.into();
    block.insns = insns.into();
    register(e, tb, &block, full);
    e.blocks.live.push(block);
}

fn register(e: &mut Engine, tb: *mut Tb, block: &Block, full: bool) {
    let running = e.running_index();
    if full || !e.counts.add_to(tb, block, running, e.vcpus[running].count) {
        let data = ptr::from_ref(block).cast_mut().cast::<c_void>();
        // SAFETY: the block outlives QEMU's translation (see `Blocks`).
        unsafe { api::qemu_plugin_register_vcpu_tb_exec_cb(tb, execute::block_enter, api::CB_RW_REGS_PC, data) };
    }
    // A block of one instruction may be QEMU's re-execution of a device access in mid-block, which has memory callbacks only.
    let lone = block.count == 1;
    for reference in &block.insns {
        // SAFETY: as above.
        let insn = unsafe { api::qemu_plugin_tb_get_insn(tb, reference.index as usize) };
        let data = ptr::from_ref(reference).cast_mut().cast::<c_void>();
        let call = |cb, flags| {
            // SAFETY: the reference lives in the block.
            unsafe { api::qemu_plugin_register_vcpu_insn_exec_cb(insn, cb, flags, data) };
        };
        match Guest::special(reference.word) {
            Special::Hint => call(execute::skip_hint, api::CB_RW_REGS_PC),
            Special::ReadsCounter => call(execute::counter_read, api::CB_NO_REGS),
            Special::ArmsTimer => call(execute::synchronise, api::CB_NO_REGS),
            Special::ChangesTranslation if full => call(execute::translation_changed, api::CB_NO_REGS),
            Special::InvalidatesTranslation if full => call(execute::translation_invalidated, api::CB_RW_REGS_PC),
            _ => {}
        }
        if full {
            match block.ops[reference.index as usize].class {
                Class::Prefetch | Class::ZeroLine if e.run.sees_hidden_accesses() => {
                    call(execute::hidden_access, api::CB_RW_REGS_PC);
                }
                _ => {}
            }
        }
        if full {
            register_memory(insn, execute::load, api::MEM_R, data);
            register_memory(insn, execute::store, api::MEM_W, data);
        } else if lone {
            register_memory(insn, execute::device_access, api::MEM_RW, data);
        }
    }
}

fn register_memory(insn: *mut Insn, cb: api::MemCb, which: c_int, data: *mut c_void) {
    // SAFETY: the reference behind `data` lives as long as QEMU's translation.
    unsafe { api::qemu_plugin_register_vcpu_mem_cb(insn, cb, api::CB_NO_REGS, which, data) };
}
