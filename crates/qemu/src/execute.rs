//! Execution: what QEMU runs is recorded, then timed. A block executes before it is timed.

use crate::api::{self, MemInfo};
use crate::clock;
use crate::counting::{self, caught_up};
use crate::engine::{engine, Engine, Guest};
use crate::internals::{self, Cpu, RunData};
use crate::kept;
use crate::repeat;
use crate::translate::{Block, InsnRef};
use crate::turns;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use wiretime_hw::core::{MemEvent, MemKind};
use wiretime_hw::memory::LINE;
use wiretime_isa::Isa;

const PAGE: u64 = 4096;

/// A block is about to execute: time the one before, advance devices, and decide whose turn it is.
pub extern "C" fn block_enter(_: c_uint, data: *mut c_void) {
    let e = engine();
    let running = e.running_index();
    // SAFETY: `data` is the block that registered this callback; blocks outlive their translations.
    let block = unsafe { &*data.cast::<Block>() };
    let turn = e.turns.turn;
    if running == turn {
        finish_block(e, running, Some(block));
    }
    e.turns.running = running;
    // SAFETY: a query on a live vCPU.
    let asleep = running != turn && unsafe { internals::cpu_thread_is_idle(e.vcpus[turn].cpu) };
    if asleep {
        // It fell asleep in its turn. Its last block is due now, not whenever the host lets it wake.
        finish_block(e, turn, None);
    }
    if e.turns.irq_due {
        // Driven once the block that caused it is accounted for, whichever vCPU the host lets in first.
        e.turns.must_advance |= running == turn || asleep;
    } else if !e.turns.held() {
        let ended = running == turn && e.vcpus[running].local >= e.turns.window_end;
        if ended && block.ops.is_empty() {
            e.run.note_turn(running, block.paddr);
        }
        if ended || asleep {
            turns::next_turn(e);
        }
    }
    let v = &mut e.vcpus[running];
    if running == e.turns.turn && !e.turns.held() && v.local < e.turns.window_end {
        let now = clock::published();
        if v.local < now {
            // It was idle. Before anything is timed nobody asks what it did.
            if e.run.experiment.full_timing() {
                e.run.core_times[running].sleeps(v.local, now);
            }
            v.local = now;
        }
        if e.run.may_repeat() && !block.quick.is_empty() {
            repeat::at_block(e, running, block);
            if e.turns.held() {
                leave(e, running);
                return;
            }
        }
        let v = &mut e.vcpus[running];
        let local = v.local;
        if v.addresses.stale {
            crate::run::read_translation(e, running);
        }
        clock::set_local(local);
        e.run.apply_writes_of(running, local);
        if block.ops.is_empty() && counting::is_on(e) {
            counting::open(e, running, e.turns.window_end.min(e.run.machine.next_write()));
            return;
        }
        let v = &mut e.vcpus[running];
        v.block = block;
        v.timed = 0;
        if !block.ops.is_empty() {
            crate::run::locate(e, running, block.paddr);
            if e.run.by_kind() {
                crate::run::look(e, running);
            }
        }
        e.turns.blocks += 1;
        return;
    }
    leave(e, running);
}

/// Leaves the block without executing it. Does not return: nothing here may need unwinding.
fn leave(e: &mut Engine, running: usize) {
    let cpu = e.vcpus[running].cpu;
    if e.turns.must_advance && !e.turns.work_queued && !e.turns.keeping {
        e.turns.work_queued = true;
        // SAFETY: queues work for the TCG thread, run when this vCPU has left.
        unsafe { internals::async_run_on_cpu(cpu, due_work, RunData { value: 0 }) };
    }
    let pc = e.read_pc();
    // SAFETY: in a callback with CB_RW_REGS_PC.
    unsafe {
        internals::cpu_exit(cpu);
        api::qemu_plugin_set_pc(pc);
    }
}

/// Runs due timers and drives the interrupt line, in the TCG thread with the big lock held.
extern "C" fn due_work(_: Cpu, _: RunData) {
    let e = engine();
    e.run.map_doorbells();
    if let Some(state) = e.boot.continues.take() {
        e.turns.work_queued = false;
        kept::go_on(e, &state);
        return;
    }
    let start = e.turns.window_start;
    clock::advance_to(start);
    let e = engine();
    e.turns.must_advance = false;
    e.turns.irq_due = false;
    e.turns.work_queued = false;
    let by = start.max(e.turns.irq_at);
    e.run.update_irq(by);
}

