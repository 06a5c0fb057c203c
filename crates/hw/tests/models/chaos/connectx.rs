//! A ConnectX and a driver that does anything: commands of every kind with contents that are right, nearly right and random,
//! requests, records and doorbells, while packets come.
#![allow(dead_code)] // of each fuzzer some

use super::{books, cable, Ram, Random, MAC, MEMORY};
use wiretime_base::Ps;
use wiretime_hw::memory::MemorySystem;
use wiretime_hw::nic::devices::{self, queues};
use wiretime_hw::nic::{shared_pages, DmaEngine, LocalPages, Nic, Place};
use wiretime_hw::nic::{Books, PortStats};
use wiretime_hw::params::{Interface, Mlx5, Platform};
use wiretime_hw::wire::Cable;

/// Where things are in memory: the command queue, mailboxes, rings, records, buffers.
pub const COMMANDS: u64 = 0x1000;
pub const INPUT: u64 = 0x2000;
pub const OUTPUT: u64 = 0x8000;
pub const EQ: u64 = 0x1_0000;
pub const RECEIVE_CQ: u64 = 0x1_1000;
pub const SEND_CQ: u64 = 0x1_2000;
pub const RQ: u64 = 0x1_3000;
pub const SQ: u64 = 0x1_4000;
pub const RECORDS: u64 = 0x1_5000;
pub const BUFFERS: u64 = 0x2_0000;
pub const LOG: u32 = 4;
pub const UAR: u64 = 0x1_0000;

pub struct Host {
    pub port: Box<dyn Nic<Ram> + Send>,
    pub ram: Ram,
    pub memory: MemorySystem,
    pub engine: DmaEngine,
    pub books: Books,
    pub platform: Platform,
    pub now: Ps,
    pub messages: u64,
    pub posted: [u16; 2],
}

/// A field of a command: a word at a byte.
pub type Word = (usize, u32);

/// A card that reads little ahead, so that it shows.
pub fn usual() -> Mlx5 {
    Mlx5 {
        write_combining: true,
        record_before_requests: true,
        receive_requests_ahead: 8,
        send_blocks_a_read: 4,
        send_blocks_ahead: 16,
        compression_timeout: "2us".parse().unwrap(),
        compression_after: 0,
        read_time: "12.7ns".parse().unwrap(),
        request_line_time: "6.4ns".parse().unwrap(),
        send_packet_time: "20ns".parse().unwrap(),
        fails_at: "0ns".parse().unwrap(),
        queues_fail_at: "0ns".parse().unwrap(),
    }
}

impl Host {
    pub fn new(p: Platform, seed: u64, rate: &str) -> Self {
        Self::of_card(p, (seed, rate), usual())
    }

    /// Of a card with these parameters.
    pub fn of_card(p: Platform, (seed, rate): (u64, &str), card: Mlx5) -> Self {
        let cable = cable(&p, seed, rate);
        Self::at(p, cable, card)
    }

    /// At the end of this cable.
    pub fn at(mut p: Platform, cable: Cable, card: Mlx5) -> Self {
        p.nic[0].interface = Interface::Connectx6Dx;
        p.nic[0].mlx5 = Some(card);
        let pages = LocalPages::new(shared_pages(Interface::Connectx6Dx).range);
        let port = devices::port(&p, 0, (MAC, pages), cable);
        let mut new = Self {
            port,
            ram: Ram::new(vec![0; MEMORY as usize]),
            memory: MemorySystem::new(&p, 1),
            engine: DmaEngine::new(&p, 0, 0..1),
            books: books(&p, true),
            platform: p,
            now: Ps::ZERO,
            messages: 0,
            posted: [0; 2],
        };
        new.write(0x10, 0);
        new.write(0x14, COMMANDS as u32);
        new
    }

    pub fn write(&mut self, offset: u64, value: u32) {
        self.port.write(Place { bar: 0, offset }, &value.to_be_bytes());
    }

    pub fn read(&mut self, offset: u64) -> u32 {
        let mut data = [0; 4];
        self.port.read(Place { bar: 0, offset }, &mut data);
        u32::from_be_bytes(data)
    }

    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = (at % (MEMORY - 4096)) as usize;
        self.ram.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn word(&self, at: u64) -> u32 {
        let at = at as usize;
        u32::from_be_bytes(self.ram.bytes[at..at + 4].try_into().unwrap())
    }

