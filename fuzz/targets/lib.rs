//! What the fuzzers of devices do with their bytes. A library, so that devices are compiled once for all of them.

#[path = "../../crates/hw/tests/models/chaos/mod.rs"]
mod chaos;
mod small;

pub use chaos::Random;
pub use small::machine;

use chaos::connectx::{drive, Host, LOG};
use chaos::registers;
use wiretime_base::Ps;
use wiretime_hw::params::Interface;

/// Registers and rings of a device under a guest that does what these bytes say.
pub fn guest_that_does_anything(interface: Interface, data: &[u8]) {
    let mapped = interface == Interface::Qdma && data.first().is_some_and(|byte| byte % 2 == 1);
    registers::drive((interface, mapped), "this input", machine(interface), &mut Random::of_bytes(data), u64::MAX);
}

/// Commands, requests, records and doorbells of a ConnectX under a driver that does what these bytes say, from what works:
/// queues, a key, a table are there.
pub fn driver_that_does_anything(data: &[u8]) {
    let mut host = Host::new(machine(Interface::Connectx6Dx), 1, "1Gbps");
    host.set_up();
    host.post(0, 1 << LOG);
    host.port.start_traffic(host.now, &mut host.books);
    drive(&mut host, &mut Random::of_bytes(data), u64::MAX);
    host.pass(Ps::from_us(5));
    let problems = host.port.audit(&host.books);
    assert!(problems.is_empty(), "{problems:?}");
}
