//! What a NIC answers, and what it acts through: the seam between devices and everything else.
//!
//! A device is registers, formats and the composition of blocks behind them. It gets register accesses, doorbells, frames and
//! its own events; through [`Io`] it moves memory, sends frames, sets timers and tells what it does. It knows no engine, no
//! wire and no book. One file that implements [`Device`] is a whole NIC.

use super::blocks::dma_engine::DmaEngine;
use super::blocks::vlan;
use super::mac::{Mac, Sender};
use super::notice::{Notice, Notices};
use super::port::Event;
use super::stats::{ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
use crate::dma::{DmaWrites, Stream};
use crate::memory::{GuestMemory, MemorySystem};
use crate::requester::{DmaRequester, Purpose, Side};
use crate::wire::Packet;
use std::ops::{Deref, DerefMut, Range};
use wiretime_base::events::Event as Ordered;
use wiretime_base::{EventQueue, Ps};

/// A place in a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The BAR's number.
    pub bar: u8,
    /// Bytes from its start.
    pub offset: u64,
}

/// What a core has stored to a device, of up to eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Where.
    pub place: Place,
    /// What.
    pub value: u64,
}

/// What comes of a store whose time matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung<E> {
    /// What happens when it arrives at the device.
    pub event: E,
    /// It hands packets of this transmit queue over to be sent: whoever stored it has ended its burst. [`crate::requester::UNNAMED`] where the
    /// queue has no number yet.
    pub sends: Option<u16>,
}

/// A ring that software looks at for received packets, or a piece of one that lies in several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Its bytes in guest memory.
    pub bytes: Range<u64>,
    /// Bytes of an entry.
    pub entry: u32,
    /// Entries that tell of packets. Where the ring's bytes hold one more, it tells how far they have come, and software looks
    /// there first.
    pub entries: u32,
    /// The number of the entry that the bytes begin with.
    pub first: u32,
    /// From which byte of an entry on a read of it is a look whether it has come: software reads the rest of one that has not,
    /// too, where it reads several pieces.
    pub tells: u32,
    /// The receive queue whose packets it tells of.
    pub queue: u16,
}

impl Polled {
    /// A ring all of whose entries tell of packets.
    #[must_use]
    pub fn whole(bytes: Range<u64>, entry: u32, queue: u16) -> Self {
        let entries = (bytes.end.saturating_sub(bytes.start) / u64::from(entry.max(1))) as u32;
        Self { bytes, entry, entries, first: 0, tells: 0, queue }
    }

    /// Whether a read at so many bytes from its start is a look.
    #[must_use]
    pub fn is_look(&self, offset: u64) -> bool {
        offset % u64::from(self.entry.max(1)) >= u64::from(self.tells)
    }

    /// Queue, entry and number of entries, at so many bytes from its start.
    #[must_use]
    pub fn entry_at(&self, offset: u64) -> (u16, u32, u32) {
        (self.queue, self.first.wrapping_add((offset / u64::from(self.entry.max(1))) as u32), self.entries)
    }
}

/// Classes of a device's events among what happens at one time: below, it comes before frames that have been sent, from here
/// on after them. New frames come last, so that they find the room that was made at the same instant.
pub const AFTER_SENT: u8 = 8;

/// A NIC.
pub trait Device {
    /// What it waits for: its DMA, its timers, doorbells on their way.
    type Event: Copy + Ordered;

    /// Receive queues, and transmit queues, that it can have.
    fn queues(&self) -> usize;
    /// Whether its driver has switched it on and given it room for packets.
    fn ready(&self) -> bool {
        !self.polled().is_empty()
    }
    /// Whether what has been sent is, in part, of a program that drives the device itself: not so where a kernel drives it, too.
    fn program_sends(&self) -> bool {
        true
    }

