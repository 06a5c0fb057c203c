//! The ledger: what became of every packet that the generator sent.
//!
//! It watches events, keeps one record a packet, and checks at the end that everything balances, against the models'
//! own counters. Packets keep their identity through the host by the address of their buffer: a buffer handed to the
//! transmit ring carries its packet on; a buffer posted to the receive ring again without that has been dropped (by a
//! forwarder) or consumed (by any other program). A program that sends buffers of its own uses those again that it has freed:
//! of it the bytes of a frame say which packet it is.

use super::fates::{sum, Book, Counts, Fate, Tally, FATES};
use crate::wire::{ANSWER, ID_BITS};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The models' own counters of a queue, to balance against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // plain names
pub struct QueueCounters {
    pub dma_drops: u64,
    pub core_drops: u64,
    pub tx_drops: u64,
    pub delivered: u64,
}

/// The models' own counters of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // plain names
pub struct ModelCounters {
    pub arrived: u64,
    pub filtered: u64,
    pub fifo_packets: u64,
    /// Of the packets that this port's generator sent, wherever they came out.
    pub returned: u64,
    pub queues: Vec<QueueCounters>,
}

/// Violations kept in full; beyond, they are only counted.
const KEPT: usize = 20;

/// The ledger of all ports.
pub struct Ledger {
    books: Vec<Book>,
    buffers: FxHashMap<u64, u64>,
    forwards: bool,
    /// A driver may copy packets into its requests, or out of its buffers: one whose buffer is posted again may still be sent.
    copies: bool,
    /// Packets that the host has sent or consumed, and those that a forwarder has dropped.
    taken: u64,
    thrown: u64,
    /// Frames that were gathered from no packet's buffer and have not come to a sink.
    nameless: u64,
    /// There have been such: the program sends buffers of its own. Frames that came from buffers which had held others.
    own_buffers: bool,
    reused: u64,
    /// Of those that have, the ones that carried a packet that had left without them.
    repeated: u64,
    violations: Vec<String>,
    violation_count: u64,
}

/// Book and number of a packet: each port has one for its load and one for what it answers to the host's questions.
fn split(id: u64) -> (usize, u64) {
    let from = id >> ID_BITS;
    let book = (from & !ANSWER) * 2 + u64::from(from & ANSWER != 0);
    (book as usize, id & ((1 << ID_BITS) - 1))
}

/// Whether a packet is an answer to a question of the host.
pub fn is_answer(id: u64) -> bool {
    id >> ID_BITS & ANSWER != 0
}

/// Which packets are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Generated inside the measurement.
    Cohort,
    /// From the start of the load on.
    Load,
    /// All.
    Total,
}

impl Ledger {
    /// For so many ports of so many queues. `forwards`: whether the program is a forwarder, for which an unsent packet is dropped rather than
    /// consumed.
    #[must_use]
    pub fn new((ports, queues): (usize, usize), forwards: bool) -> Self {
        let mut buffers = FxHashMap::default();
        buffers.reserve(1 << 16);
        Self {
            books: (0..2 * ports).map(|_| Book::new(queues.max(1))).collect(),
            buffers,
            forwards,
            copies: false,
            taken: 0,
            thrown: 0,
            nameless: 0,
            own_buffers: false,
            reused: 0,
            repeated: 0,
            violations: Vec::new(),
            violation_count: 0,
        }
    }

    /// Drivers may copy packets: what a forwarder's buffers no longer hold counts as dropped only unless it is sent.
    pub fn drivers_copy(&mut self) {
        self.copies = true;
        self.books.iter_mut().for_each(|b| b.unsent_is_dropped = self.forwards);
    }

    #[cold]
    fn violation(&mut self, text: String) {
        self.violation_count += 1;
        if self.violations.len() < KEPT {
            self.violations.push(text);
        }
    }

    /// Packet `id` left its generator; a port's come in order.
    pub fn offered(&mut self, id: u64) {
        let (index, number) = split(id);
        let Some(book) = self.books.get_mut(index) else { return self.violation(format!("packet {id:#x} of no port")) };
        let next = book.offer();
        if number != next {
            self.violation(format!("packet {id:#x} offered, number {next} expected"));
        }
    }

