//! A QDMA between memories, and its interrupts, by its registers alone: contexts through the window, descriptors in memory,
//! doorbells, what comes back.

use super::chaos::{books, cable, Ram, MAC, MEMORY};
use wiretime_base::Ps;
use wiretime_hw::memory::{GuestMemory, MemorySystem};
use wiretime_hw::nic::{devices, shared_pages, Books, DmaEngine, LocalPages, Nic, Place, Store};
use wiretime_hw::params::{Interface, Platform, UserLogic};

const TO_HOST: u32 = 0;
const FROM_HOST: u32 = 1;
const COMPLETION: u32 = 6;
const PREFETCH: u32 = 7;
const INTERRUPT: u32 = 8;
/// Entries of rings, and where they are; where data is.
const ENTRIES: u64 = 16;
const RINGS: u64 = 0x1000;
const INTERRUPTS: u64 = 0x8000;
const DATA: u64 = 0x20000;
const BACK: u64 = 0x40000;
/// On the card.
const THERE: u64 = 0x3000;

struct Bench {
    port: Box<dyn Nic<Ram> + Send>,
    memory: MemorySystem,
    engine: DmaEngine,
    books: Books,
    ram: Ram,
    now: Ps,
}

/// A ring of descriptors between memories: interrupts when all is done, by a message or by a ring, as word 4 says.
fn ring(base: u64, word4: u32) -> [u32; 8] {
    [1 << 16, 1 | 1 << 2 | 2 << 16 | 1 << 20 | 1 << 21 | 1 << 31, base as u32, 0, word4, 0, 0, 0]
}

impl Bench {
    fn new() -> Self {
        let mut p: Platform =
            toml::from_str(include_str!("../../../../platforms/epyc-9654.toml")).expect("a valid platform");
        let q = p.nic[0].qdma.as_mut().expect("a QDMA");
        (q.queues, q.user_logic) = (4, UserLogic::Wire);
        let pages = LocalPages::new(shared_pages(Interface::Qdma).range);
        let mut new = Self {
            port: devices::port(&p, 0, (MAC, pages), cable(&p, 1, "10Gbps")),
            memory: MemorySystem::new(&p, 1),
            engine: DmaEngine::new(&p, 0, 0..1),
            books: books(&p, false),
            ram: Ram::new(vec![0; MEMORY as usize]),
            now: Ps::from_us(1),
        };
        new.write(0x204, ENTRIES as u32 + 1); // ring sizes: index 0
        new.write(0xab0, 2048); // buffers
        [0x1004, 0x1204].into_iter().for_each(|channel| new.write(channel, 1));
        new
    }

    fn write(&mut self, offset: u64, value: u32) {
        self.port.write(Place { bar: 0, offset }, &value.to_le_bytes());
        for store in std::mem::take(self.port.deferred()) {
            self.port.store(self.now, store, &mut self.engine);
        }
    }

    fn context(&mut self, selector: u32, number: u32, words: [u32; 8]) {
        for (i, word) in (0..).zip(words) {
            self.write(0x804 + 4 * i, word);
            self.write(0x824 + 4 * i, u32::MAX);
        }
        self.write(0x844, selector << 1 | 1 << 5 | number << 7);
    }

    fn doorbell(&mut self, queue: u64, bell: u64, value: u32) {
        let place = Place { bar: 0, offset: 0x18000 + 16 * queue + 4 * bell };
        self.port.store(self.now, Store { place, value: value.into() }, &mut self.engine);
    }

