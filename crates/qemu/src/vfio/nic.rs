//! The NICs as PCI functions of this process: their register pages, memory and traces, and one set of books together.

use super::PciDevice;
use crate::kept::{DeviceMemory, Input, Inputs};
use crate::memory::SharedPages;
use crate::start_error::StartError;
use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wiretime_base::Ps;
use wiretime_capture::Trace;
use wiretime_experiment::{Role, RunSettings};
use wiretime_hw::machine::{Hold, Nics as Parts, Slot};
use wiretime_hw::nic::{devices, shared_pages, BookSettings, DmaEngine, Place};
use wiretime_hw::params::{Platform, PortOf};
use wiretime_hw::pci::ConfigSpace;
use wiretime_hw::wire::{Cable, Sink};

/// The NICs, and what they are told while the guest boots.
pub struct Told {
    parts: Parts<DeviceMemory>,
    /// While it is wanted.
    pub inputs: Option<Inputs>,
    pages: Vec<Arc<SharedPages>>,
}

impl Told {
    /// A NIC as the guest reaches it: what it is told is noted.
    pub fn function(&mut self, nic: usize) -> Function<'_> {
        Function { slot: &mut self.parts.slots[nic], nic, inputs: self.inputs.as_mut(), pages: &self.pages[nic] }
    }

    /// Devices are simulated up to `end`.
    pub fn advances(&mut self, end: Ps) {
        let Some(inputs) = &mut self.inputs else { return };
        self.pages.iter().enumerate().for_each(|(nic, pages)| inputs.look_at(nic, pages));
        let acts = self.parts.slots.iter().any(|s| s.nic.next_time().is_some_and(|t| t < end));
        inputs.advance(end, acts);
    }

    /// What devices have written by `t` is seen by cores.
    pub fn applies(&mut self, t: Ps) {
        self.inputs.iter_mut().for_each(|inputs| inputs.add(Input::Apply(t)));
    }

    /// From now on what they are told, and what they read of memory, is noted, after what they have been told.
    pub fn start_noting(&mut self, told: Inputs) {
        self.inputs = Some(told);
        self.parts.slots.iter_mut().for_each(|s| s.guest.record());
    }

    /// What they have been told. `reads`: with what they have read.
    pub fn stop_noting(&mut self, reads: bool) -> Option<Inputs> {
        let recorded: Vec<_> = self.parts.slots.iter_mut().map(|s| s.guest.recorded()).collect();
        let inputs = self.inputs.take()?;
        Some(if reads { inputs.with(recorded) } else { inputs })
    }
}

/// The NICs, for a while.
pub struct Guard<'a>(MutexGuard<'a, Told>);

impl Deref for Guard<'_> {
    type Target = Parts<DeviceMemory>;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0.parts
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0.parts
    }
}

/// The NICs of the machine and their register pages, which servers of other threads reach too.
#[derive(Clone)]
pub struct Nics {
    told: Arc<Mutex<Told>>,
    pages: Vec<Arc<SharedPages>>,
    mapped: bool,
}

impl Hold for Nics {
    type Memory = DeviceMemory;
    type Guard<'a> = Guard<'a>;
    #[inline]
    fn nics(&self) -> Self::Guard<'_> {
        Guard(self.told())
    }
}

fn slot(
    p: &Platform,
    index: usize,
    s: &RunSettings,
    pages: &Arc<SharedPages>,
) -> Result<Slot<DeviceMemory>, StartError> {
    let mut mac = s.mac;
    mac[5] = mac[5].wrapping_add(index as u8);
    let port = p.port(index);
    let cable = Cable::new(&s.load, index as u8, (port.link.rate, port.link.gap_bytes), mac)?;
    let mut nic = devices::port(p, index, (mac, pages.clone()), cable);
    if let Some(path) = &s.trace_file {
        let file = File::open(path).map_err(|cause| StartError::NoTrace { path: path.clone(), cause })?;
        nic.cable_mut().set_source(Box::new(Trace::new(file)));
    }
    Ok(Slot::new(p, &port, nic, DeviceMemory::default()))
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
        let settings = BookSettings {
            forwards: s.role == Role::Forwards,
            copies: s.processor_time,
            sink,
            classes: s.drop_classes,
        };
        let parts = Parts { slots, cards: DmaEngine::of_cards(p), books: devices::books(p, settings) };
        let told = Arc::new(Mutex::new(Told { parts, inputs: None, pages: pages.clone() }));
        Ok(Self { told, pages, mapped: s.mapped_doorbells })
    }

    /// With what they have been told.
    pub fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What servers lock.
    pub fn shared(&self) -> Arc<Mutex<Told>> {
        self.told.clone()
    }

    /// The register pages of a NIC.
    pub fn pages(&self, index: usize) -> &Arc<SharedPages> {
        &self.pages[index]
    }

    /// Those of all NICs.
    pub fn all_pages(&self) -> &[Arc<SharedPages>] {
        &self.pages
    }

    /// The same, where the guest accesses them as memory.
    pub fn mapped(&self, index: usize) -> Option<Arc<SharedPages>> {
        self.pages.get(index).filter(|_| self.mapped).cloned()
    }
}

/// A NIC as the guest reaches it.
pub struct Function<'a> {
    slot: &'a mut Slot<DeviceMemory>,
    nic: usize,
    inputs: Option<&'a mut Inputs>,
    pages: &'a SharedPages,
}

impl Function<'_> {
    fn note(&mut self, input: impl FnOnce(usize) -> Input) {
        if let Some(inputs) = &mut self.inputs {
            // What the guest has written there before, the device may look at now.
            inputs.look_at(self.nic, self.pages);
            inputs.add(input(self.nic));
        }
    }
}

impl PciDevice for Function<'_> {
    fn config(&mut self) -> &mut ConfigSpace {
        // The status bit is read by interrupt handlers: keep it current.
        self.slot.pin(Ps::MAX);
        &mut self.slot.config
    }

    fn read(&mut self, place: Place, data: &mut [u8]) {
        self.note(|nic| Input::Read(nic, place.bar, place.offset, data.len()));
        self.slot.nic.read(place, data);
    }

    fn write(&mut self, place: Place, data: &[u8]) {
        self.note(|nic| Input::Write(nic, place.bar, place.offset, data.to_vec()));
        self.slot.write(place, data);
    }

    fn reset(&mut self) {
        self.note(Input::Reset);
        self.slot.nic.reset();
    }

    fn map_memory(&mut self, address: u64, size: u64, fd: OwnedFd, offset: u64) {
        self.slot.guest.ram.map(address, size, &fd, offset);
    }
}