    /// A doorbell of eight bytes, or four.
    pub fn ring(&mut self, place: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        self.port.write(Place { bar: 0, offset: UAR + place }, &bytes);
    }

    pub fn pass(&mut self, time: Ps) {
        for store in std::mem::take(self.port.deferred()) {
            self.port.store(self.now, store, &mut self.engine);
        }
        self.now += time;
        self.port.advance(self.now, (&mut self.memory, &self.ram), &mut self.engine, &mut self.books);
        self.port.writes().apply(self.now, &mut self.ram);
        self.memory.reached(self.now);
        self.port.reached(self.now);
        self.engine.reached(self.now);
        while self.port.take_message(Ps::MAX).is_some() {
            self.messages += 1;
        }
    }

    /// A command with these words, in mailboxes of 512 bytes; status and the second word of its answer.
    pub fn command(&mut self, input: &[u8]) -> (u8, u32) {
        let length = input.len().max(16) as u32;
        let mut entry = [0; 64];
        entry[0] = 7;
        entry[4..8].copy_from_slice(&length.to_be_bytes());
        entry[8..16].copy_from_slice(&INPUT.to_be_bytes());
        entry[0x10..0x10 + input.len().min(16)].copy_from_slice(&input[..input.len().min(16)]);
        entry[0x30..0x38].copy_from_slice(&OUTPUT.to_be_bytes());
        entry[0x38..0x3c].copy_from_slice(&128u32.to_be_bytes());
        entry[0x3f] = 1;
        for (i, part) in input[input.len().min(16)..].chunks(512).enumerate() {
            let at = INPUT + 1024 * i as u64;
            self.put(at, part);
            self.put(at + 0x230, &(at + 1024).to_be_bytes());
        }
        self.put(COMMANDS, &entry);
        self.write(0x18, 1);
        self.pass(Ps::from_us(3));
        let at = COMMANDS as usize;
        // Where it has not been given back something else was written there: no answer.
        if self.ram.bytes[at + 0x3f] & 1 != 0 {
            return (u8::MAX, 0);
        }
        (self.ram.bytes[at + 0x20], self.word(COMMANDS + 0x28))
    }

