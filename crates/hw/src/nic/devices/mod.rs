//! The NICs that a platform can have: registers, formats and compositions of blocks. No word of a family is used outside its
//! folder.
//!
//! To add one: a type that implements [`Device`](super::Device), a variant of
//! [`Interface`], and a line in each function here (docs/architecture.md).

pub mod intel;

use super::books::Books;
use super::pages::{DevicePages, SharedRegisters};
use super::port::{Nic, Port};
use crate::memory::GuestMemory;
use crate::params::{Interface, Platform};
use crate::pci::Identity;
use crate::wire::Cable;
use intel::{Intel, Model};

/// How a NIC looks on the bus.
#[must_use]
pub fn identity(interface: Interface) -> Identity {
    intel::identity(interface)
}

/// The pages that guest and NIC share as memory.
#[must_use]
pub fn shared_pages(interface: Interface) -> DevicePages {
    intel::shared_pages(interface)
}

/// Queues of a direction.
#[must_use]
pub fn queues(interface: Interface) -> usize {
    intel::queues(interface)
}

/// Port `index` of a platform, with this MAC address, its register pages, and what is at the other end of its wire.
#[must_use]
pub fn port<S: SharedRegisters + Send + 'static, G: GuestMemory>(
    p: &Platform,
    index: usize,
    (mac, pages): ([u8; 6], S),
    cable: Cable,
) -> Box<dyn Nic<G> + Send> {
    let nic = p.port(index).nic;
    let device = Intel::new(nic, Model::new(nic.interface, mac, pages));
    Box::new(Port::new(p, index, device, cable))
}

/// The books of a platform's ports.
#[must_use]
pub fn books(p: &Platform, settings: super::BookSettings) -> Books {
    let most = p.nic.iter().map(|nic| queues(nic.interface)).max().unwrap_or(1);
    Books::new(p.link.len(), most, settings)
}
