//! Commands, requests, records and doorbells of a ConnectX under a driver that does anything, from what works: queues, a key,
//! a table are there.
#![no_main]

#[path = "../../crates/hw/tests/chaos/mod.rs"]
mod chaos;
mod small;

use chaos::connectx::{drive, Host, LOG};
use chaos::Random;
use libfuzzer_sys::fuzz_target;
use wiretime_base::Ps;
use wiretime_hw::params::Interface;

fuzz_target!(|data: &[u8]| {
    let mut host = Host::new(small::machine(Interface::Connectx6Dx), 1, "1Gbps");
    host.set_up();
    host.post(0, 1 << LOG);
    host.port.start_traffic(host.now, &mut host.books);
    drive(&mut host, &mut Random::of_bytes(data), u64::MAX);
    host.pass(Ps::from_us(5));
    let problems = host.port.audit(&host.books);
    assert!(problems.is_empty(), "{problems:?}");
});
