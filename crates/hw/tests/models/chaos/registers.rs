//! A guest that does anything to a register interface and its descriptor rings: random accesses of any size and offset,
//! random descriptors (addresses outside memory, lengths 0 and 65535, rings of length 0, absurd segmentation), queues that
//! come and go, traffic meanwhile.
#![allow(dead_code)] // of each fuzzer some

use super::{books, cable, Ram, Random, MAC, MEMORY};
use std::sync::OnceLock;
use wiretime_base::Ps;
use wiretime_hw::memory::MemorySystem;
use wiretime_hw::nic::devices::intel::{e1000, ixgbe};
use wiretime_hw::nic::devices::{self, queues};
use wiretime_hw::nic::{shared_pages, DmaEngine, LocalPages, Nic, Place, Polled, PortStats};
use wiretime_hw::params::{self, Interface, Platform, UserLogic};

/// Rings and buffers are handed over below this address, in the first part of each block, with room for the longest
/// behind it; all else is somebody else's.
const HANDED_OVER: u64 = MEMORY / 2;
const BLOCK: u64 = 65_536;
const BEGINS: u64 = BLOCK / 2;
/// Of a block, what a buffer or ring that begins in its first part may reach.
const REACHED: u64 = BEGINS + LONGEST;
const LONGEST: u64 = 16_384;
/// Where a ring or buffer may begin.
fn handed_over(random: &mut Random) -> u64 {
    random.below(HANDED_OVER / BLOCK) * BLOCK + random.below(BEGINS)
}

fn absurd(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => 0,
        1 => u64::MAX - random.below(4096),
        2 => MEMORY - random.below(64),
        3 => random.word(),
        _ => handed_over(random) & !0xf,
    }
}

/// What the fuzzer knows of an interface, so that it gets somewhere: where to write, and values that make it work.
struct Knowledge {
    bar: u64,
    interesting: Vec<u64>,
    value: fn(&mut Random, u64, u32) -> u32,
    /// Descriptors say how long what they hand over is, so that it may be all of memory.
    everywhere: bool,
}

fn of_8254x() -> Knowledge {
    use e1000::reg;
    let mut interesting = vec![0, 0xc0, 0xd0, 0xc4, 0x5000, 0x2828, 0x3828];
    interesting.extend([reg::RCTL, reg::TCTL, reg::RDBAL, reg::RDLEN, reg::RDT, reg::TDBAL, reg::TDLEN, reg::TDT]);
    Knowledge {
        everywhere: false,
        bar: e1000::BAR_SIZE,
        interesting,
        value: |random, offset, value| match offset {
            // Bases inside what is handed over, so that write-backs stay there too.
            reg::RDBAL | reg::TDBAL => handed_over(random) as u32,
            reg::RDBAH | reg::TDBAH if !random.one_in(50) => 0,
            reg::RDBAH | reg::TDBAH => 0xffff_ffff,
            reg::RDLEN | reg::TDLEN => (random.below(9) * 512) as u32,
            reg::RCTL | reg::TCTL if !random.one_in(8) => value | 2 | 1 << 3 | 1 << 4 | 1 << 15,
            0 if !random.one_in(200) => value & !(1 << 26),
            _ => value,
        },
    }
}

fn of_82599() -> Knowledge {
    use ixgbe::reg;
    let mut interesting =
        vec![0, 0x800, 0x808, 0x880, 0x898, 0xaa0, 0x900, 0xa00, reg::MRQC, reg::RXCTRL, reg::DMATXCTL];
    for queue in [0u64, 1, 2, 15, 63] {
        for which in [0, 4, 8, 0x14, 0x18, 0x28] {
            interesting.extend([0x1000 + queue * 0x40 + which, 0x6000 + queue * 0x40 + which]);
        }
    }
    Knowledge {
        everywhere: false,
        bar: ixgbe::BAR_SIZE,
        interesting,
        value: |random, offset, value| {
            let queue_register = (0x1000..0x2000).contains(&offset) || (0x6000..0x7000).contains(&offset);
            match (offset, offset & 0x3f) {
                (_, 0) if queue_register => handed_over(random) as u32 & !0x7f,
                (_, 4) if queue_register && !random.one_in(50) => 0,
                (_, 8) if queue_register => (random.below(9) * 512) as u32,
                (_, 0x14) if queue_register => value & 0x1000_0003,
                (_, 0x28) if queue_register && !random.one_in(8) => 1 << 25 | value & 0x7f_7f7f,
                (reg::RXCTRL | reg::DMATXCTL, _) if !random.one_in(8) => 1,
                (reg::MRQC, _) => 1 | value & 0xff_0000,
                (reg::FCTRL, _) => 0x700,
                (0, _) if !random.one_in(200) => value & !(1 << 26 | 1 << 3),
                _ => value,
            }
        },
    }
}