/// Accounts for all that `running` has executed: what QEMU has counted, then its current block.
fn finish_block(e: &mut Engine, running: usize, next: Option<&Block>) {
    counting::catch_up(e, running);
    let v = &mut e.vcpus[running];
    if v.block.is_null() {
        return;
    }
    // SAFETY: set from a live block; flushed blocks are kept until accounted for.
    let block = unsafe { &*v.block };
    v.block = ptr::null();
    e.run.time(running, v, block, block.count, next.map(|b| b.paddr));
    v.accesses.clear();
}

/// Accounts for what every vCPU has executed last.
pub fn finish_all(e: &mut Engine) {
    for running in 0..e.vcpus.len() {
        finish_block(e, running, None);
    }
}

/// Times the current block up to, not including, instruction `index`.
fn time_up_to(e: &mut Engine, running: usize, index: u32) {
    let v = &mut e.vcpus[running];
    if v.block.is_null() {
        return;
    }
    // SAFETY: as in `finish_block`.
    let block = unsafe { &*v.block };
    e.run.time(running, v, block, index, None);
    clock::set_local(v.local);
}

/// The reference behind an instruction callback.
///
/// # Safety
/// `data` must be what `translate` registered.
unsafe fn reference<'a>(data: *mut c_void) -> &'a InsnRef {
    // SAFETY: as the caller promises; references live in their blocks.
    unsafe { &*data.cast::<InsnRef>() }
}

/// Hints to wait are skipped: whether QEMU's core halts at one depends on exit requests, so on the host, and both hand the
/// turn away. The guest spins instead, and its own timing pays for it.
pub extern "C" fn skip_hint(_: c_uint, data: *mut c_void) {
    let e = engine();
    // SAFETY: registered with an InsnRef.
    let r = unsafe { reference(data) };
    // SAFETY: as above.
    let offset = unsafe { &*r.block }.page_offset(r.index);
    // In mid-block the pc register may still hold the block's start; its page is right.
    let pc = (e.read_pc() & !0xfff) + offset + 4;
    // SAFETY: in a callback with CB_RW_REGS_PC; does not return, nothing is live.
    unsafe { api::qemu_plugin_set_pc(pc) };
}

/// The guest is about to read its counter: time the part of the block before it.
pub extern "C" fn counter_read(_: c_uint, data: *mut c_void) {
    synchronise(0, data);
    clock::guest_reads();
}

/// Local time must be exact at this instruction.
pub extern "C" fn synchronise(_: c_uint, data: *mut c_void) {
    let (e, running) = caught_up();
    // SAFETY: registered with an InsnRef.
    let index = unsafe { reference(data) }.index;
    time_up_to(e, running, index);
}

/// The registers behind address translation change.
pub extern "C" fn translation_changed(_: c_uint, _: *mut c_void) {
    let e = engine();
    e.run.translations.clear();
    let running = e.turns.running;
    e.vcpus[running].addresses.stale = true;
}

/// The guest invalidates TLB entries, by address or all: every core hears it.
pub extern "C" fn translation_invalidated(_: c_uint, data: *mut c_void) {
    let e = engine();
    e.run.translations.clear();
    // SAFETY: registered with an InsnRef.
    let word = unsafe { reference(data) }.word;
    let page = Guest::invalidated(word, e);
    e.run.invalidate(page);
    for v in &mut e.vcpus {
        v.repeat.lose();
        v.addresses.forget();
    }
}

/// A prefetch or the zeroing of a line, which QEMU shows to no memory callback: compute and translate its address, and
/// append it.
pub extern "C" fn hidden_access(_: c_uint, data: *mut c_void) {
    let e = engine();
    // SAFETY: registered with an InsnRef.
    let r = unsafe { reference(data) };
    let Some((vaddr, kind)) = Guest::hidden_access(r.word, e) else { return };
    let running = e.turns.running;
    let Some(paddr) = e.run.translations.translate(running, vaddr) else { return };
    let v = &mut e.vcpus[running];
    let vaddr = v.addresses.tag(vaddr);
    v.accesses.push(MemEvent { paddr, vaddr, value: 0, index: r.index as u16, kind, size: 1 });
}

/// A load, under full timing.
pub extern "C" fn load(_: c_uint, info: MemInfo, vaddr: u64, data: *mut c_void) {
    memory(info, vaddr, data, MemKind::Load, MemKind::DeviceLoad);
}

/// A store, under full timing.
pub extern "C" fn store(_: c_uint, info: MemInfo, vaddr: u64, data: *mut c_void) {
    memory(info, vaddr, data, MemKind::Store, MemKind::DeviceStore);
}

