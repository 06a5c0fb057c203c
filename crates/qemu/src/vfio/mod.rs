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
pub use nic::{Nics, Told};
use server::serve_device;

use crate::run::Run;
use crate::start_error::StartError;
use std::os::fd::OwnedFd;
use wiretime_hw::nic::Place;
use wiretime_hw::pci::ConfigSpace;

/// A device as the server needs it.
pub trait PciDevice: Send {
    /// Its configuration space.
    fn config(&mut self) -> &mut ConfigSpace;
    /// The guest reads `data.len()` bytes (1 to 8) of a BAR.
    fn read(&mut self, place: Place, data: &mut [u8]);
    /// The guest writes to a BAR.
    fn write(&mut self, place: Place, data: &[u8]);
    /// Function-level reset.
    fn reset(&mut self);
    /// QEMU offers a piece of guest memory for DMA.
    fn map_memory(&mut self, _address: u64, _size: u64, _fd: OwnedFd, _offset: u64) {}
}

/// Starts serving the devices of this run.
///
/// # Errors
/// One line where a thread cannot start.
pub fn serve(nics: Vec<OwnedFd>, control: OwnedFd, run: &Run) -> Result<(), StartError> {
    for (i, fd) in nics.into_iter().enumerate() {
        let (told, pages) = (run.machine.nics.shared(), run.machine.nics.mapped(i));
        serve_device((&format!("nic{i}"), fd), told, pages, move |nics: &mut Told, answer| {
            answer(&mut nics.function(i))
        })?;
    }
    serve_device(("control", control), run.control_device(), None, |control: &mut ControlDevice, answer| {
        answer(control)
    })
}