/// The same with queues between memories.
fn of_mapped_qdma() -> Knowledge {
    let mut know = of_qdma();
    know.interesting.extend([0x1004, 0x1204]);
    let value = |random: &mut Random, offset, value| match offset {
        0x1004 | 0x1204 => 1,
        0x808 if random.one_in(2) => (of_qdma().value)(random, offset, value) | 1 << 31 | 1 << 17,
        _ => (of_qdma().value)(random, offset, value),
    };
    Knowledge { everywhere: true, value, ..know }
}

/// Two queues, so that all that one needs comes together now and then.
fn of_qdma() -> Knowledge {
    let mut interesting = vec![0, 0x134, 0x204, 0x208, 0x250, 0xa00, 0xa40, 0xa84, 0xab0, 0xb0c, 0xb50, 0xe24];
    for _ in 0..3 {
        interesting.extend((0x804..0x848).step_by(4));
    }
    for queue in [0, 1] {
        interesting.extend((0..4).map(|bell| 0x18000 + queue * 16 + bell * 4));
    }
    Knowledge {
        everywhere: false,
        bar: 0x20000,
        interesting,
        value: |random, offset, value| match offset {
            // Short rings, whose status entries (index << 16), taken for addresses, are still in what is handed over; buffers of
            // any length.
            0x204..=0x240 => (random.below(9)) as u32,
            0xab0..=0xaec if !random.one_in(8) => 64 << random.below(6),
            // Words of contexts: indices and flags, a base that is handed over, what makes them valid.
            0x804 => value | 1 | 1 << 27,
            0x808 if random.one_in(2) => (handed_over(random) >> 6) as u32,
            0x808 => value & 0x0023_f1ff | 1 | 1 << 2 | 1 << 3 | 1 << 13 | 1 << 20,
            0x80c if random.one_in(2) => value & 0x0c00_0000,
            0x80c => handed_over(random) as u32 & !0xf,
            0x810 if !random.one_in(8) => u32::from(random.one_in(2)) << 28,
            // Doorbells: indices that short rings have.
            0x18000..=0x1ffff if !random.one_in(8) => value & 0xffff_0003,
            // Whom they interrupt, and how: a ring's, or a completion ring's.
            0x814 if !random.one_in(8) => value & random.of(&[0x081f, 0x81f0]) as u32,
            // Bases are written whole, or they would be made up.
            0x828..=0x830 => u32::MAX,
            0x824..=0x840 if !random.one_in(8) => u32::MAX,
            // Contexts of these two queues, written more often than taken away.
            0x844 if !random.one_in(8) => {
                let (selector, operation) = (random.of(&[0, 1, 6, 7, 8]), if random.one_in(20) { 3 } else { 1 });
                selector << 1 | operation << 5 | (random.below(2) as u32) << 7
            }
            _ => value,
        },
    }
}

/// What is in memory beforehand.
fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    PATTERN.get_or_init(|| (0..MEMORY).map(|i| (i * 7) as u8).collect())
}

/// What a device and its driver have done.
pub struct Driven {
    pub stats: PortStats,
    pub faults: u64,
    /// Accesses of memory outside of it; accesses that no driver makes.
    pub outside: u64,
    pub odd: u64,
    /// Messages that interrupted.
    pub messages: u64,
}

