//! The register interfaces that a platform can have, chosen at run time.

use super::controller::{Acceptance, Action, Completion, Controller, InterruptCause, Steering, DESCRIPTOR};
use super::descriptors::TxDescriptor;
use super::{e1000, ixgbe};
use crate::nic::blocks::fetcher::Thresholds;
use crate::nic::blocks::moderation::Delays;
use crate::nic::blocks::RingView;
use crate::nic::pages::{DevicePages, SharedRegisters};
use crate::pci::{Bar, Identity, Msix};
use crate::requester::Side;
use wiretime_base::Ps;

const INTEL: u16 = 0x8086;
const ETHERNET: u32 = 0x02_0000;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// See [`e1000`].
    I8254x,
    /// See [`ixgbe`].
    I82599,
}

/// How a register interface looks on the bus.
#[must_use]
pub fn identity(family: Family) -> Identity {
    let common = Identity { vendor: INTEL, class: ETHERNET, intx: true, ..Identity::default() };
    match family {
        Family::I8254x => Identity { device: 0x100e, revision: 3, bars: vec![Bar::new(0, e1000::BAR_SIZE)], ..common },
        Family::I82599 => Identity {
            device: 0x10f7,
            revision: 1,
            bars: vec![Bar::new(0, ixgbe::BAR_SIZE), Bar::new(4, 0x4000)],
            msix: Some(Msix { vectors: ixgbe::VECTORS, bar: 4, table: 0, pending: 0x2000 }),
            express: true,
            ..common
        },
    }
}

/// The pages that guest and NIC share as memory.
#[must_use]
pub fn shared_pages(family: Family) -> DevicePages {
    let range = match family {
        Family::I8254x => e1000::SHARED,
        Family::I82599 => ixgbe::SHARED,
    };
    DevicePages::of_words(0, range)
}

/// Queues of a direction.
#[must_use]
pub fn queues(family: Family) -> usize {
    match family {
        Family::I8254x => e1000::QUEUES,
        Family::I82599 => ixgbe::QUEUES,
    }
}

/// One of the interfaces.
#[allow(clippy::large_enum_variant)] // one a port
pub enum Model<S> {
    /// See [`e1000`].
    I8254x(e1000::Registers<S>),
    /// See [`ixgbe`].
    I82599(ixgbe::Registers<S>),
}

impl<S: SharedRegisters> Model<S> {
    /// At power-on.
    #[must_use]
    pub fn new(family: Family, mac: [u8; 6], shared: S) -> Self {
        match family {
            Family::I8254x => Self::I8254x(e1000::Registers::new(mac, shared)),
            Family::I82599 => Self::I82599(ixgbe::Registers::new(mac, shared)),
        }
    }
}

macro_rules! each {
    ($self:ident, $r:ident => $call:expr) => {
        match $self {
            Model::I8254x($r) => $call,
            Model::I82599($r) => $call,
        }
    };
}