    /// Packet `id` belongs to a queue.
    pub fn steered(&mut self, id: u64, queue: u16) {
        let (book, number) = split(id);
        let Some(book) = self.books.get_mut(book) else { return };
        let last = book.queues().saturating_sub(1) as u16;
        book.change(number, |r| r.queue = queue.min(last));
    }

    /// Port and queue that a packet came in by.
    #[must_use]
    pub fn origin(&self, id: u64) -> Option<(usize, u16)> {
        let (book, number) = split(id);
        let r = self.books.get(book)?.record(number)?;
        Some((book / 2, r.queue))
    }

    fn fate(&self, id: u64) -> Option<Fate> {
        let (book, number) = split(id);
        self.books.get(book)?.record(number).map(|r| r.fate)
    }

    /// Whether the host has a packet, or has consumed it.
    #[must_use]
    pub fn with_host(&self, id: u64) -> bool {
        matches!(self.fate(id), Some(Fate::Held | Fate::Consumed))
    }

    /// Whether a packet can no longer be answered.
    #[must_use]
    pub fn over(&self, id: u64) -> bool {
        self.fate(id).is_none_or(Fate::is_final)
    }

    /// Packet `id` moves from one fate to the next; false, and a violation, where it is not at the first.
    pub fn moves(&mut self, id: u64, from: Fate, to: Fate) -> bool {
        let (index, number) = split(id);
        let Some(book) = self.books.get_mut(index) else {
            self.violation(format!("packet {id:#x} of no port"));
            return false;
        };
        let found = match book.record(number) {
            Some(r) if r.fate == from => {
                book.change(number, |r| r.fate = to);
                book.settle();
                if from == Fate::Held && !is_answer(id) {
                    match to {
                        Fate::HostDrop => self.thrown += 1,
                        Fate::Reset => {}
                        _ => self.taken += 1,
                    }
                }
                return true;
            }
            Some(r) => format!("is {:?}", r.fate),
            None => "is settled or unknown".into(),
        };
        book.settle();
        self.violation(format!("packet {id:#x} should go from {from:?} to {to:?} but {found}"));
        false
    }

    /// Packet `id` was put into the buffer at `address`.
    pub fn delivered(&mut self, id: u64, address: u64) {
        self.moves(id, Fate::InFifo, Fate::Held);
        if let Some(old) = self.buffers.insert(address, id) {
            self.violation(format!("packet {id:#x} was put into buffer {address:#x}, where packet {old:#x} still is"));
        }
    }

    /// The host posted the buffer at `address` to a receive ring.
    pub fn posted(&mut self, address: u64) {
        if let Some(id) = self.buffers.remove(&address) {
            if self.forwards && !self.copies && !self.over(id) {
                self.moves(id, Fate::Held, Fate::HostDrop);
            } else if self.fate(id) == Some(Fate::Held) {
                self.moves(id, Fate::Held, Fate::Consumed);
            } // else answered before its buffer came back
        }
    }

    /// A frame was gathered that came from no packet's buffer: the program's own, an answer, or a copy.
    pub fn gathered_nameless(&mut self) {
        self.nameless += 1;
        if !std::mem::replace(&mut self.own_buffers, true) {
            self.drivers_copy();
        }
    }

    /// A frame from the buffer that packet `id` had been in says that it is `named`. Whether that is so, because the program had
    /// freed that buffer and used it again: known by another packet that the host has had, or, of a program that sends buffers of
    /// its own anyway, by none.
    pub fn mistaken(&mut self, id: u64, named: Option<u64>) -> bool {
        let mistaken = match named {
            Some(other) => other != id && self.has_been_with_host(other),
            None => self.own_buffers && !is_answer(id),
        };
        if mistaken {
            self.used_again(id);
        }
        mistaken
    }

    fn used_again(&mut self, id: u64) {
        self.reused += 1;
        self.gathered_nameless();
        if self.fate(id) == Some(Fate::InTx) {
            self.moves(id, Fate::InTx, Fate::Consumed);
        }
    }

