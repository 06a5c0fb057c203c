//! The ledger: what became of every packet that the generator sent.
//!
//! It watches events, keeps one record a packet, and checks at the end that everything balances, against the models'
//! own counters. Packets keep their identity through the host by the address of their buffer: a buffer handed to the
//! transmit ring carries its packet on; a buffer posted to the receive ring again without that has been dropped (by a
//! forwarder) or consumed (by any other program).

use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::VecDeque;

/// Where a packet is, or what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    /// On its way to the NIC.
    Offered,
    /// Not taken by the NIC's filters, or the receive unit was off.
    Filtered,
    /// In the RX FIFO or its DMA.
    InFifo,
    /// Refused: DMA or memory too slow.
    DmaDrop,
    /// Refused: core too slow.
    CoreDrop,
    /// Refused: transmit ring full, which stalls the core.
    TxDrop,
    /// In host memory.
    Held,
    /// Dropped by the forwarding program.
    HostDrop,
    /// Taken by a program that does not forward.
    Consumed,
    /// In the transmit ring, its DMA or the TX FIFO.
    InTx,
    /// Left on the wire and reached the sink.
    Forwarded,
    /// Lost with a reset of the device.
    Reset,
}

const FATES: usize = Fate::Reset as usize + 1;

/// How many packets had each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // the fates'
pub struct Counts {
    pub offered: u64,
    pub filtered: u64,
    pub dma_drop: u64,
    pub core_drop: u64,
    pub tx_drop: u64,
    pub host_drop: u64,
    pub consumed: u64,
    pub forwarded: u64,
    pub on_the_way: u64,
    pub in_rx_fifo: u64,
    pub held_by_host: u64,
    pub in_tx_path: u64,
    pub lost_in_reset: u64,
}

impl Counts {
    /// Packets whose fate is not yet decided.
    #[must_use]
    pub fn undecided(&self) -> u64 {
        self.on_the_way + self.in_rx_fifo + self.held_by_host + self.in_tx_path
    }

    fn from_fates(n: &[u64; FATES]) -> Self {
        let of = |f: Fate| n[f as usize];
        Self {
            offered: n.iter().sum(),
            filtered: of(Fate::Filtered),
            dma_drop: of(Fate::DmaDrop),
            core_drop: of(Fate::CoreDrop),
            tx_drop: of(Fate::TxDrop),
            host_drop: of(Fate::HostDrop),
            consumed: of(Fate::Consumed),
            forwarded: of(Fate::Forwarded),
            on_the_way: of(Fate::Offered),
            in_rx_fifo: of(Fate::InFifo),
            held_by_host: of(Fate::Held),
            in_tx_path: of(Fate::InTx),
            lost_in_reset: of(Fate::Reset),
        }
    }
}

/// The models' own counters, to balance against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // plain names
pub struct ModelCounters {
    pub arrived: u64,
    pub filtered: u64,
    pub refused: u64,
    pub fifo_packets: u64,
    pub delivered: u64,
    pub returned: u64,
}

/// A range of packets and what became of those already forgotten.
#[derive(Default)]
struct Watched {
    ids: std::ops::Range<u64>,
    settled: [u64; FATES],
}

/// Violations kept in full; beyond, they are only counted.
const KEPT: usize = 20;

/// The ledger of one port.
pub struct Ledger {
    fates: VecDeque<Fate>,
    /// Sequence number of the first record kept; all before are final and counted.
    base: u64,
    settled: [u64; FATES],
    cohort: Watched,
    /// All packets from the start of the load on.
    load: Watched,
    buffers: FxHashMap<u64, u64>,
    forwards: bool,
    violations: Vec<String>,
    violation_count: u64,
}

impl Ledger {
    /// `forwards`: whether the program is a forwarder, for which an unsent packet is dropped rather than consumed.
    #[must_use]
    pub fn new(forwards: bool) -> Self {
        let mut buffers = FxHashMap::default();
        buffers.reserve(1 << 16);
        Self {
            fates: VecDeque::with_capacity(1 << 16),
            base: 0,
            settled: [0; FATES],
            cohort: Watched::default(),
            load: Watched::default(),
            buffers,
            forwards,
            violations: Vec::new(),
            violation_count: 0,
        }
    }

    fn violation(&mut self, text: String) {
        self.violation_count += 1;
        if self.violations.len() < KEPT {
            self.violations.push(text);
        }
    }

