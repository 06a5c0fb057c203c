//! How QEMU sees our devices: a vfio-user server, one connection and one thread a device, in QEMU's own process.
//!
//! The protocol is QEMU's `docs/interop/vfio-user.rst`; only the dozen commands that QEMU sends are served. Every
//! request is answered at once (QEMU holds its big lock meanwhile), and never with an error: an access outside reads
//! as all ones and writes nothing.

mod control;
mod nic;
mod protocol;
mod server;

pub use control::{ControlDevice, GuestPhase};
pub use nic::Nics;
use server::serve_device;

use crate::run::Run;
use std::os::fd::OwnedFd;
use wiretime_hw::pci::ConfigSpace;

/// A device as the server needs it.
pub trait PciDevice: Send {
    /// Its configuration space.
    fn config(&mut self) -> &mut ConfigSpace;
    /// The guest reads `data.len()` bytes (1 to 8) of BAR0.
    fn read(&mut self, offset: u64, data: &mut [u8]);
    /// The guest writes to BAR0.
    fn write(&mut self, offset: u64, data: &[u8]);
    /// Function-level reset.
    fn reset(&mut self);
    /// The part of BAR0 that the guest may access as memory: offset, length, and the file behind it.
    fn mapped(&self) -> Option<(u64, u64, &OwnedFd)> {
        None
    }
    /// QEMU offers a piece of guest memory for DMA.
    fn map_memory(&mut self, _address: u64, _size: u64, _fd: OwnedFd, _offset: u64) {}
}

/// Starts serving the devices of this run.
///
/// # Errors
/// One line where a thread cannot start.
pub fn serve(nics: Vec<OwnedFd>, control: OwnedFd, run: &Run) -> Result<(), String> {
    for (i, fd) in nics.into_iter().enumerate() {
        serve_device(&format!("nic{i}"), fd, run.nics(), move |nics: &mut Nics| &mut nics.devices[i])?;
    }
    serve_device("control", control, run.control_device(), |control: &mut ControlDevice| control)
}
