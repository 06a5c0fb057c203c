//! Where packets are, and how many are where: one record a packet, until its fate is final.

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::Range;

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
    /// Lost with a reset of the device, or with its queue.
    Reset,
}

impl Fate {
    /// Whether a packet of this fate will never move again: a consumed one may still be answered.
    pub(super) fn is_final(self) -> bool {
        !matches!(self, Self::Offered | Self::InFifo | Self::Held | Self::InTx | Self::Consumed)
    }
}

/// How many there are.
pub(super) const FATES: usize = Fate::Reset as usize + 1;

/// How many packets had each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Packets that left the generator and reached the NIC.
    #[schemars(extend("unit" = "packets"))]
    pub offered: u64,
    /// Not taken by the NIC's filters.
    #[schemars(extend("unit" = "packets"))]
    pub filtered: u64,
    /// Refused: DMA or memory is the bottleneck.
    #[schemars(extend("unit" = "packets"))]
    pub dma_drop: u64,
    /// Refused: the core is.
    #[schemars(extend("unit" = "packets"))]
    pub core_drop: u64,
    /// Refused: the transmit ring stalls the core.
    #[schemars(extend("unit" = "packets"))]
    pub tx_drop: u64,
    /// Dropped by the forwarding program.
    #[schemars(extend("unit" = "packets"))]
    pub host_drop: u64,
    /// Taken by a program that does not forward.
    #[schemars(extend("unit" = "packets"))]
    pub consumed: u64,
    /// Returned to the generator.
    #[schemars(extend("unit" = "packets"))]
    pub forwarded: u64,
    /// Between generator and NIC.
    #[schemars(extend("unit" = "packets"))]
    pub on_the_way: u64,
    /// In the receive FIFO or its DMA.
    #[schemars(extend("unit" = "packets"))]
    pub in_rx_fifo: u64,
    /// In host memory.
    #[schemars(extend("unit" = "packets"))]
    pub held_by_host: u64,
    /// In the transmit ring, its DMA or the FIFO.
    #[schemars(extend("unit" = "packets"))]
    pub in_tx_path: u64,
    /// Lost with a reset of the device, or with its queue.
    #[schemars(extend("unit" = "packets"))]
    pub lost_in_reset: u64,
}

impl Counts {
    /// Packets whose fate is not yet decided.
    #[must_use]
    pub fn undecided(&self) -> u64 {
        self.on_the_way + self.in_rx_fifo + self.held_by_host + self.in_tx_path
    }

    pub(super) fn from_fates(n: &[u64; FATES]) -> Self {
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

/// Fates by queue. Packets that never had one count for queue 0.
pub(super) type Tally = Vec<[u64; FATES]>;

/// A range of packets, and how many of them are where.
pub(super) struct Watched {
    pub ids: Range<u64>,
    counts: Tally,
}

impl Watched {
    fn new(ids: Range<u64>, queues: usize) -> Self {
        Self { ids, counts: vec![[0; FATES]; queues] }
    }

    #[inline]
    fn add(&mut self, number: u64, r: Record) {
        if self.ids.contains(&number) {
            self.counts[usize::from(r.queue)][r.fate as usize] += 1;
        }
    }

    #[inline]
    fn take(&mut self, number: u64, r: Record) {
        if self.ids.contains(&number) {
            self.counts[usize::from(r.queue)][r.fate as usize] -= 1;
        }
    }
}

/// A packet.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub fate: Fate,
    /// The port that sends it.
    pub by: u8,
    pub queue: u16,
}

/// The packets of one port's generator, or its answers.
pub(super) struct Book {
    records: VecDeque<Record>,
    /// Number of the first of them: all before are final, or linger.
    base: u64,
    /// What has not moved for long: packets in buffers that a program never uses again.
    lingering: FxHashMap<u64, Record>,
    pub total: Watched,
    pub cohort: Watched,
    /// All packets from the start of the load on.
    pub load: Watched,
    /// What has been consumed and is never sent has been dropped.
    pub unsent_is_dropped: bool,
    /// How often a packet came or moved.
    pub moves: u64,
    /// Packets that a queue had put into memory before they were lost.
    pub lost_delivered: Vec<u64>,
}

/// So many packets later one that has not moved lingers; nobody sends or answers a packet any more whose buffer was posted again.
const LATE: usize = 1 << 20;

impl Book {
    pub fn new(queues: usize) -> Self {
        Self {
            records: VecDeque::with_capacity(1 << 16),
            base: 0,
            lingering: FxHashMap::default(),
            total: Watched::new(0..u64::MAX, queues),
            cohort: Watched::new(0..0, queues),
            load: Watched::new(0..0, queues),
            unsent_is_dropped: false,
            moves: 0,
            lost_delivered: vec![0; queues],
        }
    }

