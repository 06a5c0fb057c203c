//! A device that is one file gets everything else for nothing: it forwards, drops, balances its ledger, and shows in the
//! timeline and the statistics.

mod device;

use device::{completions, record, ring, Sketch, ENTRIES, QUEUES};
use std::collections::BTreeMap;
use wiretime_base::Ps;
use wiretime_hw::memory::{GuestMemory, MemorySystem};
use wiretime_hw::nic::loopback::Ram;
use wiretime_hw::nic::{
    BookSettings, Books, DmaEngine, DropClasses, Nic, Place, Polled, Port, PortStats, Store, Which,
};
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Cable, Flows, Load, Sink, Sizes};

const BUFFERS: u64 = 2 << 20;
const BUFFER: u64 = 2048;
const START: Ps = Ps::from_us(40);
const TRAFFIC: Ps = Ps::from_us(200);
const END: Ps = Ps::from_us(340);

/// A program that looks at every queue every `step` and sends back what it finds, or drops it.
struct Host {
    nic: Box<dyn Nic<Ram> + Send>,
    engine: DmaEngine,
    books: Books,
    memory: MemorySystem,
    ram: Ram,
    rings: Vec<Polled>,
    next: Vec<u32>,
    tails: Vec<u32>,
    forwards: bool,
}

impl Host {
    fn new(p: &Platform, load: &Load, forwards: bool) -> Self {
        let cable = Cable::new(load, 0, (p.link[0].rate, p.link[0].gap_bytes), [2; 6]).expect("a load");
        let nic: Box<dyn Nic<Ram> + Send> = Box::new(Port::new(p, 0, Sketch::default(), cable));
        let sink = Sink::new(load.recognition, load.timestamp_offset);
        let settings = BookSettings { forwards, copies: false, sink, classes: DropClasses::Wiretime };
        let queues = usize::from(QUEUES);
        let mut host = Self {
            rings: nic.polled(),
            nic,
            engine: DmaEngine::new(p, 0, 0..1),
            books: Books::new(1, queues, settings),
            memory: MemorySystem::new(p, 1),
            ram: Ram(vec![0; (BUFFERS + BUFFER * u64::from(QUEUES) * u64::from(ENTRIES)) as usize]),
            next: vec![0; queues],
            tails: vec![0; queues],
            forwards,
        };
        for queue in 0..QUEUES {
            for i in 0..u64::from(ENTRIES - 1) {
                host.post(queue, BUFFERS + (u64::from(queue) * u64::from(ENTRIES) + i) * BUFFER, 0);
            }
            host.ring_doorbell(queue, Ps::ZERO);
        }
        host
    }

    fn post(&mut self, queue: u16, buffer: u64, length: u64) {
        let tail = &mut self.tails[usize::from(queue)];
        let at = ring(queue).at(*tail);
        *tail = (*tail + 1) % ENTRIES;
        self.ram.write(at, &buffer.to_le_bytes());
        self.ram.write(at + 8, &length.to_le_bytes());
    }

    /// The record says how far, the doorbell that there is something.
    fn ring_doorbell(&mut self, queue: u16, now: Ps) {
        self.ram.write(record(queue), &self.tails[usize::from(queue)].to_le_bytes());
        let doorbell = Store { place: Place { bar: 0, offset: 0 }, value: queue.into() };
        if self.nic.store(now, doorbell, &mut self.engine).is_some() {
            self.books.bursts_end(0, now);
        }
    }

    fn poll(&mut self, queue: u16, now: Ps) {
        let mut found = false;
        loop {
            let next = self.next[usize::from(queue)];
            let (polled, offset) = (&self.rings[usize::from(queue)], u64::from(next) * 16);
            self.nic.polls(0, polled, offset, now, &mut self.books);
            let mut entry = [0; 16];
            self.ram.read(completions(queue).at(next), &mut entry);
            if entry == [0; 16] {
                break;
            }
            self.ram.write(completions(queue).at(next), &[0; 16]);
            let word = |at| u64::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
            self.post(queue, word(0), if self.forwards { word(8) } else { 0 });
            self.next[usize::from(queue)] = (next + 1) % ENTRIES;
            found = true;
        }
        if found {
            self.ring_doorbell(queue, now);
        }
    }

