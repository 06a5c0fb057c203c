//! Bindings to QEMU's TCG plugin API, version 7 (`qemu-plugin.h`), as far as used.
//!
//! In version 7 every registration takes a `userdata` pointer, which callbacks receive as their last argument.
#![allow(missing_docs)] // names and meaning are QEMU's

use std::ffi::{c_char, c_int, c_uint, c_void};

pub const API_VERSION: c_int = 7;

#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_cur: c_int,
    pub system_emulation: bool,
    pub smp_vcpus: c_int,
    pub max_vcpus: c_int,
}

pub enum Tb {}
pub enum Insn {}
pub enum Hwaddr {}
pub enum Scoreboard {}

/// A word of each vCPU's part of a scoreboard (`qemu_plugin_u64`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    pub score: *mut Scoreboard,
    pub offset: usize,
}

pub type MemInfo = u32;
pub type VcpuCb = extern "C" fn(c_uint, *mut c_void);
pub type TransCb = extern "C" fn(*mut Tb, *mut c_void);
pub type MemCb = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
pub type VoidCb = extern "C" fn(*mut c_void);
pub type DisconCb = extern "C" fn(c_uint, c_int, u64, u64, *mut c_void);
pub type PluginCb = extern "C" fn(*mut c_void);

/// Flags of execution callbacks: what they may touch.
pub const CB_NO_REGS: c_int = 0;
pub const CB_RW_REGS_PC: c_int = 3;
/// When a conditional callback is called: unsigned, at or above.
pub const COND_GE: c_int = 7;
/// What a block does inline to a word.
pub const ADD_U64: c_int = 0;
pub const STORE_U64: c_int = 1;
/// Which accesses a memory callback sees.
pub const MEM_R: c_int = 1;
pub const MEM_W: c_int = 2;
pub const MEM_RW: c_int = 3;
/// Kinds of discontinuities.
pub const DISCON_INTERRUPT: c_int = 1;
pub const DISCON_EXCEPTION: c_int = 2;

#[repr(C)]
pub struct RegDescriptor {
    pub handle: *mut c_void,
    pub name: *const c_char,
    pub feature: *const c_char,
    pub is_readonly: bool,
}

/// glib's `GArray` and `GByteArray`, the public part.
#[repr(C)]
pub struct GArray {
    pub data: *mut c_char,
    pub len: c_uint,
}
#[repr(C)]
pub struct GByteArray {
    pub data: *mut u8,
    pub len: c_uint,
}

extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: u64, cb: VcpuCb, userdata: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, cb: TransCb, userdata: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(tb: *mut Tb, cb: VcpuCb, flags: c_int, userdata: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        tb: *mut Tb,
        cb: VcpuCb,
        flags: c_int,
        cond: c_int,
        entry: Entry,
        imm: u64,
        userdata: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb: *mut Tb, op: c_int, entry: Entry, imm: u64);
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(insn: *mut Insn, cb: VcpuCb, flags: c_int, userdata: *mut c_void);
    pub fn qemu_plugin_register_vcpu_mem_cb(insn: *mut Insn, cb: MemCb, flags: c_int, rw: c_int, userdata: *mut c_void);
    pub fn qemu_plugin_register_vcpu_discon_cb(id: u64, types: c_int, cb: DisconCb, userdata: *mut c_void);
    pub fn qemu_plugin_register_flush_cb(id: u64, cb: VoidCb, userdata: *mut c_void);
    pub fn qemu_plugin_register_atexit_cb(id: u64, cb: VoidCb, userdata: *mut c_void);
    pub fn qemu_plugin_reset(id: u64, cb: PluginCb, userdata: *mut c_void);

    pub fn qemu_plugin_scoreboard_new(element_size: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_scoreboard_find(score: *mut Scoreboard, vcpu_index: c_uint) -> *mut c_void;

    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, i: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_data(insn: *const Insn, dest: *mut c_void, len: usize) -> usize;

    pub fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
    pub fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    pub fn qemu_plugin_get_hwaddr(info: MemInfo, vaddr: u64) -> *mut Hwaddr;
    pub fn qemu_plugin_hwaddr_is_io(haddr: *const Hwaddr) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(haddr: *const Hwaddr) -> u64;
    pub fn qemu_plugin_translate_vaddr(vaddr: u64, hwaddr: *mut u64) -> bool;

    pub fn qemu_plugin_get_registers() -> *mut GArray;
    pub fn qemu_plugin_read_register(handle: *mut c_void, buf: *mut GByteArray) -> bool;
    pub fn qemu_plugin_set_pc(vaddr: u64);

    // glib, linked into QEMU
    pub fn g_byte_array_new() -> *mut GByteArray;
    pub fn g_byte_array_set_size(array: *mut GByteArray, len: c_uint) -> *mut GByteArray;
}