    /// A packet that a device had is lost: in its FIFO, in memory where nobody has seen it, or on its way out.
    pub fn lost(&mut self, id: u64) {
        match self.fate(id) {
            // A copy of it has been sent meanwhile.
            None | Some(Fate::Forwarded | Fate::HostDrop | Fate::Reset) => {}
            Some(from @ (Fate::Held | Fate::InTx | Fate::Consumed)) => _ = self.moves(id, from, Fate::Reset),
            Some(_) => _ = self.moves(id, Fate::InFifo, Fate::Reset),
        }
    }

    /// Frames that carried a packet that had left without them: a program that mirrors or floods sends such.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// The host posted the buffer at `address` to a transmit ring of `port`; returns which packet it carries.
    pub fn transmitted(&mut self, address: u64, port: usize) -> Option<u64> {
        let id = self.buffers.remove(&address)?;
        if self.over(id) {
            return None; // a copy has come back before it
        }
        let (book, number) = split(id);
        if let Some(book) = self.books.get_mut(book) {
            book.change(number, |r| r.by = port as u8);
        }
        self.moves(id, Fate::Held, Fate::InTx);
        Some(id)
    }

    fn has_been_with_host(&self, id: u64) -> bool {
        self.with_host(id) || self.fate(id) == Some(Fate::InTx) || self.has_left(id)
    }

    /// Frames that were others than the packets that their buffers had held.
    #[must_use]
    pub fn reused(&self) -> u64 {
        self.reused
    }

    /// Whether a packet was offered and has left, or is gone.
    fn has_left(&self, id: u64) -> bool {
        let (book, number) = split(id);
        match self.books.get(book) {
            Some(book) if book.has_settled(number) => true,
            Some(book) => book.record(number).is_some_and(|r| r.fate == Fate::Forwarded),
            None => false,
        }
    }

    /// A frame reached a sink: `carried` is what its buffer said, `probe` what its bytes say. Returns the port whose
    /// load had the packet.
    pub fn returned(&mut self, carried: Option<u64>, probe: Option<u64>) -> Option<usize> {
        let moved = match (carried, probe) {
            (Some(a), Some(b)) if a == b && self.own_buffers && self.has_left(a) => {
                self.repeated += 1;
                return None;
            }
            (Some(a), Some(b)) if a == b => self.moves(a, Fate::InTx, Fate::Forwarded),
            (Some(a), other) => {
                self.violation(format!("buffer says packet {a:#x} was sent, its bytes say {other:x?}"));
                false
            }
            (None, Some(b)) => {
                let handed_over = self.nameless > 0;
                self.nameless = self.nameless.saturating_sub(1);
                if handed_over && self.has_left(b) {
                    self.repeated += 1;
                    return None;
                }
                // An answer made by the host, whose buffer may or may not be posted again yet; or, where buffers are its own,
                // have been used for another.
                let held = |f: &Fate| *f == Fate::Held || handed_over && *f == Fate::InTx;
                let from = self.fate(b).filter(held).unwrap_or(Fate::Consumed);
                self.moves(b, from, Fate::Forwarded)
            }
            (None, None) => false,
        };
        // What no packet can be is a violation, and none that came back.
        carried
            .or(probe)
            .filter(|&id| moved && !is_answer(id))
            .map(|id| split(id).0)
            .filter(|&b| b < self.books.len())
            .map(|b| b / 2)
    }

    /// No traffic is left and the program has had time to poll its ring empty: what a forwarder has not sent by now, it
    /// has dropped, though its buffer may not be posted again for long.
    pub fn drained(&mut self) {
        if !self.forwards {
            return;
        }
        let mut held: Vec<u64> = self.buffers.drain().map(|(_, id)| id).collect();
        held.retain(|&id| self.fate(id) == Some(Fate::Held)); // the others have left by another buffer
        held.sort_unstable();
        for id in held {
            self.moves(id, Fate::Held, Fate::HostDrop);
        }
    }