/// Drives a device with what `random` says, as long as it says anything and no more than so many accesses; a QDMA with queues
/// between memories, or without.
///
/// # Panics
/// Where the device writes what was not handed over; `name` says whose fault it is.
pub fn drive(
    (interface, mapped): (Interface, bool),
    name: &str,
    mut p: Platform,
    random: &mut Random,
    accesses: u64,
) -> Driven {
    let know = match interface {
        Interface::I8254x => of_8254x(),
        Interface::I82599 => of_82599(),
        _ if mapped => of_mapped_qdma(),
        _ => of_qdma(),
    };
    p.nic[0].interface = interface;
    if interface == Interface::Qdma {
        let other: Platform =
            toml::from_str(include_str!("../../../../../platforms/epyc-9654.toml")).expect("a valid platform");
        let q = params::Qdma { queues: 2, user_logic: UserLogic::Wire, ..other.nic[0].qdma.clone().expect("a QDMA") };
        p.nic[0].qdma = Some(q);
    }
    let mut memory = MemorySystem::new(&p, 1);
    let cable = cable(&p, random.seed(), "1Gbps");
    let shared_range = shared_pages(interface).range;
    let queues = queues(&p.nic[0]);
    let pages = LocalPages::new(shared_range.clone());
    let mut port: Box<dyn Nic<Ram> + Send> = devices::port(&p, 0, (MAC, pages), cable);
    let mut engine = DmaEngine::new(&p, 0, 0..1);
    let mut books = books(&p, true);
    books.cohort = Ps(1000)..Ps::from_ms(1);
    port.start_traffic(Ps::ZERO, &mut books);
    let mut ram = Ram::new(pattern().to_vec());
    let before = pattern();
    let mut now: Ps = Ps::ZERO;
    let (mut odd, mut messages) = (0, 0);
    for i in 0..accesses {
        if random.is_over() {
            break;
        }
        let offset = match random.below(3) {
            0 => random.below(know.bar),
            1 => random.of(&know.interesting),
            _ => shared_range.start + random.below(shared_range.end - shared_range.start),
        } & !3;
        let value = random.word() as u32;
        if random.one_in(4) {
            // Any size, any alignment, also beyond the BAR.
            let offset = if random.one_in(100) { random.word() } else { offset + random.below(8) };
            let mut data = [0u8; 16];
            let length = random.below(17) as usize;
            if random.one_in(2) {
                port.read(Place { bar: 0, offset }, &mut data[..length]);
            } else if offset % 4 != 0 || length % 4 != 0 {
                port.write(Place { bar: 0, offset }, &data[..length]);
                odd += 1;
            }
        } else if random.one_in(2) {
            port.read(Place { bar: 0, offset }, &mut [0; 4]);
        } else {
            let value = (know.value)(random, offset, value);
            port.write(Place { bar: random.one_in(100).into(), offset }, &value.to_le_bytes());
        }
        for store in std::mem::take(port.deferred()) {
            port.store(now, store, &mut engine);
        }
        if random.one_in(16) {
            let at = (handed_over(random) & !0xf) as usize;
            let (address, word) = (absurd(random), random.word());
            let word = if random.one_in(4) { word & !0xffff | 0xffff } else { word };
            ram.bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
            // Between memories, this is a length: of some pages.
            let word = if know.everywhere { word & 0xf000_3fff | 1 << 28 } else { word };
            ram.bytes[at + 8..at + 16].copy_from_slice(&word.to_le_bytes());
            if know.everywhere {
                ram.bytes[at + 16..at + 24].copy_from_slice(&absurd(random).to_le_bytes());
            }
        }
        if random.one_in(8) {
            now += Ps(random.below(3_000_000));
            port.advance(now, (&mut memory, &ram), &mut engine, &mut books);
            port.writes().apply(now, &mut ram);
            memory.reached(now);
            port.reached(now);
            engine.reached(now);
            while port.take_message(Ps::MAX).is_some() {
                messages += 1;
            }
        }
        if i % 1000 == 0 {
            port.look_at_pages(now, &mut engine);
            let ring = Polled {
                entries: random.below(1 << 12) as u32,
                ..Polled::whole(0..1 << 16, 16, (i / 1000 % 64) as u16)
            };
            port.polls(0, &ring, random.below(1 << 16), now, &mut books);
        }
    }
    // Receive buffers that the fuzzer placed at MEMORY - n wrote there: that was handed over. The rest is untouched.
    let blocks = (0..HANDED_OVER / BLOCK).map(|block| (block * BLOCK + REACHED, (block + 1) * BLOCK));
    for (from, to) in blocks.chain([(HANDED_OVER, MEMORY - 4096)]).filter(|_| !know.everywhere) {
        let range = from as usize..to as usize;
        if ram.bytes[range.clone()] == before[range] {
            continue;
        }
        for address in from..to {
            let same = ram.bytes[address as usize] == before[address as usize];
            assert!(
                same || ram.was_read(address, LONGEST),
                "{name}: written outside what was handed over: {address:#x}"
            );
        }
    }
    let stats = port.stats(queues, &engine, &books);
    let faults = stats.receive.buffer_faults + stats.transmit.buffer_faults + port.refused_writes();
    Driven { stats, faults, outside: ram.outside.get(), odd, messages }
}