impl<S: SharedRegisters> Controller for Model<S> {
    #[inline]
    fn queues(&self) -> usize {
        each!(self, r => r.queues())
    }
    #[inline]
    fn tail_at(&self, offset: u64) -> Option<(Side, u16)> {
        each!(self, r => r.tail_at(offset))
    }
    #[inline]
    fn tail(&self, side: Side, queue: u16) -> u32 {
        each!(self, r => r.tail(side, queue))
    }
    #[inline]
    fn set_tail(&mut self, side: Side, queue: u16, value: u32) {
        each!(self, r => r.set_tail(side, queue, value))
    }
    #[inline]
    fn head(&self, side: Side, queue: u16) -> u32 {
        each!(self, r => r.head(side, queue))
    }
    #[inline]
    fn set_head(&mut self, side: Side, queue: u16, value: u32) {
        each!(self, r => r.set_head(side, queue, value))
    }
    #[inline]
    fn ring(&self, side: Side, queue: u16) -> RingView {
        each!(self, r => r.ring(side, queue))
    }
    #[inline]
    fn thresholds(&self, side: Side, queue: u16) -> Thresholds {
        each!(self, r => r.thresholds(side, queue))
    }
    #[inline]
    fn receive_enabled(&self) -> bool {
        each!(self, r => r.receive_enabled())
    }
    #[inline]
    fn accepts(&self, destination: &[u8; 6], length: u32, tagged: bool) -> Acceptance {
        each!(self, r => r.accepts(destination, length, tagged))
    }
    #[inline]
    fn steer(&self, frame: &[u8]) -> Steering {
        each!(self, r => r.steer(frame))
    }
    #[inline]
    fn buffer_size(&self, queue: u16) -> u32 {
        each!(self, r => r.buffer_size(queue))
    }
    #[inline]
    fn drops_when_empty(&self, queue: u16) -> bool {
        each!(self, r => r.drops_when_empty(queue))
    }
    #[inline]
    fn strips_crc(&self) -> bool {
        each!(self, r => r.strips_crc())
    }
    #[inline]
    fn strips_tags(&self, queue: u16) -> bool {
        each!(self, r => r.strips_tags(queue))
    }
    #[inline]
    fn wants_checks(&self) -> bool {
        each!(self, r => r.wants_checks())
    }
    #[inline]
    fn write_back(&self, c: &Completion) -> [u8; DESCRIPTOR as usize] {
        each!(self, r => r.write_back(c))
    }
    #[inline]
    fn receive_buffer(&self, d: &[u8]) -> u64 {
        each!(self, r => r.receive_buffer(d))
    }
    #[inline]
    fn transmit_descriptor(&self, d: &[u8]) -> TxDescriptor {
        each!(self, r => r.transmit_descriptor(d))
    }
    #[inline]
    fn pads(&self) -> bool {
        each!(self, r => r.pads())
    }
    #[inline]
    fn count_seen(&mut self, length: u32) {
        each!(self, r => r.count_seen(length))
    }
    #[inline]
    fn count_received(&mut self, queue: u16, destination: &[u8; 6], length: u32) {
        each!(self, r => r.count_received(queue, destination, length))
    }
    #[inline]
    fn count_missed(&mut self, queue: u16, no_buffer: bool) {
        each!(self, r => r.count_missed(queue, no_buffer))
    }
    #[inline]
    fn count_queue_drop(&mut self, queue: u16) {
        each!(self, r => r.count_queue_drop(queue))
    }
    #[inline]
    fn count_oversize(&mut self) {
        each!(self, r => r.count_oversize())
    }
    #[inline]
    fn count_sent(&mut self, queue: u16, length: u32) {
        each!(self, r => r.count_sent(queue, length))
    }
    #[inline]
    fn vector(&self, cause: InterruptCause) -> (u8, u32) {
        each!(self, r => r.vector(cause))
    }
    #[inline]
    fn few(&self, entries: u32) -> u32 {
        each!(self, r => r.few(entries))
    }
    #[inline]
    fn delays(&self, side: Side) -> Delays {
        each!(self, r => r.delays(side))
    }
    #[inline]
    fn throttle(&self, vector: u8) -> Ps {
        each!(self, r => r.throttle(vector))
    }
    #[inline]
    fn raise(&mut self, vector: u8, causes: u32) {
        each!(self, r => r.raise(vector, causes))
    }
    #[inline]
    fn interrupt(&self) -> bool {
        each!(self, r => r.interrupt())
    }
    #[inline]
    fn take_messages(&mut self) -> u64 {
        each!(self, r => r.take_messages())
    }
    #[inline]
    fn read(&mut self, offset: u64) -> u32 {
        each!(self, r => r.read(offset))
    }
    #[inline]
    fn write(&mut self, offset: u64, value: u32) -> Action {
        each!(self, r => r.write(offset, value))
    }
    fn reset_function(&mut self) -> Action {
        each!(self, r => r.reset_function())
    }
    fn forgets_rings(&self) -> bool {
        each!(self, r => r.forgets_rings())
    }
}
