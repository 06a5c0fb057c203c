//! Registers and rings of this device under a guest that does anything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wiretime_fuzz::guest_that_does_anything;
use wiretime_hw::params::Interface;

fuzz_target!(|data: &[u8]| guest_that_does_anything(Interface::Qdma, data));
