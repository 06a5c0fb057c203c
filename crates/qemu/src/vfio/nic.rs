//! The NICs as PCI functions of this process: their register pages, memory and traces, and one set of books together.

use super::PciDevice;
use crate::memory::{GuestRam, SharedPages};
use crate::start_error::StartError;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wiretime_capture::Trace;
use wiretime_experiment::{Role, RunSettings};
use wiretime_hw::machine::{Hold, Nics as Parts, Slot};
use wiretime_hw::nic::{devices, shared_pages, BookSettings, DmaEngine, Place};
use wiretime_hw::params::{Platform, PortOf};
use wiretime_hw::pci::ConfigSpace;
use wiretime_hw::wire::{Cable, Sink};

/// The NICs of the machine and their register pages, which servers of other threads reach too.
#[derive(Clone)]
pub struct Nics {
    parts: Arc<Mutex<Parts<GuestRam>>>,
    pages: Vec<Arc<SharedPages>>,
    mapped: bool,
}

impl Hold for Nics {
    type Memory = GuestRam;
    type Guard<'a> = MutexGuard<'a, Parts<GuestRam>>;
    fn nics(&self) -> Self::Guard<'_> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn slot(p: &Platform, index: usize, s: &RunSettings, pages: &Arc<SharedPages>) -> Result<Slot<GuestRam>, StartError> {
    let mut mac = s.mac;
    mac[5] = mac[5].wrapping_add(index as u8);
    let port = p.port(index);
    let cable = Cable::new(&s.load, index as u8, (port.link.rate, port.link.gap_bytes), mac)?;
    let mut nic = devices::port(p, index, (mac, pages.clone()), cable);
    if let Some(path) = &s.trace_file {
        let file = File::open(path).map_err(|cause| StartError::NoTrace { path: path.clone(), cause })?;
        nic.cable_mut().set_source(Box::new(Trace::new(file)));
    }
    Ok(Slot::new(port.nic.interface, port.card, nic, GuestRam::default()))
}

impl Nics {
    /// As platform and run say.
    ///
    /// # Errors
    /// One line that names what cannot be built.
    pub fn new(p: &Platform, s: &RunSettings) -> Result<Self, StartError> {
        let page = |port: PortOf<'_>| SharedPages::new(shared_pages(port.nic.interface)).map(Arc::new);
        let pages = p.ports().map(page).collect::<Result<Vec<_>, _>>()?;
        let slots = pages.iter().enumerate().map(|(i, pages)| slot(p, i, s, pages)).collect::<Result<_, _>>()?;
        let sink = Sink::new(s.load.recognition, s.load.timestamp_offset);
        let settings = BookSettings { forwards: s.role == Role::Forwards, sink, classes: s.drop_classes };
        let parts = Parts { slots, cards: DmaEngine::of_cards(p), books: devices::books(p, settings) };
        Ok(Self { parts: Arc::new(Mutex::new(parts)), pages, mapped: s.mapped_doorbells })
    }

    /// What servers lock.
    pub fn parts(&self) -> Arc<Mutex<Parts<GuestRam>>> {
        self.parts.clone()
    }

    /// The register pages of a NIC.
    pub fn pages(&self, index: usize) -> &Arc<SharedPages> {
        &self.pages[index]
    }

    /// The same, where the guest accesses them as memory.
    pub fn mapped(&self, index: usize) -> Option<Arc<SharedPages>> {
        self.pages.get(index).filter(|_| self.mapped).cloned()
    }
}

impl PciDevice for Slot<GuestRam> {
    fn config(&mut self) -> &mut ConfigSpace {
        // The status bit is read by interrupt handlers: keep it current.
        self.pin();
        &mut self.config
    }

    fn read(&mut self, place: Place, data: &mut [u8]) {
        self.nic.read(place, data);
    }

    fn write(&mut self, place: Place, data: &[u8]) {
        Slot::write(self, place, data);
    }

    fn reset(&mut self) {
        self.nic.reset();
    }

    fn map_memory(&mut self, address: u64, size: u64, fd: OwnedFd, offset: u64) {
        self.guest.map(address, size, &fd, offset);
    }
}
