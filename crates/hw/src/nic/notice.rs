//! What devices and their MAC tell of packets, rings and transfers. Whoever keeps books listens; no device knows who does.
//!
//! A device tells what it does when it does it, with the time at which it holds. Nothing comes back: a device that told
//! nobody would run the same.

use crate::wire::Packet;
use wiretime_base::Ps;

/// Why a frame is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The queue to blame: whose frame is at the FIFO's head, or that has no descriptors.
    pub culprit: u16,
    /// The FIFO has no room.
    pub fifo: bool,
    /// A frame of that queue has waited for want of descriptors since the FIFO was last below its low-water mark.
    pub starved: bool,
    /// The queue has no descriptors at this instant.
    pub empty: bool,
    /// Descriptors of its ring.
    pub ring: u32,
    /// The frame was in the FIFO; else it has just arrived.
    pub stored: bool,
}

/// A transmit ring: descriptors that the device has not finished, of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // said above
pub struct Level {
    pub posted: u32,
    pub entries: u32,
}

/// What is told, of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields: names say it
pub enum Notice {
    /// A packet has been pulled from the far end: it leaves now, and is here.
    Pulled(Packet),
    /// A frame from the wire is not taken.
    Filtered(Packet),
    /// A frame from the wire is in the FIFO, which holds so many bytes now.
    Stored { packet: Packet, queue: u16, fifo: u64 },
    /// A frame is refused.
    Refused { packet: Packet, queue: u16, why: Refusal },
    /// A frame is lost with its queue, in the FIFO or in memory before anybody was told of it.
    Lost { id: u64 },
    /// The FIFO holds so many bytes.
    Fifo { bytes: u64 },
    /// The FIFO is below its low-water mark, after refusals.
    Drained,
    /// The payload of a packet starts on its way to memory.
    Started { id: u64 },
    /// All of it has left for memory; the first of its buffers.
    Delivered { id: u64, queue: u16, buffer: u64 },
    /// An entry that tells software of a received packet (`None`: of a part of one) becomes visible.
    Completed { queue: u16, entry: u32, packet: Option<u64> },
    /// Receive descriptors that are left to be filled.
    Left { queue: u16, free: u32 },
    /// The ring that software looks at for received packets starts anew, at this entry.
    Restarted { queue: u16, entry: u32 },
    /// A receive doorbell: so many descriptors more, beside those that the device had.
    Replenished { queue: u16, count: u32, available: u32 },
    /// A receive descriptor offers this buffer.
    Offered { buffer: u64 },
    /// A transmit doorbell: so many descriptors more.
    Posted { queue: u16, count: u32, level: Level },
    /// The doorbell of a transmit queue has come; what it tells of is read first, and told as posted at this time.
    Rung { queue: u16 },
    /// The read of what the next transmit descriptor points to starts.
    Begun { queue: u16 },
    /// It has ended; the buffer, where it is the first of a packet.
    Read { queue: u16, first: Option<u64> },
    /// A packet is complete in the FIFO.
    Gathered { queue: u16 },
    /// It makes no sense and is dropped.
    Senseless { queue: u16 },
    /// A frame of it goes onto the wire: first bit now, last bit then; length with FCS. Told by the MAC.
    Frame { queue: u16, end: Ps, length: u32 },
    /// A transmit descriptor, or a packet of one that has several, is finished, which frees so many entries of the ring; software is
    /// told of it, or not yet.
    Finished { queue: u16, entries: u32, reported: bool, level: Level },
    /// A transmit queue forgets what it has under way.
    Stopped { queue: u16 },
    /// An interrupt is raised.
    Interrupt { vector: u16 },
    /// The device writes or reads memory.
    Transfer { write: bool, descriptors: bool, queue: u16, bytes: u64, until: Ps },
    /// The receiver has been switched off: what it held is gone.
    Deaf,
    /// The device has been reset: what it held is gone, and what it was to send.
    Reset,
}

/// What has been told and not been heard yet, in the order in which it was told.
#[derive(Debug, Default)]
pub struct Notices {
    pub(super) list: Vec<(Ps, Notice)>,
    /// The time in which somebody wants to hear of transfers.
    pub(super) transfers: std::ops::Range<Ps>,
}

impl Notices {
    /// Something holds from `t` on.
    #[inline]
    pub fn tell(&mut self, t: Ps, notice: Notice) {
        self.list.push((t, notice));
    }

    /// A transfer, asked for at `t`: told where somebody wants to hear of it.
    #[inline]
    pub fn transfer(&mut self, t: Ps, transfer: Notice) {
        if self.transfers.contains(&t) {
            self.tell(t, transfer);
        }
    }
}
