//! Registers and rings of this device under a guest that does anything: what is read from the fuzzer's bytes is what it does.
#![no_main]

#[path = "../../crates/hw/tests/chaos/mod.rs"]
mod chaos;
mod small;

use chaos::{registers, Random};
use libfuzzer_sys::fuzz_target;
use wiretime_hw::params::Interface;

fuzz_target!(|data: &[u8]| {
    let p = small::machine(Interface::I82599);
    registers::drive(Interface::I82599, "this input", p, &mut Random::of_bytes(data), u64::MAX);
});