    /// Packet `id` left the generator; ids come in order.
    pub fn offered(&mut self, id: u64) {
        let next = self.base + self.fates.len() as u64;
        if id != next {
            self.violation(format!("packet {id} offered, {next} expected"));
        }
        self.fates.push_back(Fate::Offered);
    }

    fn fate(&self, id: u64) -> Option<Fate> {
        self.fates.get(usize::try_from(id.checked_sub(self.base)?).ok()?).copied()
    }

    /// Packet `id` moves from one fate to the next.
    pub fn moves(&mut self, id: u64, from: Fate, to: Fate) {
        let index = id.checked_sub(self.base).map(|i| i as usize);
        match index.and_then(|i| self.fates.get_mut(i)) {
            Some(fate) if *fate == from => *fate = to,
            Some(fate) => {
                let found = *fate;
                self.violation(format!("packet {id} should go from {from:?} to {to:?} but is {found:?}"));
            }
            None => self.violation(format!("packet {id} should go from {from:?} to {to:?} but is settled or unknown")),
        }
        self.settle();
    }

    /// Final records at the front are counted and forgotten.
    fn settle(&mut self) {
        while let Some(&fate) = self.fates.front() {
            if matches!(fate, Fate::Offered | Fate::InFifo | Fate::Held | Fate::InTx | Fate::Consumed) {
                break; // a consumed packet may still be answered
            }
            self.settled[fate as usize] += 1;
            for watched in [&mut self.cohort, &mut self.load] {
                if watched.ids.contains(&self.base) {
                    watched.settled[fate as usize] += 1;
                }
            }
            self.base += 1;
            self.fates.pop_front();
        }
    }

    /// Packet `id` was put into the buffer at `address`.
    pub fn delivered(&mut self, id: u64, address: u64) {
        self.moves(id, Fate::InFifo, Fate::Held);
        if let Some(old) = self.buffers.insert(address, id) {
            self.violation(format!("packet {id} was put into buffer {address:#x}, where packet {old} still is"));
        }
    }

    /// The host posted the buffer at `address` to the receive ring.
    pub fn posted(&mut self, address: u64) {
        if let Some(id) = self.buffers.remove(&address) {
            if self.forwards {
                self.moves(id, Fate::Held, Fate::HostDrop);
            } else if self.fate(id) == Some(Fate::Held) {
                self.moves(id, Fate::Held, Fate::Consumed);
            } // else answered before its buffer came back
        }
    }

    /// The host posted the buffer at `address` to the transmit ring; returns which packet it carries.
    pub fn transmitted(&mut self, address: u64) -> Option<u64> {
        let id = self.buffers.remove(&address)?;
        self.moves(id, Fate::Held, Fate::InTx);
        Some(id)
    }

    /// A frame reached the sink: `carried` is what its buffer said, `probe` what its bytes say.
    pub fn returned(&mut self, carried: Option<u64>, probe: Option<u64>) {
        match (carried, probe) {
            (Some(a), Some(b)) if a == b => self.moves(a, Fate::InTx, Fate::Forwarded),
            (Some(a), other) => {
                self.violation(format!("buffer says packet {a} was sent, its bytes say {other:?}"));
            }
            (None, Some(b)) => {
                // An answer made by the host, whose buffer may or may not be posted again yet.
                let from = self.fate(b).filter(|&f| f == Fate::Held).unwrap_or(Fate::Consumed);
                self.moves(b, from, Fate::Forwarded);
            }
            (None, None) => {}
        }
    }

    /// No traffic is left and the program has had time to poll its ring empty: what a forwarder has not sent by now, it
    /// has dropped, though its buffer may not be posted again for long.
    pub fn drained(&mut self) {
        if !self.forwards {
            return;
        }
        let mut held: Vec<u64> = self.buffers.drain().map(|(_, id)| id).collect();
        held.sort_unstable();
        for id in held {
            self.moves(id, Fate::Held, Fate::HostDrop);
        }
    }

    /// The device was reset: what it held, and what lay in posted buffers, is gone.
    pub fn reset(&mut self) {
        for fate in &mut self.fates {
            if matches!(fate, Fate::InFifo | Fate::InTx) {
                *fate = Fate::Reset;
            }
        }
        let held: Vec<u64> = self.buffers.drain().map(|(_, id)| id).collect();
        for id in held {
            if let Some(fate) = id.checked_sub(self.base).and_then(|i| self.fates.get_mut(i as usize)) {
                if *fate == Fate::Held {
                    *fate = Fate::Reset;
                }
            }
        }
        self.settle();
    }

