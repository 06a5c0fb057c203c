//! The NICs that a platform can have: registers, formats and compositions of blocks. No word of a family is used outside its
//! folder.
//!
//! To add one: a type that implements [`Device`](super::Device), a variant of
//! [`Interface`], and a line in each function here (docs/architecture.md).

pub mod intel;
mod mlx5;
mod qdma;

use super::books::Books;
use super::pages::{DevicePages, SharedRegisters};
use super::port::{Nic, Port};
use crate::memory::GuestMemory;
use crate::params::{self, CardSlot, Interface, Platform, UserLogic};
use crate::pci::Identity;
use crate::wire::Cable;
use intel::{Family, Intel, Model};
use mlx5::Mlx5;
use qdma::Qdma;

/// What a NIC is, and what it is made of.
enum What<'a> {
    Intel(Family),
    Qdma(&'a params::Qdma),
    Mlx5(&'a params::Mlx5),
}

/// The Intel family of an interface, where it has one.
fn family(interface: Interface) -> Option<Family> {
    match interface {
        Interface::I8254x => Some(Family::I8254x),
        Interface::I82599 => Some(Family::I82599),
        Interface::Qdma | Interface::Connectx6Dx | Interface::Connectx7 => None,
    }
}

fn what(nic: &params::Nic) -> What<'_> {
    match (nic.interface, &nic.qdma, &nic.mlx5) {
        (Interface::Qdma, Some(qdma), _) => What::Qdma(qdma),
        (Interface::Connectx6Dx | Interface::Connectx7, _, Some(mlx5)) => What::Mlx5(mlx5),
        // A machine that has been checked has a table for each of those.
        (interface, ..) => What::Intel(family(interface).unwrap_or(Family::I8254x)),
    }
}

/// How a NIC in such a slot looks on the bus.
#[must_use]
pub fn identity(interface: Interface, slot: &CardSlot) -> Identity {
    match (interface, family(interface)) {
        (_, Some(family)) => intel::identity(family),
        (Interface::Qdma, _) => qdma::identity((slot.generation, slot.lanes)),
        (other, None) => mlx5::identity(other == Interface::Connectx7, (slot.generation, slot.lanes)),
    }
}

/// The pages that guest and NIC share as memory.
#[must_use]
pub fn shared_pages(interface: Interface) -> DevicePages {
    match (interface, family(interface)) {
        (_, Some(family)) => intel::shared_pages(family),
        (Interface::Qdma, _) => qdma::shared_pages(),
        (_, None) => mlx5::shared_pages(),
    }
}

/// Queues of a direction.
#[must_use]
pub fn queues(nic: &params::Nic) -> usize {
    match what(nic) {
        What::Intel(family) => intel::queues(family),
        What::Qdma(q) => q.queues as usize,
        What::Mlx5(_) => mlx5::QUEUES,
    }
}

/// Port `index` of a platform, with this MAC address, its register pages, and what is at the other end of its wire.
#[must_use]
pub fn port<S: SharedRegisters + Send + 'static, G: GuestMemory>(
    p: &Platform,
    index: usize,
    (mac, pages): ([u8; 6], S),
    mut cable: Cable,
) -> Box<dyn Nic<G> + Send> {
    let nic = p.port(index).nic;
    match what(nic) {
        What::Intel(family) => Box::new(Port::new(p, index, Intel::new(nic, Model::new(family, mac, pages)), cable)),
        What::Qdma(q) => {
            cable.pulled = q.user_logic == UserLogic::Generator;
            Box::new(Port::new(p, index, Qdma::new(p, nic, q, pages), cable))
        }
        What::Mlx5(m) => Box::new(Port::new(p, index, Mlx5::new(p, index, m, mac), cable)),
    }
}

/// The books of a platform's ports.
#[must_use]
pub fn books(p: &Platform, settings: super::BookSettings) -> Books {
    let most = p.nic.iter().map(queues).max().unwrap_or(1);
    // net_mlx5 puts short packets into its requests, and copies them out of those for several.
    let copies = settings.copies || p.nic.iter().any(|nic| nic.interface.is_mlx5());
    Books::new(p.link.len(), most, super::BookSettings { copies, ..settings })
}