#[inline]
fn memory(info: MemInfo, vaddr: u64, data: *mut c_void, kind: MemKind, device: MemKind) {
    let e = engine();
    // SAFETY: in a memory callback, as the API asks.
    let paddr = unsafe {
        let hwaddr = api::qemu_plugin_get_hwaddr(info, vaddr);
        if hwaddr.is_null() {
            return;
        }
        if api::qemu_plugin_hwaddr_is_io(hwaddr) {
            device_access(0, info, vaddr, data);
            return;
        }
        api::qemu_plugin_hwaddr_phys_addr(hwaddr)
    };
    // SAFETY: registered with an InsnRef.
    let index = unsafe { reference(data) }.index as u16;
    let running = e.turns.running;
    let (mut kind, mut value) = (kind, 0);
    if e.run.machine.is_device_page(paddr) {
        kind = device;
        if kind == MemKind::DeviceStore {
            // SAFETY: in a memory callback, as the API asks.
            value = e.run.device_page_store(paddr, 1 << unsafe { api::qemu_plugin_mem_size_shift(info) });
        }
    }
    let v = &mut e.vcpus[running];
    let vaddr = v.addresses.tag(vaddr);
    // SAFETY: in a memory callback, as the API asks.
    let size = 1 << unsafe { api::qemu_plugin_mem_size_shift(info) };
    let in_line = (LINE - paddr % LINE).min(size);
    v.accesses.push(MemEvent { paddr, vaddr, value, index, kind, size: in_line as u8 });
    if in_line < size {
        if (paddr + in_line) % PAGE == 0 {
            // Where its rest is, is not known: the models see one of its two lines.
            v.repeat.lose();
        } else {
            let (paddr, vaddr) = (paddr + in_line, vaddr + in_line);
            v.accesses.push(MemEvent { paddr, vaddr, value, index, kind, size: (size - in_line) as u8 });
        }
    }
}

/// An access to a device has happened: at the end of its block, or re-executed alone after the block's first part.
pub extern "C" fn device_access(_: c_uint, info: MemInfo, vaddr: u64, data: *mut c_void) {
    let (e, running) = caught_up();
    // SAFETY: registered with an InsnRef; in a memory callback.
    let (r, store, paddr, is_io) = unsafe {
        let hwaddr = api::qemu_plugin_get_hwaddr(info, vaddr);
        if hwaddr.is_null() {
            return;
        }
        (
            reference(data),
            api::qemu_plugin_mem_is_store(info),
            api::qemu_plugin_hwaddr_phys_addr(hwaddr),
            api::qemu_plugin_hwaddr_is_io(hwaddr),
        )
    };
    let v = &mut e.vcpus[running];
    if v.block.is_null() {
        return;
    }
    // SAFETY: as in `finish_block`; the reference's block as well.
    let (block, own) = unsafe { (&*v.block, &*r.block) };
    if !ptr::eq(block, own) {
        // Re-executed in a block without block callbacks: the current block ended before this instruction. It goes on
        // as a block of its own, whose one instruction this is.
        let index = block.index_at(own.paddr).unwrap_or(block.count);
        e.run.time(running, v, block, index, None);
        v.accesses.clear();
        v.block = own;
        v.vaddr = v.vaddr & !0xfff | own.page_offset(0);
        v.timed = 0;
    }
    if is_io {
        let v = &mut e.vcpus[running];
        let kind = if store { MemKind::DeviceStore } else { MemKind::DeviceLoad };
        let vaddr = v.addresses.tag(vaddr);
        v.accesses.push(MemEvent { paddr, vaddr, value: 0, index: r.index as u16, kind, size: 1 });
        let local = v.local.max(e.turns.window_start);
        if e.run.irq_pending(local) {
            e.turns.irq_due = true;
            e.turns.irq_at = local;
        }
    }
}

/// An exception or interrupt: the current block ended at `from`, or before the next one.
pub extern "C" fn discontinuity(_: c_uint, kind: c_int, from: u64, _to: u64, _: *mut c_void) {
    let (e, running) = caught_up();
    let v = &mut e.vcpus[running];
    if !v.block.is_null() {
        // SAFETY: as in `finish_block`.
        let block = unsafe { &*v.block };
        // An address that the block does not run at is that of what would have come behind it.
        let inside = block.ops.is_empty() || v.addresses.tag(from) >> 12 == v.vaddr >> 12;
        let executed = match kind {
            api::DISCON_EXCEPTION if inside => block.index_at(from).unwrap_or(block.count),
            _ => block.count, // taken between blocks
        };
        v.block = ptr::null();
        e.run.time(running, v, block, executed, None);
        v.accesses.clear();
    }
    e.vcpus[running].repeat.lose();
    e.run.exception_taken(running);
}