    pub fn of(words: &[Word], length: usize) -> Vec<u8> {
        let mut input = vec![0; length];
        for &(at, word) in words {
            input[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        input
    }

    pub fn make(&mut self, words: &[Word], length: usize) -> u32 {
        let (status, number) = self.command(&Self::of(words, length));
        assert_eq!(status, 0, "{words:x?}");
        number & 0xff_ffff
    }

    /// Everything that receives and sends: event, completion, receive and send queue, key, table.
    pub fn set_up(&mut self) -> (u32, u32, u32) {
        let eq = self.make(&event_queue(), QUEUE_COMMAND);
        let [received, sent] = [(RECEIVE_CQ, RECORDS + 64), (SEND_CQ, RECORDS + 128)]
            .map(|(at, record)| self.make(&completion_queue(eq, at, record), QUEUE_COMMAND));
        let key = self.make(&KEY, 0x110) << 8;
        let rq = self.make(&receive_queue(received), QUEUE_COMMAND);
        let sq = self.make(&send_queue(sent), QUEUE_COMMAND);
        let ready = 1 << 20;
        self.make(&[(0, 0x0909_0000), (8, rq), (0x20, ready)], 0x110);
        self.make(&[(0, 0x0905_0000), (8, sq), (0x20, ready)], 0x110);
        let tir = self.make(&[(0, 0x0900_0000), (0x3c, rq)], 0x110);
        let table = self.make(&[(0, 0x0930_0000)], 0x40);
        let group = self.make(&[(0, 0x0933_0000), (0x14, table)], 0x400);
        let entry = [(0, 0x0936_0000), (0x14, table), (0x44, group), (0x4c, 4), (0x50, 1), (0x340, 2 << 24 | tir)];
        self.make(&entry, 0x348);
        self.make(&[(0, 0x092f_0000), (0x14, table)], 0x40);
        for index in 0..1 << LOG {
            self.put(RQ + 16 * index, &2048u32.to_be_bytes());
            self.put(RQ + 16 * index + 4, &key.to_be_bytes());
            self.put(RQ + 16 * index + 8, &(BUFFERS + 2048 * index).to_be_bytes());
        }
        (key, sq, received)
    }

    pub fn post(&mut self, side: usize, count: u16) {
        self.posted[side] = self.posted[side].wrapping_add(count);
        self.put(RECORDS + 4 * side as u64, &u32::from(self.posted[side]).to_be_bytes());
    }

    pub fn stats(&self) -> PortStats {
        self.port.stats(queues(&self.platform.nic[0]), &self.engine, &self.books)
    }
}

/// Bytes of a command that makes a queue, the page of its ring at the end.
pub const QUEUE_COMMAND: usize = 0x118;

/// Makes a key of all physical memory; its low byte is 0.
const KEY: [Word; 2] = [(0, 0x0200_0000), (0x1c, 1 << 31)];

fn queue(words: &[Word], at: u64) -> Vec<Word> {
    [words, &[(0x110, 0), (0x114, at as u32)]].concat()
}

fn event_queue() -> Vec<Word> {
    queue(&[(0, 0x0301_0000), (0x1c, LOG << 24), (0x24, 3)], EQ)
}

/// Its completions may share entries.
fn completion_queue(eq: u32, at: u64, record: u64) -> Vec<Word> {
    queue(&[(0, 0x0400_0000), (0x10, 1 << 14), (0x1c, LOG << 24), (0x24, eq), (0x4c, record as u32)], at)
}

fn receive_queue(cq: u32) -> Vec<Word> {
    queue(&[(0, 0x0908_0001), (0x28, cq), (0x50, 1 << 28), (0x64, RECORDS as u32), (0x70, 4 << 16 | LOG)], RQ)
}

fn send_queue(cq: u32) -> Vec<Word> {
    queue(&[(0, 0x0904_0000), (0x28, cq), (0x50, 1 << 28), (0x64, RECORDS as u32), (0x70, 6 << 16 | LOG)], SQ)
}

/// A command that makes an object as it should be but for some of its words: sizes, numbers, places. And the command by which
/// it goes.
fn nearly_right(random: &mut Random) -> (Vec<u8>, u32) {
    let number = random.of(&[0, 1, 2, 3, 64, 65, 0x100, 0x101]);
    let at = random.of(&[EQ, RECEIVE_CQ, SEND_CQ, RQ, SQ, BUFFERS, MEMORY - 4096]);
    let (mut words, goes) = match random.below(5) {
        0 => (event_queue(), 0x302),
        1 => (completion_queue(number, at, RECORDS + 8 * random.below(64)), 0x401),
        2 => (receive_queue(number), 0x90a),
        3 => (send_queue(number), 0x906),
        _ => (KEY.to_vec(), 0x202),
    };
    for _ in 0..random.below(3) {
        // Not the opcode. The logarithm of a size is the first byte of one word, the last of another.
        let word = 1 + random.below(words.len() as u64 - 1) as usize;
        let (log, other) = (random.below(20) as u32, random.word() as u32);
        words[word].1 = random.of(&[log, log << 24, 4 << 16 | log, other]);
    }
    (Host::of(&words, QUEUE_COMMAND), goes << 16)
}

/// Commands that do something.
pub const COMMANDS_KNOWN: [u16; 42] = [
    0x100, 0x101, 0x10a, 0x200, 0x202, 0x203, 0x301, 0x302, 0x400, 0x401, 0x403, 0x750, 0x754, 0x755, 0x76f, 0x770,
    0x773, 0x800, 0x802, 0x805, 0x900, 0x901, 0x902, 0x904, 0x905, 0x906, 0x907, 0x908, 0x909, 0x90a, 0x90b, 0x916,
    0x917, 0x918, 0x92f, 0x930, 0x931, 0x933, 0x934, 0x936, 0x938, 0x93c,
];

/// Drives a device with what `random` says, as long as it says anything and no more than so many rounds.
pub fn drive(h: &mut Host, random: &mut Random, rounds: u64) {
    let (key, sq, cq) = h.set_up();
    h.post(0, 1 << LOG);
    h.port.start_traffic(h.now, &mut h.books);
    for round in 0..rounds {
        if random.is_over() {
            break;
        }
        match random.below(8) {
            0 if random.one_in(3) => {
                let (makes, goes) = nearly_right(random);
                let (status, number) = h.command(&makes);
                // What has been made goes again, mostly: there is room for so many.
                if status == 0 && !random.one_in(8) {
                    h.command(&Host::of(&[(0, goes), (8, number & 0xff_ffff)], 16));
                }
            }
            0 => {
                // A command; parts of it are right.
                let mut input = vec![0; 16 + random.below(0x400) as usize];
                for byte in &mut input {
                    *byte = if random.one_in(4) { random.word() as u8 } else { 0 };
                }
                let opcode = if random.one_in(8) { random.word() as u16 } else { random.of(&COMMANDS_KNOWN) };
                input[..2].copy_from_slice(&opcode.to_be_bytes());
                // Numbers of objects are small, so that they meet; what works is seldom taken away.
                let gone = matches!(opcode, 0x202 | 0x302 | 0x401 | 0x906 | 0x90a | 0x902 | 0x931 | 0x938 | 0x92f);
                if gone && !random.one_in(50) {
                    continue;
                }
                let number = random.of(&[1, 2, 64, 65, 0x100, 0x4000, 0x10, 3]) + random.below(2) as u32;
                input[8..12].copy_from_slice(&number.to_be_bytes());
                h.command(&input);
            }
            1 => {
                // A request to send, somewhere in the ring, its segments mostly in the key.
                let at = SQ + 64 * random.below(1 << LOG);
                let other = random.word() as u32;
                let opcode = random.of(&[0u32, 0x0a, 0x0e, 0x25, 0x29, 0x29, other & 0xff]);
                let mut words = [opcode, sq << 8 | random.below(64) as u32, 8, 0, 0, random.word() as u32, 0, 0];
                words[4] = (random.below(256) as u32) << 24;
                words[7] = random.of(&[0, 0, 18 << 16, other]);
                for (i, word) in (0..).zip(words) {
                    h.put(at + 4 * i, &word.to_be_bytes());
                }
                for i in 0..2 {
                    let length = random.of(&[60, 1514, 0, 1 << 31 | 8, other]);
                    let key = if random.one_in(30) { random.word() as u32 } else { key };
                    let address = if random.one_in(30) { random.word() } else { BUFFERS };
                    h.put(at + 32 + 16 * i, &length.to_be_bytes());
                    h.put(at + 36 + 16 * i, &key.to_be_bytes());
                    h.put(at + 40 + 16 * i, &address.to_be_bytes());
                }
            }
            2 => {
                let count = if random.one_in(20) { random.word() as u16 } else { random.below(4) as u16 };
                h.post(random.below(2) as usize, count);
            }
            3 => h.ring(0x800 + 0x100 * random.below(4), &[0, sq << 8 | 4]),
            4 => h.ring(random.of(&[0x20, 0x40, 0x48]), &[random.word() as u32 & 0x0100_000f, cq]),
            5 => {
                let place = random.word() & 0x1ff_fffc;
                let bytes = random.word().to_le_bytes();
                h.port.write(Place { bar: 0, offset: place }, &bytes[..4 * (1 + random.below(2) as usize)]);
                // The command queue stays where it is, most of the time.
                h.write(0x14, COMMANDS as u32);
                h.write(0x10, 0);
            }
            6 => {
                // Receive requests, some of them nonsense.
                let at = RQ + 16 * random.below(1 << LOG);
                let address = if random.one_in(20) { random.word() } else { BUFFERS };
                h.put(at + 8, &address.to_be_bytes());
            }
            _ => {
                let mut data = [0; 8];
                h.port.read(Place { bar: 0, offset: random.word() & 0x3fff }, &mut data[..random.below(9) as usize]);
            }
        }
        if random.one_in(4) {
            h.pass(Ps(random.below(2_000_000)));
        }
        if round % 4096 == 0 {
            // What has gone into an error starts anew, as a driver would have it.
            for (modify, number) in [(0x0909_0000, 0x100), (0x0905_0000, 0x4000)] {
                for state in [0, 1 << 20] {
                    h.command(&Host::of(&[(0, modify), (8, number), (0x20, state)], 0x110));
                }
            }
            h.posted = [0; 2];
        }
    }
}
