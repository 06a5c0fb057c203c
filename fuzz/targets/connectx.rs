//! A ConnectX under a driver that does anything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wiretime_fuzz::driver_that_does_anything;

fuzz_target!(|data: &[u8]| driver_that_does_anything(data));
