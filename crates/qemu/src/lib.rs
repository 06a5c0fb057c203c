//! The full-system engine: a TCG plugin inside a stock QEMU that owns guest time.
//!
//! - `api`, `internals`: QEMU's plugin API and the few internals relied upon, with the start-up self-test.
//! - `clock`, `turns`: simulated time, timers, idle jumps, and which vCPU runs when.
//! - `translate`, `execute`: what QEMU translates and executes, handed to the core models; `counting`: instructions counted
//!   inline while nothing is timed; `repeat`: turns of loops that find nothing, taken at once.
//! - `vfio`: the vfio-user server through which QEMU sees our devices; `memory`: guest memory mapped for DMA.
//! - `kept`: boots once: the state before the first packet, kept and continued.
//! - `run`: the phases of a run; `control`: configuration in, progress and results out.
//!
//! One thread, QEMU's TCG thread, owns the engine. The vfio-user threads reach the devices through their own lock.

mod api;
mod clock;
mod control;
mod counting;
mod engine;
mod execute;
mod internals;
mod kept;
mod memory;
mod repeat;
mod run;
mod start_error;
mod translate;
mod turns;
mod vfio;

use std::ffi::{c_char, c_int, CStr};

/// The plugin API version that this library is built for; QEMU refuses another one by name.
#[no_mangle]
pub static qemu_plugin_version: c_int = api::API_VERSION;

/// Exit status when this QEMU or this configuration cannot be used.
const EXIT_MISFIT: c_int = 3;

/// Called by QEMU once, before the machine exists.
///
/// # Safety
/// `info` and `argv` are QEMU's, valid for the call.
#[no_mangle]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const api::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as the plugin API promises.
    let (info, args) = unsafe {
        let args: Vec<String> =
            (0..argc.max(0) as usize).map(|i| CStr::from_ptr(*argv.add(i)).to_string_lossy().into_owned()).collect();
        (&*info, args)
    };
    match engine::install(id, info, &args) {
        Ok(()) => 0,
        Err(problem) => {
            eprintln!("wiretime: {problem}");
            EXIT_MISFIT
        }
    }
}