    /// Whether nothing is known of a packet any more but that its fate is final.
    pub fn has_settled(&self, number: u64) -> bool {
        number < self.base && !self.lingering.contains_key(&number)
    }

    /// The next packet leaves its generator: its number.
    pub fn offer(&mut self) -> u64 {
        let number = self.base + self.records.len() as u64;
        let r = Record { fate: Fate::Offered, by: 0, queue: 0 };
        self.moves += 1;
        self.records.push_back(r);
        for watched in [&mut self.total, &mut self.cohort, &mut self.load] {
            watched.add(number, r);
        }
        number
    }

    /// A packet that is not settled.
    pub fn record(&self, number: u64) -> Option<Record> {
        match number.checked_sub(self.base) {
            Some(at) => self.records.get(usize::try_from(at).ok()?).copied(),
            None => self.lingering.get(&number).copied(),
        }
    }

    /// Changes a packet that is not settled.
    #[inline]
    pub fn change(&mut self, number: u64, change: impl FnOnce(&mut Record)) {
        let found = match number.checked_sub(self.base) {
            Some(at) => self.records.get_mut(at as usize),
            None => self.lingering.get_mut(&number),
        };
        let Some(r) = found else { return };
        self.moves += 1;
        let before = *r;
        change(r);
        let after = *r;
        for watched in [&mut self.total, &mut self.cohort, &mut self.load] {
            watched.take(number, before);
            watched.add(number, after);
        }
        if after.fate == Fate::Reset && matches!(before.fate, Fate::Held | Fate::Consumed | Fate::InTx) {
            self.lost_delivered[usize::from(after.queue)] += 1;
        }
        if number < self.base && after.fate.is_final() {
            self.lingering.remove(&number);
        }
    }

    /// All packets that are not settled, in order.
    pub fn unsettled(&self) -> Vec<(u64, Record)> {
        let mut all: Vec<(u64, Record)> = self.lingering.iter().map(|(&number, &r)| (number, r)).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.extend((self.base..).zip(self.records.iter().copied()));
        all
    }

    /// Final records at the front are forgotten; one that keeps too many others is put aside.
    pub fn settle(&mut self) {
        while let Some(&r) = self.records.front() {
            let late = self.records.len() > LATE;
            if !r.fate.is_final() {
                if !late {
                    break;
                }
                // What was consumed so long ago is answered no more; of each of them a record would be kept for ever.
                if r.fate != Fate::Consumed {
                    self.lingering.insert(self.base, r);
                }
            }
            self.base += 1;
            self.records.pop_front();
        }
    }

    /// The load is all packets from `first` on.
    pub fn load_is_from(&mut self, first: u64) {
        self.load.ids = first..u64::MAX;
        let (from, load) = (first.max(self.base), &mut self.load);
        self.records
            .range((from - self.base).min(self.records.len() as u64) as usize..)
            .zip(from..)
            .for_each(|(&r, n)| load.add(n, r));
    }

    /// Another cohort follows.
    pub fn new_cohort(&mut self) {
        self.cohort = Watched::new(0..0, self.cohort.counts.len());
    }