    /// The guest reads a BAR, when devices have been simulated to `now`: any place, 1 to 64 bytes. What is not there reads as zeros.
    fn read(&mut self, _place: Place, data: &mut [u8], _now: Ps) {
        data.fill(0);
    }
    /// The guest writes a BAR, trapped, now. What is a doorbell is deferred ([`Effects::defer`]), to be seen at its own time.
    fn write(&mut self, place: Place, data: &[u8], effects: &mut Effects<'_, Self::Event>);
    /// Function-level reset.
    fn reset(&mut self, effects: &mut Effects<'_, Self::Event>);
    /// A core has stored to a page that is memory, or what was deferred is due: what happens when it has come over the link.
    fn doorbell(&mut self, store: Store, effects: &mut Effects<'_, Self::Event>) -> Option<Rung<Self::Event>>;
    /// While nobody watches those pages: what has changed there since they were last seen.
    fn look_at_pages(&mut self, _effects: &mut Effects<'_, Self::Event>, _rung: &mut Vec<Self::Event>) {}

    /// Traffic is about to start: what software has switched on by now is what it polls.
    fn traffic_starts(&mut self, _effects: &mut Effects<'_, Self::Event>) {}
    /// A frame has come from the wire; whether it is kept. Its bytes are the MAC's until then.
    fn frame<G: GuestMemory>(&mut self, packet: &Packet, io: &mut Io<'_, Self::Event, G>) -> bool;
    /// Whoever is at the far end has packets for a device that pulls them ([`Io::pulls`]): user logic that makes its own.
    fn source<G: GuestMemory>(&mut self, _io: &mut Io<'_, Self::Event, G>) {}
    /// An event is due.
    fn event<G: GuestMemory>(&mut self, event: Self::Event, io: &mut Io<'_, Self::Event, G>);
    /// The last bit of a frame of a queue has left, which was sent since the last reset; its length with FCS.
    fn sent<G: GuestMemory>(&mut self, _queue: u16, _length: u32, _io: &mut Io<'_, Self::Event, G>) {}

    /// Level of its interrupt pin at `t`, which may be before what has been simulated.
    fn pin(&self, _t: Ps) -> bool {
        false
    }
    /// When a message (MSI-X) is there, or the pin has another level than this one.
    fn interrupts_at(&mut self, _level: bool) -> Option<Ps> {
        None
    }
    /// Takes a message that is there at `t`: its vector.
    fn take_message(&mut self, _t: Ps) -> Option<u16> {
        None
    }

    /// The rings that software polls now.
    fn polled(&self) -> Vec<Polled>;
    /// Counters of its paths; `told` is what it has told of them, for devices that do not count themselves.
    fn stats(&self, told: (ReceiveStats, TransmitStats)) -> (ReceiveStats, TransmitStats) {
        told
    }
    /// The same of a queue pair. Drops, and what software has not read, are the books'.
    fn queue_stats(&self, _queue: u16, told: (RxQueueStats, TxQueueStats)) -> (RxQueueStats, TxQueueStats) {
        told
    }
    /// Whether a queue pair is on.
    fn is_on(&self, _queue: u16) -> bool {
        true
    }
    /// Bytes in the RX FIFO, and frames that are in it or on their way to memory.
    fn fifo(&self) -> (u64, u64);
}

/// What follows from a register access: timers, writes that are called off, doorbells that wait for their time, notices.
pub struct Effects<'a, E> {
    /// The time; of a register access, that up to which the device has been simulated.
    pub now: Ps,
    pub(super) events: &'a mut EventQueue<Event<E>>,
    pub(super) writes: &'a mut DmaWrites,
    pub(super) told: &'a mut Notices,
    pub(super) deferred: &'a mut Vec<Store>,
    pub(super) life: &'a mut u32,
}

impl<E: Copy + Ordered> Effects<'_, E> {
    /// Something happens at `t`.
    #[inline]
    pub fn at(&mut self, t: Ps, event: E) {
        self.events.push(t, Event::Device(event));
    }

    /// See [`Notice`].
    #[inline]
    pub fn tell(&mut self, t: Ps, notice: Notice) {
        self.told.tell(t, notice);
    }

    /// The same, of now.
    #[inline]
    pub fn note(&mut self, notice: Notice) {
        self.told.tell(self.now, notice);
    }

    /// What a queue has on its way to memory is not written any more.
    pub fn cancel_writes(&mut self, side: Side, queue: u16) {
        self.writes.cancel(Stream { side, queue });
    }

    /// The device is reset: nothing more is written, nothing of what it has planned happens, and it is not told of frames
    /// that are on the wire.
    pub fn forget(&mut self) {
        self.writes.clear();
        self.deferred.clear();
        self.events.retain(|event| !matches!(event, Event::Device(_)));
        *self.life = self.life.wrapping_add(1);
    }

    /// A trapped doorbell: it comes back by [`Device::doorbell`] at its time.
    pub fn defer(&mut self, store: Store) {
        self.deferred.push(store);
    }
}

/// What a device acts through while something happens.
pub struct Io<'a, E, G> {
    pub(super) effects: Effects<'a, E>,
    pub(super) device: u16,
    pub(super) engine: &'a mut DmaEngine,
    pub(super) memory: &'a mut MemorySystem,
    /// Guest memory: the bytes, which take no time. Times are [`Io::read`]'s and [`Io::write`]'s.
    pub guest: &'a G,
    /// Frames from the wire.
    pub mac: &'a mut Mac,
}

impl<'a, E, G> Deref for Io<'a, E, G> {
    type Target = Effects<'a, E>;
    fn deref(&self) -> &Self::Target {
        &self.effects
    }
}

impl<E, G> DerefMut for Io<'_, E, G> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.effects
    }
}

/// Bytes of a received frame that are written to a buffer.
#[derive(Clone, Debug)]
pub struct FramePart<'a> {
    /// The frame.
    pub packet: &'a Packet,
    /// Which of its bytes.
    pub bytes: Range<usize>,
    /// Of the frame without its VLAN tag.
    pub untagged: bool,
    /// Whether they begin a buffer whose record stands before it.
    pub header: bool,
}

impl<E, G> Io<'_, E, G> {
    fn asks(&self, purpose: Purpose) -> DmaRequester {
        DmaRequester { device: self.device, purpose }
    }

    /// Reads so many bytes of memory from `t` on; when the last is here.
    pub fn read(&mut self, t: Ps, address: u64, bytes: u64, purpose: Purpose) -> Ps {
        self.engine.read(t, (address, bytes), self.asks(purpose), self.memory, self.effects.told)
    }

    /// Writes to memory from `t` on; when the last byte has left, and when cores see it.
    pub fn write(&mut self, t: Ps, address: u64, data: &[u8], purpose: Purpose) -> (Ps, Ps) {
        let place = (address, data.len() as u64);
        let (left, visible) = self.engine.write(t, place, self.asks(purpose), self.memory, self.effects.told);
        (left, self.effects.writes.push((left, visible), address, data, purpose))
    }

    /// Writes two pieces, the second behind the first, that cores see at once; when the last byte has left, and that time.
    pub fn write_both(&mut self, t: Ps, pieces: [(u64, &[u8]); 2], purpose: Purpose) -> (Ps, Ps) {
        let (mut left, mut visible) = (t, t);
        for (address, data) in pieces {
            let place = (address, data.len() as u64);
            (left, visible) = self.engine.write(left, place, self.asks(purpose), self.memory, self.effects.told);
        }
        // Both with the second one, so that nothing comes between them.
        for (address, data) in pieces {
            visible = self.effects.writes.push((left, visible), address, data, purpose);
        }
        (left, visible)
    }

    /// Writes bytes of a received frame, as it is or without its VLAN tag, with zeros where it has ended (the FCS, whose
    /// value is not modelled).
    pub fn write_frame(&mut self, t: Ps, address: u64, part: FramePart<'_>, purpose: Purpose) -> (Ps, Ps) {
        let bytes = part.bytes;
        let place = (address, bytes.len() as u64);
        if part.header {
            self.memory.objects.mark_header(address);
        }
        let (left, visible) = self.engine.write(t, place, self.asks(purpose), self.memory, self.effects.told);
        let frame = self.mac.frame(part.packet);
        let whole = || [frame.get(bytes.start..bytes.end.min(frame.len())).unwrap_or_default(), &[]];
        let data = if part.untagged { vlan::without(frame, bytes.clone()) } else { whole() };
        let zeros = bytes.len() - data[0].len() - data[1].len();
        (left, self.effects.writes.push_pieces((left, visible), address, (data, zeros), purpose))
    }
}

impl<E: Copy + Ordered, G> Io<'_, E, G> {
    /// The length of the packet that can be pulled now, where there is one.
    #[must_use]
    pub fn pulls(&self) -> Option<u32> {
        self.mac.cable.pulls(self.effects.now)
    }

    /// Pulls it: it leaves now.
    pub fn pull(&mut self) -> Packet {
        let packet = self.mac.cable.pull(self.effects.now);
        self.note(Notice::Pulled(packet));
        packet
    }

    /// Sends a frame (without FCS) of a queue, padded to `least` bytes, from `t` on, when the wire is free.
    pub fn send(&mut self, t: Ps, queue: u16, frame: &[u8], least: usize) -> usize {
        let of = Sender { queue, life: *self.effects.life };
        let (length, end) = self.mac.send(t, (of, frame, least), self.effects.told);
        self.effects.events.push(end, Event::Sent);
        length
    }
}