    /// The receiver of port `port` was reset: what it held, and what lay in its posted buffers, is gone. With what is `on_wire`,
    /// by frame, the whole port was: it sends none of anybody's packets that it was to send but these.
    pub fn reset(&mut self, port: usize, on_wire: Option<&VecDeque<Option<u64>>>) {
        if 2 * port + 2 > self.books.len() {
            return;
        }
        for (number, book) in self.books.iter_mut().enumerate() {
            let leaves = |at: u64| on_wire.is_some_and(|ids| ids.iter().flatten().any(|&id| split(id) == (number, at)));
            for (at, r) in book.unsettled() {
                let held = r.fate == Fate::InFifo && number / 2 == port;
                let to_be_sent = on_wire.is_some() && r.fate == Fate::InTx && usize::from(r.by) == port;
                if held || to_be_sent && !leaves(at) {
                    book.change(at, |r| r.fate = Fate::Reset);
                }
            }
        }
        let books = &mut self.books[2 * port..2 * port + 2];
        self.buffers.retain(|_, &mut id| {
            let (book, number) = split(id);
            if book / 2 != port {
                return true;
            }
            let book = &mut books[book % 2];
            if book.record(number).is_some_and(|r| r.fate == Fate::Held) {
                book.change(number, |r| r.fate = Fate::Reset);
            }
            false
        });
        self.books.iter_mut().for_each(Book::settle);
    }

    /// The load starts with packet `first`, the first time that this is said. To be said before it is settled.
    pub fn load_begins(&mut self, first: u64) {
        let (book, number) = split(first);
        let Some(book) = self.books.get_mut(book) else { return };
        if !book.load.ids.is_empty() {
            return; // it goes on
        }
        book.load_is_from(number);
        if book.has_settled(number) {
            self.violation(format!("the load starts at packet {first:#x}, which is settled"));
        }
    }

    /// The cohort so far is forgotten: another one follows.
    pub fn new_cohort(&mut self) {
        self.books.iter_mut().for_each(Book::new_cohort);
    }

    /// Packet `id`, being offered, belongs to the cohort: a port's is one run of packets.
    pub fn in_cohort(&mut self, id: u64) {
        let (book, number) = split(id);
        let Some(book) = self.books.get_mut(book) else { return };
        let expected = book.in_cohort(number);
        if expected != number {
            self.violation(format!("the cohort jumps from number {expected} to packet {id:#x}"));
        }
    }

    fn tally(&self, port: usize, which: Which) -> Option<Tally> {
        let book = self.books.get(2 * port)?;
        Some(book.tally(match which {
            Which::Cohort => &book.cohort,
            Which::Load => &book.load,
            Which::Total => &book.total,
        }))
    }

    /// What became of packets of a port's generator.
    #[must_use]
    pub fn port(&self, port: usize, which: Which) -> Counts {
        self.tally(port, which).map(|t| sum(&t)).unwrap_or_default()
    }

    /// The same by receive queue, of the first `queues`.
    #[must_use]
    pub fn queues(&self, port: usize, which: Which, queues: usize) -> Vec<Counts> {
        self.tally(port, which).map(|t| t.iter().take(queues).map(Counts::from_fates).collect()).unwrap_or_default()
    }

    /// What became of packets of all ports.
    #[must_use]
    pub fn all(&self, which: Which) -> Counts {
        let mut n = [0; FATES];
        for port in 0..self.books.len() / 2 {
            for queue in self.tally(port, which).iter().flat_map(|t| t.iter()) {
                n.iter_mut().zip(queue).for_each(|(a, b)| *a += b);
            }
        }
        Counts::from_fates(&n)
    }

    /// How often any packet came or moved.
    #[must_use]
    pub fn moves_so_far(&self) -> u64 {
        self.books.iter().map(|b| b.moves).sum()
    }

    /// Whether the program is a forwarder.
    #[must_use]
    pub fn forwards(&self) -> bool {
        self.forwards
    }

    /// Packets that the host has sent or consumed.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Packets that a forwarder has dropped.
    #[must_use]
    pub fn thrown(&self) -> u64 {
        self.thrown
    }

