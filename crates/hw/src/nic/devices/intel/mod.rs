//! The data path that the 8254x and the 82599 share: one descriptor ring a direction and queue, written back in place.
//!
//! - `controller`: what the path asks of a register interface; `e1000`, `ixgbe`: two of them; `model`: one of the two.
//! - `descriptors`: what transmit descriptors say, whatever their format; `counters`: statistics registers that both have.
//! - `receive`, `transmit`: state of the two paths; `receiving`, `transmitting`: what happens on them; `switching`: what the
//!   guest switches.

mod controller;
mod counters;
mod descriptors;
pub mod e1000;
pub mod ixgbe;
mod model;
mod receive;
mod receiving;
mod switching;
mod transmit;
mod transmitting;

pub use controller::Controller;
pub use model::{identity, queues, shared_pages, Family, Model};

use super::super::blocks::fetcher::Fetch;
use super::super::blocks::messages::Messages;
use super::super::blocks::moderation::{InterruptAction, Moderation};
use super::super::device::{Device, Effects, Io, Place, Polled, Rung, Store, AFTER_SENT};
use super::super::notice::Notice;
use super::super::stats::{ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
use crate::memory::GuestMemory;
use crate::params;
use crate::requester::Side;
use crate::wire::Packet;
use controller::InterruptCause;
use receive::Receive;
use transmit::Transmit;
use wiretime_base::events::Event as Ordered;
use wiretime_base::Ps;

/// What the path waits for.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the fields: names say it
pub enum Due {
    /// A doorbell arrives.
    Doorbell { side: Side, queue: u16, value: u32 },
    /// Receive descriptors are here.
    RxDescriptors { queue: u16, fetch: Fetch },
    /// The link can take the next payload.
    RxNext { life: u32 },
    /// All of a payload has left.
    RxSent { life: u32 },
    /// Descriptors have waited long enough to be written back.
    WriteBack { queue: u16, timer: u32, life: u32 },
    /// Transmit descriptors are here.
    TxDescriptors { queue: u16, fetch: Fetch },
    /// What a transmit descriptor points to is here.
    TxPayload,
    /// Causes of a vector are visible to cores.
    Interrupt { vector: u8, causes: u32 },
    /// A direction's timer.
    Timer { side: Side },
    /// A vector's throttle.
    Throttle { vector: u8 },
    /// What held up the receive FIFO may have gone.
    Pump,
}

impl Ordered for Due {
    fn class(&self) -> u8 {
        match self {
            Due::Doorbell { .. } => 0,
            Due::RxDescriptors { .. } => 1,
            Due::RxNext { .. } | Due::Pump => 2,
            Due::RxSent { .. } => 3,
            Due::WriteBack { .. } => 4,
            Due::TxDescriptors { .. } => 5,
            Due::TxPayload => 6,
            Due::Interrupt { .. } => AFTER_SENT,
            Due::Timer { .. } => AFTER_SENT + 1,
            Due::Throttle { .. } => AFTER_SENT + 2,
        }
    }
    fn source(&self) -> u16 {
        match self {
            Due::Doorbell { queue, .. }
            | Due::RxDescriptors { queue, .. }
            | Due::WriteBack { queue, .. }
            | Due::TxDescriptors { queue, .. } => *queue,
            _ => 0,
        }
    }
}

/// A NIC with this register interface.
pub struct Intel<C> {
    /// The register interface.
    pub registers: C,
    receive: Receive,
    transmit: Transmit,
    moderation: Moderation,
    /// Messages that have gone out; those that their throttle holds back, a bit a vector.
    messages: Messages,
    held: u64,
    /// Since when the pin is high; its throttle keeps it low.
    asserted: Option<Ps>,
    pin_held: bool,
    packet_latency: Ps,
    last_payload: Ps,
    /// Tails as last seen, and queues that are on, a bit each, by side.
    seen_tails: [Vec<u32>; 2],
    enabled: [u64; 2],
    /// Receive queues that drop where they have no descriptors.
    drops: u64,
    scratch: Vec<u8>,
    /// A frame into which a VLAN tag is put.
    tagged: Vec<u8>,
}

impl<C: Controller> Intel<C> {
    /// At power-on.
    #[must_use]
    pub fn new(p: &params::Nic, registers: C) -> Self {
        let queues = registers.queues();
        Self {
            receive: Receive::new(p, queues),
            transmit: Transmit::new(p, queues),
            moderation: Moderation::new(64),
            messages: Messages::default(),
            held: 0,
            asserted: None,
            pin_held: false,
            packet_latency: p.packet_latency.ps(),
            last_payload: Ps::ZERO,
            seen_tails: [vec![0; queues], vec![0; queues]],
            enabled: [0; 2],
            drops: 0,
            scratch: Vec::with_capacity(1 << 14),
            tagged: Vec::with_capacity(1 << 14),
            registers,
        }
    }

    /// A completed packet's cause: at once, or by its direction's timers.
    fn completed(&mut self, t: Ps, side: Side, (cause, delayed): (InterruptCause, bool), fx: &mut Effects<'_, Due>) {
        let (vector, causes) = self.registers.vector(cause);
        if causes == 0 {
            return;
        }
        let delays = self.registers.delays(side);
        if !delayed || delays.packet == Ps::ZERO {
            fx.at(t, Due::Interrupt { vector, causes });
            return;
        }
        let due = self.moderation.packet(side, t, causes, delays);
        fx.at(due, Due::Timer { side });
    }

    /// Causes become an interrupt now, or when the throttle lets them.
    fn interrupt(&mut self, t: Ps, vector: u8, causes: u32, fx: &mut Effects<'_, Due>) {
        match self.moderation.raise(t, vector.into(), causes) {
            InterruptAction::Raise(causes) => {
                self.registers.raise(vector, causes);
                self.interrupts_go(fx);
            }
            InterruptAction::Wait(until) => fx.at(until, Due::Throttle { vector }),
            InterruptAction::Nothing => {}
        }
    }

    /// What is raised and not masked goes out, no sooner than the throttles of its vectors let it.
    fn interrupts_go(&mut self, fx: &mut Effects<'_, Due>) {
        let now = fx.now;
        let mut wanted = self.registers.take_messages() & !self.held;
        while wanted != 0 {
            let vector = wanted.trailing_zeros() as u8;
            wanted &= wanted - 1;
            if self.messages.contains(vector.into()) {
                continue;
            }
            let next = self.moderation.next(vector.into());
            if now < next {
                self.held |= 1 << vector;
                fx.at(next, Due::Throttle { vector });
            } else {
                self.message_goes(now, vector, fx);
            }
        }
        if !self.registers.interrupt() {
            (self.asserted, self.pin_held) = (None, false);
        } else if self.asserted.is_none() && !self.pin_held {
            let next = self.moderation.next(0);
            if now < next {
                self.pin_held = true;
                fx.at(next, Due::Throttle { vector: 0 });
            } else {
                self.asserted = Some(now);
                fx.tell(now, Notice::Interrupt { vector: 0 });
                self.moderation.went(now, 0, self.registers.throttle(0));
            }
        }
    }

    fn message_goes(&mut self, t: Ps, vector: u8, fx: &mut Effects<'_, Due>) {
        fx.tell(t, Notice::Interrupt { vector: vector.into() });
        self.messages.push(t, vector.into());
        self.moderation.went(t, vector.into(), self.registers.throttle(vector));
    }

    /// A vector's throttle has ended.
    fn throttle_over(&mut self, t: Ps, vector: u8, fx: &mut Effects<'_, Due>) {
        if t < self.moderation.next(vector.into()) {
            return;
        }
        // Causes that waited go with it.
        self.interrupt(t, vector, 0, fx);
        if self.held >> vector & 1 != 0 {
            self.held &= !(1 << vector);
            self.message_goes(t, vector, fx);
        }
        if vector == 0 {
            self.pin_held = false;
            self.interrupts_go(fx);
        }
    }
}

impl<C: Controller> Device for Intel<C> {
    type Event = Due;

    fn queues(&self) -> usize {
        self.registers.queues()
    }

    fn ready(&self) -> bool {
        self.registers.receive_enabled()
            && (0..self.registers.queues() as u16).any(|q| {
                let r = self.registers.ring(Side::Receive, q);
                let tail = self.registers.tail(Side::Receive, q);
                let head = self.receive.queues[usize::from(q)].ring.head;
                r.enabled && r.entries > 0 && tail % r.entries != head % r.entries
            })
    }

    fn read(&mut self, place: Place, data: &mut [u8], _now: Ps) {
        if place.bar == 0 {
            self.registers.read_bytes(place.offset, data);
            if !self.registers.interrupt() {
                (self.asserted, self.pin_held) = (None, false);
            }
        }
    }

    fn write(&mut self, place: Place, data: &[u8], fx: &mut Effects<'_, Due>) {
        if place.bar == 0 {
            self.write_bytes(place.offset, data, fx);
            self.interrupts_go(fx);
        }
    }

    fn reset(&mut self, fx: &mut Effects<'_, Due>) {
        let action = self.registers.reset_function();
        self.act(action, fx);
    }

    fn doorbell(&mut self, store: Store, fx: &mut Effects<'_, Due>) -> Option<Rung<Due>> {
        let Some((side, queue)) = self.registers.tail_at(store.place.offset) else {
            self.switched(Side::Transmit, fx);
            return None;
        };
        let event = self.rung(side, queue, store.value as u32);
        Some(Rung { event, sends: (side == Side::Transmit).then_some(queue) })
    }

    fn look_at_pages(&mut self, fx: &mut Effects<'_, Due>, rung: &mut Vec<Due>) {
        for side in [Side::Receive, Side::Transmit] {
            self.switched(side, fx);
            for queue in 0..self.registers.queues() as u16 {
                let tail = self.registers.tail(side, queue);
                if tail != self.seen_tails[side as usize][usize::from(queue)] {
                    rung.push(self.rung(side, queue, tail));
                }
            }
        }
    }

    fn frame<G: GuestMemory>(&mut self, packet: &Packet, io: &mut Io<'_, Due, G>) -> bool {
        self.arrive(packet, io)
    }

    fn event<G: GuestMemory>(&mut self, event: Due, io: &mut Io<'_, Due, G>) {
        let t = io.now;
        match event {
            Due::Doorbell { side: Side::Receive, queue, value } => self.receive_doorbell(t, queue, value, io),
            Due::Doorbell { queue, value, .. } => self.transmit_doorbell(t, queue, value, io),
            Due::RxDescriptors { queue, fetch } => {
                self.take_receive_descriptors(t, queue, fetch, io);
                self.receive_pump(t, io);
            }
            Due::RxNext { life } if life == self.receive.life => {
                self.receive.sending = false;
                self.receive_pump(t, io);
            }
            Due::Pump => self.receive_pump(t, io),
            Due::RxSent { life } if life == self.receive.life => self.receive_sent(t, io),
            Due::WriteBack { queue, timer, life } if life == self.receive.life => {
                if self.receive.queues[usize::from(queue)].completions.expired(timer) {
                    self.write_back(t, queue, io);
                }
            }
            Due::TxDescriptors { queue, fetch } => {
                self.take_transmit_descriptors(queue, fetch, io);
                self.transmit_pump(t, io);
            }
            Due::TxPayload => {
                self.payload_read(t, io);
                self.transmit_pump(t, io);
            }
            Due::Interrupt { vector, causes } => self.interrupt(t, vector, causes, io),
            Due::Timer { side } => {
                let causes = self.moderation.expired(side, t);
                self.interrupt(t, 0, causes, io);
            }
            Due::Throttle { vector } => self.throttle_over(t, vector, io),
            Due::RxNext { .. } | Due::RxSent { .. } | Due::WriteBack { .. } => {} // of an earlier life of the receiver
        }
    }

    fn sent<G: GuestMemory>(&mut self, queue: u16, length: u32, io: &mut Io<'_, Due, G>) {
        self.transmit.left(length);
        self.registers.count_sent(queue, length);
        self.transmit_pump(io.now, io);
    }

    fn pin(&self, t: Ps) -> bool {
        self.registers.interrupt() && !self.pin_held && self.asserted.is_none_or(|since| since <= t)
    }

    fn interrupts_at(&mut self, level: bool) -> Option<Ps> {
        let mut at_once = self.registers.take_messages();
        while at_once != 0 {
            self.messages.push(Ps::ZERO, at_once.trailing_zeros() as u16);
            at_once &= at_once - 1;
        }
        let pin = (self.pin(Ps::MAX) != level).then_some(self.asserted.filter(|_| !level).unwrap_or(Ps::ZERO));
        pin.into_iter().chain(self.messages.next()).min()
    }

    fn take_message(&mut self, t: Ps) -> Option<u16> {
        self.messages.take(t)
    }

    fn polled(&self) -> Vec<Polled> {
        (0..self.registers.queues() as u16)
            .filter_map(|queue| {
                let r = self.registers.ring(Side::Receive, queue);
                let end = r.end()?;
                (r.enabled && r.entries > 0).then(|| Polled::whole(r.base..end, r.size, queue))
            })
            .collect()
    }

    fn stats(&self, _: (ReceiveStats, TransmitStats)) -> (ReceiveStats, TransmitStats) {
        (self.receive.stats(), self.transmit.stats.clone())
    }

    fn queue_stats(&self, queue: u16, _: (RxQueueStats, TxQueueStats)) -> (RxQueueStats, TxQueueStats) {
        let (rx, tx) = (&self.receive.queues[usize::from(queue)], &self.transmit.queues[usize::from(queue)]);
        let entries = |side| self.registers.ring(side, queue).entries;
        (
            RxQueueStats { free: rx.ring.available(entries(Side::Receive)).into(), ..rx.stats.clone() },
            TxQueueStats { level: tx.ring.outstanding(entries(Side::Transmit)).into(), ..tx.stats.clone() },
        )
    }

    fn is_on(&self, queue: u16) -> bool {
        (self.enabled[0] | self.enabled[1]) >> queue & 1 != 0
    }

    fn fifo(&self) -> (u64, u64) {
        (self.receive.fifo.used(), (self.receive.fifo.frames() + self.receive.in_flight.len()) as u64)
    }
}