    /// One packet more is in the cohort; returns which was to be the next.
    pub fn in_cohort(&mut self, number: u64) -> u64 {
        let ids = &mut self.cohort.ids;
        if ids.is_empty() {
            *ids = number..number;
        }
        let expected = std::mem::replace(&mut ids.end, number + 1);
        if let Some(r) = self.record(number) {
            self.cohort.add(number, r);
        }
        expected
    }

    /// How many of them are where.
    pub fn tally(&self, watched: &Watched) -> Tally {
        let mut n = watched.counts.clone();
        if self.unsent_is_dropped {
            for queue in &mut n {
                queue[Fate::HostDrop as usize] += std::mem::take(&mut queue[Fate::Consumed as usize]);
            }
        }
        n
    }

    /// How many queues are told apart.
    pub fn queues(&self) -> usize {
        self.total.counts.len()
    }
}

/// The sum over queues.
pub(super) fn sum(tally: &Tally) -> Counts {
    let mut n = [0; FATES];
    for queue in tally.iter() {
        n.iter_mut().zip(queue).for_each(|(a, b)| *a += b);
    }
    Counts::from_fates(&n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(b: &mut Book, number: u64, fate: Fate) {
        b.change(number, |r| r.fate = fate);
        b.settle();
    }

    /// A program that never uses the buffer of its first packet again makes the book keep that packet, and not all behind it.
    #[test]
    fn a_packet_that_stays_with_the_host_keeps_no_others() {
        let mut b = Book::new(2);
        let packets = LATE as u64 + 100;
        for number in 0..packets {
            b.offer();
            b.change(number, |r| r.queue = 1);
            moves(&mut b, number, if number == 0 { Fate::Held } else { Fate::Forwarded });
        }
        assert!(b.records.len() <= LATE && b.lingering.len() == 1 && !b.has_settled(0) && b.has_settled(1));
        let counts = |b: &Book| Counts::from_fates(&b.tally(&b.total)[1]);
        assert_eq!((counts(&b).held_by_host, counts(&b).forwarded), (1, packets - 1));
        moves(&mut b, 0, Fate::Forwarded);
        assert_eq!((counts(&b).forwarded, b.lingering.len(), b.has_settled(0)), (packets, 0, true));
    }

    /// A program that answers nothing consumes all that comes: its book does not grow with the run.
    #[test]
    fn what_was_consumed_long_ago_is_kept_no_more() {
        let mut b = Book::new(1);
        let packets = LATE as u64 + 100;
        for number in 0..packets {
            b.offer();
            moves(&mut b, number, Fate::Held);
            moves(&mut b, number, Fate::Consumed);
        }
        assert_eq!((b.records.len(), b.lingering.len(), b.has_settled(99)), (LATE, 0, true));
        assert_eq!(sum(&b.tally(&b.total)).consumed, packets);
    }

    /// What is asked about begins among packets that are on their way.
    #[test]
    fn those_on_their_way_count_where_they_are_when_load_and_cohort_begin() {
        let mut b = Book::new(1);
        (0..6).for_each(|number| assert_eq!(b.offer(), number));
        (0..6).for_each(|number| moves(&mut b, number, [Fate::InFifo, Fate::Held][number as usize % 2]));
        b.load_is_from(3);
        assert_eq!([4, 5].map(|number| b.in_cohort(number)), [4, 5]);
        b.offer();
        assert_eq!(b.in_cohort(6), 6);
        let [load, cohort] = [&b.load, &b.cohort].map(|w| sum(&b.tally(w)));
        assert_eq!((load.offered, load.held_by_host, load.in_rx_fifo, load.on_the_way), (4, 2, 1, 1));
        assert_eq!((cohort.offered, cohort.held_by_host, cohort.in_rx_fifo, cohort.on_the_way), (3, 1, 1, 1));
        moves(&mut b, 5, Fate::HostDrop);
        b.new_cohort();
        let [load, cohort] = [&b.load, &b.cohort].map(|w| sum(&b.tally(w)));
        assert_eq!((load.host_drop, load.held_by_host, cohort.offered), (1, 1, 0));
    }
}