    fn run(&mut self, step: Ps) {
        let mut now = Ps::ZERO;
        while now < END {
            now += step;
            self.nic.advance(now, (&mut self.memory, &self.ram), &mut self.engine, &mut self.books);
            self.nic.writes().apply(now, &mut self.ram);
            (0..QUEUES).for_each(|queue| self.poll(queue, now));
            self.memory.reached(now);
            self.nic.reached(now);
            self.engine.reached(now);
        }
    }
}

fn run((size, rate): (u32, &str), step: Ps, lanes: u32, forwards: bool) -> (Host, PortStats) {
    let mut p: Platform =
        toml::from_str(include_str!("../../../../../platforms/neoverse-n1.toml")).expect("a platform");
    p.slot[0].lanes = lanes;
    let flows = Flows { count: u32::from(QUEUES) * 2, ..Flows::default() };
    let load = Load { sizes: Sizes::Fixed { size }, rate: rate.parse().expect("a rate"), flows, ..Load::default() };
    let mut host = Host::new(&p, &load, forwards);
    host.books.measure(START..START + TRAFFIC);
    host.nic.start_traffic(START, &mut host.books);
    host.nic.start_timeline(START..START + TRAFFIC, &mut host.books);
    host.nic.stop_traffic(START + TRAFFIC);
    host.run(step);
    assert_eq!(host.books.ledger.violations(), Vec::<String>::new());
    assert_eq!(host.nic.audit(&host.books), Vec::<String>::new());
    let stats = host.nic.stats(QUEUES.into(), &host.engine, &host.books);
    (host, stats)
}

#[test]
fn it_forwards() {
    let (mut host, stats) = run((256, "10Gbps"), Ps::from_ns(500), 16, true);
    let c = host.books.counts(Which::Cohort);
    assert!(c.offered > 900, "{c:?}");
    assert_eq!((c.forwarded, c.undecided()), (c.offered, 0));
    assert_eq!((stats.receive.delivered, stats.transmit.frames), (c.offered, c.offered));
    assert!(stats.queues.iter().all(|q| q.receive.delivered > 0 && q.driver.burst_packets == q.receive.delivered));
    assert!(stats.io.memory_writes > c.offered && stats.io.memory_reads > c.offered);
    let hops = host.books.journeys.hops();
    assert_eq!((hops.len(), host.books.journeys.complete), (8, c.offered));
    let mean: f64 = hops.iter().map(|h| h.mean).sum();
    assert!((mean - host.books.sink.latencies.mean() / 1000.0).abs() < 1e-6, "hops add up");
    let (records, lost) = host.books.ports[0].take_timeline();
    let mut kinds = BTreeMap::new();
    for r in &records {
        let what = serde_json::to_value(r.what).expect("plain data");
        *kinds.entry(what["what"].as_str().unwrap_or("?").to_owned()).or_insert(0u64) += 1;
    }
    assert_eq!(lost, 0);
    for kind in ["frame", "dma", "fifo", "tx-ring", "poll", "doorbell"] {
        assert!(kinds.get(kind).is_some_and(|&n| n >= c.offered / 8), "{kind}: {kinds:?}");
    }
}

/// A program that comes seldom runs its rings empty; one that is quick leaves a slow link to blame.
#[test]
fn it_drops_with_a_cause() {
    let (host, stats) = run((64, "60Gbps"), Ps::from_us(110), 16, true);
    let c = host.books.counts(Which::Cohort);
    assert!(c.core_drop > c.offered / 5 && c.dma_drop < c.core_drop / 20, "{c:?}");
    assert_eq!(c.offered, c.forwarded + c.core_drop + c.dma_drop + c.tx_drop);
    assert_eq!(stats.queues.iter().map(|q| q.receive.core_drops).sum::<u64>(), c.core_drop);
    let (host, _) = run((64, "60Gbps"), Ps::from_ns(400), 1, false);
    let c = host.books.counts(Which::Cohort);
    assert!(c.dma_drop > c.offered / 5 && c.core_drop == 0, "one lane is slow: {c:?}");
    assert_eq!(c.offered, c.consumed + c.held_by_host + c.dma_drop);
}