    /// Everything of a port that does not balance; empty in a sound run.
    #[must_use]
    pub fn audit(&self, port: usize, model: &ModelCounters) -> Vec<String> {
        let mut found = Vec::new();
        // The NIC does not know what is load and what is an answer.
        let Some(mut both) = self.tally(port, Which::Total) else { return found };
        let returned = sum(&both).forwarded;
        let mut lost = self.books[2 * port].lost_delivered.clone();
        if let Some(answers) = self.books.get(2 * port + 1) {
            lost.iter_mut().zip(&answers.lost_delivered).for_each(|(a, b)| *a += b);
            let more = answers.tally(&answers.total);
            both.iter_mut().zip(more.iter()).for_each(|(a, b)| a.iter_mut().zip(b).for_each(|(a, b)| *a += b));
        }
        let t = sum(&both);
        let mut equal = |what: &str, ledger: u64, model: u64| {
            if ledger != model {
                found.push(format!("port {port}, {what}: the ledger has {ledger} packets, the model {model}"));
            }
        };
        equal("arrived", t.offered - t.on_the_way, model.arrived);
        equal("filtered", t.filtered, model.filtered);
        for (i, (q, m)) in both.iter().map(Counts::from_fates).zip(&model.queues).enumerate() {
            equal(&format!("DmaDrop of queue {i}"), q.dma_drop, m.dma_drops);
            equal(&format!("CoreDrop of queue {i}"), q.core_drop, m.core_drops);
            equal(&format!("TxDrop of queue {i}"), q.tx_drop, m.tx_drops);
            let delivered = q.host_drop + q.consumed + q.forwarded + q.held_by_host + q.in_tx_path;
            equal(&format!("delivered by queue {i}"), delivered + lost.get(i).copied().unwrap_or(0), m.delivered);
        }
        equal("in the RX FIFO", t.in_rx_fifo, model.fifo_packets);
        equal("returned", returned, model.returned);
        found
    }