    /// The load starts with packet `first`; packets `cohort` are the cohort. To be said before any of them is settled.
    pub fn set_cohort(&mut self, first: u64, cohort: std::ops::Range<u64>) {
        if first < self.base {
            self.violation(format!("the load starts at packet {first} but {} are settled", self.base));
        }
        self.cohort.ids = cohort;
        self.load.ids = first..u64::MAX;
    }

    fn counts(&self, ids: &std::ops::Range<u64>, settled: &[u64; FATES]) -> Counts {
        let mut n = *settled;
        let first = ids.start.saturating_sub(self.base) as usize;
        let last = (ids.end.saturating_sub(self.base) as usize).min(self.fates.len());
        for fate in self.fates.range(first.min(last)..last) {
            n[*fate as usize] += 1;
        }
        Counts::from_fates(&n)
    }

    /// What became of the cohort.
    #[must_use]
    pub fn cohort(&self) -> Counts {
        self.counts(&self.cohort.ids, &self.cohort.settled)
    }

    /// What became of all packets from the start of the load on.
    #[must_use]
    pub fn load(&self) -> Counts {
        self.counts(&self.load.ids, &self.load.settled)
    }

    /// What became of all packets.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.counts(&(0..u64::MAX), &self.settled)
    }

    /// Everything that does not balance; empty in a sound run.
    #[must_use]
    pub fn audit(&self, model: &ModelCounters) -> Vec<String> {
        let mut found = self.violations.clone();
        if self.violation_count > found.len() as u64 {
            found.push(format!("and {} more", self.violation_count - found.len() as u64));
        }
        let t = self.total();
        let refused = t.dma_drop + t.core_drop + t.tx_drop;
        let delivered = t.host_drop + t.consumed + t.forwarded + t.held_by_host + t.in_tx_path;
        let mut equal = |what: &str, ledger: u64, model: u64| {
            if ledger != model {
                found.push(format!("{what}: the ledger has {ledger} packets, the model {model}"));
            }
        };
        equal("arrived", t.offered - t.on_the_way, model.arrived);
        equal("filtered", t.filtered, model.filtered);
        equal("refused", refused, model.refused);
        if t.lost_in_reset == 0 {
            equal("in the RX FIFO", t.in_rx_fifo, model.fifo_packets);
            equal("delivered", delivered, model.delivered);
            equal("returned", t.forwarded, model.returned);
        }
        if !self.cohort.ids.is_empty() {
            equal("cohort", self.cohort().offered, self.cohort.ids.end - self.cohort.ids.start);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balances_and_tells_fates_apart() {
        let mut l = Ledger::new(true);
        l.set_cohort(0, 0..4);
        for id in 0..5 {
            l.offered(id);
        }
        l.moves(0, Fate::Offered, Fate::InFifo);
        l.delivered(0, 0x1000);
        assert_eq!(l.transmitted(0x1000), Some(0));
        l.returned(Some(0), Some(0));
        l.moves(1, Fate::Offered, Fate::CoreDrop);
        l.moves(2, Fate::Offered, Fate::InFifo);
        l.delivered(2, 0x2000);
        l.posted(0x2000);
        l.moves(3, Fate::Offered, Fate::InFifo);
        let c = l.cohort();
        assert_eq!((c.offered, c.forwarded, c.core_drop, c.host_drop, c.in_rx_fifo), (4, 1, 1, 1, 1));
        let model = ModelCounters { arrived: 4, filtered: 0, refused: 1, fifo_packets: 1, delivered: 2, returned: 1 };
        assert_eq!(l.audit(&model), Vec::<String>::new());
        let wrong = ModelCounters { refused: 2, ..model };
        assert_eq!(l.audit(&wrong), ["refused: the ledger has 1 packets, the model 2"]);
    }

    #[test]
    fn violations_name_packets() {
        let mut l = Ledger::new(true);
        l.offered(0);
        l.moves(0, Fate::InFifo, Fate::Held);
        l.returned(Some(0), Some(7));
        let found = l.audit(&ModelCounters::default());
        assert!(found[0].contains("packet 0 should go from InFifo"));
        assert!(found[1].contains("packet 0 was sent, its bytes say Some(7)"));
    }
}