    /// The descriptor of an entry of a ring.
    fn descriptor(&mut self, base: u64, entry: u64, (from, to, length): (u64, u64, u32)) {
        for (i, word) in (0..).zip([from, u64::from(length | 1 << 28), to, 0]) {
            self.put(base + 32 * entry + 8 * i, &word.to_le_bytes());
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.ram.bytes[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.ram.read(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Time passes; the vectors of messages that have come.
    fn passes(&mut self, time: Ps) -> Vec<u16> {
        self.now += time;
        self.port.advance(self.now, (&mut self.memory, &self.ram), &mut self.engine, &mut self.books);
        self.port.writes().apply(self.now, &mut self.ram);
        std::iter::from_fn(|| self.port.take_message(Ps::MAX)).collect()
    }

    fn faults(&self) -> u64 {
        let stats = self.port.stats(4, &self.engine, &self.books);
        stats.receive.buffer_faults + stats.transmit.buffer_faults
    }
}

#[test]
fn data_goes_to_the_card_and_back_and_a_message_tells() {
    let mut b = Bench::new();
    let data: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
    b.put(DATA, &data);
    let (there, back) = (RINGS, RINGS + 0x400);
    b.context(FROM_HOST, 2, ring(there, 5));
    b.context(TO_HOST, 2, ring(back, 6));
    // In two pieces, at no round address.
    b.descriptor(there, 0, (DATA, THERE + 1, 15_000));
    b.descriptor(there, 1, (DATA + 15_000, THERE + 15_001, 5_000));
    b.doorbell(2, 1, 2);
    assert_eq!(b.passes(Ps::from_us(20)), [5]);
    let status = b.word(there + 32 * ENTRIES);
    assert_eq!((status >> 16 & 0xffff, status >> 32 & 0xffff), (2, 2), "both are done");
    b.descriptor(back, 0, (THERE + 1, BACK + 3, 20_000));
    b.doorbell(2, 2, 1);
    assert_eq!(b.passes(Ps::from_us(20)), [6]);
    assert_eq!(&b.ram.bytes[BACK as usize + 3..BACK as usize + 20_003], &data[..]);
    assert_eq!((b.ram.bytes[BACK as usize + 2], b.ram.bytes[BACK as usize + 20_003]), (0, 0), "and no byte more");
    // Software did not ask again, so it hears of the next when it does.
    b.descriptor(back, 1, (THERE, BACK, 8));
    b.doorbell(2, 2, 2);
    assert_eq!(b.passes(Ps::from_us(20)), [0; 0]);
    b.doorbell(2, 2, 2 | 1 << 16);
    assert_eq!((b.passes(Ps::from_us(20)), b.faults()), (vec![6], 0));
}

#[test]
fn a_channel_that_does_not_run_and_memory_that_is_not_there() {
    let mut b = Bench::new();
    b.write(0x1204, 0);
    b.context(FROM_HOST, 0, ring(RINGS, 5));
    b.descriptor(RINGS, 0, (DATA, THERE, 4096));
    b.doorbell(0, 1, 1);
    assert_eq!(b.passes(Ps::from_us(20)), [0; 0]);
    b.write(0x1204, 1);
    assert_eq!(b.passes(Ps::from_us(20)), [5]);
    b.descriptor(RINGS, 1, (DATA, 512 << 10, 64));
    b.descriptor(RINGS, 2, (MEMORY, THERE, 64));
    b.doorbell(0, 1, 3 | 1 << 16);
    assert_eq!((b.passes(Ps::from_us(20)), b.faults()), (vec![5], 2), "counted, and done");
}

#[test]
fn queues_share_a_ring_of_interrupts() {
    let mut b = Bench::new();
    b.interrupt_ring();
    for queue in 0..3 {
        b.interrupts_by_ring(queue);
        b.doorbell(queue.into(), 1, 1);
    }
    assert_eq!(b.passes(Ps::from_us(20)), [9], "one message for three entries");
    for (queue, at) in (0..3).zip((INTERRUPTS..).step_by(8)) {
        let entry = b.word(at);
        assert_eq!((entry >> 63, entry >> 39 & 0xff_ffff, entry >> 38 & 1), (1, queue, 0));
        assert_eq!((entry & 0xffff, entry >> 16 & 0xffff), (1, 1), "posted, and done");
    }
    assert_eq!(b.word(INTERRUPTS + 24), 0);
    // Until software has read, no further message; what it has not read is told of again.
    b.descriptor(RINGS, 1, (DATA, THERE, 64));
    b.doorbell(0, 1, 2 | 1 << 16);
    assert_eq!(b.passes(Ps::from_us(20)), [0; 0]);
    b.doorbell(0, 0, 3 | 1 << 16);
    assert_eq!(b.passes(Ps::from_us(20)), [9]);
    b.doorbell(0, 0, 4 | 1 << 16);
    assert_eq!(b.passes(Ps::from_us(20)), [0; 0]);
}

impl Bench {
    /// A ring of 512 interrupts, which vector 9 tells of.
    fn interrupt_ring(&mut self) {
        let base = INTERRUPTS >> 12;
        let words = [1 | 9 << 1 | 1 << 14 | (base << 15) as u32, (base >> 17) as u32, 0, 0, 0, 0, 0, 0];
        self.context(INTERRUPT, 1, words);
    }

    /// A queue to the card that interrupts by that ring, and its first descriptor.
    fn interrupts_by_ring(&mut self, queue: u32) {
        let at = RINGS + u64::from(queue) * 0x400;
        self.context(FROM_HOST, queue, ring(at, 1 | 1 << 11));
        self.descriptor(at, 0, (DATA, THERE, 64));
    }
}

#[test]
fn a_queue_that_stops_leaves_no_hole_among_interrupts() {
    let mut both = 0;
    for delay in (0..40).map(|i| Ps::from_ns(50 * i)) {
        let mut b = Bench::new();
        b.interrupt_ring();
        (0..2).for_each(|queue| b.interrupts_by_ring(queue));
        b.doorbell(0, 1, 1);
        b.passes(delay);
        b.context(FROM_HOST, 0, [0; 8]);
        b.doorbell(1, 1, 1);
        b.passes(Ps::from_us(20));
        let entries = [0, 8].map(|at| b.word(INTERRUPTS + at));
        assert!(entries[0] != 0, "stopped after {delay:?}: {entries:x?}");
        both += u32::from(entries[1] != 0);
    }
    assert!(both > 0 && both < 40, "before and after it had interrupted: {both}");
}

#[test]
fn what_finds_no_room_among_interrupts_comes_when_software_has_read() {
    let mut b = Bench::new();
    b.interrupt_ring();
    b.context(FROM_HOST, 0, ring(RINGS, 1 | 1 << 11));
    (0..ENTRIES).for_each(|i| b.descriptor(RINGS, i, (DATA, THERE, 8)));
    let mut messages = Vec::new();
    for n in 1..=520u64 {
        b.doorbell(0, 1, (n % ENTRIES) as u32 | 1 << 16);
        messages.extend(b.passes(Ps::from_us(5)));
    }
    assert_eq!(messages, [9]);
    assert_eq!((b.word(INTERRUPTS + 8 * 510) >> 63, b.word(INTERRUPTS + 8 * 511)), (1, 0), "one less than there are");
    b.doorbell(0, 0, 511 | 1 << 16);
    assert_eq!(b.passes(Ps::from_us(5)), [9]);
    let last = b.word(INTERRUPTS + 8 * 511);
    assert_eq!((last >> 63, last >> 16 & 0xffff), (1, 520 % ENTRIES), "how far it was when the last one waited");
}

#[test]
fn a_message_comes_behind_the_data_that_it_tells_of() {
    let mut b = Bench::new();
    let mut words = ring(RINGS, 6);
    words[1] &= !(1 << 20); // no status
    b.context(TO_HOST, 0, words);
    b.descriptor(RINGS, 0, (THERE, BACK, 4096));
    b.put(BACK, &[7; 4096]);
    b.doorbell(0, 2, 1);
    for _ in 0..2000 {
        if !b.passes(Ps::from_ns(10)).is_empty() {
            assert_eq!(b.ram.bytes[BACK as usize..BACK as usize + 4096], [0; 4096]);
            return;
        }
    }
    panic!("no message");
}

/// Of packets to the host, by their completion ring: at the trigger, if software waits, once.
#[test]
fn a_completion_ring_interrupts() {
    let mut b = Bench::new();
    let (descriptors, completions) = (RINGS, RINGS + 0x400);
    b.context(COMPLETION, 0, {
        let words = completions >> 6;
        // A status and an interrupt with every entry of 16 bytes.
        [1 | 2 | 1 << 2 | 1 << 27, words as u32, 1 << 26, 1 << 28, 7 << 4, 0, 0, 0]
    });
    b.context(PREFETCH, 0, [1 << 27, 1 << 13, 0, 0, 0, 0, 0, 0]);
    b.context(TO_HOST, 0, [0, 1, descriptors as u32, 0, 0, 0, 0, 0]);
    (0..ENTRIES).for_each(|i| b.put(descriptors + 8 * i, &(DATA + 2048 * i).to_le_bytes()));
    b.doorbell(0, 2, ENTRIES as u32 - 2);
    b.port.start_traffic(b.now, &mut b.books);
    assert_eq!(b.passes(Ps::from_us(3)), [0; 0], "nobody waits");
    assert_eq!(b.word(completions + 16 * ENTRIES), 0, "nor has software said that it reads");
    let trigger = 1 << 24 | 1 << 27;
    b.doorbell(0, 3, trigger);
    b.passes(Ps::from_us(3));
    let come = b.word(completions + 16 * ENTRIES) & 0xffff;
    assert!(come > 0, "its status tells of packets all the same");
    b.doorbell(0, 3, trigger | 1 << 28);
    assert_eq!(b.passes(Ps::from_us(10)), [7], "of those that are unread, and of no later ones");
    b.doorbell(0, 3, trigger | 1 << 28 | (b.word(completions + 16 * ENTRIES) & 0xffff) as u32);
    b.doorbell(0, 2, 1);
    assert_eq!(b.passes(Ps::from_us(10)), [7]);
}

/// A doorbell of completions that says how far software has read changes moderation only where the context lets it.
#[test]
fn a_bare_index_leaves_moderation_alone() {
    for (full_update, told) in [(0, true), (1 << 1, false)] {
        let mut b = Bench::new();
        let (descriptors, completions) = (RINGS, RINGS + 0x400);
        let words = completions >> 6;
        let status = [1 | 1 << 2 | 1 << 27, words as u32, 1 << 26, 1 << 28, full_update, 0, 0, 0];
        b.context(COMPLETION, 0, status);
        b.context(PREFETCH, 0, [1 << 27, 1 << 13, 0, 0, 0, 0, 0, 0]);
        b.context(TO_HOST, 0, [0, 1, descriptors as u32, 0, 0, 0, 0, 0]);
        (0..ENTRIES).for_each(|i| b.put(descriptors + 8 * i, &(DATA + 2048 * i).to_le_bytes()));
        b.doorbell(0, 3, 0);
        b.doorbell(0, 2, ENTRIES as u32 - 2);
        b.port.start_traffic(b.now, &mut b.books);
        b.passes(Ps::from_us(5));
        assert_eq!(b.word(completions + 16 * ENTRIES) & 0xffff > 0, told, "full_upd {full_update}");
    }
}