    /// Events that could not be: a packet in two places, or from nowhere.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let mut found = self.violations.clone();
        if self.violation_count > found.len() as u64 {
            found.push(format!("and {} more", self.violation_count - found.len() as u64));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT1: u64 = 1 << ID_BITS;

    fn queue(dma: u64, core: u64, delivered: u64) -> QueueCounters {
        QueueCounters { dma_drops: dma, core_drops: core, tx_drops: 0, delivered }
    }

    /// A forwarder's, whose port has so many packets in its FIFO.
    fn with_packets(count: u64) -> Ledger {
        let mut l = Ledger::new((1, 1), true);
        for id in 0..count {
            l.offered(id);
            l.moves(id, Fate::Offered, Fate::InFifo);
        }
        l
    }

    #[test]
    fn a_packet_that_a_driver_has_copied_may_be_sent_after_its_buffer_was_posted_again() {
        let mut l = with_packets(3);
        l.drivers_copy();
        (0..3).for_each(|id| l.delivered(id, 0x1000 * (id + 1)));
        // The first is sent before, the second after; the third never.
        assert_eq!(l.returned(None, Some(0)), Some(0));
        for id in 0..3 {
            l.posted(0x1000 * (id + 1));
        }
        assert_eq!(l.returned(None, Some(1)), Some(0));
        let c = l.all(Which::Total);
        assert_eq!((c.forwarded, c.host_drop, c.consumed, l.violations().len()), (2, 1, 0, 0));
    }

    /// A program that mirrors what it forwards, in buffers of its own or in the same one; a device that sends what nobody
    /// handed over is found out all the same.
    #[test]
    fn a_packet_may_be_sent_more_than_once_but_not_by_itself() {
        let mut l = with_packets(3);
        (0..3).for_each(|id| l.delivered(id, 0x1000 * (id + 1)));
        // A copy comes first, and its packet after it: both are nobody's buffer by then.
        l.gathered_nameless();
        assert_eq!(l.returned(None, Some(0)), Some(0));
        assert_eq!(l.transmitted(0x1000, 0), None);
        l.gathered_nameless();
        assert_eq!(l.returned(None, Some(0)), None);
        // The same buffer twice: the second comes first, by another port, and counts.
        assert_eq!((l.transmitted(0x2000, 0), l.transmitted(0x2000, 0)), (Some(1), None));
        l.gathered_nameless();
        assert_eq!(l.returned(None, Some(1)), Some(0));
        assert_eq!(l.returned(Some(1), Some(1)), None);
        // A copy alone, its packet being let go.
        l.gathered_nameless();
        assert_eq!(l.returned(None, Some(2)), Some(0));
        l.posted(0x3000);
        l.drained();
        let c = l.all(Which::Total);
        assert_eq!((c.forwarded, c.undecided(), l.repeated(), l.violations().len()), (3, 0, 2, 0));
        l.returned(None, Some(1));
        assert_eq!((l.repeated(), l.violations().len()), (2, 1), "nobody has handed it over");
    }

    /// A program copies each packet into a buffer of its own, frees the packet, and copies the next one into a buffer that it has
    /// freed: what a buffer held before says nothing, its bytes do. One is never sent.
    #[test]
    fn a_buffer_used_again_carries_what_its_bytes_say() {
        let mut l = with_packets(4);
        (0..4).for_each(|id| l.delivered(id, 0x1000 * (id + 1)));
        l.gathered_nameless();
        // Packet 1 leaves by the buffer that 0 was in, 2 by that of 1, all before any is back.
        assert_eq!([0x1000, 0x2000].map(|at| l.transmitted(at, 0)), [Some(0), Some(1)]);
        assert_eq!(l.returned(None, Some(0)), Some(0));
        for (held, carries) in [(0, 1), (1, 2)] {
            assert!(l.mistaken(held, Some(carries)));
            assert_eq!(l.returned(None, Some(carries)), Some(0));
        }
        assert_eq!(l.reused(), 2);
        (1..5).for_each(|n| l.posted(0x1000 * n));
        let c = l.all(Which::Total);
        assert_eq!((c.forwarded, c.host_drop, c.undecided(), l.repeated()), (3, 1, 0, 0));
        assert_eq!(l.violations(), Vec::<String>::new());
        let counters = QueueCounters { delivered: 4, ..QueueCounters::default() };
        let model = ModelCounters { arrived: 4, returned: 3, queues: vec![counters], ..ModelCounters::default() };
        assert_eq!(l.audit(0, &model), Vec::<String>::new());
    }

    /// The same where each buffer that is sent has held a packet, the next one's, which the program has freed; what a device makes of
    /// a packet that nobody has had is a violation all the same.
    #[test]
    fn buffers_that_are_all_used_again_are_found_by_their_bytes() {
        let mut l = with_packets(4);
        [0, 1].into_iter().for_each(|id| l.delivered(id, 0x1000 * (id + 1)));
        assert_eq!([0x1000, 0x2000].map(|at| l.transmitted(at, 0)), [Some(0), Some(1)]);
        for (held, carries) in [(0, 1), (1, 0)] {
            assert!(l.mistaken(held, Some(carries)));
            assert_eq!(l.returned(None, Some(carries)), Some(0));
        }
        assert_eq!((l.all(Which::Total).forwarded, l.violations().len()), (2, 0));
        l.delivered(2, 0x1000);
        assert_eq!(l.transmitted(0x1000, 0), Some(2));
        assert!(!l.mistaken(2, Some(3)), "which is in the device still");
        assert_eq!((l.returned(Some(2), Some(3)), l.violations().len()), (None, 1));
    }

    /// What is lost before and behind memory is told apart, so that a run with a reset is balanced as any other.
    #[test]
    fn a_reset_does_not_end_the_balance() {
        let mut l = with_packets(4);
        [1, 2, 3].into_iter().for_each(|id| l.delivered(id, 0x1000 * id));
        assert_eq!(l.transmitted(0x3000, 0), Some(3));
        (0..4).for_each(|id| l.lost(id));
        let counters = QueueCounters { delivered: 3, ..QueueCounters::default() };
        let mut model = ModelCounters { arrived: 4, queues: vec![counters], ..ModelCounters::default() };
        assert_eq!((l.audit(0, &model), l.violations().len()), (Vec::<String>::new(), 0));
        model.queues[0].delivered = 4;
        assert_eq!(l.audit(0, &model).len(), 1);
    }

    #[test]
    fn balances_and_tells_fates_apart() {
        let mut l = Ledger::new((2, 4), true);
        l.load_begins(PORT1);
        for id in PORT1..PORT1 + 5 {
            l.offered(id);
            if id < PORT1 + 4 {
                l.in_cohort(id);
            }
        }
        let id = |n: u64| PORT1 + n;
        l.steered(id(2), 3);
        l.moves(id(0), Fate::Offered, Fate::InFifo);
        l.delivered(id(0), 0x1000);
        assert_eq!(l.transmitted(0x1000, 0), Some(id(0)));
        assert_eq!(l.returned(Some(id(0)), Some(id(0))), Some(1));
        l.moves(id(1), Fate::Offered, Fate::CoreDrop);
        l.moves(id(2), Fate::Offered, Fate::InFifo);
        l.delivered(id(2), 0x2000);
        assert_eq!(l.origin(id(2)), Some((1, 3)));
        l.posted(0x2000);
        l.moves(id(3), Fate::Offered, Fate::InFifo);
        let c = l.all(Which::Cohort);
        assert_eq!((c.offered, c.forwarded, c.core_drop, c.host_drop, c.in_rx_fifo), (4, 1, 1, 1, 1));
        assert_eq!(l.port(0, Which::Total), Counts::default());
        assert_eq!(l.queues(1, Which::Cohort, 4)[3].host_drop, 1);
        assert!(l.all(Which::Cohort).undecided() > 0);
        let mut model = ModelCounters {
            arrived: 4,
            fifo_packets: 1,
            returned: 1,
            queues: vec![queue(0, 1, 1), queue(0, 0, 0), queue(0, 0, 0), queue(0, 0, 1)],
            ..ModelCounters::default()
        };
        assert_eq!(l.audit(1, &model), Vec::<String>::new());
        model.queues[3].core_drops = 2;
        assert_eq!(l.audit(1, &model), ["port 1, CoreDrop of queue 3: the ledger has 0 packets, the model 2"]);
        assert!(l.violations().is_empty());
    }

    #[test]
    fn violations_name_packets() {
        let mut l = Ledger::new((1, 1), true);
        l.offered(0);
        l.moves(0, Fate::InFifo, Fate::Held);
        l.returned(Some(0), Some(7));
        let found = l.violations();
        assert!(found[0].contains("packet 0x0 should go from InFifo"));
        assert!(found[1].contains("packet 0x0 was sent, its bytes say Some(7)"));
    }

    #[test]
    fn a_reset_loses_what_the_port_held() {
        let mut l = Ledger::new((2, 4), true);
        for id in [0, PORT1] {
            l.offered(id);
            l.moves(id, Fate::Offered, Fate::InFifo);
            l.delivered(id, 0x1000 + id);
        }
        l.reset(0, Some(&VecDeque::new()));
        assert_eq!((l.port(0, Which::Total).lost_in_reset, l.port(1, Which::Total).held_by_host), (1, 1));
    }

    #[test]
    fn what_a_port_was_to_send_is_lost_with_it_whoever_received_it() {
        let came = || {
            let mut l = Ledger::new((2, 4), true);
            for id in [0, 1, PORT1, PORT1 + 1] {
                l.offered(id);
                l.moves(id, Fate::Offered, Fate::InFifo);
                l.delivered(id, 0x1000 + id);
            }
            // Each port sends one of its own packets and one of the other's.
            for (id, port) in [(0, 0), (1, 1), (PORT1, 1), (PORT1 + 1, 0)] {
                assert_eq!(l.transmitted(0x1000 + id, port), Some(id));
            }
            l
        };
        let lost = |mut l: Ledger, on_wire: Option<&[u64]>| {
            let on_wire: Option<VecDeque<_>> = on_wire.map(|ids| ids.iter().copied().map(Some).collect());
            l.reset(0, on_wire.as_ref());
            let of = |id| l.fate(id).is_none_or(|fate| fate == Fate::Reset); // settled at once, or behind another
            [0, 1, PORT1, PORT1 + 1].map(of)
        };
        assert_eq!(lost(came(), None), [false; 4], "a receiver has nothing to send");
        assert_eq!(lost(came(), Some(&[])), [true, false, false, true]);
        assert_eq!(lost(came(), Some(&[0])), [false, false, false, true], "it has left");
        let mut l = came();
        l.reset(0, Some(&VecDeque::from([Some(0), Some(PORT1 + 1)])));
        for id in [0, 1, PORT1, PORT1 + 1] {
            assert_eq!(l.returned(Some(id), Some(id)), Some(usize::from(id >= PORT1)));
        }
        assert!(l.violations().is_empty());
    }
}
