//! What the pipeline asks of a register interface: rings and their options, filters, steering, descriptor formats,
//! statistics registers, interrupts. An 8254x or an 82599 is an implementation of [`Controller`]; the pipeline knows no
//! register.

use super::descriptors::TxDescriptor;
use crate::nic::blocks::checks::Checks;
use crate::nic::blocks::fetcher::Thresholds;
use crate::nic::blocks::moderation::Delays;
use crate::nic::blocks::RingView;
use crate::requester::Side;
use wiretime_base::Ps;

/// Bytes of any descriptor.
pub const DESCRIPTOR: u32 = 16;
/// A frame's queue, and how that came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// The receive queue.
    pub queue: u16,
    /// Kind of hash, as the descriptor shows it; 0: none.
    pub hash_type: u8,
    /// The hash.
    pub hash: u32,
}

/// A received buffer, to be written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its address.
    pub buffer: u64,
    /// Bytes in it.
    pub length: u16,
    /// Whether it is its packet's last.
    pub last: bool,
    /// The packet's queue and hash.
    pub steering: Steering,
    /// The packet's checksums.
    pub checks: Checks,
    /// The VLAN tag that was taken off it.
    pub vlan: Option<u16>,
}

/// Why there might be an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptCause {
    /// A packet has been received on a queue.
    Received(u16),
    /// A receive queue is at most half full.
    FewDescriptors(u16),
    /// A transmit descriptor that asks for it is done; the queue has nothing left (`true`).
    Transmitted(u16, bool),
    /// A frame was refused.
    Overrun,
}

/// What the filters say of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is taken.
    Taken,
    /// It is not for us.
    NotOurs,
    /// It is longer than allowed.
    TooLong,
}

impl Acceptance {
    /// Taken or not ours.
    #[must_use]
    pub fn ours(taken: bool) -> Self {
        if taken {
            Self::Taken
        } else {
            Self::NotOurs
        }
    }
}

/// What a register write asks of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing beyond the register.
    None,
    /// Stop all DMA and forget the rings.
    Reset,
    /// A direction, or some of its queues, was switched on or off.
    Switched(Side),
    /// A receive queue's head register was written.
    Head(u16),
    /// A tail register, trapped: to be seen at its own time.
    Tail(u64, u32),
}

/// A register interface.
pub trait Controller {
    /// Queues of a direction.
    fn queues(&self) -> usize;
    /// Which queue's tail is at this offset of BAR0.
    fn tail_at(&self, offset: u64) -> Option<(Side, u16)>;
    /// A queue's tail register.
    fn tail(&self, side: Side, queue: u16) -> u32;
    /// Notes a tail that was written by a trapped access.
    fn set_tail(&mut self, side: Side, queue: u16, value: u32);
    /// A queue's head register.
    fn head(&self, side: Side, queue: u16) -> u32;
    /// Sets it.
    fn set_head(&mut self, side: Side, queue: u16, value: u32);
    /// A queue's ring.
    fn ring(&self, side: Side, queue: u16) -> RingView;
    /// A queue's thresholds.
    fn thresholds(&self, side: Side, queue: u16) -> Thresholds;

    /// Whether the receive unit is on at all.
    fn receive_enabled(&self) -> bool;
    /// Whether a frame of `length` bytes (FCS included), with a VLAN tag or without, to this destination is taken.
    fn accepts(&self, destination: &[u8; 6], length: u32, tagged: bool) -> Acceptance;
    /// The queue of a frame.
    fn steer(&self, frame: &[u8]) -> Steering;
    /// Bytes of a receive buffer of a queue.
    fn buffer_size(&self, queue: u16) -> u32;
    /// Whether a queue without descriptors drops its packets rather than hold up the FIFO.
    fn drops_when_empty(&self, queue: u16) -> bool;
    /// Whether the FCS is stripped from received frames.
    fn strips_crc(&self) -> bool;
    /// Whether VLAN tags are taken off the frames of a queue.
    fn strips_tags(&self, queue: u16) -> bool;
    /// Whether write-backs show what [`Checks`] finds.
    fn wants_checks(&self) -> bool;
    /// A received buffer's descriptor as it is written back.
    fn write_back(&self, c: &Completion) -> [u8; DESCRIPTOR as usize];
    /// The buffer that a receive descriptor offers.
    fn receive_buffer(&self, d: &[u8]) -> u64;

    /// A transmit descriptor; any bytes mean something.
    fn transmit_descriptor(&self, d: &[u8]) -> TxDescriptor;
    /// Whether short frames are padded to the minimum.
    fn pads(&self) -> bool;

    /// A frame was seen on the wire, taken or not.
    fn count_seen(&mut self, length: u32);
    /// A frame was delivered to memory.
    fn count_received(&mut self, queue: u16, destination: &[u8; 6], length: u32);
    /// A frame was refused; `no_buffer`: for want of descriptors.
    fn count_missed(&mut self, queue: u16, no_buffer: bool);
    /// A frame was dropped by a queue without descriptors.
    fn count_queue_drop(&mut self, queue: u16);
    /// A frame was longer than allowed.
    fn count_oversize(&mut self);
    /// A frame was sent.
    fn count_sent(&mut self, queue: u16, length: u32);

    /// The interrupt vector that a cause belongs to, and its bits.
    fn vector(&self, cause: InterruptCause) -> (u8, u32);
    /// How many free descriptors of a receive ring of so many are few, where that is a cause.
    fn few(&self, entries: u32) -> u32;
    /// Packet and absolute timer of a direction.
    fn delays(&self, side: Side) -> Delays;
    /// Least distance between interrupts of a vector.
    fn throttle(&self, vector: u8) -> Ps;
    /// Whether a queue that goes off has forgotten head and tail when it goes on again.
    fn forgets_rings(&self) -> bool;
    /// Notes causes, which become an interrupt where they are enabled.
    fn raise(&mut self, vector: u8, causes: u32);
    /// Level of the interrupt pin.
    fn interrupt(&self) -> bool;
    /// Vectors whose message is due, a bit each; they are forgotten.
    fn take_messages(&mut self) -> u64;

    /// The guest reads a word.
    fn read(&mut self, offset: u64) -> u32;
    /// The guest writes a word.
    fn write(&mut self, offset: u64, value: u32) -> Action;
    /// Function-level reset: what the reset bit of the device does.
    fn reset_function(&mut self) -> Action;

    /// The guest reads any number of bytes: registers are words, so an 8-byte access is two, a smaller one part of one.
    fn read_bytes(&mut self, offset: u64, data: &mut [u8]) {
        let mut at = 0;
        while at < data.len() {
            let position = offset.wrapping_add(at as u64);
            let word = self.read(position & !3).to_le_bytes();
            let skip = (position & 3) as usize;
            let n = (4 - skip).min(data.len() - at);
            data[at..at + n].copy_from_slice(&word[skip..skip + n]);
            at += n;
        }
    }
}
